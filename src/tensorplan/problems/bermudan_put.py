"""A Bermudan put: when to sell at a fixed price what floats in the market.

Shapes: ``n`` prices, ``d`` features. Stage h is date h - 1, at time t = (h - 1) T / dates, and
``u`` is the fraction of time that is left. All values are in dollars, discounted to today.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal

import numpy as np
from scipy.special import ndtr

from tensorplan.errors import SettingError
from tensorplan.exact.fit import Fit, fit_rows, least_squares
from tensorplan.problems.base import Family, require_at_least
from tensorplan.problems.price_grid import Market, PriceGrid
from tensorplan.records import FloatArray, IntArray, Spec, States, Step

EXERCISE: Final = 1
"""The action that sells at the strike; action 0 waits for the next date."""
HALF_GRID: Final = 4_096
"""Grid points on each side of the spot: prices are then right to about $1e-5."""
FITTED_PRICES, FITTED_DATES, LIKELY = 41, 51, 3.0
"""A fit counts so many prices at so many dates, within three standard deviations."""

BOUND_FACTOR: Final = 1.5
"""``Spec.bound`` is the larger norm of two parameters times this: theta, and a fit to v*."""

FeatureName = Literal["european", "payoff", "payoff-and-time"]
Policy = Callable[[States, int], IntArray]
"""Actions [n] for prices [n] at a stage."""


@dataclass(frozen=True, kw_only=True)
class BermudanPut:
    """The right to sell a share at the strike, on any of a few dates.

    A state is the price of the share, log-normal under the risk-neutral measure. Exercising
    (action 1) at price s pays exp(-r t) max(strike - s, 0) and ends the episode; waiting (action
    0) pays nothing. Dates are 0 to ``dates``, so that there is a stage more than dates after
    today; exercising at once is worth its payoff, which changes v* only where that is best.

    "european" (d = 4) has E, u E, u C and u C^2 / strike, all discounted to today: E is the
    price of a European put that matures at the last date, C = strike N(-d2) exp(-r (T - t)) the
    part of it that the strike pays. The right to exercise early is worth mainly the interest on
    the strike while the share stays below it, which is roughly proportional to u C: at the
    defaults v* is within $.12 of linear (:meth:`fit`). Exactly realizable is only "wait for the
    last date", with theta = (2 strike, 0, 0, 0), which is worth E; that is what a planner can
    promise without misspecification. v* is higher by the premium of early exercise. With "payoff"
    (d = 6: the payoff, a cubic in the price, time) v* is off by $.55, with "payoff-and-time"
    (d = 10: the payoff times 1 and t, a cubic, t, t^2, and t times the price and its square) by
    $.33; exactly realizable is "exercise now", whatever it is worth. Assuming a misspecification
    below the true one, upper bounds can fall below v*; at the true one they say little.

    The attributes are the settings of :func:`build`.
    """

    spot: float = 36.0
    strike: float = 40.0
    rate: float = 0.06
    volatility: float = 0.2
    maturity: float = 1.0
    dates: int = 10
    features_used: FeatureName = "european"
    misspecification: float = 0.0

    def __post_init__(self) -> None:
        """Refuse settings out of range."""
        require_at_least(1, dates=self.dates)
        for name in ("spot", "strike", "volatility", "maturity"):
            if not getattr(self, name) > 0:
                raise SettingError(
                    f"{name}={getattr(self, name)}",
                    f"{name} must be positive",
                    "The example of Longstaff and Schwartz has spot=36, strike=40, "
                    "volatility=.2 and maturity=1.",
                )
        if not self.rate >= 0:
            raise SettingError(
                f"rate={self.rate}", "rate must be at least 0", "The default is rate=0.06."
            )

    @cached_property
    def market(self) -> Market:
        """How the price moves."""
        return Market(self.spot, self.rate, self.volatility, self.maturity, self.dates)

    @cached_property
    def theta(self) -> FloatArray:
        """The parameter of the policy that is exactly realizable: [d]."""
        theta = np.zeros(_WIDTHS[self.features_used])
        theta[0] = self.strike * self._scale
        return theta

    @property
    def spec(self) -> Spec:
        """What the process promises; the bound has room for a fit to v*."""
        return self._spec

    @cached_property
    def _spec(self) -> Spec:
        # NOTE: least squares always answers; the linear program of the best fit need not.
        near = least_squares(*self._likely)
        norms = [float(np.linalg.norm(each)) for each in (self.theta, near)]
        return Spec(
            actions=2,
            dim=len(self.theta),
            horizon=self.dates + 1,
            reward_range=(0.0, self.strike),
            bound=BOUND_FACTOR * max(norms),
            misspecification=self.misspecification,
        )

    def start(self, rng: np.random.Generator) -> States:
        """The price today."""
        return np.full(1, self.spot)

    def step(self, states: States, stage: int, actions: IntArray, rng: np.random.Generator) -> Step:
        """Exercise, or draw the price at the next date."""
        market, sold = self.market, actions == EXERCISE
        noise = market.volatility * math.sqrt(market.interval) * rng.standard_normal(len(states))
        following = states * np.exp(market.drift * market.interval + noise)
        return Step(np.where(sold, self.payoff(states, stage), 0.0), following, sold)

    def features(self, states: States, stage: int) -> FloatArray:
        """Features of n prices: [n, d]."""
        rows = self._european if self.features_used == "european" else self._polynomial
        return rows(states, stage) / self._scale

    def payoff(self, prices: FloatArray, stage: int) -> FloatArray:
        """What exercising pays at a stage, discounted to today: [n]."""
        return self.market.discount(stage - 1) * np.maximum(self.strike - prices, 0.0)

    def european(self, prices: FloatArray, stage: int) -> FloatArray:
        """Prices of the European put of the last date, discounted to today: [n]."""
        cash, share = self._parts(prices, stage)
        return np.maximum(cash - share, 0.0)

    def optimal_value(self) -> float:
        """v* today, by backward induction on the grid."""
        return float(self.optimal_values()[0][HALF_GRID])

    def optimal_values(self) -> list[FloatArray]:
        """v* at the grid's prices, at every stage."""
        grid = self.grid
        return grid.backward(
            lambda waiting, date: np.maximum(waiting, self.payoff(grid.prices, date + 1))
        )

    def policy_value(self, policy: Policy) -> float:
        """Value today of a policy, by backward induction on the grid.

        Args:
            policy: actions [n] for prices [n] at a stage, 1 exercises. It should exercise in a
                few intervals of prices; each end of one is placed to within half a grid cell.
        """
        prices = self.grid.prices

        def chosen(waiting: FloatArray, date: int) -> FloatArray:
            exercised = policy(prices, date + 1) == EXERCISE
            return np.where(exercised, self.payoff(prices, date + 1), waiting)

        today = policy(np.full(1, self.spot), 1)[0] == EXERCISE
        values = self.grid.backward(chosen)
        now = float(self.payoff(np.full(1, self.spot), 1)[0])
        return now if today else float(self.grid.expected(values[1])[HALF_GRID])

    def fit(self) -> Fit:
        """The best linear fit to v* in its largest error, at likely prices.

        ``misfit`` is that error in dollars, at up to FITTED_DATES dates and at FITTED_PRICES
        prices of each, within three standard deviations of the median; theta: [d].
        """
        rows, targets = self._likely
        fit = fit_rows(rows, targets / self.strike)
        return Fit(self.strike * fit.misfit, self.strike * fit.theta)

    @cached_property
    def _likely(self) -> tuple[FloatArray, FloatArray]:
        """Features [N, d] and values v* [N] of the prices and dates of a fit."""
        values, log_prices = self.optimal_values(), np.log(self.grid.prices)
        rows: list[FloatArray] = []
        targets: list[FloatArray] = []
        dates = np.linspace(0, self.dates, min(self.dates + 1, FITTED_DATES)).round()
        for date in map(int, dates):
            prices = self.market.likely_prices(date, FITTED_PRICES, LIKELY)
            rows.append(self.features(prices, date + 1))
            targets.append(np.interp(np.log(prices), log_prices, values[date]))
        return np.concatenate(rows), np.concatenate(targets)

    @cached_property
    def grid(self) -> PriceGrid:
        """The grid of prices, today's in the middle."""
        return PriceGrid(self.market, HALF_GRID)

    @property
    def _scale(self) -> float:
        """The square root of d: the features before it are between -1 and 1."""
        return math.sqrt(_WIDTHS[self.features_used])

    def _european(self, prices: FloatArray, stage: int) -> FloatArray:
        """[n, 4], entries in [0, 1]."""
        put = self.european(prices, stage) / self.strike
        cash = self._parts(prices, stage)[0] / self.strike
        left = 1 - (stage - 1) / self.dates
        return np.stack([put, left * put, left * cash, left * cash**2], axis=1)

    def _polynomial(self, prices: FloatArray, stage: int) -> FloatArray:
        """[n, 6] or [n, 10], entries in [-1, 1]."""
        paid, time = self.payoff(prices, stage) / self.strike, (stage - 1) / self.dates
        highest = self.market.likely_prices(self.dates, 2, LIKELY)[-1]
        away = np.minimum((prices - self.spot) / max(highest - self.spot, self.spot), 1.0)
        one = np.ones(len(prices))
        columns = [paid, one, away, away**2, away**3, time * one]
        if self.features_used == "payoff-and-time":
            columns += [time * paid, time**2 * one, time * away, time * away**2]
        return np.stack(columns, axis=1)

    def _parts(self, prices: FloatArray, stage: int) -> tuple[FloatArray, FloatArray]:
        """What the strike and the share are worth in the European put, today: both [n]."""
        market, left = self.market, (self.dates + 1 - stage) * self.market.interval
        if left <= 0:
            held = np.where(prices < self.strike, market.discount(self.dates), 0.0)
            return held * self.strike, held * prices
        spread = market.volatility * math.sqrt(left)
        below = (np.log(self.strike / prices) - market.drift * left) / spread
        cash = self.strike * market.discount(self.dates) * ndtr(below)
        return cash, prices * market.discount(stage - 1) * ndtr(below - spread)


