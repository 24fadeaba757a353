"""What a plan is worth by fresh rollouts: against exact values, and what they cost."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

import tensorplan as tp
from tensorplan import problems
from tensorplan.errors import SettingError
from tensorplan.exact import evaluate, start_value
from tensorplan.finite import TableSimulator
from tensorplan.plan import Budget, plan
from tensorplan.problem import Simulator
from tensorplan.records import Spec
from tensorplan.testing import CountingSimulator


def coin(pay: float = 0.5, discount: float | None = None) -> Simulator:
    """One action; it pays 1 with some probability, over 3 stages or for ever."""
    spec = Spec(1, 1, None if discount else 3, bound=20.0, discount=discount or 1.0)

    def step(
        state: int, stage: int, action: int, rng: np.random.Generator
    ) -> tuple[float, int, bool]:
        return float(rng.random() < pay), state, False

    def features(state: int, stage: int) -> list[float]:
        return [1.0 if discount else (4 - stage) / 3]

    return tp.from_functions(spec, lambda rng: 0, step, features)


class TestStochastic:
    def test_against_the_exact_value_of_the_policy(self) -> None:
        simulator = problems.make("frozen-lake", horizon=8)
        assert isinstance(simulator, TableSimulator)
        made = plan(simulator, delta=0.3, budget=Budget(queries=15_000))
        states, stages = range(simulator.process.states), range(1, 9)
        # A table is played alike whenever it is asked.
        actions = [[made.action(state, stage) for state in states] for stage in stages]
        exact = evaluate(simulator.process, np.array(actions, np.int64))
        value = start_value(simulator.process, exact.values)
        found = made.evaluate(4000)
        assert found.standard_error
        assert abs(found.mean - value) <= 5 * found.standard_error + 1e-9
        assert found.lower <= value

    def test_the_bound_holds_as_often_as_it_says(self) -> None:
        # At most 20% of 60 runs in truth; more than the limit has probability 1e-3.
        wrong = 0
        for seed in range(60):
            made = plan(coin(), delta=2.9, seed=seed)
            found = [made.evaluate(10, confidence=0.8).lower for _ in range(4)]
            wrong += max(found) > 1.5
        assert wrong <= binom.isf(1e-3, 60, 0.2)

    def test_calls_add_up_and_are_counted(self) -> None:
        counting = CountingSimulator(coin())
        made = plan(counting, delta=2.9)
        before = made.queries
        first, second = made.evaluate(50), made.evaluate(70)
        assert (first.rollouts, second.rollouts) == (50, 120)
        after = made.queries
        assert after.total - before.total == first.queries + second.queries
        spent = after.by_phase["verify"] - before.by_phase["verify"]
        assert spent == first.queries + second.queries
        assert counting.queries == after.total
        assert second.lower >= first.lower - 0.3

    def test_an_endless_one_counts_what_is_left_as_the_least(self) -> None:
        made = plan(coin(discount=0.5), delta=0.5)
        found = made.evaluate(500)
        assert found.lower <= found.mean <= 1.15
        assert found.lower <= 1.0

    def test_the_papers_plan(self) -> None:
        made = plan(coin(), delta=1.0, planner="paper", sizes=(2, 50, 100))
        found = made.evaluate(200)
        assert found.mean == pytest.approx(1.5, abs=0.4)
        assert found.queries == 200 * 3 * 51


class TestDeterministic:
    def test_rollouts_are_alike(self) -> None:
        made = plan(problems.make("deep-sea", size=5), delta=0.01)
        found = made.evaluate(3)
        assert (found.mean, found.standard_error) == (pytest.approx(0.99), pytest.approx(0.0))
        assert found.queries == made.queries.by_phase["verify"] == 15
        assert "mean return 0.99" in str(found)
        assert made.evaluate(1).rollouts == 4


class TestMisuse:
    @pytest.mark.parametrize(("count", "confidence"), [(0, 0.9), (2.5, 0.9), (5, 1.0), (5, 0)])
    def test_requests_that_mean_nothing(self, count: int, confidence: float) -> None:
        made = plan(problems.make("deep-sea", size=3), delta=0.01)
        with pytest.raises(SettingError):
            made.evaluate(count, confidence=confidence)
