"""Radii by what is believed of the spread, and the mixture of bets: closed forms and coverage."""

from __future__ import annotations

import math

import numpy as np
import pytest
from estimate_streams import STREAMS, exceeds
from hypothesis import given
from hypothesis import strategies as st

from tensorplan import estimate
from tensorplan.errors import SettingError
from tensorplan.estimate import betting_lower, interval_variance, sampling_radius
from tensorplan.estimate.spreads import BETS
from tensorplan.planners.adaptive.book import Book
from tensorplan.planners.adaptive.settings import AdaptiveSettings, resolve
from tensorplan.records import BoolArray, FloatArray, Spec

RUNS, STEPS, LEVEL = 1000, 150, 0.1


def one(count: float, variance: float, bound: float, level: float, reach: float) -> float:
    found = sampling_radius(
        np.array([count]), np.array([variance]), bound, level, np.array([reach])
    )
    return float(found[0])


def radius_by_loop(count: int, variance: float, bound: float, level: float, reach: float) -> float:
    """The formula of the docstring, one bet at a time."""
    radius = bound
    for _ in range(4):
        largest = min(reach + radius, bound)
        square = min(variance + radius**2, largest**2)
        found = radius
        for scale in range(BETS):
            bet = 0.95 / 2**scale / bound
            share = bet * largest
            curvature = (-math.log(1 - share) - share) / share**2
            price = math.log(2 * BETS / level) / (bet * count)
            found = min(found, price + curvature * bet * square)
        radius = found
    return radius


def stopped_anywhere(values: FloatArray, truth: float, level: float, share: float) -> BoolArray:
    """Whether a share of the radius ever misses, by the errors' own spread: [runs]."""
    missed = np.zeros(len(values), np.bool_)
    for count in range(2, values.shape[1] + 1):
        own = values[:, :count]
        mean = own.mean(axis=1)
        reach = np.abs(own - mean[:, None]).max(axis=1)
        number = np.full(len(own), float(count))
        radius = sampling_radius(number, own.var(axis=1), 1.0, level, reach)
        missed |= np.abs(mean - truth) > share * radius
    return missed


# --- closed forms and a plain reference ----------------------------------------------------------


@pytest.mark.parametrize("bound", [0.3, 1.0, 40.0])
@pytest.mark.parametrize(("variance", "reach"), [(0.25, 1.0), (0.01, 0.2), (0.0, 0.05), (0.1, 1.0)])
def test_the_radius_is_the_loop(variance: float, reach: float, bound: float) -> None:
    for count, level in [(5, 0.1), (100, 1e-4), (10**5, 0.01)]:
        numbers = count, variance * bound**2, bound, level, reach * bound
        assert one(*numbers) == pytest.approx(radius_by_loop(*numbers), rel=1e-9)


def test_many_sure_draws_cost_the_price_of_the_largest_bet() -> None:
    price = math.log(2 * BETS / 0.05) / 0.95
    assert one(1e6, 0.0, 1.0, 0.05, 0.0) == pytest.approx(price / 1e6, rel=1e-4)


def test_a_few_draws_are_worth_no_more_than_the_bound() -> None:
    assert one(1, 0.0, 3.0, 0.05, 0.0) == 3.0
    assert one(100, 0.0, 0.0, 0.05, 0.0) == 0.0


def test_small_curvatures_are_taken_from_above() -> None:
    """No jump where the series takes over: at reaches that put l b' on both sides of it."""
    reaches = np.geomspace(1e-5, 1e-1, 200)
    radii = [one(10**6, 1e-12, 1.0, 0.05, reach) for reach in reaches.tolist()]
    assert np.all(np.diff(radii) >= -1e-15)
    assert radii[-1] <= radii[0] * 1.1


def test_what_is_known_of_the_reach_pays() -> None:
    known, unknown = one(1024, 0.01, 1.0, 1e-3, 0.3), one(1024, 0.01, 1.0, 1e-3, 1.0)
    assert known < 0.75 * float(estimate.anytime_radius(1024, 0.01, 1, 1e-3)) < unknown


@given(
    st.integers(1, 10**6), st.floats(0, 0.25), st.floats(1e-9, 0.5), st.floats(0.01, 1),
    st.floats(1e-3, 1e3),
)  # fmt: skip
def test_radii_scale_with_values_and_move_one_way(
    count: int, variance: float, level: float, reach: float, unit: float
) -> None:
    here = one(count, variance, 1.0, level, reach)
    scaled = one(count, variance * unit**2, unit, level, reach * unit)
    assert scaled == pytest.approx(here * unit)
    assert 0 < here <= 1
    assert one(2 * count, variance, 1.0, level, reach) <= here
    assert one(count, variance / 2, 1.0, level, reach) <= here
    assert one(count, variance, 1.0, level / 2, reach) >= here
    assert one(count, variance, 1.0, level, reach / 2) <= here


