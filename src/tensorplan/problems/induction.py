"""Backward induction over a finite process: the reference values of the families.

Shapes: ``H`` stages, ``S`` states, ``A`` actions.
"""

from __future__ import annotations

import numpy as np

from tensorplan.finite import FiniteProcess
from tensorplan.records import FloatArray, IntArray


def action_values(process: FiniteProcess) -> FloatArray:
    """Optimal action values, -inf where an action is not available: [H, S, A]."""
    tables: list[FloatArray] = []
    following = np.zeros(process.states)
    for _ in range(process.spec.horizon or 0):
        value = _backed_up(process, following)
        tables.append(np.where(process.allowed, value, -np.inf))
        following = tables[-1].max(axis=1)
    return np.stack(tables[::-1])


def optimal_values(process: FiniteProcess) -> FloatArray:
    """Optimal values: [H, S]."""
    return action_values(process).max(axis=2)


def policy_values(process: FiniteProcess, policy: IntArray) -> FloatArray:
    """Values of a deterministic policy.

    Args:
        process: with a horizon.
        policy: [H, S], the action of each stage and state.

    Returns:
        [H, S].
    """
    tables: list[FloatArray] = []
    following = np.zeros(process.states)
    for actions in policy[::-1]:
        following = _backed_up(process, following)[np.arange(process.states), actions]
        tables.append(following)
    return np.stack(tables[::-1])


def start_value(process: FiniteProcess) -> float:
    """The optimal value of the start, in expectation over a random one."""
    return float(process.start_probabilities @ optimal_values(process)[0])


def _backed_up(process: FiniteProcess, following: FloatArray) -> FloatArray:
    return process.mean_rewards() + process.spec.discount * process.expect(following)
