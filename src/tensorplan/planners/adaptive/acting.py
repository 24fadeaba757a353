"""How a plan acts in a deterministic simulator where nothing is known: by asking."""

from __future__ import annotations

import numpy as np

from tensorplan.local import Handle, Key, LocalAccess
from tensorplan.planners.adaptive.evidence import tolerance
from tensorplan.planners.adaptive.settings import Resolved
from tensorplan.records import FloatArray, IntArray, Phase


class GreedyPolicy:
    """The one-sided test at states of which nothing is known, by asking (B0).

    Args:
        access: local access to the simulator.
        resolved: the run's numbers.
        theta: [d].
        order: in which actions are tried: [A].
    """

    def __init__(
        self, access: LocalAccess, resolved: Resolved, theta: FloatArray, order: IntArray
    ) -> None:
        self._access, self._resolved = access, resolved
        self.theta, self.order = theta, order

    def actions(
        self, states: Handle, stage: int, key: Key, *, phase: Phase = Phase.ACT
    ) -> IntArray:
        """The first action that passes at each of n states, or the best one: [n]."""
        rows = range(states.size)
        return np.array([self._action(states, stage, (*key, row), phase) for row in rows], np.int64)

    def _action(self, states: Handle, stage: int, key: Key, phase: Phase) -> int:
        state = self._access.take(states, [key[-1]])
        value = float(self._access.features(state)[0] @ self.theta)
        allowed = self._access.allowed(state)[0]
        errors: dict[int, float] = {}
        for action in self.order[allowed[self.order]].tolist():
            moved = self._access.advance(state, stage, [action], phase=phase, key=(*key, action))
            after = float(self._access.features(moved.states)[0] @ self.theta)
            error = float(moved.rewards[0]) + self._access.spec.discount * after - value
            left = 0.0 if moved.terminated[0] else 1.0
            if error >= -self._resolved.slack(left) - tolerance(self._resolved):
                return action
            errors[action] = error
        return max(errors, key=lambda action: errors[action])
