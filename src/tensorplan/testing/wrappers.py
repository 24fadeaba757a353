"""Simulators around a simulator: they count, or write down, what is asked of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tensorplan.problem import PackFunction, Simulator, SupportsAllowed, SupportsPacking
from tensorplan.records import BoolArray, FloatArray, IntArray, Spec, States, Step


class CountingSimulator:
    """Answers as the given simulator does, and counts the queries.

    Attributes:
        queries: rows of all calls of ``step``.
        allowed: the simulator's own; absent where it has none.
        pack: likewise.
    """

    allowed: Callable[[States, int], BoolArray]
    pack: PackFunction

    def __init__(self, simulator: Simulator) -> None:
        self._simulator = simulator
        self.queries = 0
        # NOTE: the attributes must be absent, not None, for a simulator without them: their
        # presence is what SupportsAllowed and SupportsPacking ask for.
        if isinstance(simulator, SupportsAllowed):
            self.allowed = simulator.allowed
        if isinstance(simulator, SupportsPacking):
            self.pack = simulator.pack

    @property
    def spec(self) -> Spec:
        """What the simulator promises."""
        return self._simulator.spec

    def start(self, rng: np.random.Generator) -> States:
        """Draw a start state; not a query."""
        return self._simulator.start(rng)

    def step(self, states: States, stage: int, actions: IntArray, rng: np.random.Generator) -> Step:
        """Count n queries, and pass them on."""
        self.queries += len(states)
        return self._simulator.step(states, stage, actions, rng)

    def features(self, states: States, stage: int) -> FloatArray:
        """Features of n states: [n, d]."""
        return self._simulator.features(states, stage)


@dataclass(frozen=True)
class Call:
    """One call of a simulator.

    Attributes:
        method: "step" or "features".
        stage: at which it was asked.
        states: [n, ...], a copy.
        actions: [n], a copy; None for features.
    """

    method: str
    stage: int
    states: States
    actions: IntArray | None = None


class RecordingSimulator(CountingSimulator):
    """Counts, and keeps every call of ``step`` and ``features`` in ``calls``."""

    def __init__(self, simulator: Simulator) -> None:
        super().__init__(simulator)
        self.calls: list[Call] = []

    def step(self, states: States, stage: int, actions: IntArray, rng: np.random.Generator) -> Step:
        """Write the call down, count it, and pass it on."""
        self.calls.append(Call("step", stage, states.copy(), actions.copy()))
        return super().step(states, stage, actions, rng)

    def features(self, states: States, stage: int) -> FloatArray:
        """Write the call down, and pass it on."""
        self.calls.append(Call("features", stage, states.copy()))
        return super().features(states, stage)
