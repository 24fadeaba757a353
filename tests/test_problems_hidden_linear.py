"""The hidden-linear family: exact, in range, and not trivial."""

import numpy as np
import pytest

from tensorplan.hashing import hashed, mixed, uniform
from tensorplan.problems import make, reference
from tensorplan.problems.hidden_linear import HIGH, LOW, HiddenLinear
from tensorplan.records import FloatArray, States

WORLDS = [
    HiddenLinear(dim=4, actions=2, horizon=20, seed=0),
    HiddenLinear(dim=2, actions=3, horizon=10, seed=1, successors=3, weights="unequal"),
    HiddenLinear(dim=8, actions=4, horizon=5, seed=2, successors=2, rewards="bernoulli"),
    HiddenLinear(dim=3, actions=2, horizon=50, seed=3, gap=1.0),
    HiddenLinear(dim=3, actions=12, horizon=1, seed=4, gap=0.1),
]
every_world = pytest.mark.parametrize("world", WORLDS, ids=lambda world: f"H{world.horizon}")


def visited(world: HiddenLinear, count: int, seed: int = 0) -> list[tuple[int, States]]:
    """States of ``count`` episodes, half of whose actions are random, with their stages."""
    rng = np.random.default_rng(seed)
    states, seen = np.repeat(world.start(rng), count), list[tuple[int, States]]()
    for stage in range(1, world.horizon + 1):
        seen.append((stage, states))
        random = rng.integers(world.actions, size=count)
        actions = np.where(rng.random(count) < 0.5, random, world.best_actions(states, stage))
        states = world.step(states, stage, actions, rng).states
    return seen


def action_values(world: HiddenLinear, states: States, stage: int) -> FloatArray:
    """By enumeration of all successors: [n, A]."""
    columns: list[FloatArray] = []
    for action in range(world.actions):
        after = world.outcomes(states, stage, np.full(len(states), action))
        np.testing.assert_allclose(after.probabilities.sum(axis=1), 1)
        assert after.rewards.min() >= 0
        assert after.rewards.max() <= 1
        following = world.values(after.states.ravel(), stage + 1).reshape(after.states.shape)
        columns.append(after.rewards + (after.probabilities * following).sum(axis=1))
    return np.stack(columns, axis=1)


@every_world
def test_bellman_optimality_at_visited_states(world: HiddenLinear):
    for stage, states in visited(world, 200):
        values, left = world.values(states, stage), world.horizon - stage + 1
        assert np.all((values > LOW * left) & (values < HIGH * left))
        worth = action_values(world, states, stage)
        best = world.best_actions(states, stage)
        rows = np.arange(len(states))
        np.testing.assert_allclose(worth[rows, best], values, atol=1e-9)
        loss = np.delete(values[:, None] - worth, rows * world.actions + best)
        room = np.delete(
            np.repeat(values - LOW * (left - 1), world.actions), rows * world.actions + best
        )
        assert np.all(loss <= world.gap + 1e-9)
        assert np.all(loss >= np.minimum(world.gap / 2, room - 1e-6) - 1e-9)


@pytest.mark.parametrize("actions", [2, 5])
def test_neither_reward_nor_next_value_tells_the_best_action(actions: int):
    world, stage = HiddenLinear(actions=actions, seed=6), 8
    states = np.random.default_rng(4).integers(0, 2**64, size=3000, dtype=np.uint64)
    best = world.best_actions(states, stage)
    rows, other = np.arange(len(states)), (best + 1) % actions
    worth = action_values(world, states, stage)
    good = world.outcomes(states, stage, best).rewards
    bad = world.outcomes(states, stage, other).rewards
    lost_reward = good - bad
    lost_value = worth[rows, best] - worth[rows, other] - lost_reward
    for part in (lost_reward, lost_value):
        assert 0.1 < part.mean() < 0.35
        assert 0.2 < (part < 0).mean() < 0.45


@pytest.mark.parametrize("successors", [1, 2])
def test_value_of_the_start_by_full_search(successors: int):
    world = HiddenLinear(horizon=5, successors=successors, weights="unequal", seed=7)

    def search(states: States, stage: int) -> FloatArray:
        if stage > world.horizon:
            return np.zeros(len(states))
        worth: list[FloatArray] = []
        for action in range(world.actions):
            after = world.outcomes(states, stage, np.full(len(states), action))
            below = search(after.states.ravel(), stage + 1).reshape(after.states.shape)
            worth.append(after.rewards + (after.probabilities * below).sum(axis=1))
        return np.max(worth, axis=0)

    value = float(search(world.start(np.random.default_rng(0)), 1)[0])
    expected = reference("hidden-linear", horizon=5, seed=7)
    assert expected is not None
    assert abs(value - expected) < 1e-9
    assert abs(value - 2.5) < 1e-8


@every_world
def test_theta_is_recovered(world: HiddenLinear):
    seen = visited(world, 100)
    rows = np.concatenate([world.features(states, stage) for stage, states in seen])
    values = np.concatenate([world.values(states, stage) for stage, states in seen])
    np.testing.assert_allclose(rows @ world.theta, values, atol=1e-9)
    assert np.linalg.norm(rows, axis=1).max() <= 1 + 1e-12
    bound = world.spec.bound
    assert bound is not None
    np.testing.assert_allclose(np.linalg.norm(world.theta), world.horizon)
    assert np.linalg.norm(world.theta) < bound
    if world.horizon > 1:
        found = np.linalg.lstsq(rows, values, rcond=None)[0]
        np.testing.assert_allclose(found, world.theta, atol=1e-6)


def test_no_feature_is_the_value():
    world = WORLDS[0]
    states = np.random.default_rng(0).integers(0, 2**64, size=4000, dtype=np.uint64)
    values, rows = world.values(states, 1), world.features(states, 1)
    for column in rows.T:
        assert abs(np.corrcoef(column, values)[0, 1]) < 0.9


