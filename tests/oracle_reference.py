"""Slow, exact answers of the optimistic oracle on tiny instances, by enumeration.

The maximum over a union of slabs is the best of the A^K convex problems in which every critical
state has chosen one action. An optimum of such a problem lies on some of the chosen slabs' faces
and, by its KKT conditions with linearly independent multipliers, it is there the optimum of the
face alone: of the ball cut by at most d equations, which has a closed form (theory B3). The
faces of all A^K problems together are the subsets of at most d states with an action and a side
each, so that is what is enumerated; a candidate counts if it is in the set.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.optimize import NonlinearConstraint, minimize

from tensorplan.hypotheses import CriticalState, Hypotheses
from tensorplan.records import FloatArray

INDEPENDENT = 1e-10
"""Singular values below this fraction of the largest are zero."""


@dataclass(frozen=True)
class Reference:
    """The best candidate: value -inf and theta zeros if there is none."""

    value: float
    theta: FloatArray


def scale(row: FloatArray, norm: float) -> float:
    """Largest |<row, (1, theta)>| over the ball."""
    return abs(float(row[0])) + norm * float(np.linalg.norm(row[1:]))


def violation(theta: FloatArray, beliefs: Hypotheses) -> float:
    """How far theta is outside the union of slabs, each factor relative to its scale."""
    worst = float(np.linalg.norm(theta)) / beliefs.norm - 1
    for state in beliefs.states:
        excess = np.abs(state.errors(theta)) - beliefs.half_width
        scales = np.array([scale(row, beliefs.norm) for row in state.rows])
        if scales.all():
            worst = max(worst, float((excess / scales).min()))
    return worst


def product_violation(theta: FloatArray, beliefs: Hypotheses) -> float:
    """How much every factor, relative to its scale, must shrink for the product form to hold."""
    low, high = 0.0, 1.0
    while high - low > 1e-12:
        shrink = (low + high) / 2
        inside = all(_shrunk(state, theta, beliefs, shrink) for state in beliefs.states)
        low, high = (low, shrink) if inside else (shrink, high)
    return max(high, float(np.linalg.norm(theta)) / beliefs.norm - 1)


def _shrunk(state: CriticalState, theta: FloatArray, beliefs: Hypotheses, shrink: float) -> bool:
    scales = np.array([scale(row, beliefs.norm) for row in state.rows])
    errors = np.maximum(np.abs(state.errors(theta)) - shrink * scales, 0)
    return float(np.prod(errors)) <= beliefs.root ** len(state.rows) * (1 + 1e-9)


def _closed_form(
    objective: FloatArray, norm: float, matrix: FloatArray, right: FloatArray
) -> FloatArray | None:
    """Best point of the ball of radius norm under matrix @ theta = right, if there is one."""
    _, singular, basis = np.linalg.svd(matrix, full_matrices=False)
    basis = basis[singular > INDEPENDENT]
    shortest = np.asarray(np.linalg.lstsq(matrix, right, rcond=INDEPENDENT)[0], np.float64)
    free = norm**2 - float(shortest @ shortest)
    if np.abs(matrix @ shortest - right).max(initial=0) > 1e-9 or free < -1e-9 * norm**2:
        return None
    inside = objective - basis.T @ (basis @ objective)
    length = float(np.linalg.norm(inside))
    if length <= INDEPENDENT * float(np.linalg.norm(objective)):
        return shortest
    return np.asarray(shortest + inside * (max(free, 0.0) ** 0.5 / length), dtype=np.float64)


def _faces(beliefs: Hypotheses, widen: float) -> Iterator[tuple[FloatArray, FloatArray]]:
    """All sets of at most d equations, rows of norm 1, one side of one slab per state."""
    sides: list[list[tuple[FloatArray, float]]] = []
    for state in beliefs.states:
        radius = beliefs.half_width
        here: list[tuple[FloatArray, float]] = []
        for row in np.unique(state.rows, axis=0):
            length = float(np.linalg.norm(row[1:]))
            width = radius + widen * scale(row, beliefs.norm)
            if length:
                here += [(row[1:] / length, (s * width - row[0]) / length) for s in (-1, 1)]
        sides.append(here)
    for size in range(min(beliefs.dim, len(sides)) + 1):
        for chosen in itertools.combinations(sides, size):
            for face in itertools.product(*chosen):
                rows = np.array([row for row, _ in face]).reshape(size, beliefs.dim)
                yield rows, np.array([right for _, right in face])


def best_in_slabs(
    objective: FloatArray, beliefs: Hypotheses, *, widen: float = 0.0, tolerance: float = 1e-9
) -> Reference:
    """Maximum of <c, theta> over the union of slabs, all of them and the ball widened a little.

    Args:
        objective: [d], c.
        beliefs: the set.
        widen: added to the slabs' radii, relative to each row's scale, and to the ball's.
        tolerance: by how much a candidate may miss the widened set.
    """
    best = Reference(-np.inf, np.zeros(beliefs.dim))
    for matrix, right in _faces(beliefs, widen):
        theta = _closed_form(objective, beliefs.norm * (1 + widen), matrix, right)
        if theta is None or float(objective @ theta) <= best.value:
            continue
        if violation(theta, beliefs) <= widen + tolerance:
            best = Reference(float(objective @ theta), theta)
    return best


def good_in_product(objective: FloatArray, beliefs: Hypotheses, starts: int = 12) -> Reference:
    """A good parameter of the product form: a lower bound on its maximum, by local ascent.

    Starts from the candidates of the slabs of radius zero (all in the product form) and climbs.
    """
    exact = Hypotheses(beliefs.dim, beliefs.norm, 0.0, beliefs.states)
    points = [_closed_form(objective, beliefs.norm, *face) for face in _faces(exact, 0.0)]
    inside = [p for p in points if p is not None and beliefs.contains(p, slack=1e-14)]
    inside.sort(key=lambda point: -float(objective @ point))
    best = Reference(-np.inf, np.zeros(beliefs.dim))
    for start in inside[:starts]:
        for theta in (start, _climb(objective, beliefs, start)):
            value = float(objective @ theta)
            if value > best.value and beliefs.contains(theta, slack=1e-14):
                best = Reference(value, theta)
    return best


def _climb(objective: FloatArray, beliefs: Hypotheses, start: FloatArray) -> FloatArray:
    def room(theta: FloatArray) -> FloatArray:
        products = np.array([np.prod(state.errors(theta)) for state in beliefs.states])
        thresholds = np.array([beliefs.root ** len(state.rows) for state in beliefs.states])
        slack = (thresholds - np.abs(products)) / np.maximum(thresholds, 1e-12)
        return np.append(slack, 1 - theta @ theta / beliefs.norm**2)

    def loss(theta: FloatArray) -> float:
        return -float(objective @ theta)

    inside = NonlinearConstraint(room, 0, np.inf)
    answer = minimize(loss, start, method="SLSQP", constraints=inside, tol=1e-12)
    theta = np.asarray(answer.x, dtype=np.float64)
    return theta / max(1.0, float(np.linalg.norm(theta)) / beliefs.norm)


def random_instance(seed: int) -> tuple[FloatArray, Hypotheses]:
    """A tiny instance of one of five kinds, many of them degenerate, some of them empty.

    Gaussian rows; rows of -1, 0 and 1; rows consistent with a hidden parameter, which may lie on
    or outside the ball; the same with rows of sizes 1e-3 to 1e3; the same with duplicated and
    void rows.
    """
    rng = np.random.default_rng(seed)
    dim, actions, count = int(rng.integers(1, 4)), int(rng.integers(1, 4)), int(rng.integers(5))
    threshold, kind = float(rng.choice([0.0, 1e-9, 1e-6, 1e-3])), int(rng.integers(5))
    hidden = rng.normal(size=dim)
    hidden *= float(rng.choice([0.5, 1.0, 1.2])) / float(np.linalg.norm(hidden))
    states: list[CriticalState] = []
    for _ in range(count):
        rows = rng.normal(size=(actions, dim + 1))
        if kind == 1:
            rows = rng.integers(-1, 2, size=rows.shape).astype(np.float64)
        if kind >= 2:
            rows[0, 0] = -rows[0, 1:] @ hidden
        if kind == 3:
            rows *= 10.0 ** rng.integers(-3, 4, size=(actions, 1))
        if kind == 4:
            rows[-1] = rows[0] * float(rng.random() > 0.15)
        states.append(CriticalState(1, rows))
    objective = rng.normal(size=dim) * 10.0 ** int(rng.integers(-1, 2)) * (rng.random() > 0.06)
    return objective, Hypotheses(
        dim, float(rng.choice([1.0, 2.5])), threshold ** (1 / actions), tuple(states)
    )
