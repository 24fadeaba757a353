"""Finite families: values against independent computations, and what their features promise."""

from itertools import product

import numpy as np
import pytest
from problems_reference import (
    check_linear,
    misfit_of,
    reachable,
    recursive_value,
    reference_of,
    returns_of_all_sequences,
    rows_of,
)

from tensorplan.problems import aggregated, combination_lock, counterexample, deep_sea
from tensorplan.problems.induction import (
    action_values,
    optimal_values,
    policy_values,
    start_value,
)
from tensorplan.records import FloatArray, IntArray

# Combination lock.


@pytest.mark.parametrize(("length", "actions", "seed"), [(1, 3, 0), (5, 3, 1), (8, 2, 2)])
def test_lock_pays_for_one_sequence_alone(length: int, actions: int, seed: int):
    world = combination_lock.build(length=length, actions=actions, seed=seed)
    returns = list(returns_of_all_sequences(world).values())
    assert returns.count(1.0) == 1
    assert returns.count(0.0) == actions**length - 1


@pytest.mark.parametrize("length", [1, 2, 9, 40])
def test_lock_value_is_linear_but_no_feature(length: int):
    world = combination_lock.build(length=length, actions=3)
    values = optimal_values(world.process)
    assert recursive_value(world.process) == reference_of(combination_lock.FAMILY) == 1.0
    check_linear(world, values)
    if length > 1:
        columns = rows_of(world.process).reshape(-1, 4).T
        assert all(misfit_of(column, values.ravel()) > 0.1 for column in columns)


# DeepSea.


def played(size: int, right: IntArray, actions: list[int]) -> float:
    """Return of an episode by the rules of the grid, one move at a time."""
    column, total, cell = 0, 0.0, 0
    for row in range(size):
        cell = row * (row + 1) // 2 + column
        if actions[row] == right[cell]:
            total += (1.0 if column == size - 1 else 0.0) - 0.01 / size
            column = min(column + 1, size - 1)
        else:
            column = max(column - 1, 0)
    return total


@pytest.mark.parametrize("seed", [None, 5])
@pytest.mark.parametrize("size", [1, 2, 6])
def test_deep_sea_follows_its_rules(size: int, seed: int | None):
    world = deep_sea.build(size=size, seed=seed)
    cells = size * (size + 1) // 2
    right = (
        np.ones(cells, int) if seed is None else np.random.default_rng(seed).integers(2, size=cells)
    )
    returns = returns_of_all_sequences(world)
    for sequence, total in returns.items():
        np.testing.assert_allclose(total, played(size, right, list(sequence)), atol=1e-12)
    np.testing.assert_allclose(max(returns.values()), 0.99, atol=1e-12)
    assert sum(total > 0 for total in returns.values()) == 1


@pytest.mark.parametrize("features", ["compact", "one-hot"])
@pytest.mark.parametrize("size", [1, 5, 20])
def test_deep_sea_value_is_linear(size: int, features: deep_sea.FeatureName):
    world = deep_sea.build(size=size, features=features, seed=1)
    np.testing.assert_allclose(
        start_value(world.process), reference_of(deep_sea.FAMILY, size=size), atol=1e-12
    )
    mask = reachable(world.process)
    assert mask.sum() == size * (size + 1) // 2
    check_linear(world, optimal_values(world.process), mask)
    assert world.spec.dim == (4 if features == "compact" else mask.sum())


def test_deep_sea_value_is_no_compact_feature():
    world = deep_sea.build(size=20)
    mask = reachable(world.process)
    values, rows = optimal_values(world.process)[mask], rows_of(world.process)[mask]
    assert all(misfit_of(column, values) > 1e-3 for column in rows.T)


# The counterexample.


def test_counterexample_is_the_printed_one():
    world = counterexample.build()
    s0, s, z, x, y, e = range(6)
    process, c = world.process, 0.2
    table = rows_of(process)
    printed = {
        (1, s0): (c, 2 * c), (2, s): (0, 2 * c), (2, z): (c, 0),
        (3, x): (0, 2 * c), (3, y): (0, 4 * c), (3, e): (0, 0),
    }  # fmt: skip
    for (stage, state), row in printed.items():
        np.testing.assert_allclose(table[stage - 1, state], row)
    assert {(int(h) + 1, int(i)) for h, i in np.argwhere(reachable(process))} == set(printed)
    assert (world.spec.actions, world.spec.dim, world.spec.horizon, world.spec.bound) == (
        2,
        2,
        3,
        5,
    )
    assert recursive_value(process) == reference_of(counterexample.FAMILY) == 1.0
    check_linear(world, optimal_values(process))
    np.testing.assert_array_equal(world.theta, [5, 0])


def test_counterexample_temporal_differences():
    process = counterexample.build().process
    table = rows_of(process)

    def rows(stage: int, state: int) -> FloatArray:
        following = table[stage] if stage < 3 else np.zeros_like(table[0])
        moved = process.expect(following)[state] - table[stage - 1, state]
        return np.column_stack([process.mean_rewards()[state], moved])

    s0, s, z = 0, 1, 2
    wrong, right = np.array([1.0, 0.0, 5.0]), np.array([1.0, 5.0, 0.0])
    np.testing.assert_allclose(table[0, s0] @ wrong[1:], 2)
    np.testing.assert_allclose(rows(1, s0) @ wrong, [0, -2], atol=1e-12)
    np.testing.assert_allclose(rows(2, s) @ wrong, [0, 2], atol=1e-12)
    np.testing.assert_allclose(rows(2, s)[0], 0, atol=1e-12)
    for stage, state in ((1, s0), (2, s), (2, z), (3, 3), (3, 4), (3, 5)):
        np.testing.assert_allclose((rows(stage, state) @ right).max(), 0, atol=1e-12)
    greedy = np.array([[0] * 6, [1] * 6, [0] * 6])
    assert policy_values(process, greedy)[0, s0] == 0.0


# Groups that share their value.


@pytest.mark.parametrize("stochastic", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_groups_share_values_but_not_actions(seed: int, stochastic: bool):
    world = aggregated.build(seed=seed, stochastic=stochastic, actions=3)
    process = world.process
    values = action_values(process)
    check_linear(world, values.max(axis=2))
    expected = reference_of(aggregated.FAMILY, seed=seed, stochastic=stochastic, actions=3)
    np.testing.assert_allclose(recursive_value(process), expected, atol=1e-12)
    assert process.spec.deterministic != stochastic
    by_group = values.reshape(4, 3, 4, 3)
    np.testing.assert_allclose(np.ptp(by_group.max(axis=3), axis=2), 0, atol=1e-12)
    best = by_group.argmax(axis=3)
    assert np.all(best[:, :, 0] != best[:, :, 1])
    assert np.all(rows_of(process).sum(axis=2) == 1)


@pytest.mark.parametrize("stochastic", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_no_function_of_the_features_is_an_optimal_policy(seed: int, stochastic: bool):
    world = aggregated.build(groups=2, horizon=3, members=3, seed=seed, stochastic=stochastic)
    best = -np.inf
    for choice in product(range(2), repeat=6):
        policy = np.repeat(np.array(choice).reshape(3, 2), 3, axis=1)
        value = world.process.start_probabilities @ policy_values(world.process, policy)[0]
        best = max(best, float(value))
    assert best < start_value(world.process) - 0.03
