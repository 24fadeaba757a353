"""Policies whose values the features express up to eta > 0: an exhaustive search with pruning.

Backward over the stages every choice fixes the values there, so that the slabs
|<phi_h(s), theta> - v^pi_h(s)| <= eta of a partial policy are known. When discounted they are not,
and the necessary |TD_a(theta)| <= (1 + gamma) eta prune instead. Either way a partial policy is
dropped when no theta within the ball meets its slabs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from tensorplan.errors import SettingError
from tensorplan.exact.fit import ROUNDING, least_norm_point
from tensorplan.exact.realizable import LocalEquations
from tensorplan.exact.realized import RealizablePolicy
from tensorplan.exact.values import backup
from tensorplan.records import FloatArray, IntArray


@dataclass(frozen=True)
class _Slabs:
    """Slabs |matrix theta - targets| <= widths, and their point of least norm."""

    matrix: FloatArray
    targets: FloatArray
    widths: FloatArray
    theta: FloatArray

    def narrowed(self, row: FloatArray, target: float, width: float, bound: float) -> _Slabs | None:
        """With one more slab, or None if no theta within the bound is left."""
        wide = width + ROUNDING * (1.0 + abs(target))
        more = _Slabs(
            np.vstack([self.matrix, row]),
            np.append(self.targets, target),
            np.append(self.widths, wide),
            self.theta,
        )
        if abs(float(row @ self.theta) - target) <= wide:
            return more
        theta = least_norm_point(more.matrix, more.targets, more.widths)
        if theta is None or float(np.linalg.norm(theta)) > bound * (1 + ROUNDING):
            return None
        return replace(more, theta=theta)


@dataclass(frozen=True)
class _Partial:
    """A policy on the last pairs: chosen [n], values [H + 1, S], and what its slabs leave."""

    left: int
    chosen: IntArray
    values: FloatArray
    slabs: _Slabs


def near_policies(
    equations: LocalEquations, eta: float, limit: int, *, merge: bool = False
) -> Iterator[RealizablePolicy]:
    """All policies that are realizable with misspecification eta.

    Args:
        equations: of the process and the bound B.
        eta: positive.
        limit: partial policies to examine before giving up.
        merge: follow only one of several actions that lead to the same slab and value: enough
            for the best value.
    """
    stack: list[_Partial] = [_nothing(equations)]
    examined = 0
    while stack:
        partial = stack.pop()
        examined += 1
        if examined > limit:
            raise SettingError(
                f"more than limit={limit} partial policies with eta={eta}",
                "the search for nearly realizable policies stops at its limit",
                "Raise the limit, lower eta or the bound, or use a smaller process.",
            )
        if partial.left == 0:
            found = equations.recorded(partial.chosen, eta)
            if found is not None:
                yield found
            continue
        stack += _extensions(equations, partial, eta, merge=merge)


def _nothing(equations: LocalEquations) -> _Partial:
    count, dim = len(equations.constants), equations.process.spec.dim
    stages, states = equations.places.shape
    slabs = _Slabs(np.zeros((0, dim)), np.zeros(0), np.zeros(0), np.zeros(dim))
    return _Partial(count, np.full(count, -1, np.int64), np.zeros((stages + 1, states)), slabs)


def _extensions(
    equations: LocalEquations, partial: _Partial, eta: float, *, merge: bool
) -> Iterator[_Partial]:
    """The ways to choose at the last pair that is open (pairs are ordered by stage)."""
    pair = partial.left - 1
    stage, state = (int(index[pair]) for index in np.nonzero(equations.places))
    seen: list[FloatArray] = []
    for action in np.flatnonzero(equations.allowed[pair]):
        row, target, width = _slab(equations, partial, (pair, stage, state, int(action)), eta)
        key = np.append(row, target)
        if merge and any(np.allclose(key, other, rtol=0, atol=1e-12) for other in seen):
            continue
        seen.append(key)
        slabs = partial.slabs.narrowed(row, target, width, equations.bound)
        if slabs is not None:
            chosen, values = partial.chosen.copy(), partial.values.copy()
            chosen[pair] = action
            values[stage, state] = target
            yield _Partial(pair, chosen, values, slabs)


def _slab(
    equations: LocalEquations, partial: _Partial, where: tuple[int, int, int, int], eta: float
) -> tuple[FloatArray, float, float]:
    pair, stage, state, action = where
    process = equations.process
    if process.spec.horizon is None:
        gradient, constant = equations.gradients[pair, action], equations.constants[pair, action]
        return gradient, -float(constant), (1 + process.spec.discount) * eta
    value = float(backup(process, partial.values[stage + 1])[state, action])
    return process.features_at(stage + 1)[state], value, eta
