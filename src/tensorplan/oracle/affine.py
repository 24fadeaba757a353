"""The convex subproblem of a search node when the data are exact: a ball cut by a flat.

Maximise <c, theta> over ||theta|| <= B and X theta = b: closed form (theory B3). The bound is by
weak duality at the multipliers found, as in :mod:`tensorplan.oracle.kernels`.
"""

from __future__ import annotations

import math

import numpy as np

from tensorplan.oracle.kernels import FEASIBLE, INFEASIBLE, dual_bound
from tensorplan.records import FloatArray

CONSISTENT = 1e-9
"""Residual, in units of 1 + B, up to which equations count as consistent."""

_RANK = 1e-11
_FLAT = 1e-12


def solve_flat(
    objective: FloatArray, norm: float, rows: FloatArray, levels: FloatArray
) -> tuple[int, FloatArray, float]:
    """Maximise over the ball and the equations.

    Args:
        objective: [d].
        norm: B.
        rows: [m, d], unit rows.
        levels: [m].

    Returns:
        (status, theta [d], upper bound).
    """
    left, sizes, right = np.linalg.svd(rows, full_matrices=False)
    kept = sizes > _RANK * max(1.0, float(sizes.max(initial=0.0)))
    inverse = (right[kept].T / sizes[kept]) @ left[:, kept].T
    nearest = inverse @ levels
    residual = float(np.abs(rows @ nearest - levels).max(initial=0.0))
    room = norm**2 - float(nearest @ nearest)
    if residual > CONSISTENT * (1 + norm) or room < -2 * CONSISTENT * (1 + norm) * norm:
        return INFEASIBLE, nearest, -math.inf
    free = objective - right[kept].T @ (right[kept] @ objective)
    slope = float(np.linalg.norm(free))
    if slope <= _FLAT * float(np.linalg.norm(objective)):
        slope = 0.0
    reach = math.sqrt(max(room, 0.0))
    theta = nearest + reach * free / slope if slope > 0 else nearest
    # At the optimum objective - X' lam = (slope / reach) theta.
    weight = slope / reach if reach > CONSISTENT * norm else slope / (CONSISTENT * norm)
    multipliers = inverse.T @ (weight * nearest - objective)
    bound = dual_bound(
        objective,
        max(norm, float(np.linalg.norm(nearest))),
        np.concatenate([rows, -rows]),
        np.concatenate([levels, -levels]),
        np.concatenate([np.maximum(multipliers, 0.0), np.maximum(-multipliers, 0.0)]),
    )
    return FEASIBLE, theta, bound
