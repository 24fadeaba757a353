"""The arrays of a search: the problem in normal form, the tree, and scratch space.

Everything is in normal form: the ball and the objective have length 1, and a row is a unit normal
with limits, low <= <normal, theta> <= high. A row never changes once it is in the table, so that a
multiplier says for good what it multiplies; what is in force now is said by ``scan_rows`` and
``current``. A multiplier has a sign: positive for the upper side of its row, negative for the
lower.

The records are named tuples of arrays, so that the same functions read them as plain Python and
compiled. Arrays grow by doubling; counts are kept in small integer arrays.
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar, cast

import numpy as np
import numpy.typing as npt

from tensorplan.records import FloatArray, IntArray

Int32Array = npt.NDArray[np.int32]
Array = TypeVar("Array", FloatArray, IntArray, Int32Array)

CUTS, STATES, FLAT, STAMP = range(4)
"""Positions in ``Problem.sizes``: cuts in force, states, whether all is flat, version."""

ACTIONS = 1024
"""A slab is named by one number: i ACTIONS + a, for action a of state i."""

MOST_ACTIONS = ACTIONS

NODES, HEAP, FREE, CLOSED, ENTRIES, SOLVES, LOOKS, EXPANSIONS = range(8)
"""Positions in ``Tree.counts``."""


class Problem(NamedTuple):
    """The set in normal form, and the objective.

    Attributes:
        objective: [d], of length 1.
        normals: [R, d], the table of rows.
        low: [R].
        high: [R].
        position: [R], where a row stands among the cuts in force; -1 for all others.
        scan_columns: [d, M], the cuts in force, for scans over all of them,
        scan_low: [M],
        scan_high: [M], and
        scan_rows: [M], their rows.
        current: [K, A], the row of each slab; -1 where there is none.
        owner: [R], which slab a row belongs to (see ``ACTIONS``); -1 for a cut.
        actions: [K], slabs of a state; 0 for a state that excludes nothing.
        sizes: [4], see the positions above.
    """

    objective: FloatArray
    normals: FloatArray
    low: FloatArray
    high: FloatArray
    position: IntArray
    scan_columns: FloatArray
    scan_low: FloatArray
    scan_high: FloatArray
    scan_rows: IntArray
    current: IntArray
    owner: IntArray
    actions: IntArray
    sizes: IntArray


class Face(NamedTuple):
    """The active rows of a node, in an orthonormal basis Q of the whole space.

    The first k directions of Q span the k active normals N, N' = Q' R. The point of least norm on
    the face is Q' nearest; the projection of t c onto the face is that and t times the parts of c
    along the other directions.

    Attributes:
        basis: Q [d, d].
        inverse: [d, d], in row j the first j + 1 entries of column j of the inverse of R.
        nearest: [d], the first k in use.
        along: Q c [d].
        rows: [d], the active rows.
        sides: [d], 1.0 where the upper side is active, -1.0 where the lower one is.
        weights: [d], multipliers of the projection, at least 0.
    """

    basis: FloatArray
    inverse: FloatArray
    nearest: FloatArray
    along: FloatArray
    rows: IntArray
    sides: FloatArray
    weights: FloatArray


class Tree(NamedTuple):
    """Nodes of the tree, open leaves with their relaxations, and closed leaves with their proofs.

    Attributes:
        parent: [N], -1 for the root.
        choice: [N], the slab that was chosen (see ``ACTIONS``); -1 for the root.
        depth: [N].
        slot: [N], where an open leaf keeps its relaxation; -1 for all others.
        theta: [S, d].
        rows: [S, d], rows with a multiplier.
        multipliers: [S, d], those of the best bound; the next solve starts from their rows.
        active: [S], how many.
        radius: [S], t with theta = projection of t c.
        bound: [S].
        stamp: [S], version of the problem that theta is optimal for; -1 if it was not solved.
        node: [S].
        key: [S], heap of open leaves, largest first: what orders them,
        entry: [S], and their slots.
        free: [S], stack of slots that are not in use.
        closed_node: [L], leaves that hold no parameter;
        closed_end: [L], where their entries end, in
        closed_rows: [E], the rows of their rays, and
        closed_multipliers: [E].
        counts: [8], see the positions above.
    """

    parent: Int32Array
    choice: Int32Array
    depth: Int32Array
    slot: Int32Array
    theta: FloatArray
    rows: Int32Array
    multipliers: FloatArray
    active: Int32Array
    radius: FloatArray
    bound: FloatArray
    stamp: Int32Array
    node: Int32Array
    key: FloatArray
    entry: Int32Array
    free: Int32Array
    closed_node: Int32Array
    closed_end: IntArray
    closed_rows: Int32Array
    closed_multipliers: FloatArray
    counts: IntArray


def enlarge(array: Array, room: int, *, axis: int = 0, fill: float = 0) -> Array:
    """A copy with more room along an axis, at least as much as there is."""
    shape = list(array.shape)
    shape[axis] = max(room, shape[axis])
    # NOTE: zeros take no memory until they are written to, so that room costs little.
    empty = np.zeros(shape, array.dtype) if fill == 0 else np.full(shape, fill, array.dtype)
    larger = cast(Array, empty)
    larger[tuple(slice(0, size) for size in array.shape)] = array
    return larger
