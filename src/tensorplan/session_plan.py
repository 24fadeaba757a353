"""``plan_session(session, delta=...)``: the paper's planner on an oracle that cannot revisit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np

from tensorplan.meter import QueryMeter
from tensorplan.oracle import Oracle, OracleName
from tensorplan.plan.base import Budget, check_door, check_play, check_usable, chosen_oracle
from tensorplan.plan.paper import check_cost, episode_cost
from tensorplan.planners.driver import drive
from tensorplan.planners.paper import (
    PaperPlanner,
    PaperState,
    Resolved,
    certify,
    paper_settings,
    select,
)
from tensorplan.planners.world import SessionWorld
from tensorplan.problem import Session
from tensorplan.records import Certificate, FloatArray, Phase, Queries, Status
from tensorplan.sessions import SessionAccess


@dataclass(frozen=True)
class SessionPlan:
    """A plan made in a session, and played in it.

    Attributes:
        access: the door to the session, with its meter.
        resolved: the numbers of the run.
        record: all that the planner knew at the end.
        certificate: what is known about the plan.
    """

    access: SessionAccess
    resolved: Resolved
    record: PaperState
    certificate: Certificate
    _calls: Iterator[int] = field(default_factory=count, repr=False)

    @property
    def status(self) -> Status:
        """How planning ended."""
        return self.record.status or Status.CANCELLED

    @property
    def theta(self) -> FloatArray:
        """The parameter that the plan follows: [d]; zeros if none is left."""
        optimum = self.record.optimum
        return np.zeros(self.access.spec.dim) if optimum is None else optimum.theta

    @property
    def queries(self) -> Queries:
        """All queries so far, those of acting included."""
        return self.access.meter.read()

    def action(self) -> int:
        """The action for the state that the session is in (the paper's GetAction)."""
        check_usable(self.status)
        # The first call of GetAction is the one that planned (Algorithm 1, line 2).
        if next(self._calls):
            self.access.meter.new_call()
        measured = self.access.measure(self.resolved.sizes.test_draws, phase=Phase.ACT)
        return int(select(measured, self.theta, self.resolved.settings.rule)[0][0])

    def play(self, *, most_queries: int | None = 10**7) -> float:
        """Reset the session and play an episode in it: the return.

        Args:
            most_queries: an episode that would cost more is refused; None allows any.
        """
        check_usable(self.status)
        check_play(episode_cost(self.resolved), most_queries)
        self.access.reset()
        total, ended = 0.0, False
        while not ended:
            reward, ended = self.access.forward(self.action(), phase=Phase.PLAY)
            total += reward
        return total


_SESSION_MAKER = "Write one after tensorplan.problem.Session, or make a SimulatorSession."


def plan_session(
    session: Session,
    *,
    delta: float,
    oracle: OracleName | Oracle = "slabs",
    budget: Budget | None = None,
    **settings: Any,
) -> SessionPlan:
    """Plan from the start of a session. Rollouts go one after the other.

    Args:
        session: the paper's Appendix A oracle.
        delta: how far below the best realizable policy the plan may be.
        oracle: as in :func:`~tensorplan.plan.plan`.
        budget: what may be spent.
        settings: the other fields of :class:`~tensorplan.planners.paper.PaperSettings`.
    """
    check_door(session, "a session", ("spec", "reset", "forward", "data"), _SESSION_MAKER)
    limits = Budget.of(budget)
    access = SessionAccess(session, meter=QueryMeter(limits.queries, seconds=limits.seconds))
    chosen = chosen_oracle(oracle)
    planner = PaperPlanner(SessionWorld(access), paper_settings(delta, **settings), chosen)
    check_cost(planner.resolved, limits)
    state = drive(planner)
    access.meter.lift_limit()
    certificate = certify(planner.resolved, access.spec, state, chosen)
    return SessionPlan(access, planner.resolved, state, certificate)
