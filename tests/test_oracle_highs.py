"""HiGHS as an oracle: unions of slabs against enumeration and SCIP, and what it says at limits."""

import subprocess
import sys

import numpy as np
import pytest
from oracle_reference import KINDS, best_in_slabs, random_instance_with_cuts, violation

from tensorplan.errors import OracleError, SettingError
from tensorplan.hypotheses import CriticalState, Cuts, Hypotheses
from tensorplan.oracle import ORACLES, make_oracle
from tensorplan.oracle.base import Optimum, OracleStatus
from tensorplan.oracle.external import ACCEPTED, BOUND_SLACK
from tensorplan.oracle.highs import HighsOracle
from tensorplan.oracle.scip import ScipOracle
from tensorplan.records import FloatArray

pytest.importorskip("highspy")

GAP = 1e-6
TOUCHING = 1e-7  # sets are compared with themselves widened by this much


def unit(objective: FloatArray, beliefs: Hypotheses) -> float:
    return beliefs.norm * float(np.linalg.norm(objective))


def check_bounds(answer: Optimum, objective: FloatArray, beliefs: Hypotheses) -> None:
    scale = unit(objective, beliefs)
    assert answer.status is OracleStatus.OPTIMAL
    assert answer.value == pytest.approx(float(objective @ answer.theta), abs=1e-12)
    assert np.linalg.norm(answer.theta) <= beliefs.norm * (1 + 1e-12)
    assert answer.value <= answer.upper <= scale * (1 + 1e-12)
    assert answer.upper - answer.value <= GAP + 2 * BOUND_SLACK * scale


def noisy(dim: int, count: int, cuts: int, seed: int = 0) -> tuple[FloatArray, Hypotheses]:
    """A set around a hidden parameter of norm 1, A = 3."""
    rng = np.random.default_rng(seed)
    hidden = rng.normal(size=dim)
    hidden /= np.linalg.norm(hidden)
    states: list[CriticalState] = []
    for _ in range(count):
        rows = 0.3 * rng.normal(size=(3, dim + 1))
        rows[0, 0] = -rows[0, 1:] @ hidden
        states.append(CriticalState(1, rows))
    normals = 0.3 * rng.normal(size=(cuts, dim))
    room = rng.exponential(0.3, size=(2, cuts))
    limits = Cuts(normals, normals @ hidden - room[0], normals @ hidden + room[1])
    return rng.normal(size=dim), Hypotheses(dim, 1.5, 1e-3, tuple(states), cuts=limits)


# Against enumeration, and against SCIP.


@pytest.mark.parametrize("kind", range(len(KINDS)), ids=KINDS)
def test_it_agrees_with_enumeration(kind: int):
    for seed in range(kind, kind + 20 * len(KINDS), len(KINDS)):
        instance = random_instance_with_cuts(seed)
        objective, beliefs = instance.objective, instance.beliefs
        answer = HighsOracle(gap=GAP).maximise(objective, beliefs)
        scale = unit(objective, beliefs)
        low = best_in_slabs(objective, beliefs, tolerance=1e-11).value
        high = best_in_slabs(objective, beliefs, widen=TOUCHING).value
        if answer.status is OracleStatus.EMPTY:
            assert low == -np.inf, seed
            assert answer.upper == answer.value == -np.inf
            assert not answer.theta.any()
            continue
        check_bounds(answer, objective, beliefs)
        assert violation(answer.theta, beliefs) <= ACCEPTED, seed
        assert low - 1e-9 * scale <= answer.upper <= high + GAP + 1e-6 * scale, seed
        assert answer.value <= high + 1e-9 * scale, seed


@pytest.mark.parametrize(("dim", "count", "cuts"), [(5, 12, 0), (6, 12, 20)])
def test_it_agrees_with_scip(dim: int, count: int, cuts: int):
    pytest.importorskip("pyscipopt")
    objective, beliefs = noisy(dim, count, cuts)
    ours = HighsOracle().maximise(objective, beliefs)
    theirs = ScipOracle("slabs").maximise(objective, beliefs)
    check_bounds(ours, objective, beliefs)
    assert ours.value == pytest.approx(theirs.value, abs=3e-6)


# Cases with a known answer.


def test_the_ball_alone():
    objective = np.random.default_rng(1).normal(size=30)
    answer = HighsOracle().maximise(objective, Hypotheses(30, 2.0, 0.0))
    check_bounds(answer, objective, Hypotheses(30, 2.0, 0.0))
    np.testing.assert_allclose(answer.theta, 2 * objective / np.linalg.norm(objective), atol=1e-3)


