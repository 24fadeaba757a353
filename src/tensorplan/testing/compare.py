"""Comparison of answers, row by row: numbers, structured rows and objects alike."""

from __future__ import annotations

import copy
from contextlib import suppress
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from tensorplan.records import BoolArray, States, Step

_ROUNDING = 1e-9
"""What the order of a sum may change: matrix products depend on the size of the batch."""
_DEPTH = 20
"""How far to look into objects; they may hold each other in circles."""


def same_rows(
    left: npt.NDArray[Any], right: npt.NDArray[Any], *, rounding: bool = False
) -> BoolArray:
    """Which of n rows are equal: [n]. Two nan are equal.

    Args:
        left: [n, ...].
        right: [n, ...].
        rounding: whether floating-point numbers may differ by rounding.
    """
    if left.shape != right.shape or left.dtype != right.dtype:
        return np.zeros(len(left), np.bool_)
    if left.dtype.names:
        fields = [same_rows(left[f], right[f], rounding=rounding) for f in left.dtype.names]
        return np.all(fields, axis=0)
    if left.dtype == object:
        pairs = zip(left.ravel(), right.ravel(), strict=True)
        equal = np.array([_same_object(a, b) for a, b in pairs], dtype=np.bool_)
        equal = equal.reshape(left.shape)
    elif rounding and left.dtype.kind in "fc":
        equal = np.isclose(left, right, rtol=_ROUNDING, atol=_ROUNDING, equal_nan=True)
    else:
        equal = (left == right) | ((left != left) & (right != right))
    return np.asarray(equal.all(axis=tuple(range(1, equal.ndim))))


def same_steps(left: Step, right: Step, *, rounding: bool = False) -> BoolArray:
    """Which of n answers are equal in reward, next state and termination: [n]."""
    return (
        same_rows(left.rewards, right.rewards, rounding=rounding)
        & same_rows(left.states, right.states, rounding=rounding)
        & (left.terminated == right.terminated)
    )


def snapshot(states: States) -> States:
    """A copy that nothing done to the original can reach: [n, ...]."""
    if states.dtype != object:
        return states.copy()
    try:
        return copy.deepcopy(states)
    except (TypeError, ValueError, AttributeError, NotImplementedError, copy.Error):
        return states


def snapshot_step(step: Step) -> Step:
    """The same for an answer."""
    return Step(step.rewards.copy(), snapshot(step.states), step.terminated.copy())


def pick(step: Step, rows: slice | list[int]) -> Step:
    """Some rows of an answer."""
    return Step(step.rewards[rows], step.states[rows], step.terminated[rows])


def _same_object(left: Any, right: Any, depth: int = _DEPTH) -> bool:  # noqa: ANN401 any state
    """Equality where the type defines one, else of what is inside; True where none can tell."""
    kind = cast("type[Any]", type(left))
    if left is right or depth == 0:
        return True
    if kind is not type(right):
        return bool(np.isscalar(left) and np.isscalar(right) and left == right)
    if issubclass(kind, np.ndarray):
        return left.shape == right.shape and bool(same_rows(left[None], right[None])[0])
    if issubclass(kind, dict):
        keys: list[Any] = list(left)
        return left.keys() == right.keys() and all(
            _same_object(left[key], right[key], depth - 1) for key in keys
        )
    if issubclass(kind, list | tuple):
        pairs: list[tuple[Any, Any]] = list(zip(left, right, strict=False))
        return len(left) == len(right) and all(_same_object(a, b, depth - 1) for a, b in pairs)
    if kind.__eq__ is not object.__eq__:
        # NOTE: a dataclass that holds arrays cannot be compared by its own equality.
        with suppress(ValueError):
            return bool(left == right)
    inside = getattr(left, "__dict__", None), getattr(right, "__dict__", None)
    return _same_object(*inside, depth - 1)
