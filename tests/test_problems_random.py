"""Backward induction, and the random processes that are built on it."""

from dataclasses import replace

import numpy as np
import pytest
from problems_reference import check_linear, misfit, recursive_value, reference_of, rows_of

from tensorplan.problems import deep_sea
from tensorplan.problems import random_tabular as tabular
from tensorplan.problems.induction import (
    action_values,
    optimal_values,
    policy_values,
    start_value,
)

# Backward induction.


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("outcomes", [1, 3])
def test_induction_agrees_with_recursion(seed: int, outcomes: int):
    world = tabular.build(
        states=6, actions=3, horizon=4, seed=seed, outcomes=outcomes, realizable="suboptimal"
    )
    np.testing.assert_allclose(
        start_value(world.process), recursive_value(world.process), atol=1e-12
    )
    assert world.policy is not None
    value = policy_values(world.process, world.policy)[0, 0]
    np.testing.assert_allclose(value, recursive_value(world.process, world.policy), atol=1e-12)


def test_induction_respects_masks_and_ends():
    world = deep_sea.build(size=4)
    process = world.process
    masked = replace(process, allowed=np.tile([True, False], (10, 1)))
    assert start_value(masked) == recursive_value(masked) == 0.0
    np.testing.assert_allclose(start_value(process), recursive_value(process), atol=1e-12)


# Random tabular processes.


def test_random_tabular_is_quick_and_keeps_its_norms():
    kinds: list[tabular.Realizable] = ["optimal", "suboptimal", "none"]
    for seed in range(200):
        world = tabular.build(
            states=2 + seed % 9, dim=2 + seed % 5, seed=seed, realizable=kinds[seed % 3]
        )
        norms = np.linalg.norm(rows_of(world.process), axis=2)
        assert norms.max() <= 1 + 1e-12
        assert norms.min() > 0.1
        assert 0 <= world.process.rewards.min() <= world.process.rewards.max() <= 1


@pytest.mark.parametrize("outcomes", [1, 3])
@pytest.mark.parametrize("seed", range(4))
def test_optimal_value_is_linear_and_theta_is_the_only_fit(seed: int, outcomes: int):
    world = tabular.build(seed=seed, outcomes=outcomes)
    values = optimal_values(world.process)
    check_linear(world, values)
    rows = rows_of(world.process).reshape(-1, 4)
    assert world.theta is not None
    found = np.linalg.lstsq(rows, values.ravel(), rcond=None)[0]
    np.testing.assert_allclose(found, world.theta, atol=1e-8)
    assert all(abs(np.corrcoef(column, values.ravel())[0, 1]) < 0.999 for column in rows.T)
    np.testing.assert_allclose(
        reference_of(tabular.FAMILY, seed=seed, outcomes=outcomes), values[0, 0], atol=1e-12
    )


@pytest.mark.parametrize("outcomes", [1, 3])
@pytest.mark.parametrize("seed", range(4))
def test_suboptimal_policy_is_linear_and_worse(seed: int, outcomes: int):
    world = tabular.build(seed=seed, outcomes=outcomes, realizable="suboptimal")
    assert world.policy is not None
    values = policy_values(world.process, world.policy)
    check_linear(world, values)
    optimal = optimal_values(world.process)
    assert values[0, 0] < optimal[0, 0] - 0.01
    assert misfit(world.process, optimal) > 0.01
    best = action_values(world.process).argmax(axis=2)
    assert 0.4 < (world.policy == best).mean() < 0.95
    same = tabular.build(seed=seed, outcomes=outcomes)
    np.testing.assert_array_equal(same.process.rewards, world.process.rewards)


@pytest.mark.parametrize("states", [2, 7, 20])
@pytest.mark.parametrize("seed", range(3))
def test_no_policy_is_linear(seed: int, states: int):
    world = tabular.build(seed=seed, states=states, realizable="none")
    process = world.process
    assert world.theta is None
    assert misfit(process, optimal_values(process)) >= 0.1 - 1e-12
    # States 2i and 2i + 1 look the same, but whatever is done there at the last stage their
    # values differ by at least .2: no theta is within .1 of any policy, random ones included.
    pairs = states // 2 * 2
    rows = rows_of(process)[:, :pairs]
    np.testing.assert_array_equal(rows[:, ::2], rows[:, 1::2])
    assert process.rewards[1:pairs:2].min() - process.rewards[:pairs:2].max() >= 0.2
