"""The convex subproblem of a search node: a linear objective over a ball cut by slabs.

Maximise <c, theta> over the unit ball and the rows of a node: all cuts, and the slabs that its path
has chosen. For t > 0 let theta(t) be the projection of t c onto the polyhedron; its norm grows with
t, and where it reaches 1 (or where t is past the last breakpoint) theta(t) is optimal. The
projection is a dual active set method (Goldfarb and Idnani 1983, with the identity as Hessian), and
t follows from the face in closed form, inside a bracket. A node starts from the active rows and the
t of its parent.

Where the data are exact and there is no cut, every row of the path is an equation, and the optimum
has a closed form (theory B3): :func:`solve_flat`.

Whatever the arithmetic does, the bound is safe: it is weak duality at the multipliers that were
found (:func:`~tensorplan.oracle.primitives.dual_bound`), and a node is only called empty if a
combination of its rows says so.

Every function is plain Python over arrays; compiled code uses the same.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tensorplan.oracle.arrays import ACTIONS, Face, Int32Array, Problem
from tensorplan.oracle.primitives import (
    dual_bound,
    face_point,
    most_broken,
    rotate_out,
    scan_cuts,
    solve_face,
    split_off,
    turn_rest,
)
from tensorplan.records import BoolArray, FloatArray, IntArray

SOLVED, EMPTY, UNDECIDED = 0, 1, 2

VIOLATION = 1e-11
"""How far a row may be broken, in units of the ball."""

DEPENDENT = 1e-8
"""Length below which the rest of a row outside the active ones is taken for rounding."""

FLAT_SLOPE = 1e-12
"""Part of the objective along a face that is rounding."""

MATCH = 1e-12
"""Relative change of t below which the norm is matched."""

CLOSE, HELD, STEPS = range(3)
"""Positions in ``Solve.counts``: cuts that are near, active rows, rows that may still enter."""

MANY = 400
"""Rows that may enter before a node is given up."""

_FALLING = 1e-14
"""Rate above which a multiplier is said to fall."""

_MAX_RADII = 80


class Solve(NamedTuple):
    """Scratch space of node solves, and their last answer.

    Attributes:
        theta: [d], the optimum, or the best point where the solve was given up.
        rows: [d + 1], rows with a multiplier.
        multipliers: [d + 1], of the best bound, or of the proof that the node is empty.
        parts: [d], scratch.
        rest: [d], scratch.
        ratio: [d], scratch.
        limit: [d], scratch.
        excess: [M], scratch.
        near: [M], cuts that were broken most at the last scan.
        active: [R], which rows are active, while a node is being solved.
        counts: [3], see the positions above.
        best: [2], the best bound and its t.
    """

    theta: FloatArray
    rows: IntArray
    multipliers: FloatArray
    parts: FloatArray
    rest: FloatArray
    ratio: FloatArray
    limit: FloatArray
    excess: FloatArray
    near: IntArray
    active: BoolArray
    counts: IntArray
    best: FloatArray


def append_row(
    problem: Problem, face: Face, count: int, row: int, side: float, level: float, work: Solve
) -> int:
    """Make a row active at a level; the new count, or the old one if it depends on the others."""
    length = split_off(face.basis, count, problem.normals[row], work.parts, work.rest)
    if count == len(work.theta) or length <= DEPENDENT:
        return count
    solve_face(face, count, work.parts, work.ratio)
    return adopt_row(face, count, row, side, level, length, work)


def adopt_row(
    face: Face,
    count: int,
    row: int,
    side: float,
    level: float,
    length: float,
    work: Solve,
) -> int:
    """Make the row active that has been split off into ``work``, and solved for; the new count."""
    for i in range(count):
        face.inverse[count, i] = -work.ratio[i] / length
        level -= work.parts[i] * face.nearest[i]
    face.inverse[count, count] = 1.0 / length
    face.nearest[count] = level / length
    turn_rest(face, count, length, work.parts, work.rest)
    face.rows[count] = row
    face.sides[count] = side
    work.active[row] = True
    work.counts[HELD] = count + 1
    return count + 1


def hold(face: Face, count: int, work: Solve) -> None:
    """Note which rows are active."""
    for k in range(count):
        work.active[face.rows[k]] = True
    work.counts[HELD] = count


def let_go(face: Face, work: Solve) -> None:
    """Forget which rows are active."""
    for k in range(work.counts[HELD]):
        work.active[face.rows[k]] = False
    work.counts[HELD] = 0


def drop_row(face: Face, count: int, position: int, work: Solve) -> int:
    """Make a row inactive; the new count.

    The direction that is given up is left behind the rows in use, and the parts of the vector that
    was split off last are rotated with it.
    """
    last = count - 1
    work.active[face.rows[position]] = False
    work.counts[HELD] = last
    for k in range(position, last):
        face.rows[k] = face.rows[k + 1]
        face.sides[k] = face.sides[k + 1]
        face.weights[k] = face.weights[k + 1]
    rotate_out(face, count, position, work.parts)
    return last


def weigh(face: Face, count: int, t: float, work: Solve) -> int:
    """Multipliers of the projection of t c onto the active rows; position of the least one."""
    for k in range(count):
        work.limit[k] = t * face.along[k] - face.nearest[k]
    solve_face(face, count, work.limit, work.ratio)
    least = 0
    for k in range(count):
        face.weights[k] = face.sides[k] * work.ratio[k]
        if face.weights[k] < face.weights[least]:
            least = k
    return least


def keep_positive(face: Face, count: int, t: float, work: Solve) -> int:
    """Drop active rows until all multipliers of the projection of t c are positive."""
    while count > 0:
        least = weigh(face, count, t, work)
        if face.weights[least] >= 0.0:
            break
        count = drop_row(face, count, least, work)
    return count


def worst_row(
    problem: Problem, path: IntArray, depth: int, full: bool, work: Solve
) -> tuple[int, float]:
    """The inactive row of the node that theta breaks most, and by how much.

    Args:
        problem: the problem.
        path: [>= depth], the slabs.
        depth: how many.
        full: whether to scan all cuts, or only those that were broken most at the last scan.
        work: scratch, with theta.
    """
    if full:
        worst, most, close = scan_cuts(problem, work.theta, work.active, work.excess, work.near)
        work.counts[CLOSE] = close
    else:
        close = work.counts[CLOSE]
        worst, most = most_broken(problem, work.near, close, work.theta, work.active)
    slab, excess = most_broken(problem, path, depth, work.theta, work.active)
    if excess > most:
        return slab, excess
    return worst, most


def excess_of(problem: Problem, row: int, theta: FloatArray) -> tuple[float, float]:
    """(side that theta breaks or comes closest to, by how much it breaks it)."""
    value = 0.0
    for j in range(len(theta)):
        value += problem.normals[row, j] * theta[j]
    above, below = value - problem.high[row], problem.low[row] - value
    return (1.0, above) if above >= below else (-1.0, below)


def move(point: FloatArray, step: float, direction: FloatArray) -> None:
    """Add a multiple of a direction to a point."""
    for j in range(len(point)):
        point[j] += step * direction[j]


def contradict(face: Face, count: int, row: int, side: float, work: Solve) -> None:
    """Write the ray that combines a row and the active ones into an impossible inequality."""
    for k in range(count):
        coefficient = side * face.sides[k] * work.ratio[k]
        work.rows[k] = face.rows[k]
        work.multipliers[k] = face.sides[k] * max(0.0, -coefficient)
    work.rows[count] = row
    work.multipliers[count] = side


def free_slope(face: Face, count: int) -> float:
    """Length of the part of c along a face; 0 where it is rounding."""
    square = 0.0
    for i in range(count, len(face.along)):
        square += face.along[i] * face.along[i]
    slope = math.sqrt(square)
    return slope if slope > FLAT_SLOPE else 0.0


def project(
    problem: Problem, path: IntArray, depth: int, face: Face, count: int, t: float, work: Solve
) -> tuple[int, int]:
    """Project t c onto the polyhedron, from active rows with positive multipliers.

    The last slab of the path enters first, as it is what a child has and its parent has not.

    Returns:
        (status, count). After EMPTY the last ``count + 1`` rows and multipliers of ``work`` are a
        combination of rows that contradict one another.
    """
    face_point(face, count, t, free_slope(face, count), work.theta)
    scanned, moved = False, False
    row, excess = -1, -math.inf
    if depth > 0:
        row, excess = most_broken(problem, path[depth - 1 :], 1, work.theta, work.active)
    while work.counts[STEPS] > 0:
        if excess <= VIOLATION and moved:
            # NOTE: theta was updated step by step; what it has lost to rounding comes back.
            face_point(face, count, t, free_slope(face, count), work.theta)
            moved = scanned = False
        if excess <= VIOLATION and not scanned:
            row, excess = worst_row(problem, path, depth, True, work)
            scanned = True
            if excess <= VIOLATION:
                return SOLVED, count
        work.counts[STEPS] -= 1
        status, count = enter_row(problem, face, count, row, work)
        if status == EMPTY:
            return EMPTY, count
        moved = True
        if work.counts[STEPS] > 0:
            row, excess = worst_row(problem, path, depth, not scanned, work)
            scanned = True
    return UNDECIDED, count


def enter_row(problem: Problem, face: Face, count: int, row: int, work: Solve) -> tuple[int, int]:
    """Make a broken row active, dropping those whose multipliers reach 0 on the way.

    Returns:
        (status, count); after EMPTY as in :func:`project`.
    """
    dim = len(work.theta)
    side, excess = excess_of(problem, row, work.theta)
    level = problem.high[row] if side > 0.0 else problem.low[row]
    gained = 0.0
    length = split_off(face.basis, count, problem.normals[row], work.parts, work.rest)
    while True:
        solve_face(face, count, work.parts, work.ratio)
        full = math.inf
        if count < dim and length > DEPENDENT:
            full = max(0.0, excess) / (length * length)
        partial, leaving = first_to_leave(face, count, side, work)
        if leaving < 0 and math.isinf(full):
            contradict(face, count, row, side, work)
            return EMPTY, count
        step = min(full, partial)
        gained += step
        for k in range(count):
            left = face.weights[k] - step * side * face.sides[k] * work.ratio[k]
            face.weights[k] = max(0.0, left)
        if not math.isinf(full):
            move(work.theta, -step * side, work.rest)
            excess -= step * length * length
        if full <= partial:
            break
        count = drop_row(face, count, leaving, work)
        # The direction that was given up comes back to the rest.
        freed = work.parts[count]
        move(work.rest, freed, face.basis[count])
        length = math.sqrt(length * length + freed * freed)
    count = adopt_row(face, count, row, side, level, length, work)
    face.weights[count - 1] = gained
    return SOLVED, count


def first_to_leave(face: Face, count: int, side: float, work: Solve) -> tuple[float, int]:
    """Step at which the first active multiplier reaches 0, and its position; -1 if none does."""
    partial, leaving = math.inf, -1
    for k in range(count):
        coefficient = side * face.sides[k] * work.ratio[k]
        if coefficient > _FALLING and face.weights[k] < partial * coefficient:
            partial, leaving = face.weights[k] / coefficient, k
    return partial, leaving


def record_bound(
    problem: Problem, face: Face, count: int, scale: float, t: float, found: int, work: Solve
) -> int:
    """Keep the multipliers weights / scale if their bound is the best so far; how many are kept."""
    for k in range(count):
        work.ratio[k] = face.sides[k] * max(0.0, face.weights[k]) / scale
    bound, _ = dual_bound(problem, 1.0, count, face.rows, work.ratio, work.rest)
    if bound >= work.best[0]:
        return found
    work.best[0], work.best[1] = bound, t
    for k in range(count):
        work.rows[k] = face.rows[k]
        work.multipliers[k] = work.ratio[k]
    return count


def prove_empty(problem: Problem, count: int, work: Solve) -> bool:
    """Whether the ray in ``work`` proves that the node holds no parameter."""
    bound, _ = dual_bound(problem, 0.0, count, work.rows, work.multipliers, work.rest)
    return bound < 0.0


def norm_of(vector: FloatArray) -> float:
    """Euclidean length."""
    square = 0.0
    for j in range(len(vector)):
        square += vector[j] * vector[j]
    return math.sqrt(square)


def shorten(vector: FloatArray, factor: float) -> None:
    """Divide a vector by a factor."""
    for j in range(len(vector)):
        vector[j] /= factor


def misses_ball(
    problem: Problem, path: IntArray, depth: int, face: Face, work: Solve
) -> tuple[int, int]:
    """Project the origin: (EMPTY, size of the ray) if the polyhedron does not meet the ball."""
    let_go(face, work)
    status, count = project(problem, path, depth, face, 0, 0.0, work)
    if status != SOLVED:
        return status, count + 1
    for k in range(count):
        work.rows[k] = face.rows[k]
        work.multipliers[k] = face.sides[k] * max(0.0, face.weights[k])
    return (EMPTY if norm_of(work.theta) > 1.0 else SOLVED), count


def past_breakpoint(face: Face, count: int, t: float, work: Solve) -> float:
    """At a vertex: inf if it is optimal, else a t at which a multiplier has become negative.

    The multipliers of the linear program are left in ``face.weights``.
    """
    for k in range(count):
        work.limit[k] = face.along[k]
    solve_face(face, count, work.limit, work.ratio)
    solve_face(face, count, face.nearest, work.limit)
    following = math.inf
    for k in range(count):
        face.weights[k] = face.sides[k] * work.ratio[k]
        if face.weights[k] < -1e-12:
            crossing = work.limit[k] / work.ratio[k]
            following = min(following, max(crossing, t))
    return following


def solve_slabs(
    problem: Problem,
    path: IntArray,
    depth: int,
    face: Face,
    count: int,
    t: float,
    steps: int,
    work: Solve,
) -> tuple[int, int]:
    """Maximise over the ball, the cuts and the slabs of a path.

    Args:
        problem: the problem.
        path: [>= depth], the slabs.
        depth: how many.
        face: active rows to start from; their multipliers are computed here.
        count: how many.
        t: the radius to start from.
        steps: rows that may enter before the node is given up.
        work: scratch, and the answer: theta, rows, multipliers, best bound and its t.

    Returns:
        (status, rows with a multiplier); the bound is valid in every status.
    """
    if count == 0:
        clear_face(problem, face)
    hold(face, count, work)
    work.counts[STEPS] = steps
    status, found = search_radius(problem, path, depth, face, count, t, work)
    let_go(face, work)
    return status, found


def search_radius(
    problem: Problem, path: IntArray, depth: int, face: Face, count: int, t: float, work: Solve
) -> tuple[int, int]:
    """:func:`solve_slabs`, with the active rows noted."""
    work.best[0], work.best[1] = 1.0, t
    found = 0
    below, above, at_origin = 0.0, math.inf, False
    count = keep_positive(face, count, t, work)
    for _ in range(_MAX_RADII):
        status, count = project(problem, path, depth, face, count, t, work)
        if status == EMPTY:
            if prove_empty(problem, count + 1, work):
                return EMPTY, count + 1
            return UNDECIDED, abandon(work)
        if status == UNDECIDED:
            return UNDECIDED, record_bound(problem, face, count, t, t, found, work)
        nearest = 0.0
        for k in range(count):
            nearest += face.nearest[k] * face.nearest[k]
        slope = free_slope(face, count)
        reached = math.sqrt(nearest + (t * slope) ** 2)
        following = math.nan
        if slope > 0.0 and nearest < 1.0:
            following = math.sqrt(1.0 - nearest) / slope
            if abs(following - t) <= MATCH * t:
                return SOLVED, record_bound(problem, face, count, t, t, found, work)
        if not below < following < above:
            found = record_bound(problem, face, count, t, t, found, work)
        if reached <= 1.0:
            below = t
            if slope == 0.0:
                following = past_breakpoint(face, count, t, work)
                if math.isinf(following):
                    found = record_bound(problem, face, count, 1.0, t, found, work)
                    return SOLVED, found
                following *= 1.0 + 1e-6
        else:
            above = t
            if nearest >= 1.0 and not at_origin:
                at_origin = True
                status, size = misses_ball(problem, path, depth, face, work)
                if status == EMPTY and prove_empty(problem, size, work):
                    return EMPTY, size
                let_go(face, work)
                count, found = 0, 0
                work.best[0], work.best[1] = 1.0, t
        if not math.isinf(above) and above - below <= 1e-15 * above:
            break
        if not below < following < above:
            following = 0.5 * (below + above) if not math.isinf(above) else 2.0 * t
        t = following
        count = keep_positive(face, count, t, work)
    length = norm_of(work.theta)
    if length > 1.0:
        shorten(work.theta, length)
    return (SOLVED if length <= 1.0 + 1e-9 else UNDECIDED), found


def abandon(work: Solve) -> int:
    """Fall back on the bound that the ball alone gives; it has no multipliers."""
    work.best[0] = 1.0
    return 0


def solve_flat(
    problem: Problem, face: Face, count: int, row: int, work: Solve
) -> tuple[int, int, int]:
    """Maximise over the ball and equations: the active rows and one more (closed form, B3).

    Args:
        problem: the problem, with slabs that are as thin as rounding.
        face: active rows, each at the middle of its slab.
        count: how many.
        row: the row to add.
        work: scratch, and the answer.

    Returns:
        (status, rows with a multiplier, new count).
    """
    work.best[0], work.best[1] = 1.0, 1.0
    level = 0.5 * float(problem.high[row] + problem.low[row])
    held = append_row(problem, face, count, row, 1.0, level, work)
    let_go(face, work)
    if held == count and contradict_flat(problem, face, count, row, level, work):
        return EMPTY, count + 1, count
    count = held
    solve_face(face, count, face.nearest, work.limit)
    nearest, thickest = 0.0, VIOLATION
    for k in range(count):
        nearest += face.nearest[k] * face.nearest[k]
        thickest = max(thickest, problem.high[face.rows[k]] - problem.low[face.rows[k]])
        work.rows[k] = face.rows[k]
        work.multipliers[k] = -work.limit[k]
    if nearest > 1.0 and prove_empty(problem, count, work):
        return EMPTY, count, count
    slope = free_slope(face, count)
    reach = math.sqrt(max(0.0, 1.0 - nearest))
    # NOTE: at the optimum c - sum y g = (slope / reach) theta; a flat that all but touches the
    # ball has the reach that its thickness gives it.
    weight = slope / max(reach, math.sqrt(thickest))
    solve_face(face, count, face.along, work.ratio)
    for k in range(count):
        work.multipliers[k] = work.ratio[k] - weight * work.limit[k]
    bound, _ = dual_bound(problem, 1.0, count, work.rows, work.multipliers, work.rest)
    face_point(face, count, reach / slope if slope > 0.0 else 0.0, slope, work.theta)
    if nearest > 1.0:
        shorten(work.theta, math.sqrt(nearest))
    work.best[1] = 1.0 / weight if weight > 0.0 else 1.0
    if bound >= 1.0:
        return SOLVED, abandon(work), count
    work.best[0] = bound
    return SOLVED, count, count


def contradict_flat(
    problem: Problem, face: Face, count: int, row: int, level: float, work: Solve
) -> bool:
    """Whether an equation contradicts the ones that its normal depends on; leaves the proof."""
    solve_face(face, count, work.parts, work.ratio)
    gap = level
    for k in range(count):
        gap -= work.parts[k] * face.nearest[k]
    sign = -1.0 if gap > 0.0 else 1.0
    for k in range(count):
        work.rows[k] = face.rows[k]
        work.multipliers[k] = -sign * work.ratio[k]
    work.rows[count] = row
    work.multipliers[count] = sign
    return prove_empty(problem, count + 1, work)


def in_force(problem: Problem, row: int) -> int:
    """The row that stands today where this one stood; -1 if none does."""
    owner = problem.owner[row]
    if owner >= 0:
        return int(problem.current[owner // ACTIONS, owner % ACTIONS])
    return row if problem.position[row] >= 0 else -1


def load_face(
    problem: Problem, rows: Int32Array, multipliers: FloatArray, size: int, face: Face, work: Solve
) -> int:
    """Make the given rows active, on the sides that their multipliers say; how many are."""
    clear_face(problem, face)
    count = 0
    for k in range(size):
        row = in_force(problem, rows[k])
        if multipliers[k] != 0.0 and row >= 0:
            side = 1.0 if multipliers[k] > 0.0 else -1.0
            level = problem.high[row] if side > 0.0 else problem.low[row]
            count = append_row(problem, face, count, row, side, level, work)
    let_go(face, work)
    return count


def load_flat(problem: Problem, path: IntArray, depth: int, face: Face, work: Solve) -> int:
    """Make the rows of a path active, each at the middle of its slab; how many are."""
    clear_face(problem, face)
    count = 0
    for k in range(depth):
        row = path[k]
        level = 0.5 * float(problem.high[row] + problem.low[row])
        count = append_row(problem, face, count, row, 1.0, level, work)
    let_go(face, work)
    return count


def clear_face(problem: Problem, face: Face) -> None:
    """Make no row active."""
    dim = len(face.along)
    for i in range(dim):
        face.along[i] = problem.objective[i]
        for j in range(dim):
            face.basis[i, j] = 0.0
        face.basis[i, i] = 1.0


def copy_face(source: Face, count: int, target: Face) -> None:
    """Copy the active rows, without their multipliers."""
    dim = len(source.along)
    for i in range(dim):
        target.along[i] = source.along[i]
        for j in range(dim):
            target.basis[i, j] = source.basis[i, j]
    for k in range(count):
        target.rows[k] = source.rows[k]
        target.sides[k] = source.sides[k]
        target.nearest[k] = source.nearest[k]
        for i in range(k + 1):
            target.inverse[k, i] = source.inverse[k, i]


def make_face(dim: int) -> Face:
    """Scratch space for active rows."""
    square, line = np.zeros((dim, dim)), np.zeros(dim)
    return Face(
        basis=square,
        inverse=square.copy(),
        nearest=line,
        along=line.copy(),
        rows=np.zeros(dim, np.int64),
        sides=line.copy(),
        weights=line.copy(),
    )


def make_solve(dim: int, cuts: int, rows: int) -> Solve:
    """Scratch space for a dimension, and numbers of cuts and rows."""
    line = np.zeros(dim)
    return Solve(
        theta=line,
        rows=np.zeros(dim + 1, np.int64),
        multipliers=np.zeros(dim + 1),
        parts=line.copy(),
        rest=line.copy(),
        ratio=np.zeros(dim + 1),
        limit=line.copy(),
        excess=np.zeros(cuts),
        near=np.zeros(cuts, np.int64),
        active=np.zeros(rows, np.bool_),
        counts=np.zeros(3, np.int64),
        best=np.zeros(2),
    )
