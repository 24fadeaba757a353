"""The convex subproblem of a search node: a linear objective over a ball cut by slabs.

Maximise <c, theta> over ||theta|| <= B and <n_i, theta> >= b_i, unit normals n_i (a slab is two
such rows). For t > 0 let theta(t) be the projection of t c onto the polyhedron; its norm grows
with t, and where it reaches B (or where t is past the last breakpoint) theta(t) is optimal. The
projection is a dual active set method (Goldfarb and Idnani 1983, with the identity as Hessian).

Whatever the arithmetic does, the bound is safe: for any multipliers lam >= 0, weak duality gives
<c, theta> <= B ||c + N' lam|| - <lam, b>, and it is this number, evaluated at the multipliers
found and enlarged by its rounding error, that is returned.

The functions are plain loops over arrays, so that one source serves two ways: as it is, with no
compiler to wait for, and compiled by Numba once a search is long.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np

from tensorplan.records import FloatArray, IntArray

FEASIBLE, INFEASIBLE, UNDECIDED = 0, 1, 2

_EPS = 2.220446049250313e-16
_VIOLATION = 1e-12
_DEPENDENT = 1e-14
_NORM_MATCH = 1e-13
_MAX_STEPS = 400
_MAX_RADIUS_STEPS = 200
_FLAT = 1e-13
_FAR = 1e9

Kernel = Callable[
    [FloatArray, float, FloatArray, FloatArray], tuple[int, FloatArray, float, FloatArray]
]


def orthogonalise(
    normals: FloatArray, active: IntArray, count: int
) -> tuple[FloatArray, FloatArray]:
    """Orthonormal basis Q [count, d] of the active normals and R with N' = Q' R.

    Each vector is orthogonalised twice, so that near-dependent normals stay accurate.
    """
    basis = np.zeros((count, normals.shape[1]))
    triangle = np.zeros((count, count))
    for k in range(count):
        vector = normals[active[k]].copy()
        for _ in range(2):
            for j in range(k):
                part = np.dot(basis[j], vector)
                triangle[j, k] += part
                vector -= part * basis[j]
        triangle[k, k] = math.sqrt(np.dot(vector, vector))
        if triangle[k, k] > 0.0:
            basis[k] = vector / triangle[k, k]
    return basis, triangle


def decompose(
    basis: FloatArray, triangle: FloatArray, target: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Coefficients r of ``target`` on the normals, and the residual z: target = N' r + z."""
    count = len(basis)
    residual = target.copy()
    coefficients = np.zeros(count)
    for _ in range(2):
        for k in range(count):
            part = np.dot(basis[k], residual)
            coefficients[k] += part
            residual -= part * basis[k]
    for k in range(count - 1, -1, -1):
        for j in range(k + 1, count):
            coefficients[k] -= triangle[k, j] * coefficients[j]
        if triangle[k, k] > 0.0:
            coefficients[k] /= triangle[k, k]
    return coefficients, residual


def face_point(basis: FloatArray, triangle: FloatArray, levels: FloatArray) -> FloatArray:
    """Point of least norm at which the active normals take the given levels."""
    parts = levels.copy()
    point = np.zeros(basis.shape[1])
    for k in range(len(basis)):
        for j in range(k):
            parts[k] -= triangle[j, k] * parts[j]
        if triangle[k, k] > 0.0:
            parts[k] /= triangle[k, k]
        point += parts[k] * basis[k]
    return point


def most_violated(
    normals: FloatArray, offsets: FloatArray, x: FloatArray, multipliers: FloatArray, limit: float
) -> int:
    """The inactive row that x violates most, by more than ``limit``; -1 if there is none."""
    worst, found = -limit, -1
    for i in range(len(offsets)):
        slack = np.dot(normals[i], x) - offsets[i]
        if slack < worst and multipliers[i] == 0.0:
            worst, found = slack, i
    return found


