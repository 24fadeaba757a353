"""Asset selling: closed forms, the referee on small tables, and figures from elsewhere."""

import math

import numpy as np
import pytest
from problems_reference import check_linear, played, recursive_value, reference_of

from tensorplan import problems
from tensorplan.errors import SettingError
from tensorplan.exact import best_realizable_value, evaluate, realizable_policies, solve
from tensorplan.problems.asset_selling import ACCEPT, CELLS, FAMILY, AssetSelling
from tensorplan.records import IntArray, States


def accepting_from(threshold: float):
    def policy(states: States, stage: int) -> IntArray:
        return np.where(states >= threshold, ACCEPT, 0)

    return policy


def best_policy(world: AssetSelling):
    """Accept what is worth more than waiting, by the recursion c -> (1 + c^2) / 2."""
    waiting = [0.0]
    for _ in range(world.offers):
        waiting.append((1 + waiting[-1] ** 2) / 2)

    def policy(states: States, stage: int) -> IntArray:
        return np.where(states > waiting[world.horizon - stage], ACCEPT, 0)

    return policy


@pytest.mark.parametrize(("offers", "optimal"), [(1, 0.5), (2, 0.625), (9, 0.8498), (10, 0.8611)])
def test_optimal_values(offers: int, optimal: float):
    assert reference_of(FAMILY, offers=offers) == pytest.approx(optimal, abs=5.1e-5)
    world = AssetSelling(offers=offers)
    assert world.policy_value(best_policy(world)) == pytest.approx(optimal, abs=1e-3)


@pytest.mark.parametrize(("count", "threshold", "value"), [(2, 0.5, 0.749), (3, 0.7, 0.816)])
def test_best_thresholds_of_nine_offers(count: int, threshold: float, value: float):
    world = problems.make("asset-selling", offers=9, thresholds=count)
    assert isinstance(world, AssetSelling)
    best, worth = world.best_threshold()
    assert best == pytest.approx(threshold)
    assert worth == pytest.approx(value, abs=5.1e-4)
    assert worth == pytest.approx(world.policy_value(accepting_from(best)), abs=1e-3)


def test_thresholds_by_number_and_by_name():
    five = problems.make("asset-selling", thresholds=5)
    assert isinstance(five, AssetSelling)
    np.testing.assert_allclose(five.thresholds, [0.5, 0.6, 0.7, 0.8, 0.9])
    own = problems.make("asset-selling", at=".6/.8")
    assert isinstance(own, AssetSelling)
    assert own.thresholds == (0.6, 0.8)
    for wrong in ((), (0.0,), (0.8, 0.6), (0.5, 1.0)):
        with pytest.raises(SettingError, match="thresholds must increase"):
            AssetSelling(thresholds=wrong)
    with pytest.raises(SettingError, match="thresholds must increase"):
        problems.make("asset-selling", at=".8/.6")


@pytest.mark.parametrize("threshold", [0.2, 0.7, 0.95])
def test_values_of_policies_agree_with_closed_forms_and_play(threshold: float):
    # Three comparisons of six standard errors: an error rate below 1e-8.
    world = AssetSelling(offers=6, thresholds=(threshold,))
    value = world.policy_value(accepting_from(threshold))
    assert world.best_threshold() == (threshold, pytest.approx(value, abs=2 / CELLS))
    mean, error = played(world, accepting_from(threshold), 40_000, seed=1)
    assert abs(mean - value) < 6 * error + 2 / CELLS
    assert world.policy_value(lambda states, stage: np.full(len(states), ACCEPT)) == 0.0


@pytest.mark.parametrize("levels", [None, 6])
def test_every_threshold_is_exactly_linear(levels: int | None):
    world = AssetSelling(offers=5, thresholds=(0.3, 0.6, 0.85), levels=levels)
    states = np.random.default_rng(0).random(200)
    if levels is not None:
        states = (np.floor(levels * states) + 0.5) / levels
    scale = math.sqrt(3)
    for index, threshold in enumerate(world.thresholds):
        alone = AssetSelling(offers=5, thresholds=(threshold,), levels=levels)
        theta = np.zeros(6)
        theta[2 * index : 2 * index + 2] = scale
        assert np.linalg.norm(theta) <= (world.spec.bound or 0.0)
        for stage in range(1, 7):
            ahead = AssetSelling(offers=6 - stage or 1, thresholds=(threshold,), levels=levels)
            waiting = ahead.best_threshold()[1] if stage < 6 else 0.0
            expected = np.where(states >= threshold, states, waiting)
            np.testing.assert_allclose(world.features(states, stage) @ theta, expected, atol=1e-12)
        start = world.features(np.zeros(1), 1) @ theta
        np.testing.assert_allclose(start, alone.best_threshold()[1], atol=1e-12)


def test_the_referee_finds_the_thresholds_and_waiting_for_ever():
    world = AssetSelling(offers=5, thresholds=(0.3, 0.6), levels=5)
    table = world.finite()
    process = table.process
    assert solve(process).values[0, 0] == pytest.approx(world.optimal_value(), abs=1e-12)
    assert recursive_value(process) == pytest.approx(world.optimal_value(), abs=1e-12)
    found = realizable_policies(process, math.inf)
    values = {round(each.value, 9) for each in found}
    alone = [AssetSelling(offers=5, thresholds=(t,), levels=5) for t in world.thresholds]
    assert values == {0.0, *(round(each.best_threshold()[1], 9) for each in alone)}
    threshold, value = world.best_threshold()
    assert best_realizable_value(process, table.spec.bound or 0.0) == pytest.approx(value)
    assert world.policy_value(accepting_from(threshold)) == pytest.approx(value, abs=1e-12)
    assert value < world.optimal_value() - 0.005
    assert table.policy is not None
    check_linear(table, evaluate(process, table.policy).values[:-1])


def test_many_levels_approach_continuous_offers():
    fine = AssetSelling(levels=2_000)
    assert fine.optimal_value() == pytest.approx(AssetSelling().optimal_value(), abs=1e-6)
    assert fine.best_threshold()[1] == pytest.approx(AssetSelling().best_threshold()[1], abs=1e-5)
    with pytest.raises(SettingError, match="do not fit a table"):
        AssetSelling().finite()
    assert AssetSelling(levels=2, thresholds=(0.8,)).best_threshold() == (0.8, 0.0)


def test_draws_are_uniform_and_offers_are_paid():
    # Tolerances are six standard errors of 60000 draws.
    rng = np.random.default_rng(3)
    states = np.full(60_000, 0.25)
    step = AssetSelling().step(states, 2, np.zeros(60_000, np.int64), rng)
    assert abs(step.states.mean() - 0.5) < 6 * 0.289 / 244
    assert abs(step.states.var() - 1 / 12) < 6 * 0.075 / 244
    assert not step.terminated.any()
    assert not step.rewards.any()
    sold = AssetSelling().step(states, 2, np.ones(60_000, np.int64), rng)
    assert sold.terminated.all()
    np.testing.assert_array_equal(sold.rewards, states)