def test_ranges_that_are_points_have_the_plain_variance() -> None:
    rng = np.random.default_rng(0)
    values, weights = rng.normal(size=(5, 4)), rng.dirichlet(np.ones(4), 5)
    means = (weights * values).sum(axis=1)
    plain = (weights * (values - means[:, None]) ** 2).sum(axis=1)
    found = interval_variance(np.stack([values, values], axis=2), weights)
    np.testing.assert_allclose(found, plain, rtol=1e-7)


def test_one_range_allows_a_quarter_of_its_square() -> None:
    found = interval_variance(np.array([[[2.0, 5.0]]]), np.ones((1, 1)))
    assert float(found[0]) == pytest.approx(9 / 4, rel=1e-4)


@given(st.integers(0, 10**6))
def test_no_choice_within_the_ranges_has_a_larger_variance(seed: int) -> None:
    rng = np.random.default_rng(seed)
    ends = np.sort(rng.normal(size=(3, 4, 2)), axis=2)
    weights = rng.dirichlet(np.ones(4), 3)
    found = interval_variance(ends, weights)
    shares = rng.random((200, 3, 4)).round(int(rng.integers(0, 3)))
    values = ends[:, :, 0] + shares * (ends[:, :, 1] - ends[:, :, 0])
    means = (weights * values).sum(axis=2, keepdims=True)
    assert np.all((weights * (values - means) ** 2).sum(axis=2) <= found + 1e-12)


def test_ranges_without_weight_do_not_count() -> None:
    ends = np.array([[[0.0, 1.0], [50.0, 90.0]]])
    assert float(interval_variance(ends, np.array([[1.0, 0.0]]))[0]) == pytest.approx(
        0.25, rel=1e-4
    )


# --- coverage, and mutants that it catches -------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["bernoulli 0.5", "bernoulli 0.1", "bernoulli 0.01", "three-point"]
)
def test_the_radius_covers_wherever_one_stops(name: str) -> None:
    sampler, truth = STREAMS[name]
    values = sampler(np.random.default_rng(1), (RUNS, STEPS))
    assert not exceeds(stopped_anywhere(values, truth, LEVEL, 1.0), LEVEL)


def test_half_the_radius_does_not_cover() -> None:
    values = STREAMS["bernoulli 0.5"][0](np.random.default_rng(2), (RUNS, STEPS))
    assert exceeds(stopped_anywhere(values, 0.5, LEVEL, 0.5), LEVEL)


@pytest.mark.parametrize(
    ("even", "closed"), [(0, False), (3, False), (10, False), (3, True), (10, True)]
)
@pytest.mark.parametrize("bellman", [False, True])
def test_levels_of_all_states_add_up_to_the_whole(even: int, closed: bool, bellman: bool) -> None:
    settings = AdaptiveSettings(delta=1.0, compete="optimal" if bellman else "realizable")
    spec = Spec(actions=3, dim=1, horizon=3)
    book = Book(resolve(settings, spec), 0.02, even, closed=closed)
    levels = np.array([book.level_of(index) for index in range(1, 20_001)])
    actions = 3 if bellman else 1
    assert 0.999 * 0.02 < actions * levels.sum() < 0.02
    assert np.all(levels[:even] == levels[:1])


# --- the mixture of bets -------------------------------------------------------------------------


def capital(values: FloatArray, mean: float, low: float) -> float:
    bets = [0.98 * 0.5 ** (k / 2) for k in range(24)]
    return float(
        np.mean([np.prod([1 + bet * (x - mean) / (mean - low) for x in values]) for bet in bets])
    )


@pytest.mark.parametrize("name", STREAMS)
def test_the_limit_is_where_the_capital_reaches_the_goal(name: str) -> None:
    values = 3 * STREAMS[name][0](np.random.default_rng(4), (1, 60))[0] - 2
    limit = betting_lower(values, -2.0, 0.05)
    if limit > -2:
        assert capital(values, limit + 1e-9, -2.0) == pytest.approx(20, rel=1e-5)


def test_sure_values_have_a_closed_form() -> None:
    """n values of 1: 24 products of (1 + l (1 - m) / m), of which the largest bet leads."""
    limit = betting_lower(np.ones(40), 0.0, 0.01)
    assert capital(np.ones(40), limit, 0.0) == pytest.approx(100, rel=1e-6)
    assert 0.8 < limit < 0.85


