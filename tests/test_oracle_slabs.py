"""Our own search over unions of slabs, against enumeration and against SCIP."""

from dataclasses import replace

import numpy as np
import pytest
from oracle_reference import best_in_slabs, random_instance, violation

from tensorplan.hypotheses import rounding_slack
from tensorplan.oracle.base import OracleStatus
from tensorplan.oracle.scip import ScipOracle
from tensorplan.oracle.slabs import SlabOracle

EXACT = 1e-9  # relative: how far the bound may be below, and the parameter outside
AGREEMENT = 1e-6
LOOSE = 1e-5  # relative: how far the bound may be above where the ball all but touches a flat


@pytest.mark.parametrize("start", range(0, 300, 50))
def test_the_search_agrees_with_enumeration(start: int):
    oracle = SlabOracle()
    for seed in range(start, start + 50):
        objective, beliefs = random_instance(seed)
        scale = beliefs.norm * float(np.linalg.norm(objective))
        answer = oracle.maximise(objective, beliefs)
        low = best_in_slabs(objective, beliefs, tolerance=1e-11).value
        high = best_in_slabs(objective, beliefs, widen=EXACT).value
        if answer.status is OracleStatus.EMPTY:
            assert low == -np.inf, seed
            continue
        assert answer.status is OracleStatus.OPTIMAL, seed
        assert answer.upper >= low - EXACT * scale, seed
        assert low - AGREEMENT * scale <= answer.value <= high + AGREEMENT * scale, seed
        allowed = replace(beliefs, root=beliefs.root or rounding_slack(beliefs.norm))
        loosest = best_in_slabs(objective, allowed, widen=EXACT).value
        assert answer.value <= answer.upper <= loosest + LOOSE * scale, seed
        assert violation(answer.theta, allowed) <= 3 * EXACT, seed


@pytest.mark.parametrize("start", range(1000, 1100, 50))
def test_the_search_agrees_with_scip(start: int):
    pytest.importorskip("pyscipopt")
    for seed in range(start, start + 50):
        objective, exact = random_instance(seed)
        beliefs = replace(exact, root=exact.root or rounding_slack(exact.norm))
        scale = beliefs.norm * float(np.linalg.norm(objective))
        ours = SlabOracle().maximise(objective, beliefs)
        theirs = ScipOracle("slabs", gap=0.0).maximise(objective, beliefs)
        # SCIP's set is a little wider, which matters where a ball touches a slab.
        wide = best_in_slabs(objective, beliefs, widen=1e-7).value
        if wide - ours.value <= 1e-4 * scale:
            assert theirs.upper >= ours.value - EXACT * scale, seed
            assert theirs.value <= ours.upper + wide - ours.value + AGREEMENT * scale, seed
        if ours.status is not theirs.status:
            assert wide > -np.inf, seed
            assert ours.status is OracleStatus.EMPTY, seed
