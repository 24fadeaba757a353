"""What the adaptive planner knows between two steps on a stochastic simulator."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from tensorplan.hypotheses import Hypotheses
from tensorplan.oracle.base import Optimum
from tensorplan.planners.adaptive.book import Slab
from tensorplan.planners.adaptive.rollouts import Policy
from tensorplan.records import IterationEvent, Status


@dataclass(frozen=True)
class Look:
    """Attempts to certify a policy by fresh rollouts.

    Attributes:
        count: how many there were; each spends a level of its own.
        failed: how many of them closed no gap.
        spent: all queries up to the end of the last one.
    """

    count: int = 0
    failed: int = 0
    spent: int = 0


@dataclass(frozen=True)
class State:
    """What the planner knows between two steps.

    Attributes:
        beliefs: the set that the data leave.
        slabs: its critical states with their draws, in the same order.
        optimum: the last optimistic choice.
        upper: smallest upper bound so far.
        lower: largest lower bound so far.
        best: the policy that the lower bound is about.
        looks: attempts to certify.
        batches: batches of rollouts so far; they name random streams.
        spread_upper: the upper bound at which spreads were computed last.
        status: how the run ended, or None.
        events: one for each step.
        nodes: subproblems that the oracle solved.
    """

    beliefs: Hypotheses
    slabs: tuple[Slab, ...] = ()
    optimum: Optimum | None = None
    upper: float = math.inf
    lower: float = -math.inf
    best: Policy | None = None
    looks: Look = Look()
    batches: int = 0
    spread_upper: float = math.inf
    status: Status | None = None
    events: tuple[IterationEvent, ...] = ()
    nodes: int = 0

    @property
    def choice(self) -> Optimum:
        """The last optimistic choice, once there is one."""
        assert self.optimum is not None
        return self.optimum

    def with_slab(self, place: int, slab: Slab, discount: float) -> State:
        """The state after more draws or a sharper radius at one critical state."""
        slabs = (*self.slabs[:place], slab, *self.slabs[place + 1 :])
        beliefs = self.beliefs.refined(place, slab.state(discount))
        return replace(self, slabs=slabs, beliefs=beliefs)

    def with_new_slab(self, slab: Slab, discount: float) -> State:
        """The state after another critical state was opened."""
        beliefs = self.beliefs.with_state(slab.state(discount))
        return replace(self, slabs=(*self.slabs, slab), beliefs=beliefs)
