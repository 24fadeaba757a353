"""Algorithms 1 to 3 of the paper, line by line.

Algorithm 2 (ApproxTD) is :meth:`tensorplan.local.LocalAccess.measure`; the inner loops of
Algorithm 3 are in :mod:`tensorplan.planners.paper.iteration`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from tensorplan.errors import QueryBudgetError, SettingError
from tensorplan.guards import require_same
from tensorplan.hypotheses import CriticalState, Hypotheses
from tensorplan.local import Handle, Key, LocalAccess, Measurement
from tensorplan.oracle.base import Optimum, Oracle, OracleStatus
from tensorplan.planners.paper.iteration import (
    Failure,
    Iteration,
    TestRecord,
    select,
)
from tensorplan.planners.paper.settings import PaperSettings, Resolved, resolve
from tensorplan.planners.world import World
from tensorplan.records import FloatArray, IntArray, IterationEvent, Phase, Status


@dataclass(frozen=True)
class PaperState:
    """What the planner knows between two iterations.

    Attributes:
        beliefs: the data list Delta, as the set Sol.
        optimum: theta_tau of the last iteration, and its upper bound.
        status: how the run ended, or None.
        events: one for each iteration.
        mean_return: mean return of the last iteration's rollouts, where it was clean.
        nodes: subproblems that the oracle solved.
        last_failure: the failure that was kept last, with its refined sample.
        tests: every measurement, if they are recorded.
        failures: every kept failure with its refined sample, likewise.
    """

    beliefs: Hypotheses
    optimum: Optimum | None = None
    status: Status | None = None
    events: tuple[IterationEvent, ...] = ()
    mean_return: float = math.nan
    nodes: int = 0
    last_failure: tuple[Failure, Measurement] | None = field(default=None, repr=False)
    tests: tuple[TestRecord, ...] = field(default=(), repr=False)
    failures: tuple[tuple[Failure, Measurement], ...] = field(default=(), repr=False)

    @property
    def iteration(self) -> int:
        """tau of the last iteration; 0 before the first."""
        return len(self.events)


class PaperPlanner:
    """TensorPlan.Init (Algorithm 3), one iteration over tau a step.

    Args:
        world: start state and simulator, or session.
        settings: what to run.
        oracle: chooses the optimistic parameter.
    """

    def __init__(self, world: World, settings: PaperSettings, oracle: Oracle) -> None:
        self.world, self.oracle = world, oracle
        _check_pair(settings, oracle)
        self.resolved: Resolved = resolve(settings, world.spec)
        self._objective = world.start_features()

    def begin(self) -> PaperState:
        """Line 2: no data yet."""
        resolved = self.resolved
        return PaperState(
            Hypotheses(
                dim=self.world.spec.dim,
                norm=resolved.norm,
                root=resolved.root,
                slab_width=resolved.slab_width,
            )
        )

    def status(self, state: PaperState) -> Status | None:
        """How the run ended, or None while it has not."""
        return state.status

    def stopped(self, state: PaperState, status: Status) -> PaperState:
        """The state, marked as ended from outside."""
        return replace(state, status=status)

    def step(self, state: PaperState) -> PaperState:
        """Lines 4 to 19: one iteration over tau."""
        optimum = self._optimistic(state)
        state = replace(state, optimum=optimum, nodes=state.nodes + optimum.nodes)
        if optimum.status is OracleStatus.EMPTY:
            return self._reject(state)
        if optimum.status is OracleStatus.LIMIT:
            return replace(state, status=Status.ORACLE_GAP)
        try:
            iteration = Iteration(self.world, self.resolved, optimum.theta, state.iteration + 1)
            return self._conclude(state, iteration, iteration.run())
        except QueryBudgetError:
            # What the oracle said is kept: its upper bound is valid.
            return replace(state, status=Status.BUDGET)

    def _optimistic(self, state: PaperState) -> Optimum:
        """Line 5; an iteration that brought no data keeps its parameter."""
        no_data = bool(state.events) and state.events[-1].failed is None
        if no_data and state.optimum is not None:
            return replace(state.optimum, nodes=0)
        return self.oracle.maximise(self._objective, state.beliefs)

    def _conclude(
        self, state: PaperState, iteration: Iteration, failure: Failure | None
    ) -> PaperState:
        """Lines 13, 14 and 18: keep the failure's data, or end with a clean run."""
        clean = failure is None and iteration.return_matches(self._objective)
        if failure is not None:
            refined = failure.refined()
            rows = refined.rows[0][refined.measured[0]]
            beliefs = state.beliefs.with_state(CriticalState(failure.stage, rows))
            state = replace(state, beliefs=beliefs, last_failure=(failure, refined))
            if self.resolved.settings.record:
                state = replace(state, failures=(*state.failures, (failure, refined)))
        state = replace(
            state,
            events=(*state.events, self._event(state, iteration, failure)),
            tests=(*state.tests, *iteration.tests),
            mean_return=iteration.mean_return if failure is None else math.nan,
        )
        if clean:
            if self.world.spec.deterministic:
                iteration.check_path()
            return replace(state, status=Status.CLEAN)
        last = state.iteration >= self.resolved.iterations
        return replace(state, status=Status.BUDGET) if last else state

    def _reject(self, state: PaperState) -> PaperState:
        """No parameter is left; data that a deterministic simulator takes back prove nothing."""
        if self.world.spec.deterministic and state.last_failure is not None:
            failure, refined = state.last_failure
            same = np.array_equal(failure.again().rows, refined.rows)
            require_same(same, failure.stage)
        return replace(state, status=Status.REJECTED)

    def _event(
        self, state: PaperState, iteration: Iteration, failure: Failure | None
    ) -> IterationEvent:
        optimum = state.optimum
        return IterationEvent(
            iteration=iteration.number,
            upper=math.inf if optimum is None else optimum.upper,
            predicted=float(self._objective @ iteration.theta),
            theta=tuple(float(x) for x in iteration.theta),
            failed=None if failure is None else (failure.rollout, failure.stage),
            queries=self.world.queries.total,
            nodes=state.nodes,
        )


def _check_pair(settings: PaperSettings, oracle: Oracle) -> None:
    """Refuse zero thresholds with an oracle to which what is small is zero."""
    if settings.exact and not oracle.proved:
        raise SettingError(
            f"exact=True with oracle={oracle.name!r}",
            "a failed test then shows an error that this solver's tolerances forgive, so that the "
            "same parameter comes back and the bound on failed tests breaks",
            "Use oracle='slabs', or leave exact out.",
        )


class PaperPolicy:
    """TensorPlan.GetAction (Algorithm 1) after Init, for a batch of states.

    Args:
        access: local access to the simulator.
        theta: [d], the parameter that Init saved.
        resolved: the run's rule and sizes.
    """

    def __init__(self, access: LocalAccess, theta: FloatArray, resolved: Resolved) -> None:
        self._access, self._theta, self._resolved = access, theta, resolved

    def actions(
        self, states: Handle, stage: int, key: Key, *, phase: Phase = Phase.ACT
    ) -> IntArray:
        """Actions for n states: [n]."""
        draws = self._resolved.sizes.test_draws
        measurement = self._access.measure(states, stage, draws, phase=phase, key=key)
        return select(measurement, self._theta, self._resolved.settings.rule)[0]
