"""What a local planner is: it is shown a handle, may ask about it, and names an action."""

from __future__ import annotations

from typing import Protocol

from tensorplan.local import Handle, LocalAccess


class LocalPlanner(Protocol):
    """A planner under local access (the paper's Section 2.3)."""

    def act(self, access: LocalAccess, here: Handle, call: int) -> int:
        """Choose an action for the one state of ``here``: GetAction.

        Args:
            access: answers queries, of ``Phase.ACT`` and within the budget of a call.
            here: the state that the episode is in.
            call: number of the call, from 0; no two calls of a run share one.
        """
        ...
