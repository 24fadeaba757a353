"""What the bound of a search leans on: the multipliers of its best open leaf, by slab."""

from __future__ import annotations

import numpy as np

from tensorplan.oracle.arrays import ACTIONS, CLOSED, HEAP, NODES, Tree
from tensorplan.oracle.claims import Claim
from tensorplan.oracle.rows import BELLMAN, CLAIM, SLAB, RowTable
from tensorplan.records import FloatArray

_DEEPEST = 3
"""Claims on claims that are followed."""


def leaf_weights(table: RowTable, tree: Tree, objective: FloatArray) -> FloatArray:
    """Absolute multipliers of the slabs at the open leaf with the largest bound: [K, A].

    Args:
        table: the rows.
        tree: the search.
        objective: c [d], in whose units the multipliers are given.
    """
    width = max((len(known.epochs[-1].rows) for known in table.states), default=1)
    weights = np.zeros((len(table.states), width))
    slots = tree.entry[: tree.counts[HEAP]]
    if not len(slots):
        return weights
    slot = int(slots[int(np.argmax(tree.bound[slots]))])
    size = int(tree.active[slot])
    claims = [claim for block in table.blocks for claim in block]
    length = float(np.linalg.norm(objective))
    rows, multipliers = tree.rows[slot, :size].tolist(), tree.multipliers[slot, :size].tolist()
    _spread(table, claims, weights, rows, [length * y for y in multipliers], _DEEPEST)
    return weights


def states_named(table: RowTable, tree: Tree) -> set[int]:
    """Critical states without which the closed leaves of a search would not be empty.

    Those that are split, those whose rows have a multiplier, and those behind the claims in use.
    """
    claims = [claim for block in table.blocks for claim in block]
    choices = tree.choice[: tree.counts[NODES]]
    named = set((choices[choices >= 0] // ACTIONS).tolist())
    rows = tree.closed_rows[: int(tree.closed_end[tree.counts[CLOSED] - 1])].tolist()
    seen: set[int] = set()
    while rows:
        row = int(rows.pop())
        kind, index = int(table.origin[row, 0]), int(table.origin[row, 1])
        if kind in (SLAB, BELLMAN):
            named.add(index)
        elif kind == CLAIM and index not in seen:
            seen.add(index)
            state, cases = claims[index].state, claims[index].cases
            named |= set() if state is None else {state}
            rows.extend(row for case in cases for row in case.rows)
    return named


def _spread(
    table: RowTable,
    claims: list[Claim],
    weights: FloatArray,
    rows: list[int],
    multipliers: list[float],
    depth: int,
) -> None:
    """Add multipliers to the slabs that they stand for."""
    for row, multiplier in zip(rows, multipliers, strict=True):
        kind, index, action = (int(table.origin[row, k]) for k in range(3))
        if kind in (SLAB, BELLMAN):
            weights[index, action] += abs(multiplier) / float(table.scale[row])
        elif kind == CLAIM and depth > 0:
            cases = [case for case in claims[index].cases if case.same is None and not case.empty]
            for case in cases:
                share = abs(multiplier) / len(cases)
                own = [share * y for y in case.multipliers]
                _spread(table, claims, weights, list(case.rows), own, depth - 1)
