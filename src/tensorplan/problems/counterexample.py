"""The process on which keeping the best action's test for every failure never ends."""

from __future__ import annotations

from typing import Final

import numpy as np

from tensorplan.finite import FiniteProcess
from tensorplan.problems.base import Family, LinearTable
from tensorplan.records import FloatArray, Spec

STATES: Final = ("s0", "s", "z", "x", "y", "e")
"""Names of the states, in the order of their numbers."""
_SCALE: Final = 0.2
_BOUND: Final = 5.0


def build() -> LinearTable:
    """Six states, three stages: the counterexample to the best-action Remark (theory A24).

    From s0 the actions lead to s or z; from s to x or y; z pays 1. The remark's planner tests
    whether the largest temporal-difference error is near 0. Its second choice theta = (0, 5)
    fails at s, where that error is 2 but the first action's row is 0: the product that is
    stored excludes nothing, the planner repeats itself and ends with a policy worth 0. One-sided
    tests pass it and correct it where it fails, and can promise v* = 1. The bound B = 5 is
    exactly the norm of theta* = (5, 0), as the example needs.
    """
    spec = Spec(actions=2, dim=2, horizon=3, bound=_BOUND, deterministic=True, may_terminate=False)
    successors = np.array([[1, 2], [3, 4], [5, 5], [5, 5], [5, 5], [5, 5]])[..., None]
    rewards = np.zeros(successors.shape)
    rewards[STATES.index("z")] = 1.0
    process = FiniteProcess(
        spec=spec,
        probabilities=np.ones(successors.shape),
        successors=successors,
        rewards=rewards,
        terminated=np.zeros(successors.shape, np.bool_),
        feature_table=_features(),
        start_probabilities=np.eye(len(STATES))[0],
    )
    return LinearTable(process, np.array([_BOUND, 0.0]))


def _features() -> FloatArray:
    """[3, 6, 2]."""
    rows = _SCALE * np.array([[1, 2], [0, 2], [1, 0], [0, 2], [0, 4], [0, 0]], dtype=np.float64)
    table = np.repeat(rows[None], 3, axis=0)
    table[2, 0] = 0.0  # s0 at the last stage cannot occur; there it would be worth 0
    return table


def _reference() -> float:
    return 1.0


FAMILY = Family(
    name="counterexample",
    summary="Three stages on which the best-action variant of the planner never learns.",
    features="phi(s0) = (c, 2c), phi(s) = phi(x) = (0, 2c), phi(y) = (0, 4c), phi(z) = (c, 0), "
    "phi(e) = 0, with c = .2",
    realizable="v* is exactly linear: theta = (5, 0). The first feature is v* up to scale.",
    build=build,
    reference=_reference,
)
