"""The believable set, in all units and with missing actions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from paper_reference import plan

from tensorplan.errors import SettingError
from tensorplan.exact import best_realizable_value
from tensorplan.finite import FiniteProcess, TableSimulator
from tensorplan.hypotheses import CriticalState, Hypotheses, rounding_slack
from tensorplan.oracle import OracleStatus, ScipOracle, SlabOracle
from tensorplan.planners.paper import ONE_EACH, PaperSettings, Sizes, resolve
from tensorplan.records import FloatArray, Spec, Status


def state(*rows: list[float]) -> CriticalState:
    return CriticalState(1, np.array(rows))


class TestSet:
    def test_products_compare_with_the_power_of_the_root(self) -> None:
        two = state([0.0, 1.0], [-0.5, 1.0])  # theta (theta - 1/2)
        beliefs = Hypotheses(1, 2.0, 0.2, (two,))
        for theta in np.linspace(-2, 2, 401):
            product = abs(theta * (theta - 0.5))
            if abs(product - 0.04) > 1e-9:
                assert beliefs.contains(np.array([theta])) == (product < 0.04), theta

    def test_slabs_cover_products_and_the_ball_bounds_both(self) -> None:
        rng = np.random.default_rng(0)
        states = tuple(CriticalState(1, rng.normal(size=(k, 3)) / 2) for k in (1, 2, 3))
        beliefs = Hypotheses(2, 1.0, 0.4, states)
        points: FloatArray = rng.uniform(-1.2, 1.2, size=(4000, 2))
        inside = [point for point in points if beliefs.contains(point)]
        assert len(inside) > 100
        assert all(beliefs.in_slabs(p) and np.linalg.norm(p) <= 1 for p in inside)
        assert sum(beliefs.in_slabs(p) for p in points) > len(inside)

    def test_a_slab_width_of_its_own_moves_the_slabs_alone(self) -> None:
        one = state([-0.5, 1.0])
        wide = Hypotheses(1, 1.0, 0.01, (one,), slab_width=0.3)
        theta = np.array([0.7])
        assert wide.in_slabs(theta)
        assert not wide.contains(theta)
        assert SlabOracle().maximise(np.ones(1), wide).value == pytest.approx(0.8)

    def test_scip_searches_products_by_the_root(self) -> None:
        pytest.importorskip("pyscipopt")
        beliefs = Hypotheses(1, 1.0, 0.1, (state([-0.5, 1.0], [0.0, 1.0]),), slab_width=0.01)
        found = ScipOracle("product").maximise(np.ones(1), beliefs)
        edge = 0.25 + np.sqrt(0.0625 + 0.01)  # theta (theta - 1/2) = .01
        assert found.value == pytest.approx(edge, abs=1e-5)
        assert ScipOracle("slabs").maximise(np.ones(1), beliefs).value == pytest.approx(
            0.51, abs=1e-5
        )

    @pytest.mark.parametrize(("norm", "root"), [(0.0, 0.1), (np.inf, 0.1), (1.0, -1e-9)])
    def test_sets_that_mean_nothing(self, norm: float, root: float) -> None:
        with pytest.raises(SettingError):
            Hypotheses(2, norm, root)


def corridor(width: float, actions: int) -> TableSimulator:
    """Two states in a row, one available action each, rewards of a quarter of the width."""
    cells = (2, actions, 1)
    allowed = np.zeros(cells[:2], np.bool_)
    allowed[:, 0] = True
    features = np.array([[[0.5, 0.1], [0.5, 0.2]], [[0.25, 0.3], [0.25, 0.1]]])
    spec = Spec(
        actions,
        2,
        2,
        reward_range=(0.0, width),
        bound=2 * width,
        deterministic=True,
        may_terminate=False,
    )
    process = FiniteProcess(
        spec=spec,
        probabilities=np.ones(cells),
        successors=np.ones(cells, np.int64),
        rewards=np.full(cells, width / 4),
        terminated=np.zeros(cells, np.bool_),
        feature_table=features,
        start_probabilities=np.array([1.0, 0.0]),
        allowed=allowed,
    )
    return TableSimulator(process)


class TestUnits:
    @pytest.mark.parametrize("actions", [2, 3])
    @pytest.mark.parametrize("width", [1e-5, 1.0, 1e5])
    def test_masked_actions_in_any_unit(self, width: float, actions: int) -> None:
        sim = corridor(width, actions)
        best = best_realizable_value(sim.process, 2 * width)
        assert best == pytest.approx(width / 2)
        made = plan(sim, delta=0.4 * width)
        assert made.status is Status.CLEAN
        assert made.play()[0] == pytest.approx(best)
        upper = made.certificate.upper
        assert upper is not None
        assert best <= upper <= best + 0.02 * width

    def test_sol_keeps_what_an_allowed_bias_moves(self) -> None:
        """With lambda close to the theorem's limit the parameter of the best policy stays."""
        for width in (1e-2, 1.0, 1e2):
            sim = corridor(width, 2)
            limit = float(plan(sim, delta=0.4 * width).resolved.constants.accuracy) * width
            bias = 0.9 * limit
            spec = replace(sim.process.spec, inaccuracy=bias)
            low = replace(sim.process, spec=spec, rewards=sim.process.rewards - bias)
            made = plan(TableSimulator(low), delta=0.4 * width)
            assert made.certificate.confidence == 1.0
            assert made.certificate.upper is not None
            assert made.certificate.upper >= width / 2 * (1 - 1e-12)

    def test_many_actions_leave_a_root_that_no_product_could(self) -> None:
        spec = Spec(120, 2, 20, bound=1.0, deterministic=True)
        resolved = resolve(PaperSettings(0.1), spec)
        assert float(resolved.constants.sol_threshold) == 0.0  # below any float
        assert 1e-4 < resolved.root < 0.1 / (12 * 20)

    def test_hand_given_sizes_set_the_width_by_their_noise(self) -> None:
        spec = Spec(2, 2, 3, bound=3.0)
        roots = [
            resolve(PaperSettings(0.5, sizes=Sizes(5, 100, draws)), spec).slab_width or 0.0
            for draws in (100, 400, 1600)
        ]
        assert roots[0] / roots[1] == pytest.approx(2)
        assert roots[1] / roots[2] == pytest.approx(2)
        exact = resolve(PaperSettings(0.5, sizes=ONE_EACH), replace(spec, deterministic=True))
        assert exact.slab_width is None

    def test_a_delta_below_rounding_is_refused(self) -> None:
        with pytest.raises(SettingError, match=r"stand out from the rounding.*or more"):
            plan(corridor(1.0, 2), delta=1e-12)