def first_to_leave(
    multipliers: FloatArray, active: IntArray, count: int, coefficients: FloatArray
) -> tuple[float, int]:
    """Step at which the first active multiplier reaches 0, and its position; -1 if none does."""
    step, position = math.inf, -1
    for k in range(count):
        if coefficients[k] > 0.0:
            ratio = multipliers[active[k]] / coefficients[k]
            if ratio < step:
                step, position = ratio, k
    return step, position


def contradiction(
    rows: int, entering: int, active: IntArray, count: int, coefficients: FloatArray
) -> FloatArray:
    """Multipliers that combine the entering row and the active ones into an impossible one."""
    ray = np.zeros(rows)
    ray[entering] = 1.0
    for k in range(count):
        ray[active[k]] = max(0.0, -coefficients[k])
    return ray


def project(
    point: FloatArray, normals: FloatArray, offsets: FloatArray, scale: float
) -> tuple[int, FloatArray, FloatArray, IntArray, int]:
    """Projection of a point onto {x: normals x >= offsets}.

    Returns:
        (status, x, multipliers [m], active [d + 1], how many of them). After INFEASIBLE the
        multipliers are a combination of rows that contradict one another.
    """
    rows, dim = normals.shape
    x = point.copy()
    multipliers = np.zeros(rows)
    active = np.zeros(dim + 1, np.int64)
    count = 0
    for _ in range(_MAX_STEPS):
        entering = most_violated(normals, offsets, x, multipliers, _VIOLATION * scale)
        if entering < 0:
            return FEASIBLE, x, multipliers, active, count
        gained, inside = 0.0, False
        while not inside:
            basis, triangle = orthogonalise(normals, active, count)
            coefficients, residual = decompose(basis, triangle, normals[entering])
            curvature = np.dot(residual, residual)
            full = math.inf
            if curvature > _DEPENDENT and count < dim:
                full = max(0.0, (offsets[entering] - np.dot(normals[entering], x)) / curvature)
            partial, leaving = first_to_leave(multipliers, active, count, coefficients)
            if math.isinf(full) and leaving < 0:
                ray = contradiction(rows, entering, active, count, coefficients)
                return INFEASIBLE, x, ray, active, count
            step = min(full, partial)
            gained += step
            for k in range(count):
                moved = multipliers[active[k]] - step * coefficients[k]
                multipliers[active[k]] = max(0.0, moved)
            inside = full <= partial
            if not inside:
                if not math.isinf(full):
                    x += step * residual
                multipliers[active[leaving]] = 0.0
                for k in range(leaving, count - 1):
                    active[k] = active[k + 1]
                count -= 1
        multipliers[entering] = gained
        active[count] = entering
        count += 1
        # NOTE: x is rebuilt from the face, not updated: a far point would leave its rounding.
        basis, triangle = orthogonalise(normals, active, count)
        x = face_point(basis, triangle, offsets[active[:count]])
        x += decompose(basis, triangle, point)[1]
    return UNDECIDED, x, multipliers, active, count


def next_radius(
    fixed: FloatArray, free: FloatArray, norm: float, slack: FloatArray, rate: FloatArray
) -> float:
    """Where the line theta(t) = fixed + t free leaves the ball, or twice where it hits a row.

    ``slack + t rate`` are the slacks of the rows along the line; fixed is orthogonal to free.
    """
    slope = np.dot(free, free)
    room = norm * norm - np.dot(fixed, fixed)
    following = math.inf
    if slope > 0.0 and room > 0.0:
        following = math.sqrt(room / slope)
    for i in range(len(slack)):
        if rate[i] < 0.0 and slack[i] > 0.0:
            following = min(following, -2.0 * slack[i] / rate[i])
    return following


def dual_bound(
    objective: FloatArray,
    norm: float,
    normals: FloatArray,
    offsets: FloatArray,
    multipliers: FloatArray,
) -> float:
    """Upper bound by weak duality at multipliers >= 0, with its rounding error added."""
    rows, dim = normals.shape
    rest = objective.copy()
    dot = 0.0
    size = math.sqrt(np.dot(objective, objective)) * norm
    for i in range(rows):
        if multipliers[i] > 0.0:
            rest += multipliers[i] * normals[i]
            dot += multipliers[i] * offsets[i]
            size += multipliers[i] * (abs(offsets[i]) + norm)
    value = norm * math.sqrt(np.dot(rest, rest)) - dot
    return value + 4.0 * (rows + dim + 4) * _EPS * (size + abs(value))


