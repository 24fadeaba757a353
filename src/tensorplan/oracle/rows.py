"""From a believable set to rows in normal form, and what can be said before any search.

Units: the ball has radius 1, so a slab |r + <x, theta>| <= w with x = |x| n is
(-w - r) / (B |x|) <= <n, theta / B> <= (w - r) / (B |x|).

Presolve: an action that every parameter of the ball satisfies makes its state void; one that none
satisfies is dead; of identical actions the one with the wider slab stands for the others; a state
that repeats an earlier one is left out. None of this loses a parameter.

Rows are only ever added: a refined state gets new rows, and the old ones stay in the table for the
multipliers that name them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tensorplan.errors import SettingError
from tensorplan.hypotheses import CriticalState, Hypotheses, rounding_slack
from tensorplan.oracle.arrays import (
    ACTIONS,
    CUTS,
    FLAT,
    MOST_ACTIONS,
    STAMP,
    STATES,
    Problem,
    enlarge,
)
from tensorplan.oracle.claims import Claim
from tensorplan.records import FloatArray, IntArray

_FAINT = 1e-140
"""Length times B below which a row is taken for a constant; squares of it are still floats."""

SLAB, BELLMAN, CUT, CLAIM = range(4)
"""What a row can be; see ``RowTable.origin``."""


@dataclass
class StateRows:
    """What presolve made of a critical state.

    Attributes:
        epochs: the state and its refinements, oldest first.
        live: actions whose slabs are in force.
        void: whether some action is consistent with every parameter.
        dead: action -> row that no parameter of the ball satisfies.
        same: action -> identical live action that stands for it.
        repeats: the state in force that says the same, if one does.
    """

    epochs: list[CriticalState] = field(default_factory=list[CriticalState])
    live: list[int] = field(default_factory=list[int])
    void: bool = False
    dead: dict[int, int] = field(default_factory=dict[int, int])
    same: dict[int, int] = field(default_factory=dict[int, int])
    repeats: int | None = None


class RowTable:
    """The rows of a believable set that grows, in normal form.

    Attributes:
        beliefs: the set.
        origin: [R, 4], where each row comes from: what it is, the index of its state, cut or
            derived claim, and for a state the action and how often it had been refined.
        scale: [R], length of the data row; 1 for a row that is taken for a constant.
        states: what presolve made of each critical state.
        blocks: claims that follow from the data, in blocks that were derived together.
        problem: the rows; its objective is a placeholder.
    """

    def __init__(self, beliefs: Hypotheses) -> None:
        self.beliefs = beliefs.without_data()
        self.origin = np.zeros((0, 4), np.int64)
        self.scale = np.zeros(0)
        self.rows = 0
        self.states: list[StateRows] = []
        self.blocks: list[tuple[Claim, ...]] = []
        self.problem = _make_problem(beliefs.dim)
        self._known_states: dict[bytes, int] = {}
        self._known_cuts: dict[bytes, list[int]] = {}
        self._thick = beliefs.bellman
        self.update(beliefs)

    @property
    def version(self) -> int:
        """Counts the changes."""
        return int(self.problem.sizes[STAMP])

    def update(self, beliefs: Hypotheses) -> bool:
        """Take in a later stage of the set.

        Returns:
            False if identical actions have come apart, so that splits made before lack a child.
        """
        old, kept = self.beliefs, True
        changed = [
            index
            for index, state in enumerate(beliefs.states)
            if index >= len(old.states) or state is not old.states[index]
        ]
        fresh = range(len(old.cuts), len(beliefs.cuts))
        self.beliefs = beliefs
        if changed:
            kept = self._take_states(changed)
            self.problem.sizes[STAMP] += 1
        if len(fresh):
            cuts = beliefs.cuts
            self.add_bounds(
                CUT,
                fresh.start,
                cuts.normals[fresh.start :],
                cuts.low[fresh.start :],
                cuts.high[fresh.start :],
            )
        self.problem.sizes[FLAT] = not self._thick and self.problem.sizes[CUTS] == 0
        return kept

    def add_bounds(
        self, kind: int, first: int, normals: FloatArray, low: FloatArray, high: FloatArray
    ) -> IntArray:
        """Add low <= <normal, theta> <= high for every parameter, and enforce what is news.

        Args:
            kind: ``CUT`` or ``CLAIM``.
            first: index of the first of them.
            normals: [m, d].
            low: [m].
            high: [m].

        Returns:
            Their rows, [m].
        """
        origin = np.zeros((len(low), 4), np.int64)
        origin[:, 0], origin[:, 1] = kind, first + np.arange(len(low))
        rows = self._add_rows(origin, normals, low, high)
        for row in rows:
            self._enforce(int(row))
        self.problem.sizes[FLAT] = False
        self.problem.sizes[STAMP] += 1
        return rows

    def add_unenforced(self, normal: FloatArray, low: float, high: float) -> int:
        """Add a row that no search looks at by itself; its number."""
        origin = np.full((1, 4), -1, np.int64)
        return int(self._add_rows(origin, normal[None], np.array([low]), np.array([high]))[0])

    def bellman_rows(self) -> dict[tuple[int, int], int]:
        """(state, action) -> its newest one-sided cut."""
        rows = np.flatnonzero(self.origin[: self.rows, 0] == BELLMAN)
        named = self.origin[rows].tolist()
        return {(named[k][1], named[k][2]): int(row) for k, row in enumerate(rows)}

    def slab_radii(self, state: CriticalState) -> FloatArray:
        """Half-widths of the slabs as they are used, [k]: at least what rounding needs."""
        return np.maximum(self.beliefs.radii(state), rounding_slack(self.beliefs.norm))

    def _take_states(self, indices: list[int]) -> bool:
        """Add the rows of new and refined states; whether earlier splits are still whole."""
        states = [self.beliefs.states[index] for index in indices]
        radii = [self.slab_radii(state) for state in states]
        sizes = [len(state.rows) for state in states]
        if max(sizes) > MOST_ACTIONS:
            raise SettingError(
                f"a critical state with {max(sizes)} actions",
                f"the search takes at most {MOST_ACTIONS}",
                "Group actions before planning.",
            )
        self._thick = self._thick or any(np.any(self.beliefs.radii(s) > 0) for s in states)
        for index, state in zip(indices, states, strict=True):
            if index == len(self.states):
                self.states.append(StateRows())
            self.states[index].epochs.append(state)
        self._make_room(len(self.states), max(sizes))
        ends = np.cumsum(sizes)
        rows = self._add_state_rows(indices, states, np.concatenate(radii))
        kept = True
        for index, one, own in zip(indices, np.split(rows, ends[:-1]), radii, strict=True):
            kept = self._take_state(index, one, own) and kept
        return kept

    def _take_state(self, index: int, rows: IntArray, radii: FloatArray) -> bool:
        """Put the newest rows of a state into force; whether earlier splits are still whole."""
        known = self.states[index]
        state = known.epochs[-1]
        if not known.live:
            self._presolve(index, state, rows, radii)
            return True
        self._part_from_repeats(index)
        apart = [a for a, twin in known.same.items() if not _covers(state, radii, twin, a)]
        for action in apart:
            del known.same[action]
            known.live.append(action)
        self._put_in_force(index, rows)
        return not apart

    def _add_state_rows(
        self, indices: list[int], states: list[CriticalState], radii: FloatArray
    ) -> IntArray:
        """Add a slab for each action and, in the mode of v* only, its one-sided cut.

        Args:
            indices: of the states.
            states: the newest draws of each.
            radii: [n], of all their actions.

        Returns:
            The rows of the slabs, [n].
        """
        data = np.concatenate([state.rows for state in states])
        origin = np.empty((len(data), 4), np.int64)
        origin[:, 0] = SLAB
        origin[:, 1] = np.repeat(indices, [len(state.rows) for state in states])
        origin[:, 2] = np.concatenate([np.arange(len(state.rows)) for state in states])
        epochs = [len(self.states[index].epochs) - 1 for index in indices]
        origin[:, 3] = np.repeat(epochs, [len(state.rows) for state in states])
        normals, constants = data[:, 1:], data[:, 0]
        rows = self._add_rows(origin, normals, -radii - constants, radii - constants)
        if self.beliefs.bellman:
            origin[:, 0] = BELLMAN
            below = np.full(len(radii), -np.inf)
            for row in self._add_rows(origin, normals, below, radii - constants):
                self._enforce(int(row))
        return rows

    def _add_rows(
        self, origin: IntArray, normals: FloatArray, low: FloatArray, high: FloatArray
    ) -> IntArray:
        """Add rows to the table, scaled; their numbers. Nothing is in force yet."""
        rows = np.arange(self.rows, self.rows + len(low))
        self.rows += len(low)
        self._make_rows(self.rows)
        problem, norm = self.problem, self.beliefs.norm
        lengths = np.linalg.norm(normals, axis=1)
        # A faint row moves by at most B |x| over the ball, and is taken for a constant.
        faint = lengths * norm <= _FAINT
        room = np.where(faint, norm * lengths, 0.0)
        scale = np.where(faint, 1.0, lengths)
        problem.normals[rows] = np.where(faint[:, None], 0.0, normals / scale[:, None])
        # A limit too large for a float excludes nothing on its side, or everything.
        with np.errstate(over="ignore"):
            low, high = (low - room) / (norm * scale), (high + room) / (norm * scale)
        problem.low[rows] = np.where(np.isneginf(low), low, np.clip(low, -1e300, 1e300))
        problem.high[rows] = np.where(np.isposinf(high), high, np.clip(high, -1e300, 1e300))
        slabs = origin[:, 0] == SLAB
        problem.owner[rows] = np.where(slabs, origin[:, 1] * ACTIONS + origin[:, 2], -1)
        problem.position[rows] = -1
        self.origin[rows], self.scale[rows] = origin, scale
        return rows

    def _make_rows(self, rows: int) -> None:
        """Make room for a number of rows."""
        if rows <= len(self.scale):
            return
        room, problem = 2 * rows + 64, self.problem
        self.origin, self.scale = enlarge(self.origin, room), enlarge(self.scale, room)
        self.problem = problem._replace(
            normals=enlarge(problem.normals, room),
            low=enlarge(problem.low, room),
            high=enlarge(problem.high, room),
            position=enlarge(problem.position, room, fill=-1),
            owner=enlarge(problem.owner, room, fill=-1),
        )

    def _enforce(self, row: int) -> None:
        """Put a cut into force, unless one with the same normal says as much."""
        problem = self.problem
        low, high = problem.low[row], problem.high[row]
        zero = not problem.normals[row].any()
        if (low <= -1 and high >= 1 and not zero) or (zero and low <= 0 <= high):
            return
        twins = self._known_cuts.setdefault(problem.normals[row].tobytes(), [])
        for twin in twins:
            if problem.low[twin] >= low and problem.high[twin] <= high:
                return
            if problem.low[twin] <= low and problem.high[twin] >= high:
                self._scan(row, int(problem.position[twin]))
                problem.position[twin] = -1
                twins[twins.index(twin)] = row
                return
        twins.append(row)
        place = int(problem.sizes[CUTS])
        if place == len(problem.scan_low):
            room = 2 * place + 64
            self.problem = problem._replace(
                scan_columns=enlarge(problem.scan_columns, room, axis=1),
                scan_low=enlarge(problem.scan_low, room),
                scan_high=enlarge(problem.scan_high, room),
                scan_rows=enlarge(problem.scan_rows, room),
            )
        self.problem.sizes[CUTS] += 1
        self._scan(row, place)

    def _scan(self, row: int, place: int) -> None:
        """Write a cut to its place among those in force."""
        problem = self.problem
        problem.scan_columns[:, place] = problem.normals[row]
        problem.scan_low[place] = problem.low[row]
        problem.scan_high[place] = problem.high[row]
        problem.scan_rows[place] = row
        problem.position[row] = place

    def _presolve(
        self, index: int, state: CriticalState, rows: IntArray, radii: FloatArray
    ) -> None:
        """Put into force what a state excludes that excluded nothing so far."""
        problem, known = self.problem, self.states[index]
        low, high = problem.low[rows].tolist(), problem.high[rows].tolist()
        reach = [1.0 + 1e-12 if any(normal) else 0.0 for normal in problem.normals[rows].tolist()]
        actions = range(len(rows))
        known.void = any(low[a] <= -reach[a] and high[a] >= reach[a] for a in actions)
        known.repeats = None if known.void else self._repeated(index, state, radii)
        if known.void or known.repeats is not None:
            return
        known.dead = {}
        widest: dict[bytes, int] = {}
        for action in sorted(actions, key=lambda a: -radii[a]):
            key = (state.rows[action] + 0.0).tobytes()
            # Twins have to be so in every epoch; those that refinement makes stay apart.
            if key in widest and len(known.epochs) == 1:
                known.same[action] = widest[key]
            elif low[action] > reach[action] or high[action] < -reach[action]:
                known.dead[action] = int(rows[action])
            else:
                known.live.append(action)
                widest[key] = action
        if not known.live:
            # No action is left: one slab stays in force, and the search finds the set empty.
            known.live.append(known.dead.popitem()[0])
        self._put_in_force(index, rows)

    def _repeated(self, index: int, state: CriticalState, radii: FloatArray) -> int | None:
        """The state in force with the same rows and slabs that are as thin; else notes this one."""
        earlier = self._known_states.setdefault(state.rows.tobytes(), index)
        if earlier == index:
            return None
        thin = self.slab_radii(self.states[earlier].epochs[-1])
        if bool(np.all(thin <= radii)):
            return earlier
        self._known_states[state.rows.tobytes()] = index
        return None

    def _part_from_repeats(self, index: int) -> None:
        """Put into force what a state stood for that says something else from now on."""
        before = self.states[index].epochs[-2].rows.tobytes()
        if self._known_states.get(before) == index:
            del self._known_states[before]
        for other, known in enumerate(self.states):
            if known.repeats == index:
                named = self.origin[: self.rows]
                newest = (SLAB, other, len(known.epochs) - 1)
                rows = np.flatnonzero((named[:, [0, 1, 3]] == newest).all(axis=1))
                state = known.epochs[-1]
                self._presolve(other, state, rows, self.slab_radii(state))

    def _put_in_force(self, index: int, rows: IntArray) -> None:
        live = self.states[index].live
        self.problem.current[index, live] = rows[live]
        self.problem.actions[index] = len(live)

    def _make_room(self, states: int, actions: int) -> None:
        """Make room for a number of states, and of actions in each."""
        problem = self.problem
        rooms, width = problem.current.shape
        if states > rooms or actions > width:
            current = np.full(
                (max(rooms, 2 * states if states > rooms else 0), max(width, actions)), -1, np.int64
            )
            current[:rooms, :width] = problem.current
            self.problem = problem._replace(
                current=current, actions=enlarge(problem.actions, len(current))
            )
        self.problem.sizes[STATES] = states


def _covers(state: CriticalState, radii: FloatArray, wide: int, thin: int) -> bool:
    """Whether two actions have the same row, and the slab of the first contains the second's."""
    return radii[wide] >= radii[thin] and bool(np.array_equal(state.rows[wide], state.rows[thin]))


def _make_problem(dim: int) -> Problem:
    """A problem without rows."""
    none, no_rows = np.zeros(0), np.zeros(0, np.int64)
    return Problem(
        objective=np.zeros(dim),
        normals=np.zeros((0, dim)),
        low=none,
        high=none.copy(),
        position=no_rows,
        scan_columns=np.zeros((dim, 0)),
        scan_low=none.copy(),
        scan_high=none.copy(),
        scan_rows=no_rows.copy(),
        current=np.full((0, 1), -1, np.int64),
        owner=no_rows.copy(),
        actions=no_rows.copy(),
        sizes=np.zeros(4, np.int64),
    )
