"""How answers spread: counts and moments against the raw draws, however they were put together."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from stochastic_worlds import Asked, ManyAnswers, asked, few_answers

from tensorplan.access import CHUNK_ROWS
from tensorplan.local import MOST_MOMENTS, MOST_OUTCOMES
from tensorplan.planners.adaptive.samples import Sample, samples_of
from tensorplan.records import FloatArray, IntArray, Phase, States, Step
from tensorplan.spread import Spread


def tallied(raw: FloatArray) -> dict[tuple[float, ...], int]:
    """How often each answer came, by a dictionary."""
    found: dict[tuple[float, ...], int] = {}
    for row in raw.tolist():
        found[tuple(row)] = found.get(tuple(row), 0) + 1
    return found


def counted(sample: Sample) -> dict[tuple[float, ...], int]:
    assert sample.values is not None
    assert sample.counts is not None
    return {
        tuple(row): int(count)
        for row, count in zip(sample.values.tolist(), sample.counts.tolist(), strict=True)
    }


def check(sample: Sample, raw: FloatArray, discount: float) -> None:
    """A sample says of its draws what they say themselves."""
    assert sample.count == len(raw)
    np.testing.assert_allclose(sample.mean, raw.mean(axis=0), atol=1e-12)
    assert sample.live == pytest.approx(raw[:, 0].mean())
    weights = np.full(raw.shape[1] - 1, discount)
    weights[0] = 1.0
    plain = np.cov((raw[:, 1:] * weights).T, bias=True)
    found = sample.covariance(discount)
    assert found is not None
    np.testing.assert_allclose(found, plain, atol=1e-12)


def sampled(world: Asked, sizes: list[int]) -> dict[int, Sample]:
    """Draws in several batches, joined."""
    found: dict[int, Sample] = {}
    for key, draws in enumerate(sizes):
        for action, sample in samples_of(world.measure(draws, key), 0).items():
            found[action] = found[action].joined(sample) if action in found else sample
    return found


# --- against raw draws ---------------------------------------------------------------------------


@pytest.mark.parametrize("horizon", [1, 4, None])
@pytest.mark.parametrize("sizes", [[1], [50], [7, 1, 40], [CHUNK_ROWS // 2 + 9, 30]])
def test_counts_are_those_of_the_draws(horizon: int | None, sizes: list[int]) -> None:
    discount = 1.0 if horizon else 0.8
    world = asked(few_answers(horizon, discount))
    for action, sample in sampled(world, sizes).items():
        raw = world.noted.drawn(action)
        assert counted(sample) == tallied(raw)
        check(sample, raw, discount)
        features = world.access.features(world.start)[0]
        row = np.r_[raw[:, 1].mean(), discount * raw[:, 2:].mean(axis=0) - features]
        np.testing.assert_allclose(sample.row(features, discount), row, atol=1e-12)


@pytest.mark.parametrize("sizes", [[40], [5, 200], [5, 5], [CHUNK_ROWS, 100], [MOST_OUTCOMES] * 3])
def test_moments_take_over_where_answers_are_many(sizes: list[int]) -> None:
    world = asked(ManyAnswers())
    for action, sample in sampled(world, sizes).items():
        assert (sample.values is None) is (sum(sizes) > MOST_OUTCOMES)
        check(sample, world.noted.drawn(action), 0.9)


def test_wide_features_leave_the_mean_alone() -> None:
    world = asked(ManyAnswers(MOST_MOMENTS + 1))
    few, many = world.measure(2, 0), world.measure(100, 1)
    assert few.outcomes is not None
    assert many.outcomes is None
    assert many.seconds is None
    for action, sample in samples_of(many, 0).items():
        raw = world.noted.raw
        own = np.concatenate([values[actions == action] for actions, values in raw[1:]])
        np.testing.assert_allclose(sample.mean, own.mean(axis=0), atol=1e-12)
        assert sample.covariance(0.9) is None
        assert samples_of(few, 0)[action].joined(sample).covariance(0.9) is None


def test_only_chosen_actions_are_drawn() -> None:
    world = asked(few_answers())
    chosen = np.array([[False, True]])
    assert list(samples_of(world.measure(5, 0, chosen), 0)) == [1]
    assert world.access.queries.total == 5


def test_outcomes_know_their_next_states() -> None:
    """Features of the states behind an outcome are those that were counted."""
    world = asked(few_answers())
    outcomes = world.measure(200, 0).outcomes
    assert outcomes is not None
    features = world.access.features(outcomes.states)
    np.testing.assert_array_equal(features, outcomes.values[:, 1:])
    assert np.array_equal(outcomes.live, features.any(axis=1))
    going_on = world.access.take(outcomes.states, np.flatnonzero(outcomes.live))
    assert going_on.stage == 2
    assert world.access.allowed(going_on).shape == (int(outcomes.live.sum()), 2)


def test_details_change_no_draw() -> None:
    with_details = asked(few_answers()).measure(300, 0)
    without = asked(few_answers()).measure(300, 0, detail=False)
    np.testing.assert_array_equal(with_details.rows, without.rows)
    assert without.outcomes is None
    assert without.seconds is None


def test_states_of_a_batch_keep_apart() -> None:
    world = asked(few_answers())
    access = world.access
    both = access.admit(np.array([0, 1, 0]), 2)
    found = access.measure(both, 2, 60, phase=Phase.REFINE, key=(0,), detail=True)
    first, second, third = (samples_of(found, k) for k in range(3))
    assert (sorted(first), sorted(second), sorted(third)) == ([0, 1], [0], [0, 1])
    raw = world.noted.raw[0][1]
    for number, sample in enumerate([first[0], first[1], second[0], third[0], third[1]]):
        assert counted(sample) == tallied(raw[60 * number : 60 * (number + 1)])


# --- properties ----------------------------------------------------------------------------------


def from_raw(raw: FloatArray) -> Sample:
    rows, counts = np.unique(raw, axis=0, return_counts=True)
    return Sample(len(raw), raw.mean(axis=0), rows, counts.astype(np.float64))


@given(st.integers(0, 10**6), st.permutations(range(4)))
def test_the_order_of_joining_does_not_matter(seed: int, order: list[int]) -> None:
    rng = np.random.default_rng(seed)
    parts = [rng.integers(0, 3, size=(int(rng.integers(1, 9)), 3)) / 2.0 for _ in range(4)]
    joined = from_raw(parts[order[0]])
    for k in order[1:]:
        joined = joined.joined(from_raw(parts[k]))
    raw = np.concatenate(parts)
    assert counted(joined) == tallied(raw)
    check(joined, raw, 0.7)


def test_joining_counts_and_moments_gives_moments() -> None:
    rng = np.random.default_rng(0)
    raw = rng.integers(0, 2, size=(30, 3)).astype(np.float64)
    own = raw[10:, 1:]
    moments = Sample(20, raw[10:].mean(axis=0), seconds=own.T @ own / 20)
    for joined in (from_raw(raw[:10]).joined(moments), moments.joined(from_raw(raw[:10]))):
        assert joined.values is None
        check(joined, raw, 0.5)


@given(st.integers(0, 10**6), st.floats(0.01, 100))
def test_covariances_scale_with_rewards(seed: int, unit: float) -> None:
    rng = np.random.default_rng(seed)
    raw = rng.integers(0, 3, size=(20, 4)).astype(np.float64)
    larger = raw * np.array([1.0, unit, 1.0, 1.0])
    plain, scaled = from_raw(raw).covariance(0.9), from_raw(larger).covariance(0.9)
    assert plain is not None
    assert scaled is not None
    weights = np.array([unit, 1.0, 1.0])
    np.testing.assert_allclose(scaled, plain * np.outer(weights, weights), atol=1e-9 * unit**2)


def put(spread: Spread, pairs: IntArray, values: FloatArray, states: States) -> None:
    """A chunk of draws from rows of (went on, reward, next features)."""
    ended = values[:, 0] == 0
    spread.add(pairs, ended, Step(values[:, 1], states, ended), values[:, 2:])


def test_chunks_that_go_over_to_moments_midway_lose_nothing() -> None:
    """First chunks of equal draws, then ones that all differ."""
    rng = np.random.default_rng(1)
    spread, pairs = Spread(1, 2), np.repeat([0, 1], 100)
    chunks = [np.ones((200, 3)), rng.normal(size=(200, 3)), rng.normal(size=(200, 3))]
    for values in chunks:
        values[:, 0] = 1.0
    for values in chunks:
        put(spread, pairs, values, np.zeros(200))
    assert spread.distinct() is None
    found = spread.seconds(np.array([[True, False, True]]), 300)
    assert found is not None
    for place, own in ((0, slice(0, 100)), (2, slice(100, 200))):
        raw = np.concatenate([values[own, 1:] for values in chunks])
        np.testing.assert_allclose(found[0, place], raw.T @ raw / 300)
    assert not found[0, 1].any()


def test_answers_that_differ_in_one_place_stay_apart() -> None:
    values = np.zeros((8, 4))
    values[np.arange(4), np.arange(4)] = 1.0
    spread = Spread(2, 1)
    put(spread, np.zeros(8, np.int64), values, np.arange(8))
    found = spread.distinct()
    assert found is not None
    assert sorted(found.counts.tolist()) == [1, 1, 1, 1, 4]
    assert tallied(np.repeat(found.values, found.counts, axis=0)) == tallied(values)
    for state, value in zip(found.states.tolist(), found.values, strict=True):
        np.testing.assert_array_equal(values[state], value)
