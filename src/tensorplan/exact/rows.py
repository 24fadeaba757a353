"""Temporal-difference rows without noise, and the identity that they telescope to.

The row of a state and an action is ``Delta = (r, gamma P phi_{h+1} - phi_h(s))``; its product with
``(1, theta)`` is the temporal-difference error of theta there. Features are zero once an episode
has terminated and after the last stage.
"""

from __future__ import annotations

import numpy as np

from tensorplan.exact.policies import action_probabilities, occupancy, stage_count
from tensorplan.exact.values import evaluate, start_value
from tensorplan.finite import FiniteProcess
from tensorplan.records import FloatArray, IntArray


def features(process: FiniteProcess) -> FloatArray:
    """Features of every stage and state: [H, S, d], or [1, S, d] when discounted."""
    stages = range(1, stage_count(process) + 1)
    return np.stack([process.features_at(stage) for stage in stages])


def exact_rows(process: FiniteProcess) -> FloatArray:
    """Exact rows (r, gamma P phi_{h+1} - phi_h(s)) of every stage, state and action.

    Returns:
        [H, S, A, d + 1], one stage when discounted; rows of unavailable actions are zeros.
    """
    present = features(process)
    if process.spec.horizon is None:
        following = present
    else:
        following = np.concatenate([present[1:], np.zeros_like(present[:1])])
    ahead = np.stack([process.expect(table) for table in following])
    rows = np.zeros((*ahead.shape[:3], ahead.shape[3] + 1))
    rows[..., 0] = process.mean_rewards()
    rows[..., 1:] = process.spec.discount * ahead - present[:, :, None]
    return np.where(process.allowed[..., None], rows, 0.0)


def predicted(process: FiniteProcess, theta: FloatArray) -> float:
    """What theta predicts for the start: <phi_1(s_0), theta>."""
    return start_value(process, features(process) @ theta)


def expected_errors(
    process: FiniteProcess, policy: IntArray | FloatArray, theta: FloatArray
) -> float:
    """E sum_h gamma^{h-1} TD_{A_h}(S_h; theta) along an episode of the policy, exactly."""
    errors = exact_rows(process) @ np.concatenate([[1.0], theta])
    played = (action_probabilities(process, policy) * errors).sum(axis=2)
    visits = occupancy(process, policy)
    # NOTE: discounted occupancy already carries the powers of gamma, over endless time.
    weights = process.spec.discount ** np.arange(len(visits))
    return float((weights[:, None] * visits * played).sum())


def value_identity(
    process: FiniteProcess, policy: IntArray | FloatArray, theta: FloatArray
) -> tuple[float, float]:
    """Both sides of the identity at the heart of Lemma value-accurate.

    Args:
        process: the process.
        policy: actions [H, S] or probabilities [H, S, A].
        theta: [d], any parameter.

    Returns:
        v^pi_1(s_0), and <phi_1(s_0), theta> plus the expected temporal-difference errors.
    """
    value = start_value(process, evaluate(process, policy).values)
    return value, predicted(process, theta) + expected_errors(process, policy, theta)
