"""The planner that asks nothing: uniformly random actions."""

from __future__ import annotations

import numpy as np

from tensorplan.local import Handle, LocalAccess


class Uniform:
    """Plays each available action with equal probability, without a query.

    Args:
        seed: of the choices.
    """

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def act(self, access: LocalAccess, here: Handle, call: int) -> int:
        """An available action at random."""
        return int(self._rng.choice(np.flatnonzero(access.allowed(here)[0])))
