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
    """Split a vector at the first directions of an orthonormal basis; length of the rest.

    Args:
        basis: [d, d].
        count: how many directions the rest leaves out.
        vector: [d].
        parts: [d], where the parts along all directions are written.
        rest: [d], where the rest is written.
    """
    parts[:] = basis @ vector
    left = parts[count:]
    rest[:] = left @ basis[count:]
    return math.sqrt(left @ left)


def split_off_loops(
    basis: FloatArray, count: int, vector: FloatArray, parts: FloatArray, rest: FloatArray
) -> float:
    """:func:`split_off` as loops."""
    dim = len(vector)
    fours = dim - dim % 4
    for i in range(0, fours, 4):
        # NOTE: four sums at a time, as each alone waits for its own additions.
        one = two = three = four = 0.0
        for j in range(dim):
            one += basis[i, j] * vector[j]
            two += basis[i + 1, j] * vector[j]
            three += basis[i + 2, j] * vector[j]
            four += basis[i + 3, j] * vector[j]
        parts[i], parts[i + 1], parts[i + 2], parts[i + 3] = one, two, three, four
    for i in range(fours, dim):
        part = 0.0
        for j in range(dim):
            part += basis[i, j] * vector[j]
        parts[i] = part
    for j in range(dim):
        rest[j] = 0.0
    square = 0.0
    for i in range(count, dim):
        part = parts[i]
        square += part * part
        for j in range(dim):
            rest[j] += part * basis[i, j]
    return math.sqrt(square)


def solve_face(face: Face, count: int, target: FloatArray, out: FloatArray) -> None:
    """Solve R x = target for the active rows of a face.

    Args:
        face: the active rows.
        count: k.
        target: [d], its first k entries.
        out: [d], where x is written; not the target itself.
    """
    out[:count] = target[:count] @ np.tril(face.inverse[:count, :count])


def solve_face_loops(face: Face, count: int, target: FloatArray, out: FloatArray) -> None:
    """:func:`solve_face` as loops."""
    for i in range(count):
        out[i] = 0.0
    for j in range(count):
        part = target[j]
        for i in range(j + 1):
            out[i] += part * face.inverse[j, i]


def turn_rest(face: Face, count: int, length: float, parts: FloatArray, rest: FloatArray) -> None:
    """Turn the directions after the first so that the next is that of a rest; its reflection.

    Args:
        face: the active rows; its basis and ``along`` are turned.
        count: k.
        length: of the rest, above 0.
        parts: [d], of the vector that was split off at k.
        rest: [d]; overwritten.
    """
    basis, along = face.basis, face.along
    pivot = -math.copysign(length, parts[count])
    scale = 1.0 / (length * (length + abs(parts[count])))
    factors = scale * parts[count + 1 :]
    mixed = float(parts[count:] @ along[count:])
    along[count + 1 :] -= factors * (mixed - pivot * along[count])
    along[count] = mixed / length
    mirror = rest - pivot * basis[count]
    basis[count] = rest / length
    basis[count + 1 :] -= np.outer(factors, mirror)


def turn_rest_loops(
    face: Face, count: int, length: float, parts: FloatArray, rest: FloatArray
) -> None:
    """:func:`turn_rest` as loops."""
    dim = len(rest)
    basis, along = face.basis, face.along
    pivot = -math.copysign(length, parts[count])
    scale = 1.0 / (length * (length + abs(parts[count])))
    mixed = 0.0
    for i in range(count, dim):
        mixed += parts[i] * along[i]
    turned = mixed - pivot * along[count]
    along[count] = mixed / length
    shrink = 1.0 / length
    for j in range(dim):
        mirror = rest[j] - pivot * basis[count, j]
        basis[count, j] = rest[j] * shrink
        rest[j] = mirror
    for i in range(count + 1, dim):
        factor = scale * parts[i]
        along[i] -= factor * turned
        for j in range(dim):
            basis[i, j] -= factor * rest[j]


def rotate_out(face: Face, count: int, position: int, parts: FloatArray) -> None:
    """Rotate the first k directions until the last is the one that an active row alone needs.

    The row is taken out of the inverse, whose last column is given up. The parts of the vector that
    was split off last are rotated along.

    Args:
        face: the active rows.
        count: k.
        position: of the row.
        parts: [d].
    """
    inverse, last = face.inverse, count - 1
    lower = inverse[position, position]
    for k in range(position, last):
        upper, lower = lower, inverse[k + 1, position]
        length = math.sqrt(upper * upper + lower * lower)
        turn = np.array([[lower, -upper], [upper, lower]]) / length
        inverse[k, k + 1] = 0.0
        inverse[k : k + 2, : k + 2] = turn @ inverse[k : k + 2, : k + 2]
        inverse[k, position : k + 1] = inverse[k, position + 1 : k + 2]
        for array in (face.basis, parts, face.nearest, face.along):
            array[k : k + 2] = turn @ array[k : k + 2]
        lower = length


