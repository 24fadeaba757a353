"""The engine for deterministic simulators: one query for each state, stage and action (B5 iv).

One draw is exact, so a single walk is the test of a parameter. Every state all of whose actions
were tried is a constraint, whether a test failed there or not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import count

import numpy as np

from tensorplan.errors import QueryBudgetError
from tensorplan.local import Handle, LocalAccess
from tensorplan.oracle.base import Optimum, Oracle, OracleStatus
from tensorplan.planners.adaptive.acting import GreedyPolicy
from tensorplan.planners.adaptive.evidence import Evidence, everything
from tensorplan.planners.adaptive.graph import Graph
from tensorplan.planners.adaptive.records import AdaptiveState, Policy, Trajectory
from tensorplan.planners.adaptive.settings import Resolved
from tensorplan.planners.adaptive.walk import End, Walk
from tensorplan.records import FloatArray, IterationEvent, Status

PAIRS_CHECKED = 10
"""Recorded pairs that are asked once more at the end, evenly spaced over the run (F6)."""

_TAIL = 0.5
"""Part of delta that what comes after the last step of a discounted walk may take."""


@dataclass(frozen=True, kw_only=True)
class DeterministicState(AdaptiveState):
    """The same, with what the beliefs rest on.

    Attributes:
        evidence: the beliefs and the answers behind them.
    """

    evidence: Evidence


class DeterministicEngine:
    """Plans by walks that ask what is not known.

    Args:
        access: local access to the simulator.
        start: a handle of the one start state.
        resolved: the run's numbers.
        oracle: chooses the optimistic parameter.
        rng: for the random walks of ``explore``.
        graph: transitions that are known already, if any.
    """

    def __init__(
        self,
        access: LocalAccess,
        start: Handle,
        resolved: Resolved,
        oracle: Oracle,
        rng: np.random.Generator,
        graph: Graph | None = None,
    ) -> None:
        self.resolved, self._access, self._oracle, self._rng = resolved, access, oracle, rng
        self.graph = graph if graph is not None else Graph(access, resolved)
        self._start = self.graph.node_of(start)
        self.objective = self.graph.features[self._start].copy()
        self._length = walk_length(resolved)
        self._check_keys = count()

    @property
    def grounds(self) -> str:
        """What the certificate rests on."""
        return "exact data: one draw tells all about a pair, up to rounding"

    @property
    def confidence(self) -> float:
        """Both bounds are certain."""
        return 1.0

    @property
    def rejection_level(self) -> float:
        """Exact data are never wrong by chance."""
        return 0.0

    @property
    def leans_on_norm(self) -> bool:
        """Exact data are what they are."""
        return False

    @property
    def episode_length(self) -> int:
        """Steps of an episode after which the rest can hardly matter."""
        return self._length

    def begin(self) -> DeterministicState:
        """Nothing is known but the ranges of values: every policy is worth the least of them."""
        evidence, ranges = Evidence.none(self.resolved), self.resolved.ranges
        return DeterministicState(
            beliefs=evidence.beliefs,
            upper=ranges.high(1),
            lower=ranges.low(1),
            trajectory=Trajectory((), (), ranges.low(1)),
            evidence=evidence,
        )

    def status(self, state: AdaptiveState) -> Status | None:
        """How the run ended, or None while it has not."""
        return state.status

    def stopped(self, state: AdaptiveState, status: Status) -> AdaptiveState:
        """The state, marked as ended from outside."""
        assert isinstance(state, DeterministicState)
        return self._ended(state, status)

    def step(self, state: AdaptiveState) -> AdaptiveState:
        """One optimistic parameter, and the walk that tests it."""
        assert isinstance(state, DeterministicState)
        if not state.events and self.resolved.settings.explore:
            state = self._explored(state)
        state = self._optimistic(state)
        if state.status is not None:
            return state
        assert state.optimum is not None
        walk = self._walk(state, state.optimum.theta)
        answers = len(self.graph.asked)
        try:
            end = walk.run()
        except QueryBudgetError:
            return self._ended(self._after(state, walk), Status.BUDGET)
        events = (*state.events, self._event(state, walk, end))
        return self._concluded(replace(self._after(state, walk), events=events), end, answers)

    def continued(
        self, state: AdaptiveState, *, start: Handle | None = None, delta: float | None = None
    ) -> tuple[DeterministicEngine, DeterministicState]:
        """What goes on from a finished run, with all answers: another start, or delta (B7)."""
        assert isinstance(state, DeterministicState)
        resolved = self.resolved
        if delta is not None:
            settings = replace(resolved.settings, delta=delta)
            resolved = replace(resolved, settings=settings)
        here = self.graph.handles[self._start] if start is None else start
        engine = DeterministicEngine(
            self._access, here, resolved, self._oracle, self._rng, self.graph
        )
        engine._check_keys = self._check_keys
        if start is None:
            return engine, replace(state, status=None, checked=False)
        return engine, replace(engine.begin(), beliefs=state.beliefs, evidence=state.evidence)

    def reread(
        self, state: AdaptiveState, resolved: Resolved
    ) -> tuple[DeterministicEngine, DeterministicState]:
        """What goes on from all answers, read with other numbers; this engine must not go on."""
        assert isinstance(state, DeterministicState)
        engine = DeterministicEngine(
            self._access,
            self.graph.handles[self._start],
            resolved,
            self._oracle,
            self._rng,
            self.graph.read_by(resolved),
        )
        engine._check_keys = self._check_keys
        evidence = everything(engine.graph, resolved)
        known = replace(
            state, evidence=evidence, beliefs=evidence.beliefs, status=None, checked=False
        )
        return engine, replace(known, upper=resolved.ranges.high(1), optimum=None)

    def episode_cost(self, state: AdaptiveState) -> int:
        """Most queries that playing an episode takes: the trajectory is played without any."""
        known = 0 if state.trajectory is None else len(state.trajectory.actions)
        return (self._length - known) * self._access.spec.actions

    def policy(self, state: AdaptiveState) -> Policy:
        """The one-sided test by asking, for states that are not on the trajectory."""
        theta = np.zeros(self._access.spec.dim) if state.theta is None else state.theta
        preference = self._walk(state, theta).preference
        return GreedyPolicy(self._access, self.resolved, theta, np.argsort(-preference))

    def _walk(self, state: AdaptiveState, theta: FloatArray) -> Walk:
        goal = state.upper - self.resolved.delta
        return Walk(self.graph, self.resolved, theta, self._start, self._length, goal)

    def _explored(self, state: DeterministicState) -> DeterministicState:
        """The state after random walks; a budget that ends is noticed by the next query."""
        for _ in range(self.resolved.settings.explore):
            walk = self._walk(state, np.zeros(self._access.spec.dim))
            try:
                walk.wander(self._rng)
            except QueryBudgetError:
                break
            finally:
                state = _better(state, walk)
        return state

    def _searched(self, evidence: Evidence, nodes: int) -> tuple[Evidence, Optimum, int]:
        """The optimistic parameter that breaks no range of a known state: with the cuts for it."""
        while True:
            optimum = self._oracle.maximise(self.objective, evidence.beliefs)
            nodes += optimum.nodes
            if optimum.status is not OracleStatus.OPTIMAL:
                return evidence, optimum, nodes
            cut = evidence.cut_where_broken(self.graph, self.resolved, optimum.theta)
            if cut is evidence:
                return evidence, optimum, nodes
            evidence = cut

    def _optimistic(self, state: DeterministicState) -> DeterministicState:
        """The optimistic parameter of all that is known; the state is ended if that settles it."""
        known = state.evidence.taking_in(self.graph, self.resolved)
        evidence, optimum, nodes = self._searched(known, state.nodes)
        upper = min(state.upper, optimum.upper + self.resolved.eta)
        state = replace(
            state,
            beliefs=evidence.beliefs,
            evidence=evidence,
            optimum=optimum,
            nodes=nodes,
            upper=upper,
        )
        if optimum.status is OracleStatus.EMPTY:
            return self._ended(state, Status.REJECTED)
        predicted = float(self.objective @ optimum.theta)
        state = replace(state, theta=optimum.theta, predicted=predicted)
        if state.lower >= upper - self.resolved.delta:
            return self._ended(state, Status.CERTIFIED)
        if optimum.status is OracleStatus.LIMIT:
            return self._ended(state, Status.ORACLE_GAP)
        return state

    def _after(self, state: DeterministicState, walk: Walk) -> DeterministicState:
        """The state with what a walk brought, whole or cut short."""
        evidence = state.evidence.taking_in(self.graph, self.resolved)
        return replace(_better(state, walk), evidence=evidence, beliefs=evidence.beliefs)

    def _event(self, state: DeterministicState, walk: Walk, end: End) -> IterationEvent:
        return IterationEvent(
            iteration=state.iteration + 1,
            upper=state.upper,
            predicted=state.predicted,
            theta=tuple(float(x) for x in walk.theta),
            failed=(0, walk.stage) if end in (End.FAILED, End.EXCLUDED) else None,
            queries=self._access.queries.total,
            nodes=state.nodes,
        )

    def _concluded(self, state: DeterministicState, end: End, answers: int) -> DeterministicState:
        """The state, ended if the walk or the limit of iterations ends the run.

        Emptiness is looked at before anything is called clean or certified (F4).
        """
        if end in (End.CLEAN, End.ENOUGH):
            state = self._optimistic(state)
            return state if state.status is not None else self._ended(state, Status.CLEAN)
        if len(self.graph.asked) == answers:
            # The oracle's parameter breaks what it was told: nothing more can be learnt from it.
            return self._ended(state, Status.ORACLE_GAP)
        limit = self.resolved.settings.iteration_limit
        if limit is not None and state.iteration >= limit:
            return self._ended(state, Status.BUDGET)
        return state

    def _ended(self, state: DeterministicState, status: Status) -> DeterministicState:
        """The state at the end of the run, after a second look at some answers."""
        try:
            self._check(state)
        except QueryBudgetError:
            unpaid = status if status in _OPEN_ENDED else Status.BUDGET
            return replace(state, status=unpaid)
        return replace(state, status=status, checked=len(self.graph.asked) > 0)

    def _check(self, state: AdaptiveState) -> None:
        """Ask the trajectory and some recorded pairs once more (F6)."""
        assert state.trajectory is not None
        node, handle, asked = self._start, self.graph.handles[self._start], self.graph.asked
        for action in state.trajectory.actions:
            handle = self.graph.ask_again(node, action, handle, next(self._check_keys))
            node = int(self.graph.following[node, action])
        chosen = np.linspace(0, len(asked) - 1, min(PAIRS_CHECKED, len(asked))).round()
        for index in chosen.tolist():
            node, action = asked[int(index)]
            self.graph.ask_again(node, action, self.graph.handles[node], next(self._check_keys))


_OPEN_ENDED = (Status.BUDGET, Status.CANCELLED, Status.ORACLE_GAP)
"""Endings that promise nothing which a second look would have to confirm first."""


def walk_length(resolved: Resolved) -> int:
    """Most steps of a walk: H, or as many as leave a small part of delta to the rest (F7)."""
    horizon, discount = resolved.spec.horizon, resolved.spec.discount
    if horizon is not None:
        return horizon
    room = _TAIL * resolved.delta / (resolved.ranges.width(1) + 2 * resolved.eta)
    return 1 if discount == 0 else max(1, math.ceil(math.log(room) / math.log(discount)))


def _better(state: DeterministicState, walk: Walk) -> DeterministicState:
    """The state with the trajectory of a walk, if it is worth more than the one there is."""
    if walk.best[0] <= state.lower:
        return state
    return replace(state, trajectory=walk.trajectory, lower=walk.best[0])
