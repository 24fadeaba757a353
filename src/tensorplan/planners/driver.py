"""The loop that planners share: begin, step until done, watch the budget.

A planner is an object of settings; what it knows is a frozen state that each step replaces, so a
run can be watched, stopped and taken up again at any step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from tensorplan.errors import QueryBudgetError
from tensorplan.records import Status

StateT = TypeVar("StateT")


class Steppable(Protocol[StateT]):
    """A planner that works in steps."""

    def begin(self) -> StateT:
        """The state before the first step."""
        ...

    def step(self, state: StateT) -> StateT:
        """The state after one more iteration."""
        ...

    def status(self, state: StateT) -> Status | None:
        """How the run ended, or None while it has not."""
        ...

    def stopped(self, state: StateT, status: Status) -> StateT:
        """The state, marked as ended from outside."""
        ...


def drive(
    planner: Steppable[StateT],
    state: StateT | None = None,
    *,
    watch: Callable[[StateT], bool] | None = None,
) -> StateT:
    """Run a planner to its end.

    Args:
        planner: what to run.
        state: where to go on from; by default the state before the first step.
        watch: called after every step; the run is cancelled when it returns False.
    """
    state = planner.begin() if state is None else state
    while planner.status(state) is None:
        try:
            state = planner.step(state)
        except QueryBudgetError:
            return planner.stopped(state, Status.BUDGET)
        if watch is not None and not watch(state) and planner.status(state) is None:
            return planner.stopped(state, Status.CANCELLED)
    return state
