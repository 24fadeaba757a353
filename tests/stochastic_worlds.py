"""Noisy simulators whose every draw is written down, for tests of what is made of the draws."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tensorplan.access import Access
from tensorplan.finite import TableSimulator, from_table
from tensorplan.local import Handle, Measurement
from tensorplan.problem import Simulator
from tensorplan.records import BoolArray, FloatArray, IntArray, Phase, Spec, States, Step

# Action 1 is missing in state 1, which state 0 leads to; state 2 is the end.
TABLE: Any = [
    [[(0.5, 0, 0.0, False), (0.2, 1, 0.5, False), (0.3, 2, 1.0, True)], [(1.0, 1, 0.25, False)]],
    [[(0.6, 0, 0.0, False), (0.4, 1, 1.0, False)], []],
    [[], []],
]
FEATURES = np.array([[0.6, 0.0], [0.0, 0.8], [0.5, 0.5]])


def few_answers(horizon: int | None = 4, discount: float = 1.0) -> TableSimulator:
    """Three answers at most."""
    return from_table(TABLE, FEATURES, Spec(2, 2, horizon, discount))


class ManyAnswers:
    """States on a line that move by normal steps; rewards are uniform, and some steps end it."""

    def __init__(self, dim: int = 2) -> None:
        self.spec = Spec(2, dim, None, 0.9)

    def start(self, rng: np.random.Generator) -> States:
        return np.zeros(1)

    def step(self, states: States, stage: int, actions: IntArray, rng: np.random.Generator) -> Step:
        moved = states + rng.normal(size=len(states)) + actions
        return Step(rng.random(len(states)), moved, rng.random(len(states)) < 0.1)

    def features(self, states: States, stage: int) -> FloatArray:
        phases = np.arange(self.spec.dim)
        return np.cos(np.asarray(states, np.float64)[:, None] + phases) / self.spec.dim


class Noting:
    """Writes down every draw of a simulator."""

    def __init__(self, simulator: Simulator) -> None:
        self._simulator = simulator
        self.spec = simulator.spec
        self.raw: list[tuple[FloatArray, FloatArray]] = []

    def start(self, rng: np.random.Generator) -> States:
        return self._simulator.start(rng)

    def step(self, states: States, stage: int, actions: IntArray, rng: np.random.Generator) -> Step:
        step = self._simulator.step(states, stage, actions, rng)
        ended = step.terminated | (stage == self.spec.horizon)
        after = np.zeros((len(states), self.spec.dim))
        if not ended.all():
            after[~ended] = self._simulator.features(step.states[~ended], stage + 1)
        values = np.column_stack([(~ended).astype(np.float64), step.rewards, after])
        self.raw.append((actions.astype(np.float64), values))
        return step

    def features(self, states: States, stage: int) -> FloatArray:
        return self._simulator.features(states, stage)

    def allowed(self, states: States, stage: int) -> BoolArray:
        if isinstance(self._simulator, TableSimulator):
            return self._simulator.allowed(states, stage)
        return np.ones((len(states), self.spec.actions), np.bool_)

    def drawn(self, action: int) -> FloatArray:
        """All draws of an action so far, in order: [n, 2 + d]."""
        return np.concatenate([values[actions == action] for actions, values in self.raw])


class Asked(NamedTuple):
    """An access with its simulator and a handle of the start."""

    access: Access
    noted: Noting
    start: Handle

    def measure(
        self, draws: int, key: int, actions: BoolArray | None = None, *, detail: bool = True
    ) -> Measurement:
        return self.access.measure(
            self.start, 1, draws, phase=Phase.REFINE, key=(key,), actions=actions, detail=detail
        )


def asked(simulator: Simulator, seed: int = 3) -> Asked:
    """Local access to a simulator that is noted."""
    noted = Noting(simulator)
    access = Access(noted, seed=seed)
    return Asked(access, noted, access.start())
