"""What both engines of the adaptive planner hand over, and how they act."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from tensorplan.hypotheses import Hypotheses
from tensorplan.local import Handle, Key
from tensorplan.oracle.base import Optimum
from tensorplan.planners.adaptive.settings import Resolved
from tensorplan.records import FloatArray, IntArray, IterationEvent, Phase, Status


@dataclass(frozen=True)
class Trajectory:
    """Actions from the start on, and what they are worth.

    Attributes:
        actions: the first ones of an episode; what comes after them is free.
        states: the handle of the state of each action.
        lower: at least the value of any policy that begins with them (F10.7).
    """

    actions: tuple[int, ...]
    states: tuple[Handle, ...] = field(repr=False)
    lower: float


@dataclass(frozen=True)
class AdaptiveState:
    """What the adaptive planner knows between two iterations, and at the end.

    Attributes:
        beliefs: what is still believable.
        upper: bound on the value of the best realizable policy: the least of all iterations.
        lower: bound on the value of the plan.
        theta: [d], the parameter that the plan follows, the last one; None before the first
            iteration.
        predicted: what it predicts at the start.
        optimum: the oracle's last answer.
        status: how the run ended, or None.
        events: one for each iteration.
        nodes: subproblems that the oracle solved.
        trajectory: what a deterministic plan plays from the start without asking; None otherwise.
        checked: whether a deterministic simulator repeated what it had answered.
    """

    beliefs: Hypotheses
    upper: float
    lower: float
    theta: FloatArray | None = None
    predicted: float = -np.inf
    optimum: Optimum | None = None
    status: Status | None = None
    events: tuple[IterationEvent, ...] = ()
    nodes: int = 0
    trajectory: Trajectory | None = None
    checked: bool = False

    @property
    def iteration(self) -> int:
        """Number of the last iteration; 0 before the first."""
        return len(self.events)


class Policy(Protocol):
    """How a plan acts at states that the environment brings up."""

    def actions(
        self, states: Handle, stage: int, key: Key, *, phase: Phase = Phase.ACT
    ) -> IntArray:
        """Actions for n states: [n]; what is asked for them is counted under a phase."""
        ...


class Engine(Protocol):
    """A way to plan: for deterministic simulators, or for stochastic ones."""

    @property
    def resolved(self) -> Resolved:
        """The run's numbers."""
        ...

    @property
    def grounds(self) -> str:
        """What the certificate rests on."""
        ...

    @property
    def confidence(self) -> float:
        """Probability with which both bounds hold."""
        ...

    @property
    def rejection_level(self) -> float:
        """Probability with which a rejection may be wrong."""
        ...

    @property
    def leans_on_norm(self) -> bool:
        """Whether the data themselves are read in the light of the norm bound B."""
        ...

    @property
    def episode_length(self) -> int:
        """Steps of an episode after which the rest can hardly matter."""
        ...

    def begin(self) -> AdaptiveState:
        """The state before the first iteration."""
        ...

    def step(self, state: AdaptiveState) -> AdaptiveState:
        """The state after one more iteration."""
        ...

    def status(self, state: AdaptiveState) -> Status | None:
        """How the run ended, or None while it has not."""
        ...

    def stopped(self, state: AdaptiveState, status: Status) -> AdaptiveState:
        """The state, marked as ended from outside."""
        ...

    def continued(
        self, state: AdaptiveState, *, start: Handle | None = None, delta: float | None = None
    ) -> tuple[Engine, AdaptiveState]:
        """What goes on from a finished run, with all that is known: another start, or delta."""
        ...

    def episode_cost(self, state: AdaptiveState) -> int:
        """Most queries that playing an episode of the plan takes."""
        ...

    def policy(self, state: AdaptiveState) -> Policy:
        """How the plan of a finished run acts."""
        ...