def test_no_values_and_least_values_say_nothing() -> None:
    assert betting_lower(np.zeros(0), -3.0, 0.1) == -3.0
    assert betting_lower(np.full(500, -3.0), -3.0, 0.1) == -3.0
    assert betting_lower(np.array([5.0]), 0.0, 0.01) < 1.0


def test_rounding_below_the_least_value_is_forgiven() -> None:
    values = np.full(200, -7.0 * (1 + 1e-15))
    values[0] = -7.0 + 1e-14
    assert betting_lower(values, -7.0, 0.1) == pytest.approx(-7.0)


@given(st.integers(0, 10**6), st.floats(-5, 5), st.floats(0.01, 100))
def test_limits_move_with_the_values(seed: int, low: float, unit: float) -> None:
    rng = np.random.default_rng(seed)
    values = rng.beta(2, 3, size=40)
    here = betting_lower(values, 0.0, 0.05)
    assert betting_lower(low + unit * values, low, 0.05) == pytest.approx(
        low + unit * here, abs=1e-6 * unit
    )
    assert betting_lower(rng.permutation(values), 0.0, 0.05) == pytest.approx(here)
    assert 0 <= here <= values.mean()
    assert betting_lower(values, 0.0, 0.01) <= here
    assert betting_lower(np.minimum(values + 0.1, 1), 0.0, 0.05) >= here


def ever_above(values: FloatArray, truth: float, level: float) -> BoolArray:
    """Whether the limit ever exceeds the truth: the capital against it reaches the goal."""
    bets = 0.98 * 0.5 ** np.arange(0.0, 12.0, 0.5)
    wins = (values - truth) / truth
    products = np.zeros(values.shape)
    for bet in bets.tolist():
        products += np.exp(np.cumsum(np.log1p(bet * wins), axis=1)) / len(bets)
    return np.any(products >= 1 / level, axis=1)


@pytest.mark.parametrize("name", STREAMS)
def test_the_limit_covers_wherever_one_stops(name: str) -> None:
    sampler, truth = STREAMS[name]
    values = sampler(np.random.default_rng(5), (RUNS, 600))
    assert not exceeds(ever_above(values, truth, LEVEL), LEVEL)


def test_the_limit_at_some_looks_is_that_of_the_capital() -> None:
    values = STREAMS["uniform"][0](np.random.default_rng(6), (60, 200))
    looks = [64, 103, 165]
    above = np.zeros(60, np.bool_)
    for size in looks:
        limits = np.array([betting_lower(row[:size], 0.0, 0.5) for row in values])
        above |= limits > 0.5
    assert np.all(~above | ever_above(values, 0.5, 0.5))
    assert above.any()


def test_attempts_that_spend_no_level_of_their_own_are_caught() -> None:
    rng = np.random.default_rng(7)
    spent, unspent = np.zeros(RUNS, np.bool_), np.zeros(RUNS, np.bool_)
    for attempt in range(1, 9):
        values = rng.random((RUNS, 300))
        spent |= ever_above(values, 0.5, 6 * LEVEL / (math.pi * attempt) ** 2)
        unspent |= ever_above(values, 0.5, LEVEL)
    assert not exceeds(spent, LEVEL)
    assert exceeds(unspent, LEVEL)


def test_the_mixture_beats_bets_that_follow_the_values() -> None:
    rng = np.random.default_rng(8)
    for name in ("bernoulli 0.5", "uniform"):
        values = STREAMS[name][0](rng, (1, 3000))[0]
        followed = float(estimate.BettingSequence.start(0.0, 1.0, 0.005).update(values).lower)
        assert betting_lower(values, 0.0, 0.005) > followed


# --- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "value"),
    [
        (lambda: one(0, 0.1, 1.0, 0.1, 1.0), "count=0"),
        (lambda: one(9, -0.1, 1.0, 0.1, 1.0), "variance=-0.1"),
        (lambda: one(9, 0.1, math.nan, 0.1, 1.0), "bound=nan"),
        (lambda: one(9, 0.1, 1.0, 1.0, 1.0), "level=1"),
        (lambda: one(9, 0.1, 1.0, 0.1, -1.0), "reach=-1"),
        (lambda: betting_lower(np.ones(3), 0.0, 0.0), "level=0"),
        (lambda: betting_lower(np.array([0.5, -0.1]), 0.0, 0.1), "value -0.1"),
        (lambda: betting_lower(np.array([0.5, math.nan]), 0.0, 0.1), "value nan"),
    ],
)
def test_bad_input_is_named(call: object, value: str) -> None:
    assert callable(call)
    with pytest.raises(SettingError, match=value):
        call()
