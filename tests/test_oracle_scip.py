"""SCIP as an oracle: both forms of the set against enumeration, and what it says at its limits."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from oracle_reference import (
    bellman_as_cuts,
    best_in_slabs,
    good_in_product,
    product_violation,
    random_instance,
    random_instance_with_cuts,
    violation,
)

from tensorplan.errors import OracleError, SettingError
from tensorplan.hypotheses import CriticalState, Cuts, Hypotheses
from tensorplan.oracle.base import Optimum, OracleStatus
from tensorplan.oracle.external import ACCEPTED, BOUND_SLACK
from tensorplan.oracle.scip import ScipOracle
from tensorplan.records import FloatArray

pytest.importorskip("pyscipopt")

GAP = 1e-6
TOUCHING = 1e-7  # sets are compared with themselves widened by this much


def set_of(*states: list[list[float]], norm: float = 1.0, threshold: float = 0.0) -> Hypotheses:
    critical = tuple(CriticalState(1, np.array(rows, dtype=np.float64)) for rows in states)
    root = threshold ** (1 / len(states[0])) if states else 0.0
    return Hypotheses(len(states[0][0]) - 1 if states else 2, norm, root, critical)


def unit(objective: FloatArray, beliefs: Hypotheses) -> float:
    return beliefs.norm * float(np.linalg.norm(objective))


def check_bounds(answer: Optimum, objective: FloatArray, beliefs: Hypotheses) -> None:
    scale = unit(objective, beliefs)
    assert answer.status is OracleStatus.OPTIMAL
    assert answer.value == pytest.approx(float(objective @ answer.theta), abs=1e-12)
    assert np.linalg.norm(answer.theta) <= beliefs.norm * (1 + 1e-12)
    assert answer.value <= answer.upper <= scale * (1 + 1e-12)
    assert answer.upper - answer.value <= GAP + 1.1 * BOUND_SLACK * scale + 1e-6 * scale


# Against enumeration.


@pytest.mark.parametrize("seed", range(60))
def test_slabs_agree_with_enumeration(seed: int):
    objective, beliefs = random_instance(seed)
    answer = ScipOracle("slabs", gap=GAP).maximise(objective, beliefs)
    scale = unit(objective, beliefs)
    low = best_in_slabs(objective, beliefs, tolerance=1e-11).value
    high = best_in_slabs(objective, beliefs, widen=TOUCHING).value
    if answer.status is OracleStatus.EMPTY:
        assert low == -np.inf
        assert answer.upper == answer.value == -np.inf
        assert not answer.theta.any()
        return
    check_bounds(answer, objective, beliefs)
    assert violation(answer.theta, beliefs) <= ACCEPTED
    assert answer.upper >= low - 1e-9 * scale
    assert answer.value <= high + 1e-9 * scale
    assert answer.upper <= high + GAP + 1e-5 * scale


@pytest.mark.parametrize("seed", range(60))
def test_products_hold_what_they_find_and_miss_nothing(seed: int):
    objective, beliefs = random_instance(seed)
    answer = ScipOracle("product", gap=GAP).maximise(objective, beliefs)
    scale = unit(objective, beliefs)
    good = good_in_product(objective, beliefs).value
    outer = best_in_slabs(objective, beliefs, widen=TOUCHING).value
    if answer.status is OracleStatus.EMPTY:
        assert good == -np.inf
        return
    check_bounds(answer, objective, beliefs)
    assert product_violation(answer.theta, beliefs) <= ACCEPTED
    assert answer.upper >= good - 1e-9 * scale
    # The union of slabs contains the product form (theory B2).
    assert answer.value <= outer + 1e-7 * scale


@pytest.mark.parametrize("seed", range(64))
def test_slabs_with_cuts_agree_with_enumeration(seed: int):
    instance = random_instance_with_cuts(seed)
    objective, beliefs = instance.objective, instance.beliefs
    answer = ScipOracle("slabs", gap=GAP).maximise(objective, beliefs)
    scale = unit(objective, beliefs)
    low = best_in_slabs(objective, beliefs, tolerance=1e-11).value
    high = best_in_slabs(objective, beliefs, widen=TOUCHING).value
    if answer.status is OracleStatus.EMPTY:
        assert low == -np.inf
        return
    check_bounds(answer, objective, beliefs)
    assert violation(answer.theta, beliefs) <= ACCEPTED
    assert low - 1e-9 * scale <= answer.upper <= high + GAP + 1e-6 * scale
    assert answer.value <= high + 1e-9 * scale


@pytest.mark.parametrize("seed", range(0, 96, 3))
def test_products_with_cuts_hold_what_they_find_and_miss_nothing(seed: int):
    instance = random_instance_with_cuts(seed)
    objective, beliefs = instance.objective, instance.beliefs
    answer = ScipOracle("product", gap=GAP).maximise(objective, beliefs)
    scale = unit(objective, beliefs)
    good = good_in_product(objective, beliefs, starts=3).value
    if answer.status is OracleStatus.EMPTY:
        assert good == -np.inf
        return
    check_bounds(answer, objective, beliefs)
    assert product_violation(answer.theta, beliefs) <= ACCEPTED
    assert answer.upper >= good - 1e-9 * scale
    bare = tuple(replace(state, radii=None) for state in beliefs.states)
    slabs = replace(bellman_as_cuts(beliefs), slab_width=None, states=bare)
    assert answer.value <= best_in_slabs(objective, slabs, widen=TOUCHING).value + 1e-7 * scale


@pytest.mark.parametrize("seed", range(0, 60, 4))
def test_slabs_are_an_outer_relaxation(seed: int):
    objective, beliefs = random_instance(seed)
    slabs = ScipOracle("slabs").maximise(objective, beliefs)
    product = ScipOracle("product").maximise(objective, beliefs)
    assert slabs.upper >= product.value - 1e-9 * unit(objective, beliefs)


# Cases with a known answer.


@pytest.mark.parametrize("form", ["product", "slabs"])
class TestKnown:
    def oracle(self, form: str) -> ScipOracle:
        return ScipOracle("product" if form == "product" else "slabs")

    def test_the_ball_alone(self, form: str):
        objective = np.array([3.0, 4.0])
        answer = self.oracle(form).maximise(objective, Hypotheses(2, 2.0, 0.0))
        assert answer.value == pytest.approx(10, abs=1e-5)
        assert answer.upper == pytest.approx(10, abs=1e-5)

    def test_exact_data_pin_the_parameter(self, form: str):
        beliefs = set_of([[-0.5, 1, 0], [2, 0, 1]], [[-0.25, 0, 1], [3, 1, 0]])
        answer = self.oracle(form).maximise(np.array([1.0, 1.0]), beliefs)
        np.testing.assert_allclose(answer.theta, [0.5, 0.25], atol=1e-7)

    def test_one_dimension(self, form: str):
        beliefs = set_of([[-0.25, 1.0], [0.5, 1.0]], threshold=1e-6)
        # (x - 1/4)(x + 1/2) = 1e-6, or |x - 1/4| = 1e-3
        root = -0.125 + np.sqrt(0.375**2 + 1e-6) if form == "product" else 0.251
        answer = self.oracle(form).maximise(np.array([1.0]), beliefs)
        assert answer.value == pytest.approx(root, abs=2e-6)

    def test_a_repeated_row_keeps_its_power(self, form: str):
        beliefs = set_of([[-0.25, 1.0], [-0.25, 1.0], [0.5, 1.0]], threshold=1e-6)
        answer = self.oracle(form).maximise(np.array([1.0]), beliefs)
        if form == "slabs":
            assert answer.value == pytest.approx(0.26, abs=2e-6)
        else:
            x = answer.value
            assert (x - 0.25) ** 2 * (x + 0.5) == pytest.approx(1e-6, rel=1e-2)

    def test_nothing_is_left(self, form: str):
        beliefs = set_of([[-0.5, 1, 0]], [[0.5, 1, 0]], threshold=1e-6)
        assert self.oracle(form).maximise(np.ones(2), beliefs).status is OracleStatus.EMPTY

    def test_a_dead_action_excludes_everything(self, form: str):
        beliefs = set_of([[1.0, 0, 0]])
        assert self.oracle(form).maximise(np.ones(2), beliefs).status is OracleStatus.EMPTY

    def test_a_void_row_excludes_nothing(self, form: str):
        beliefs = set_of([[0.0, 0, 0], [1.0, 0, 0]])
        answer = self.oracle(form).maximise(np.array([0.0, 1.0]), beliefs)
        np.testing.assert_allclose(answer.theta, [0, 1], atol=1e-3)

    def test_no_objective(self, form: str):
        answer = self.oracle(form).maximise(np.zeros(2), set_of([[-0.5, 1, 0], [-0.5, 0, 1]]))
        assert (answer.status, answer.value, answer.upper) == (OracleStatus.OPTIMAL, 0, 0)
        assert min(abs(answer.theta - 0.5)) <= 1e-7

    def test_a_ball_that_touches_a_plane(self, form: str):
        beliefs = set_of([[-1.0, 0.6, 0.8]])
        answer = self.oracle(form).maximise(np.array([0.0, 1.0]), beliefs)
        assert answer.status is OracleStatus.OPTIMAL
        np.testing.assert_allclose(answer.theta, [0.6, 0.8], atol=1e-3)

    def test_a_threshold_without_effect(self, form: str):
        beliefs = set_of([[1.0, 1, 0], [1.0, 0, 1]], threshold=4.0)
        assert self.oracle(form).maximise(np.array([1.0, 0]), beliefs).value > 1 - 1e-6

    def test_cuts_from_both_sides_and_from_one(self, form: str):
        cuts = Cuts(np.eye(2), np.array([-0.5, -np.inf]), np.array([0.25, 0.5]))
        beliefs = Hypotheses(2, 2.0, 0.0, cuts=cuts)
        for objective, best in (([1.0, 1.0], [0.25, 0.5]), ([-1.0, 0.0], [-0.5, None])):
            answer = self.oracle(form).maximise(np.array(objective), beliefs)
            for found, known in zip(answer.theta, best, strict=True):
                assert known is None or found == pytest.approx(known, abs=1e-6)
        down = self.oracle(form).maximise(np.array([0.0, -1.0]), beliefs)
        assert down.value == pytest.approx(2, abs=1e-5)

    def test_cuts_of_any_size(self, form: str):
        for size in (1e-6, 1.0, 1e6):
            cuts = Cuts(np.array([[size, 0.0]]), np.array([-np.inf]), np.array([size / 4]))
            beliefs = Hypotheses(2, 1.0, 0.0, cuts=cuts)
            answer = self.oracle(form).maximise(np.array([1.0, 0.0]), beliefs)
            assert answer.value == pytest.approx(0.25, abs=1e-6)

    def test_cuts_that_contradict(self, form: str):
        cuts = Cuts(np.eye(2)[[0, 0]], np.array([0.5, -np.inf]), np.array([np.inf, 0.25]))
        answer = self.oracle(form).maximise(np.ones(2), Hypotheses(2, 1.0, 0.0, cuts=cuts))
        assert answer.status is OracleStatus.EMPTY

    @pytest.mark.parametrize("normal", [0.0, 1.0])
    def test_a_cut_beyond_the_ball_needs_no_search(self, form: str, normal: float):
        normals = np.array([[normal, 0.0]])
        beyond = Hypotheses(2, 1.0, 0.0, cuts=Cuts(normals, np.array([1.5]), np.array([2.0])))
        answer = self.oracle(form).maximise(np.ones(2), beyond)
        assert (answer.status, answer.nodes) == (OracleStatus.EMPTY, 0)
        around = Hypotheses(2, 1.0, 0.0, cuts=Cuts(normals, np.array([-1.5]), np.array([2.0])))
        found = self.oracle(form).maximise(np.ones(2), around)
        assert found.value == pytest.approx(np.sqrt(2), abs=1e-5)

    def test_no_action_gains_in_the_bellman_mode(self, form: str):
        state = CriticalState(1, np.array([[0.0, 1, 0], [-0.25, 0, 1]]), np.array([0.125, 0.25]))
        beliefs = Hypotheses(2, 2.0, 0.1, (state,), bellman=True)
        answer = self.oracle(form).maximise(np.array([1.0, 1.0]), beliefs)
        # The first error is at most 1/8 and the second at most 1/4; their product 1/32 > 1/100.
        slabs = 0.125 + 0.5
        x = answer.theta[0]
        assert x <= 0.125 + 1e-6
        assert answer.theta[1] <= 0.5 + 1e-6
        if form == "slabs":
            assert answer.value == pytest.approx(slabs, abs=1e-5)
        else:
            assert x * (answer.theta[1] - 0.25) <= 0.01 + 1e-5
            assert answer.value == pytest.approx(0.125 + 0.25 + 0.08, abs=1e-5) or (
                answer.value == pytest.approx(0.5 + 0.04, abs=1e-5)
            )

    def test_radii_of_their_own(self, form: str):
        state = CriticalState(1, np.array([[-0.25, 1.0], [0.5, 1.0]]), np.array([0.0, 0.9]))
        answer = self.oracle(form).maximise(np.ones(1), Hypotheses(1, 1.0, 1e-3, (state,)))
        # The second slab reaches to 0.4; the product has one threshold and no radii.
        root = -0.125 + np.sqrt(0.375**2 + 1e-6) if form == "product" else 0.4
        assert answer.value == pytest.approx(root, abs=2e-6)

    def test_a_repeated_row_is_in_its_widest_slab(self, form: str):
        rows = np.array([[-0.25, 1.0], [-0.25, 1.0]])
        state = CriticalState(1, rows, np.array([0.125, 0.0]))
        answer = self.oracle(form).maximise(np.ones(1), Hypotheses(1, 1.0, 1e-3, (state,)))
        assert answer.value == pytest.approx(0.251 if form == "product" else 0.375, abs=2e-6)

    def test_limits_leave_a_valid_bound(self, form: str):
        rng = np.random.default_rng(3)
        hidden, objective = np.full(5, 0.3), rng.normal(size=5)
        states: list[CriticalState] = []
        for _ in range(12):
            rows = rng.normal(size=(3, 6))
            rows[0, 0] = -rows[0, 1:] @ hidden
            states.append(CriticalState(1, rows))
        beliefs = Hypotheses(5, 1.0, 1e-2, tuple(states))
        oracle = ScipOracle("product" if form == "product" else "slabs", node_limit=1)
        answer = oracle.maximise(objective, beliefs)
        assert answer.status is OracleStatus.LIMIT
        assert np.linalg.norm(answer.theta) <= 1 + 1e-12
        assert float(objective @ hidden) <= answer.upper <= np.linalg.norm(objective) + 1e-12
        assert answer.value == pytest.approx(float(objective @ answer.theta))
        assert answer.value <= answer.upper + 1e-12

    def test_no_time_at_all(self, form: str):
        objective, beliefs = np.array([1.0, 2.0]), set_of([[-0.5, 1, 0], [-0.5, 0, 1]])
        oracle = ScipOracle("product" if form == "product" else "slabs", time_limit=0.0)
        answer = oracle.maximise(objective, beliefs)
        assert answer.status is OracleStatus.LIMIT
        assert answer.value == pytest.approx(answer.upper)
        assert answer.upper >= 0.5 + 2 * np.sqrt(0.75) - 1e-9

    def test_the_same_seed_gives_the_same_answer(self, form: str):
        objective, beliefs = random_instance(7)
        first, second = (self.oracle(form).maximise(objective, beliefs) for _ in range(2))
        np.testing.assert_array_equal(first.theta, second.theta)
        assert (first.upper, first.nodes) == (second.upper, second.nodes)

    def test_scip_prints_nothing(self, form: str, capfd: pytest.CaptureFixture[str]):
        for seed in range(40, 50):
            self.oracle(form).maximise(*random_instance(seed))
        assert capfd.readouterr() == ("", "")


# Its edges.


def test_settings_are_checked():
    with pytest.raises(SettingError, match="at least 0"):
        ScipOracle(gap=-1.0)
    with pytest.raises(SettingError, match="at least 0"):
        ScipOracle(time_limit=-1.0)
    with pytest.raises(SettingError, match="at least 1"):
        ScipOracle(node_limit=0)
    with pytest.raises(SettingError, match=r"ScipOracle\.seed=-1.*from 0"):
        ScipOracle(seed=-1)
    with pytest.raises(SettingError, match=r"ScipOracle\.gap=nan"):
        ScipOracle(gap=float("nan"))


def test_without_pyscipopt_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "pyscipopt", None)
    with pytest.raises(OracleError, match="tensorplan\\[scip\\]"):
        ScipOracle().maximise(np.ones(2), Hypotheses(2, 1.0, 0.0))


def test_pyscipopt_is_imported_only_when_used():
    code = "import sys, tensorplan.oracle.scip; sys.exit('pyscipopt' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
