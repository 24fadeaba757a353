"""Algorithms 1 to 3 of the paper, line by line.

``approx_measure`` of the paper (Algorithm 2) is :meth:`tensorplan.access.Access.measure`.
Rollouts of an iteration go in batches, in lockstep; the failed test that is kept is the one
that comes first in the printed order (rollout, then stage), so the outcome has the law of the
printed loops. Only the queries of rollouts that were under way with it come on top.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from tensorplan.access import Access, Handle, Key, Measurement
from tensorplan.hypotheses import CriticalState, Hypotheses
from tensorplan.oracle.base import Optimum, Oracle, OracleStatus
from tensorplan.planners.paper.settings import PaperSettings, Resolved, Rule, resolve
from tensorplan.planners.world import Walk, World
from tensorplan.records import BoolArray, FloatArray, IntArray, IterationEvent, Phase, Status


@dataclass(frozen=True)
class TestRecord:
    """All tests of one batch of rollouts at one stage.

    Attributes:
        iteration: tau.
        stage: j.
        rollouts: [n], t.
        states: handle of the states, where they can be held.
        measurement: the sample that was tested.
        actions: [n], the actions that were rolled forward.
    """

    __test__ = False

    iteration: int
    stage: int
    rollouts: IntArray
    states: Handle | None
    measurement: Measurement
    actions: IntArray


@dataclass(frozen=True)
class Failure:
    """The failed test that an iteration keeps.

    Attributes:
        rollout: t.
        stage: j.
        state: handle of the state, where it can be held.
        refined: draws, or gives, the larger sample.
    """

    rollout: int
    stage: int
    state: Handle | None
    refined: Callable[[], Measurement]


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
        tests: every measurement, if they are recorded.
        failures: every kept failure with its refined sample, likewise.
    """

    beliefs: Hypotheses
    optimum: Optimum | None = None
    status: Status | None = None
    events: tuple[IterationEvent, ...] = ()
    mean_return: float = math.nan
    nodes: int = 0
    tests: tuple[TestRecord, ...] = field(default=(), repr=False)
    failures: tuple[tuple[Failure, Measurement], ...] = field(default=(), repr=False)

    @property
    def iteration(self) -> int:
        """tau of the last iteration; 0 before the first."""
        return len(self.events)


def select(measurement: Measurement, theta: FloatArray, rule: Rule) -> tuple[IntArray, FloatArray]:
    """The action that a test follows, and the discrepancy that it checks.

    Args:
        measurement: of n states.
        theta: [d].
        rule: "consistent" follows argmin |<Delta_a, (1, theta)>| (Algorithm 1); "best" follows
            argmax <Delta_a, (1, theta)>, the Remark's variant.

    Returns:
        (actions [n], discrepancies [n]).
    """
    errors = measurement.rows @ np.concatenate([[1.0], theta])
    if rule == "consistent":
        scores = np.where(measurement.measured, np.abs(errors), np.inf)
        actions = scores.argmin(axis=1)
    else:
        scores = np.where(measurement.measured, errors, -np.inf)
        actions = scores.argmax(axis=1)
    return actions, np.abs(errors[np.arange(len(actions)), actions])


