"""Asset selling: offers come one by one, and one of them has to be taken.

Shapes: ``n`` states, ``m`` thresholds, ``H`` stages, one more than there are offers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Final

import numpy as np

from tensorplan.errors import SettingError
from tensorplan.finite import FiniteProcess
from tensorplan.problem import Simulator
from tensorplan.problems.base import BOUND_ROOM, Family, LinearTable, require_at_least
from tensorplan.records import FloatArray, IntArray, Spec, States, Step

ACCEPT: Final = 1
"""The action that takes the offer; action 0 waits for the next one."""
LOWEST, HIGHEST = 0.5, 0.9
"""Thresholds that are given by their number are spread evenly between these."""
CELLS: Final = 4_096
"""Cells of [0, 1] in which the values of policies of continuous offers are summed."""

Policy = Callable[[States, int], IntArray]
"""Actions [n] for states [n] at a stage."""


@dataclass(frozen=True, kw_only=True)
class AssetSelling:
    """Sell one asset to one of n offers, which are uniform on [0, 1] and cannot be recalled.

    A state is the present offer. At stage 1 there is none (the offer is 0), so that the process
    has n + 1 stages. Accepting an offer x pays x and ends the episode; waiting pays nothing, and
    after the last offer it is too late. The best threshold falls from stage to stage.

    The policy "accept if and only if x >= t" is worth x at an offer x >= t, and the same
    k_h(t) = (1 - t^l) (1 + t) / 2 at all lower ones, l being the number of offers still to come.
    So the two features x 1[x >= t] and k_h(t) 1[x < t] make this policy exactly realizable, with
    theta = (1, 1) for them, and zeros for the 2 (m - 1) features of the other thresholds. With
    more offers than thresholds no others are realizable, but waiting for ever (theta = 0): the
    weights do not depend on the stage, so neither do the offers that are accepted, and no other
    set of offers is worth such a combination of k_h(t). A planner can promise the value of the
    best threshold among those given, in closed form :meth:`best_threshold`; what it plays can be
    worth more, up to v*. Many thresholds make the features nearly collinear, and planning harder.

    Attributes:
        offers: n.
        thresholds: t_1 to t_m, increasing, in (0, 1).
        levels: number L of equally likely offers (i + 1/2) / L; None for continuous ones.
    """

    offers: int = 10
    thresholds: tuple[float, ...] = (LOWEST, (LOWEST + HIGHEST) / 2, HIGHEST)
    levels: int | None = None

    def __post_init__(self) -> None:
        """Refuse settings out of range."""
        require_at_least(1, offers=self.offers, levels=1 if self.levels is None else self.levels)
        ends = (0.0, *self.thresholds, 1.0)
        if len(ends) < 3 or not all(low < high for low, high in pairwise(ends)):
            raise SettingError(
                f"thresholds={self.thresholds}",
                "thresholds must increase, strictly between 0 and 1",
                "Give one or more, such as (0.5, 0.7, 0.9).",
            )

    @property
    def horizon(self) -> int:
        """H, a stage without an offer and one for each of them."""
        return self.offers + 1

    @cached_property
    def theta(self) -> FloatArray:
        """The parameter of the best threshold: [2 m]."""
        best = self.thresholds.index(self.best_threshold()[0])
        theta = np.zeros(2 * len(self.thresholds))
        theta[2 * best : 2 * best + 2] = math.sqrt(len(self.thresholds))
        return theta

    @property
    def spec(self) -> Spec:
        """What the process promises."""
        return self._spec

    @cached_property
    def _spec(self) -> Spec:
        return Spec(
            actions=2,
            dim=2 * len(self.thresholds),
            horizon=self.horizon,
            bound=BOUND_ROOM * float(np.linalg.norm(self.theta)),
        )

    def start(self, rng: np.random.Generator) -> States:
        """No offer yet."""
        return np.zeros(1)

    def step(self, states: States, stage: int, actions: IntArray, rng: np.random.Generator) -> Step:
        """Sell for the offer, or draw the next one."""
        sold = actions == ACCEPT
        drawn = rng.random(len(states))
        if self.levels is not None:
            drawn = (np.floor(drawn * self.levels) + 0.5) / self.levels
        return Step(np.where(sold, states, 0.0), drawn, sold)

    def features(self, states: States, stage: int) -> FloatArray:
        """Features of n states: [n, 2 m]."""
        places = np.array(self.thresholds)
        high = states[:, None] >= places
        waiting = self._waiting(self.horizon - stage)
        pairs = np.stack([np.where(high, states[:, None], 0), np.where(high, 0, waiting)], axis=2)
        return pairs.reshape(len(states), -1) / math.sqrt(len(places))

    def best_threshold(self) -> tuple[float, float]:
        """The threshold of highest value and its value at the start, which is v°."""
        values = self._waiting(self.offers)
        best = int(values.argmax())
        return self.thresholds[best], float(values[best])

    def optimal_value(self) -> float:
        """v* of the start: c -> E max(X, c), once for each offer."""
        worth = 0.0
        for _ in range(self.offers):
            if self.levels is None:
                worth = (1 + worth**2) / 2
            else:
                worth = float(np.maximum(self._cells, worth).mean())
        return worth

    def policy_value(self, policy: Policy) -> float:
        """Value of a policy at the start, by backward induction.

        Exact with ``levels``. For continuous offers the actions at the middles of the cells of
        [0, 1] count, which is off by less than the number of accepted intervals / CELLS.

        Args:
            policy: actions [n] for offers [n] at a stage, 1 accepts.
        """
        worth = 0.0
        for stage in range(self.horizon, 1, -1):
            accepted = policy(self._cells, stage) == ACCEPT
            worth = float(np.where(accepted, self._cells, worth).mean())
        return 0.0 if policy(np.zeros(1), 1)[0] == ACCEPT else worth

    def finite(self) -> LinearTable:
        """The same as a table, with levels: state 0 is no offer, state i + 1 is level i."""
        if self.levels is None:
            raise SettingError(
                "levels=None",
                "continuous offers do not fit a table",
                "Give a number of levels, such as levels=16.",
            )
        prices = np.concatenate([np.zeros(1), self._cells])
        stages = range(1, self.horizon + 1)
        table = np.stack([self.features(prices, stage) for stage in stages])
        policy = np.where(prices >= self.best_threshold()[0], ACCEPT, 0)
        process = _process(self.spec, prices, table)
        return LinearTable(process, self.theta, np.tile(policy, (self.horizon, 1)))

    @cached_property
    def _cells(self) -> FloatArray:
        """The levels, or the middles of the cells that stand for all offers."""
        count = CELLS if self.levels is None else self.levels
        return (np.arange(count) + 0.5) / count

    def _waiting(self, left: int) -> FloatArray:
        """k(t): values of the thresholds with ``left`` offers to come: [m]."""
        places = np.array(self.thresholds)
        if self.levels is None:
            return (1 - places**left) * (1 + places) / 2
        accepted = self._cells >= places[:, None]
        count = accepted.sum(axis=1)
        mean = np.where(accepted, self._cells, 0.0).sum(axis=1) / np.maximum(count, 1)
        return (1 - (1 - count / self.levels) ** left) * mean


def _process(spec: Spec, prices: FloatArray, table: FloatArray) -> FiniteProcess:
    """Waiting has one outcome for each level; accepting has one, and the rest are padding."""
    states, levels = len(prices), len(prices) - 1
    probabilities = np.zeros((states, 2, levels))
    probabilities[:, 0], probabilities[:, ACCEPT, 0] = 1 / levels, 1.0
    rewards = np.zeros(probabilities.shape)
    rewards[:, ACCEPT] = prices[:, None]
    terminated = np.zeros(probabilities.shape, np.bool_)
    terminated[:, ACCEPT] = True
    return FiniteProcess(
        spec=spec,
        probabilities=probabilities,
        successors=np.broadcast_to(np.arange(1, states), probabilities.shape),
        rewards=rewards,
        terminated=terminated,
        feature_table=table,
        start_probabilities=np.eye(states)[0],
    )


def build(
    *, offers: int = 10, thresholds: int = 3, at: str | None = None, levels: int | None = None
) -> Simulator:
    """Sell one asset to one of several random offers, which cannot be recalled.

    A state is the present offer, uniform on [0, 1]; at stage 1 there is none yet. Action 1
    accepts it, action 0 waits; after the last offer it is too late. Threshold policies "accept if
    and only if the offer is at least t" are exactly realizable, one for each t, and no others
    that ever sell (while there are more offers than thresholds). A planner can promise the best
    of them, v°, which is below v*: the best threshold falls over time. More thresholds bring v°
    nearer and make the features nearly collinear, which costs queries.

    Args:
        offers: n; the process has n + 1 stages.
        thresholds: m of them, spread evenly from .5 to .9.
        at: thresholds of one's own instead, increasing and joined by "/", such as ".6/.8".
        levels: makes offers one of so many levels in a table, for the referee.
    """
    require_at_least(1, thresholds=thresholds)
    world = AssetSelling(offers=offers, thresholds=_places(thresholds, at), levels=levels)
    return world if levels is None else world.finite()


def _places(count: int, at: str | None) -> tuple[float, ...]:
    if at is None:
        return tuple(np.linspace(LOWEST, HIGHEST, count).tolist())
    try:
        return tuple(float(text) for text in at.split("/"))
    except ValueError:
        raise SettingError(
            f"at={at!r}", "thresholds must be numbers joined by '/'", "One example is '.6/.8'."
        ) from None


def _reference(**settings: Any) -> float:
    count, at = settings.get("thresholds", 3), settings.get("at")
    kept = {key: settings[key] for key in ("offers", "levels") if key in settings}
    return AssetSelling(thresholds=_places(count, at), **kept).optimal_value()


FAMILY = Family(
    name="asset-selling",
    summary="Offers come one by one, and one of them has to be taken before the last is gone.",
    features="(x 1[x >= t], k_h(t) 1[x < t]) / sqrt m for each of m thresholds t, with k_h(t) = "
    "(1 - t^l) (1 + t) / 2 the value of waiting for one of the l offers to come",
    realizable="the values of the m threshold policies are exactly linear, each with a theta of "
    "two entries sqrt m; v* is not. The features know what each threshold is worth, not which "
    "one is best.",
    build=build,
    reference=_reference,
)