def rotate_out_loops(face: Face, count: int, position: int, parts: FloatArray) -> None:
    """:func:`rotate_out` as loops."""
    inverse, basis, nearest, along = face.inverse, face.basis, face.nearest, face.along
    dim = basis.shape[1]
    lower = inverse[position, position]
    for k in range(position, count - 1):
        upper, lower = lower, inverse[k + 1, position]
        length = math.sqrt(upper * upper + lower * lower)
        cosine, sine = lower / length, upper / length
        inverse[k, k + 1] = 0.0
        for j in range(k + 2):
            one, two = inverse[k, j], inverse[k + 1, j]
            inverse[k, j] = cosine * one - sine * two
            inverse[k + 1, j] = sine * one + cosine * two
        for j in range(position, k + 1):
            inverse[k, j] = inverse[k, j + 1]
        for j in range(dim):
            one, two = basis[k, j], basis[k + 1, j]
            basis[k, j] = cosine * one - sine * two
            basis[k + 1, j] = sine * one + cosine * two
        one, two = parts[k], parts[k + 1]
        parts[k], parts[k + 1] = cosine * one - sine * two, sine * one + cosine * two
        one, two = nearest[k], nearest[k + 1]
        nearest[k], nearest[k + 1] = cosine * one - sine * two, sine * one + cosine * two
        one, two = along[k], along[k + 1]
        along[k], along[k + 1] = cosine * one - sine * two, sine * one + cosine * two
        lower = length


def face_point(face: Face, count: int, t: float, slope: float, out: FloatArray) -> None:
    """The projection of t c onto a face.

    Args:
        face: the active rows.
        count: k.
        t: where on the ray.
        slope: length of the part of c along the face, 0 if it is taken for rounding.
        out: [d], where the point is written.
    """
    out[:] = face.nearest[:count] @ face.basis[:count]
    if slope > 0.0:
        out += t * face.along[count:] @ face.basis[count:]


def face_point_loops(face: Face, count: int, t: float, slope: float, out: FloatArray) -> None:
    """:func:`face_point` as loops."""
    dim = len(out)
    for j in range(dim):
        out[j] = 0.0
    for i in range(count):
        part = face.nearest[i]
        for j in range(dim):
            out[j] += part * face.basis[i, j]
    if slope > 0.0:
        for i in range(count, dim):
            part = t * face.along[i]
            for j in range(dim):
                out[j] += part * face.basis[i, j]


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
    fours = dim - dim % 4
    for j in range(cuts):
        excess[j] = 0.0
    for i in range(0, fours, 4):
        one, two, three, four = theta[i], theta[i + 1], theta[i + 2], theta[i + 3]
        for j in range(cuts):
            pair = one * columns[i, j] + two * columns[i + 1, j]
            excess[j] += pair + (three * columns[i + 2, j] + four * columns[i + 3, j])
    for i in range(fours, dim):
        part = theta[i]
        for j in range(cuts):
            excess[j] += part * columns[i, j]
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


NEAR = 0.7
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
    problem: Problem,
    weight: float,
    count: int,
    rows: IntArray,
    multipliers: FloatArray,
    rest: FloatArray,
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
        rest: [d], where the part that the ball has to bound is written.

    Returns:
        (bound, length of that part).
    """
    rest[:] = weight * problem.objective
    beta, size = 0.0, weight
    for k in range(count):
        y = multipliers[k]
        if y != 0.0:
            limit = problem.high[rows[k]] if y > 0.0 else problem.low[rows[k]]
            rest -= y * problem.normals[rows[k]]
            beta += y * limit
            size += abs(y) * (1.0 + abs(limit))
    length = math.sqrt(rest @ rest)
    slack = 2.0 * EPS * ((count + 6) * size + (len(rest) + 6) * (length + abs(beta)))
    return length + beta + slack, length


def dual_bound_loops(
    problem: Problem,
    weight: float,
    count: int,
    rows: IntArray,
    multipliers: FloatArray,
    rest: FloatArray,
) -> tuple[float, float]:
    """:func:`dual_bound` as loops."""
    dim = len(problem.objective)
    for j in range(dim):
        rest[j] = weight * problem.objective[j]
    beta, size = 0.0, weight
    for k in range(count):
        y = multipliers[k]
        if y != 0.0:
            row = rows[k]
            limit = problem.high[row] if y > 0.0 else problem.low[row]
            for j in range(dim):
                rest[j] -= y * problem.normals[row, j]
            beta += y * limit
            size += abs(y) * (1.0 + abs(limit))
    square = 0.0
    for j in range(dim):
        square += rest[j] * rest[j]
    length = math.sqrt(square)
    slack = 2.0 * EPS * ((count + 6) * size + (dim + 6) * (length + abs(beta)))
    return length + beta + slack, length


LOOPS: dict[Callable[..., object], Callable[..., object]] = {
    copy_vector: copy_vector_loops,
    split_off: split_off_loops,
    solve_face: solve_face_loops,
    turn_rest: turn_rest_loops,
    rotate_out: rotate_out_loops,
    face_point: face_point_loops,
    scan_cuts: scan_cuts_loops,
    most_broken: most_broken_loops,
    slab_excess: slab_excess_loops,
    dual_bound: dual_bound_loops,
}
"""What compiled code calls in place of each NumPy function."""
