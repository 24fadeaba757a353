"""The shared vocabulary: what a Spec refuses, and what the records compute."""

import math
import pickle
from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorplan.errors import SettingError, TensorplanError
from tensorplan.records import Certificate, Spec, Status

GOOD = Spec(actions=2, dim=3, horizon=4)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("actions", 0),
        ("actions", 2.5),
        ("dim", -1),
        ("dim", 3.0),
        ("horizon", 0),
        ("horizon", 1.5),
        ("discount", -0.1),
        ("discount", 1.1),
        ("discount", math.nan),
        ("reward_range", (1.0, 0.0)),
        ("reward_range", (-math.inf, 0.0)),
        ("reward_range", (0.0, math.nan)),
        ("bound", 0.0),
        ("bound", math.inf),
        ("bound", math.nan),
        ("misspecification", -1e-9),
        ("inaccuracy", -1.0),
        ("inaccuracy", math.nan),
    ],
)
def test_a_bad_value_is_refused_with_its_rule_and_a_way_out(name: str, value: Any):
    with pytest.raises(SettingError) as caught:
        replace(GOOD, **{name: value})
    error = caught.value
    assert error.value == f"Spec.{name}={value!r}"
    assert error.rule.startswith(f"{name} must be ")
    assert name in error.way_out
    assert str(error) == f"{error.value}: {error.rule}. {error.way_out}"


@pytest.mark.parametrize(
    "changes",
    [
        {"discount": 0.0, "horizon": None},
        {"discount": 1.0, "horizon": None},
        {"reward_range": (0.5, 0.5)},
        {"bound": 1e-12},
        {"actions": 1, "dim": 1, "horizon": 1},
    ],
)
def test_the_edges_are_allowed(changes: dict[str, Any]):
    assert all(getattr(replace(GOOD, **changes), name) == changes[name] for name in changes)


def test_records_are_frozen():
    with pytest.raises(FrozenInstanceError):
        GOOD.actions = 3  # pyright: ignore[reportAttributeAccessIssue] that is the test
    assert replace(GOOD) == GOOD
    assert hash(replace(GOOD)) == hash(GOOD)


def test_discounted_only_without_a_horizon():
    assert replace(GOOD, horizon=None, discount=0.9).discounted
    assert not replace(GOOD, horizon=None).discounted
    assert not replace(GOOD, discount=0.9).discounted


@given(st.floats(-5, 5), st.floats(0, 5))
def test_reward_width_includes_the_zero_after_an_end(low: float, width: float):
    spec = replace(GOOD, reward_range=(low, low + width))
    assert spec.reward_width == pytest.approx(max(low + width, 0) - min(low, 0))
    assert spec.reward_width >= max(0.0, abs(low)) - 1e-12


def test_errors_travel_between_processes():
    error = SettingError("seed=-1", "seeds are not negative", "Use 0.")
    again = pickle.loads(pickle.dumps(error))  # noqa: S301
    assert type(again) is SettingError
    assert (again.value, again.rule, again.way_out) == (error.value, error.rule, error.way_out)
    assert isinstance(again, TensorplanError)
    assert isinstance(again, ValueError)


def test_every_status_gives_advice():
    assert len({status.advice for status in Status}) == len(Status)
    assert all(status.advice.endswith(".") for status in Status)


@pytest.mark.parametrize(
    ("lower", "upper", "gap"),
    [(0.5, 0.75, 0.25), (None, 1.0, None), (0.0, None, None), (0.0, 0.0, 0.0)],
)
def test_gap(lower: float | None, upper: float | None, gap: float | None):
    assert Certificate(lower, upper, 0.9, "B9").gap == gap
