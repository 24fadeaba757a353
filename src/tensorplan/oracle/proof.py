"""The proof of an answer: the data, the case distinction and the multipliers of every leaf.

The format is written down in ``docs/proof-format.md``; :mod:`tensorplan.checker` decides about a
file without anything of this package. Multipliers are kept in normal form, where the ball and the
normals have length 1; here they are put into the units of the data: a multiplier y of a row of
length |x|, in a bound on <c, .>, becomes y |c| / |x|.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from tensorplan.hypotheses import CriticalState
from tensorplan.oracle.arrays import ACTIONS, CLOSED, HEAP, NODES, Tree
from tensorplan.oracle.base import Optimum, OracleStatus
from tensorplan.oracle.claims import Claim
from tensorplan.oracle.rows import BELLMAN, CLAIM, CUT, SLAB, RowTable
from tensorplan.records import BoolArray, FloatArray, IntArray

SCHEMA = "tensorplan-proof/1"

_LETTERS = {SLAB: "s", BELLMAN: "b", CUT: "c", CLAIM: "d"}
_POINT_SLACK = 1e-8
"""Tolerance at which the best point is claimed to be allowed, as a fraction of 1 + B."""

Json = dict[str, object]
Multipliers = list[object]


@dataclass(frozen=True)
class Leaves:
    """Open leaves of a tree, with their multipliers in normal form.

    Attributes:
        rows: [n, d].
        multipliers: [n, d], zeros behind those in use.
        bound: [n].
    """

    rows: IntArray
    multipliers: FloatArray
    bound: FloatArray


def open_leaves(tree: Tree) -> Leaves:
    """The open leaves."""
    slots = tree.entry[: tree.counts[HEAP]]
    places = np.arange(tree.rows.shape[1], dtype=np.int64)
    unused: BoolArray = places >= tree.active[slots][:, None]
    multipliers = np.where(unused, 0.0, tree.multipliers[slots])
    rows = np.where(unused, 0, tree.rows[slots]).astype(np.int64)
    return Leaves(rows, multipliers, tree.bound[slots])


def closed_leaf(tree: Tree, leaf: int) -> tuple[IntArray, FloatArray]:
    """Rows and multipliers of a leaf that holds no parameter."""
    first = int(tree.closed_end[leaf - 1]) if leaf else 0
    part = slice(first, int(tree.closed_end[leaf]))
    return tree.closed_rows[part].astype(np.int64), tree.closed_multipliers[part]


class _Writer:
    """Puts rows and multipliers of one table into the form of the file."""

    def __init__(self, table: RowTable) -> None:
        self.table = table
        self._origin = table.origin[: table.rows].tolist()
        self._scale = table.scale[: table.rows].tolist()
        self._counts = [len(known.epochs[0].rows) for known in table.states]

    def multipliers(
        self,
        rows: Iterable[int],
        values: Iterable[float],
        length: float,
        twin: tuple[int, int] | None = None,
    ) -> Multipliers:
        """A multiplier list for a bound on <c, .> with |c| = length (1 for an empty case).

        With a twin (state, action), slabs of the state are those of the action instead.
        """
        found: Multipliers = []
        for row, value in zip(rows, values, strict=True):
            if value == 0.0:
                continue
            kind, index, action, epoch = (int(entry) for entry in self._origin[row])
            if kind == SLAB and twin is not None and twin[0] == index:
                action = twin[1]
            found.append(_LETTERS[kind])
            found.append(index)
            if kind in (SLAB, BELLMAN):
                found.append(epoch * self._counts[index] + action)
            found.append(value * length / self._scale[row])
        return found

    def states(self) -> list[Json]:
        """The critical states, with the slabs of every epoch in order."""
        return [self._state(known.epochs) for known in self.table.states]

    def _state(self, epochs: list[CriticalState]) -> Json:
        slabs: list[Json] = [
            {"action": action, "row": row, "radius": radius}
            for state in epochs
            for action, (row, radius) in enumerate(
                zip(state.rows.tolist(), self.table.slab_radii(state).tolist(), strict=True)
            )
        ]
        return {"stage": epochs[0].stage, "actions": len(epochs[0].rows), "slabs": slabs}

    def cuts(self) -> list[Json]:
        """The range cuts."""
        cuts = self.table.beliefs.cuts
        limits = zip(cuts.normals.tolist(), cuts.low.tolist(), cuts.high.tolist(), strict=True)
        return [
            {"normal": normal, "low": _finite(low), "high": _finite(high)}
            for normal, low, high in limits
        ]

    def blocks(self) -> list[list[Json]]:
        """The derived claims."""
        return [[self._claim(claim) for claim in block] for block in self.table.blocks]

    def _claim(self, claim: Claim) -> Json:
        length = float(np.linalg.norm(claim.normal))
        cases: list[object] = []
        for action, case in enumerate(claim.cases):
            twin = None
            if case.same is not None and claim.state is not None:
                # NOTE: not written as `same`: later slabs of the two need not be the same.
                case, twin = claim.cases[case.same], (claim.state, action)
            size = 1.0 if case.empty else length
            listed = self.multipliers(case.rows, case.multipliers, size, twin)
            cases.append({"empty": listed} if case.empty else listed)
        return {
            "normal": claim.normal.tolist(),
            "sign": claim.sign,
            "value": claim.value,
            "state": claim.state,
            "cases": cases,
        }

    def tree(self, tree: Tree, length: float) -> Json:
        """The tree of splits; children have larger numbers than their parents."""
        count = int(tree.counts[NODES])
        children: dict[int, dict[int, Json]] = {}
        closed = {int(tree.closed_node[k]): k for k in range(int(tree.counts[CLOSED]))}
        parents, choices = tree.parent[:count].tolist(), tree.choice[:count].tolist()
        slots = tree.slot[:count].tolist()
        split: dict[int, int] = {}
        node: Json = {}
        for index in range(count - 1, -1, -1):
            if index in children:
                node = self._split(split[index], children.pop(index))
            elif slots[index] >= 0:
                slot = slots[index]
                size = int(tree.active[slot])
                rows, values = tree.rows[slot, :size], tree.multipliers[slot, :size]
                node = {"bound": self.multipliers(rows.tolist(), values.tolist(), length)}
            else:
                rows, values = closed_leaf(tree, closed[index])
                node = {"empty": self.multipliers(rows.tolist(), values.tolist(), 1.0)}
            if parents[index] >= 0:
                split[parents[index]] = choices[index] // ACTIONS
                children.setdefault(parents[index], {})[choices[index] % ACTIONS] = node
        return node

    def _split(self, state: int, children: Mapping[int, Json]) -> Json:
        """A split, with the actions that presolve has settled."""
        known = self.table.states[state]
        return {
            "split": state,
            "children": [
                children[action] if action in children else self._settled(state, action)
                for action in range(len(known.epochs[0].rows))
            ],
        }

    def _settled(self, state: int, action: int) -> Json:
        known = self.table.states[state]
        if action in known.same:
            return {"same": known.same[action]}
        row = known.dead[action]
        side = 1.0 if self.table.problem.high[row] < 0 else -1.0
        return {"empty": self.multipliers([row], [side], 1.0)}


def build_proof(
    table: RowTable, tree: Tree, objective: FloatArray, optimum: Optimum
) -> dict[str, object]:
    """The content of a proof file.

    Args:
        table: the rows.
        tree: the search, as it stood at the answer.
        objective: c [d].
        optimum: the answer.
    """
    writer = _Writer(table)
    empty = optimum.status is OracleStatus.EMPTY
    flat = not empty and not objective.any()
    claim: Json = {"kind": "empty"} if empty else {"kind": "upper", "value": optimum.upper}
    content: Json = {
        "schema": SCHEMA,
        "objective": objective.tolist(),
        "norm": table.beliefs.norm,
        "states": writer.states(),
        "cuts": writer.cuts(),
        "bellman": table.beliefs.bellman,
        "blocks": writer.blocks(),
        "tree": {"bound": []} if flat else writer.tree(tree, float(np.linalg.norm(objective))),
        "claim": claim,
        "point": None if empty else _point(table, objective, optimum.theta),
    }
    return {**content, "digest": digest_of(content)}


def digest_of(content: Mapping[str, object]) -> str:
    """SHA-256 of the canonical text."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def _point(table: RowTable, objective: FloatArray, theta: FloatArray) -> Json | None:
    """The best point, if it is allowed by the slabs of all epochs."""
    beliefs = table.beliefs
    tolerance = _POINT_SLACK * (1 + beliefs.norm) * (1 + float(np.abs(objective).sum()))
    if float(np.linalg.norm(theta)) > beliefs.norm + tolerance:
        return None
    if beliefs.cuts.excess(theta) > tolerance / 2:
        return None
    for known in table.states:
        errors = [np.abs(s.errors(theta)) - table.slab_radii(s) for s in known.epochs]
        if float(np.min(np.max(errors, axis=0))) > tolerance / 2:
            return None
        if beliefs.bellman and any(
            float((s.errors(theta) - table.slab_radii(s)).max()) > tolerance / 2
            for s in known.epochs
        ):
            return None
    value = float(objective @ theta)
    return {"theta": theta.tolist(), "value": value, "tolerance": tolerance}


def _finite(limit: float) -> float | None:
    """A limit, or None where there is none."""
    return limit if math.isfinite(limit) else None
