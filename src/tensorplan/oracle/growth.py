"""The tree of one objective over a table of rows that grows, and the room it needs."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorplan.oracle.arrays import (
    CLOSED,
    CUTS,
    ENTRIES,
    EXPANSIONS,
    FREE,
    HEAP,
    NODES,
    SOLVES,
    STATES,
    Int32Array,
    Problem,
    Tree,
    enlarge,
)
from tensorplan.oracle.kernels import Kernels
from tensorplan.oracle.rows import RowTable
from tensorplan.oracle.tree import (
    ALONE,
    CEILING,
    EXHAUSTED,
    FOUND,
    GAP,
    GROW,
    INCUMBENT,
    LOOK_STEPS,
    SATISFIED,
    SOLVE_LIMIT,
    STALLED,
    TIE,
    TRIALS,
    Search,
    make_search,
)
from tensorplan.records import FloatArray, IntArray

_TIE = 1e-9
_TRIALS = 4
_LOOK_STEPS = 1
_GROWTH = 1.5


@dataclass(frozen=True)
class Outcome:
    """How a search stands, in normal form.

    Attributes:
        proved: whether the gap is closed.
        empty: whether no parameter is left.
        point: [d], the best parameter seen that is consistent; if none was, the most optimistic.
        upper: bound.
    """

    proved: bool
    empty: bool
    point: FloatArray
    upper: float


class Growth:
    """A search that is kept.

    Args:
        direction: [d], the objective, of length 1.
        table: the rows.
    """

    def __init__(self, direction: FloatArray, table: RowTable) -> None:
        self.direction, self.table = direction, table
        self.look_steps = _LOOK_STEPS
        self.tree = make_tree(len(direction), 64)
        self._scratch: Search | None = None
        self._seen = self._keyed = -1
        self._point = np.zeros(len(direction))
        self._value = -math.inf
        plant(self.tree, direction)

    @property
    def solves(self) -> int:
        """Node solves so far."""
        return int(self.tree.counts[SOLVES])

    @property
    def expansions(self) -> int:
        """Leaves split so far."""
        return int(self.tree.counts[EXPANSIONS])

    @property
    def open_bounds(self) -> FloatArray:
        """Bounds of the open leaves."""
        return self.tree.bound[self.tree.entry[: self.tree.counts[HEAP]]]

    def offer(self, point: FloatArray) -> None:
        """Propose a parameter [d]; it counts if it is allowed and better than the best so far."""
        self._recheck()
        length = float(np.linalg.norm(point))
        if length > 1.0:
            return
        value = float(self.direction @ point)
        if value > self._value and is_consistent(self.table.problem, point):
            self._point, self._value, self._seen = point.copy(), value, self.table.version

    def run(self, kernels: Kernels, *, gap: float, solves: int, deadline: float) -> Outcome:
        """Go on until the gap is closed, the set is proved empty, or a limit is reached."""
        problem = self.table.problem._replace(objective=self.direction)
        self._recheck()
        search = self._prepare(problem, gap)
        last = self.solves + solves
        while True:
            search.limits[SOLVE_LIMIT] = min(last, self.solves + kernels.chunk)
            reason = kernels.run(problem, self.tree, search)
            if reason == GROW:
                self._make_room()
            elif (
                reason in (FOUND, EXHAUSTED)
                or self.solves >= last
                or time.perf_counter() >= deadline
            ):
                break
        self._point, self._value = search.point.copy(), float(search.levels[INCUMBENT])
        return self._outcome(gap)

    def _make_room(self) -> None:
        """Enlarge the tree; whatever happens on the way, there is one that is true."""
        arrays = self.tree._asdict()
        self.tree = make_tree(len(self.direction), 64)
        plant(self.tree, self.direction)
        grow_arrays(arrays)
        self.tree = Tree(**arrays)

    def _recheck(self) -> None:
        """Forget the best point if the set has shrunk past it."""
        if self._seen != self.table.version:
            self._seen = self.table.version
            if not is_consistent(self.table.problem, self._point):
                self._value = -math.inf

    def _outcome(self, gap: float) -> Outcome:
        bounds = self.open_bounds
        if not len(bounds):
            return Outcome(True, True, self._point, -math.inf)
        upper = float(bounds.max())
        if self._value > -math.inf:
            return Outcome(upper <= self._value + gap, False, self._point, upper)
        top = int(self.tree.entry[int(np.argmax(bounds))])
        # A leaf that was only looked at has a point that may be outside of the ball.
        point = self.tree.theta[top] / max(1.0, float(np.linalg.norm(self.tree.theta[top])))
        return Outcome(False, False, point, upper)

    def _prepare(self, problem: Problem, gap: float) -> Search:
        """Scratch space that is large enough, limits, and the best point if it is still one."""
        search = self._scratch = scratch_for(problem, self._scratch)
        if self._keyed != self.table.version:
            self._keyed = self.table.version
            rekey(self.tree, _TIE)
        search.point[:] = self._point
        search.levels[:] = 0.0
        search.levels[GAP], search.levels[TIE] = gap, _TIE
        search.levels[INCUMBENT], search.levels[CEILING] = self._value, math.inf
        few = int(problem.sizes[STATES]) <= len(problem.objective) + 2
        search.limits[TRIALS] = 1 if few and not problem.sizes[CUTS] else _TRIALS
        search.limits[LOOK_STEPS], search.limits[ALONE] = self.look_steps, -1
        search.limits[STALLED] = 0
        return search


def scratch_for(problem: Problem, search: Search | None) -> Search:
    """Scratch space that is large enough for a problem: the one that there is, or a new one."""
    states, width = problem.current.shape
    cuts = problem.scan_columns.shape[1]
    sizes = (len(problem.objective), states, width, cuts, len(problem.low))
    return search if search is not None and _fits(search, *sizes) else make_search(*sizes)


def _fits(search: Search, dim: int, states: int, width: int, cuts: int, rows: int) -> bool:
    """Whether scratch space is large enough."""
    return (
        len(search.decided) > states
        and len(search.excess) > states * width
        and search.here.theta.shape == (width, dim)
        and len(search.work.excess) >= cuts
        and len(search.work.active) >= rows
    )


def is_consistent(problem: Problem, point: FloatArray) -> bool:
    """Whether a parameter is in some slab of every state, and breaks no cut."""
    cuts, states = int(problem.sizes[CUTS]), int(problem.sizes[STATES])
    values = point @ problem.scan_columns[:, :cuts]
    if np.any(values > problem.scan_high[:cuts] + SATISFIED):
        return False
    if np.any(values < problem.scan_low[:cuts] - SATISFIED):
        return False
    rows = problem.current[:states]
    values = problem.normals[rows] @ point
    inside = (values <= problem.high[rows] + SATISFIED) & (values >= problem.low[rows] - SATISFIED)
    return bool(np.all(np.any(inside & (rows >= 0), axis=1) | (problem.actions[:states] == 0)))


def plant(tree: Tree, direction: FloatArray) -> None:
    """Make the root, an open leaf that was not solved."""
    tree.parent[0] = tree.choice[0] = -1
    tree.depth[0] = tree.slot[0] = tree.node[0] = tree.entry[0] = 0
    tree.theta[0] = direction
    tree.radius[0] = tree.bound[0] = tree.key[0] = 1.0
    tree.stamp[0] = -1
    tree.counts[NODES] = tree.counts[HEAP] = 1
    slots = len(tree.free)
    tree.free[: slots - 1] = np.arange(slots - 1, 0, -1)
    tree.counts[FREE] = slots - 1


def rekey(tree: Tree, tie: float) -> None:
    """Put the open leaves into order afresh: those that were laid aside get another chance."""
    size = int(tree.counts[HEAP])
    entries = tree.entry[:size].copy()
    keys = tree.bound[entries] + tie * tree.depth[tree.node[entries]]
    order = np.argsort(-keys, kind="stable")
    tree.key[:size], tree.entry[:size] = keys[order], entries[order]


def make_tree(dim: int, room: int) -> Tree:
    """A tree without nodes."""

    def whole(size: int) -> Int32Array:
        return np.zeros(size, np.int32)

    return Tree(
        parent=whole(2 * room),
        choice=whole(2 * room),
        depth=whole(2 * room),
        slot=whole(2 * room),
        theta=np.zeros((room, dim)),
        rows=np.zeros((room, dim), np.int32),
        multipliers=np.zeros((room, dim)),
        active=whole(room),
        radius=np.zeros(room),
        bound=np.zeros(room),
        stamp=whole(room),
        node=whole(room),
        key=np.zeros(room),
        entry=whole(room),
        free=whole(room),
        closed_node=whole(room),
        closed_end=np.zeros(room, np.int64),
        closed_rows=whole(room * (dim + 1)),
        closed_multipliers=np.zeros(room * (dim + 1)),
        counts=np.zeros(8, np.int64),
    )


def grow_arrays(arrays: dict[str, Any]) -> None:
    """Give the arrays of a tree more room where they are short of it.

    NOTE: nothing else may hold them, so that each goes as soon as there is a larger one.
    """
    counts: IntArray = arrays["counts"]
    if 4 * int(counts[NODES]) > 3 * len(arrays["parent"]):
        _widen(arrays, ("parent", "choice", "depth", "slot"))
    slots = len(arrays["free"])
    if 4 * int(counts[FREE]) < slots:
        names = ("theta", "rows", "multipliers", "active", "radius", "bound", "stamp", "node")
        _widen(arrays, (*names, "key", "entry", "free"))
        fresh = np.arange(len(arrays["free"]) - 1, slots - 1, -1)
        left = int(counts[FREE])
        arrays["free"][left : left + len(fresh)] = fresh
        counts[FREE] += len(fresh)
    if 4 * int(counts[CLOSED]) > 3 * len(arrays["closed_node"]):
        _widen(arrays, ("closed_node", "closed_end"))
    if 4 * int(counts[ENTRIES]) > 3 * len(arrays["closed_rows"]):
        _widen(arrays, ("closed_rows", "closed_multipliers"))


def _widen(arrays: dict[str, Any], names: tuple[str, ...]) -> None:
    """Enlarge some arrays of equal length, one after the other."""
    room = int(_GROWTH * len(arrays[names[0]])) + 64
    for name in names:
        arrays[name] = enlarge(arrays[name], room)
