"""The inner loops of a node solve, each written twice: in NumPy, and as loops for Numba.

The NumPy functions are called as they are where nothing has been compiled, and they are the
reference that the loops are tested against. In compiled code each is replaced by its loops
(:data:`LOOPS`).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from tensorplan.oracle.arrays import CUTS, STATES, Face, Problem
from tensorplan.records import BoolArray, FloatArray, IntArray

EPS = 2.220446049250313e-16


def copy_vector(source: FloatArray, target: FloatArray) -> None:
    """Write a vector over another."""
    target[:] = source


def copy_vector_loops(source: FloatArray, target: FloatArray) -> None:
    """:func:`copy_vector` as loops."""
    for j in range(len(target)):
        target[j] = source[j]


def split_off(
    basis: FloatArray, count: int, vector: FloatArray, parts: FloatArray, rest: FloatArray
) -> float:
    """Split a vector into its parts along an orthonormal basis and the rest; length of the rest.

    NOTE: orthogonalised twice, so that near-dependent vectors stay accurate.

    Args:
        basis: [d, d], its first ``count`` rows.
        count: k.
        vector: [d].
        parts: [d], where the k parts are written.
        rest: [d], where the rest is written.
    """
    used = basis[:count]
    parts[:count] = used @ vector
    rest[:] = vector - parts[:count] @ used
    again = used @ rest
    parts[:count] += again
    rest -= again @ used
    return math.sqrt(rest @ rest)


def split_off_loops(
    basis: FloatArray, count: int, vector: FloatArray, parts: FloatArray, rest: FloatArray
) -> float:
    """:func:`split_off` as loops; the second pass is left out where the first cancelled little."""
    dim = len(vector)
    for j in range(dim):
        rest[j] = vector[j]
    for i in range(count):
        part = 0.0
        for j in range(dim):
            part += basis[i, j] * vector[j]
        parts[i] = part
    for i in range(count):
        part = parts[i]
        for j in range(dim):
            rest[j] -= part * basis[i, j]
    square = 0.0
    for j in range(dim):
        square += rest[j] * rest[j]
    if square > 0.25:
        return math.sqrt(square)
    for i in range(count):
        part = 0.0
        for j in range(dim):
            part += basis[i, j] * rest[j]
        parts[i] += part
        for j in range(dim):
            rest[j] -= part * basis[i, j]
    square = 0.0
    for j in range(dim):
        square += rest[j] * rest[j]
    return math.sqrt(square)


def back_substitute(face: Face, count: int, target: FloatArray, out: FloatArray) -> None:
    """Solve R x = target for the leading k by k block of the triangle of a face.

    Args:
        face: the active rows.
        count: k.
        target: [d].
        out: [d], where x is written.
    """
    triangle = face.triangle
    out[:count] = target[:count]
    for i in range(count - 1, -1, -1):
        out[i] = (out[i] - triangle[i, i + 1 : count] @ out[i + 1 : count]) * face.pivots[i]


def back_substitute_loops(face: Face, count: int, target: FloatArray, out: FloatArray) -> None:
    """:func:`back_substitute` as loops."""
    for i in range(count - 1, -1, -1):
        value = target[i]
        for j in range(i + 1, count):
            value -= face.triangle[i, j] * out[j]
        out[i] = value * face.pivots[i]


def face_point(face: Face, count: int, objective: FloatArray, t: float, out: FloatArray) -> float:
    """The projection of t c onto a face, and the length of the part of c along the face.

    Args:
        face: the active rows.
        count: k.
        objective: c [d].
        t: where on the ray.
        out: [d], where the point is written.
    """
    used, along = face.basis[:count], face.along[:count]
    free = objective - along @ used
    free -= (used @ free) @ used
    slope = math.sqrt(free @ free) if count < len(objective) else 0.0
    out[:] = face.nearest[:count] @ used
    if slope > FLAT_SLOPE:
        out += t * free
        return slope
    return 0.0


def face_point_loops(
    face: Face, count: int, objective: FloatArray, t: float, out: FloatArray
) -> float:
    """:func:`face_point` as loops."""
    dim = len(objective)
    basis = face.basis
    slope = 0.0
    if count < dim:
        for j in range(dim):
            out[j] = objective[j]
        for i in range(count):
            part = face.along[i]
            for j in range(dim):
                out[j] -= part * basis[i, j]
        for i in range(count):
            part = 0.0
            for j in range(dim):
                part += basis[i, j] * out[j]
            for j in range(dim):
                out[j] -= part * basis[i, j]
        square = 0.0
        for j in range(dim):
            square += out[j] * out[j]
        slope = math.sqrt(square)
    if slope > FLAT_SLOPE:
        for j in range(dim):
            out[j] *= t
    else:
        slope = 0.0
        for j in range(dim):
            out[j] = 0.0
    for i in range(count):
        for j in range(dim):
            out[j] += face.nearest[i] * basis[i, j]
    return slope


FLAT_SLOPE = 1e-12
"""Part of the objective along a face that is rounding."""


def scan_cuts(
    problem: Problem, theta: FloatArray, active: BoolArray, excess: FloatArray, near: IntArray
) -> tuple[int, float, int]:
    """The inactive cut that theta breaks most, and those that it breaks nearly as much.

    Args:
        problem: the problem.
        theta: [d].
        active: [R], which rows are active.
        excess: [M], scratch.
        near: [M], where the rows of the cuts that are broken most are written (``NEAR``).

    Returns:
        (row, by how much it is broken, how many others are near).
    """
    cuts = problem.sizes[CUTS]
    if cuts == 0:
        return -1, -math.inf, 0
    values = theta @ problem.scan_columns[:, :cuts]
    found = excess[:cuts]
    np.maximum(values - problem.scan_high[:cuts], problem.scan_low[:cuts] - values, out=found)
    rows = problem.scan_rows[:cuts]
    inactive = np.where(active[rows], -math.inf, found)
    worst = int(np.argmax(inactive))
    most = float(inactive[worst])
    close = rows[inactive > NEAR * most] if most > 0 else rows[:0]
    near[: len(close)] = close
    return int(rows[worst]), most, len(close)


def scan_cuts_loops(
    problem: Problem, theta: FloatArray, active: BoolArray, excess: FloatArray, near: IntArray
) -> tuple[int, float, int]:
    """:func:`scan_cuts` as loops."""
    cuts = problem.sizes[CUTS]
    if cuts == 0:
        return -1, -math.inf, 0
    columns = problem.scan_columns
    dim = len(theta)
    for j in range(cuts):
        excess[j] = theta[0] * columns[0, j]
    for i in range(1, dim - 1, 2):
        part, other = theta[i], theta[i + 1]
        for j in range(cuts):
            excess[j] += part * columns[i, j] + other * columns[i + 1, j]
    if dim % 2 == 0:
        part = theta[dim - 1]
        for j in range(cuts):
            excess[j] += part * columns[dim - 1, j]
    for j in range(cuts):
        excess[j] = max(excess[j] - problem.scan_high[j], problem.scan_low[j] - excess[j])
    worst, most = 0, -math.inf
    for j in range(cuts):
        if excess[j] > most and not active[problem.scan_rows[j]]:
            worst, most = j, excess[j]
    close = 0
    if most > 0.0:
        for j in range(cuts):
            if excess[j] > NEAR * most:
                near[close] = problem.scan_rows[j]
                close += 1
    return int(problem.scan_rows[worst]), float(most), close


def most_broken(
    problem: Problem, rows: IntArray, size: int, theta: FloatArray, active: BoolArray
) -> tuple[int, float]:
    """Of some rows, the inactive one that theta breaks most, and by how much; -1 if none.

    Args:
        problem: the problem.
        rows: [>= size].
        size: how many.
        theta: [d].
        active: [R], which rows are active.
    """
    listed = rows[:size]
    listed = listed[~active[listed]]
    if not len(listed):
        return -1, -math.inf
    values = problem.normals[listed] @ theta
    found = np.maximum(values - problem.high[listed], problem.low[listed] - values)
    worst = int(np.argmax(found))
    return int(listed[worst]), float(found[worst])


def most_broken_loops(
    problem: Problem, rows: IntArray, size: int, theta: FloatArray, active: BoolArray
) -> tuple[int, float]:
    """:func:`most_broken` as loops."""
    worst, most = -1, -math.inf
    for i in range(size):
        row = rows[i]
        if active[row]:
            continue
        value = 0.0
        for j in range(len(theta)):
            value += problem.normals[row, j] * theta[j]
        excess = max(value - problem.high[row], problem.low[row] - value)
        if excess > most:
            worst, most = int(row), excess
    return worst, float(most)


NEAR = 0.3
"""Cuts broken by this fraction of the most broken one are looked at again before the next scan."""


def slab_excess(problem: Problem, theta: FloatArray, excess: FloatArray) -> None:
    """How far theta is outside each slab in force; inf where an action has none.

    Args:
        problem: the problem.
        theta: [d].
        excess: [K A], where it is written.
    """
    width = problem.current.shape[1]
    used = problem.sizes[STATES] * width
    rows = problem.current.reshape(-1)[:used]
    values = problem.normals[rows] @ theta
    found = excess[:used]
    np.maximum(values - problem.high[rows], problem.low[rows] - values, out=found)
    found[rows < 0] = math.inf


def slab_excess_loops(problem: Problem, theta: FloatArray, excess: FloatArray) -> None:
    """:func:`slab_excess` as loops."""
    width = problem.current.shape[1]
    for i in range(problem.sizes[STATES]):
        for a in range(width):
            row = problem.current[i, a]
            if row < 0:
                excess[i * width + a] = math.inf
                continue
            value = 0.0
            for j in range(len(theta)):
                value += problem.normals[row, j] * theta[j]
            excess[i * width + a] = max(value - problem.high[row], problem.low[row] - value)


def dual_bound(
    problem: Problem, weight: float, count: int, rows: IntArray, multipliers: FloatArray
) -> tuple[float, float]:
    """Upper bound on <weight c, theta> by weak duality, with the rounding error added.

    For any multipliers y, <w c, theta> <= |w c - sum y g| + sum y b on the ball, with b the upper
    limit of a row where y > 0 and its lower limit where y < 0. Rounding moves a sum of k products
    by at most k eps times the sizes added up, a unit normal and a limit by 3 eps, and a length by
    (d + 2) eps of it; twice as much is added.

    Args:
        problem: the problem.
        weight: w, 1 for a bound and 0 for a proof that nothing is left.
        count: k.
        rows: [>= k].
        multipliers: [>= k].

    Returns:
        (bound, length of the part that the ball has to bound).
    """
    rest = weight * problem.objective
    beta, size = 0.0, weight
    for k in range(count):
        y = multipliers[k]
        if y != 0.0:
            limit = problem.high[rows[k]] if y > 0.0 else problem.low[rows[k]]
            rest = rest - y * problem.normals[rows[k]]
            beta += y * limit
            size += abs(y) * (1.0 + abs(limit))
    length = math.sqrt(rest @ rest)
    slack = 2.0 * EPS * ((count + 6) * size + (len(rest) + 6) * (length + abs(beta)))
    return length + beta + slack, length


def dual_bound_loops(
    problem: Problem, weight: float, count: int, rows: IntArray, multipliers: FloatArray
) -> tuple[float, float]:
    """:func:`dual_bound` as loops."""
    dim = len(problem.objective)
    beta, size = 0.0, weight
    for k in range(count):
        y = multipliers[k]
        if y != 0.0:
            limit = problem.high[rows[k]] if y > 0.0 else problem.low[rows[k]]
            beta += y * limit
            size += abs(y) * (1.0 + abs(limit))
    square = 0.0
    for j in range(dim):
        rest = weight * problem.objective[j]
        for k in range(count):
            rest -= multipliers[k] * problem.normals[rows[k], j]
        square += rest * rest
    length = math.sqrt(square)
    slack = 2.0 * EPS * ((count + 6) * size + (dim + 6) * (length + abs(beta)))
    return length + beta + slack, length


LOOPS: dict[Callable[..., object], Callable[..., object]] = {
    copy_vector: copy_vector_loops,
    split_off: split_off_loops,
    back_substitute: back_substitute_loops,
    face_point: face_point_loops,
    scan_cuts: scan_cuts_loops,
    most_broken: most_broken_loops,
    slab_excess: slab_excess_loops,
    dual_bound: dual_bound_loops,
}
"""What compiled code calls in place of each NumPy function."""
