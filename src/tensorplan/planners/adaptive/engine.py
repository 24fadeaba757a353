"""What both ways of planning on a stochastic simulator share (theory C and F).

A step finds the optimistic parameter, and looks at emptiness first, then at the gap. What a run
does when neither ends it is up to the subclass: for features of any kind
(:mod:`~tensorplan.planners.adaptive.general`), and for features along the axes
(:mod:`~tensorplan.planners.adaptive.tabular`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from typing import Generic, Self, TypeVar

import numpy as np

from tensorplan.estimate import betting_lower
from tensorplan.hypotheses import Hypotheses
from tensorplan.local import Handle, Key, LocalAccess
from tensorplan.oracle.base import OracleStatus
from tensorplan.oracle.slabs import SlabOracle
from tensorplan.planners.adaptive.book import Book, Slab, Spreads, open_slab
from tensorplan.planners.adaptive.records import AdaptiveState
from tensorplan.planners.adaptive.rollouts import RolloutPolicy, roll, rollout_length
from tensorplan.planners.adaptive.settings import Resolved
from tensorplan.planners.adaptive.state import Looks, Spent, State
from tensorplan.records import FloatArray, IntArray, IterationEvent, Phase, Status

StateT = TypeVar("StateT", bound=State)

LOOK_SIZE, LOOK_GROWTH = 64, 1.6
"""Rollouts of an attempt to certify: so many first, and then so many times more."""

MOST_IN_LOOK = 1 << 17
"""Rollouts after which an attempt is given up."""

WIDEST_BATCH = 4096
"""Rollouts that walk together."""

HOPELESS = 0.9
"""An attempt is given up where the gap to the mean return is this part of the goal."""

DEAREST = 0.7
"""... or where it would cost this part of all queries before it."""

AGAIN = 1.15
"""Growth of the number of queries after which another attempt is worth its level."""

RESPREAD = 0.97
"""Spreads are computed anew when the upper bound's distance from the least value has fallen to this
part of what it was."""

TAIL = 0.01
"""What the stages after a rollout of an endless process may be worth, as a part of delta."""


class ExecutedPolicy:
    """A policy of rollouts as a plan acts by it: the same procedure, with fresh draws (F4)."""

    def __init__(self, access: LocalAccess, policy: RolloutPolicy) -> None:
        self._access, self.followed = access, policy

    def actions(
        self, states: Handle, stage: int, key: Key, *, phase: Phase = Phase.ACT
    ) -> IntArray:
        """Actions for n states: [n]."""
        return self.followed.act(self._access, states, phase, key)[0]


class StochasticEngine(ABC, Generic[StateT]):
    """Begin, step, until done.

    Args:
        access: local access.
        start: a handle of the one start state.
        resolved: what to run.
        oracle: chooses the optimistic parameter.
    """

    def __init__(
        self, access: LocalAccess, start: Handle, resolved: Resolved, oracle: SlabOracle
    ) -> None:
        self.access, self.start, self.resolved, self.oracle = access, start, resolved, oracle
        self.ranges, self.discount = resolved.ranges, resolved.spec.discount
        self.objective = access.features(start)[0]
        # Both bounds get half of what confidence leaves (B9).
        self.book = self.make_book(resolved.level / 2)
        self._look_level = resolved.level / 2
        self.length = rollout_length(self.ranges, TAIL * resolved.delta)
        self.spent = Spent()

    @property
    def most_nodes(self) -> int | None:
        """Node solves after which a bound will do, where what attains it is not needed."""
        return None

    @property
    def grounds(self) -> str:
        """What the certificate rests on."""
        return "confidence bounds that hold at all times at once (B2, B9, F1, F4)"

    @property
    def confidence(self) -> float:
        """Probability with which both bounds hold."""
        return self.resolved.settings.confidence

    @property
    def rejection_level(self) -> float:
        """Probability with which a rejection may be wrong: what all slabs together spend (B10)."""
        return self.book.level

    @property
    def leans_on_norm(self) -> bool | None:
        """Whether some radius is smaller because of the norm bound B; None if that may be.

        Radii follow from spreads over what is believable, of which the ball is a part.
        """
        return self.book.leans_on_norm or None

    @property
    def episode_length(self) -> int:
        """Steps of an episode after which the rest can hardly matter."""
        return self.length

    def make_book(self, level: float) -> Book:
        """How levels are spent."""
        return Book(self.resolved, level)

    @abstractmethod
    def begin(self) -> StateT:
        """The state before the first step."""

    @abstractmethod
    def policy_of(self, state: StateT) -> RolloutPolicy:
        """The policy that seems best where none has been certified."""

    @abstractmethod
    def work(self, state: StateT) -> StateT:
        """Certify a policy, or sharpen the data."""

    @abstractmethod
    def spreads(self, state: StateT, slab: Slab) -> Spreads:
        """How far the answers at a critical state can spread at any believable parameter."""

    @abstractmethod
    def first_draws(self, stage: int) -> int:
        """Draws of each action at the first critical state."""

    def status(self, state: AdaptiveState) -> Status | None:
        """How the run ended, or None while it has not."""
        return state.status

    def stopped(self, state: StateT, status: Status) -> StateT:
        """The state, marked as ended from outside; what was under way stays named and spent."""
        spent, looks = self.spent, replace(state.looks, count=self.spent.looks)
        return replace(state, status=status, named=spent.named, opened=spent.opened, looks=looks)

    def step(self, state: StateT) -> StateT:
        """One optimistic choice, and what follows from it."""
        self.spent.follow(state)
        if not self.is_open(state, self.start):
            state = self.open(state, self.start, self.first_draws(1))
        state = self._choose(state)
        if state.status is None and state.upper - state.lower <= self.resolved.delta:
            state = replace(state, status=Status.CERTIFIED)
        limit = self.resolved.settings.iteration_limit
        if state.status is None and limit is not None and state.iteration >= limit:
            state = replace(state, status=Status.BUDGET)
        if state.status is None:
            state = self.work(state)
        return self._told(replace(state, named=self.spent.named))

    def is_open(self, state: StateT, handle: Handle) -> bool:
        """Whether a state is critical already."""
        return any(slab.handle is handle for slab in state.slabs)

    def policy(self, state: StateT) -> ExecutedPolicy:
        """How the plan of a finished run acts: by the policy that the lower bound is about."""
        best = state.best
        return ExecutedPolicy(self.access, self.policy_of(state) if best is None else best)

    def continued(
        self, state: StateT, *, start: Handle | None = None, delta: float | None = None
    ) -> tuple[Self, StateT]:
        """What goes on from a finished run with all that is known: another start, or delta (B7)."""
        engine = copy(self)
        if delta is not None:
            settings = replace(self.resolved.settings, delta=delta)
            engine.resolved = replace(self.resolved, settings=settings)
            engine.length = rollout_length(self.ranges, TAIL * delta)
        state = replace(state, status=None)
        if start is None:
            return engine, state
        engine.start, engine.objective = start, self.access.features(start)[0]
        fresh = self.begin()
        return engine, replace(
            state,
            upper=fresh.upper,
            lower=fresh.lower,
            best=None,
            optimum=None,
            events=(),
            spread_upper=math.inf,
        )

    def name(self) -> int:
        """A name for the next query, never used before."""
        self.spent.named += 1
        return self.spent.named

    def nothing_known(self) -> Hypotheses:
        """The ball."""
        resolved = self.resolved
        return Hypotheses(
            dim=resolved.spec.dim,
            norm=resolved.norm,
            root=0.0,
            slab_width=resolved.slack(),
            bellman=resolved.bellman,
        )

    def open(self, state: StateT, handle: Handle, draws: int) -> StateT:
        """Make a state critical, by draws of all its actions; they open an index (F1)."""
        self.spent.follow(state)
        self.spent.opened += 1
        index = self.spent.opened
        measurement = self.access.measure(
            handle, handle.stage, draws, phase=Phase.REFINE, key=(self.name(),), detail=True
        )
        slab = open_slab(index, handle, measurement)
        state = replace(state, beliefs=state.beliefs.with_cuts(self.book.cuts(slab)))
        slab = self.book.with_radii(slab, self.spreads(state, slab))
        return state.with_new_slab(slab, self.discount)

    def refine(self, state: StateT, place: int, more: Mapping[int, int]) -> StateT:
        """Draw more at a critical state.

        Args:
            state: what is known.
            place: of the critical state.
            more: position of an action among those available -> draws.
        """
        slab = state.slabs[place]
        for draws in sorted(set(more.values())):
            chosen = np.zeros((1, self.resolved.spec.actions), np.bool_)
            chosen[0, slab.actions[[a for a, count in more.items() if count == draws]]] = True
            measurement = self.access.measure(
                slab.handle,
                slab.stage,
                draws,
                phase=Phase.REFINE,
                key=(self.name(),),
                actions=chosen,
                detail=True,
            )
            slab = slab.with_draws(measurement)
        fresh = self.book.with_radii(slab, self.spreads(state, slab))
        return state.with_slab(place, fresh, self.discount)

    def respread(self, state: StateT) -> StateT:
        """Radii by the spread over what is believable now, where they have become smaller."""
        # All by one set, so that it is propagated once.
        sharper = [self.book.with_radii(slab, self.spreads(state, slab)) for slab in state.slabs]
        for place, (slab, fresh) in enumerate(zip(state.slabs, sharper, strict=True)):
            if np.any(fresh.radii < RESPREAD * slab.radii):
                # The data are the same, so both radii hold.
                fresh = replace(fresh, radii=np.minimum(fresh.radii, slab.radii))
                state = state.with_slab(place, fresh, self.discount)
        return replace(state, spread_upper=state.upper)

    def verify(self, state: StateT, policy: RolloutPolicy) -> StateT:
        """Try to certify a policy by fresh rollouts, at a level of this attempt's own (B9, F4)."""
        level = self.look_level(state)
        self.spent.follow(state)
        self.spent.looks += 1
        look = self.spent.looks
        goal, whole = self.resolved.delta, self.ranges.summed(self.ranges.horizon)
        returns, before = np.zeros(0), self.access.queries.total
        size, lower = LOOK_SIZE, -math.inf
        while size <= MOST_IN_LOOK:
            while len(returns) < size:
                batch = roll(
                    self.access,
                    self.start,
                    policy,
                    min(size - len(returns), WIDEST_BATCH),
                    length=self.length,
                    phase=Phase.VERIFY,
                    key=(self.name(),),
                )
                returns = np.concatenate([returns, batch.returns])
            lower = betting_lower(returns, self.ranges.rest_low, level)
            lower -= self.resolved.inaccuracy * whole
            if state.upper - lower <= goal or self._hopeless(state, returns, before):
                break
            size = math.ceil(size * LOOK_GROWTH)
        done = state.upper - lower <= goal
        spent, failed = self.access.queries.total, state.looks.failed + (not done)
        looks = Looks(look, failed, spent, len(returns), float(returns.mean()), state.upper)
        state = replace(state, looks=looks)
        if lower > state.lower:
            state = replace(state, lower=lower, best=policy)
        return replace(state, status=Status.CERTIFIED) if done else state

    def may_look(self, state: StateT) -> bool:
        """Whether enough has happened since the last attempt to certify."""
        return self.access.queries.total >= AGAIN * state.looks.spent

    def rollouts_to_certify(self, state: StateT, returns: FloatArray, error: float = 0.0) -> float:
        """Rollouts after which returns like these are likely to close the gap.

        Args:
            state: what is known.
            returns: [n].
            error: by how much the mean may be larger than that of the returns.
        """
        mean = float(returns.mean())
        room = self.resolved.delta - (state.upper - mean) + error
        if room <= 0:
            return math.inf
        log = math.log(1 / self.look_level(state))
        return float(2 * log * (returns.var() / room**2 + (mean - self.ranges.rest_low) / room))

    def look_level(self, state: StateT) -> float:
        """Level of the next attempt to certify; over all attempts they add up."""
        begun = max(self.spent.looks, state.looks.count)
        return 6 * self._look_level / (math.pi**2 * (begun + 1) ** 2)

    def _hopeless(self, state: StateT, returns: FloatArray, before: int) -> bool:
        """Whether to give an attempt up: it is likely to cost more than most queries before it."""
        count, error = len(returns), float(returns.std()) / math.sqrt(len(returns))
        if state.upper - returns.mean() - 2 * error > HOPELESS * self.resolved.delta:
            return True
        needed = self.rollouts_to_certify(state, returns, error)
        each = (self.access.queries.total - before) / count
        return bool(count > 4 * needed or each * (needed - count) > DEAREST * before)

    def _choose(self, state: StateT) -> StateT:
        """The optimistic parameter, and the upper bound."""
        low = self.ranges.low(1)
        before = state.spread_upper - low
        if math.isinf(before) or state.upper - low <= RESPREAD * before:
            state = self.respread(state)
        optimum = self.oracle.maximise(self.objective, state.beliefs, most_nodes=self.most_nodes)
        state = replace(state, optimum=optimum, nodes=state.nodes + optimum.nodes)
        if optimum.status is OracleStatus.EMPTY:
            return self.emptied(state)
        upper = max(min(optimum.upper + self.resolved.eta, state.upper), self.floor(state))
        if optimum.status is OracleStatus.LIMIT and self.most_nodes is None:
            return replace(state, upper=upper, status=Status.ORACLE_GAP)
        return replace(state, upper=upper, theta=optimum.theta, predicted=optimum.value)

    def floor(self, state: StateT) -> float:
        """What the upper bound cannot fall below, as parameters worth less were left out."""
        return -math.inf

    def emptied(self, state: StateT) -> StateT:
        """The state once no parameter is left."""
        return replace(state, status=Status.REJECTED)

    def _told(self, state: StateT) -> StateT:
        optimum = state.choice
        event = IterationEvent(
            iteration=len(state.events) + 1,
            upper=state.upper,
            predicted=optimum.value,
            theta=tuple(optimum.theta.tolist()),
            failed=None,
            queries=self.access.queries.total,
            nodes=state.nodes,
        )
        return replace(state, events=(*state.events, event))
