"""The convex subproblem of a search node when the data are exact: a ball cut by a flat.

Maximise <c, theta> over ||theta|| <= B and X theta = b: closed form (theory B3). Floats of exact
data are not exact, so the equations hold up to a slack (F5): both the bound and a verdict of
emptiness are by weak duality for |X theta - b| <= slack, as in :mod:`tensorplan.oracle.kernels`.
"""

from __future__ import annotations

import math

import numpy as np

from tensorplan.oracle.kernels import FEASIBLE, INFEASIBLE, dual_bound
from tensorplan.records import FloatArray

_RANK = 1e-11
_FLAT = 1e-12


def solve_flat(
    objective: FloatArray, norm: float, rows: FloatArray, levels: FloatArray, slacks: FloatArray
) -> tuple[int, FloatArray, float]:
    """Maximise over the ball and the equations.

    Args:
        objective: [d].
        norm: B.
        rows: [m, d], unit rows.
        levels: [m].
        slacks: [m], how far each equation may be off.

    Returns:
        (status, theta [d], upper bound).
    """
    left, sizes, right = np.linalg.svd(rows, full_matrices=False)
    kept = sizes > _RANK * max(1.0, float(sizes.max(initial=0.0)))
    inverse = (right[kept].T / sizes[kept]) @ left[:, kept].T
    nearest = inverse @ levels

    def bound(direction: FloatArray, multipliers: FloatArray) -> float:
        """Weak duality at free multipliers, split by sign."""
        return dual_bound(
            direction,
            norm,
            np.concatenate([rows, -rows]),
            np.concatenate([levels - slacks, -levels - slacks]),
            np.concatenate([np.maximum(multipliers, 0.0), np.maximum(-multipliers, 0.0)]),
        )

    # The equations contradict each other along their residual, the ball along the nearest point.
    # NOTE: orthogonal twice, as X' residual must vanish beside the residual, not beside the levels.
    residual = levels
    for _ in range(2):
        residual = residual - left[:, kept] @ (left[:, kept].T @ residual)
    contradictions = (residual, inverse.T @ nearest)
    if any(bound(np.zeros_like(objective), ray) < 0 for ray in contradictions):
        return INFEASIBLE, nearest, -math.inf
    length = float(np.linalg.norm(nearest))
    if length > norm:
        nearest = nearest * (norm / length)
    free = objective - right[kept].T @ (right[kept] @ objective)
    slope = float(np.linalg.norm(free))
    if slope <= _FLAT * float(np.linalg.norm(objective)):
        slope = 0.0
    reach = math.sqrt(max(norm**2 - float(nearest @ nearest), 0.0))
    theta = nearest + reach * free / slope if slope > 0 else nearest
    # At the optimum objective + X' lam = (slope / reach) theta; a flat that all but touches the
    # ball has the reach that the slack gives it.
    least = math.sqrt(2 * norm * max(float(slacks.max(initial=0.0)), _FLAT * norm))
    weight = slope / max(reach, least)
    multipliers = inverse.T @ (weight * nearest - objective)
    trivial = norm * float(np.linalg.norm(objective)) * (1 + _FLAT)
    return FEASIBLE, theta, min(bound(objective, multipliers), trivial)
