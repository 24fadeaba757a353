"""Policies whose values the features express exactly (def. v-realizable-policies with eta = 0).

A deterministic memoryless policy pi is realized by theta on the states reachable alive if and only
if <r_sa + gamma P phi_{h+1} - phi_h(s), theta> vanishes for a = pi_h(s) at all of them: backward
induction (a fixed point when discounted) gives v^pi back. So a policy is a choice of one equation
for each such state, and the search is over systems of equations that stay consistent.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from tensorplan.exact.affine import AffineSet
from tensorplan.exact.fit import ROUNDING
from tensorplan.exact.policies import reachable
from tensorplan.exact.realized import RealizablePolicy, realized
from tensorplan.exact.rows import exact_rows, features
from tensorplan.exact.values import solve
from tensorplan.finite import FiniteProcess
from tensorplan.records import BoolArray, FloatArray, IntArray

_FLAT = 1e-8
"""Relative size below which an equation does not change along a set, or its gap counts as 0."""
_SAME = 1e-15
"""One minus the cosine below which two equations are the same."""


@dataclass(frozen=True)
class LocalEquations:
    """The equations of all actions at the n pairs (stage, state) that are reachable alive.

    The pairs come in the order of their stages.

    Attributes:
        process: where they come from.
        places: [H, S], which pairs they are.
        constants: [n, A], mean rewards.
        gradients: [n, A, d].
        allowed: [n, A].
        features: [n, d].
        bound: B.
        objective: [d], the mean features of the start.
    """

    process: FiniteProcess
    places: BoolArray
    constants: FloatArray
    gradients: FloatArray
    allowed: BoolArray
    features: FloatArray
    bound: float
    objective: FloatArray

    @staticmethod
    def of(process: FiniteProcess, bound: float) -> LocalEquations:
        """Collect the equations of a process."""
        live, rows = reachable(process), exact_rows(process)[reachable(process)]
        return LocalEquations(
            process=process,
            places=live,
            constants=rows[..., 0],
            gradients=rows[..., 1:],
            allowed=process.allowed[np.nonzero(live)[1]],
            features=features(process)[live],
            bound=bound,
            objective=process.start_probabilities @ process.features_at(1),
        )

    def table(self, chosen: IntArray) -> IntArray:
        """The policy [H, S] with the chosen actions [n] at the reachable pairs."""
        policy = np.broadcast_to(self.process.allowed.argmax(axis=1), self.places.shape).copy()
        policy[self.places] = chosen
        return policy

    def recorded(self, chosen: IntArray, eta: float = 0.0) -> RealizablePolicy | None:
        """The record of a choice [n], or None if its own values are not realized after all."""
        return realized(self.process, self.table(chosen), self.bound, eta)


@dataclass(frozen=True)
class _View:
    """What the equations say on one affine set.

    Attributes:
        implied: [n, A], holds on all of the set.
        viable: [n, A], holds somewhere on the set within the ball.
    """

    implied: BoolArray
    viable: BoolArray


def exact_policies(equations: LocalEquations) -> Iterator[RealizablePolicy]:
    """All realizable policies, depth first, in time linear in their number.

    Pairs that force a new equation come first (at most d of them on a path). Once every open
    pair has an action whose equation is implied, each branch holds a policy.
    """
    count = len(equations.constants)
    stack = [(AffineSet.whole(equations.gradients.shape[2]), np.full(count, -1))]
    while stack:
        affine, chosen = stack.pop()
        view = _look(equations, affine)
        unset = chosen < 0
        ways = view.viable.sum(axis=1)
        if not ways[unset].all():
            continue
        free = unset & view.implied.any(axis=1)
        settled = free & (ways == 1)
        chosen = np.where(settled, view.implied.argmax(axis=1), chosen)
        left = np.flatnonzero((unset & ~free) if (unset & ~free).any() else (unset & ~settled))
        if not len(left):
            found = equations.recorded(chosen)
            if found is not None:
                yield found
            continue
        pair = int(left[ways[left].argmin()])
        for action in np.flatnonzero(view.viable[pair])[::-1]:
            picked = chosen.copy()
            picked[pair] = action
            stack.append((_narrowed(equations, affine, view, pair, int(action)), picked))


def best_exact_policy(equations: LocalEquations) -> RealizablePolicy | None:
    """The realizable policy of highest value, by branch and bound over the affine sets.

    Where an action's equation is implied, no other action needs a look: whatever realizes the
    others realizes this one too, with the same values. So each branching costs a dimension, and
    there are at most A^0 + ... + A^d of them.
    """
    best: RealizablePolicy | None = None
    worst_values, best_values = _value_range(equations)
    stack = [AffineSet.whole(equations.process.spec.dim)]
    while stack:
        affine = stack.pop()
        upper = affine.upper(equations.objective, equations.bound)
        if best is not None and upper <= best.value + ROUNDING * (1 + abs(best.value)):
            continue
        if _out_of_range(equations, affine, worst_values, best_values):
            continue
        view = _look(equations, affine)
        unsettled = np.flatnonzero(~view.implied.any(axis=1))[::-1]
        if not len(unsettled):
            found = equations.recorded(view.implied.argmax(axis=1))
            if found is not None and (best is None or found.value > best.value):
                best = found
            continue
        pair = int(unsettled[view.viable[unsettled].sum(axis=1).argmin()])
        children = [
            _narrowed(equations, affine, view, pair, action)
            for action in _different(equations, affine, view, pair)
        ]
        stack += sorted(children, key=lambda c: c.upper(equations.objective, equations.bound))
    return best


def _value_range(equations: LocalEquations) -> tuple[FloatArray, FloatArray]:
    """The least and the largest value that any policy has at the pairs: [n] each."""
    process, stages = equations.process, len(equations.places)
    opposite = replace(process, rewards=-process.rewards)
    worst, best = -solve(opposite).values[:stages], solve(process).values[:stages]
    return worst[equations.places], best[equations.places]


def _out_of_range(
    equations: LocalEquations, affine: AffineSet, worst: FloatArray, best: FloatArray
) -> bool:
    """Whether the set fixes the value of a pair outside of what policies can have there."""
    slopes = np.linalg.norm(equations.features @ affine.basis, axis=1)
    fixed = slopes <= _FLAT * (1.0 + np.linalg.norm(equations.features, axis=1))
    values = equations.features @ affine.point
    slack = _FLAT * (1.0 + np.abs(worst) + np.abs(best) + float(np.linalg.norm(affine.point)))
    return bool((fixed & ((values > best + slack) | (values < worst - slack))).any())


def _look(equations: LocalEquations, affine: AffineSet) -> _View:
    gaps = equations.constants + equations.gradients @ affine.point
    slopes = np.linalg.norm(equations.gradients @ affine.basis, axis=2)
    sizes = np.linalg.norm(equations.gradients, axis=2)
    flat = slopes <= _FLAT * (1.0 + sizes)
    length = float(affine.point @ affine.point)
    zero = np.abs(gaps) <= _FLAT * (1.0 + np.abs(equations.constants) + sizes * length**0.5)
    reach = length + np.square(np.divide(gaps, slopes, where=~flat, out=np.zeros_like(gaps)))
    inside = reach <= equations.bound**2 * (1 + ROUNDING) ** 2
    implied = equations.allowed & flat & zero
    return _View(implied, implied | (equations.allowed & ~flat & inside))


def _different(equations: LocalEquations, affine: AffineSet, view: _View, pair: int) -> list[int]:
    """The viable actions of an unsettled pair, one for each different cut of the affine set."""
    kept: list[int] = []
    cuts: list[FloatArray] = []
    for action in np.flatnonzero(view.viable[pair]):
        gradient, constant = equations.gradients[pair, action], equations.constants[pair, action]
        cut = np.append(affine.basis.T @ gradient, gradient @ affine.point + constant)
        cut /= np.linalg.norm(cut)
        if all(1.0 - abs(float(cut @ other)) > _SAME for other in cuts):
            kept.append(int(action))
            cuts.append(cut)
    return kept


def _narrowed(
    equations: LocalEquations, affine: AffineSet, view: _View, pair: int, action: int
) -> AffineSet:
    if view.implied[pair, action]:
        return affine
    return affine.with_equation(
        equations.gradients[pair, action], float(equations.constants[pair, action])
    )
