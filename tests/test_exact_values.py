"""Optimal values, values of policies, reachable states and occupancies."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from test_exact_worlds import (
    permuted,
    random_process,
    slow_pairs,
    slow_policies,
    slow_values,
    two_states,
)

from tensorplan.errors import SettingError
from tensorplan.exact import evaluate, occupancy, reachable, solve, start_value
from tensorplan.finite import FiniteProcess, TableSimulator, from_table
from tensorplan.records import FloatArray, Spec

SPECS = [Spec(2, 2, 3), Spec(3, 2, 2, discount=0.6), Spec(2, 2, None, discount=0.8)]


def any_policy(process: FiniteProcess, seed: int) -> FloatArray:
    """Random probabilities on the available actions."""
    shape = (process.spec.horizon or 1, *process.allowed.shape)
    weights = np.random.default_rng(seed).random(shape) * process.allowed
    return weights / weights.sum(axis=2, keepdims=True)


def test_two_state_chain_closed_form():
    solution = solve(two_states(horizon=3))
    np.testing.assert_allclose(solution.values, [[2, 3], [1, 2], [0.1, 1], [0, 0]])
    np.testing.assert_allclose(solution.q[0], [[1.1, 2], [3, 3]])
    assert solution.policy[:, 0].tolist() == [1, 1, 0]


@pytest.mark.parametrize("discount", [0.0, 0.5, 0.99, 0.9999])
def test_geometric_sums(discount: float):
    endless = solve(two_states(None, discount))
    assert endless.values.shape == (1, 2)
    assert endless.q.shape == (1, 2, 2)
    far = 1 / (1 - discount)
    np.testing.assert_allclose(endless.values[0, 1], far, rtol=1e-11)
    np.testing.assert_allclose(endless.values[0, 0], max(0.1 * far, discount * far), rtol=1e-11)
    cut = solve(two_states(7, discount))
    np.testing.assert_allclose(cut.values[0, 1], sum(discount**t for t in range(7)))


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("seed", range(5))
def test_optimum_is_the_best_of_all_policies(spec: Spec, seed: int):
    process = random_process(seed, spec, end=0.2, mask=0.3)
    every = [slow_values(process, policy) for policy in slow_policies(process)]
    live = tuple(np.transpose(slow_pairs(process)))
    best = np.max(every, axis=0)
    np.testing.assert_allclose(solve(process).values[live], best[live], atol=1e-12)


@pytest.mark.parametrize("spec", SPECS)
def test_bellman_optimality_and_the_greedy_policy(spec: Spec):
    process = random_process(11, spec, states=8, end=0.1, mask=0.2)
    solution = solve(process)
    stages = len(solution.policy)
    np.testing.assert_allclose(solution.q.max(axis=2), solution.values[:stages], atol=1e-12)
    assert np.all(np.isneginf(solution.q) == ~process.allowed)
    own = evaluate(process, solution.policy)
    np.testing.assert_allclose(own.values, solution.values, atol=1e-12)
    np.testing.assert_allclose(own.q, solution.q, atol=1e-12)


@pytest.mark.parametrize("spec", SPECS)
def test_evaluate_agrees_with_adding_up_outcomes(spec: Spec):
    process = random_process(5, spec, end=0.2, mask=0.3)
    for policy in list(slow_policies(process))[:20]:
        np.testing.assert_allclose(
            evaluate(process, policy).values, slow_values(process, policy), atol=1e-12
        )


@pytest.mark.parametrize("spec", SPECS)
def test_randomised_policy_averages_its_own_q(spec: Spec):
    process = random_process(6, spec, end=0.2)
    weights = any_policy(process, 1)
    found = evaluate(process, weights)
    np.testing.assert_allclose(
        (weights * found.q).sum(axis=2), found.values[: len(weights)], atol=1e-12
    )


def test_renamed_actions_leave_the_values():
    process = random_process(2, Spec(3, 2, 3), mask=0.3)
    order = [2, 0, 1]
    before, after = solve(process), solve(permuted(process, order))
    np.testing.assert_array_equal(before.values, after.values)
    np.testing.assert_array_equal(before.q[:, :, order], after.q)


def test_the_better_action_does_not_count_when_masked():
    process = two_states(horizon=3)
    masked = replace(process, allowed=np.array([[True, False], [True, True]]))
    assert solve(masked).values[0, 0] == pytest.approx(0.3)
    assert solve(masked).q[0, 0, 1] == -np.inf


def test_nothing_is_earned_after_termination():
    table = [[[(0.5, 0, 1.0, True), (0.5, 0, 1.0, False)]]]
    process = from_table(table, np.ones((1, 1)), Spec(1, 1, 4)).process
    assert solve(process).values[0, 0] == pytest.approx(1 + 0.5 + 0.25 + 0.125)
    endless = replace(process, spec=Spec(1, 1, None, discount=0.9))
    assert solve(endless).values[0, 0] == pytest.approx(1 / (1 - 0.45))


def test_state_without_actions_is_refused_only_if_an_episode_gets_there():
    step = [(1.0, 1, 0.0, False)]
    alive = from_table([[step], [[]]], np.ones((2, 1)), Spec(1, 1, 2)).process
    with pytest.raises(SettingError, match="no action in state 1, reached alive at stage 2"):
        solve(alive)
    assert solve(replace(alive, spec=Spec(1, 1, 1))).values[0, 0] == 0.0
    ended = replace(alive, terminated=np.ones((2, 1, 1), np.bool_))
    np.testing.assert_array_equal(solve(ended).values, np.zeros((3, 2)))


@pytest.mark.parametrize("call", [solve, reachable])
def test_total_reward_is_refused(call: object):
    process = two_states(None, discount=1.0)
    with pytest.raises(SettingError, match="total reward"):
        call(process)  # pyright: ignore[reportCallIssue]  # one of the two functions above


@pytest.mark.parametrize("spec", [SPECS[0], SPECS[1]])
def test_randomised_policy_against_monte_carlo(spec: Spec):
    process = random_process(9, spec, end=0.2)
    weights = any_policy(process, 2)
    count, rng, simulator = 20_000, np.random.default_rng(4), TableSimulator(process)
    states, alive = np.zeros(count, np.int64), np.ones(count, np.bool_)
    returns = np.zeros(count)
    for stage in range(1, len(weights) + 1):
        edges = np.cumsum(weights[stage - 1, states], axis=1)[:, :-1]
        actions = (rng.random(count)[:, None] >= edges).sum(axis=1)
        step = simulator.step(states, stage, actions, rng)
        returns += np.where(alive, spec.discount ** (stage - 1) * step.rewards, 0.0)
        alive, states = alive & ~step.terminated, step.states
    # Five standard errors: wrong once in about two million seeds.
    error = 5 * float(returns.std()) / count**0.5
    exact = start_value(process, evaluate(process, weights).values)
    assert error < 0.05
    assert abs(float(returns.mean()) - exact) < error


def test_reachable_of_a_hand_example():
    gone = [(1.0, 3, 0.0, True)]
    table = [
        [[(1.0, 1, 0.0, False)], [(0.0, 2, 0.0, False), (1.0, 1, 0.0, False)]],
        [[(1.0, 0, 0.0, False)], gone],
        [gone, gone],
        [gone, gone],
    ]
    process = from_table(table, np.ones((4, 1)), Spec(2, 1, 3)).process
    assert reachable(process).astype(int).tolist() == [[1, 0, 0, 0], [0, 1, 0, 0], [1, 0, 0, 0]]
    endless = replace(process, spec=Spec(2, 1, None, discount=0.5))
    assert reachable(endless).astype(int).tolist() == [[1, 1, 0, 0]]
    two_starts = replace(process, start_probabilities=np.array([0.5, 0.0, 0.5, 0.0]))
    assert reachable(two_starts)[0].tolist() == [True, False, True, False]
    shut = replace(process, allowed=np.array([[True, True], [False, True]] + [[True, True]] * 2))
    assert not reachable(shut)[2].any()


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("seed", range(4))
def test_reachable_agrees_with_a_plain_search(spec: Spec, seed: int):
    process = random_process(seed, spec, states=6, end=0.4, mask=0.3)
    pairs = [tuple(pair) for pair in np.argwhere(reachable(process)).tolist()]
    assert pairs == slow_pairs(process)


@pytest.mark.parametrize("spec", SPECS)
def test_occupancy_prices_the_rewards(spec: Spec):
    process = random_process(7, spec, end=0.3)
    weights = any_policy(process, 3)
    visits = occupancy(process, weights)
    rewards = (weights * process.mean_rewards()).sum(axis=2)
    prices = spec.discount ** np.arange(len(visits))
    total = float((prices[:, None] * visits * rewards).sum())
    assert total == pytest.approx(start_value(process, evaluate(process, weights).values))
    assert np.all(visits[~reachable(process)] == 0)


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (np.zeros((2, 2), np.int64), "must be whole numbers"),
        (np.zeros((3, 2)), "must be whole numbers"),
        (np.full((3, 2), 2), "actions are numbers from 0 to 1"),
        (np.full((3, 2), -1), "actions are numbers from 0 to 1"),
        (np.full((3, 2, 2), 0.4), "sum to 1"),
        (np.tile([1.5, -0.5], (3, 2, 1)), "at least 0"),
        (np.full((3, 2, 2), np.nan), "sum to 1"),
    ],
)
def test_bad_policies_are_refused(policy: FloatArray, message: str):
    with pytest.raises(SettingError, match=message):
        evaluate(two_states(horizon=3), policy)


def test_unavailable_action_is_refused_only_where_an_episode_can_be():
    process = replace(two_states(2), allowed=np.array([[True, False], [True, False]]))
    with pytest.raises(SettingError, match="action 1 in state 0 at stage 1"):
        evaluate(process, np.array([[1, 0], [0, 0]]))
    with pytest.raises(SettingError, match="action 1 in state 0 at stage 2"):
        evaluate(process, np.array([[[1, 0], [1, 0]], [[0.5, 0.5], [1, 0]]]))
    elsewhere = evaluate(process, np.array([[0, 1], [0, 1]]))
    assert elsewhere.values[0].tolist() == [0.2, 0.0]
