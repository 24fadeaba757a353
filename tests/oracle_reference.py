"""Slow, exact answers of the optimistic oracle on tiny instances, by enumeration.

The maximum over the believable set is the best of the A^K convex problems in which every critical
state has chosen one action. Such a problem is a ball cut by half-spaces: both sides of the chosen
slabs, the range cuts, and the Bellman cuts. By the KKT conditions with linearly independent
multipliers, an optimum of it is, for some independent half-spaces that are tight there, the best
point of their common flat in the ball, or the shortest point of the flat; both have a closed form
(theory B3). The flats of all A^K problems together are those of at most d of all half-spaces, so
that is what is enumerated; a candidate counts if it is in the set.

The arithmetic is NumPy's long double, 19 digits on x86: enough for the flats of rows whose
directions differ by 1e-9. ``best_by_choices`` solves the A^K problems one by one with Clarabel
instead. It needs sets with an interior, and checks the enumeration there.
"""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import NonlinearConstraint, minimize

from tensorplan.hypotheses import NO_CUTS, CriticalState, Cuts, Hypotheses
from tensorplan.records import FloatArray

Long = NDArray[np.longdouble]

DEPENDENT = 1e-13
"""A unit row this close to the span of others depends on them."""

ACROSS = 1e-12
"""An objective whose part along a flat is this small is constant on it."""

CHUNK = 256
"""Candidates whose membership is decided at a time."""


@dataclass(frozen=True)
class Reference:
    """The best candidate: value -inf and theta zeros if there is none."""

    value: float
    theta: FloatArray


@dataclass(frozen=True)
class Sides:
    """The set as half-spaces <row, (1, theta)> <= 0, in units of the scale of each row.

    Attributes:
        norm: B.
        hard: [m, d + 1], those that hold everywhere: range cuts and Bellman cuts.
        slabs: [2, k, d + 1] per critical state: some action is within both of its sides.
    """

    norm: float
    hard: FloatArray
    slabs: tuple[FloatArray, ...]

    def rows(self) -> FloatArray:
        """All half-spaces: [n, d + 1]."""
        flat = [slab.reshape(-1, self.hard.shape[1]) for slab in self.slabs]
        return np.concatenate([self.hard, *flat])

    def excess(self, points: Long) -> Long:
        """How far each point is outside: [n, d] to [n]."""
        size = np.linalg.norm(points.astype(np.float64), axis=1) / self.norm - 1
        worst = np.asarray(size, dtype=np.longdouble)
        if len(self.hard):
            worst = np.maximum(worst, (self.hard[:, 0] + points @ self.hard[:, 1:].T).max(axis=1))
        for slab in self.slabs:
            sides = slab[:, :, 0] + np.tensordot(points, slab[:, :, 1:], axes=(1, 2))
            worst = np.maximum(worst, sides.max(axis=1).min(axis=1))
        return worst


def scale(row: FloatArray, norm: float) -> float:
    """Largest |<row, (1, theta)>| over the ball."""
    return abs(float(row[0])) + norm * float(np.linalg.norm(row[1:]))


def sides_of(beliefs: Hypotheses, widen: float = 0.0) -> Sides:
    """The set with all of its half-spaces and its ball moved outwards by widen, if positive."""
    hard = [row / (scale(row, beliefs.norm) or 1.0) for row in _cut_rows(beliefs.cuts)]
    slabs: list[FloatArray] = []
    for state in beliefs.states:
        scales = np.array([scale(row, beliefs.norm) for row in state.rows])
        unit = state.rows / np.where(scales > 0, scales, 1.0)[:, None]
        radii = beliefs.radii(state) / np.where(scales > 0, scales, 1.0)
        moved = np.zeros_like(unit)
        moved[:, 0] = radii
        if beliefs.bellman:
            hard += [row for row in unit - moved if np.isfinite(row[0])]
        if scales.all() and np.isfinite(radii).all():
            slabs.append(np.stack([unit - moved, -unit - moved]))
    outer = np.array(hard, dtype=np.float64).reshape(len(hard), beliefs.dim + 1)
    outer[:, 0] -= widen
    for slab in slabs:
        slab[:, :, 0] -= widen
    return Sides(beliefs.norm * (1 + widen), outer, tuple(slabs))


