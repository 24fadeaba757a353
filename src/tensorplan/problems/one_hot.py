"""One parameter for each state, or each stage and state: every value is linear in such features."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from tensorplan.errors import SettingError
from tensorplan.exact import solve, start_value
from tensorplan.finite import FiniteProcess
from tensorplan.problems.base import BOUND_ROOM, LinearTable, require_at_least
from tensorplan.records import FloatArray


class Clock(NamedTuple):
    """How an episode counts its time: a horizon, or None and a discount below 1."""

    horizon: int | None
    discount: float


def clock(horizon: int | None, discount: float | None, *, default: float) -> Clock:
    """The horizon or the discount that was given, at most one of them.

    Args:
        horizon: H, or None.
        discount: gamma in (0, 1), or None.
        default: the discount where neither is given.
    """
    if horizon is not None and discount is not None:
        raise SettingError(
            f"horizon={horizon} with discount={discount}",
            "an episode has a horizon or a discount, not both",
            "Leave out one of them.",
        )
    if horizon is not None:
        require_at_least(1, horizon=horizon)
        return Clock(horizon, 1.0)
    gamma = default if discount is None else discount
    if not 0 < gamma < 1:
        raise SettingError(
            f"discount={gamma}",
            "discount must lie strictly between 0 and 1",
            f"The default is {default:g}; for undiscounted rewards give a horizon.",
        )
    return Clock(None, gamma)


def one_hot_rows(stages: int, states: int) -> FloatArray:
    """One-hot features over (stage, state): [stages, states, stages * states], read-only.

    Row i of an identity matrix is a window of one long vector with a single 1, so that the table
    takes the memory of two rows, whatever the horizon.
    """
    count = stages * states
    line = np.zeros(2 * count - 1)
    line[count - 1] = 1.0
    return sliding_window_view(line, count)[::-1].reshape(stages, states, count)


def without_features(states: int) -> FloatArray:
    """The feature table of a process whose features come later: [1, S, 1]."""
    return np.zeros((1, states, 1))


def with_one_hot(process: FiniteProcess) -> LinearTable:
    """The process with one-hot features of its states, at every stage if it has a horizon."""
    stages = process.spec.horizon or 1
    theta = solve(process).values[:stages].ravel()
    bound = BOUND_ROOM * float(np.linalg.norm(theta)) or None
    rows = one_hot_rows(stages, process.states)
    return LinearTable(process.with_features(rows, bound=bound), theta)


def optimal_value(process: FiniteProcess) -> float:
    """v*_1 of the start, by the referee."""
    return start_value(process, solve(process).values)
