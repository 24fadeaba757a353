"""Whether one given policy is realizable, and by which parameter."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tensorplan.exact.fit import ROUNDING, largest_error, least_norm_point, least_squares
from tensorplan.exact.policies import reachable
from tensorplan.exact.rows import features
from tensorplan.exact.values import evaluate, start_value
from tensorplan.finite import FiniteProcess
from tensorplan.records import FloatArray, IntArray

_VERIFIED = ROUNDING / 2
"""Relative error that the values of an exactly realizable policy may show against theta.

A temporal-difference error has two of them in it, and a planner with exact data forgives
ROUNDING (1 + B): what is realizable here is so there.
"""


@dataclass(frozen=True)
class RealizablePolicy:
    """A policy that the features realize.

    Attributes:
        policy: [H, S], or [1, S]; where no episode gets to, an action without meaning.
        theta: [d], of least norm among the parameters that realize it.
        value: v^pi_1(s_0), computed from the policy itself.
    """

    policy: IntArray
    theta: FloatArray
    value: float


def realized(
    process: FiniteProcess, policy: IntArray, bound: float, eta: float = 0.0
) -> RealizablePolicy | None:
    """The policy with its parameter, or None if no |theta| <= B realizes it up to eta."""
    live, values = reachable(process), evaluate(process, policy).values
    matrix, targets = features(process)[live], values[: len(live)][live]
    if eta > 0:
        theta = least_norm_point(matrix, targets, eta + ROUNDING * (1.0 + np.abs(targets)))
    else:
        theta = _exact(matrix, targets)
    if theta is None or float(np.linalg.norm(theta)) > bound * (1 + ROUNDING):
        return None
    return RealizablePolicy(policy, theta, start_value(process, values))


def _exact(matrix: FloatArray, targets: FloatArray) -> FloatArray | None:
    theta = least_squares(matrix, targets)
    scale = 1.0 + float(np.abs(targets).max())
    return theta if largest_error(matrix, targets, theta) <= _VERIFIED * scale else None
