"""The gambler's problem: reach a fortune by bets at poor odds before the money runs out."""

from __future__ import annotations

import math
from typing import Any, Final, Literal

import numpy as np

from tensorplan.errors import SettingError
from tensorplan.finite import FiniteProcess
from tensorplan.problems.base import BOUND_ROOM, Family, LinearTable, require_at_least
from tensorplan.problems.one_hot import clock, optimal_value, with_one_hot, without_features
from tensorplan.records import BoolArray, FloatArray, IntArray, Spec

DISCOUNT: Final = 0.95
"""Discount where neither a discount nor a horizon is given."""

Stakes = Literal["unit", "unit-or-bold", "any"]
FeatureName = Literal["one-hot", "unit-bets"]


def build(
    *,
    goal: int = 20,
    win: float = 0.4,
    start: int | None = None,
    stakes: Stakes = "unit-or-bold",
    features: FeatureName = "one-hot",
    discount: float | None = None,
    horizon: int | None = None,
) -> LinearTable:
    """Bets until the capital is 0 or the goal, which pays 1.

    A bet of b wins b with probability ``win`` and loses b otherwise. At poor odds the best play
    is bold: all that one has, or all that is missing. Its value is a fractal, and no few smooth
    features hold it; hence "one-hot", in which the value of every memoryless policy is exactly
    linear and a planner can promise v*. What two features do hold is the value of betting 1
    always, which solves a linear recursion: with "unit-bets" a planner can promise that value
    and no more, although bolder play is worth more.

    Args:
        goal: capital at which to stop, at least 2.
        win: chance of a bet.
        start: capital to begin with; a third of the goal if left out.
        stakes: "unit" has the action bet 1 alone; "unit-or-bold" has bet 1 and bet as much as
            one has or needs; "any" has a bet of a + 1 for each action a, where it can be paid
            and does not overshoot.
        features: "one-hot", or "unit-bets" for the two roots of the recursion (with a discount).
        discount: gamma, .95 if there is no horizon either.
        horizon: H, instead of a discount.
    """
    require_at_least(2, goal=goal)
    capital = max(goal // 3, 1) if start is None else start
    _check(goal, win, capital)
    time = clock(horizon, discount, default=DISCOUNT)
    bets = _bets(goal, stakes)
    spec = Spec(actions=bets.shape[1], dim=1, horizon=time.horizon, discount=time.discount)
    process = _process(spec, bets, win, capital)
    if features == "one-hot":
        return with_one_hot(process)
    if time.horizon is not None:
        raise SettingError(
            f"features='unit-bets' with horizon={horizon}",
            "the value of unit bets is a sum of two powers only without a last stage",
            "Give a discount, or take features='one-hot'.",
        )
    return _with_unit_bets(process, win)


def unit_bet_values(goal: int, win: float, discount: float = 1.0) -> FloatArray:
    """Values of betting 1 always, in closed form, for capitals 1 to goal - 1: [goal - 1].

    The recursion v(s) = gamma (win v(s + 1) + (1 - win) v(s - 1)) with v(0) = 0 has the solution
    v(s) = (a^s - b^s) / (a^goal - b^goal) / gamma, a and b the roots of its polynomial. Without
    a discount it is the chance of reaching the goal, (1 - r^s) / (1 - r^goal) with r = q / p.
    """
    large, small = _roots(win, discount)
    capital = np.arange(1, goal)
    if large == small:
        return capital / goal
    # NOTE: divided by large^goal, which overflows for long games.
    rows = large ** (capital - float(goal)) - small**capital * large ** -float(goal)
    return rows / (discount * (1 - (small / large) ** goal))


def _roots(win: float, discount: float) -> tuple[float, float]:
    """The roots of gamma win x^2 - x + gamma (1 - win), the larger one first."""
    spread = math.sqrt(max(0.0, 1 - 4 * discount**2 * win * (1 - win)))
    double = 2 * discount * win
    return (1 + spread) / double, (1 - spread) / double


def _with_unit_bets(process: FiniteProcess, win: float) -> LinearTable:
    """Features (a^(s - goal), b^s) / sqrt 2 for the roots a > 1 > b."""
    goal, discount = process.states - 1, process.spec.discount
    large, small = _roots(win, discount)
    capital = np.arange(process.states)
    rows = np.stack([large ** (capital - float(goal)), small**capital], axis=1) / np.sqrt(2)
    rows[[0, goal]] = 0.0  # the game is over
    first = np.sqrt(2) / (discount * (1 - (small / large) ** goal))
    theta = np.array([first, -first * large**-goal])
    bound = BOUND_ROOM * float(np.linalg.norm(theta))
    always_one = np.zeros((1, process.states), np.int64)
    return LinearTable(process.with_features(rows[None], bound=bound), theta, always_one)


def _bets(goal: int, stakes: Stakes) -> IntArray:
    """The bet of each action: [S, A]."""
    capital = np.arange(goal + 1)
    if stakes == "any":
        return np.tile(np.arange(1, goal // 2 + 1), (goal + 1, 1))
    bets = np.stack([np.ones(goal + 1, np.int64), _most(capital)], axis=1)
    return bets[:, :1] if stakes == "unit" else bets


def _most(capital: IntArray) -> IntArray:
    """The largest bet that can be paid and does not overshoot: [S]."""
    return np.minimum(capital, capital[-1] - capital)


def _process(spec: Spec, bets: IntArray, win: float, start: int) -> FiniteProcess:
    capital = np.arange(len(bets))
    allowed: BoolArray = (bets >= 1) & (bets <= _most(capital)[:, None])
    staked = np.where(allowed, bets, 0)
    after = np.stack([capital[:, None] + staked, capital[:, None] - staked], axis=2)
    reached = (after == capital[-1]) & allowed[..., None]
    return FiniteProcess(
        spec=spec,
        probabilities=np.broadcast_to([win, 1 - win], after.shape),
        successors=after,
        rewards=np.where(reached, 1.0, 0.0),
        terminated=(after == 0) | (after == capital[-1]),
        feature_table=without_features(len(capital)),
        start_probabilities=np.where(capital == start, 1.0, 0.0),
        allowed=allowed,
    )


def _check(goal: int, win: float, start: int) -> None:
    if not 0 < win < 1:
        raise SettingError(
            f"win={win}", "win must lie strictly between 0 and 1", "The default is win=0.4."
        )
    if not 0 < start < goal:
        raise SettingError(
            f"start={start}",
            f"the capital at the start must lie strictly between 0 and goal={goal}",
            "Start with less than the goal, and with something to lose.",
        )


def _reference(**settings: Any) -> float:
    return optimal_value(build(**settings).process)


FAMILY = Family(
    name="gambler",
    summary="Reach a fortune by bets at poor odds before the money runs out.",
    features="one-hot over capitals (d = goal + 1) with a discount, over (stage, capital) with a "
    "horizon; or (a^(s - goal), b^s) / sqrt 2 with a and b the roots of the recursion that the "
    "value of unit bets solves",
    realizable="one-hot: the value of every memoryless policy, v* among them. unit-bets: the "
    "value of betting 1 always, which is not v*. Neither gives away what to bet.",
    build=build,
    reference=_reference,
)
