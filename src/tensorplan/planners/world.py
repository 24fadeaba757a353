"""Batches of rollouts that move forward together, over a simulator or over a session.

The planners roll out through these two protocols, so that the same lines serve a simulator,
where whole batches go in lockstep, and the paper's Appendix A oracle, which has one state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from tensorplan.guards import require_same
from tensorplan.local import Handle, Key, LocalAccess, Measurement
from tensorplan.records import BoolArray, FloatArray, IntArray, Phase, Queries, Spec
from tensorplan.sessions import SessionAccess


class Walk(Protocol):
    """Rollouts in lockstep. The live ones are rows 0 to n - 1; the others are dropped."""

    @property
    def stage(self) -> int:
        """Stage that all live rollouts are at."""
        ...

    @property
    def rollouts(self) -> IntArray:
        """Numbers of the live rollouts: [n], increasing."""
        ...

    @property
    def handle(self) -> Handle | None:
        """The live states, where they can be held."""
        ...

    def measure(self, draws: int, phase: Phase) -> Measurement:
        """Mean of fresh draws for all actions of the live states."""
        ...

    def refine_later(self, row: int, draws: int) -> Callable[[], Measurement]:
        """A larger sample at one live state, to be drawn when it is called, or at once."""
        ...

    def ask_again(self, row: int, draws: int) -> Callable[[], Measurement]:
        """Goes back to a live state, when it is called, and asks every action once more."""
        ...

    def features(self) -> FloatArray:
        """Features of the live states: [n, d]; not a query."""
        ...

    def hold(self, row: int) -> Handle | None:
        """A handle of one live state, where it can be held."""
        ...

    def keep(self, rows: BoolArray) -> None:
        """Drop the other rollouts."""
        ...

    def forward(self, actions: IntArray, phase: Phase) -> FloatArray:
        """Roll the live states forward by one fresh draw each; drop those that end.

        Returns:
            [n], the rewards of those that were live before.
        """
        ...


class World(Protocol):
    """Where a planner plans: a start state, and walks from it."""

    @property
    def spec(self) -> Spec:
        """What the simulator promises."""
        ...

    @property
    def queries(self) -> Queries:
        """The queries so far."""
        ...

    @property
    def widest_batch(self) -> int:
        """Most rollouts that can walk together."""
        ...

    def start_features(self) -> FloatArray:
        """Features of the start state: [d]."""
        ...

    def walk(self, iteration: int, first: int, count: int) -> Walk:
        """Begin rollouts ``first`` to ``first + count - 1`` of an iteration."""
        ...


class SimulatorWorld:
    """Walks from one start state of a simulator.

    Args:
        access: local access to it.
        start: a handle of the one start state.
        widest_batch: most rollouts that walk together.
    """

    def __init__(self, access: LocalAccess, start: Handle, *, widest_batch: int = 1024) -> None:
        self.access, self.start = access, start
        self._widest_batch = widest_batch

    @property
    def spec(self) -> Spec:
        """What the simulator promises."""
        return self.access.spec

    @property
    def queries(self) -> Queries:
        """The queries so far."""
        return self.access.queries

    @property
    def widest_batch(self) -> int:
        """Most rollouts that can walk together."""
        return self._widest_batch

    def start_features(self) -> FloatArray:
        """Features of the start state: [d]."""
        return self.access.features(self.start)[0]

    def walk(self, iteration: int, first: int, count: int) -> Walk:
        """Begin rollouts of an iteration."""
        return _SimulatorWalk(self.access, self.start, (iteration, first), count)


class _SimulatorWalk:
    def __init__(self, access: LocalAccess, start: Handle, key: Key, count: int) -> None:
        self._access, self._key = access, key
        self._handle = access.take(start, np.zeros(count, np.int64))
        self._rollouts = np.arange(key[1], key[1] + count)

    @property
    def stage(self) -> int:
        return self._handle.stage

    @property
    def rollouts(self) -> IntArray:
        return self._rollouts

    @property
    def handle(self) -> Handle | None:
        return self._handle

    def measure(self, draws: int, phase: Phase) -> Measurement:
        return self._access.measure(self._handle, self.stage, draws, phase=phase, key=self._key)

    def refine_later(self, row: int, draws: int) -> Callable[[], Measurement]:
        return self._measure_later(row, draws, Phase.REFINE)

    def ask_again(self, row: int, draws: int) -> Callable[[], Measurement]:
        return self._measure_later(row, draws, Phase.CHECK)

    def _measure_later(self, row: int, draws: int, phase: Phase) -> Callable[[], Measurement]:
        state = self._access.take(self._handle, [row])
        key = (self._key[0], int(self._rollouts[row]))
        return lambda: self._access.measure(state, state.stage, draws, phase=phase, key=key)

    def features(self) -> FloatArray:
        return self._access.features(self._handle)

    def hold(self, row: int) -> Handle | None:
        return self._access.take(self._handle, [row])

    def keep(self, rows: BoolArray) -> None:
        if not rows.all():
            self._handle = self._access.take(self._handle, np.flatnonzero(rows))
            self._rollouts = self._rollouts[rows]

    def forward(self, actions: IntArray, phase: Phase) -> FloatArray:
        moved = self._access.advance(self._handle, self.stage, actions, phase=phase, key=self._key)
        self._handle = moved.states
        self.keep(~moved.terminated)
        return moved.rewards


class SessionWorld:
    """Walks of one rollout each, over the oracle that keeps its own state."""

    widest_batch = 1

    def __init__(self, access: SessionAccess) -> None:
        self.access = access

    @property
    def spec(self) -> Spec:
        """What the oracle promises."""
        return self.access.spec

    @property
    def queries(self) -> Queries:
        """The queries so far."""
        return self.access.queries

    def start_features(self) -> FloatArray:
        """Features of the start state: [d]."""
        return self.access.start_features()

    def walk(self, iteration: int, first: int, count: int) -> Walk:
        """Begin one rollout."""
        self.access.reset()
        return _SessionWalk(self.access, first)


class _SessionWalk:
    def __init__(self, access: SessionAccess, number: int) -> None:
        self._access = access
        self._rollouts = np.array([number])
        self._path: tuple[int, ...] = ()

    @property
    def stage(self) -> int:
        return self._access.stage

    @property
    def rollouts(self) -> IntArray:
        return self._rollouts

    @property
    def handle(self) -> Handle | None:
        return None

    def measure(self, draws: int, phase: Phase) -> Measurement:
        return self._access.measure(draws, phase=phase)

    def refine_later(self, row: int, draws: int) -> Callable[[], Measurement]:
        # Nothing can be revisited, so the full sample is taken here.
        taken = self._access.measure(draws, phase=Phase.REFINE)
        return lambda: taken

    def ask_again(self, row: int, draws: int) -> Callable[[], Measurement]:
        # The way back is the way there: that is where a deterministic session leads.
        access, path = self._access, self._path

        def replay() -> Measurement:
            access.reset()
            for action in path:
                stage = access.stage
                _, ended = access.forward(action, phase=Phase.CHECK)
                require_same(not ended, stage)
            return access.measure(draws, phase=Phase.CHECK)

        return replay

    def features(self) -> FloatArray:
        return self._access.features()[None]

    def hold(self, row: int) -> Handle | None:
        return None

    def keep(self, rows: BoolArray) -> None:
        self._rollouts = self._rollouts[rows]

    def forward(self, actions: IntArray, phase: Phase) -> FloatArray:
        action = int(actions[0])
        reward, ended = self._access.forward(action, phase=phase)
        self._path = (*self._path, action)
        if ended:
            self._rollouts = self._rollouts[:0]
        return np.array([reward])