class TestExactData:
    @pytest.mark.parametrize("angle", [1e-4, 1e-6, 1e-8])
    def test_near_parallel_rows_empty_nothing(self, angle: float) -> None:
        """The true parameter lies on the ball and satisfies all data up to rounding."""
        for seed in range(40):
            rng = np.random.default_rng(seed)
            theta, base = rng.normal(size=3), 0.3 * rng.normal(size=3)
            states: list[CriticalState] = []
            for _ in range(4):
                steps = np.stack([base + angle * rng.normal(size=3), 0.3 * rng.normal(size=3)])
                values = steps @ theta + np.array([0.0, rng.normal()])
                states.append(CriticalState(1, np.column_stack([-values, steps])))
            norm, objective = float(np.linalg.norm(theta)), rng.normal(size=3)
            found = SlabOracle().maximise(objective, Hypotheses(3, norm, 0.0, tuple(states)))
            assert found.status is not OracleStatus.EMPTY, seed  # it may be left undecided
            assert found.upper >= float(objective @ theta), seed

    def test_contradictions_beyond_rounding_are_seen(self) -> None:
        apart = 10 * rounding_slack(1.0)
        for gap, status in ((apart, OracleStatus.EMPTY), (0.0, OracleStatus.OPTIMAL)):
            states = (state([-0.5, 1.0, 0.0]), state([-0.5 - gap, 1.0, 0.0]))
            found = SlabOracle().maximise(np.ones(2), Hypotheses(2, 1.0, 0.0, states))
            assert found.status is status
        far = Hypotheses(2, 1.0, 0.0, (state([-1.5, 1.0, 0.0]),))
        assert SlabOracle().maximise(np.ones(2), far).status is OracleStatus.EMPTY