def test_a_cut_beyond_the_ball_needs_no_search():
    cuts = Cuts(np.array([[1.0, 0.0]]), np.array([1.5]), np.array([np.inf]))
    answer = HighsOracle().maximise(np.ones(2), Hypotheses(2, 1.0, 0.0, cuts=cuts))
    assert (answer.status, answer.nodes) == (OracleStatus.EMPTY, 0)


def test_radii_of_their_own_and_bellman_cuts():
    state = CriticalState(1, np.array([[-0.25, 1.0], [0.5, 1.0]]), np.array([0.0, 0.9]))
    beliefs = Hypotheses(1, 1.0, 1e-3, (state,))
    answer = HighsOracle().maximise(np.ones(1), beliefs)
    assert answer.value == pytest.approx(0.4, abs=1e-6)
    both = Hypotheses(1, 1.0, 1e-3, (state,), bellman=True)
    assert HighsOracle().maximise(np.ones(1), both).value == pytest.approx(0.25, abs=1e-6)


def test_no_objective():
    beliefs = Hypotheses(2, 1.0, 0.0, (CriticalState(1, np.array([[-0.5, 1.0, 0.0]])),))
    answer = HighsOracle().maximise(np.zeros(2), beliefs)
    assert (answer.status, answer.value, answer.upper) == (OracleStatus.OPTIMAL, 0, 0)
    assert answer.theta[0] == pytest.approx(0.5, abs=1e-6)


# Limits.


def test_limits_leave_a_valid_bound():
    objective, beliefs = noisy(6, 16, 0)
    best = HighsOracle().maximise(objective, beliefs)
    answer = HighsOracle(node_limit=1).maximise(objective, beliefs)
    assert answer.status is OracleStatus.LIMIT
    assert answer.nodes < best.nodes
    assert best.value - 1e-9 <= answer.upper <= unit(objective, beliefs) + 1e-12
    assert answer.value == pytest.approx(float(objective @ answer.theta))
    assert answer.value <= answer.upper + 1e-12


def test_no_time_at_all():
    objective, beliefs = noisy(4, 6, 0)
    answer = HighsOracle(time_limit=0.0).maximise(objective, beliefs)
    assert answer.status is OracleStatus.LIMIT
    assert answer.value == pytest.approx(answer.upper)
    assert answer.upper >= HighsOracle().maximise(objective, beliefs).value


def test_the_same_seed_gives_the_same_answer():
    objective, beliefs = noisy(5, 10, 5)
    first, second = (HighsOracle(seed=3).maximise(objective, beliefs) for _ in range(2))
    np.testing.assert_array_equal(first.theta, second.theta)
    assert (first.upper, first.nodes) == (second.upper, second.nodes)


def test_highs_prints_nothing(capfd: pytest.CaptureFixture[str]):
    HighsOracle().maximise(*noisy(4, 8, 3))
    assert capfd.readouterr() == ("", "")


# Its edges.


def test_oracles_are_made_by_their_names():
    assert {name: make_oracle(name).name for name in ORACLES} == {name: name for name in ORACLES}
    assert [name for name in ORACLES if make_oracle(name).proved] == ["slabs"]
    assert [name for name in ORACLES if make_oracle(name).form == "product"] == ["product"]
    with pytest.raises(SettingError, match="'slabs', 'product', 'scip-slabs' or 'highs'"):
        make_oracle("simplex")


def test_settings_are_checked():
    with pytest.raises(SettingError, match=r"HighsOracle\.gap=-1\.0.*at least 0"):
        HighsOracle(gap=-1.0)
    with pytest.raises(SettingError, match="at least 0"):
        HighsOracle(time_limit=-1.0)
    with pytest.raises(SettingError, match="at least 1"):
        HighsOracle(node_limit=0)
    with pytest.raises(SettingError, match="from 0"):
        HighsOracle(seed=2**31)


def test_without_highspy_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "highspy", None)
    with pytest.raises(OracleError, match="tensorplan\\[highs\\]"):
        HighsOracle().maximise(np.ones(2), Hypotheses(2, 1.0, 0.0))


def test_highspy_is_imported_only_when_used():
    code = "import sys, tensorplan.oracle; sys.exit('highspy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
