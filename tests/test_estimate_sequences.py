"""Confidence sequences: a loop over draws as reference, coverage at all times, and mutants."""

from __future__ import annotations

import math

import numpy as np
import pytest
from estimate_streams import STREAMS, bernoulli, exceeds
from hypothesis import given
from hypothesis import strategies as st

from tensorplan.errors import SettingError
from tensorplan.estimate import BernsteinSequence, BettingSequence
from tensorplan.records import FloatArray

# --- the plain references ------------------------------------------------------------------------


def bernstein_by_loop(values: FloatArray, level: float) -> tuple[float, float]:
    """Theory B5 iii as it is written, for one stream in [0, 1]."""
    log = math.log(2 / level)
    total, squares, mean, variance = 0.5, 0.25, 0.5, 0.25
    weights = weighted = penalty = 0.0
    lower, upper = 0.0, 1.0
    for t, x in enumerate(values.tolist(), start=1):
        bet = min(0.5, math.sqrt(2 * log / (variance * t * math.log(1 + t))))
        weights, weighted = weights + bet, weighted + bet * x
        penalty += (x - mean) ** 2 * (-math.log(1 - bet) - bet)
        radius = (log + penalty) / weights
        lower, upper = (
            max(lower, weighted / weights - radius),
            min(upper, weighted / weights + radius),
        )
        total += x
        mean = total / (t + 1)
        squares += (x - mean) ** 2
        variance = squares / (t + 1)
    return lower, upper


def capital_by_loop(values: FloatArray, level: float, planned: int | None, m: float) -> float:
    """The largest capital ever held against the mean m."""
    total, squares, variance, capital, best = 0.5, 0.25, 0.25, 1.0, 1.0
    for t, x in enumerate(values.tolist(), start=1):
        clock = planned if planned is not None and t <= planned else t * math.log(1 + t)
        bet = math.sqrt(2 * math.log(1 / level) / (variance * clock))
        capital *= 1 + min(bet, 0.95 / m) * (x - m)
        best = max(best, capital)
        total += x
        squares += (x - total / (t + 1)) ** 2
        variance = squares / (t + 1)
    return best


@pytest.mark.parametrize("name", STREAMS)
def test_bernstein_sequence_is_the_loop(name: str) -> None:
    draw, _ = STREAMS[name]
    values = draw(np.random.default_rng(1), (3, 200))
    sequence = BernsteinSequence.start(0, 1, 0.1, (3,)).update(values)
    for row in range(3):
        lower, upper = bernstein_by_loop(values[row], 0.1)
        assert sequence.lower[row] == pytest.approx(lower)
        assert sequence.upper[row] == pytest.approx(upper)


@pytest.mark.parametrize("planned", [None, 60])
@pytest.mark.parametrize("name", STREAMS)
def test_betting_limit_is_where_the_loop_begins_to_reject(name: str, planned: int | None) -> None:
    draw, _ = STREAMS[name]
    values = draw(np.random.default_rng(2), (3, 150))
    lower = BettingSequence.start(0, 1, 0.1, (3,), planned=planned).update(values).lower
    for row in range(3):
        assert capital_by_loop(values[row], 0.1, planned, lower[row] + 1e-9) < 10
        if lower[row] > 0:
            assert capital_by_loop(values[row], 0.1, planned, lower[row] - 1e-9) >= 10


def test_a_sure_stream_has_a_closed_form() -> None:
    """Ones and bets at .95/m: t values reject m once (1 + .95 (1/m - 1))^t >= 1/level."""
    lower = BettingSequence.start(0, 1, 0.05).update(np.ones(5)).lower
    assert float(lower) == pytest.approx(1 / (1 + (20 ** (1 / 5) - 1) / 0.95))


# --- appending, ranges, shapes -------------------------------------------------------------------


