"""DeepSea: a treasure in the far corner of a grid, at a small cost for every step towards it."""

from __future__ import annotations

from typing import Final, Literal

import numpy as np

from tensorplan.errors import SettingError
from tensorplan.finite import FiniteProcess
from tensorplan.problems.base import BOUND_ROOM, Family, LinearTable, require_at_least
from tensorplan.records import FloatArray, IntArray, Spec

MOVE_COST: Final = 0.01
"""Cost of moving right in every row."""
ONE_HOT_LIMIT: Final = 60
"""Largest size with one-hot features: their table has size^4 / 4 numbers."""

FeatureName = Literal["compact", "one-hot"]


def build(
    *, size: int = 10, features: FeatureName = "compact", seed: int | None = None
) -> LinearTable:
    """DeepSea of the Behaviour Suite for Reinforcement Learning, deterministic.

    An episode falls through the ``size`` rows of a grid, one column to the left or to the right
    in each, from the top left. Moving right costs .01 / size, and pays 1 in the far corner: only
    ``size`` moves right reach it, and the cost leads greedy planners away. A policy with random
    actions reaches it once in 2^size episodes. A planner can promise v* = .99; with "compact"
    features 4 parameters stand for all size (size + 1) / 2 cells.

    Args:
        size: N, the number of rows, and the horizon.
        features: "compact" tells the diagonal, from which the corner can be reached, from the
            cells below it; "one-hot" has a parameter for each cell.
        seed: of the action that means right, drawn for each cell; None is action 1 everywhere.
    """
    require_at_least(1, size=size)
    if features == "one-hot" and size > ONE_HOT_LIMIT:
        raise SettingError(
            f"size={size} with features='one-hot'",
            f"one-hot features are tabulated up to size={ONE_HOT_LIMIT}",
            "Take features='compact', or a smaller size.",
        )
    rows, columns = np.tril_indices(size)
    table = _compact(rows, columns) if features == "compact" else np.eye(len(rows))
    values = np.where(rows == columns, 1 - MOVE_COST * (size - rows) / size, 0.0)
    theta = values if features == "one-hot" else np.sqrt(2) * np.array([1, -MOVE_COST, 0, 0])
    spec = Spec(
        actions=2,
        dim=len(theta),
        horizon=size,
        reward_range=(-MOVE_COST / size, 1 - MOVE_COST / size),
        bound=BOUND_ROOM * float(np.linalg.norm(theta)),
        deterministic=True,
    )
    return LinearTable(_process(spec, rows, columns, table, _right(len(rows), seed)), theta)


def _compact(rows: IntArray, columns: IntArray) -> FloatArray:
    """[S, 4]."""
    size = int(rows[-1]) + 1
    one, nothing = np.ones(len(rows)), np.zeros(len(rows))
    on_diagonal = np.stack([one, (size - rows) / size, nothing, nothing], axis=1)
    below = np.stack([nothing, nothing, one, (columns + 1) / size], axis=1)
    return np.where((rows == columns)[:, None], on_diagonal, below) / np.sqrt(2)


def _right(cells: int, seed: int | None) -> IntArray:
    """The action that means right in each cell: [S]."""
    if seed is None:
        return np.ones(cells, np.int64)
    require_at_least(0, seed=seed)
    return np.random.default_rng(seed).integers(2, size=cells)


def _process(
    spec: Spec, rows: IntArray, columns: IntArray, table: FloatArray, right: IntArray
) -> FiniteProcess:
    last = int(rows[-1])
    moves_right = np.arange(2) == right[:, None]
    landing = np.clip(columns[:, None] + np.where(moves_right, 1, -1), 0, last)
    row = np.minimum(rows + 1, last)[:, None]
    treasure = np.where(columns == last, 1.0, 0.0)[:, None]
    rewards = np.where(moves_right, treasure - MOVE_COST / (last + 1), 0.0)
    return FiniteProcess(
        spec=spec,
        probabilities=np.ones((len(rows), 2, 1)),
        successors=(row * (row + 1) // 2 + landing)[..., None],
        rewards=rewards[..., None],
        terminated=np.repeat(rows == last, 2).reshape(-1, 2, 1),
        feature_table=table[None],
        start_probabilities=np.eye(1, len(rows))[0],
    )


def _reference(**_settings: object) -> float:
    return 1 - MOVE_COST


FAMILY = Family(
    name="deep-sea",
    summary="A treasure in the far corner of a grid; every step towards it costs a little.",
    features="compact: (1, x, 0, 0) / sqrt 2 on the diagonal, x the fraction of rows left, and "
    "(0, 0, 1, y) / sqrt 2 below it, y the column's fraction. one-hot: one for each cell",
    realizable="v* is exactly linear in both, at the row that belongs to the stage. Compact: "
    "v* = 1 - .01 x on the diagonal and 0 below, so v* is not a feature but nearly "
    "proportional to the first: the features know the diagonal, not that it pays.",
    build=build,
    reference=_reference,
)
