"""Box propagation: ranges of theta's entries, tightened over actions of stored states (B4, F10).

It is for features along the axes, as tabular ones are. At a stored state with features f e_k some
action's slab holds. Where action a is consistent,

    theta_k = (r_a + z_a . theta - error) / f,   z_a = x_a + f e_k,   |error| <= w_a,

with z_a the discounted mean of the next features. So ranges of the other entries give one of
theta_k for every action, and the widest of them holds. In the mode that competes with v* alone,
every action's error is at most its radius, and the lower limit is that of the best action.

Stages are taken from the last to the first, so that one sweep does all. Without stages the sweep is
iterated to its fixpoint, and the claims of the fixpoint prove one another: the discount makes them
a contraction. Every claim goes into the proof with its multipliers (docs/proof-format.md).

All is in normal form (:mod:`tensorplan.oracle.rows`), with theta in the unit ball.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from tensorplan.oracle.arrays import CUTS
from tensorplan.oracle.claims import Case, Claim
from tensorplan.oracle.rows import BELLMAN, CLAIM, RowTable
from tensorplan.records import BoolArray, FloatArray, IntArray

_EPS = float(np.finfo(np.float64).eps)

WORTH = 1e-3
"""Part of some range that a block of claims has to take off to be kept."""

ROOM = 1e-9
"""What is added to a claim, in units of the ball, so that rounding alone does not tie it to B."""

_SWEEPS = 10_000
_REPEATS = 60
"""Sweeps of an undiscounted problem without stages, each a block of claims of its own."""

_SETTLED = 1e-11
"""Largest change of a sweep at which the fixpoint is near enough, in units of the ball."""


@dataclass(frozen=True, eq=False)
class Equations:
    """theta_k = constant + mean . theta - error, |error| <= width: one for each of n slabs.

    Attributes:
        state: [n].
        action: [n].
        row: [n], of the slab, or of the one-sided cut of v*.
        axis: [n], k.
        stage: [n].
        constant: [n].
        width: [n].
        factor: [n], f.
        mean: [n, d].
    """

    state: IntArray
    action: IntArray
    row: IntArray
    axis: IntArray
    stage: IntArray
    constant: FloatArray
    width: FloatArray
    factor: FloatArray
    mean: FloatArray

    def __len__(self) -> int:
        return len(self.row)

    def where(self, chosen: BoolArray) -> Equations:
        """Some of them."""
        return Equations(*(getattr(self, name)[chosen] for name in self.__dataclass_fields__))


@dataclass(frozen=True, eq=False)
class Box:
    """Limits of theta's entries: [d] each, and the rows that prove them, -1 for none.

    An entry without a limit is left to the ball.
    """

    high: FloatArray
    low: FloatArray
    high_row: IntArray
    low_row: IntArray

    def copy(self) -> Box:
        """The same limits in arrays of their own."""
        return Box(self.high.copy(), self.low.copy(), self.high_row.copy(), self.low_row.copy())

    @property
    def width(self) -> FloatArray:
        """Widths of the ranges [d]; 2 where there is none."""
        return np.minimum(self.high, 1.0) - np.maximum(self.low, -1.0)


@dataclass(frozen=True, eq=False)
class Propagated:
    """What propagation found.

    Attributes:
        box: what is claimed of theta's entries.
        peak: [d], the largest value of each that its state's actions allow: as a rule an allowed
            parameter, and then the best one.
    """

    box: Box
    peak: FloatArray


def propagate_box(table: RowTable) -> Propagated | None:
    """Tighten ranges as far as they go, as claims of the table.

    Returns:
        What is known of theta's entries; None if some state's features are not along an axis.
    """
    slabs = _equations(table, bellman=False)
    if slabs is None:
        return None
    best = _equations(table, bellman=True) if table.beliefs.bellman else None
    box = ideal = _known(table)
    stages = sorted(set(slabs.stage.tolist()), reverse=True)
    if len(stages) == 1:
        box, ideal = _fixpoint(table, slabs, best, box)
    else:
        for stage in stages:
            here = slabs.where(slabs.stage == stage)
            lower = None if best is None else best.where(best.stage == stage)
            box = _sweep(table, here, lower, box)
            ideal = _take(ideal, _news(here, lower, ideal))
    return Propagated(box, np.where(np.isfinite(ideal.high), ideal.high, 0.0))


def _equations(table: RowTable, *, bellman: bool) -> Equations | None:
    """The live slabs of all states, or the one-sided cuts of v* of all their actions."""
    norm, problem = table.beliefs.norm, table.problem
    rows = table.bellman_rows() if bellman else {}
    whole: list[tuple[int, ...]] = []
    real: list[tuple[float, ...]] = []
    means: list[FloatArray] = []
    for index, known in enumerate(table.states):
        state = known.epochs[-1]
        if not known.live:
            continue
        if state.features is None or np.count_nonzero(state.features) != 1:
            return None
        axis = int(np.flatnonzero(state.features)[0])
        factor = float(state.features[axis])
        if factor <= 0:
            return None
        radii = table.slab_radii(state)
        for action in range(len(state.rows)) if bellman else known.live:
            row = rows[index, action] if bellman else int(problem.current[index, action])
            whole.append((index, action, row, axis, state.stage))
            data = state.rows[action]
            real.append((data[0] / (norm * factor), radii[action] / (norm * factor), factor))
            means.append((data[1:] + state.features) / factor)
    if not whole:
        return None
    indices, numbers = np.array(whole, np.int64).T, np.array(real, np.float64).T
    return Equations(
        state=indices[0],
        action=indices[1],
        row=indices[2],
        axis=indices[3],
        stage=indices[4],
        constant=numbers[0],
        width=numbers[1],
        factor=numbers[2],
        mean=np.array(means),
    )


def _known(table: RowTable) -> Box:
    """The ranges that cuts along the axes give, where they say more than the ball."""
    problem, dim = table.problem, table.beliefs.dim
    none = np.full(dim, -1, np.int64)
    box = Box(np.full(dim, math.inf), np.full(dim, -math.inf), none, none.copy())
    rows = problem.scan_rows[: problem.sizes[CUTS]]
    normals = problem.normals[rows]
    for row in rows[np.count_nonzero(normals, axis=1) == 1].tolist():
        axis = int(np.flatnonzero(problem.normals[row])[0])
        low, high = float(problem.low[row]), float(problem.high[row])
        if problem.normals[row, axis] < 0:
            low, high = -high, -low
        if high < min(box.high[axis], 1.0):
            box.high[axis], box.high_row[axis] = high, row
        if low > max(box.low[axis], -1.0):
            box.low[axis], box.low_row[axis] = low, row
    return box


def _limits(equations: Equations, box: Box, side: int) -> FloatArray:
    """What each slab says of side * theta_k, at most: [n], with its rounding error added."""
    terms = side * equations.mean
    top = np.where(terms > 0, box.high, box.low)
    bounded = _by_box(terms, top)
    known = np.where(bounded & (terms != 0), terms, 0.0)
    limits = np.where(bounded, top, 0.0)
    rest = np.linalg.norm(np.where(bounded, 0.0, terms), axis=1)
    size = (np.abs(known) * np.abs(limits)).sum(axis=1)
    size += 1 + np.abs(equations.constant) + equations.width + np.abs(terms).sum(axis=1)
    slack = 8 * (len(box.high) + 8) * _EPS * size
    sums = (known * limits).sum(axis=1)
    return sums + rest + side * equations.constant + equations.width + slack


def _by_box(terms: FloatArray, top: FloatArray) -> BoolArray:
    """Which entries are bounded by their own limits: [n, d]; the others by the ball, together.

    Entries without a limit are left to the ball, and all of them where that alone says more.
    Neither way ever says less when limits become sharper.
    """
    finite = np.isfinite(top)
    limits = np.where(finite, top, 0.0)
    rest = np.linalg.norm(np.where(finite, 0.0, terms), axis=1)
    boxed = (np.where(finite, terms, 0.0) * limits).sum(axis=1) + rest
    return finite & (boxed <= np.linalg.norm(terms, axis=1))[:, None]


def _best_by_axis(
    equations: Equations, limits: FloatArray, over: Callable[..., FloatArray]
) -> tuple[FloatArray, IntArray, IntArray]:
    """Combine the limits of a state's actions, and take the best state of every axis.

    Returns:
        (limits, axes, a slab of the state): [m] each.
    """
    starts = np.flatnonzero(np.r_[True, equations.state[1:] != equations.state[:-1]])
    combined = over(limits, starts)
    order = np.lexsort((combined, equations.axis[starts]))
    axes, first = np.unique(equations.axis[starts][order], return_index=True)
    chosen = order[first]
    return combined[chosen], axes, starts[chosen]


@dataclass(frozen=True, eq=False)
class _Found:
    """Limits of side * theta_k that are news: [m] each."""

    side: int
    limits: FloatArray
    axes: IntArray
    slabs: IntArray
    source: Equations

    def where(self, chosen: BoolArray) -> _Found:
        """Some of them."""
        return replace(
            self, limits=self.limits[chosen], axes=self.axes[chosen], slabs=self.slabs[chosen]
        )


def _implied(slabs: Equations, best: Equations | None, box: Box) -> list[_Found]:
    """What one sweep implies: the limits of both sides at every axis that states lie on."""
    found: list[_Found] = []
    for side in (1, -1):
        source, over = slabs, np.maximum.reduceat
        if side < 0 and best is not None:
            source, over = best, np.minimum.reduceat
        limits, axes, at = _best_by_axis(source, _limits(source, box, side), over)
        found.append(_Found(side, limits, axes, at, source))
    return found


def _current(box: Box, each: _Found) -> FloatArray:
    """The limits of a box where some were found: [m]."""
    return (box.high if each.side > 0 else -box.low)[each.axes]


def _news(slabs: Equations, best: Equations | None, box: Box) -> list[_Found]:
    """What one sweep finds that is sharper than the box and the ball."""
    implied = _implied(slabs, best, box)
    return [each.where(each.limits < np.minimum(_current(box, each), 1.0)) for each in implied]


def _take(box: Box, found: list[_Found]) -> Box:
    """The box with new limits, without their rows."""
    box = box.copy()
    for each in found:
        target = box.high if each.side > 0 else box.low
        target[each.axes] = each.side * each.limits
    return box


def _sweep(table: RowTable, slabs: Equations, best: Equations | None, box: Box) -> Box:
    """One sweep, whose claims rest on earlier ones only."""
    found = _news(slabs, best, box)
    sharper = _take(box, found)
    if not _worth(box, sharper):
        return box
    return _record(table, found, box, sharper)


def _fixpoint(
    table: RowTable, slabs: Equations, best: Equations | None, box: Box
) -> tuple[Box, Box]:
    """Sweeps until nothing changes much, as one block of claims that rest on one another.

    Returns:
        (what is claimed, what the sweeps found).
    """
    own = np.abs(slabs.mean).sum(axis=1).max(initial=0.0)
    if best is not None:
        own = max(own, np.abs(best.mean).sum(axis=1).max(initial=0.0))
    box = _sweep(table, slabs, best, box)
    if own >= 1 - 1e-12:
        for _ in range(_REPEATS):
            sharper = _sweep(table, slabs, best, box)
            if sharper is box or bool(np.any(sharper.low > sharper.high)):
                break  # nothing more to gain, or nothing left
            box = sharper
        return box, box
    start = sharper = _within_ball(box, slabs.axis)
    found = _news(slabs, best, sharper)
    for _ in range(_SWEEPS):
        following = _take(sharper, found)
        change = float(np.max(sharper.width - following.width, initial=0.0))
        sharper = following
        if change <= _SETTLED or bool(np.any(sharper.low > sharper.high)):
            break
        found = _news(slabs, best, sharper)
    if not _worth(box, sharper):
        return box, sharper
    return _record(table, _changed(slabs, best, start, sharper), sharper, sharper), sharper


def _within_ball(box: Box, axes: IntArray) -> Box:
    """The box with a limit at some axes, where it lacks one that of the ball.

    One by one the limits of the ball say less than the ball does of all of these entries. But a
    sweep that finds a limit where there was none would bound it by itself from then on, and so
    raise other limits; if all have one from the start, it cannot.
    """
    box = box.copy()
    high, low = axes[box.high[axes] > 1], axes[box.low[axes] < -1]
    box.high[high], box.high_row[high] = 1.0, -1
    box.low[low], box.low_row[low] = -1.0, -1
    return box


def _changed(slabs: Equations, best: Equations | None, box: Box, sharper: Box) -> list[_Found]:
    """The limits that sweeps have moved, each with the state that proves it from all the others.

    A sweep never raises a limit, so what the last one started from implies what it found.
    """
    found: list[_Found] = []
    for each in _implied(slabs, best, sharper):
        new = _current(sharper, each)
        found.append(replace(each, limits=new).where(new != _current(box, each)))
    return found


def _worth(box: Box, sharper: Box) -> bool:
    """Whether a block takes enough off some range, with what claims are widened by."""
    return bool(np.any(box.width - sharper.width > WORTH * box.width + 2 * ROOM))


def _record(table: RowTable, found: list[_Found], before: Box, after: Box) -> Box:
    """Add the claims of a block, proved from the limits of ``before``; the box with their rows."""
    norm, box = table.beliefs.norm, after.copy()
    fixpoint = before is after
    first = sum(len(block) for block in table.blocks)
    for each in found:
        normals = np.zeros((len(each.axes), table.beliefs.dim))
        normals[np.arange(len(each.axes)), each.axes] = each.side
        limits = each.limits + ROOM
        (box.high if each.side > 0 else box.low)[each.axes] = each.side * limits
        values = _in_units(limits, norm)
        below = np.full(len(values), -np.inf)
        rows = table.add_bounds(CLAIM, first, normals, below, values)
        (box.high_row if each.side > 0 else box.low_row)[each.axes] = rows
        first += len(values)
    proved_by = box if fixpoint else before
    table.blocks.append(
        tuple(
            _claim(table, each, position, proved_by)
            for each in found
            for position in range(len(each.axes))
        )
    )
    return box


def _in_units(limits: FloatArray, norm: float) -> FloatArray:
    """Limits in the units of the data, rounded up."""
    return norm * limits + 8 * _EPS * norm * np.abs(limits)


def _claim(table: RowTable, found: _Found, position: int, box: Box) -> Claim:
    """A claim with its cases."""
    axis, at, source = int(found.axes[position]), int(found.slabs[position]), found.source
    normal = np.zeros(table.beliefs.dim)
    normal[axis] = 1.0
    value = float(_in_units(found.limits + ROOM, table.beliefs.norm)[position])
    state = int(source.state[at])
    own = source.where(source.state == state)
    if bool(np.all(table.origin[own.row, 0] == BELLMAN)):
        limits = _limits(own, box, found.side)
        case = _case(table, own, int(np.argmin(limits)), box, found.side)
        return Claim(normal, found.side, value, None, (case,))
    known = table.states[state]
    places = {int(action): place for place, action in enumerate(own.action)}
    cases = [
        _case(table, own, places[action], box, found.side)
        if action in places
        else _settled(table, known.same.get(action), known.dead.get(action))
        for action in range(len(known.epochs[-1].rows))
    ]
    return Claim(normal, found.side, value, state, tuple(cases))


def _case(table: RowTable, own: Equations, place: int, box: Box, side: int) -> Case:
    """The multipliers of one action: minus its slab, and the limits of the entries of the mean."""
    terms = side * own.mean[place]
    tops = np.where(terms > 0, box.high, box.low)
    rows = np.where(terms > 0, box.high_row, box.low_row)
    by_box = _by_box(terms[None], tops[None])[0]
    used = np.flatnonzero(by_box & (rows >= 0) & (terms != 0))
    slab = int(own.row[place])
    signs = [math.copysign(1.0, float(table.problem.normals[rows[axis], axis])) for axis in used]
    multipliers = [-side * float(table.scale[slab]) / float(own.factor[place])]
    multipliers += [float(terms[axis]) * sign for axis, sign in zip(used, signs, strict=True)]
    return Case((slab, *(int(rows[axis]) for axis in used)), tuple(multipliers))


def _settled(table: RowTable, same: int | None, dead: int | None) -> Case:
    """The case of an action that presolve has settled."""
    if same is not None:
        return Case(same=same)
    assert dead is not None
    side = 1.0 if table.problem.high[dead] < 0 else -1.0
    return Case((dead,), (side,), empty=True)
