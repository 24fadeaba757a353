"""A known trajectory, recognised by its states and played again without a query."""

from __future__ import annotations

import numpy as np

from tensorplan.access import Access
from tensorplan.local import Handle
from tensorplan.planners.adaptive import Trajectory
from tensorplan.records import States


class Replay:
    """The actions of a trajectory, for whoever brings up its states.

    In an endless process a state may come twice: the next one in line is then meant, if it is the
    one that is brought up.

    Args:
        access: knows the states.
        trajectory: what was walked, or None.
    """

    def __init__(self, access: Access, trajectory: Trajectory | None) -> None:
        self._access = access
        self._actions = () if trajectory is None else trajectory.actions
        handles = () if trajectory is None else trajectory.states
        self._handles = handles
        self._states = [access.reveal(handle) for handle in handles]
        self._next = 0

    def follow(self, step: int) -> int | None:
        """The action at a step of an episode that was played by it; None after its end."""
        return self._actions[step] if step < len(self._actions) else None

    def action(self, here: Handle) -> int | None:
        """The action of the trajectory at one state; None if it does not pass there."""
        position = self._position(here)
        if position is None:
            return None
        self._next = position + 1
        return self._actions[position]

    def _position(self, here: Handle) -> int | None:
        state, count = self._access.reveal(here), len(self._actions)
        for position in (*range(self._next, count), *range(min(self._next, count))):
            if self._handles[position].stage == here.stage and _same(self._states[position], state):
                return position
        return None


def _same(first: States, second: States) -> bool:
    """Whether two batches of one state hold equal ones."""
    if not first.dtype.hasobject:
        return bool(np.array_equal(first, second))
    try:
        return bool(np.all(first[0] == second[0]))
    except (TypeError, ValueError):  # objects that cannot be compared
        return False
