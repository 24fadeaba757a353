"""How well features fit values: the best linear fit in the largest error, and its least norm."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog, nnls

from tensorplan.errors import OracleError, SettingError
from tensorplan.exact.policies import reachable, stage_count
from tensorplan.exact.rows import features
from tensorplan.finite import FiniteProcess
from tensorplan.records import FloatArray

ROUNDING = 1e-9
"""Relative rounding that a fit may show and still count as exact."""
_FEASIBILITY = 1e-10
"""The tightest tolerance that HiGHS accepts."""
_VANISHING = 1e-13
"""Squared residual of the dual below which no point satisfies the constraints."""


@dataclass(frozen=True)
class Fit:
    """A best linear fit.

    Attributes:
        misfit: eta, the largest error of theta.
        theta: [d], of least norm among the parameters with that largest error.
    """

    misfit: float
    theta: FloatArray


def best_linear_fit(process: FiniteProcess, values: FloatArray) -> Fit:
    """Fit values by the features in the largest error over the states reachable alive.

    Args:
        process: gives the features and the states that count.
        values: [H, S] or [H + 1, S] (the zeros after the last stage do not count); when
            discounted [1, S].
    """
    stages = stage_count(process)
    rows = (stages,) if process.spec.horizon is None else (stages, stages + 1)
    if values.ndim != 2 or values.shape[0] not in rows or values.shape[1] != process.states:
        raise SettingError(
            f"values of shape {values.shape}",
            f"they must have {' or '.join(map(str, rows))} rows of {process.states} numbers",
            "Give one value for every stage and state.",
        )
    live = reachable(process)
    return fit_rows(features(process)[live], values[:stages][live])


def fit_rows(matrix: FloatArray, targets: FloatArray) -> Fit:
    """Minimise max |matrix theta - targets|, then the norm of theta.

    Args:
        matrix: [n, d].
        targets: [n].
    """
    exact = least_squares(matrix, targets)
    scale = 1.0 + float(np.abs(targets).max())
    if largest_error(matrix, targets, exact) <= 1e-3 * ROUNDING * scale:
        return Fit(0.0, exact)
    found = _chebyshev(matrix, targets)
    misfit = largest_error(matrix, targets, found)
    # NOTE: the least misfit leaves no room; a rounding more keeps the second problem feasible.
    least = least_norm_point(matrix, targets, misfit + ROUNDING * scale)
    return Fit(misfit, found if least is None else least)


def least_squares(matrix: FloatArray, targets: FloatArray) -> FloatArray:
    """The least-norm minimiser of |matrix theta - targets|_2: [d]."""
    return np.asarray(np.linalg.lstsq(matrix, targets)[0], dtype=np.float64)


def largest_error(matrix: FloatArray, targets: FloatArray, theta: FloatArray) -> float:
    """The largest of |matrix theta - targets|."""
    return float(np.abs(matrix @ theta - targets).max())


def least_norm_point(
    matrix: FloatArray, targets: FloatArray, width: float | FloatArray
) -> FloatArray | None:
    """The point of least norm in the slabs |matrix theta - targets| <= width, if there is one.

    Lawson and Hanson's least-distance program: non-negative least squares on its dual, whose
    squared residual is 1 / (1 + |theta|^2), or 0 when the slabs have no point in common.

    Args:
        matrix: [n, d].
        targets: [n].
        width: one positive half-width, or [n].
    """
    scale = 1.0 + float(np.abs(targets).max())
    sides = np.concatenate([matrix, -matrix])
    floors = np.concatenate([targets - width, -targets - width]) / scale
    goal = np.zeros(matrix.shape[1] + 1)
    goal[-1] = 1.0
    weights = _nonnegative_least_squares(np.vstack([sides.T, floors]), goal)
    room = 1.0 - float(floors @ weights)
    if room <= _VANISHING:
        return None
    theta = sides.T @ weights / room
    # NOTE: the dual loses digits when |theta| is large; the tight sides give them back.
    tight = weights > 0
    if tight.any():
        polished = least_squares(sides[tight], floors[tight])
        if (sides @ polished - floors).min() > (sides @ theta - floors).min():
            theta = polished
    return scale * theta


def _chebyshev(matrix: FloatArray, targets: FloatArray) -> FloatArray:
    """A minimiser of max |matrix theta - targets|: the classical linear program."""
    ones = np.ones((len(targets), 1))
    sides = np.block([[matrix, -ones], [-matrix, -ones]])
    cost = np.append(np.zeros(matrix.shape[1]), 1.0)
    bounds = [(None, None)] * matrix.shape[1] + [(0.0, None)]
    answer = linprog(
        cost,
        A_ub=sides,
        b_ub=np.concatenate([targets, -targets]),
        bounds=bounds,
        method="highs",
        options={
            "primal_feasibility_tolerance": _FEASIBILITY,
            "dual_feasibility_tolerance": _FEASIBILITY,
        },
    )
    if not answer.success:
        raise OracleError(
            f"linear program of {len(targets)} values",
            f"the solver did not finish: {answer.message}",
            "Scale the features and values to sizes near 1.",
        )
    return np.asarray(answer.x, dtype=np.float64)[:-1]


def _nonnegative_least_squares(matrix: FloatArray, goal: FloatArray) -> FloatArray:
    try:
        weights, _ = nnls(matrix, goal, maxiter=30 * matrix.shape[1])
    except RuntimeError as error:
        raise OracleError(
            f"least-norm problem of {matrix.shape[1]} sides",
            f"the solver did not finish: {error}",
            "Scale the features and values to sizes near 1.",
        ) from error
    return np.asarray(weights, dtype=np.float64)
