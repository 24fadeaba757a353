"""What the adaptive planner knows between two steps on a stochastic simulator."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Self

from tensorplan.oracle.base import Optimum
from tensorplan.planners.adaptive.book import Slab
from tensorplan.planners.adaptive.records import AdaptiveState
from tensorplan.planners.adaptive.rollouts import RolloutPolicy


@dataclass(frozen=True)
class Looks:
    """Attempts to certify a policy by fresh rollouts.

    Attributes:
        count: how many there were; each spends a level of its own.
        failed: how many of them closed no gap.
        spent: all queries up to the end of the last one.
        seen: rollouts of the last one.
        mean: mean return of them.
        upper: the upper bound at that time.
    """

    count: int = 0
    failed: int = 0
    spent: int = 0
    seen: int = 0
    mean: float = 0.0
    upper: float = math.inf


@dataclass
class Spent:
    """What a run, and all that go on from it, have used up: it stays used up where a step is lost.

    Attributes:
        named: queries that have a name.
        opened: critical states that were drawn from.
        looks: attempts to certify that were begun.
    """

    named: int = 0
    opened: int = 0
    looks: int = 0

    def follow(self, state: State) -> None:
        """Count what a state says has been used up, too."""
        self.named = max(self.named, state.named)
        self.opened = max(self.opened, state.opened)
        self.looks = max(self.looks, state.looks.count)


@dataclass(frozen=True)
class State(AdaptiveState):
    """What the planner knows between two steps.

    Attributes:
        slabs: the critical states with their draws, in the order of the beliefs.
        opened: how many have ever been drawn from; each spends a level of its own (F1.1).
        best: the policy that the lower bound is about.
        looks: attempts to certify.
        named: how many queries have been named; no name is used twice.
        spread_upper: the upper bound at which spreads were computed last.
    """

    slabs: tuple[Slab, ...] = ()
    opened: int = 0
    best: RolloutPolicy | None = None
    looks: Looks = Looks()
    named: int = 0
    spread_upper: float = math.inf

    @property
    def choice(self) -> Optimum:
        """The last optimistic choice, once there is one."""
        assert self.optimum is not None
        return self.optimum

    def with_slab(self, place: int, slab: Slab, discount: float) -> Self:
        """The state after more draws or a sharper radius at one critical state."""
        slabs = (*self.slabs[:place], slab, *self.slabs[place + 1 :])
        beliefs = self.beliefs.refined(place, slab.state(discount))
        return replace(self, slabs=slabs, beliefs=beliefs)

    def with_new_slab(self, slab: Slab, discount: float) -> Self:
        """The state after another critical state was opened."""
        beliefs = self.beliefs.with_state(slab.state(discount))
        opened = max(self.opened, slab.index)
        return replace(self, slabs=(*self.slabs, slab), beliefs=beliefs, opened=opened)
