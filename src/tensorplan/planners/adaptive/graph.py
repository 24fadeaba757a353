"""What a deterministic simulator has answered: one query for each state, stage and action, ever.

Nodes are the states that were visited, each by the path that led to it, so that they form trees. A
state that two paths reach has two nodes: local access does not tell that they are one, and equal
features are no proof of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

import numpy as np

from tensorplan.guards import require_same
from tensorplan.hypotheses import CriticalState
from tensorplan.local import Handle, LocalAccess
from tensorplan.planners.adaptive.settings import Resolved
from tensorplan.records import BoolArray, FloatArray, IntArray, Phase

UNASKED, ENDED = -1, -2
"""In place of the next node: nothing is known, or the episode has ended."""

_ROOM = 64


class Graph:
    """Known transitions. It only ever grows.

    Args:
        access: local access to the simulator.
        resolved: the run's numbers, for the slack of an equation.
    """

    def __init__(self, access: LocalAccess, resolved: Resolved) -> None:
        self._access, self._resolved = access, resolved
        actions = access.spec.actions
        self._features = np.zeros((_ROOM, access.spec.dim))
        self._rewards = np.zeros((_ROOM, actions))
        self._following = np.full((_ROOM, actions), UNASKED, np.int64)
        self._allowed = np.zeros((_ROOM, actions), np.bool_)
        self._stages = np.zeros(_ROOM, np.int64)
        self._starts: dict[Handle, int] = {}
        self.handles: list[Handle] = []
        self.asked: list[tuple[int, int]] = []

    def __len__(self) -> int:
        return len(self.handles)

    def read_by(self, resolved: Resolved) -> Graph:
        """The same answers, with equations that may be off by as much as another run allows.

        Only one of the two may be asked on.
        """
        reading = copy(self)
        reading._resolved = resolved
        return reading

    @property
    def features(self) -> FloatArray:
        """Features of all nodes: [n, d]."""
        return self._features[: len(self)]

    @property
    def stages(self) -> IntArray:
        """Stages of all nodes: [n]."""
        return self._stages[: len(self)]

    @property
    def rewards(self) -> FloatArray:
        """Rewards: [n, A]; 0 where nothing was asked."""
        return self._rewards[: len(self)]

    @property
    def following(self) -> IntArray:
        """Next nodes: [n, A]; UNASKED or ENDED where there is none."""
        return self._following[: len(self)]

    def add(self, handle: Handle) -> int:
        """A node for one state."""
        node = len(self.handles)
        if node == len(self._stages):
            self._grow()
        self._features[node] = self._access.features(handle)[0]
        self._allowed[node] = self._access.allowed(handle)[0]
        self._stages[node] = handle.stage
        self.handles.append(handle)
        return node

    def node_of(self, start: Handle) -> int:
        """The node of a start state, which is new unless it was planned from before."""
        if start not in self._starts:
            self._starts[start] = self.add(start)
        return self._starts[start]

    def ask(self, node: int, action: int) -> None:
        """Try an action that was not tried there before: one query."""
        handle, key = self.handles[node], (node, action)
        moved = self._access.advance(handle, handle.stage, [action], phase=Phase.TEST, key=key)
        self.asked.append((node, action))
        ended = bool(moved.terminated[0])
        self._rewards[node, action] = moved.rewards[0]
        self._following[node, action] = ENDED if ended else self.add(moved.states)

    def available(self, node: int) -> IntArray:
        """Available actions: [k]."""
        return np.flatnonzero(self._allowed[node])

    def unasked(self, node: int) -> IntArray:
        """Available actions that were not tried: [k]."""
        return np.flatnonzero(self._allowed[node] & (self._following[node] == UNASKED))

    @property
    def tried(self) -> BoolArray:
        """Which actions were tried: [n, A]."""
        return self.following != UNASKED

    def errors(self, theta: FloatArray) -> FloatArray:
        """Temporal-difference errors at all nodes: [n, A]; -inf where nothing was asked."""
        values = self.features @ theta
        after = np.where(self.following >= 0, values[np.maximum(self.following, 0)], 0.0)
        errors = self.rewards + self._access.spec.discount * after - values[:, None]
        return np.where(self.tried, errors, -np.inf)

    def errors_at(self, node: int, theta: FloatArray) -> FloatArray:
        """The same at one node: [A]."""
        errors = self.rows([node])[0] @ np.concatenate([[1.0], theta])
        return np.where(self._following[node] != UNASKED, errors, -np.inf)

    def rows(self, nodes: Sequence[int] | IntArray) -> FloatArray:
        """Temporal-difference rows (r, gamma phi' - phi) of some nodes: [n, A, d + 1] (A12)."""
        after = self._after(nodes)
        change = self._access.spec.discount * after - self._features[nodes][:, None]
        return np.concatenate([self._rewards[nodes][:, :, None], change], axis=2)

    def slack(self, nodes: Sequence[int] | IntArray) -> FloatArray:
        """By how much each equation may be off at theta°: [n, A] (F10.2)."""
        slack = self._resolved.slack
        return np.where(self._following[nodes] >= 0, slack(1.0), slack(0.0))

    def critical(self, node: int) -> CriticalState:
        """A state all of whose actions were tried, as a disjunction."""
        actions = np.flatnonzero(self._allowed[node])
        return CriticalState(
            stage=int(self._stages[node]),
            rows=self.rows([node])[0, actions],
            radii=self.slack([node])[0, actions],
            features=self._features[node].copy(),
        )

    def ask_again(self, node: int, action: int, handle: Handle, key: int) -> Handle:
        """Ask a known pair once more: what is deterministic answers the same (F6).

        Args:
            node: whose answer is known.
            action: what was tried there.
            handle: the state itself, or the one that the same actions led to this time.
            key: names this query.

        Returns:
            The next state, as it came this time.
        """
        stage = handle.stage
        moved = self._access.advance(handle, stage, [action], phase=Phase.CHECK, key=(key,))
        ended = self._following[node, action] == ENDED
        same = moved.rewards[0] == self._rewards[node, action] and moved.terminated[0] == ended
        after = self._access.features(moved.states)[0]
        require_same(bool(same) and np.array_equal(after, self._after([node])[0, action]), stage)
        return moved.states

    def _after(self, nodes: Sequence[int] | IntArray) -> FloatArray:
        """Features of the next states of some nodes: [n, A, d]; zeros where there is none."""
        following = self._following[nodes]
        known = (following >= 0)[:, :, None]
        return np.where(known, self._features[np.maximum(following, 0)], 0.0)

    def _grow(self) -> None:
        """Twice the room."""
        for name in ("_features", "_rewards", "_following", "_allowed", "_stages"):
            old = getattr(self, name)
            setattr(self, name, np.concatenate([old, np.full_like(old, _EMPTY.get(name, 0))]))


_EMPTY = {"_following": UNASKED}
