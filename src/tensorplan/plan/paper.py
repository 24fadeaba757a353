"""Plans of the paper's planner."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from tensorplan.access import Access
from tensorplan.errors import SettingError
from tensorplan.local import Handle, Key
from tensorplan.oracle import Oracle
from tensorplan.plan.base import Budget, Plan, Watcher
from tensorplan.plan.files import Arrays
from tensorplan.planners.driver import drive
from tensorplan.planners.paper import (
    PaperPlanner,
    PaperPolicy,
    PaperState,
    Resolved,
    certify,
    paper_settings,
)
from tensorplan.planners.world import SimulatorWorld
from tensorplan.records import FloatArray, IntArray, Phase

MOST_UNASKED = 10**10
"""Queries of one iteration beyond which a run wants a budget."""


class PaperPlan(Plan):
    """A plan of the paper's planner: acting is the paper's GetAction."""

    planner = "paper"

    def __init__(
        self, access: Access, start: Handle, resolved: Resolved, state: PaperState, oracle: Oracle
    ) -> None:
        super().__init__(access, start, oracle, certify(resolved, access.spec, state, oracle))
        self.resolved = resolved
        self._state = state
        self._policy = PaperPolicy(access.local, self.theta, resolved)

    @property
    def theta(self) -> FloatArray:
        """The parameter that the plan follows: [d]; zeros if none is left."""
        optimum = self._state.optimum
        return np.zeros(self._access.spec.dim) if optimum is None else optimum.theta

    @property
    def delta(self) -> float:
        """The gap that was asked for."""
        return self.resolved.settings.delta

    @property
    def episode_cost(self) -> int:
        """Queries that playing an episode takes: every action is tested at every stage."""
        return episode_cost(self.resolved)

    @property
    def record(self) -> PaperState:
        """All that the planner knew at the end, for the referee."""
        return self._state

    def summary(self) -> dict[str, Any]:
        """Everything a reader of results needs, as plain data."""
        return super().summary() | {"sizes": asdict(self.resolved.sizes)}

    def _content(self) -> tuple[dict[str, Any], Arrays]:
        words, arrays = super()._content()
        resolved = self.resolved
        settings = {
            "delta": resolved.settings.delta,
            "norm": resolved.norm,
            "rule": resolved.settings.rule,
            "sizes": asdict(resolved.sizes),
        }
        own = {"policy": "paper", "settings": settings, "norm": resolved.norm}
        return words | own, {**arrays, "trajectory": np.zeros(0, np.int64)}

    def _choose(self, here: Handle, stage: int, call: int, step: int | None = None) -> int:
        return int(self._policy.actions(here, stage, (call,))[0])

    def _choose_many(self, here: Handle, step: int, key: Key) -> IntArray:
        return self._policy.actions(here, here.stage, key, phase=Phase.VERIFY)


def plan_by_paper(
    access: Access,
    start: Handle,
    oracle: Oracle,
    limits: Budget,
    watch: Watcher | None,
    **settings: Any,
) -> PaperPlan:
    """Run the paper's planner."""
    planner = PaperPlanner(SimulatorWorld(access.local, start), paper_settings(**settings), oracle)
    check_cost(planner.resolved, limits)

    def go_on(state: PaperState) -> bool:
        return watch is None or not state.events or watch(state.events[-1]) is not False

    state = drive(planner, watch=go_on)
    access.meter.lift_limit()
    return PaperPlan(access, start, planner.resolved, state, oracle)


def episode_cost(resolved: Resolved) -> int:
    """Queries that playing an episode takes."""
    return resolved.horizon * resolved.constants.setting.actions * resolved.sizes.test_draws


def check_cost(resolved: Resolved, limits: Budget) -> None:
    """The theorem's sizes are astronomical for a stochastic simulator: nobody means to wait."""
    sizes, actions = resolved.sizes, resolved.constants.setting.actions
    one = sizes.rollouts * resolved.horizon * actions * sizes.test_draws
    if limits.queries is None and limits.seconds is None and one > MOST_UNASKED:
        raise SettingError(
            f"{one:.3g} queries in a single iteration",
            "the theorem's sample sizes for this stochastic simulator end in no lifetime",
            "Give sizes of your own (sizes=(n1, n2, n3), --sizes n1,n2,n3; no theorem covers "
            "those), a budget (budget=Budget(...), --budget-queries, --budget-seconds), or declare "
            "the Spec deterministic if that is what it is.",
        )
