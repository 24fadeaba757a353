"""A combination lock: one secret sequence of actions pays, at its very end."""

from __future__ import annotations

import numpy as np

from tensorplan.finite import FiniteProcess
from tensorplan.problems.base import BOUND_ROOM, Family, LinearTable, require_at_least
from tensorplan.records import FloatArray, IntArray, Spec


def build(*, length: int = 10, actions: int = 2, seed: int = 0) -> LinearTable:
    """A lock that opens after ``length`` right actions in a row.

    State i < length has seen i right actions; the last state is the jammed lock. The reward is
    1 for the last right action and 0 otherwise: blind search needs about A^length episodes.
    The features tell an open way from a jammed lock and how far along it is, but not what
    either is worth: v* is the sum of the first two, theta = (1, 1, 0, 0). A planner that finds
    that out needs (A + 1) / 2 further queries for each digit, and can promise v* = 1.

    Args:
        length: digits of the combination, and the horizon.
        actions: A, choices for each digit.
        seed: of the combination.
    """
    require_at_least(1, length=length, actions=actions)
    require_at_least(0, seed=seed)
    combination = np.random.default_rng(seed).integers(actions, size=length)
    theta = np.array([1.0, 1.0, 0.0, 0.0])
    spec = Spec(
        actions=actions,
        dim=len(theta),
        horizon=length,
        bound=BOUND_ROOM * float(np.linalg.norm(theta)),
        deterministic=True,
        may_terminate=False,
    )
    return LinearTable(_process(spec, combination), theta)


def _process(spec: Spec, combination: IntArray) -> FiniteProcess:
    length = len(combination)
    shape = (length + 1, spec.actions, 1)
    positions = np.arange(length)
    successors = np.full(shape, length)
    successors[positions, combination, 0] = positions + 1
    rewards = np.zeros(shape)
    rewards[length - 1, combination[-1]] = 1.0
    return FiniteProcess(
        spec=spec,
        probabilities=np.ones(shape),
        successors=successors,
        rewards=rewards,
        terminated=np.zeros(shape, np.bool_),
        feature_table=_features(length),
        start_probabilities=np.eye(length + 1)[0],
    )


def _features(length: int) -> FloatArray:
    """[H, S, 4]: (left, done) in the first pair of columns if the lock can still open."""
    stage, state = np.ogrid[:length, : length + 1]
    can_open = (state >= stage) & (state < length)
    done = np.broadcast_to(stage / length, can_open.shape)
    pair = np.stack([1 - done, done], axis=-1)
    alive = can_open[..., None]
    return np.concatenate([np.where(alive, pair, 0.0), np.where(alive, 0.0, pair)], axis=-1)


def _reference(**_settings: object) -> float:
    return 1.0


FAMILY = Family(
    name="combination-lock",
    summary="One secret sequence of actions pays 1 at its end; any other pays nothing.",
    features="(1 - x, x, 0, 0) while the lock can still open and (0, 0, 1 - x, x) once it is "
    "jammed, with x = (h - 1) / H",
    realizable="v* is exactly linear: theta = (1, 1, 0, 0). No feature is v*, but the sum of "
    "the first two is; what must be found is that, and the sequence.",
    build=build,
    reference=_reference,
)
