"""Radii, binomial limits and floors: closed forms, plain references, coverage and its mutants."""

from __future__ import annotations

import math

import numpy as np
import pytest
from estimate_streams import STREAMS, exceeds
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tensorplan import estimate
from tensorplan.errors import SettingError
from tensorplan.estimate import Grid, Moments
from tensorplan.records import FloatArray, IntArray

COUNTS = st.integers(2, 10**6)
LEVELS = st.floats(1e-12, 0.5)
VARIANCES = st.floats(0, 0.25)


def running(values: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Counts, means and variances (divisor n) after each value: [t], [runs, t], [runs, t]."""
    counts = np.arange(1.0, values.shape[1] + 1)
    means = np.cumsum(values, axis=1) / counts
    spread = np.maximum(np.cumsum(values**2, axis=1) / counts - means**2, 0)
    return counts, means, spread


# --- closed forms --------------------------------------------------------------------------------


def test_vector_radius_is_the_one_of_the_paper_with_rewards_in_the_unit_interval() -> None:
    radius = estimate.vector_radius(100, 0.05, reward_width=1, discount=1, norm=2)
    expected = math.sqrt(5) * (math.sqrt(5 / 4) + math.sqrt(2.5 * math.log(20))) / 10
    assert float(radius) == pytest.approx(expected)


def test_vector_radius_without_next_states_is_about_rewards_alone() -> None:
    radius = estimate.vector_radius(4, 0.1, reward_width=3, discount=0, norm=1e-9)
    assert float(radius) == pytest.approx((1.5 + math.sqrt(4.5 * math.log(10))) / 2)


def test_hoeffding_and_its_inverse() -> None:
    assert float(estimate.hoeffding_radius(50, 2, 0.1)) == pytest.approx(
        2 * math.sqrt(math.log(20) / 100)
    )
    draws = int(estimate.hoeffding_draws(0.1, 2, 0.1))
    assert estimate.hoeffding_radius(draws, 2, 0.1) <= 0.1
    assert estimate.hoeffding_radius(draws - 1, 2, 0.1) > 0.1


def test_maurer_and_pontil_and_its_epochs() -> None:
    log = math.log(4 / 0.05)
    expected = math.sqrt(2 * 0.2 * log / 1000) + 7 * 3 * log / (3 * 999)
    assert float(estimate.bernstein_radius(1000, 0.2, 3, 0.05)) == pytest.approx(expected)
    grid = Grid(250, 2.0, "halving")
    at_epoch = estimate.epoch_radius(1000, 0.2, 3, 0.05, grid)
    assert at_epoch == pytest.approx(estimate.bernstein_radius(1000, 0.2, 3, 0.05 / 8))


def test_a_single_draw_and_none_are_worth_the_width() -> None:
    assert float(estimate.bernstein_radius(1, 0, 3, 0.05)) == 3
    assert float(estimate.anytime_radius(0, 0, 3, 0.05)) == 3
    assert float(estimate.anytime_radius(10**6, 0, 0, 0.05)) == 0


def test_anytime_radius_rules_out_exactly_what_some_bet_rules_out() -> None:
    """The plain reference tries every distance on a fine grid against every bet."""
    distances = np.linspace(0, 1, 20001)
    for draws, variance, level in [(35, 0.0, 0.1), (200, 0.2, 0.01), (3000, 0.03, 0.05)]:
        believed = np.ones_like(distances, np.bool_)
        for scale in range(28):
            bet = 0.95 * 2.0**-scale
            kappa = (-math.log(1 - bet) - bet) / bet**2
            log = math.log(2 * (scale + 1) * (scale + 2) / level)
            budget = log + kappa * bet**2 * draws * (variance + distances**2)
            believed &= bet * draws * distances <= budget
        radius = float(estimate.anytime_radius(draws, variance, 1, level))
        assert radius < 1
        assert distances[believed].max() == pytest.approx(radius, abs=1e-4)


def test_anytime_radius_beats_maurer_and_pontil_at_every_epoch() -> None:
    grid = Grid(64)
    draws, variances = grid.sizes[1:20, None], np.array([0.0, 0.01, 0.1, 0.25])
    plain = estimate.epoch_radius(draws, variances, 1, 0.01, grid)
    assert np.all(estimate.anytime_radius(draws, variances, 1, 0.01) <= plain)


def test_binomial_limits_invert_the_binomial_tails() -> None:
    hits, trials, level = np.array([0, 1, 7, 19, 20]), 20, 0.05
    upper = estimate.binomial_upper(hits, trials, level)
    lower = estimate.binomial_lower(hits, trials, level)
    assert upper[-1] == 1
    assert lower[0] == 0
    assert upper[0] == pytest.approx(1 - level ** (1 / trials))
    np.testing.assert_allclose(stats.binom.cdf(hits[:-1], trials, upper[:-1]), level)
    np.testing.assert_allclose(stats.binom.sf(hits[1:] - 1, trials, lower[1:]), level)


def test_binomial_limit_at_a_level_next_to_nothing() -> None:
    assert float(estimate.binomial_upper(0, 10, 1e-30)) == pytest.approx(1 - 1e-3)


def test_binomial_limits_cover_at_every_probability() -> None:
    """Summed over all outcomes, so without chance."""
    hits, level = np.arange(31), 0.1
    upper = estimate.binomial_upper(hits, 30, level)
    lower = estimate.binomial_lower(hits, 30, level)
    for truth in np.linspace(0.01, 0.99, 50):
        weights = np.asarray(stats.binom.pmf(hits, 30, truth))
        assert weights[upper < truth].sum() <= level + 1e-12
        assert weights[lower > truth].sum() <= level + 1e-12


# --- floors --------------------------------------------------------------------------------------


def test_floors_of_a_return_with_small_spread() -> None:
    """The order that makes the range term worth quoting: 67, some 360 and 17 rollouts."""
    draws = 2.5 + 0.69 * stats.norm.ppf((np.arange(4000) + 0.5) / 4000)
    plain = float(estimate.variance_floor(0.69, 0.5, 0.025))
    bernstein = int(estimate.bernstein_floor(0.69, 5, 0.5, 0.05))
    betting = estimate.betting_floor(np.clip(draws, 0, 5), 0, 5, 0.5, 0.05)
    assert plain == pytest.approx(8 * 0.69**2 * math.log(80) / 0.25)
    assert 350 < bernstein < 370
    assert 16 < betting < 19


def test_bernstein_floor_is_the_least_that_is_enough() -> None:
    spread = np.array([0.0, 0.3, 2.0])
    least = estimate.bernstein_floor(spread, 5, 0.5, 0.05)

    def width(draws: IntArray) -> FloatArray:
        return 2 * estimate.bernstein_radius(draws, spread**2, 5, 0.05)

    assert np.all(width(least) <= 0.5)
    assert np.all(width(least - 1) > 0.5)


def test_betting_floor_of_a_sure_return() -> None:
    """Bets reach .95/m, so a value gains 1 + .95 (x/m - 1) each time."""
    floor = estimate.betting_floor(np.full(3, 0.5), 0, 1, 0.1, 0.05)
    assert floor == pytest.approx(math.log(20) / math.log(1 + 0.95 * 0.25))
    assert estimate.betting_floor(np.full(3, 0.05), 0, 1, 0.1, 0.05) == 0


def test_betting_floor_finds_the_best_bet() -> None:
    returns = np.array([0.0, 1.0])
    grid = np.linspace(0, 0.95 / 0.3, 100001)
    growth = (np.log1p(grid * -0.3) + np.log1p(grid * 0.7)) / 2
    floor = estimate.betting_floor(returns, 0, 1, 0.2, 0.05)
    assert floor == pytest.approx(math.log(20) / growth.max(), rel=1e-6)


# --- coverage ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", STREAMS)
def test_anytime_radius_covers_wherever_one_stops(name: str) -> None:
    draw, truth = STREAMS[name]
    counts, means, spread = running(draw(np.random.default_rng(1), (2000, 500)))
    radius = estimate.anytime_radius(counts, spread, 1, 0.1)
    assert not exceeds(np.any(abs(means - truth) > radius, axis=1), 0.1)


def test_anytime_radius_is_not_twice_as_large_as_need_be() -> None:
    counts, means, spread = running(
        STREAMS["bernoulli 0.5"][0](np.random.default_rng(2), (2000, 500))
    )
    radius = estimate.anytime_radius(counts, spread, 1, 0.1)
    assert exceeds(np.any(abs(means - 0.5) > radius / 2, axis=1), 0.1)


def test_bounds_for_one_size_do_not_survive_stopping() -> None:
    """F1.4: Bernoulli(1/2), level .1, any n in [10, 4000]: Hoeffding misses in about .24."""
    values = STREAMS["bernoulli 0.5"][0](np.random.default_rng(3), (2000, 4000))
    counts, means, spread = running(values)
    far = abs(means - 0.5)[:, 9:]
    missed = np.any(far > estimate.hoeffding_radius(counts[9:], 1, 0.1), axis=1)
    assert exceeds(missed, 0.1)
    assert missed.mean() == pytest.approx(0.24, abs=0.04)
    grid = Grid(10, 1.5)
    sizes = grid.sizes[grid.sizes <= 4000]
    at = sizes - 1
    rate = grid.level(0.1, sizes)
    missed = np.any(abs(means - 0.5)[:, at] > estimate.hoeffding_radius(sizes, 1, rate), axis=1)
    assert not exceeds(missed, 0.1)
    epochs = estimate.epoch_radius(sizes, spread[:, at] * sizes / (sizes - 1), 1, 0.1, grid)
    assert not exceeds(np.any(abs(means - 0.5)[:, at] > epochs, axis=1), 0.1)


def test_vector_radius_covers_all_directions_at_once() -> None:
    rng, truth = np.random.default_rng(4), np.full(3, 1 / 3)
    counts = rng.multinomial(30, truth, size=3000) / 30  # means of phi' over unit vectors
    rewards = rng.binomial(30, 0.5, size=3000) / 30 - 0.5
    distance = np.sqrt(rewards**2 + np.square(counts - truth).sum(axis=1))
    radius = estimate.vector_radius(30, 0.2, reward_width=1, discount=1, norm=1) / math.sqrt(2)
    assert not exceeds(distance > radius, 0.2)


def test_storing_only_confirmed_draws_trebles_the_error() -> None:
    """F2: of 20 fair coins, those more than .3 from .6 are kept; .29 of them miss, at level .1."""
    means, weights = np.arange(21) / 20, np.asarray(stats.binom.pmf(np.arange(21), 20, 0.5))
    miss = abs(means - 0.5) > estimate.hoeffding_radius(20, 1, 0.1)
    confirmed = abs(means - 0.6) > 0.3 + 1e-12
    assert weights[miss].sum() <= 0.1
    assert weights[miss & confirmed].sum() / weights[confirmed].sum() == pytest.approx(
        0.29, abs=0.01
    )


def test_a_frozen_table_breaks_the_binomial_limit() -> None:
    """F3: all 2000 rollouts pass one wrong entry (5% of tables), and the bound says .847 > 0."""
    upper = float(estimate.binomial_upper(0, 2000, 0.001))
    assert 0.95 - 0.1 - upper == pytest.approx(0.847, abs=5e-4)
    wrong_tables = np.random.default_rng(5).random(2000) < 0.05
    assert exceeds(wrong_tables, 0.001)


# --- properties ----------------------------------------------------------------------------------


@given(COUNTS, VARIANCES, LEVELS, st.floats(1e-3, 1e3))
def test_radii_scale_with_the_outcomes(
    draws: int, variance: float, level: float, unit: float
) -> None:
    for radius in (estimate.bernstein_radius, estimate.anytime_radius):
        scaled = radius(draws, variance * unit**2, unit, level)
        assert float(scaled) == pytest.approx(unit * float(radius(draws, variance, 1, level)))


@given(COUNTS, VARIANCES, LEVELS)
def test_radii_shrink_with_draws_and_level_and_grow_with_variance(
    draws: int, variance: float, level: float
) -> None:
    for radius in (estimate.bernstein_radius, estimate.anytime_radius):
        here = radius(draws, variance, 1, level)
        assert radius(2 * draws, variance, 1, level) <= here
        assert radius(draws, variance, 1, level / 2) >= here
        assert radius(draws, variance / 2, 1, level) <= here
        assert radius(draws, variance, 1, level, sides=1) <= here
        assert 0 <= here <= 1


@given(st.integers(0, 40), st.integers(1, 40), LEVELS)
def test_binomial_limits_are_mirrored(hits: int, more: int, level: float) -> None:
    upper = estimate.binomial_upper(hits, hits + more, level)
    lower = estimate.binomial_lower(more, hits + more, level)
    assert float(upper) == pytest.approx(1 - float(lower))


def test_batches_are_rows_of_single_calls() -> None:
    draws = np.array([[2, 50], [700, 10**6]])
    variance = np.array([0.0, 0.2])
    for radius in (estimate.bernstein_radius, estimate.anytime_radius):
        whole = radius(draws, variance, 1, 0.03)
        for (row, column), value in np.ndenumerate(whole):
            assert value == radius(int(draws[row, column]), float(variance[column]), 1, 0.03)


# --- moments -------------------------------------------------------------------------------------


def test_moments_of_batches_are_those_of_all_draws() -> None:
    rng = np.random.default_rng(6)
    draws = rng.normal(size=(2, 3, 50)) + 1e3
    joined = Moments.none((2, 3))
    for first, last in [(0, 1), (1, 20), (20, 20), (20, 50)]:
        joined = joined.joined(Moments.of(draws[..., first:last]))
    np.testing.assert_array_equal(joined.counts, 50)
    np.testing.assert_allclose(joined.means, draws.mean(axis=-1))
    np.testing.assert_allclose(joined.variances, draws.var(axis=-1, ddof=1))
    np.testing.assert_allclose(joined.spread, draws.var(axis=-1))
    np.testing.assert_allclose(joined.errors, draws.std(axis=-1, ddof=1) / math.sqrt(50))


def test_moments_along_a_direction_need_only_mean_rows_and_covariances() -> None:
    rng = np.random.default_rng(7)
    draws, direction = rng.normal(size=(2, 3, 40, 4)), np.array([1.0, 2.0, -1.0, 0.5])
    centred = draws - draws.mean(axis=2, keepdims=True)
    covariances = np.einsum("naki,nakj->naij", centred, centred) / 40
    counts = np.full((2, 3), 40)
    found = Moments.along(counts, draws.mean(axis=2), covariances, direction)
    expected = Moments.of(draws @ direction)
    np.testing.assert_allclose(found.means, expected.means)
    np.testing.assert_allclose(found.scatter, expected.scatter)


def test_moments_of_one_draw_have_no_variance() -> None:
    assert np.isinf(Moments.of(np.ones((1, 1))).variances[0])
    assert np.isinf(Moments.none((1,)).errors[0])


# --- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "value"),
    [
        (lambda: estimate.hoeffding_radius(0, 1, 0.1), "draws=0"),
        (lambda: estimate.hoeffding_radius(2.5, 1, 0.1), "draws=2.5"),
        (lambda: estimate.hoeffding_radius(10, -1, 0.1), "width=-1"),
        (lambda: estimate.hoeffding_radius(10, 1, 0.0), "level=0"),
        (lambda: estimate.hoeffding_radius(10, 1, np.array([0.1, 1.0])), "level=1"),
        (lambda: estimate.hoeffding_radius(10, 1, 0.1, sides=3), "sides=3"),
        (lambda: estimate.hoeffding_draws(0, 1, 0.1), "radius=0"),
        (lambda: estimate.bernstein_radius(10, math.nan, 1, 0.1), "variance=nan"),
        (lambda: estimate.anytime_radius(-1, 0, 1, 0.1), "draws=-1"),
        (lambda: estimate.epoch_radius(65, 0, 1, 0.1, Grid(64)), "draws=65"),
        (
            lambda: estimate.vector_radius(9, 0.1, reward_width=1, discount=1.5, norm=1),
            "discount=1.5",
        ),
        (lambda: estimate.binomial_upper(5, 4, 0.1), "successes=5"),
        (lambda: estimate.binomial_lower(-1, 4, 0.1), "successes=-1"),
        (lambda: estimate.variance_floor(1, 0, 0.1), "gap=0"),
        (lambda: estimate.betting_floor(np.array([2.0]), 0, 1, 0.1, 0.1), "1 returns"),
        (lambda: Moments(np.zeros(2, np.int64), np.zeros(3), np.zeros(2)), "shapes"),
        (lambda: Moments(np.array([1]), np.array([math.nan]), np.zeros(1)), "means"),
    ],
)
def test_bad_input_is_named(call: object, value: str) -> None:
    assert callable(call)
    with pytest.raises(SettingError, match=value):
        call()