_WIDTHS: Final[dict[FeatureName, int]] = {"european": 4, "payoff": 6, "payoff-and-time": 10}


def build(
    *,
    spot: float = 36.0,
    strike: float = 40.0,
    rate: float = 0.06,
    volatility: float = 0.2,
    maturity: float = 1.0,
    dates: int = 10,
    features: FeatureName = "european",
    misspecification: float = 0.0,
) -> BermudanPut:
    """A Bermudan put on a log-normal share, as in Longstaff and Schwartz (2001).

    A state is the price. Action 1 sells the share at the strike: it pays what that gains,
    discounted to today, and ends the episode; action 0 waits for the next date. Rewards and
    values are in dollars, and so is delta. v* is known from a fine grid but not linear in any of
    the features: this is a problem of misspecification. Exactly realizable is "wait for the last
    date" with "european", and "exercise now" with the other two; a planner without
    misspecification can promise no more than their value, and its play is often worth more.

    Args:
        spot: price today.
        strike: price at which the share can be sold.
        rate: interest rate, continuously compounded.
        volatility: of the share.
        maturity: years until the last date.
        dates: dates after today, evenly spaced; the process has a stage more.
        features: "european" (d = 4), "payoff" (d = 6) or "payoff-and-time" (d = 10).
        misspecification: eta that the process promises, in dollars.
    """
    return BermudanPut(
        spot=spot,
        strike=strike,
        rate=rate,
        volatility=volatility,
        maturity=maturity,
        dates=dates,
        features_used=features,
        misspecification=misspecification,
    )


def _reference(**settings: Any) -> float:
    return build(**settings).optimal_value()


FAMILY = Family(
    name="bermudan-put",
    summary="When to sell a share at a fixed price: a put with a few exercise dates.",
    features="european: (E, u E, u C, u C^2 / K) / (2 K), with K the strike, E the European put, "
    "C the part of it that the strike pays, and u the fraction of time left. payoff: (payoff, "
    "cubic in the price, time). payoff-and-time: these, t payoff, t^2, t s and t s^2",
    realizable="european: the value of waiting for the last date; the others: that of exercising "
    "now. v* is off by $.12, $.55 and $.33 at the defaults, and no feature is v*.",
    build=build,
    reference=_reference,
)
