"""Rollouts in lockstep: lower values of what is cut, order, and the policy that is executed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats
from stochastic_worlds import FEATURES, TABLE, few_answers

from tensorplan.access import Access
from tensorplan.finite import TableSimulator, from_table
from tensorplan.local import Handle, Key, LocalAccess, Measurement
from tensorplan.planners.adaptive.engine import ExecutedPolicy
from tensorplan.planners.adaptive.policy import GreedyPolicy
from tensorplan.planners.adaptive.rollouts import Batch, Visits, roll, rollout_length
from tensorplan.ranges import ValueRanges
from tensorplan.records import IntArray, Phase, Spec

ERROR_RATE = 1e-3
"""Of each statistical check, over seeds."""


class Always:
    """Plays one action, and measures every action if told to."""

    def __init__(self, action: int = 0, draws: int = 0) -> None:
        self.action, self.draws = action, draws

    def act(
        self, access: LocalAccess, handle: Handle, phase: Phase, key: Key
    ) -> tuple[IntArray, list[tuple[IntArray, Measurement]]]:
        chosen = np.full(handle.size, self.action)
        if not self.draws:
            return chosen, []
        found = access.measure(handle, handle.stage, self.draws, phase=phase, key=key)
        return chosen, [(np.arange(handle.size), found)]


def rolled(simulator: Any, policy: Any, count: int = 5, seed: int = 0, **options: Any) -> Batch:
    access = Access(simulator, seed=seed)
    spec = simulator.spec
    length: int = options.pop("length", spec.horizon or 30)
    return roll(
        access.local,
        access.start(),
        policy,
        count,
        length=length,
        phase=Phase.VERIFY,
        key=(7,),
        **options,
    )


def steady(reward: float, spec: Spec) -> TableSimulator:
    """One state that pays the same for ever."""
    return from_table([[[(1.0, 0, reward, False)]]], np.ones((1, 1)), spec)


# --- lower values (F10.7) ------------------------------------------------------------------------


@pytest.mark.parametrize("may_terminate", [True, False])
@pytest.mark.parametrize("low", [-2.0, 0.0, 0.5])
@pytest.mark.parametrize("discount", [0.0, 0.6, 0.95])
@pytest.mark.parametrize("length", [1, 4, 60])
def test_an_endless_rollout_counts_the_least_of_the_rest(
    low: float, discount: float, length: int, may_terminate: bool
) -> None:
    spec = Spec(1, 1, None, discount, (low, 1.0), may_terminate=may_terminate)
    least = min(low, 0.0) if may_terminate else low
    paid = sum(0.75 * discount**k for k in range(length))
    expected = paid + discount**length * least / (1 - discount)
    found = rolled(steady(0.75, spec), Always(), length=length).returns
    np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize("may_terminate", [True, False])
@pytest.mark.parametrize("low", [-2.0, 0.0, 0.5])
@pytest.mark.parametrize("discount", [0.5, 1.0])
def test_a_rollout_that_is_broken_off_counts_the_least_of_the_rest(
    low: float, discount: float, may_terminate: bool
) -> None:
    spec = Spec(1, 1, 6, discount, (low, 1.0), may_terminate=may_terminate)
    least = min(low, 0.0) if may_terminate else low
    for stop in range(1, 7):
        met: list[Visits] = []

        def go_on(visits: Visits, met: list[Visits] = met, stop: int = stop) -> bool:
            met.append(visits)
            return len(met) < stop

        found = rolled(steady(0.75, spec), Always(0, 1), watch=go_on)
        paid = sum(0.75 * discount**k for k in range(stop - 1))
        rest = sum(least * discount**k for k in range(stop - 1, 6))
        np.testing.assert_allclose(found.returns, paid + rest, atol=1e-12)
        assert len(found.visits) == stop


@pytest.mark.parametrize("horizon", [3, None])
def test_returns_are_never_below_what_the_bets_allow(horizon: int | None) -> None:
    table: Any = [[[(0.5, 0, -1.0, False), (0.3, 0, 1.0, False), (0.2, 0, -1.0, True)]]]
    spec = Spec(1, 1, horizon, 0.8, (-1.0, 1.0))
    found = rolled(from_table(table, np.ones((1, 1)), spec), Always(), 500).returns
    assert np.all(found >= ValueRanges.of(spec).rest_low - 1e-12)
    assert found.min() < 0 < found.max()


@pytest.mark.parametrize("discount", [0.0, 0.5, 0.99])
@pytest.mark.parametrize("tail", [1e-6, 0.1, 50.0, 1e4])
def test_what_comes_after_a_rollout_is_worth_at_most_its_tail(discount: float, tail: float) -> None:
    ranges = ValueRanges(-1.0, 2.0, discount, None)
    length = rollout_length(ranges, tail)
    assert discount**length * ranges.width(1) <= tail * (1 + 1e-9)
    assert length == 1 or discount ** (length - 1) * ranges.width(1) > tail
    assert rollout_length(ValueRanges(0.0, 1.0, 1.0, 7), tail) == 7


# --- order, ends, and means ----------------------------------------------------------------------


def test_each_rollout_is_its_own_from_beginning_to_end() -> None:
    """1 at once, or .25 in each of three stages: the first step says which, by its number."""
    table: Any = [
        [[(0.5, 0, 1.0, True), (0.5, 1, 0.25, False)]],
        [[(1.0, 1, 0.25, False)]],
    ]
    simulator = from_table(table, np.array([[1.0], [0.5]]), Spec(1, 1, 3))
    found = rolled(simulator, Always(), 200, seed=4).returns
    access = Access(simulator, seed=4)
    starts = access.take(access.start(), np.zeros(200, np.int64))
    first = access.advance(starts, 1, [0] * 200, phase=Phase.FORWARD, key=(7, 0))
    np.testing.assert_array_equal(found, np.where(first.terminated, 1.0, 0.75))
    assert 50 < first.terminated.sum() < 150


@pytest.mark.parametrize(("horizon", "discount"), [(3, 1.0), (4, 0.7), (None, 0.7)])
def test_mean_returns_are_exact_values(horizon: int | None, discount: float) -> None:
    """Always action 0: dynamic programming over the table, one outcome at a time."""
    simulator = few_answers(horizon, discount)
    values = np.zeros(3)
    for _ in range(horizon or 200):
        values = np.array(
            [
                sum(p * (r + discount * values[s] * (not ended)) for p, s, r, ended in row[0])
                if row[0]
                else 0.0
                for row in TABLE
            ]
        )
    returns = rolled(simulator, Always(), 4000, seed=1).returns
    error = abs(returns.mean() - values[0]) / (returns.std() / np.sqrt(len(returns)))
    assert stats.norm.sf(error) * 2 > ERROR_RATE


def test_visits_hold_what_was_drawn() -> None:
    def go_on(visits: Visits) -> bool:
        return len(visits.features) > 0

    found = rolled(few_answers(), Always(0, 40), 30, watch=go_on)
    assert [visits.handle.stage for visits in found.visits] == [1, 2, 3, 4]
    sizes = [len(visits.features) for visits in found.visits]
    assert sizes[0] == 30
    assert sizes == sorted(sizes, reverse=True)
    theta = np.array([0.4, -0.3])
    for visits in found.visits:
        in_first = visits.features[:, 0] > 0
        np.testing.assert_array_equal(visits.counts[in_first], 40)
        assert np.all(visits.counts[~in_first] == [40, 0])
        errors = visits.errors(theta, 0.9)
        assert np.all(np.isneginf(errors[~in_first, 1]))
        plain = (
            visits.mean[in_first, 1, 1]
            + 0.9 * visits.mean[in_first, 1, 2:] @ theta
            - visits.features[in_first] @ theta
        )
        np.testing.assert_allclose(errors[in_first, 1], plain)


# --- the policy (B0, F4) -------------------------------------------------------------------------


def coins(better: float) -> TableSimulator:
    """Two actions that pay by a coin and end the episode."""
    fair: Any = [(0.5, 0, 0.0, True), (0.5, 0, 1.0, True)]
    other: Any = [(1 - better, 0, 0.0, True), (better, 0, 1.0, True)]
    return from_table([[fair, other]], np.ones((1, 1)), Spec(2, 1, None, 0.9))


def acts(simulator: TableSimulator, policy: GreedyPolicy, count: int, seed: int) -> IntArray:
    access = Access(simulator, seed=seed)
    here = access.take(access.start(), np.zeros(count, np.int64))
    return policy.act(access.local, here, Phase.TEST, (1,))[0]


def test_every_rollout_tests_for_itself() -> None:
    """One test for a whole batch would certify the luckier action (F4)."""
    chosen = acts(coins(0.5), GreedyPolicy(np.zeros(1), 8, 0.5), 400, 0)
    tie = float((stats.binom.pmf(np.arange(9), 8, 0.5) ** 2).sum())  # goes to the first action
    assert stats.binomtest(int(chosen.sum()), 400, (1 - tie) / 2).pvalue > ERROR_RATE


@pytest.mark.parametrize("draws", [1, 2, 8, 30])
def test_rollouts_and_execution_are_the_same_procedure(draws: int) -> None:
    simulator, policy = coins(0.6), GreedyPolicy(np.zeros(1), draws, 0.5)
    tested = int(acts(simulator, policy, 1500, 1).sum())
    access = Access(simulator, seed=2)
    executed = ExecutedPolicy(access.local, policy)
    here = access.take(access.start(), np.zeros(1500, np.int64))
    played = int(executed.actions(here, 1, (3,)).sum())
    table = np.array([[tested, 1500 - tested], [played, 1500 - played]])
    assert stats.fisher_exact(table).pvalue > ERROR_RATE
    assert access.queries.by_phase["test"] == 0 < access.queries.by_phase["act"]


def test_an_action_that_is_clearly_behind_is_not_drawn_again() -> None:
    simulator, policy = coins(1.0), GreedyPolicy(np.zeros(1), 400, 0.5)
    access = Access(simulator, seed=0)
    here = access.take(access.start(), np.zeros(20, np.int64))
    chosen, measured = policy.act(access.local, here, Phase.TEST, (1,))
    assert np.all(chosen == 1)
    assert len(measured) == 1
    assert access.queries.total == 20 * 2 * 100


def test_close_actions_share_all_draws_and_masked_ones_none() -> None:
    simulator = few_answers()
    access = Access(simulator, seed=0)
    here = access.admit(np.array([0, 1]), 2)
    policy = GreedyPolicy(np.zeros(2), 40, 100.0)
    chosen, measured = policy.act(access.local, here, Phase.TEST, (1,))
    assert chosen[1] == 0
    (first_rows, first), (rest_rows, rest) = measured
    assert (first_rows.tolist(), rest_rows.tolist()) == ([0, 1], [0])
    assert first.draws + rest.draws == 40
    assert access.queries.total == 3 * 10 + 2 * 30
    mean = (10 * first.rewards[0] + 30 * rest.rewards[0]) / 40
    assert chosen[0] == mean.argmax()


def test_the_policy_follows_its_parameter() -> None:
    """By what it predicts of next states, too: at large theta the action that stays is better."""
    access = Access(few_answers(None, 0.9), seed=0)
    here = access.take(access.start(), np.zeros(50, np.int64))
    for theta, best in ((np.array([0.0, 9.0]), 1), (np.array([9.0, 0.0]), 0)):
        policy = GreedyPolicy(theta, 60, 1.0)
        chosen = policy.act(access.local, here, Phase.TEST, (best,))[0]
        assert np.all(chosen == best)
    np.testing.assert_array_equal(access.features(here), np.repeat(FEATURES[:1], 50, axis=0))
