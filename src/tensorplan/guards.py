"""Checks of what a simulator returns, one for each kind of answer.

Each returns the answer in its canonical dtype, or raises a :class:`SimulatorError` that names
the value, the rule and the way out.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tensorplan.errors import SimulatorError
from tensorplan.records import SLACK, BoolArray, FloatArray, Spec, Step


def checked_features(rows: npt.NDArray[Any], count: int, spec: Spec, stage: int) -> FloatArray:
    """Features of ``count`` states: finite, [count, d], norms at most 1."""
    rows = np.asarray(rows, dtype=np.float64)
    if rows.shape != (count, spec.dim):
        raise SimulatorError(
            f"features of shape {rows.shape} at stage {stage}",
            f"{count} states need features of shape ({count}, {spec.dim})",
            "Return one row of Spec.dim numbers per state.",
        )
    # NOTE: one comparison catches both; a nan norm is not <= 1.
    norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    fits = norms <= 1 + SLACK
    if not fits.all():
        row = int(np.flatnonzero(~fits)[0])
        if not np.isfinite(rows[row]).all():
            raise SimulatorError(
                f"feature row {rows[row].tolist()} at stage {stage}",
                "features must be finite",
                "Look for a division by zero or an overflow in the feature map.",
            )
        raise SimulatorError(
            f"feature row of norm {norms[row]:.9g} at stage {stage}",
            "features must have 2-norm at most 1",
            f"Divide the feature map by {norms[row]:.9g} or more, and multiply the bound B by it.",
        )
    return rows


def checked_masks(masks: npt.NDArray[Any], count: int, spec: Spec, stage: int) -> BoolArray:
    """Action masks of ``count`` states: [count, A], an action in every row."""
    masks = np.asarray(masks)
    if masks.shape != (count, spec.actions) or masks.dtype != np.bool_:
        raise SimulatorError(
            f"an action mask of shape {masks.shape} and dtype {masks.dtype} at stage {stage}",
            f"{count} states need truth values of shape ({count}, {spec.actions})",
            "Return one row of Spec.actions truth values per state.",
        )
    if not masks.any(axis=1).all():
        raise SimulatorError(
            f"an action mask without any action at stage {stage}",
            "a state where the episode goes on needs an available action",
            "Terminate the episode there, or allow an action that does nothing.",
        )
    return masks


def checked_step(
    step: Step, count: int, spec: Spec, stage: int, dtype: np.dtype[Any] | None
) -> Step:
    """Answer to ``count`` queries: shapes, state dtype, reward range, termination."""
    rewards = np.asarray(step.rewards, dtype=np.float64)
    terminated = np.asarray(step.terminated)
    states = np.asarray(step.states)
    if rewards.shape != (count,) or terminated.shape != (count,) or states.shape[:1] != (count,):
        raise SimulatorError(
            f"a step with rewards {rewards.shape}, states {states.shape} and terminated "
            f"{terminated.shape} at stage {stage}",
            f"{count} queries need {count} of each, with the batch first",
            "Return Step(rewards [n], states [n, ...], terminated [n]).",
        )
    if terminated.dtype != np.bool_:
        raise SimulatorError(
            f"terminated flags of dtype {terminated.dtype} at stage {stage}",
            "they must be truth values",
            "Return an array of bool.",
        )
    if dtype is not None and states.dtype != dtype:
        raise SimulatorError(
            f"states of dtype {states.dtype} at stage {stage}",
            f"states keep the dtype of the start, which is {dtype}",
            "Build the next states with the dtype of the given ones.",
        )
    _check_rewards(rewards, spec, stage)
    if not spec.may_terminate and terminated.any():
        raise SimulatorError(
            f"an episode that ended at stage {stage}",
            "Spec.may_terminate=False promises that no episode ends before the horizon",
            "Set may_terminate=True, or return terminated=False.",
        )
    return Step(rewards, states, terminated)


def _check_rewards(rewards: FloatArray, spec: Spec, stage: int) -> None:
    low, high = spec.reward_range
    fits = spec.admits(rewards)
    if not fits.all():
        value = float(rewards[~fits][0])
        rule = (
            f"returned rewards lie in Spec.reward_range=({low:g}, {high:g})"
            if np.isfinite(value)
            else "rewards must be finite"
        )
        raise SimulatorError(
            f"reward {value:.9g} at stage {stage}",
            rule,
            "Widen the range, clip the reward, or correct the simulator.",
        )


def require_same(same: bool, stage: int) -> None:
    """Refuse a simulator that declared itself deterministic and is not (F6)."""
    if not same:
        raise SimulatorError(
            f"two answers to one question at stage {stage}",
            "Spec.deterministic=True promises the same reward and next state every time, and the "
            "bounds of this run would rest on it",
            "Declare deterministic=False; with planner='paper' give sizes= of your own.",
        )
