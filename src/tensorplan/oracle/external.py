"""What the oracles by other people's solvers share: the set in normal form, and their manners.

Over y = theta / B in the unit ball, every row of the set is divided by its largest absolute value
on the ball:

* a factor <row_a, (1, theta)> of a critical state becomes g_a in [-1, 1];
* a range cut and a Bellman cut (theory B4) become <row, (1, y)> <= 0 with values in [-1, 1].

Tolerances are in these units, whatever those of the data.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np

from tensorplan.errors import OracleError, SettingError
from tensorplan.hypotheses import CriticalState, Hypotheses
from tensorplan.oracle.base import Optimum, OracleStatus
from tensorplan.records import FloatArray

if TYPE_CHECKING:
    from types import ModuleType

WIDENED = 1e-8
"""By how much sets are widened: normalised factors, cuts, and the ball.

NOTE: without it, sets with no interior (noise-free equalities, a ball that touches a slab) are
called empty when the last bits of their data disagree.
"""

ACCEPTED = 2e-7
"""How far each normalised factor and cut of an answer may be from where the set wants it."""

BOUND_SLACK = 1e-7
"""What is added to a solver's upper bound for its tolerances, as a fraction of B ||c||."""

WAY_OUT = "Use the oracle 'slabs', or a larger threshold."

Form = Literal["product", "slabs"]


@dataclass(frozen=True)
class Factors:
    """A critical state in normal form.

    Attributes:
        rows: [m, d + 1], distinct rows, each with |<row, (1, y)>| <= 1 on the ball.
        powers: [m], how often each row occurs; they sum to k.
        radii: [m], half-widths of the slabs, over the rows' largest values.
        root: the k-th root of the bound on the product of the normalised factors (eq. sol).
    """

    rows: FloatArray
    powers: tuple[int, ...]
    radii: FloatArray
    root: float

    def excess(self, y: FloatArray, form: Form) -> float:
        """How far each factor must at least come down for y to be in the set (0 inside)."""
        values = np.abs(self.rows[:, 0] + self.rows[:, 1:] @ y)
        if form == "slabs" or self.root == 0:
            return max(0.0, float((values - self.radii).min()))
        logs = np.log(np.maximum(values - ACCEPTED, 1e-300))
        mean = float(np.dot(self.powers, logs)) / sum(self.powers)
        return 0.0 if mean <= math.log(self.root) + ACCEPTED else math.exp(mean) - self.root


@dataclass(frozen=True)
class UnitSet:
    """The believable set in normal form.

    Attributes:
        form: "product" for eq. (sol), "slabs" for its relaxation to unions of slabs (theory B2).
        cuts: [m, d + 1], rows with <row, (1, y)> <= 0, those that the ball implies left out.
        states: the critical states that exclude something.
    """

    form: Form
    cuts: FloatArray
    states: tuple[Factors, ...]

    def excess(self, y: FloatArray) -> float:
        """How far y is outside the cuts and critical states (0 inside)."""
        cut = float((self.cuts[:, 0] + self.cuts[:, 1:] @ y).max(initial=0.0))
        return max([cut, *(factors.excess(y, self.form) for factors in self.states)])


def unit_set(beliefs: Hypotheses, form: Form) -> UnitSet | None:
    """Normal form of the set, or None if one of its cuts excludes the whole ball."""
    rows = np.array(list(_cut_rows(beliefs)), dtype=np.float64).reshape(-1, beliefs.dim + 1)
    reach = beliefs.norm * np.linalg.norm(rows[:, 1:], axis=1)
    binds = rows[:, 0] + reach > 0
    rows, reach = rows[binds], reach[binds]
    largest = np.abs(rows[:, 0]) + reach
    if np.any(rows[:, 0] - reach > WIDENED * largest):
        return None
    rows = rows / largest[:, None]
    rows[:, 1:] *= beliefs.norm
    states = (normalise(state, beliefs, form) for state in beliefs.states)
    kept = tuple(factors for factors in states if factors is not None)
    return UnitSet(form, np.unique(rows, axis=0), kept)


