"""``plan()``: what it refuses, what it counts, where it stops, and the reductions end to end."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from paper_reference import Shape, best_of, linear_process, plan, thetas_of, walked
from test_paper import small_process

from tensorplan import problems
from tensorplan.adapters import Inaccurate, Levelled, Truncated, truncation_horizon
from tensorplan.errors import SettingError, SimulatorError
from tensorplan.exact import solve, start_value
from tensorplan.finite import TableSimulator
from tensorplan.oracle.slabs import SlabOracle
from tensorplan.plan import Budget, PaperPlan
from tensorplan.planners.paper import PaperSettings, Sizes, paper_settings, resolve
from tensorplan.problem import Simulator
from tensorplan.records import FloatArray, IntArray, IterationEvent, Spec, States, Status, Step
from tensorplan.testing import CountingSimulator

FAMILIES: dict[str, dict[str, Any]] = {
    "aggregated": {"horizon": 3},
    "combination-lock": {"length": 5},
    "counterexample": {},
    "deep-sea": {"size": 4},
    "hidden-linear": {"dim": 3, "horizon": 3},
    "random-tabular": {"states": 5, "horizon": 3},
}
NOISY: dict[str, dict[str, Any]] = {
    "aggregated": {"stochastic": True, "groups": 2, "horizon": 2},
    "random-tabular": {"outcomes": 3, "states": 5, "horizon": 3},
}
SPEC = Spec(actions=2, dim=2, horizon=3, bound=2.0, deterministic=True)


def noisy_plan(seed: int, **options: Any) -> PaperPlan:
    simulator = problems.make("random-tabular", **NOISY["random-tabular"])
    sizes = Sizes(4, 50, 3000)
    return plan(simulator, delta=1.0, sizes=sizes, seed=seed, iteration_limit=6, **options)


class TestRefusals:
    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"iteration_limt": 3}, r"'iteration_limt'.*Did you mean 'iteration_limit'"),
            ({"sizs": None}, r"Did you mean 'sizes'"),
            ({"zzz": 1}, r"Did you mean 'delta' or 'norm' or 'errata'"),
            ({"oracle": "gurobi"}, r"oracle='gurobi'.*'slabs', 'product', 'scip-slabs' or 'highs'"),
        ],
    )
    def test_unknown_names(self, settings: dict[str, Any], message: str) -> None:
        with pytest.raises(SettingError, match=message):
            plan(problems.make("counterexample"), delta=0.5, **settings)

    @pytest.mark.parametrize(
        ("change", "settings", "message"),
        [
            ({}, {"delta": 3.0}, "delta=3.0 with values of width 3"),
            ({"reward_range": (-1.0, 0.5)}, {"delta": 4.6}, "values of width 4.5"),
            ({}, {"delta": 0.0}, r"delta=0\.0.*positive"),
            ({"bound": None}, {}, "needs the bound B"),
            ({}, {"norm": -1.0}, r"norm=-1\.0.*positive"),
            ({"horizon": None}, {}, "without end needs exponentially many"),
            ({"horizon": None, "discount": 0.9}, {}, r"adapters\.Truncated"),
            ({"discount": 0.9}, {}, "discount=0.9 with horizon=3"),
            ({"deterministic": False}, {"exact": True}, "exact=True.*deterministic simulator"),
            ({}, {"iteration_limit": 0}, "iteration_limit=0"),
        ],
    )
    def test_what_the_theorem_does_not_speak_of(
        self, change: dict[str, Any], settings: dict[str, Any], message: str
    ) -> None:
        assert resolve(PaperSettings(0.5), SPEC).horizon == 3
        with pytest.raises(SettingError, match=message):
            resolve(paper_settings(**{"delta": 0.5, **settings}), replace(SPEC, **change))

    def test_a_norm_stands_in_for_a_missing_bound(self) -> None:
        simulator, delta = small_process(0)
        bound = simulator.spec.bound
        nameless = TableSimulator(
            replace(simulator.process, spec=replace(simulator.spec, bound=None))
        )
        assert plan(nameless, delta=delta, norm=bound).events == plan(simulator, delta=delta).events

    def test_a_process_without_end(self) -> None:
        made = [problems.make(name).spec for name in problems.names()]
        assert sum(spec.horizon is None and not spec.discounted for spec in made) == 1
        with pytest.raises(SettingError, match="Theorem lb"):
            plan(problems.make("lower-bound", dim=3), delta=0.5)


class TestCounts:
    @pytest.mark.parametrize("name", FAMILIES)
    @pytest.mark.parametrize("sizes", [None, Sizes(3, 2, 2)], ids=["theorem", "given"])
    def test_of_deterministic_families(self, name: str, sizes: Sizes | None) -> None:
        self.check(problems.make(name, **FAMILIES[name]), sizes, Status.CLEAN)

    @pytest.mark.parametrize("name", NOISY)
    def test_of_noisy_families(self, name: str) -> None:
        self.check(problems.make(name, **NOISY[name]), Sizes(5, 20, 50), Status.BUDGET)

    def check(self, simulator: Simulator, sizes: Sizes | None, status: Status) -> None:
        counting = CountingSimulator(simulator)
        made = plan(counting, delta=0.5, sizes=sizes, iteration_limit=400 if sizes is None else 30)
        assert made.status is status
        planned = made.queries
        assert planned.total == counting.queries == sum(planned.by_phase.values())
        assert planned.per_episode == planned.per_call == planned.total
        assert made.events[-1].queries == planned.total - planned.by_phase["check"]
        made.play(3)
        spent = made.queries
        assert sum(spent.by_phase.values()) == counting.queries
        assert spent.total == counting.queries - spent.by_phase["play"]
        if not simulator.spec.may_terminate:
            horizon = made.resolved.horizon
            call = simulator.spec.actions * made.resolved.sizes.test_draws
            assert spent.by_phase["act"] == 3 * horizon * call
            assert spent.by_phase["play"] == 3 * horizon
            # Init belongs to the first episode, and to its first call (Algorithm 1).
            assert spent.per_episode == planned.total + horizon * call
            assert spent.per_call == planned.total + call

    def test_watchers_see_every_iteration(self) -> None:
        simulator, delta = small_process(0)
        seen: list[IterationEvent] = []
        made = plan(simulator, delta=delta, watch=seen.append)
        assert tuple(seen) == made.events
        summary = made.summary()
        assert summary["iterations"] == len(seen)
        assert summary["failures"] == sum(event.failed is not None for event in seen)
        assert summary["queries"]["total"] == made.queries.total
        assert summary["theta"] == list(seen[-1].theta)
        assert summary["value_predicted"] == seen[-1].predicted
        nodes = [event.nodes for event in seen]
        assert nodes == sorted(nodes)

    def test_watchers_may_cancel(self) -> None:
        simulator, delta = small_process(0)
        whole = plan(simulator, delta=delta)
        made = plan(simulator, delta=delta, watch=lambda event: event.iteration < 2)
        assert made.status is Status.CANCELLED
        assert made.events == whole.events[:2]
        assert made.certificate.lower is None
        assert np.isfinite(made.play()).all()


class TestSeeds:
    def test_same_seed_same_run_bit_for_bit(self) -> None:
        first, again = noisy_plan(3), noisy_plan(3)
        assert first.events == again.events
        assert thetas_of(first).tobytes() == thetas_of(again).tobytes()
        assert first.play(4).tobytes() == again.play(4).tobytes()
        assert first.queries == again.queries

    def test_other_seeds_other_runs(self) -> None:
        runs = [noisy_plan(seed) for seed in range(4)]
        assert len({made.theta.tobytes() for made in runs}) == 4
        assert len({made.play(5).tobytes() for made in runs}) == 4

    def test_noise_is_fresh_in_every_episode(self) -> None:
        assert len(set(noisy_plan(0).play(20).tolist())) > 5

    def test_a_deterministic_run_does_not_depend_on_the_seed(self) -> None:
        simulator, delta = small_process(0)
        events = [plan(simulator, delta=delta, seed=seed).events for seed in (0, 9)]
        assert events[0] == events[1]


class Drifting(CountingSimulator):
    """Pays a little less with every batch that it is asked for."""

    def __init__(self, simulator: Simulator, drift: float) -> None:
        super().__init__(simulator)
        self.drift, self.calls = drift, 0

    def step(self, states: States, stage: int, actions: IntArray, rng: np.random.Generator) -> Step:
        self.calls += 1
        step = super().step(states, stage, actions, rng)
        return replace(step, rewards=step.rewards * (1 - self.drift * self.calls))


@pytest.mark.parametrize("index", [0, 5], ids=["clean", "rejected"])
def test_a_broken_promise_of_determinism_voids_the_run(index: int) -> None:
    simulator, delta = small_process(index)
    steady = plan(Drifting(simulator, 0.0), delta=delta)
    assert steady.status is (Status.CLEAN if index == 0 else Status.REJECTED)
    with pytest.raises(SimulatorError, match="two answers to one question"):
        plan(Drifting(simulator, 1e-6), delta=delta)


class SlowSimulator(CountingSimulator):
    """Takes its time over every batch."""

    def step(self, states: States, stage: int, actions: IntArray, rng: np.random.Generator) -> Step:
        time.sleep(0.002)
        return super().step(states, stage, actions, rng)


class TestBudgets:
    def test_queries(self) -> None:
        simulator, delta = small_process(0)
        whole = plan(simulator, delta=delta)
        assert (
            plan(simulator, delta=delta, budget=Budget(whole.queries.total)).events == whole.events
        )
        done: set[int] = set()
        for limit in range(whole.queries.total):
            counting = CountingSimulator(simulator)
            made = plan(counting, delta=delta, budget=Budget(queries=limit))
            assert made.status is Status.BUDGET
            assert counting.queries == made.queries.total <= limit
            assert made.events == whole.events[: len(made.events)]
            assert made.certificate.lower is None
            assert np.isfinite(made.play(2)).all()
            done.add(len(made.events))
        assert done == set(range(len(whole.events)))

    def test_before_the_first_rollout_optimism_is_all_there_is(self) -> None:
        simulator = problems.make("counterexample")
        made = plan(simulator, delta=0.5, budget=Budget(queries=0))
        assert (made.events, made.queries.total) == ((), 0)
        assert made.certificate.lower is None
        assert made.certificate.upper == pytest.approx(5 * 0.2 * np.sqrt(5))

    @pytest.mark.parametrize("seconds", [0.0, 0.5])
    def test_seconds(self, seconds: float) -> None:
        slow = SlowSimulator(problems.make("counterexample"))
        began = time.monotonic()
        made = plan(slow, delta=0.5, rule="best", budget=Budget(seconds=seconds))
        assert time.monotonic() - began < seconds + 5
        assert made.status is Status.BUDGET
        assert made.record.iteration < made.resolved.iterations
        assert (made.record.iteration > 0) is (seconds > 0)
        assert made.play()[0] >= 0

    def test_the_theorems_own_sizes_cannot_be_afforded(self) -> None:
        simulator = problems.make("random-tabular", **NOISY["random-tabular"])
        made = plan(simulator, delta=1.0, budget=Budget(queries=10**6))
        assert made.status is Status.BUDGET
        assert made.queries.total == 0
        assert made.certificate.lower is None
        assert made.certificate.upper == 3.0
        assert made.certificate.confidence == pytest.approx(1 - 3 * 1.0 / 36)
        with pytest.raises(SettingError, match="an episode of"):
            made.play()
        with pytest.raises(SettingError, match="in a single iteration"):
            plan(simulator, delta=1.0)


def test_the_environment_may_move_on_by_itself() -> None:
    for index in (0, 1, 3):
        simulator, delta = small_process(index)
        made = plan(simulator, delta=delta)
        assert walked(made, simulator) == pytest.approx(float(made.play()[0]), abs=1e-12)


class TestReductions:
    SHALLOW = Shape(states=4, horizon=2, dim=2)

    @pytest.mark.parametrize("exact", [False, True])
    def test_levels_change_nothing(self, exact: bool) -> None:
        for seed in range(6):
            process = linear_process(seed, Shape(actions=3, horizon=4, ends=0.2, masks=0.3))
            simulator = TableSimulator(process)
            plain = plan(simulator, delta=0.3, exact=exact)
            levelled = plan(Levelled(simulator), delta=0.3, exact=exact)
            assert levelled.status is plain.status is Status.CLEAN
            np.testing.assert_array_equal(thetas_of(levelled), thetas_of(plain))
            assert levelled.play() == plain.play()
            assert levelled.queries == plain.queries
            assert levelled.certificate.upper == plain.certificate.upper

    @pytest.mark.parametrize(("discount", "delta"), [(0.2, 0.5), (0.5, 0.8), (0.7, 1.5)])
    def test_a_discounted_process_cut_where_the_theorem_says(
        self, discount: float, delta: float
    ) -> None:
        for seed in range(3):
            shape = Shape(horizon=None, discount=discount, states=4, dim=2)
            process = linear_process(seed, shape)
            best = start_value(process, solve(process).values)
            horizon = truncation_horizon(process.spec, delta)
            cut = Truncated(TableSimulator(process), horizon)
            assert all(condition.holds for condition in cut.conditions(delta))
            made = plan(cut, delta=delta)
            assert made.status is Status.CLEAN
            assert made.certificate.confidence == 1.0
            lower, upper = made.certificate.lower, made.certificate.upper
            assert lower is not None
            assert upper is not None
            assert lower == pytest.approx(float(made.play()[0]), abs=1e-12)
            # Rewards after the cut only add to what was collected before it.
            assert best - delta <= lower <= best + 1e-12
            assert best <= upper <= lower + delta

    def test_a_discounted_process_cut_too_early_is_not_covered(self) -> None:
        process = linear_process(0, Shape(horizon=None, discount=0.5, states=4, dim=2))
        early = truncation_horizon(process.spec, 0.8, "direct")
        certificate = plan(Truncated(TableSimulator(process), early), delta=0.8).certificate
        assert certificate.grounds.startswith("no theorem covers this run: misspecification")

    def test_inaccuracy_within_the_theorems_limit(self) -> None:
        delta = 1.5
        for seed in range(8):
            process = linear_process(seed, self.SHALLOW)
            simulator = TableSimulator(process)
            limit = float(resolve(PaperSettings(delta), process.spec).constants.accuracy)
            assert 1e-8 < limit < 0.01

            def most(states: States, actions: IntArray, bias: float = 0.9 * limit) -> FloatArray:
                return np.full(len(states), bias)

            biased = Inaccurate(simulator, 0.9 * limit, bias=most)
            assert all(condition.holds for condition in biased.conditions(delta))
            made = plan(biased, delta=delta)
            value, certificate = walked(made, simulator), made.certificate
            assert made.status is Status.CLEAN
            assert certificate.confidence == 1.0
            assert any("mean rewards are within" in words for words in certificate.assumptions)
            assert certificate.lower is not None
            # What was collected is too high by the bias of both stages, exactly.
            assert certificate.lower == pytest.approx(value, abs=1e-12)
            assert float(made.play()[0]) == pytest.approx(value + 2 * 0.9 * limit, abs=1e-12)
            assert certificate.upper is not None
            assert certificate.upper >= best_of(process)
            assert value >= best_of(process) - delta

    def test_misspecification_within_the_theorems_limit(self) -> None:
        delta = 1.5
        spec = replace(linear_process(0, self.SHALLOW).spec, misspecification=1e-9)
        limit = float(resolve(PaperSettings(delta), spec).constants.misspecification)
        for seed in range(8):
            process = linear_process(seed, replace(self.SHALLOW, noise=0.9 * limit))
            made = plan(TableSimulator(process), delta=delta)
            assert made.status is Status.CLEAN
            best, certificate = best_of(process, 0.9 * limit), made.certificate
            assert best == pytest.approx(start_value(process, solve(process).values))
            assert certificate.confidence == 1.0
            assert certificate.upper is not None
            assert certificate.upper >= best
            assert certificate.lower == float(made.play()[0]) >= best - delta

    @pytest.mark.parametrize("exact", [False, True])
    @pytest.mark.parametrize("promise", ["inaccuracy", "misspecification"])
    def test_errors_beyond_the_limit_are_covered_by_no_theorem(
        self, promise: str, exact: bool
    ) -> None:
        process = linear_process(0, self.SHALLOW)
        error = 1e-9 if exact else 0.05
        spec = replace(process.spec, **{promise: error})
        made = plan(TableSimulator(replace(process, spec=spec)), delta=1.5, exact=exact)
        certificate = made.certificate
        words = f"no theorem covers this run: {promise} {error:g} exceeds"
        assert certificate.grounds.startswith(words)
        assert (certificate.lower, certificate.upper, certificate.confidence) == (None,) * 3
        covered = plan(TableSimulator(process), delta=1.5, exact=exact)
        assert covered.certificate.confidence == 1.0


def test_an_oracle_that_stops_at_its_limit_leaves_a_plan() -> None:
    simulator, delta = small_process(3)
    made = plan(simulator, delta=delta, oracle=SlabOracle(node_limit=1))
    assert made.status is Status.ORACLE_GAP
    assert made.certificate.lower is None
    assert made.certificate.upper is not None
    assert made.certificate.upper >= best_of(simulator.process)
    assert np.isfinite(made.play()).all()
