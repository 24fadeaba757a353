"""The grid of thm:lb: linear optimal values, and a goal that takes exponentially many queries.

With D features the states are the grid {-1, 0, 1}^(D-1). Every action costs 1/(D-1), except
staying at the goal, a corner of the grid, which is free. The optimal value is linear,

    v*(s) = -|s - goal|_1 / (D-1) = <phi(s), theta*>,   phi(s) = c (1, s/(D-1)),

where c = sqrt((D-1)/D) brings the norms of the features down to 1 (A26).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tensorplan.errors import SettingError
from tensorplan.problems.base import BOUND_ROOM, Family, require_at_least
from tensorplan.records import BoolArray, FloatArray, IntArray, Spec, States, Step


class LowerBound:
    """One process of the family of thm:lb, or the one without a goal.

    Actions 0 to D-2 increment a coordinate, D-1 to 2D-3 decrement one, 2D-2 stays. Moves that
    would leave the grid are masked. The total reward of an endless episode counts: no discount.

    Args:
        dim: D, dimension of the features.
        goal: D-1 numbers -1 or 1, or None for the process in which every action costs.
    """

    def __init__(self, dim: int, goal: Sequence[int] | None = None) -> None:
        require_at_least(2, dim=dim)
        self.axes = dim - 1
        self.goal = None if goal is None else _checked_goal(goal, self.axes)
        self._moves = _moves(self.axes)
        self._cost = 1 / self.axes
        self._scale = math.sqrt(self.axes / dim)
        self._spec = Spec(
            actions=2 * dim - 1,
            dim=dim,
            horizon=None,
            reward_range=(-self._cost, 0.0),
            bound=BOUND_ROOM * math.sqrt(dim) / self._scale,
            deterministic=True,
            may_terminate=False,
        )

    @property
    def spec(self) -> Spec:
        """What the process promises."""
        return self._spec

    @property
    def stay(self) -> int:
        """The action that does not move."""
        return 2 * self.axes

    @property
    def theta(self) -> FloatArray:
        """Parameter of the optimal value, of norm D/sqrt(D-1): [D]."""
        return np.concatenate([[-1.0], self._known_goal()]) / self._scale

    def start(self, rng: np.random.Generator) -> States:
        """The middle of the grid: [1, D-1]."""
        return np.zeros((1, self.axes), np.int8)

    def step(self, states: States, stage: int, actions: IntArray, rng: np.random.Generator) -> Step:
        """Move; a masked move leaves the state as it is."""
        following = np.clip(states + self._moves[actions], -1, 1)
        rewards = np.full(len(states), -self._cost)
        if self.goal is not None:
            arrived = (states == self.goal).all(axis=1)
            rewards[arrived & (actions == self.stay)] = 0.0
        return Step(rewards, following, np.zeros(len(states), np.bool_))

    def features(self, states: States, stage: int) -> FloatArray:
        """c (1, s/(D-1)), of norm at most 1: [n, D]."""
        features = np.full((len(states), self.axes + 1), self._scale)
        features[:, 1:] *= states / self.axes
        return features

    def allowed(self, states: States, stage: int) -> BoolArray:
        """All but the moves that would leave the grid: [n, 2D-1]."""
        stays = np.ones((len(states), 1), np.bool_)
        return np.concatenate([states < 1, states > -1, stays], axis=1)

    def values(self, states: States) -> FloatArray:
        """The optimal value -|s - goal|_1 / (D-1): [n]."""
        goal = self._known_goal()
        return -np.abs(states - goal).sum(axis=1, dtype=np.float64) / self.axes

    def _known_goal(self) -> States:
        if self.goal is None:
            raise SettingError(
                "goal=None",
                "without a goal every policy has value minus infinity",
                "Give the process a goal.",
            )
        return self.goal


def _moves(axes: int) -> States:
    """What each action adds to a state: [2D-1, D-1]."""
    unit = np.eye(axes, dtype=np.int8)
    return np.concatenate([unit, -unit, np.zeros((1, axes), np.int8)])


def _checked_goal(goal: Sequence[int], axes: int) -> States:
    corner = np.asarray(goal)
    if corner.shape != (axes,) or not np.all(np.abs(corner) == 1):
        raise SettingError(
            f"goal={list(goal)}",
            f"the goal must be a corner: {axes} numbers that are -1 or 1",
            "Put the goal in a corner of the grid; in the middle, values would not be linear.",
        )
    return corner.astype(np.int8)


def build(*, dim: int = 6, seed: int | None = 0) -> LowerBound:
    """One process of the family.

    Args:
        dim: D, dimension of the features.
        seed: of the corner that is the goal, or None for the process without a goal.
    """
    require_at_least(2, dim=dim)
    if seed is None:
        return LowerBound(dim)
    require_at_least(0, seed=seed)
    return LowerBound(dim, np.random.default_rng(seed).choice([-1, 1], size=dim - 1).tolist())


def _reference(*, dim: int = 6, seed: int | None = 0) -> float | None:
    return None if seed is None else -1.0


FAMILY = Family(
    name="lower-bound",
    summary="Find the one corner of a grid where staying is free; every other step costs.",
    features="c (1, s / (D - 1)) for the grid point s in {-1, 0, 1}^(D - 1), with "
    "c = sqrt((D - 1) / D)",
    realizable="v* is exactly linear: theta = (-1, goal) / c. The features give no hint of the "
    "goal: a planner needs of the order of 2^D / D queries per step (thm:lb).",
    build=build,
    reference=_reference,
)
