"""Plans of the adaptive planner."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from tensorplan.access import Access
from tensorplan.errors import SettingError
from tensorplan.local import Handle, Key
from tensorplan.oracle import Oracle
from tensorplan.plan.base import Budget, Plan, Watcher
from tensorplan.plan.diagnosis import Diagnosis, Witness
from tensorplan.plan.files import Arrays
from tensorplan.plan.replay import Replay
from tensorplan.planners.adaptive import (
    FITTED,
    AdaptiveState,
    Engine,
    Proving,
    Resolved,
    adaptive_settings,
    certify,
    check_oracle,
    confidence_of,
    engine_for,
    find_misfit,
    fine_oracle,
    first_state,
    fit,
    kept_policy,
    labelled,
    refit,
    resolve,
)
from tensorplan.planners.driver import drive
from tensorplan.records import FloatArray, IntArray, Phase, Status

MOST_FITS = 40
"""How often a fitted eta may grow."""


class AdaptivePlan(Plan):
    """A plan of the adaptive planner.

    A deterministic one replays its trajectory from the planned start without a query. At any other
    state it asks, by the same test as the planner's.
    """

    planner = "adaptive"

    def __init__(
        self, access: Access, start: Handle, engine: Engine, state: AdaptiveState, oracle: Oracle
    ) -> None:
        super().__init__(access, start, oracle, certify(engine, state, oracle))
        self._engine, self._state = engine, state
        self._policy = engine.policy(state)
        self._replay = Replay(access, state.trajectory)

    @property
    def resolved(self) -> Resolved:
        """The run's numbers."""
        return self._engine.resolved

    @property
    def record(self) -> AdaptiveState:
        """All that the planner knew at the end."""
        return self._state

    @property
    def theta(self) -> FloatArray:
        """The parameter that the plan follows: [d]; zeros if none is left."""
        rejected = self.status is Status.REJECTED
        theta = None if rejected else self._state.theta
        return np.zeros(self._access.spec.dim) if theta is None else theta

    @property
    def delta(self) -> float:
        """The gap that was asked for."""
        return self.resolved.delta

    @property
    def episode_cost(self) -> int:
        """Most queries that playing an episode can take."""
        return self._engine.episode_cost(self._state)

    @property
    def status(self) -> Status:
        """How planning ended; a gap that is closed at a fitted eta is assumed, not certified."""
        return labelled(self._engine, self._state) or Status.CANCELLED

    def diagnose(self) -> Diagnosis:
        """How badly the features fit every policy, at least, by the data at hand (F6)."""
        found = find_misfit(self._engine, self._state)
        witnesses = tuple(
            Witness(
                handle.stage,
                self._access.reveal(handle)[0],
                self._access.features(handle)[0],
                draws,
            )
            for handle, draws in found.witnesses
        )
        return Diagnosis(
            least=found.least,
            fitting=found.fitting,
            confidence=confidence_of(self._engine),
            upper=found.upper,
            witnesses=witnesses,
            norm=self.resolved.norm,
            leans_on_norm=found.leans_on_norm,
            compete=self.resolved.settings.compete,
            inaccuracy=self.resolved.inaccuracy,
            deterministic=self.resolved.spec.deterministic,
            lower=None if self._state.theta is None else self._state.lower,
            queries=self.queries.total,
        )

    def proof(self) -> dict[str, object]:
        """Why the upper bound holds, or why no parameter is left: the content of a proof file.

        ``tensorplan verify`` checks it without trusting the search.
        """
        if not isinstance(self._oracle, Proving):
            raise SettingError(
                f"a proof by the oracle {self.oracle!r}",
                "it does not write down why its answers are right",
                "Plan with oracle='slabs'.",
            )
        # NOTE: another plan may have asked the oracle since; the same question is answered at once.
        self._oracle.maximise(self._access.features(self._start)[0], self._state.beliefs)
        return self._oracle.proof()

    def extend(
        self, start: object, *, budget: Budget | None = None, watch: Watcher | None = None
    ) -> AdaptivePlan:
        """A plan from another start state, with all that is known of the process (B7).

        Policies have to be realizable on what can be reached from all these starts.

        Args:
            start: one state, at stage 1.
            budget: what may be spent beyond what was.
            watch: is told of every iteration.
        """
        here = self._access.admit_one(start, 1)
        return self._continued(here, self._engine.continued(self._state, start=here), budget, watch)

    def tighten(
        self, delta: float, *, budget: Budget | None = None, watch: Watcher | None = None
    ) -> AdaptivePlan:
        """A plan with a smaller gap between its bounds; what is known is not asked again.

        Args:
            delta: largest gap of a certified plan.
            budget: what may be spent beyond what was.
            watch: is told of every iteration.
        """
        following = self._engine.continued(self._state, delta=delta)
        return self._continued(self._start, following, budget, watch)

    def summary(self) -> dict[str, Any]:
        """Everything a reader of results needs, as plain data."""
        resolved = self.resolved
        return super().summary() | {
            "norm": resolved.norm,
            "eta": resolved.eta,
            "fitted": resolved.fitted,
            "compete": resolved.settings.compete,
        }

    def _continued(
        self,
        start: Handle,
        following: tuple[Engine, AdaptiveState],
        budget: Budget | None,
        watch: Watcher | None,
    ) -> AdaptivePlan:
        limits = Budget.of(budget)
        self._access.meter.allow_more(limits.queries, limits.seconds)
        engine, state = following
        features = [self._access.features(each)[0] for each in (self._start, start)]
        refit(self._oracle, (self.resolved, features[0]), (engine.resolved, features[1]))
        made = _driven(self._access, start, engine, self._oracle, watch, state)
        made._calls = self._calls
        return made

    def _choose(self, here: Handle, stage: int, call: int, step: int | None = None) -> int:
        known = self._replay.action(here) if step is None else self._replay.follow(step)
        if known is not None:
            return known
        return int(self._policy.actions(here, stage, (call,))[0])

    def _choose_many(self, here: Handle, step: int, key: Key) -> IntArray:
        known = self._replay.follow(step)
        if known is not None:
            return np.full(here.size, known, np.int64)
        return self._policy.actions(here, here.stage, key, phase=Phase.VERIFY)

    def _content(self) -> tuple[dict[str, Any], Arrays]:
        words, arrays = super()._content()
        resolved, trajectory = self.resolved, self._state.trajectory
        kind, numbers = kept_policy(self._policy)
        actions = () if trajectory is None else trajectory.actions
        own = {
            "policy": kind,
            "settings": asdict(resolved.settings),
            "norm": resolved.norm,
            "eta": resolved.eta_given,
            "fitted": resolved.fitted,
        }
        return words | own, {**arrays, **numbers, "trajectory": np.array(actions, np.int64)}

    def _steps(self) -> int:
        return self._engine.episode_length


