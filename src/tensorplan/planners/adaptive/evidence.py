"""What the answers of a deterministic simulator say about theta (B2, B4, B5 iv, F10.3)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tensorplan.hypotheses import Cuts, Hypotheses
from tensorplan.planners.adaptive.graph import Graph
from tensorplan.planners.adaptive.settings import Resolved
from tensorplan.records import BoolArray, FloatArray, IntArray

_TOLERANCE = 1e-8
"""Temporal difference, or value, in units of 1 + B that counts as zero beside eta and lambda.

It exceeds what the oracle takes for satisfied, so that no parameter fails a test twice."""


def tolerance(resolved: Resolved) -> float:
    """What a test forgives beside eta and lambda."""
    return _TOLERANCE * (1 + resolved.norm)


@dataclass(frozen=True)
class Evidence:
    """The believable set, and which answers it rests on.

    Attributes:
        beliefs: the set.
        answers: how many answers it has taken in.
        nodes: how many nodes.
        cuts: its cuts by their content, so that none is added twice.
    """

    beliefs: Hypotheses
    answers: int = 0
    nodes: int = 0
    cuts: frozenset[bytes] = frozenset()

    @classmethod
    def none(cls, resolved: Resolved) -> Evidence:
        """The ball alone."""
        return cls(
            Hypotheses(
                dim=resolved.spec.dim,
                norm=resolved.norm,
                root=0.0,
                slab_width=resolved.slack(),
                bellman=resolved.bellman,
            )
        )

    def taking_in(self, graph: Graph, resolved: Resolved) -> Evidence:
        """Every node all of whose actions were tried becomes a critical state.

        Nodes with features along an axis are cut at once: the oracle carries such ranges from one
        state to the next.
        """
        beliefs = self.beliefs
        touched = dict.fromkeys(node for node, _ in graph.asked[self.answers :])
        for node in touched:
            if not len(graph.unasked(node)):
                beliefs = beliefs.with_state(graph.critical(node))
        fresh = np.arange(self.nodes, len(graph))
        axes = fresh[np.count_nonzero(graph.features[fresh], axis=1) == 1]
        grown = replace(self, beliefs=beliefs, answers=len(graph.asked), nodes=len(graph))
        return grown.cut_by(range_cuts(graph, resolved, axes))

    def cut_where_broken(self, graph: Graph, resolved: Resolved, theta: FloatArray) -> Evidence:
        """The set without theta, if it breaks the range of a known state or Bellman's inequality.

        No test has failed then, and nothing is asked for it.
        """
        broken = range_cuts(graph, resolved, out_of_range(graph, resolved, theta))
        grown = self.cut_by(broken)
        if resolved.bellman:
            nodes, actions = np.nonzero(too_good(graph, resolved, theta))
            grown = grown.cut_by(_bellman_cuts(graph, nodes, actions))
        return grown

    def cut_by(self, cuts: Cuts) -> Evidence:
        """The set after those cuts that are new."""
        table = np.column_stack([cuts.normals, cuts.low, cuts.high])
        fresh: dict[bytes, int] = {}
        for row in range(len(table)):
            key = table[row].tobytes()
            if key not in self.cuts:
                fresh.setdefault(key, row)
        if not fresh:
            return self
        rows = list(fresh.values())
        news = Cuts(cuts.normals[rows], cuts.low[rows], cuts.high[rows])
        return replace(self, beliefs=self.beliefs.with_cuts(news), cuts=self.cuts | fresh.keys())


def everything(graph: Graph, resolved: Resolved) -> Evidence:
    """All that the answers say, whether it mattered to a run or not."""
    known = Evidence.none(resolved).taking_in(graph, resolved)
    known = known.cut_by(range_cuts(graph, resolved, np.arange(len(graph))))
    if not resolved.bellman:
        return known
    return known.cut_by(_bellman_cuts(graph, *np.nonzero(graph.tried)))


def known_in_full(graph: Graph) -> list[int]:
    """Nodes all of whose actions were tried, in the order of their critical states."""
    touched = dict.fromkeys(node for node, _ in graph.asked)
    return [node for node in touched if not len(graph.unasked(node))]


def range_cuts(graph: Graph, resolved: Resolved, nodes: IntArray) -> Cuts:
    """Values of some nodes lie in their ranges, up to eta (F10.3)."""
    low, high = _limits(graph, resolved, nodes)
    return Cuts(graph.features[nodes], low, high)


def out_of_range(graph: Graph, resolved: Resolved, theta: FloatArray, first: int = 0) -> IntArray:
    """Nodes from some number on whose values theta puts out of their ranges."""
    nodes = np.arange(first, len(graph))
    low, high = _limits(graph, resolved, nodes)
    values, slack = graph.features[nodes] @ theta, tolerance(resolved)
    return nodes[(values < low - slack) | (values > high + slack)]


def too_good(graph: Graph, resolved: Resolved, theta: FloatArray) -> BoolArray:
    """Where theta says that an action is better than v*: [n, A] (B4)."""
    slack = graph.slack(np.arange(len(graph))) + tolerance(resolved)
    return graph.errors(theta) > slack


def _limits(graph: Graph, resolved: Resolved, nodes: IntArray) -> tuple[FloatArray, FloatArray]:
    stages, where = np.unique(graph.stages[nodes], return_inverse=True)
    ranges, eta = resolved.ranges, resolved.eta
    low = np.array([ranges.low(int(stage)) - eta for stage in stages])
    high = np.array([ranges.high(int(stage)) + eta for stage in stages])
    return low[where], high[where]


def _bellman_cuts(graph: Graph, nodes: IntArray, actions: IntArray) -> Cuts:
    """No action is better than v* says (B4)."""
    rows = graph.rows(nodes)[np.arange(len(nodes)), actions]
    slack = graph.slack(nodes)[np.arange(len(nodes)), actions]
    return Cuts(rows[:, 1:], np.full(len(nodes), -np.inf), slack - rows[:, 0])