def _cut_rows(cuts: Cuts) -> Iterator[FloatArray]:
    """The finite sides of range cuts, each as a row that must be at most 0."""
    for normal, low, high in zip(cuts.normals, cuts.low, cuts.high, strict=True):
        if np.isfinite(high):
            yield np.append(-high, normal)
        if np.isfinite(low):
            yield np.append(low, -normal)


def violation(theta: FloatArray, beliefs: Hypotheses) -> float:
    """How far theta is outside the union of slabs, each half-space relative to its scale."""
    return float(sides_of(beliefs).excess(np.asarray(theta, dtype=np.longdouble)[None])[0])


def bellman_as_cuts(beliefs: Hypotheses) -> Hypotheses:
    """The same set with its Bellman cuts as range cuts, so that radii say no more than slabs."""
    if not beliefs.bellman or not beliefs.states:
        return replace(beliefs, bellman=False)
    rows = np.concatenate([state.rows for state in beliefs.states])
    radii = np.concatenate([beliefs.radii(state) for state in beliefs.states])
    cuts = Cuts(rows[:, 1:], np.full(len(rows), -np.inf), radii - rows[:, 0])
    return replace(beliefs.with_cuts(cuts), bellman=False)


def product_violation(theta: FloatArray, beliefs: Hypotheses) -> float:
    """How much every factor, relative to its scale, must shrink for the product form to hold.

    At least how far theta is outside the ball and the cuts.
    """
    low, high = 0.0, 1.0
    while high - low > 1e-12:
        shrink = (low + high) / 2
        inside = all(_shrunk(state, theta, beliefs, shrink) for state in beliefs.states)
        low, high = (low, shrink) if inside else (shrink, high)
    return max(high, violation(theta, _cuts_alone(beliefs)))


def _cuts_alone(beliefs: Hypotheses) -> Hypotheses:
    return replace(bellman_as_cuts(beliefs), states=())


def _shrunk(state: CriticalState, theta: FloatArray, beliefs: Hypotheses, shrink: float) -> bool:
    scales = np.array([scale(row, beliefs.norm) for row in state.rows])
    errors = np.maximum(np.abs(state.errors(theta)) - shrink * scales, 0)
    return float(np.prod(errors)) <= beliefs.root ** len(state.rows) * (1 + 1e-9)


@lru_cache(maxsize=512)
def _subsets(count: int, size: int) -> NDArray[np.intp]:
    chosen = list(itertools.combinations(range(count), size))
    return np.array(chosen, dtype=np.intp).reshape(len(chosen), size)


def _dot(left: Long, right: Long) -> Long:
    return (left * right).sum(axis=1, keepdims=True)


def _on_flats(objective: Long, norm: float, rows: Long, chosen: NDArray[np.intp]) -> Long:
    """Shortest and best points in the ball of the flats <row, (1, theta)> = 0: [n, d].

    Args:
        objective: [d], of norm 1 or 0.
        norm: radius of the ball.
        rows: [m, d + 1], with normals of norm 1.
        chosen: [n, k], the rows of each flat.
    """
    shortest = np.zeros((len(chosen), len(objective)), dtype=np.longdouble)
    along = shortest + objective
    independent = np.ones(len(chosen), dtype=np.bool_)
    basis: list[Long] = []
    for row in (rows[column] for column in chosen.T):
        fresh = row[:, 1:]
        for direction in (*basis, *basis):  # twice: the second removes what rounding left
            fresh = fresh - _dot(fresh, direction) * direction
        length = np.sqrt(_dot(fresh, fresh))
        independent &= length[:, 0] > DEPENDENT
        fresh = fresh / np.maximum(length, DEPENDENT)
        step = (row[:, :1] + _dot(row[:, 1:], shortest)) / np.maximum(length, DEPENDENT)
        shortest = shortest - step * fresh
        basis.append(fresh)
        for direction in (*basis, *basis):
            along = along - _dot(along, direction) * direction
    free = norm**2 - _dot(shortest, shortest)
    near = independent & (free[:, 0] >= -1e-6 * norm**2)
    shortest, along, free = shortest[near], along[near], np.maximum(free[near], 0)
    length = np.sqrt(_dot(along, along))
    best = shortest + np.sqrt(free) / np.maximum(length, ACROSS) * along
    points = np.concatenate([shortest, best[length[:, 0] > ACROSS]])
    return np.asarray(points, dtype=np.longdouble)


