"""Random rollouts before a run: what they are for, and what they cost."""

from __future__ import annotations

import numpy as np
import pytest

from tensorplan import problems
from tensorplan.exact import solve, start_value
from tensorplan.finite import TableSimulator
from tensorplan.plan import AdaptivePlan, Budget, plan
from tensorplan.planners.adaptive.state import State
from tensorplan.problem import Simulator
from tensorplan.records import Status
from tensorplan.testing import CountingSimulator


def hidden() -> Simulator:
    return problems.make("hidden-linear", actions=2, dim=3, horizon=4, successors=3, seed=1)


def made_with(simulator: Simulator, explore: int, *, budget: int = 200_000) -> AdaptivePlan:
    limits = Budget(queries=budget)
    return plan(simulator, delta=0.8, explore=explore, budget=limits, iteration_limit=1)


class TestStochastic:
    @pytest.mark.parametrize(
        "simulator", [hidden(), problems.make("river-swim", horizon=6)], ids=["general", "tabular"]
    )
    def test_every_query_is_counted(self, simulator: Simulator) -> None:
        counting = CountingSimulator(simulator)
        made = made_with(counting, 6)
        assert made.queries.total == counting.queries
        without = made_with(simulator, 0)
        assert made.queries.by_phase["forward"] > without.queries.by_phase["forward"]

    def test_states_become_cuts_and_constraints(self) -> None:
        with_, without = made_with(hidden(), 6), made_with(hidden(), 0)
        assert len(with_.record.beliefs.cuts) > len(without.record.beliefs.cuts)
        assert 1 < len(with_.record.beliefs.states) <= 3
        features = np.array([state.features for state in with_.record.beliefs.states])
        assert np.linalg.matrix_rank(features) == len(features)

    def test_levels_are_spent_in_order(self) -> None:
        record = made_with(hidden(), 6).record
        assert isinstance(record, State)
        assert [slab.index for slab in record.slabs] == list(range(1, len(record.slabs) + 1))

    def test_the_bounds_hold(self) -> None:
        simulator = problems.make("random-tabular", outcomes=2, horizon=3, seed=3)
        assert isinstance(simulator, TableSimulator)
        best = start_value(simulator.process, solve(simulator.process).values)
        made = plan(simulator, delta=0.5, explore=5, budget=Budget(queries=10**6))
        assert made.status is Status.CERTIFIED
        assert made.certificate.upper is not None
        assert made.certificate.upper >= best - 1e-9

    def test_the_same_seed_explores_the_same(self) -> None:
        first, second = made_with(hidden(), 6), made_with(hidden(), 6)
        assert first.summary() == second.summary()

    def test_a_budget_may_end_on_the_way(self) -> None:
        made = made_with(hidden(), 10, budget=7)
        assert made.status is Status.BUDGET
        assert made.queries.total <= 7