def _cut_rows(beliefs: Hypotheses) -> Iterator[FloatArray]:
    """Range cuts, a row for each finite side, and Bellman cuts, as <row, (1, theta)> <= 0."""
    cuts = beliefs.cuts
    for normal, low, high in zip(cuts.normals, cuts.low, cuts.high, strict=True):
        if high < math.inf:
            yield np.append(-high, normal)
        if low > -math.inf:
            yield np.append(low, -normal)
    for state in beliefs.states if beliefs.bellman else ():
        for row, radius in zip(state.rows, beliefs.radii(state), strict=True):
            if radius < math.inf:
                yield np.append(row[0] - radius, row[1:])


def normalise(state: CriticalState, beliefs: Hypotheses, form: Form) -> Factors | None:
    """Normal form of a critical state, or None if it excludes nothing (as with a zero row).

    Only slabs have radii of their own; the product form has one threshold.
    """
    rows, which, counts = np.unique(
        state.rows + 0.0, axis=0, return_inverse=True, return_counts=True
    )
    largest = np.abs(rows[:, 0]) + beliefs.norm * np.linalg.norm(rows[:, 1:], axis=1)
    if not largest.all():
        return None
    radii = np.full(len(rows), beliefs.root if form == "product" else 0.0)
    if form == "slabs":
        np.maximum.at(radii, which.reshape(-1), beliefs.radii(state))
    mean = float(np.dot(counts, np.log(largest))) / len(state.rows)
    root = beliefs.root / math.exp(mean)
    if np.any(radii >= largest) if form == "slabs" else root >= 1:
        return None
    unit = rows / largest[:, None]
    unit[:, 1:] *= beliefs.norm
    return Factors(unit, tuple(int(count) for count in counts), radii / largest, root)


def nothing_left(dim: int, nodes: int) -> Optimum:
    """The answer for an empty set."""
    return Optimum(OracleStatus.EMPTY, np.zeros(dim), -math.inf, -math.inf, nodes)


def bound_only(objective: FloatArray, upper: float, nodes: int) -> Optimum:
    """The answer without a parameter of the set: the shortest one that predicts the bound."""
    square = float(objective @ objective)
    theta = objective * (upper / square) if square else np.zeros(len(objective))
    return Optimum(OracleStatus.LIMIT, theta, float(objective @ theta), upper, nodes)


def load_package(package: str, extra: str) -> ModuleType:
    """Import a solver, when it is first needed."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise OracleError(
            f"oracle '{extra}'",
            f"it needs the package {package}, which cannot be imported here",
            f"Run `pip install 'tensorplan[{extra}]'`, or choose the oracle 'slabs'.",
        ) from error


class Limited(Protocol):
    """What an oracle by a solver can be told."""

    @property
    def gap(self) -> float:
        """Largest accepted difference of the bounds on <c, theta>."""
        ...

    @property
    def node_limit(self) -> int | None:
        """Largest number of nodes, or None."""
        ...

    @property
    def time_limit(self) -> float | None:
        """Seconds, or None."""
        ...

    @property
    def seed(self) -> int:
        """Of the solver's tie-breaking."""
        ...


def check_limits(oracle: Limited) -> None:
    """Refuse limits of a solver that mean nothing."""
    name = type(oracle).__name__
    rules = (
        ("gap", oracle.gap, 0, math.inf, "at least 0"),
        ("node_limit", oracle.node_limit, 1, math.inf, "at least 1, or None"),
        ("time_limit", oracle.time_limit, 0, math.inf, "at least 0, or None"),
        ("seed", oracle.seed, 0, 2**31 - 1, "from 0 to 2^31 - 1"),
    )
    for setting, value, low, high, rule in rules:
        if value is not None and not low <= value <= high:
            raise SettingError(f"{name}.{setting}={value!r}", f"it must be {rule}", "Set it so.")