def _candidates(objective: FloatArray, sides: Sides) -> Long:
    """All points of the ball that can be optimal, best first: [n, d]."""
    rows = np.unique(sides.rows().astype(np.longdouble), axis=0)
    lengths = np.sqrt((rows[:, 1:] ** 2).sum(axis=1))
    rows = rows[lengths > 0] / lengths[lengths > 0][:, None]
    # The 19 digits of the objective's direction matter on flats that it all but crosses.
    long = objective.astype(np.longdouble)
    long = long / (np.sqrt(long @ long) or 1)
    sizes = range(min(len(objective), len(rows)) + 1)
    flats = [_on_flats(long, sides.norm, rows, _subsets(len(rows), size)) for size in sizes]
    points = np.concatenate(flats)
    return points[np.argsort(-(points @ long), kind="stable")]


def best_in_slabs(
    objective: FloatArray, beliefs: Hypotheses, *, widen: float = 0.0, tolerance: float = 1e-9
) -> Reference:
    """Maximum of <c, theta> over the set of slabs and cuts, all of it widened or shrunk a little.

    What is returned is at least the maximum over the set, up to rounding, and at most that over
    the set widened by tolerance. Where widen > 0 and widen < 0 disagree on emptiness, or by much,
    so does the last digit of the data.

    Args:
        objective: [d], c.
        beliefs: the set.
        widen: added to all radii and limits, relative to each row's scale, and to the ball's.
        tolerance: by how much a candidate may miss the widened set, in the same units.
    """
    sides = sides_of(beliefs, widen)
    points = _candidates(objective, sides)
    for start in range(0, len(points), CHUNK):
        inside = sides.excess(points[start : start + CHUNK]) <= tolerance
        if inside.any():
            theta = points[start + int(inside.argmax())].astype(np.float64)
            return Reference(float(objective @ theta), theta)
    return Reference(-np.inf, np.zeros(beliefs.dim))


class UndecidedError(Exception):
    """Clarabel neither solved a problem nor found that it has no solution."""


def best_by_choices(objective: FloatArray, beliefs: Hypotheses) -> Reference:
    """The same maximum, by the A^K convex problems one after another, each solved by Clarabel.

    Raises:
        UndecidedError: one of them is too thin for it.
    """
    sides = sides_of(beliefs)
    best = Reference(-np.inf, np.zeros(beliefs.dim))
    for choice in itertools.product(*(range(slab.shape[1]) for slab in sides.slabs)):
        chosen = [slab[:, action] for slab, action in zip(sides.slabs, choice, strict=True)]
        found = _by_clarabel(objective, sides.norm, np.concatenate([sides.hard, *chosen]))
        if found is not None and float(objective @ found) > best.value:
            best = Reference(float(objective @ found), found)
    return best


def _by_clarabel(objective: FloatArray, norm: float, rows: FloatArray) -> FloatArray | None:
    """Best point of the ball under <row, (1, theta)> <= 0; None if Clarabel says there is none."""
    clarabel: Any = importlib.import_module("clarabel")  # it has no types
    dim = len(objective)
    matrix = np.concatenate([rows[:, 1:], np.zeros((1, dim)), -np.eye(dim)])
    right = np.concatenate([-rows[:, 0], [norm], np.zeros(dim)])
    cones = [clarabel.NonnegativeConeT(len(rows)), clarabel.SecondOrderConeT(dim + 1)]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-10
    length = float(np.linalg.norm(objective)) or 1.0
    nothing = sparse.csc_matrix((dim, dim))
    solver = clarabel.DefaultSolver(
        nothing, -objective / length, sparse.csc_matrix(matrix), right, cones, settings
    )
    solution = solver.solve()
    status = str(solution.status)
    if status in ("PrimalInfeasible", "AlmostPrimalInfeasible"):
        return None
    if status not in ("Solved", "AlmostSolved"):
        raise UndecidedError(status)
    return np.array(solution.x, dtype=np.float64)


