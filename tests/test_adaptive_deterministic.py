"""The adaptive planner in deterministic simulators: values, bounds, queries, endings."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from paper_reference import Shape, best_of, linear_process, walked
from test_exact_worlds import permuted, rotation
from test_paper import KINDS, small_process
from test_plan import Drifting

from tensorplan import problems
from tensorplan.adapters import Inaccurate
from tensorplan.errors import SettingError, SimulatorError
from tensorplan.exact import solve, start_value
from tensorplan.finite import FiniteProcess, TableSimulator
from tensorplan.oracle.slabs import SlabOracle
from tensorplan.plan import AdaptivePlan, Budget, plan
from tensorplan.problem import Simulator
from tensorplan.records import FloatArray, IntArray, IterationEvent, States, Status
from tensorplan.testing import CountingSimulator, RecordingSimulator

HIDDEN = {
    (2, 4, 20): 40,
    (2, 8, 20): 48,
    (3, 8, 20): 67,
    (3, 8, 50): 127,
    (4, 6, 20): 78,
    (2, 12, 30): 71,
}
"""(A, d, H) -> the yardstick H(A + 1) / 2 + A(d + 1)."""


def bounds(made: AdaptivePlan) -> tuple[float, float]:
    """Both bounds, which are there."""
    lower, upper = made.certificate.lower, made.certificate.upper
    assert lower is not None
    assert upper is not None
    return lower, upper


def optimum_of(process: FiniteProcess) -> float:
    """v* of the start."""
    return start_value(process, solve(process).values)


def planning_queries(made: AdaptivePlan) -> int:
    """Queries before the check."""
    return made.queries.by_phase["test"]


def hidden(actions: int, dim: int, horizon: int, seed: int) -> Simulator:
    return problems.make("hidden-linear", actions=actions, dim=dim, horizon=horizon, seed=seed)


class TestClosedForms:
    @pytest.mark.parametrize("seed", [None, 0, 1])
    @pytest.mark.parametrize("size", [1, 2, 5, 20, 100])
    def test_deep_sea(self, size: int, seed: int | None) -> None:
        made = plan(problems.make("deep-sea", size=size, seed=seed), delta=1e-6 * size)
        assert made.status is Status.CERTIFIED
        assert made.play()[0] == pytest.approx(0.99, abs=1e-12)
        assert bounds(made) == pytest.approx((0.99, 0.99), abs=1e-6 * size)
        assert planning_queries(made) <= 3.2 * size

    def test_deep_sea_without_a_hint(self) -> None:
        made = plan(problems.make("deep-sea", size=7, features="one-hot"), delta=1e-5)
        assert made.status is Status.CERTIFIED
        assert bounds(made)[0] == pytest.approx(0.99, abs=1e-12)
        assert planning_queries(made) <= 56  # two at each of its 28 cells

    @pytest.mark.parametrize("length", [1, 5, 20])
    def test_combination_lock(self, length: int) -> None:
        made = plan(problems.make("combination-lock", length=length), delta=1e-5)
        assert made.status is Status.CERTIFIED
        assert made.play()[0] == bounds(made)[0] == 1.0

    @pytest.mark.parametrize("compete", ["realizable", "optimal"])
    def test_the_counterexample_of_the_remark(self, compete: str) -> None:
        made = plan(problems.make("counterexample"), delta=1e-6, compete=compete)
        assert made.status is Status.CERTIFIED
        assert made.play()[0] == 1.0


class TestReferee:
    def test_two_hundred_processes_of_which_every_third_is_realizable_by_nothing(self) -> None:
        seen: dict[tuple[str, Status], int] = {}
        for index in range(200):
            sim, _ = small_process(index)
            made, best = plan(sim, delta=1e-6), best_of(sim.process)
            key = (KINDS[index % 3], made.status)
            seen[key] = seen.get(key, 0) + 1
            if made.status is Status.REJECTED:
                assert best == -math.inf
                continue
            lower, upper = bounds(made)
            value = float(made.play()[0])
            assert made.status is Status.CERTIFIED
            assert best <= upper <= lower + 1e-6
            assert best - 1e-6 <= lower <= value + 1e-12
            assert value <= optimum_of(sim.process) + 1e-12
        assert seen[("optimal", Status.CERTIFIED)] == seen[("suboptimal", Status.CERTIFIED)] == 67
        assert seen[("none", Status.REJECTED)] > 10

    @pytest.mark.parametrize("compete", ["realizable", "optimal"])
    @pytest.mark.parametrize(
        "shape",
        [
            Shape(actions=3, horizon=4, rewards=(-1.0, 0.0)),
            Shape(actions=3, horizon=4, rewards=(-2.0, 3.0), ends=0.3),
            Shape(actions=3, horizon=5, rewards=(0.25, 1.0), masks=0.4, ends=0.2),
            Shape(horizon=4, rewards=(0.25, 1.0)),
            Shape(horizon=4, discount=0.8, ends=0.2),
            Shape(horizon=None, discount=0.7, rewards=(-1.0, 1.0), ends=0.1),
            Shape(horizon=None, discount=0.0),
            Shape(horizon=3, noise=0.02),
        ],
        ids=["costs", "ends", "masks", "gains", "discount", "endless", "myopic", "misfit"],
    )
    def test_processes_of_every_shape(self, shape: Shape, compete: str) -> None:
        delta = 1e-4 if not shape.noise else 0.5
        for seed in range(8):
            process = linear_process(seed, shape)
            made = plan(TableSimulator(process), delta=delta, compete=compete)
            assert made.status in (Status.CERTIFIED, Status.CLEAN)
            lower, upper = bounds(made)
            value, best = float(made.play()[0]), optimum_of(process)
            assert best <= upper
            assert lower <= best + 1e-12
            assert lower - 1e-9 <= value <= best + 1e-9 + 0.5 * delta
            if made.status is Status.CERTIFIED:
                assert upper - lower <= delta
            else:
                assert shape.noise > 0

    def test_rewards_that_are_off_by_a_known_amount(self) -> None:
        for seed in range(8):
            process = linear_process(seed, Shape(horizon=4, ends=0.2))
            simulator = TableSimulator(process)

            def most(states: States, actions: IntArray) -> FloatArray:
                return np.full(len(states), 0.01)

            made = plan(Inaccurate(simulator, 0.01, bias=most), delta=0.2)
            lower, upper = bounds(made)
            assert any("within 0.01 of the truth" in text for text in made.certificate.assumptions)
            assert lower <= walked(made, simulator) + 1e-12
            assert upper >= optimum_of(process)


class TestQueries:
    @pytest.mark.parametrize("size", HIDDEN)
    def test_hidden_linear(self, size: tuple[int, int, int]) -> None:
        self.check(size, range(2))

    @pytest.mark.slow
    @pytest.mark.parametrize("size", HIDDEN)
    def test_hidden_linear_at_the_median_of_twenty(self, size: tuple[int, int, int]) -> None:
        assert np.median(self.check(size, range(20))) <= HIDDEN[size]

    def check(self, size: tuple[int, int, int], seeds: range) -> list[int]:
        asked: list[int] = []
        for seed in seeds:
            made = plan(hidden(*size, seed), delta=1e-6 * size[2])
            assert made.status is Status.CERTIFIED
            asked.append(planning_queries(made))
        assert max(asked) <= 1.4 * HIDDEN[size]
        return asked

    def test_no_pair_is_asked_twice_before_the_check(self) -> None:
        recording = RecordingSimulator(hidden(3, 4, 12, 5))
        made = plan(recording, delta=1e-5)
        steps = [call for call in recording.calls if call.method == "step"]
        asked = [
            (call.stage, state, action)
            for call in steps
            if call.actions is not None
            for state, action in zip(call.states.tolist(), call.actions.tolist(), strict=True)
        ]
        tested = asked[: planning_queries(made)]
        assert len(set(tested)) == len(tested) > 12
        spent = made.queries.by_phase
        assert len(asked) == made.queries.total == spent["test"] + spent["check"]
        assert spent["check"] == 12 + 10
        assert set(asked[len(tested) :]) <= set(tested)

    def test_all_are_counted(self) -> None:
        counting = CountingSimulator(problems.make("deep-sea", size=6))
        made = plan(counting, delta=1e-6)
        made.play(2)
        spent = made.queries
        assert counting.queries == sum(spent.by_phase.values())
        assert (spent.by_phase["act"], spent.by_phase["play"]) == (0, 12)
        assert made.events[-1].queries == planning_queries(made)

    def test_competing_with_the_optimum_alone_asks_less(self) -> None:
        asked = {
            compete: sum(
                planning_queries(plan(hidden(4, 4, 8, seed), delta=1e-5, compete=compete))
                for seed in range(100, 108)
            )
            for compete in ("realizable", "optimal")
        }
        assert asked["optimal"] < asked["realizable"]


class TestMetamorphic:
    SHAPE = Shape(states=6, actions=3, horizon=4, ends=0.1)

    def ends_of(self, process: FiniteProcess, delta: float = 1e-6) -> tuple[Status, float, float]:
        made = plan(TableSimulator(process), delta=delta)
        return made.status, *bounds(made)

    def test_names_of_actions_and_axes_of_features_do_not_matter(self) -> None:
        for seed in range(6):
            process = linear_process(seed, self.SHAPE)
            turned = process.feature_table @ rotation(process.spec.dim, seed)
            plain = self.ends_of(process)
            for other in (permuted(process, [2, 0, 1]), process.with_features(turned)):
                status, *both = self.ends_of(other)
                assert status is plain[0]
                assert both == pytest.approx(plain[1:], abs=3e-6)

    def test_scaled_rewards_and_delta_scale_the_bounds(self) -> None:
        for seed in range(6):
            process = linear_process(seed, self.SHAPE)
            assert process.spec.bound is not None
            low, high = process.spec.reward_range
            spec = replace(
                process.spec, reward_range=(4 * low, 4 * high), bound=4 * process.spec.bound
            )
            scaled = replace(process, spec=spec, rewards=4 * process.rewards)
            plain = plan(TableSimulator(process), delta=0.01)
            made = plan(TableSimulator(scaled), delta=0.04)
            assert made.queries == plain.queries
            assert bounds(made) == pytest.approx([4 * b for b in bounds(plain)], abs=1e-7)


class TestEndings:
    def test_a_gap_wider_than_all_values_needs_no_query(self) -> None:
        made = plan(problems.make("deep-sea", size=5), delta=1e3)
        assert (made.status, planning_queries(made)) == (Status.CERTIFIED, 0)
        assert np.isfinite(made.play()[0])

    def test_every_budget(self) -> None:
        simulator = hidden(2, 4, 10, 3)
        whole = plan(simulator, delta=1e-5)
        optimum = bounds(whole)[0]
        lowers: list[float] = []
        for limit in range(whole.queries.total + 1):
            counting = CountingSimulator(simulator)
            made = plan(counting, delta=1e-5, budget=Budget(queries=limit))
            assert counting.queries == made.queries.total <= limit
            assert made.events == whole.events[: len(made.events)]
            lower, upper = bounds(made)
            assert lower <= optimum + 1e-12
            assert upper >= optimum
            lowers.append(lower)
            enough = limit == whole.queries.total
            assert made.status is (Status.CERTIFIED if enough else Status.BUDGET)
            checked = any("answered alike" in text for text in made.certificate.assumptions)
            assert checked is enough
            if limit % 7 == 0:
                assert made.play()[0] >= lower - 1e-12
        assert lowers[0] == 0.0
        assert lowers == sorted(lowers)

    def test_seconds_and_iterations(self) -> None:
        simulator = hidden(2, 4, 10, 3)
        assert plan(simulator, delta=1e-5, budget=Budget(seconds=0)).queries.total == 0
        made = plan(simulator, delta=1e-5, iteration_limit=2)
        assert (made.status, len(made.events)) == (Status.BUDGET, 2)

    def test_watchers_see_every_iteration_and_may_cancel(self) -> None:
        simulator, seen = hidden(2, 4, 10, 3), list[IterationEvent]()
        whole = plan(simulator, delta=1e-5, watch=seen.append)
        assert tuple(seen) == whole.events
        uppers = [event.upper for event in seen]
        assert uppers == sorted(uppers, reverse=True)
        made = plan(simulator, delta=1e-5, watch=lambda event: event.iteration < 3)
        assert made.status is Status.CANCELLED
        assert made.events == whole.events[:3]
        lower, upper = bounds(made)
        assert lower <= bounds(whole)[0] <= upper
        assert made.play()[0] >= lower - 1e-12

    def test_an_oracle_that_stops_at_its_limit(self) -> None:
        process = linear_process(3, Shape(states=8, actions=3, horizon=5, dim=4))
        made = plan(TableSimulator(process), delta=1e-6, oracle=SlabOracle(node_limit=1))
        assert made.status is Status.ORACLE_GAP
        assert bounds(made)[1] >= best_of(process)

    @pytest.mark.parametrize("seed", range(3))
    def test_a_broken_promise_of_determinism_voids_the_run(self, seed: int) -> None:
        simulator = hidden(2, 4, 10, seed)
        assert plan(Drifting(simulator, 0.0), delta=1e-5).status is Status.CERTIFIED
        with pytest.raises(SimulatorError, match="two answers to one question"):
            plan(Drifting(simulator, 1e-9), delta=1e-5, iteration_limit=3)

    def test_random_walks_first(self) -> None:
        simulator = hidden(2, 4, 10, 3)
        made = plan(simulator, delta=1e-5, explore=3)
        plain = plan(simulator, delta=1e-5)
        assert made.status is Status.CERTIFIED
        assert bounds(made)[0] == pytest.approx(bounds(plain)[0], abs=1e-5)
        assert planning_queries(made) > planning_queries(plain)
        assert made.events == plan(simulator, delta=1e-5, explore=3).events
        spent = plan(simulator, delta=1e-5, explore=3, budget=Budget(queries=5))
        assert (spent.status, spent.queries.total) == (Status.BUDGET, 5)

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"compte": "optimal"}, "Did you mean 'compete'"),
            ({"sizes": (1, 1, 1)}, "the adaptive planner has no such setting"),
            ({"compete": "best"}, "'realizable' or 'optimal'"),
            ({"oracle": "product"}, "oracle='product' with planner='adaptive'"),
            ({"planner": "papper"}, "planner='papper'"),
            ({"delta": 0.0}, "delta=0.0"),
        ],
    )
    def test_what_is_no_plan(self, settings: dict[str, Any], message: str) -> None:
        chosen: dict[str, Any] = {"delta": 0.1, **settings}
        with pytest.raises(SettingError, match=message):
            plan(problems.make("counterexample"), **chosen)

    def test_what_has_no_engine(self) -> None:
        with pytest.raises(SettingError, match="Theorem lb"):
            plan(problems.make("lower-bound", dim=3), delta=0.5)
