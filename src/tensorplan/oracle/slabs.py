"""The optimistic parameter over a union of slabs, by a search that is kept (theory B2, B3).

The oracle remembers the last set that it was asked about. If the next one is a later stage of it,
its rows are added to the table and the tree of each objective goes on from where it stood; a new
objective gets a tree of its own over the same rows. Any other set starts afresh.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from dataclasses import dataclass

import numpy as np

from tensorplan.errors import SettingError
from tensorplan.hypotheses import Hypotheses
from tensorplan.oracle.base import Optimum, OracleStatus
from tensorplan.oracle.growth import Growth, Outcome
from tensorplan.oracle.hull import Hull
from tensorplan.oracle.kernels import Kernels
from tensorplan.oracle.norm import norm_limit
from tensorplan.oracle.proof import build_proof
from tensorplan.oracle.propagation import Propagated, propagate_box
from tensorplan.oracle.rows import RowTable
from tensorplan.oracle.spans import Spans
from tensorplan.oracle.weights import leaf_weights, states_named
from tensorplan.records import FloatArray

_TREES = 8
"""Objectives whose trees are kept."""

_SLACK = 1e-6
"""What a bound may rise by, as a fraction of B ||c||, and count as unchanged."""

_ROUNDING = 1e-8
"""How far a parameter of the set may be above its bound by rounding, as a fraction of B ||c||."""

_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class _Answer:
    """The last answer.

    Attributes:
        objective: [d].
        optimum: the answer.
        upper: its bound in normal form.
        growth: the search, as it stands.
    """

    objective: FloatArray
    optimum: Optimum
    upper: float
    growth: Growth


class SlabOracle:
    """Best-first search over the union of slabs.

    Args:
        node_limit: node solves of one call after which the search stops with what it has.
        gap: largest accepted difference of bound and value, as a fraction of B ||c||.
        time_limit: seconds of one call, or None. A result then depends on the machine.
        kernels: which functions run: "plain" ones, "compiled" ones, or "auto": compiled ones once
            this object has done so much work that compiling them pays.
    """

    def __init__(
        self,
        node_limit: int = 2_000_000,
        *,
        gap: float = 1e-6,
        time_limit: float | None = None,
        kernels: str = "auto",
    ) -> None:
        if node_limit < 1 or not gap >= 0:
            raise SettingError(
                f"SlabOracle(node_limit={node_limit}, gap={gap})",
                "the limit must be at least 1 and the gap at least 0",
                "Set them so.",
            )
        self.node_limit, self.gap, self.time_limit = node_limit, gap, time_limit
        self._kernels = Kernels(kernels)
        self._table: RowTable | None = None
        self._trees: OrderedDict[bytes, Growth] = OrderedDict()
        self._last: _Answer | None = None
        self._box: Propagated | None = None
        self._hull: Hull | None = None
        self._spans: Spans | None = None
        self._ranges: dict[tuple[int, bytes], tuple[float, float]] = {}
        self._seen = (0, 0)

    @property
    def name(self) -> str:
        """How it is chosen."""
        return "slabs"

    @property
    def form(self) -> str:
        """Which set it searches."""
        return "union of slabs"

    @property
    def proved(self) -> bool:
        """Bounds and emptiness are by weak duality at explicit multipliers."""
        return True

    def maximise(
        self, objective: FloatArray, beliefs: Hypotheses, *, most_nodes: int | None = None
    ) -> Optimum:
        """Maximise <objective, theta> over the union of slabs.

        Args:
            objective: c [d].
            beliefs: the set.
            most_nodes: a smaller limit on node solves, for this question only.
        """
        table = self._take(beliefs)
        length = float(np.linalg.norm(objective))
        growth = self._growth(objective / length if length else np.eye(beliefs.dim)[0], table)
        if self._box is not None:
            growth.offer(self._box.peak)
        deadline = math.inf if self.time_limit is None else time.perf_counter() + self.time_limit
        before = growth.solves, growth.expansions
        outcome = growth.run(
            self._kernels,
            # Any parameter will do where all predict the same.
            gap=self.gap if length else math.inf,
            solves=self.node_limit if most_nodes is None else min(most_nodes, self.node_limit),
            deadline=deadline,
        )
        optimum = _optimum(outcome, objective, beliefs.norm * length, growth, before)
        self._last = _Answer(objective, optimum, outcome.upper, growth)
        return optimum

    def tighten(self, beliefs: Hypotheses, rounds: int = 1) -> FloatArray:
        """Narrow the ranges of phi . theta at the critical states, over their actions.

        What is found holds for every believable parameter, and goes into later answers and proofs.

        Args:
            beliefs: the set.
            rounds: how often to go through all states, where their features are not along axes.

        Returns:
            [K, 2], lowest and highest; the ball's where the features were not given.
        """
        table = self._take(beliefs)
        if self._box is None:
            if self._hull is None or self._hull.table is not table:
                self._hull = Hull(table)
            self._hull.tighten(self._kernels, rounds)
            self._seen = (id(table), table.version)
        return np.array([self._range(index) for index in range(len(beliefs.states))]).reshape(-1, 2)

    def box(self, beliefs: Hypotheses) -> FloatArray | None:
        """Ranges of theta's entries after propagation: [d, 2]; the ball's where there is none.

        None where some critical state's features are not along an axis.
        """
        self._take(beliefs)
        if self._box is None:
            return None
        box = self._box.box
        ends = np.stack([np.maximum(box.low, -1.0), np.minimum(box.high, 1.0)], axis=1)
        return beliefs.norm * ends

    def spans(
        self,
        directions: FloatArray,
        beliefs: Hypotheses,
        within: tuple[FloatArray, float, float] | None = None,
    ) -> FloatArray:
        """Ranges of linear functions over the relaxation: the ball, the cuts and the claims.

        Args:
            directions: [m, d].
            beliefs: the set.
            within: (normal, low, high), if only parameters in that range of <normal, theta> count.

        Returns:
            [m, 2], lowest and highest.
        """
        table = self._take(beliefs)
        if self._spans is None or self._spans.table is not table:
            self._spans = Spans(table)
        if within is not None:
            self._spans.also(*within)
        return self._spans.find(self._kernels, directions)

    def weights(self) -> FloatArray:
        """How much the last bound leans on each slab: [K, A].

        A slab that is wider by w raises the bound by its weight times w, as long as the same rows
        stay active. Weights through derived claims are spread evenly over the claims' cases.
        """
        last = self._answered()
        return leaf_weights(last.growth.table, last.growth.tree, last.objective)

    def _range(self, index: int) -> tuple[float, float]:
        """What is known of phi . theta at a critical state."""
        assert self._table is not None
        beliefs = self._table.beliefs
        features = beliefs.states[index].features
        if features is None:
            return -beliefs.norm, beliefs.norm
        length = beliefs.norm * float(np.linalg.norm(features))
        low, high = -1.0, 1.0
        if self._box is not None and np.count_nonzero(features) == 1:
            axis = int(np.flatnonzero(features)[0])
            ends = np.sign(features[axis]) * np.array([self._box.box.low, self._box.box.high])
            low, high = max(low, float(ends[:, axis].min())), min(high, float(ends[:, axis].max()))
        elif self._hull is not None:
            low, high = self._hull.ranges.get(index, (low, high))
        known = self._ranges.get((index, features.tobytes()), (low, high))
        low, high = max(low, known[0]), min(high, known[1])
        self._ranges[index, features.tobytes()] = low, high
        return low * length, high * length

    def proof(self) -> dict[str, object]:
        """The proof of the last answer, as the content of its file (docs/proof-format.md)."""
        last = self._answered()
        return build_proof(last.growth.table, last.growth.tree, last.objective, last.optimum)

    def blamed(self) -> list[int]:
        """Critical states that prove together that no parameter is left, after such an answer."""
        last = self._answered()
        if last.optimum.status is not OracleStatus.EMPTY:
            return []
        return sorted(states_named(last.growth.table, last.growth.tree))

    def norm_limit(self) -> float:
        """The norm bound up to which the last proof holds, give or take the accepted gap.

        It is the bound B itself, or little more, where the answer leans on it; a number many times
        larger says that the answer owes nothing to B (theory F6).
        """
        last = self._answered()
        growth = last.growth
        if not last.objective.any() and last.optimum.status is not OracleStatus.EMPTY:
            return math.inf
        return norm_limit(growth.table, growth.tree, growth.direction, last.upper + _SLACK)

    def _answered(self) -> _Answer:
        if self._last is None:
            raise SettingError(
                "a proof", "nothing has been asked of this set yet", "Call maximise first."
            )
        return self._last

    def _take(self, beliefs: Hypotheses) -> RowTable:
        """The rows of a set; the trees are kept where they still hold."""
        table = self._table
        if table is not None and beliefs is table.beliefs:
            return table
        if table is None or not beliefs.extends(table.beliefs):
            table = self._table = RowTable(beliefs)
            self._trees.clear()
            self._ranges.clear()
        elif not table.update(beliefs):
            # The rows that an earlier answer is proved from no longer fit its tree.
            self._trees.clear()
            self._last = None
        if self._seen != (id(table), table.version):
            self._box = propagate_box(table)
            self._seen = (id(table), table.version)
        return table

    def _growth(self, direction: FloatArray, table: RowTable) -> Growth:
        """The tree of an objective; the one that was not asked for longest makes room."""
        key = direction.tobytes()
        if key not in self._trees:
            self._trees[key] = Growth(direction, table)
        self._trees.move_to_end(key)
        while len(self._trees) > _TREES:
            self._trees.popitem(last=False)
        return self._trees[key]


def _optimum(
    outcome: Outcome,
    objective: FloatArray,
    scale: float,
    growth: Growth,
    before: tuple[int, int],
) -> Optimum:
    """The answer in the units of the data; ``scale`` is B ||c||."""
    nodes, expansions = growth.solves - before[0], growth.expansions - before[1]
    norm = growth.table.beliefs.norm
    if outcome.empty:
        nothing = np.zeros_like(objective)
        return Optimum(OracleStatus.EMPTY, nothing, -math.inf, -math.inf, nodes, expansions)
    theta = norm * outcome.point
    value = float(objective @ theta)
    upper = scale * outcome.upper
    upper = upper + 8 * _EPS * abs(upper) if scale else 0.0
    # Beyond rounding, a larger value is that of a parameter which the proof excludes.
    if value - upper <= _ROUNDING * scale:
        upper = max(upper, value)
    status = OracleStatus.OPTIMAL if outcome.proved else OracleStatus.LIMIT
    return Optimum(status, theta, value, upper, nodes, expansions)