def good_in_product(objective: FloatArray, beliefs: Hypotheses, starts: int = 12) -> Reference:
    """A good parameter of the product form: a lower bound on its maximum, by local ascent.

    Starts from the candidates of the slabs of radius zero (all in the product form) and climbs.
    """
    cuts = sides_of(_cuts_alone(beliefs))
    products = replace(beliefs, cuts=NO_CUTS, bellman=False)
    bare = tuple(replace(state, radii=None) for state in beliefs.states)
    exact = replace(bellman_as_cuts(beliefs), root=0.0, slab_width=None, states=bare)

    def held(theta: FloatArray) -> bool:
        return products.contains(theta, slack=1e-14) and bool(
            cuts.excess(np.asarray(theta, dtype=np.longdouble)[None])[0] <= 1e-12
        )

    points = _candidates(objective, sides_of(exact)).astype(np.float64)
    inside = itertools.islice((point for point in points if held(point)), starts)
    best = Reference(-np.inf, np.zeros(beliefs.dim))
    for start in inside:
        for theta in (start, _climb(objective, beliefs, cuts.hard, start)):
            value = float(objective @ theta)
            if value > best.value and held(theta):
                best = Reference(value, theta)
    return best


def _climb(
    objective: FloatArray, beliefs: Hypotheses, hard: FloatArray, start: FloatArray
) -> FloatArray:
    def room(theta: FloatArray) -> FloatArray:
        products = np.array([np.prod(state.errors(theta)) for state in beliefs.states])
        thresholds = np.array([beliefs.root ** len(state.rows) for state in beliefs.states])
        slack = (thresholds - np.abs(products)) / np.maximum(thresholds, 1e-12)
        ball = 1 - theta @ theta / beliefs.norm**2
        return np.concatenate([slack, [ball], -hard[:, 0] - hard[:, 1:] @ theta])

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


KINDS = (
    "general",
    "degenerate",
    "duplicated",
    "near-dependent",
    "scaled",
    "empty",
    "tangent",
    "vertex",
    "one dimension",
    "one action",
    "no objective",
    "masked",
    "late cuts",
    "late states",
    "refined",
    "bellman",
)
"""What the instances with cuts are made to show."""


@dataclass(frozen=True)
class Instance:
    """A tiny instance with cuts.

    Attributes:
        kind: one of ``KINDS``.
        objective: [d], c.
        sets: what is believed, in the order in which it was learnt. The union of slabs of each
            lies within that of the one before.
    """

    kind: str
    objective: FloatArray
    sets: tuple[Hypotheses, ...]

    @property
    def beliefs(self) -> Hypotheses:
        """What is believed in the end."""
        return self.sets[-1]


def random_instance_with_cuts(seed: int) -> Instance:
    """A tiny instance of one of ``KINDS``: d <= 3, A <= 3, K <= 4 and at most 6 cuts.

    The kinds take turns; whatever a kind does not fix is random, so that most instances show
    several things at once. Most sets are built around a hidden parameter.
    """
    return _Draw(np.random.default_rng(seed), KINDS[seed % len(KINDS)]).instance()


