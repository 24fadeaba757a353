"""The Bermudan put: published prices, closed forms, and the values of policies."""

import math

import numpy as np
import pytest
from problems_reference import played, reference_of
from scipy.stats import norm

from tensorplan import problems
from tensorplan.problems.bermudan_put import EXERCISE, FAMILY, BermudanPut, FeatureName, Policy
from tensorplan.problems.price_grid import Market, PriceGrid
from tensorplan.records import FloatArray, IntArray, States

ALL_FEATURES: tuple[FeatureName, ...] = ("european", "payoff", "payoff-and-time")
PUBLISHED = [  # spot, volatility, maturity; the European put, and with 50 dates a year
    (36, 0.2, 1, 3.844, 4.4778),
    (36, 0.2, 2, 3.763, 4.8403),
    (36, 0.4, 1, 6.711, 7.1013),
    (38, 0.2, 1, 2.852, 3.2501),
    (38, 0.4, 1, 5.834, 6.1476),
    (40, 0.2, 1, 2.066, 2.3141),
    (40, 0.4, 2, 6.326, 6.9171),
    (44, 0.2, 1, 1.017, 1.1099),
]


def waiting(world: BermudanPut) -> Policy:
    """Exercise at the last date alone."""
    return lambda states, stage: np.full(len(states), int(stage == world.spec.horizon))


def below(level: float) -> Policy:
    """Exercise below a price."""
    return lambda states, stage: np.where(states < level, EXERCISE, 0)