@pytest.mark.parametrize("actions", [2, 3, 12])
def test_best_actions_are_uniform(actions: int):
    world = HiddenLinear(actions=actions, seed=5)
    states = np.random.default_rng(1).integers(0, 2**64, size=12_000, dtype=np.uint64)
    counts = np.bincount(world.best_actions(states, 3), minlength=actions)
    expected = len(states) / actions
    # Chance 1e-6 of a false alarm, by the normal bound on a sum of squares.
    assert ((counts - expected) ** 2 / expected).sum() < actions - 1 + 5 * np.sqrt(2 * actions) + 20


def test_draws_follow_the_probabilities():
    world = HiddenLinear(successors=3, weights="unequal", rewards="bernoulli", seed=9)
    rng, count = np.random.default_rng(2), 40_000
    start = world.start(rng)
    after = world.outcomes(start, 1, np.array([1]))
    step = world.step(np.repeat(start, count), 1, np.ones(count, np.int64), rng)
    shares = (step.states[:, None] == after.states).mean(axis=0)
    np.testing.assert_allclose(shares, after.probabilities[0], atol=0.015)
    assert np.ptp(after.probabilities) > 0.05
    assert set(np.unique(step.rewards)) == {0.0, 1.0}
    assert abs(step.rewards.mean() - after.rewards[0]) < 0.015
    equal = HiddenLinear(successors=3).outcomes(start, 1, np.array([0]))
    np.testing.assert_allclose(equal.probabilities, 1 / 3)


@pytest.mark.parametrize("dim", [2, 3, 9, 40])
def test_features_do_not_depend_on_the_batch(dim: int):
    world = HiddenLinear(dim=dim)
    states = np.random.default_rng(3).integers(0, 2**64, size=67, dtype=np.uint64)
    whole = world.features(states, 2)
    single = np.concatenate([world.features(states[i : i + 1], 2) for i in range(67)])
    np.testing.assert_array_equal(whole, single)
    np.testing.assert_array_equal(whole[::3], world.features(states[::3], 2))


@pytest.mark.parametrize(("actions", "dim", "horizon"), [(2, 2, 5), (2, 4, 20), (3, 4, 10)])
def test_random_policy_is_far_from_optimal(actions: int, dim: int, horizon: int):
    shares: list[float] = []
    for seed in range(8):
        world = make("hidden-linear", actions=actions, dim=dim, horizon=horizon, seed=seed)
        rng = np.random.default_rng(seed)
        states, total = np.repeat(world.start(rng), 200), 0.0
        for stage in range(1, horizon + 1):
            step = world.step(states, stage, rng.integers(actions, size=200), rng)
            states, total = step.states, total + float(step.rewards.mean())
        shares.append(total / (horizon / 2))
    assert 0.35 < np.mean(shares) < 0.65
    assert max(shares) < 0.8


@pytest.mark.parametrize(("actions", "dim", "horizon"), [(2, 2, 5), (2, 4, 20), (3, 4, 10)])
def test_range_cuts_alone_do_not_solve_it(actions: int, dim: int, horizon: int):
    excess: list[float] = []
    for seed in range(5):
        world = HiddenLinear(actions=actions, dim=dim, horizon=horizon, seed=seed)
        seen = visited(world, 12, seed)
        rows = np.concatenate([world.features(states, stage) for stage, states in seen])
        highest = np.concatenate([np.full(12, horizon - stage + 1.0) for stage, _ in seen])
        predicted = optimistic(world, rows, highest)
        excess.append((predicted - horizon / 2) / horizon)
    assert np.median(excess) > 0.12


def optimistic(world: HiddenLinear, rows: FloatArray, highest: FloatArray) -> float:
    """A large prediction at the start by a parameter in the ball that obeys all ranges.

    Random ascent from theta* inside the set, so that what it finds is a lower bound of the
    optimistic value.
    """
    rng, theta = np.random.default_rng(0), world.theta
    goal = rows[0] / np.linalg.norm(rows[0])
    bound = world.spec.bound or 0.0
    for _ in range(2000):
        way = goal + rng.normal(size=world.dim) * rng.choice([0.3, 1.0])
        if way @ goal <= 0:
            continue
        slope, here = rows @ way, rows @ theta
        room = np.where(slope > 0, highest - here, here) / np.maximum(np.abs(slope), 1e-12)
        cross, square = float(theta @ way), float(way @ way)
        ball = (np.sqrt(cross**2 + square * (bound**2 - theta @ theta)) - cross) / square
        theta = theta + 0.9 * min(float(room.min()), float(ball)) * way
    return float(rows[0] @ theta)


def test_seeds_of_any_size():
    states = [HiddenLinear(seed=seed).start(np.random.default_rng(0)) for seed in (0, 1, 2**70)]
    assert len({int(state[0]) for state in states}) == 3


def test_hashes_spread():
    keys = np.arange(10_000, dtype=np.uint64)
    assert len(np.unique(mixed(keys))) == len(keys)
    assert int(mixed(np.zeros(1, np.uint64))[0]) == 0xE220A8397B1DCDAF  # SplitMix64, seed 0
    draws = uniform(hashed(keys, 1, 2))
    assert 0 < draws.min() < draws.max() < 1
    assert abs(draws.mean() - 0.5) < 0.02
    assert abs(np.corrcoef(draws, uniform(hashed(keys, 2, 1)))[0, 1]) < 0.05
    assert hashed(keys[:, None], np.arange(3)).shape == (10_000, 3)
    extreme = uniform(np.array([0, 2**64 - 1], np.uint64))
    assert 0 < extreme[0] < extreme[1] < 1