class _Draw:
    """One random instance of a kind."""

    def __init__(self, rng: np.random.Generator, kind: str) -> None:
        self.rng, self.kind = rng, kind
        self.dim = 1 if kind == "one dimension" else int(rng.integers(1 + (kind == "vertex"), 4))
        self.actions = 1 if kind == "one action" else int(rng.integers(1, 4))
        self.norm = 30.0 if kind == "vertex" else float(rng.choice([1.0, 2.5]))
        self.bellman = kind == "bellman" or bool(rng.random() < 0.15)
        self.hidden = rng.normal(size=self.dim)
        share = 1.0 if kind == "tangent" else float(rng.choice([0.3, 0.8, 1.0], p=[0.4, 0.4, 0.2]))
        self.hidden *= share * min(self.norm, 2.5) / float(np.linalg.norm(self.hidden))

    def instance(self) -> Instance:
        """The instance."""
        rng = self.rng
        states = [self.state() for _ in range(int(rng.integers(self.kind == "refined", 5)))]
        cuts = self.cuts(int(rng.integers(7)))
        if self.kind == "duplicated" and len(states) > 1:
            states[-1] = replace(states[0], rows=states[0].rows[::-1], radii=None)
        root = float(rng.choice([0.0, 1e-9, 1e-6, 1e-3])) ** (1 / self.actions)
        width = float(rng.choice([0.0, 1e-6, 1e-2])) if rng.random() < 0.3 else None
        states, cuts = self.spoiled(states, cuts)
        bare = Hypotheses(self.dim, self.norm, root, (), width, NO_CUTS, self.bellman)
        return Instance(self.kind, self.objective(cuts), self.history(bare, states, cuts))

    def direction(self) -> FloatArray:
        """A normal: [d], of norm about 1 unless the kind is of all scales."""
        row = self.rng.normal(size=self.dim)
        if self.kind == "degenerate":
            row = self.rng.integers(-1, 2, size=self.dim).astype(np.float64)
        return row * self.size()

    def size(self) -> float:
        """By how much a row is scaled."""
        return 10.0 ** float(self.rng.integers(-3, 4)) if self.kind == "scaled" else 1.0

    def state(self) -> CriticalState:
        """A critical state at which the hidden parameter is consistent with the first action."""
        count = self.actions
        if self.kind == "masked":
            count = int(self.rng.integers(1, self.actions + 1))
        normals = np.array([self.direction() for _ in range(count)])
        if self.kind == "tangent" and self.rng.random() < 0.5:
            normals[0] = self.hidden / self.norm
        below = self.rng.exponential(size=count) * (self.rng.random(count) < 0.8)
        signs = 1.0 if self.bellman else self.rng.choice([-1.0, 1.0], size=count)
        below[0] = 0.0
        lengths = np.maximum(np.linalg.norm(normals, axis=1), 1e-3)
        rows = np.column_stack([-normals @ self.hidden - signs * below * lengths, normals])
        if self.kind == "degenerate":
            rows[:, 0] = self.rng.integers(-1, 2, size=count)
        rows = self.repeated(rows)
        radii = self.rng.choice([0.0, 1e-9, 1e-6, 1e-3, 0.1], size=count)
        features = self.rng.normal(size=self.dim) if self.rng.random() < 0.5 else None
        return CriticalState(1, rows, radii if self.rng.random() < 0.4 else None, features)

    def repeated(self, rows: FloatArray) -> FloatArray:
        """Rows with one that repeats the first, all but repeats it, or is zero."""
        if self.kind == "duplicated":
            times = self.rng.choice([0.0, 1.0, -1.0, 3.0], p=[0.1, 0.5, 0.2, 0.2])
            rows[-1] = rows[0] * float(times)
        if self.kind == "near-dependent" and len(rows) > 1:
            rows[-1] = rows[0] + self.nearness() * self.rng.normal(size=rows.shape[1])
        return rows

    def nearness(self) -> float:
        return 10.0 ** -float(self.rng.integers(6, 10))

    def cuts(self, count: int) -> Cuts:
        """Range cuts, all of which the hidden parameter obeys, some of them just."""
        normals = np.array([self.direction() for _ in range(count)]).reshape(count, self.dim)
        if self.kind == "duplicated" and count > 1:
            normals[-1] = normals[0] * self.rng.choice([-2.0, 1.0])
        if self.kind == "near-dependent" and count > 1:
            normals[-1] = normals[0] + self.nearness() * self.rng.normal(size=self.dim)
        lengths = np.linalg.norm(normals, axis=1)
        middle = normals @ self.hidden
        room = self.rng.exponential(0.3, size=(2, count)) * (self.rng.random((2, count)) < 0.8)
        low, high = middle - room[0] * lengths, middle + room[1] * lengths
        if self.kind == "degenerate":
            low, high = np.floor(low), np.ceil(high)
        open_sides = self.rng.random((2, count)) < 0.25
        low, high = np.where(open_sides[0], -np.inf, low), np.where(open_sides[1], np.inf, high)
        return Cuts(normals, low, high)

    def spoiled(self, states: list[CriticalState], cuts: Cuts) -> tuple[list[CriticalState], Cuts]:
        """The same without anything that is consistent, if the set is to be empty or tangent."""
        away = self.hidden / float(np.linalg.norm(self.hidden))
        if self.kind == "tangent":
            return states, cuts.joined(Cuts(away[None], np.array([self.norm]), np.array([np.inf])))
        if self.kind != "empty":
            return states, cuts
        way = int(self.rng.integers(3))
        if way == 0:  # a plane beyond the ball, by a little or by much
            beyond = self.norm * (1 + float(self.rng.choice([1e-3, 0.5])))
            rows = np.tile(np.append(-beyond, away), (self.actions, 1))
            return [*states[:3], CriticalState(1, rows, np.full(self.actions, 1e-6))], cuts
        if way == 1:  # two cuts that contradict one another
            middle = float(away @ self.hidden)
            apart = np.array([middle - 1e-3, np.inf]), np.array([-np.inf, middle + 1e-3])
            return states, Cuts(np.array([away, away]), apart[1], apart[0]).joined(cuts)
        normal = np.append(-1.0, np.zeros(self.dim))  # actions that nothing is consistent with
        return [*states[:3], CriticalState(1, np.tile(normal, (self.actions, 1)))], cuts

    def objective(self, cuts: Cuts) -> FloatArray:
        """c: zero, across some cuts, or random."""
        if self.kind == "no objective":
            return np.zeros(self.dim)
        random = self.rng.normal(size=self.dim)
        if self.kind == "vertex" and len(cuts) and self.rng.random() < 0.7:
            signs = np.isfinite(cuts.high) * 1.0 - (~np.isfinite(cuts.high)) * np.isfinite(cuts.low)
            random = (self.rng.random(len(cuts)) * signs) @ cuts.normals
        if self.kind == "degenerate":
            random = self.rng.integers(-1, 2, size=self.dim).astype(np.float64)
        return random * 10.0 ** int(self.rng.integers(-1, 2))

    def history(
        self, bare: Hypotheses, states: list[CriticalState], cuts: Cuts
    ) -> tuple[Hypotheses, ...]:
        """How the set was learnt: at once, state by state, cut by cut, or with refinement."""
        first = replace(bare, states=tuple(states))
        if self.kind == "late states":
            start = bare.with_cuts(cuts)
            return tuple(replace(start, states=tuple(states[:n])) for n in range(len(states) + 1))
        if self.kind == "late cuts":
            ends = sorted({0, len(cuts) // 3, len(cuts)})
            pieces = [Cuts(cuts.normals[:n], cuts.low[:n], cuts.high[:n]) for n in ends]
            return tuple(first.with_cuts(piece) for piece in pieces)
        sets = [first.with_cuts(cuts)]
        for _ in range(int(self.rng.integers(1, 4)) if self.kind == "refined" else 0):
            index = int(self.rng.integers(len(states)))
            sets.append(sets[-1].refined(index, self.refined(sets[-1], index)))
        return tuple(sets)

    def refined(self, beliefs: Hypotheses, index: int) -> CriticalState:
        """A state whose slabs lie within the earlier ones: rows move by less than radii shrink."""
        state = beliefs.states[index]
        radii = beliefs.radii(state)
        moves = self.rng.normal(size=state.rows.shape)
        moves *= (self.rng.random() < 0.7) * np.linalg.norm(state.rows, axis=1)[:, None]
        spans = np.abs(moves[:, 0]) + beliefs.norm * np.linalg.norm(moves[:, 1:], axis=1)
        share = 0.3 * radii / np.where(spans > 0, spans, 1.0)
        shrunk = (radii - share * spans) * float(self.rng.choice([1.0, 0.5, 0.1]))
        return replace(state, rows=state.rows + share[:, None] * moves, radii=shrunk)
