"""Ranges over the relaxation, what a bound leans on, and ranges of single entries."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from oracle_reference import best_in_slabs, random_instance_with_cuts
from oracle_sets import SURE, believed, growing, random_tabular, searched, state, unit

from tensorplan.errors import SettingError
from tensorplan.hypotheses import CriticalState, Cuts, Hypotheses
from tensorplan.oracle.slabs import SlabOracle
from tensorplan.records import FloatArray

INSIDE = 3e-9  # relative to the ball: how far a range may leave out an allowed value
AGREEMENT = 1e-6  # ... and be from the exact one
STEP = 1e-4
"""By how much a slab is widened to see what the bound leans on."""

Within = tuple[FloatArray, float, float]


def oracle() -> SlabOracle:
    return SlabOracle(kernels="plain")


def most(direction: FloatArray, beliefs: Hypotheses) -> float:
    """What some allowed parameter surely gives."""
    return best_in_slabs(direction, beliefs, tolerance=SURE).value


def best(direction: FloatArray, beliefs: Hypotheses) -> float:
    """The maximum, but for what rounding puts beside the set."""
    return best_in_slabs(direction, beliefs, tolerance=1e-11).value


def holding(beliefs: Hypotheses, within: Within) -> Hypotheses:
    """The set with one more cut."""
    normal, low, high = within
    return beliefs.with_cuts(Cuts(normal[None], np.array([low]), np.array([high])))


# --- spans ---------------------------------------------------------------------------------------


def test_the_ball_alone() -> None:
    beliefs = Hypotheses(dim=3, norm=2.0, root=0.0)
    directions = np.array([[1.0, 0.0, 0.0], [3.0, 0.0, 4.0], [0.0, 0.0, 0.0]])
    found = oracle().spans(directions, beliefs)
    np.testing.assert_allclose(found, [[-2, 2], [-10, 10], [0, 0]], atol=1e-12)


def test_a_cut_and_a_range_within_it() -> None:
    """0 <= x <= .5 in the unit disc; then -1 <= y <= .1 for a while, and no longer."""
    beliefs = Hypotheses(dim=2, norm=1.0, root=0.0)
    beliefs = beliefs.with_cuts(Cuts(np.array([[2.0, 0.0]]), np.array([0.0]), np.array([1.0])))
    ours, directions = oracle(), np.array([[1.0, 0.0], [1.0, 1.0]])
    plain = [[0, 0.5], [-1, 0.5 + np.sqrt(0.75)]]
    np.testing.assert_allclose(ours.spans(directions, beliefs), plain, atol=1e-8)
    within = (np.array([0.0, 1.0]), -1.0, 0.1)
    np.testing.assert_allclose(
        ours.spans(directions, beliefs, within), [[0, 0.5], [-1, 0.6]], atol=1e-8
    )


@pytest.mark.parametrize("start", [0, 40])
def test_spans_are_those_of_the_relaxation_and_hold_what_is_allowed(start: int) -> None:
    """Without claims: exactly the range over ball and cuts, hence all of the union's."""
    seen = 0
    for seed in range(start, start + 40):
        instance = random_instance_with_cuts(seed)
        objective, beliefs = instance.objective, searched(instance.sets[-1])
        beliefs = replace(beliefs, bellman=False)
        relaxed = replace(beliefs, states=())
        rng = np.random.default_rng(seed)
        directions = np.concatenate([objective[None], rng.normal(size=(2, beliefs.dim))])
        if most(directions[0], relaxed) == -np.inf:
            continue
        seen += 1
        found = oracle().spans(directions, relaxed)
        with_states = oracle().spans(directions, beliefs)
        for direction, own, ours in zip(directions, found, with_states, strict=True):
            size = unit(direction, beliefs)
            exact = np.array([-best(-direction, relaxed), best(direction, relaxed)])
            np.testing.assert_allclose(own, exact, atol=AGREEMENT * size, err_msg=str(seed))
            assert own[0] <= -most(-direction, relaxed) + INSIDE * size
            assert own[1] >= most(direction, relaxed) - INSIDE * size
            if (high := most(direction, beliefs)) > -np.inf:
                assert ours[1] >= high - INSIDE * size, seed
                assert ours[0] <= -most(-direction, beliefs) + INSIDE * size, seed
    assert seen > 20


def test_what_was_concluded_narrows_spans_and_loses_nothing() -> None:
    narrower = 0
    for seed in range(0, 60, 2):
        tabular = random_tabular(seed, most=2)
        beliefs = searched(tabular.beliefs)
        ours, axes = oracle(), np.eye(beliefs.dim)
        before = ours.spans(axes, beliefs)
        ours.tighten(beliefs)
        ours.maximise(axes[0], beliefs)
        after = ours.spans(axes, beliefs)
        narrower += bool(np.any(after[:, 1] - after[:, 0] < 0.99 * (before[:, 1] - before[:, 0])))
        for axis, (low, high) in zip(axes, after, strict=True):
            if (top := most(axis, beliefs)) > -np.inf:
                assert high >= top - INSIDE * beliefs.norm, seed
                assert low <= -most(-axis, beliefs) + INSIDE * beliefs.norm, seed
        assert np.all(after[:, 0] >= before[:, 0] - AGREEMENT * beliefs.norm)
        assert np.all(after[:, 1] <= before[:, 1] + AGREEMENT * beliefs.norm)