def plan_adaptively(
    access: Access,
    start: Handle,
    oracle: Oracle | None,
    watch: Watcher | None,
    *,
    seed: int,
    **settings: Any,
) -> AdaptivePlan:
    """Run the adaptive planner; without an oracle, with our own search at a fitting gap."""
    resolved = resolve(adaptive_settings(**settings), access.spec)
    if oracle is None:
        oracle = fine_oracle(resolved, access.features(start)[0])
    check_oracle(oracle)
    engine = engine_for(access.local, start, resolved, oracle, seed=seed)
    return _driven(access, start, engine, oracle, watch, first_state(engine, seed=seed))


def _driven(
    access: Access,
    start: Handle,
    engine: Engine,
    oracle: Oracle,
    watch: Watcher | None,
    state: AdaptiveState,
) -> AdaptivePlan:
    def go_on(state: AdaptiveState) -> bool:
        return watch is None or not state.events or watch(state.events[-1]) is not False

    final = drive(engine, state, watch=go_on)
    for _ in range(MOST_FITS):
        fitting = engine.resolved.settings.misspecification == FITTED
        if not fitting or final.status is not Status.REJECTED:
            break
        engine, known = fit(engine, final)
        final = drive(engine, known, watch=go_on)
    access.meter.lift_limit()
    return AdaptivePlan(access, start, engine, final, oracle)
