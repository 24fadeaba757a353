"""Ranges of values hold for every policy, and are reached by some."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorplan import Spec
from tensorplan.ranges import ValueRanges


def test_rewards_in_the_unit_interval_give_the_stages_that_are_left():
    ranges = ValueRanges.of(Spec(actions=2, dim=1, horizon=7))
    assert [ranges.low(stage) for stage in range(1, 9)] == [0.0] * 8
    assert [ranges.high(stage) for stage in range(1, 9)] == [7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0, 0.0]
    assert ranges.width(3) == 5.0
    assert ranges.after(3) == 4


def test_an_endless_process_has_one_stage():
    ranges = ValueRanges.of(
        Spec(actions=2, dim=1, horizon=None, discount=0.9, reward_range=(-1.0, 0.5))
    )
    assert math.isclose(ranges.low(1), -10.0)
    assert math.isclose(ranges.high(1), 5.0)
    assert ranges.after(1) == 1
    assert ranges.left(1) is None


def test_without_a_discount_factor_of_note_only_the_first_reward_counts():
    ranges = ValueRanges(0.25, 1.0, 0.0, None)
    assert (ranges.low(1), ranges.high(1)) == (0.25, 1.0)
    assert ValueRanges(0.25, 1.0, 0.0, 5).high(2) == 1.0


@pytest.mark.parametrize(("may_terminate", "low"), [(True, 0.5), (False, 2.0)])
def test_an_early_end_leaves_out_rewards(may_terminate: bool, low: float):
    ranges = ValueRanges(0.5, 1.0, 1.0, 4, may_terminate)
    assert ranges.low(1) == low
    assert ranges.high(1) == 4.0


@given(
    rewards=st.lists(st.floats(-3.0, 2.0), min_size=1, max_size=8),
    end=st.integers(1, 8),
    discount=st.floats(0.0, 1.0),
)
def test_every_episode_is_in_range(rewards: list[float], end: int, discount: float):
    played = rewards[:end]
    value = sum(discount**index * reward for index, reward in enumerate(played))
    stopped = len(played) < len(rewards)
    ranges = ValueRanges(min(rewards), max(rewards), discount, len(rewards), stopped)
    slack = 1e-9 * (1 + abs(value))
    assert ranges.low(1) - slack <= value <= ranges.high(1) + slack
