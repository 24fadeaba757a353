"""One walk through a deterministic process under an optimistic parameter (B0, B5 iv).

The test is one-sided: an action passes if its temporal difference is not below zero. Transitions
that are known cost nothing, and at a new state actions are tried one at a time until one passes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from tensorplan.planners.adaptive.evidence import out_of_range, tolerance
from tensorplan.planners.adaptive.graph import ENDED, UNASKED, Graph
from tensorplan.planners.adaptive.records import Trajectory
from tensorplan.planners.adaptive.settings import Resolved
from tensorplan.records import FloatArray


class End(Enum):
    """How a walk ended."""

    CLEAN = "every state had an action that passes"
    ENOUGH = "the bounds are close enough"
    FAILED = "no action of a state passes"
    EXCLUDED = "an answer contradicts the parameter"


@dataclass
class Walk:
    """A walk under way.

    Attributes:
        graph: known transitions; it grows.
        resolved: the run's numbers.
        theta: [d], the parameter that is tested.
        start: the node of the start.
        length: most steps.
        goal: lower bound at which the walk may end.
        steps: node and action of every step so far.
        best: the best lower bound on the way, and the steps that give it.
    """

    graph: Graph
    resolved: Resolved
    theta: FloatArray
    start: int
    length: int
    goal: float
    steps: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    best: tuple[float, int] = (-np.inf, 0)
    _collected: float = 0.0

    def __post_init__(self) -> None:
        """Score actions by how they did elsewhere: the order in which they are tried."""
        errors = self.graph.errors(self.theta)
        tried = self.graph.tried
        self._sums = np.where(tried, errors, 0.0).sum(axis=0)
        self._counts = tried.sum(axis=0)
        self._passes = errors >= -self._forgiven(np.arange(len(self.graph)))

    @property
    def stage(self) -> int:
        """Number of the step at which the walk stands, from 1."""
        return len(self.steps) + 1

    @property
    def preference(self) -> FloatArray:
        """Mean temporal difference of each action where it was tried: [A]."""
        return self._sums / np.maximum(self._counts, 1)

    @property
    def trajectory(self) -> Trajectory:
        """The steps that give the best lower bound."""
        lower, count = self.best
        steps = self.steps[:count]
        handles = tuple(self.graph.handles[node] for node, _ in steps)
        return Trajectory(tuple(action for _, action in steps), handles, lower)

    def run(self) -> End:
        """Walk on to the end; a budget that is spent on the way is raised."""
        node: int = self.start
        for step in self.known_path():
            node = self._forward(*step)
        self._account(node)
        while node != ENDED and len(self.steps) < self.length:
            if self.best[0] >= self.goal:
                return End.ENOUGH
            action = self._test(node)
            if isinstance(action, End):
                return action
            node = self._forward(node, action)
            self._account(node)
        return End.CLEAN

    def wander(self, rng: np.random.Generator) -> None:
        """Walk by random actions to the end."""
        node = self.start
        while node != ENDED and len(self.steps) < self.length:
            action = int(rng.choice(self.graph.available(node)))
            if self.graph.following[node, action] == UNASKED:
                self.graph.ask(node, action)
            node = self._forward(node, action)
            self._account(node)

    def known_path(self) -> list[tuple[int, int]]:
        """The way through known, passing actions that leads deepest, as that leaves least to ask.

        Among equally deep ones the one with the largest temporal differences wins.
        """
        errors = self.graph.errors(self.theta)
        back: dict[int, tuple[int, int]] = {}
        best, deepest = (-1, -np.inf), self.start
        stack: list[tuple[int, int, float]] = [(self.start, 0, 0.0)]
        ended: list[tuple[int, int]] = []
        while stack:
            node, depth, total = stack.pop()
            passing: list[int] = np.flatnonzero(self._passes[node]).tolist()
            if depth == self.length:
                passing = []
            if not passing and (depth, total) > best:
                best, deepest, ended = (depth, total), node, []
            for action in passing:
                following, more = int(self.graph.following[node, action]), errors[node, action]
                if following != ENDED:
                    back[following] = (node, action)
                    stack.append((following, depth + 1, total + more))
                elif (self.length + 1, total + more) > best:
                    best, deepest = (self.length + 1, total + more), node
                    ended = [(node, action)]
        path = ended
        while deepest in back:
            path = [back[deepest], *path]
            deepest = back[deepest][0]
        return path

    def _test(self, node: int) -> int | End:
        """The action to roll forward, found by trying one at a time; or why there is none."""
        forgiven = self._forgiven([node])[0]
        for action in self._ranked(node):
            known = len(self.graph)
            self.graph.ask(node, action)
            errors = self.graph.errors_at(node, self.theta)
            self._sums[action] += errors[action]
            self._counts[action] += 1
            # The stage of the next state decides what is forgiven.
            forgiven = self._forgiven([node])[0]
            if len(out_of_range(self.graph, self.resolved, self.theta, known)):
                return End.EXCLUDED
            if self.resolved.bellman and errors[action] > forgiven[action]:
                return End.EXCLUDED
            if errors[action] >= -forgiven[action]:
                return self._believed(node, action, errors, forgiven)
        return End.FAILED

    def _believed(
        self, node: int, action: int, errors: FloatArray, forgiven: FloatArray
    ) -> int | End:
        """The action, unless the state is known in full and no action is consistent."""
        open_question = len(self.graph.unasked(node)) > 0
        return action if open_question or np.any(np.abs(errors) <= forgiven) else End.EXCLUDED

    def _ranked(self, node: int) -> list[int]:
        """Actions that were not tried, the most promising first."""
        unasked = self.graph.unasked(node)
        order = np.argsort(-self.preference[unasked], kind="stable")
        return unasked[order].tolist()

    def _forgiven(self, nodes: object) -> FloatArray:
        return self.graph.slack(np.asarray(nodes)) + tolerance(self.resolved)

    def _forward(self, node: int, action: int) -> int:
        weight = self.resolved.spec.discount ** len(self.steps)
        self._collected += weight * float(self.graph.rewards[node, action])
        self.steps.append((node, action))
        return int(self.graph.following[node, action])

    def _account(self, node: int) -> None:
        """What the steps so far are worth, whatever comes after them (F10.7)."""
        ranges, count = self.resolved.ranges, len(self.steps)
        rest = 0.0 if node == ENDED else ranges.low(int(self.graph.stages[node]))
        lower = self._collected + self.resolved.spec.discount**count * rest
        lower -= self.resolved.inaccuracy * ranges.summed(count)
        if lower > self.best[0]:
            self.best = (lower, count)
