"""Expectations over log-normal price steps, on a fine grid of log-prices.

A step of a geometric Brownian motion adds a normal variable to the log-price, so that the expected
value of a function of the next price is a convolution: the trapezoid rule on an even grid, whose
error is of the order of the square of its spacing even for functions with kinks.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from scipy.signal import oaconvolve

from tensorplan.records import FloatArray

DEVIATIONS: Final = 8.0
"""Half-width of the grid and of a step, in standard deviations: beyond lies less than 1e-14."""


@dataclass(frozen=True)
class Market:
    """A log-normal price under the risk-neutral measure, at even dates.

    Attributes:
        spot: the price at time 0.
        rate: r, the interest rate, continuously compounded.
        volatility: sigma.
        maturity: T, in years.
        dates: number of steps until then.
    """

    spot: float
    rate: float
    volatility: float
    maturity: float
    dates: int

    @property
    def interval(self) -> float:
        """Time from one date to the next."""
        return self.maturity / self.dates

    @property
    def drift(self) -> float:
        """Mean change of the log-price in a year."""
        return self.rate - self.volatility**2 / 2

    def discount(self, date: int) -> float:
        """Worth today of a dollar at a date: exp(-r t)."""
        return math.exp(-self.rate * date * self.interval)

    def likely_prices(self, date: int, count: int, deviations: float) -> FloatArray:
        """Prices within some standard deviations of the median at a date: [count]."""
        time = date * self.interval
        spread = deviations * self.volatility * math.sqrt(time)
        return self.spot * np.exp(self.drift * time + np.linspace(-spread, spread, count))


@dataclass(frozen=True)
class PriceGrid:
    """An even grid of log-prices around the spot, wide enough for all dates.

    Attributes:
        market: how prices move.
        half: number of grid points on each side of the spot.
    """

    market: Market
    half: int

    @property
    def spacing(self) -> float:
        """Distance of neighbouring log-prices."""
        market = self.market
        width = DEVIATIONS * market.volatility * math.sqrt(market.maturity)
        return (width + abs(market.drift) * market.maturity) / self.half

    @cached_property
    def prices(self) -> FloatArray:
        """[2 half + 1], the spot in the middle."""
        return self.market.spot * np.exp(np.arange(-self.half, self.half + 1) * self.spacing)

    @cached_property
    def _kernel(self) -> FloatArray:
        """Probabilities of the changes of the log-price between two dates, by grid steps."""
        market = self.market
        deviation = market.volatility * math.sqrt(market.interval)
        mean = market.drift * market.interval
        reach = math.ceil((DEVIATIONS * deviation + abs(mean)) / self.spacing)
        changes = np.arange(-reach, reach + 1) * self.spacing
        density = np.exp(-(((changes - mean) / deviation) ** 2) / 2)
        return density / density.sum()

    def expected(self, values: FloatArray) -> FloatArray:
        """Expected value at the next date, of a function that is flat beyond the grid: [P]."""
        padded = np.pad(values, len(self._kernel) // 2, mode="edge")
        return np.asarray(oaconvolve(padded, self._kernel[::-1], mode="valid"), dtype=np.float64)

    def backward(self, choose: Callable[[FloatArray, int], FloatArray]) -> list[FloatArray]:
        """Values [P] at all dates, the last one first to be computed.

        Args:
            choose: from the worth of waiting [P] and the date to the value [P]; at the last date
                the worth of waiting is 0.
        """
        waiting, values = np.zeros(len(self.prices)), list[FloatArray]()
        for date in reversed(range(self.market.dates + 1)):
            values.append(choose(waiting, date))
            waiting = self.expected(values[-1])
        return values[::-1]