@pytest.mark.parametrize("kind", [BernsteinSequence, BettingSequence])
def test_batches_may_be_appended(kind: type[BernsteinSequence] | type[BettingSequence]) -> None:
    values = 3 * np.random.default_rng(3).random((2, 2, 90)) - 1
    whole = kind.start(-1, 2, 0.05, (2, 2)).update(values)
    parts = kind.start(-1, 2, 0.05, (2, 2))
    limits = [parts.lower]
    for first, last in [(0, 1), (1, 1), (1, 40), (40, 90)]:
        parts = parts.update(values[..., first:last])
        limits.append(parts.lower)
    assert parts.count == whole.count == 90
    np.testing.assert_allclose(parts.lower, whole.lower, rtol=1e-9)
    assert np.all(np.diff(limits, axis=0) >= 0)
    np.testing.assert_array_equal(limits[0], -1)


@given(st.floats(-1e3, 1e3), st.floats(1e-2, 1e3))
def test_limits_move_with_the_range(low: float, width: float) -> None:
    values = np.random.default_rng(4).beta(2, 3, 60)
    scaled = np.clip(low + width * values, low, low + width)
    for kind in (BernsteinSequence, BettingSequence):
        plain = kind.start(0, 1, 0.1).update(values).lower
        moved = kind.start(low, low + width, 0.1).update(scaled).lower
        assert float(moved) == pytest.approx(low + width * float(plain), abs=1e-6 * (width + 1))


@given(st.floats(1e-6, 0.4), st.integers(0, 1000))
def test_a_smaller_level_costs_length(level: float, seed: int) -> None:
    values = np.random.default_rng(seed).random(50)
    for kind in (BernsteinSequence, BettingSequence):
        strict = kind.start(0, 1, level / 100).update(values).lower
        assert strict <= kind.start(0, 1, level).update(values).lower + 1e-12


def test_larger_values_never_lower_the_capital() -> None:
    """At fixed bets; the bets themselves react to the values, so the limit may move either way."""
    values = np.full(30, 0.6)
    base = BettingSequence.start(0, 1, 0.1, planned=30).update(values).lower
    last = values.copy()
    last[-1] = 1.0  # nothing is bet after it
    assert BettingSequence.start(0, 1, 0.1, planned=30).update(last).lower >= base


# --- sharpness -----------------------------------------------------------------------------------


def test_betting_certifies_returns_of_small_spread_with_few_rollouts() -> None:
    """Returns in [0, 5] with spread .69 and gap .5: some 20 rollouts, where two-sided
    empirical Bernstein needs hundreds."""
    values = np.clip(2.5 + 0.69 * np.random.default_rng(5).standard_normal((400, 60)), 0, 5)
    lower = BettingSequence.start(0, 5, 0.05, (400,)).update(values[:, :30]).lower
    assert (lower >= 2).mean() > 0.75
    plain = BernsteinSequence.start(0, 5, 0.1, (400,)).update(values).lower
    assert (plain >= 2).mean() < 0.5


def test_a_plan_sharpens_the_limit_at_its_size() -> None:
    values = np.clip(2.5 + 1.5 * np.random.default_rng(6).standard_normal((40, 4000)), 0, 5)
    plain = BettingSequence.start(0, 5, 0.05, (40,)).update(values).lower
    tuned = BettingSequence.start(0, 5, 0.05, (40,), planned=4000).update(values).lower
    assert np.mean(2.5 - tuned) < 0.85 * np.mean(2.5 - plain)


# --- coverage ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", STREAMS)
def test_limits_cover_wherever_one_stops(name: str) -> None:
    """The limits only ever improve, so the last ones have missed if any did."""
    draw, truth = STREAMS[name]
    values = draw(np.random.default_rng(7), (2000, 500))
    pair = BernsteinSequence.start(0, 1, 0.2, (2000,)).update(values)
    assert not exceeds((pair.lower > truth) | (pair.upper < truth), 0.2)
    for planned in (None, 100):
        one = BettingSequence.start(0, 1, 0.2, (2000,), planned=planned).update(values[:, :300])
        assert not exceeds(one.lower > truth, 0.2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("truth", "reference"),
    [(0.5, 0.068), (0.1, 0.070), (0.01, 0.053), (0.001, 0.0), (0.99, 0.045), (None, 0.052)],
)
def test_ever_miscoverage_is_as_recorded(truth: float | None, reference: float) -> None:
    """F8: 4000 runs of 3000 values at level .2; None stands for uniform values."""
    rng, missed, mean = np.random.default_rng(8), 0, 0.5 if truth is None else truth
    for _ in range(8):
        draws = rng.random((500, 3000))
        values = draws if truth is None else (draws < truth).astype(float)
        sequence = BernsteinSequence.start(0, 1, 0.2, (500,)).update(values)
        missed += int(((sequence.lower > mean) | (sequence.upper < mean)).sum())
    error = math.sqrt(2 * max(reference, 1e-3) / 4000)
    assert missed / 4000 == pytest.approx(reference, abs=4 * error)


