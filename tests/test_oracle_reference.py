"""The enumeration that oracles are measured against, itself against A^K problems by Clarabel."""

import itertools

import numpy as np
import pytest
from oracle_reference import (
    KINDS,
    UndecidedError,
    best_by_choices,
    best_in_slabs,
    random_instance_with_cuts,
    violation,
)

NEAR = 1e-7  # relative: sets that change by more when widened by it are too thin for Clarabel
AGREEMENT = 1e-6


@pytest.mark.parametrize("kind", range(len(KINDS)), ids=KINDS)
def test_enumeration_agrees_with_all_choices_one_by_one(kind: int):
    pytest.importorskip("clarabel")
    compared = 0
    for seed in range(kind, kind + 12 * len(KINDS), len(KINDS)):
        instance = random_instance_with_cuts(seed)
        objective, beliefs = instance.objective, instance.beliefs
        low, high = (best_in_slabs(objective, beliefs, widen=w).value for w in (-NEAR, NEAR))
        thick = low > -np.inf or high == -np.inf
        if not thick:
            continue
        try:
            answer = best_by_choices(objective, beliefs)
        except UndecidedError:
            continue
        compared += 1
        scale = beliefs.norm * float(np.linalg.norm(objective))
        assert low - AGREEMENT * scale <= answer.value, seed
        assert answer.value <= high + AGREEMENT * scale, seed
        assert low <= best_in_slabs(objective, beliefs).value <= high, seed
    # A ball that touches its cut has no interior at all.
    assert compared >= (0 if KINDS[kind] == "tangent" else 2)


def test_widening_tells_empty_sets_from_thin_ones():
    for seed in range(10 * len(KINDS)):
        instance = random_instance_with_cuts(seed)
        best = best_in_slabs(instance.objective, instance.beliefs, tolerance=1e-12)
        wide = best_in_slabs(instance.objective, instance.beliefs, widen=NEAR)
        if instance.kind == "empty":
            assert wide.value == -np.inf, seed
        elif instance.kind == "tangent":
            assert best.value > -np.inf, seed
        if best.value > -np.inf:
            assert violation(best.theta, instance.beliefs) <= 1e-11, seed
            assert wide.value >= best.value, seed


def test_the_instances_are_what_they_are_said_to_be():
    seen = [random_instance_with_cuts(seed) for seed in range(20 * len(KINDS))]
    for instance in seen:
        beliefs = instance.beliefs
        assert beliefs.dim <= 3
        assert len(beliefs.states) <= 4
        assert len(beliefs.cuts) <= 7
        assert all(len(state.rows) <= 3 for state in beliefs.states)
    late = [len(instance.sets) > 1 for instance in seen if instance.kind == "late cuts"]
    assert sum(late) >= len(late) / 2
    assert all(len(instance.sets) > 1 for instance in seen if instance.kind == "refined")
    assert {len(instance.objective) for instance in seen} == {1, 2, 3}


def test_later_sets_lie_within_earlier_ones():
    for seed in range(30 * len(KINDS)):
        instance = random_instance_with_cuts(seed)
        values = [
            best_in_slabs(instance.objective, beliefs, tolerance=1e-12).value
            for beliefs in instance.sets
        ]
        for before, after in itertools.pairwise(values):
            assert after == -np.inf or after <= before + 1e-9 * (1 + abs(after)), seed
