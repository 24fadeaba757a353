"""Tabular while features lie along the axes, general from the first state on that does not."""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from tensorplan.local import Handle
from tensorplan.planners.adaptive.engine import ExecutedPolicy
from tensorplan.planners.adaptive.general import GeneralEngine, GeneralState
from tensorplan.planners.adaptive.settings import Resolved
from tensorplan.planners.adaptive.state import State
from tensorplan.planners.adaptive.tabular import TabularEngine, TabularState
from tensorplan.records import Status


class EitherEngine:
    """Plans by tables until a state's features leave the axes, and goes on with what is known.

    Args:
        tabular: plans first.
        general: plans from then on; it spends levels by the same book.
    """

    def __init__(self, tabular: TabularEngine, general: GeneralEngine) -> None:
        self._tabular, self._general = tabular, general
        general.book, general.spent = tabular.book, tabular.spent

    @property
    def resolved(self) -> Resolved:
        """The run's numbers."""
        return self._tabular.resolved

    @property
    def grounds(self) -> str:
        """What the certificate rests on."""
        return self._tabular.grounds

    @property
    def confidence(self) -> float:
        """Probability with which both bounds hold."""
        return self._tabular.confidence

    @property
    def first(self) -> TabularEngine:
        """The engine that plans first."""
        return self._tabular

    @property
    def rejection_level(self) -> float:
        """Probability with which a rejection may be wrong."""
        return self._tabular.rejection_level

    @property
    def leans_on_norm(self) -> bool | None:
        """Whether some radius is smaller because of the norm bound B."""
        return self._tabular.leans_on_norm

    @property
    def episode_length(self) -> int:
        """Steps of an episode after which the rest can hardly matter."""
        return self._tabular.episode_length

    def begin(self) -> State:
        """The state before the first step."""
        return self._tabular.begin()

    def step(self, state: State) -> State:
        """One optimistic choice, and what follows from it."""
        if isinstance(state, GeneralState):
            return self._general.step(state)
        assert isinstance(state, TabularState)
        state = self._tabular.step(state)
        return as_general(state) if state.left_axes and state.status is None else state

    def status(self, state: State) -> Status | None:
        """How the run ended, or None while it has not."""
        return state.status

    def stopped(self, state: State, status: Status) -> State:
        """The state, marked as ended from outside."""
        if isinstance(state, GeneralState):
            return self._general.stopped(state, status)
        assert isinstance(state, TabularState)
        return self._tabular.stopped(state, status)

    def continued(
        self, state: State, *, start: Handle | None = None, delta: float | None = None
    ) -> tuple[EitherEngine, State]:
        """What goes on from a finished run with all that is known: another start, or delta (B7)."""
        general, tabular = self._general, self._tabular
        if isinstance(state, GeneralState):
            general, following = general.continued(state, start=start, delta=delta)
            tabular, _ = tabular.continued(tabular.begin(), start=start, delta=delta)
            return EitherEngine(tabular, general), following
        assert isinstance(state, TabularState)
        tabular, then = tabular.continued(state, start=start, delta=delta)
        general, _ = general.continued(general.begin(), start=start, delta=delta)
        used = np.count_nonzero(tabular.objective)
        on_axis = used == 1 and bool(tabular.objective.max() > 0)
        return EitherEngine(tabular, general), then if on_axis else as_general(then)

    def episode_cost(self, state: State) -> int:
        """Most queries that playing an episode of the plan takes."""
        if isinstance(state, GeneralState):
            return self._general.episode_cost(state)
        return 0

    def policy(self, state: State) -> ExecutedPolicy:
        """How the plan of a finished run acts."""
        if isinstance(state, GeneralState):
            return self._general.policy(state)
        assert isinstance(state, TabularState)
        return self._tabular.policy(state)


def as_general(state: TabularState) -> GeneralState:
    """What a tabular run knows, for one with features of any kind."""
    known = {field.name: getattr(state, field.name) for field in fields(State)}
    return GeneralState(**known)
