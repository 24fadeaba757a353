"""Policies of a finite process: where they can go, and how often."""

from __future__ import annotations

import numpy as np

from tensorplan.errors import SettingError
from tensorplan.finite import FiniteProcess
from tensorplan.records import BoolArray, FloatArray, IntArray

_PROBABILITY_SLACK = 1e-9


def stage_count(process: FiniteProcess) -> int:
    """Number of stages with values of their own: H, or 1 when discounted."""
    spec = process.spec
    if spec.horizon is not None:
        return spec.horizon
    if not spec.discounted:
        raise SettingError(
            f"horizon={spec.horizon} with discount={spec.discount}",
            "the total reward of an episode that need not end has no value to compute exactly",
            "Give the Spec a horizon, or a discount below 1.",
        )
    return 1


def reachable(process: FiniteProcess) -> BoolArray:
    """States that some actions reach alive, with positive probability.

    Returns:
        [H, S]; when discounted [1, S], at any time.
    """
    stages = stage_count(process)
    step = _possible_moves(process)
    found = np.zeros((stages, process.states), np.bool_)
    found[0] = process.start_probabilities > 0
    if process.spec.horizon is not None:
        for stage in range(1, stages):
            found[stage] = step[found[stage - 1]].any(axis=0)
        return found
    fresh = found[0].copy()
    while fresh.any():
        fresh = step[fresh].any(axis=0) & ~found[0]
        found[0] |= fresh
    return found


def chain(process: FiniteProcess, weights: FloatArray) -> FloatArray:
    """Probability of going on in each next state, [S, S], one stage under [S, A] weights."""
    moving = np.where(process.terminated, 0.0, process.probabilities) * weights[:, :, None]
    moving = np.where(process.allowed[:, :, None], moving, 0.0)
    matrix = np.zeros((process.states, process.states))
    states, _, _ = places = np.nonzero(moving)
    np.add.at(matrix, (states, process.successors[places]), moving[places])
    return matrix


def occupancy(process: FiniteProcess, policy: IntArray | FloatArray) -> FloatArray:
    """How often a policy is in each state alive.

    Returns:
        [H, S], the probability at each stage; when discounted [1, S], the sum over all times t
        from 0 of gamma^t times the probability at t.
    """
    weights = action_probabilities(process, policy)
    start = process.start_probabilities
    if process.spec.horizon is None:
        moves = process.spec.discount * chain(process, weights[0])
        visits = np.linalg.solve(np.eye(process.states) - moves.T, start)
        return np.asarray(visits, dtype=np.float64)[None]
    present = [start]
    for stage in range(1, len(weights)):
        present.append(present[-1] @ chain(process, weights[stage - 1]))
    return np.stack(present)


def action_probabilities(process: FiniteProcess, policy: IntArray | FloatArray) -> FloatArray:
    """The policy as probabilities [H, S, A], after a check of its shape and its actions."""
    shape = (stage_count(process), *process.allowed.shape)
    if policy.shape == shape[:2] and policy.dtype.kind in "iu":
        _check_actions(policy.astype(np.int64), shape[2])
        weights = np.eye(shape[2])[policy.astype(np.int64)]
    elif policy.shape == shape:
        weights = policy.astype(np.float64)
        _check_probabilities(weights)
    else:
        raise SettingError(
            f"policy of shape {policy.shape} and type {policy.dtype}",
            f"it must be whole numbers {shape[:2]} or probabilities {shape}",
            "Give an action, or a probability for each action, for every stage and state.",
        )
    barred = reachable(process)[:, :, None] & ~process.allowed & (weights > 0)
    if barred.any():
        stage, state, action = (int(index) for index in np.argwhere(barred)[0])
        raise SettingError(
            f"action {action} in state {state} at stage {stage + 1}",
            "a policy must not take an action that is not available",
            "Choose among the actions that the process allows there.",
        )
    return weights


def _possible_moves(process: FiniteProcess) -> BoolArray:
    """Whether some action leads from one state to another alive: [S, S]."""
    alive = (process.probabilities > 0) & ~process.terminated & process.allowed[:, :, None]
    step = np.zeros((process.states, process.states), np.bool_)
    states, _, _ = places = np.nonzero(alive)
    step[states, process.successors[places]] = True
    return step


def _check_actions(policy: IntArray, actions: int) -> None:
    wrong = policy[(policy < 0) | (policy >= actions)]
    if wrong.size:
        raise SettingError(
            f"action {int(wrong[0])} in a policy",
            f"actions are numbers from 0 to {actions - 1}",
            "Number the actions from 0.",
        )


def _check_probabilities(weights: FloatArray) -> None:
    off = np.abs(weights.sum(axis=2) - 1) > _PROBABILITY_SLACK
    if bool(off.any()) or bool((weights < 0).any()) or not bool(np.isfinite(weights).all()):
        worst = weights.reshape(-1, weights.shape[2])[int(off.argmax())]
        raise SettingError(
            f"action probabilities such as {worst.tolist()}",
            "they must be at least 0 and sum to 1 at every stage and state",
            "Divide each row by its sum.",
        )