def test_a_range_within_is_one_more_cut_and_is_forgotten() -> None:
    rng = np.random.default_rng(5)
    beliefs = Hypotheses(dim=3, norm=1.5, root=0.0)
    ours, directions = oracle(), rng.normal(size=(4, 3))
    for _ in range(3):
        normal = rng.normal(size=3)
        within = (normal, -0.3, 0.6)
        found = ours.spans(directions, beliefs, within)
        plain = oracle().spans(directions, holding(beliefs, within))
        np.testing.assert_allclose(found, plain, atol=AGREEMENT * 5)
    upper = ours.maximise(directions[0], beliefs).upper
    assert upper == pytest.approx(1.5 * float(np.linalg.norm(directions[0])), rel=1e-6)


def test_an_empty_relaxation_says_nothing() -> None:
    beliefs = Hypotheses(dim=2, norm=1.0, root=0.0)
    beliefs = holding(beliefs, (np.array([1.0, 0.0]), 3.0, 4.0))
    found = oracle().spans(np.array([[0.0, 2.0]]), beliefs)
    np.testing.assert_allclose(found, [[-2, 2]])


# --- weights -------------------------------------------------------------------------------------


def widened(beliefs: Hypotheses, place: int, action: int) -> Hypotheses:
    states = list(beliefs.states)
    radii = beliefs.radii(states[place]).copy()
    radii[action] += STEP
    states[place] = replace(states[place], radii=radii)
    return replace(beliefs, states=tuple(states))


def noisy_set(seed: int, *, bellman: bool = False) -> tuple[FloatArray, Hypotheses]:
    """Three states of two actions in general position, with room in every slab."""
    rng = np.random.default_rng([seed, 41])
    hidden = rng.normal(size=3)
    states: list[CriticalState] = []
    for _ in range(3):
        rows = rng.normal(size=(2, 4))
        rows[:, 0] = -rows[:, 1:] @ hidden - bellman * np.array([0.0, rng.exponential()])
        states.append(state(rows.tolist(), rng.uniform(0.02, 0.3, size=2).tolist()))
    norm = 1.3 * float(np.linalg.norm(hidden))
    return rng.normal(size=3), believed(*states, norm=norm, bellman=bellman)


@pytest.mark.parametrize("bellman", [False, True])
def test_weights_are_what_the_bound_rises_by(bellman: bool) -> None:
    """Finite differences of the maximum by enumeration."""
    leant = 0
    for seed in range(25):
        objective, beliefs = noisy_set(seed, bellman=bellman)
        ours = SlabOracle(kernels="plain", gap=1e-10)
        assert ours.maximise(objective, beliefs).upper < np.inf
        weights = ours.weights()
        assert weights.shape == (3, 2)
        base = best(objective, beliefs)
        for place in range(3):
            for action in range(2):
                rise = best(objective, widened(beliefs, place, action)) - base
                assert weights[place, action] == pytest.approx(rise / STEP, abs=5e-3), seed
        leant += int(np.count_nonzero(weights > 1e-6))
    assert leant > 25


def test_weights_are_in_the_units_of_the_objective() -> None:
    objective, beliefs = noisy_set(3)
    ours = oracle()
    ours.maximise(objective, beliefs)
    once = ours.weights()
    ours.maximise(10 * objective, beliefs)
    np.testing.assert_allclose(ours.weights(), 10 * once, rtol=1e-6)


def test_a_bound_that_leans_on_the_ball_alone_has_no_weights() -> None:
    wide = state([[0.0, 1.0, 0.0]], [9.0])
    ours = oracle()
    ours.maximise(np.array([1.0, 1.0]), believed(wide))
    assert not ours.weights().any()
    ours.maximise(np.array([1.0, 1.0]), Hypotheses(dim=2, norm=1.0, root=0.0))
    assert ours.weights().shape == (0, 1)


def test_weights_need_an_answer() -> None:
    with pytest.raises(SettingError, match="maximise first"):
        oracle().weights()


# --- box -----------------------------------------------------------------------------------------


def test_boxes_hold_every_allowed_entry() -> None:
    narrower = known = 0
    for seed in range(40):
        tabular = random_tabular(seed)
        for beliefs in growing(searched(tabular.beliefs)):
            found = oracle().box(beliefs)
            if found is None:
                continue
            known += 1
            for axis, (low, high) in zip(np.eye(beliefs.dim), found, strict=True):
                if (top := most(axis, beliefs)) > -np.inf:
                    assert high >= top - INSIDE * beliefs.norm, seed
                    assert low <= -most(-axis, beliefs) + INSIDE * beliefs.norm, seed
            assert np.all(found[:, 0] >= -beliefs.norm)
            assert np.all(found[:, 1] <= beliefs.norm)
            narrower += bool(np.any(found[:, 1] - found[:, 0] < beliefs.norm))
    assert narrower > 10
    assert known > 40


def test_a_chain_has_the_box_of_its_values() -> None:
    """Axis 0 earns 1 and goes on to axis 1, which earns .5 and ends."""
    first = state([[1.0, -1.0, 1.0]], [0.01], [1.0, 0.0])
    second = state([[0.5, 0.0, -1.0]], [0.02], [0.0, 1.0], stage=2)
    found = oracle().box(believed(first, second, norm=10.0))
    assert found is not None
    np.testing.assert_allclose(found, [[1.47, 1.53], [0.48, 0.52]], atol=1e-6)


def test_features_off_the_axes_have_no_box() -> None:
    askew = state([[1.0, -0.6, -0.6]], [0.01], [0.6, 0.6])
    assert oracle().box(believed(askew)) is None
