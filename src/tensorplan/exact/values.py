"""Values of policies and the optimal values of a finite process, by linear algebra alone.

Shapes: ``S`` states, ``A`` actions, ``H`` stages; a discounted process has one stage, so that its
tables are [1, ...]. Tables of a process with a horizon have one row per stage, and values have one
more, the zeros after the last stage.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tensorplan.errors import SettingError
from tensorplan.exact.policies import action_probabilities, chain, reachable, stage_count
from tensorplan.finite import FiniteProcess
from tensorplan.records import BoolArray, FloatArray, IntArray

_IMPROVEMENT = 1e-12
"""Relative gain below which an action counts as no better: ties must not make policies cycle."""


@dataclass(frozen=True)
class Solution:
    """The optimum of a process.

    Attributes:
        values: [H + 1, S], or [1, S] when discounted; v*, 0 where no action is available.
        q: [H, S, A], or [1, S, A]; -inf where an action is not available.
        policy: [H, S], or [1, S]; a greedy policy.
    """

    values: FloatArray
    q: FloatArray
    policy: IntArray


@dataclass(frozen=True)
class Evaluation:
    """The values of one policy.

    Attributes:
        values: [H + 1, S], or [1, S] when discounted; v^pi.
        q: [H, S, A], or [1, S, A]; -inf where an action is not available.
    """

    values: FloatArray
    q: FloatArray


def solve(process: FiniteProcess) -> Solution:
    """Optimal values: backward induction, or policy iteration with exact linear solves."""
    _refuse_dead_ends(process)
    if process.spec.horizon is None:
        return _policy_iteration(process)
    stages, shape = process.spec.horizon, process.allowed.shape
    values, q = np.zeros((stages + 1, shape[0])), np.zeros((stages, *shape))
    for stage in reversed(range(stages)):
        q[stage] = _masked(process, backup(process, values[stage + 1]))
        values[stage] = np.where(process.allowed.any(axis=1), q[stage].max(axis=1), 0.0)
    return Solution(values, q, q.argmax(axis=2))


def evaluate(process: FiniteProcess, policy: IntArray | FloatArray) -> Evaluation:
    """Values of a policy.

    Args:
        process: the process.
        policy: actions [H, S] or probabilities [H, S, A], with one stage when discounted. States
            that cannot be reached alive may hold an action that is not available: it counts as
            the end of the episode.
    """
    weights = action_probabilities(process, policy)
    if process.spec.horizon is None:
        values = _solve_chain(process, weights[0])
        return Evaluation(values[None], _masked(process, backup(process, values))[None])
    values = np.zeros((len(weights) + 1, process.states))
    q = np.zeros(weights.shape)
    for stage in reversed(range(len(weights))):
        raw = backup(process, values[stage + 1])
        values[stage] = (weights[stage] * raw).sum(axis=1)
        q[stage] = _masked(process, raw)
    return Evaluation(values, q)


def start_value(process: FiniteProcess, values: FloatArray) -> float:
    """Expected value of the start: the values of stage 1 over the start distribution."""
    return float(process.start_probabilities @ values[0])


def backup(process: FiniteProcess, following: FloatArray) -> FloatArray:
    """One step ahead: r + gamma P v, [S, A]; 0 where an action is not available.

    Args:
        process: the process.
        following: [S], values at the next stage.
    """
    ahead = process.mean_rewards() + process.spec.discount * process.expect(following)
    return np.where(process.allowed, ahead, 0.0)


def _masked(process: FiniteProcess, q: FloatArray) -> FloatArray:
    return np.where(process.allowed, q, -np.inf)


def _policy_iteration(process: FiniteProcess) -> Solution:
    states = np.arange(process.states)
    policy: IntArray = _masked(process, process.mean_rewards()).argmax(axis=1)
    while True:
        values = _solve_chain(process, np.eye(process.spec.actions)[policy])
        q = _masked(process, backup(process, values))
        least = _IMPROVEMENT * (1.0 + float(np.abs(values).max()))
        better: BoolArray = q.max(axis=1) > q[states, policy] + least
        if not better.any():
            return Solution(values[None], q[None], policy[None])
        policy = np.where(better, q.argmax(axis=1), policy)


def _solve_chain(process: FiniteProcess, weights: FloatArray) -> FloatArray:
    """Solve v = r_pi + gamma P_pi v for one stationary policy, [S]."""
    rewards = (weights * np.where(process.allowed, process.mean_rewards(), 0.0)).sum(axis=1)
    moves = np.eye(process.states) - process.spec.discount * chain(process, weights)
    return np.asarray(np.linalg.solve(moves, rewards), dtype=np.float64)


def _refuse_dead_ends(process: FiniteProcess) -> None:
    stuck = np.argwhere(reachable(process) & ~process.allowed.any(axis=1))
    if len(stuck):
        stage, state = (int(index) for index in stuck[0])
        raise SettingError(
            f"no action in state {state}, reached alive at stage {stage + 1}",
            f"a state in which an episode of {stage_count(process)} stages goes on needs an action",
            "Allow an action there, or mark the outcomes that lead to it as terminated.",
        )