def at_vertex(coefficients: FloatArray, active: IntArray, rows: int) -> tuple[bool, FloatArray]:
    """Multipliers of the linear program at a vertex, and whether they prove it optimal."""
    multipliers = np.zeros(rows)
    optimal = True
    for k in range(len(coefficients)):
        optimal = optimal and coefficients[k] <= 0.0
        multipliers[active[k]] = max(0.0, -coefficients[k])
    return optimal, multipliers


def solve_node(
    objective: FloatArray, norm: float, normals: FloatArray, offsets: FloatArray
) -> tuple[int, FloatArray, float, FloatArray]:
    """Maximise <objective, theta> over the ball of radius ``norm`` and the rows.

    Args:
        objective: [d], not zero.
        norm: B.
        normals: [m, d], unit rows.
        offsets: [m].

    Returns:
        (status, theta [d], upper bound, multipliers [m]); the bound is valid in every status.
    """
    length = math.sqrt(np.dot(objective, objective))
    scale, rows = 1.0 + norm, len(offsets)
    best_multipliers = np.zeros(rows)
    best = dual_bound(objective, norm, normals, offsets, best_multipliers)
    status, best_theta, ray, active, count = project(
        np.zeros_like(objective), normals, offsets, scale
    )
    if status != FEASIBLE or np.dot(best_theta, best_theta) > norm * norm:
        if dual_bound(np.zeros_like(objective), norm, normals, offsets, ray) < 0.0:
            return INFEASIBLE, best_theta, -math.inf, ray
        if status != FEASIBLE:
            return UNDECIDED, best_theta, best, best_multipliers
    below, above, radius = 0.0, math.inf, norm / length
    for _ in range(_MAX_RADIUS_STEPS):
        status, point, multipliers, active, count = project(
            radius * objective, normals, offsets, scale
        )
        if status != FEASIBLE:
            return UNDECIDED, best_theta, best, best_multipliers
        multipliers = multipliers / radius
        bound = dual_bound(objective, norm, normals, offsets, multipliers)
        if bound < best:
            best, best_multipliers = bound, multipliers
        basis, triangle = orthogonalise(normals, active, count)
        coefficients, free = decompose(basis, triangle, objective)
        if count == len(objective) or math.sqrt(np.dot(free, free)) <= _FLAT * length:
            free[:] = 0.0
        reached = math.sqrt(np.dot(point, point))
        if reached <= norm:
            below, best_theta = radius, point
            if not free.any():
                optimal, vertex = at_vertex(coefficients, active, rows)
                bound = dual_bound(objective, norm, normals, offsets, vertex)
                if bound < best:
                    best, best_multipliers = bound, vertex
                if optimal or radius * length > _FAR * scale:
                    return FEASIBLE, best_theta, best, best_multipliers
        else:
            above = radius
        narrow = not math.isinf(above) and above - below <= _EPS * above
        if narrow or abs(reached - norm) <= _NORM_MATCH * norm:
            return FEASIBLE, point * min(1.0, norm / reached), best, best_multipliers
        fixed = face_point(basis, triangle, offsets[active[:count]])
        radius = next_radius(
            fixed, free, norm, np.dot(normals, fixed) - offsets, np.dot(normals, free)
        )
        if not below < radius < above:
            radius = 0.5 * (below + above)
            if math.isinf(above):
                radius = 2.0 * below
    return FEASIBLE, best_theta, best, best_multipliers


@cache
def compiled_kernel() -> Kernel:
    """The same :func:`solve_node`, compiled by Numba (some seconds once; cached on disk)."""
    from numba import njit
    from numba.extending import register_jitable

    helpers = (
        *(orthogonalise, decompose, face_point),
        *(most_violated, first_to_leave, contradiction, project),
        *(dual_bound, next_radius, at_vertex),
    )
    for helper in helpers:
        register_jitable(helper)
    return njit(cache=True)(solve_node)
