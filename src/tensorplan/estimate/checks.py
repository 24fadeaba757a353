"""What the formulas of this room may be given; anything else is refused by name."""

from __future__ import annotations

import numpy as np

from tensorplan.errors import SettingError
from tensorplan.records import BoolArray, FloatArray, IntArray

Numbers = float | FloatArray | IntArray
"""One number, or an array of them: arguments broadcast against each other."""


def checked(name: str, value: Numbers, allowed: BoolArray, rule: str) -> FloatArray:
    """The numbers as floats, if all of them are allowed."""
    numbers = np.asarray(value, np.float64)
    bad = ~np.asarray(allowed)
    if np.any(bad):
        raise SettingError(
            f"{name}={np.ravel(np.broadcast_to(numbers, bad.shape)[bad])[0]:g}",
            f"it must be {rule}",
            f"Pass {name} as {rule}.",
        )
    return numbers


def level(value: Numbers, name: str = "level") -> FloatArray:
    """Probabilities of error, strictly between 0 and 1."""
    given = np.asarray(value, np.float64)
    return checked(name, given, (given > 0) & (given < 1), "strictly between 0 and 1")


def positive(name: str, value: Numbers) -> FloatArray:
    """Positive, finite numbers."""
    given = np.asarray(value, np.float64)
    return checked(name, given, (given > 0) & np.isfinite(given), "positive and finite")


def at_least_zero(name: str, value: Numbers) -> FloatArray:
    """Finite numbers of 0 or more."""
    given = np.asarray(value, np.float64)
    return checked(name, given, (given >= 0) & np.isfinite(given), "at least 0 and finite")


def counts(name: str, value: Numbers, least: int) -> FloatArray:
    """Whole numbers of at least ``least``, as floats."""
    given = np.asarray(value, np.float64)
    whole = (given >= least) & (given <= 2**53) & (given == np.floor(given))
    return checked(name, given, whole, f"a whole number from {least} to 2^53")


def sides(value: int) -> int:
    """1 if the level pays for one side of an interval, 2 if it pays for both."""
    if value not in (1, 2):
        raise SettingError(
            f"sides={value!r}", "an interval has 1 or 2 sides", "Pass 2 unless one side is enough."
        )
    return value


def interval(low: float, high: float) -> None:
    """A range of outcomes with a width."""
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise SettingError(
            f"range [{low}, {high}]",
            "the range of the outcomes must be finite, and its ends in order and different",
            "Pass the lowest and the highest outcome that can occur.",
        )
