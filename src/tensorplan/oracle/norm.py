"""For which norm bounds an answer holds: whether it owes anything to B (theory F6)."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from tensorplan.oracle.arrays import ACTIONS, CLOSED, NODES, Problem, Tree
from tensorplan.oracle.claims import Claim
from tensorplan.oracle.proof import closed_leaf, open_leaves
from tensorplan.oracle.rows import CLAIM, RowTable
from tensorplan.records import FloatArray, IntArray

_NOTHING = 1e-300
"""Length that stands for none, so that what does not use the ball has no limit to speak of."""


def norm_limit(table: RowTable, tree: Tree, direction: FloatArray, upper: float) -> float:
    """The norm bound up to which the multipliers of a search prove what they prove.

    Raising B moves the bound of a leaf by the length of what the ball has to bound there; a leaf
    that owes nothing to the ball holds for every B, but for the rounding of its multipliers.

    Args:
        table: the rows.
        tree: the search.
        direction: c / |c| [d].
        upper: the bound, in normal form; not used where the set is empty.
    """
    problem, norm = table.problem, table.beliefs.norm
    if not table.rows:
        return norm
    leaves = open_leaves(tree)
    held = _beta(problem, leaves.rows, leaves.multipliers).sum(axis=1)
    used = np.einsum("nk,nkd->nd", leaves.multipliers, problem.normals[leaves.rows])
    sizes = np.linalg.norm(direction - used, axis=1)
    limits = [float(np.min(norm * (upper - held) / np.maximum(sizes, _NOTHING), initial=math.inf))]
    empty = [closed_leaf(tree, leaf) for leaf in range(int(tree.counts[CLOSED]))]
    split = np.unique(tree.choice[1 : tree.counts[NODES]] // ACTIONS)
    for row in (row for state in split for row in table.states[int(state)].dead.values()):
        side = 1.0 if problem.high[row] < 0 else -1.0
        empty.append((np.array([row]), np.array([side])))
    nothing = np.zeros_like(direction)
    limits += [_case_limit(table, nothing, 0.0, *each) for each in empty]
    named = [leaves.rows[leaves.multipliers != 0], *(rows for rows, _ in empty)]
    limits += [_claim_limit(table, claim) for claim in _claims_behind(table, named)]
    return max(norm, min(limits))


def _claims_behind(table: RowTable, named: Iterable[IntArray]) -> list[Claim]:
    """The claims among some rows, and those that these rest on."""
    claims = [claim for block in table.blocks for claim in block]
    found: set[int] = set()
    waiting = [*named]
    while waiting:
        rows = waiting.pop()
        origin = table.origin[rows]
        indices: list[int] = origin[origin[:, 0] == CLAIM, 1].tolist()
        for index in indices:
            if index not in found:
                found.add(index)
                waiting += [np.array(case.rows, np.int64) for case in claims[index].cases]
    return [claims[index] for index in sorted(found)]


def _claim_limit(table: RowTable, claim: Claim) -> float:
    """The norm bound up to which the cases of a claim prove it."""
    length = float(np.linalg.norm(claim.normal))
    value = claim.value / (table.beliefs.norm * length)
    limit = math.inf
    for case in claim.cases:
        if case.same is None:
            rows, multipliers = np.array(case.rows, np.int64), np.array(case.multipliers)
            weight = 0.0 if case.empty else 1.0
            direction = weight * claim.sign * claim.normal / length
            limit = min(limit, _case_limit(table, direction, weight * value, rows, multipliers))
    return limit


def _case_limit(
    table: RowTable, direction: FloatArray, upper: float, rows: IntArray, multipliers: FloatArray
) -> float:
    """The norm bound up to which some multipliers bound a direction, all in normal form."""
    problem = table.problem
    held = float(_beta(problem, rows, multipliers).sum())
    size = float(np.linalg.norm(direction - multipliers @ problem.normals[rows]))
    return table.beliefs.norm * (upper - held) / max(size, _NOTHING)


def _beta(problem: Problem, rows: IntArray, multipliers: FloatArray) -> FloatArray:
    """Each multiplier times the limit that it uses."""
    limits = np.where(multipliers > 0, problem.high[rows], problem.low[rows])
    return multipliers * np.where(multipliers == 0, 0.0, limits)