def test_dependent_values_with_the_right_conditional_means_are_covered() -> None:
    """The spread of each value is chosen by what came before."""
    rng, past = np.random.default_rng(9), np.zeros(2000)
    sequence = BettingSequence.start(0, 1, 0.2, (2000,))
    for _ in range(60):
        spread = np.where(past > 0, 0.5, 0.05)[:, None]
        values = 0.5 + spread * rng.choice([-1.0, 1.0], (2000, 5))
        past += (values - 0.5).sum(axis=1)
        sequence = sequence.update(values)
    assert not exceeds(sequence.lower > 0.5, 0.2)


def test_a_bet_that_has_seen_the_value_is_caught() -> None:
    """Mutant: values enter largest first within blocks of 20, as if the order could be chosen."""
    values = bernoulli(0.5)(np.random.default_rng(10), (2000, 200))
    peeked = -np.sort(-values.reshape(2000, -1, 20), axis=2).reshape(2000, -1)
    sequence = BettingSequence.start(0, 1, 0.2, (2000,)).update(peeked)
    assert exceeds(sequence.lower > 0.5, 0.2)


def test_rollouts_are_read_in_the_order_of_their_numbers() -> None:
    """F4: return 1 after one step or 0 after 50, looked at after one step."""
    won = np.random.default_rng(11).random((1000, 200)) < 0.5
    completed = BettingSequence.start(0, 1, 0.05).update(np.ones(int(won[0].sum())))
    assert completed.lower > 0.5
    unfinished_as_zero = BettingSequence.start(0, 1, 0.05, (1000,)).update(won.astype(float))
    assert not exceeds(unfinished_as_zero.lower > 0.5, 0.05)


def test_one_test_for_a_whole_batch_is_no_batch() -> None:
    """F4: a test picks the action of value .9 or that of value .5; execution tests afresh."""
    rng = np.random.default_rng(12)
    shared = np.repeat(np.where(rng.random((1000, 1)) < 0.5, 0.9, 0.5), 200, axis=1)
    fresh = np.where(rng.random((1000, 200)) < 0.5, 0.9, 0.5)
    start = BettingSequence.start(0, 1, 0.05, (1000,))
    assert (start.update(shared).lower > 0.7).mean() == pytest.approx(0.5, abs=0.06)
    assert not exceeds(start.update(fresh).lower > 0.7, 0.05)


# --- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [BernsteinSequence, BettingSequence])
@pytest.mark.parametrize(
    ("low", "high", "level", "values", "message"),
    [
        (1.0, 1.0, 0.1, [1.0], "range"),
        (0.0, math.inf, 0.1, [1.0], "range"),
        (0.0, 1.0, 1.0, [1.0], "level=1"),
        (0.0, 1.0, 0.1, [0.5, 1.1], "value 1.1"),
        (0.0, 1.0, 0.1, [math.nan], "value nan"),
        (0.0, 1.0, 0.1, [[0.5]], "shape"),
    ],
)
def test_bad_input_is_named(
    kind: type[BernsteinSequence] | type[BettingSequence],
    low: float,
    high: float,
    level: float,
    values: list[float],
    message: str,
) -> None:
    with pytest.raises(SettingError, match=message):
        kind.start(low, high, level).update(np.array(values))


def test_a_plan_is_a_whole_number() -> None:
    with pytest.raises(SettingError, match="planned"):
        BettingSequence.start(0, 1, 0.1, planned=0)