def greedy(world: BermudanPut, theta: FloatArray) -> Policy:
    """Exercise where that pays more than a parameter expects of waiting, by quadrature."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(31)
    market = world.market
    spread = market.volatility * math.sqrt(market.interval)
    steps = np.exp(market.drift * market.interval + spread * nodes)

    def policy(states: States, stage: int) -> IntArray:
        paid, ahead = world.payoff(states, stage), np.zeros(len(states))
        if stage < world.dates + 1:
            following = states[:, None] * steps
            values = world.features(following.ravel(), stage + 1) @ theta
            ahead = values.reshape(following.shape) @ weights / weights.sum()
        return np.where((paid > ahead) & (paid > 0), EXERCISE, 0)

    return policy


@pytest.mark.parametrize(("spot", "volatility", "maturity", "european", "bermudan"), PUBLISHED)
def test_published_prices(
    spot: float, volatility: float, maturity: float, european: float, bermudan: float
):
    settings: dict[str, object] = {"spot": spot, "volatility": volatility, "maturity": maturity}
    value = reference_of(FAMILY, dates=50 * int(maturity), **settings)
    assert value == pytest.approx(bermudan, abs=1e-4)
    world = BermudanPut(spot=spot, volatility=volatility, maturity=maturity)
    today = world.european(np.full(1, spot), 1)[0]
    assert today == pytest.approx(european, abs=5.1e-4)
    assert world.policy_value(waiting(world)) == pytest.approx(today, abs=1e-4)


def test_black_and_scholes_at_every_date():
    world = BermudanPut(dates=4)
    prices = np.array([1.0, 25.0, 40.0, 55.0, 400.0])
    for stage in range(1, 5):
        left = 1 - (stage - 1) / 4
        ends = norm.ppf((np.arange(200_000) + 0.5) / 200_000)
        final = prices[:, None] * np.exp(0.04 * left + 0.2 * math.sqrt(left) * ends)
        mean = math.exp(-0.06) * np.maximum(40 - final, 0).mean(axis=1)
        np.testing.assert_allclose(world.european(prices, stage), mean, atol=1e-3)
    np.testing.assert_allclose(world.european(prices, 5), world.payoff(prices, 5), atol=1e-12)


def test_more_dates_and_more_volatility_are_worth_more():
    by_dates = [BermudanPut(dates=dates).optimal_value() for dates in (1, 2, 4, 8, 16)]
    assert (np.diff(by_dates) > 0.01).all()
    assert by_dates[0] == pytest.approx(4.0)  # selling at once is best, if the alternative is 3.84
    risks = [BermudanPut(volatility=risk).optimal_value() for risk in (0.1, 0.2, 0.3)]
    assert (np.diff(risks) > 0.1).all()
    free = BermudanPut(rate=0.0, dates=7)  # without interest nothing is gained by an early exercise
    assert free.optimal_value() == pytest.approx(free.european(np.full(1, 36.0), 1)[0], abs=1e-4)


def test_the_grid_takes_expectations():
    market = Market(spot=20.0, rate=0.05, volatility=0.3, maturity=2.0, dates=3)
    grid = PriceGrid(market, 500)
    assert grid.prices[500] == 20.0
    inside = np.abs(np.arange(-500, 501)) < 200
    growth = grid.expected(grid.prices)[inside] / grid.prices[inside]
    np.testing.assert_allclose(growth, math.exp(0.05 * 2 / 3), rtol=1e-9)
    np.testing.assert_allclose(grid.expected(np.ones(1001)), 1.0, rtol=1e-12)
    fine, coarse = (
        PriceGrid(market, half).backward(lambda ahead, date: np.maximum(ahead, date * 1.0))[0]
        for half in (400, 100)
    )
    np.testing.assert_allclose([fine[400], coarse[100]], 3.0, rtol=1e-12)


@pytest.mark.parametrize("level", [33.0, 35.5])
def test_values_of_policies_agree_with_play(level: float):
    # Two comparisons of six standard errors: an error rate below 1e-8.
    world = BermudanPut()
    value = world.policy_value(below(level))
    mean, error = played(world, below(level), 100_000, seed=5)
    assert error < 0.02
    assert abs(mean - value) < 6 * error
    assert value < world.optimal_value()
    assert world.policy_value(below(37.0)) == 4.0


def test_the_best_policy_is_worth_the_optimal_value():
    world = BermudanPut()
    values, log_prices = world.optimal_values(), np.log(world.grid.prices)

    def best(states: States, stage: int) -> IntArray:
        worth = np.interp(np.log(states), log_prices, values[stage - 1])
        paid = world.payoff(states, stage)
        return np.where((paid >= worth - 1e-9) & (paid > 0), EXERCISE, 0)

    assert world.policy_value(best) == pytest.approx(world.optimal_value(), abs=1e-4)


@pytest.mark.parametrize("features", ALL_FEATURES)
def test_the_realizable_policy_is_exactly_linear(features: FeatureName):
    world = problems.make("bermudan-put", features=features, volatility=0.3)
    assert isinstance(world, BermudanPut)
    prices = np.linspace(5.0, 300.0, 50)
    for stage in range(1, 12):
        rows = world.features(prices, stage)
        assert np.linalg.norm(rows, axis=1).max() <= 1
        known = world.european if features == "european" else world.payoff
        np.testing.assert_allclose(rows @ world.theta, known(prices, stage), atol=1e-9)
    assert np.linalg.norm(world.theta) <= (world.spec.bound or 0.0)


@pytest.mark.parametrize(
    ("features", "misfit", "greedy_value"),
    [("european", 0.124, 4.441), ("payoff", 0.554, 4.38), ("payoff-and-time", 0.330, 4.42)],
)
def test_how_linear_the_optimal_value_is(features: FeatureName, misfit: float, greedy_value: float):
    world = BermudanPut(features_used=features)
    fit = world.fit()
    assert fit.misfit == pytest.approx(misfit, abs=2e-3)
    assert np.linalg.norm(fit.theta) <= (world.spec.bound or 0.0)
    assert world.optimal_value() == pytest.approx(4.4425, abs=1e-4)
    value = world.policy_value(greedy(world, fit.theta))
    assert greedy_value < value <= world.optimal_value() + 1e-4


def test_prices_are_log_normal_and_rewards_are_dollars():
    # Tolerances are six standard errors of 60000 draws.
    world, rng = BermudanPut(), np.random.default_rng(2)
    states = np.full(60_000, 36.0)
    step = world.step(states, 3, np.zeros(60_000, np.int64), rng)
    change = np.log(step.states / 36.0)
    spread = 0.2 * math.sqrt(0.1)
    assert abs(change.mean() - 0.004) < 6 * spread / 244
    assert abs(change.std() - spread) < 6 * spread / 345
    assert not step.terminated.any()
    sold = world.step(states, 3, np.ones(60_000, np.int64), rng)
    assert sold.terminated.all()
    np.testing.assert_allclose(sold.rewards, 4 * math.exp(-0.06 * 0.2))
    assert world.spec.reward_range == (0.0, 40.0)
    assert problems.make("bermudan-put", misspecification=0.2).spec.misspecification == 0.2
