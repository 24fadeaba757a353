"""RiverSwim: swim against the current to a large reward, or drift to a small one."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tensorplan.finite import FiniteProcess
from tensorplan.problems.base import Family, LinearTable, require_at_least
from tensorplan.problems.one_hot import clock, optimal_value, with_one_hot, without_features
from tensorplan.records import Spec

DISCOUNT: Final = 0.95
"""Discount where neither a discount nor a horizon is given."""
SMALL: Final = 0.005
"""Reward of drifting at the left bank; swimming at the right bank pays 1."""

_BACK, _STAY, _AHEAD = 0.05, 0.6, 0.35  # of a stroke to the right in the middle
_HELD: Final = 0.4  # at the banks a stroke is held up: no way ahead on the left, back on the right


def build(
    *, states: int = 6, discount: float | None = None, horizon: int | None = None
) -> LinearTable:
    """RiverSwim of Strehl and Littman, with reward 1 and .4 / .6 at the banks.

    The swimmer starts at the left bank. Action 0 drifts one place to the left, surely, and pays
    .005 at the left bank. Action 1 swims to the right against the current: in the middle it gets
    ahead with probability .35, stays with .6 and falls back with .05; at the left bank it gets
    ahead with .6; at the right bank it pays 1, and falls back with .4. Random play hardly ever
    reaches the right bank. The features have a parameter for each place (and each stage, with a
    horizon): the value of every memoryless policy is exactly linear, a planner can promise v*,
    and, values being small beside their range 1 / (1 - discount), it pays to bound variances.

    Args:
        states: places in the river, at least 2.
        discount: gamma, .95 if there is no horizon either.
        horizon: H, instead of a discount.
    """
    require_at_least(2, states=states)
    time = clock(horizon, discount, default=DISCOUNT)
    spec = Spec(
        actions=2,
        dim=1,
        horizon=time.horizon,
        discount=time.discount,
        may_terminate=False,
    )
    return with_one_hot(_process(spec, states))


def _process(spec: Spec, states: int) -> FiniteProcess:
    places, last = np.arange(states), states - 1
    moves = np.clip(places[:, None] + np.array([-1, 0, 1]), 0, last)
    drift = np.broadcast_to([1.0, 0.0, 0.0], (states, 3))
    swim = np.tile([_BACK, _STAY, _AHEAD], (states, 1))
    swim[0], swim[last] = (0.0, _HELD, 1 - _HELD), (_HELD, 1 - _HELD, 0.0)
    paid = np.zeros((states, 2, 3))
    paid[0, 0], paid[last, 1] = SMALL, 1.0
    return FiniteProcess(
        spec=spec,
        probabilities=np.stack([drift, swim], axis=1),
        successors=np.repeat(moves[:, None], 2, axis=1),
        rewards=paid,
        terminated=np.zeros(paid.shape, np.bool_),
        feature_table=without_features(states),
        start_probabilities=np.eye(states)[0],
    )


def _reference(**settings: Any) -> float:
    return optimal_value(build(**settings).process)


FAMILY = Family(
    name="river-swim",
    summary="Swim against the current to a large reward, or drift back to a small one.",
    features="one-hot over places (d = places) with a discount, over (stage, place) "
    "(d = H places) with a horizon",
    realizable="the value of every memoryless policy, v* among them, is exactly linear. The "
    "features give nothing away, and share nothing between places.",
    build=build,
    reference=_reference,
)