class PaperPlanner:
    """TensorPlan.Init (Algorithm 3), one iteration over tau a step.

    Args:
        world: start state and simulator, or session.
        settings: what to run.
        oracle: chooses the optimistic parameter.
    """

    def __init__(self, world: World, settings: PaperSettings, oracle: Oracle) -> None:
        self.world, self.oracle = world, oracle
        self.resolved: Resolved = resolve(settings, world.spec)
        self._objective = world.start_features()

    def begin(self) -> PaperState:
        """Line 2: no data yet."""
        resolved = self.resolved
        return PaperState(
            Hypotheses(
                dim=self.world.spec.dim,
                norm=resolved.norm,
                threshold=resolved.threshold,
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
            return replace(state, status=Status.REJECTED)
        if optimum.status is OracleStatus.LIMIT:
            return replace(state, status=Status.ORACLE_GAP)
        iteration = _Iteration(self.world, self.resolved, optimum.theta, state.iteration + 1)
        failure = iteration.run()
        return self._conclude(state, iteration, failure)

    def _optimistic(self, state: PaperState) -> Optimum:
        """Line 5; an iteration that brought no data keeps its parameter."""
        no_data = bool(state.events) and state.events[-1].failed is None
        if no_data and state.optimum is not None:
            return replace(state.optimum, nodes=0)
        return self.oracle.maximise(self._objective, state.beliefs)

    def _conclude(
        self, state: PaperState, iteration: _Iteration, failure: Failure | None
    ) -> PaperState:
        """Lines 13, 14 and 18: keep the failure's data, or end with a clean run."""
        clean = failure is None and iteration.return_matches(self._objective)
        if failure is not None:
            refined = failure.refined()
            rows = refined.rows[0][refined.measured[0]]
            beliefs = state.beliefs.with_state(CriticalState(failure.stage, rows))
            state = replace(state, beliefs=beliefs)
            if self.resolved.settings.record:
                state = replace(state, failures=(*state.failures, (failure, refined)))
        state = replace(
            state,
            events=(*state.events, self._event(state, iteration, failure)),
            tests=(*state.tests, *iteration.tests),
            mean_return=iteration.mean_return if failure is None else math.nan,
        )
        if clean:
            return replace(state, status=Status.CLEAN)
        last = state.iteration >= self.resolved.iterations
        return replace(state, status=Status.BUDGET) if last else state

    def _event(
        self, state: PaperState, iteration: _Iteration, failure: Failure | None
    ) -> IterationEvent:
        optimum = state.optimum
        return IterationEvent(
            iteration=iteration.number,
            upper=math.inf if optimum is None else optimum.upper,
            predicted=float(self._objective @ iteration.theta),
            theta=tuple(float(x) for x in iteration.theta),
            failed=None if failure is None else (failure.rollout, failure.stage),
            queries=self.world.meter.total,
            nodes=state.nodes,
        )


class _Iteration:
    """Lines 6 to 17: the rollouts of one parameter."""

    def __init__(self, world: World, resolved: Resolved, theta: FloatArray, number: int) -> None:
        self._world, self._resolved = world, resolved
        self._settings, self._sizes = resolved.settings, resolved.sizes
        self.theta, self.number = theta, number
        self.tests: list[TestRecord] = []
        self._returns, self._rolled = 0.0, 0

    @property
    def mean_return(self) -> float:
        """Mean return of the rollouts so far."""
        return self._returns / self._rolled

    def run(self) -> Failure | None:
        """All rollouts; the failed test that is kept, if any."""
        kept: Failure | None = None
        for first, count in self._batches():
            walk = self._world.walk(self.number, first, count)
            self._rolled += count
            kept = self._roll(walk, kept)
            if kept is not None and self._settings.early_exit:
                break
        return kept

    def return_matches(self, start_features: FloatArray) -> bool:
        """The paper's "(seemingly) stronger test", where it is asked for."""
        if not self._settings.return_test:
            return True
        predicted = float(start_features @ self.theta)
        return abs(self.mean_return - predicted) <= self._settings.delta / 4

    def _batches(self) -> Iterator[tuple[int, int]]:
        """Batches of 1, 2, 4, ... rollouts: early failures are cheap, clean runs are wide."""
        first, width = 0, 1
        while first < self._sizes.rollouts:
            count = min(width, self._sizes.rollouts - first, self._world.widest_batch)
            yield first, count
            first, width = first + count, 2 * width

    def _roll(self, walk: Walk, kept: Failure | None) -> Failure | None:
        """Lines 8 to 17 for a batch, stage by stage."""
        while len(walk.rollouts):
            measurement = walk.measure(self._sizes.test_draws, Phase.TEST)
            actions, discrepancies = select(measurement, self.theta, self._settings.rule)
            if self._settings.record:
                self.tests.append(
                    TestRecord(
                        self.number, walk.stage, walk.rollouts, walk.handle, measurement, actions
                    )
                )
            kept = self._first_failure(walk, discrepancies > self._resolved.tolerance, kept)
            if kept is not None and self._settings.early_exit:
                ahead = walk.rollouts < kept.rollout
                walk.keep(ahead)
                actions = actions[ahead]
                if not len(actions):
                    break
            self._returns += float(walk.forward(actions).sum())
        return kept

    def _first_failure(self, walk: Walk, failed: BoolArray, kept: Failure | None) -> Failure | None:
        """Line 11: the failure of the smallest rollout so far (CleanTest lets one through)."""
        row = int(failed.argmax())
        rollout = int(walk.rollouts[row])
        if not failed[row] or (kept is not None and kept.rollout <= rollout):
            return kept
        refined = walk.refine_later(row, self._sizes.refine_draws)
        return Failure(rollout, walk.stage, walk.hold(row), refined)


class PaperPolicy:
    """TensorPlan.GetAction (Algorithm 1) after Init, for a batch of states.

    Args:
        access: local access to the simulator.
        theta: [d], the parameter that Init saved.
        resolved: the run's rule and sizes.
    """

    def __init__(self, access: Access, theta: FloatArray, resolved: Resolved) -> None:
        self._access, self._theta, self._resolved = access, theta, resolved

    def actions(self, states: Handle, stage: int, key: Key) -> IntArray:
        """Actions for n states: [n]."""
        self._access.meter.new_call()
        draws = self._resolved.sizes.test_draws
        measurement = self._access.measure(states, stage, draws, phase=Phase.ACT, key=key)
        return select(measurement, self._theta, self._resolved.settings.rule)[0]
