"""How a total probability of error is spent on a sequence of claims that has no end.

The i-th claim gets 6 zeta / (pi^2 i^2), i = 1, 2, ..., and the k-th epoch of a claim a share of
that, k = 0, 1, ...; both sums stay below their total however many are used (B5 iii, F1.2). What
is spent is fixed before the data are seen: an index is spent by drawing, whether or not the
draws are kept afterwards (F1.1), and the sizes of epochs lie on a grid that no data can move.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

import numpy as np

from tensorplan.errors import SettingError
from tensorplan.estimate import checks
from tensorplan.estimate.checks import Numbers
from tensorplan.records import LARGEST, FloatArray, IntArray, real, settle, whole

EpochRule = Literal["slow", "halving"]
"""Shares 1/((k+1)(k+2)), which shrink slowly, or 2^-(k+1)."""

_LARGEST_SIZE: Final = 2**53


def index_level(total: Numbers, index: Numbers) -> FloatArray:
    """6 zeta / (pi^2 i^2): what the i-th claim may spend of a total zeta, i from 1."""
    number = checks.counts("index", index, 1)
    return 6 * checks.level(total, "total") / (math.pi * number) ** 2


def epoch_share(epoch: Numbers, rule: EpochRule = "slow") -> FloatArray:
    """The share of a claim's level that its k-th epoch may spend, k from 0 (F8)."""
    number = checks.counts("epoch", epoch, 0)
    if rule == "halving":
        return np.exp2(-(number + 1))
    if rule == "slow":
        return 1 / ((number + 1) * (number + 2))
    raise SettingError(f"rule={rule!r}", "there is no such rule", "Use 'slow' or 'halving'.")


@dataclass(frozen=True, slots=True)
class Grid:
    """Sample sizes n_k = ceil(first growth^k), k = 0, 1, ..., fixed in advance (F1.2).

    A bound for a fixed number of draws may be read at these sizes only, each at its own share of
    the level: a size that the row's own data have chosen is covered by no such bound.

    Attributes:
        first: n_0.
        growth: how much larger the next size is.
        rule: how the level is shared among the sizes.
    """

    first: int
    growth: float = 2.0
    rule: EpochRule = "slow"

    def __post_init__(self) -> None:
        """Refuse grids whose sizes would repeat."""
        settle(self, "first", whole(self.first, 1), "a whole number, at least 1")
        # NOTE: steps of at least 1 stay distinct after rounding up.
        least = 1 + 1 / self.first
        rule = "a finite number of at least 1 + 1/first"
        settle(self, "growth", real(self.growth, least, LARGEST), rule)
        epoch_share(0, self.rule)

    def size(self, epoch: int) -> int:
        """n_k."""
        sizes = self.sizes
        if not 0 <= epoch < len(sizes):
            raise SettingError(
                f"epoch={epoch}",
                f"sizes of this grid have epochs 0 to {len(sizes) - 1}",
                "Use an epoch whose size is at most 2^53.",
            )
        return int(sizes[epoch])

    @property
    def sizes(self) -> IntArray:
        """All sizes up to 2^53."""
        return _sizes(self.first, self.growth)

    def next_size(self, draws: IntArray) -> IntArray:
        """The smallest size above each number of draws."""
        return self.sizes[np.searchsorted(self.sizes, draws, side="right")]

    def epoch(self, draws: Numbers) -> IntArray:
        """Which epoch each number of draws is the size of; sizes off the grid are refused."""
        given = checks.counts("draws", draws, 1)
        found = np.minimum(np.searchsorted(self.sizes, given), len(self.sizes) - 1)
        off = self.sizes[found] != given
        if np.any(off):
            raise SettingError(
                f"draws={int(np.ravel(given[off])[0])}",
                f"a bound for fixed sizes holds on its grid {self.sizes[:3]}, ... only (F1.2)",
                "Draw up to a size of the grid, or use a bound that holds at any time.",
            )
        return np.asarray(found, np.int64)

    def level(self, total: Numbers, draws: Numbers) -> FloatArray:
        """What the epoch of this size may spend of a total."""
        return checks.level(total) * epoch_share(self.epoch(draws), self.rule)


@lru_cache(maxsize=64)
def _sizes(first: int, growth: float) -> IntArray:
    last = math.floor(math.log(_LARGEST_SIZE / first) / math.log(growth))
    sizes = np.ceil(first * np.power(growth, np.arange(last + 1))).astype(np.int64)
    sizes.setflags(write=False)
    return sizes


@dataclass(frozen=True, slots=True)
class Ledger:
    """The draw indices opened so far, and the level that each may spend (F1.1).

    An index is opened when it is decided to draw, and stays spent whatever becomes of the draws.

    Attributes:
        total: zeta, for all indices together.
        opened: how many indices have been handed out.
    """

    total: float
    opened: int = 0

    def __post_init__(self) -> None:
        """Refuse totals that are no probability."""
        checks.level(self.total, "total")
        settle(self, "opened", whole(self.opened), "a whole number, at least 0")

    def open(self, count: int = 1) -> tuple[Ledger, IntArray]:
        """Hand out the next indices: the ledger afterwards, and the indices [count]."""
        number = int(checks.counts("count", count, 0))
        last = self.opened + number
        return Ledger(self.total, last), np.arange(self.opened + 1, last + 1)

    def level(self, index: Numbers) -> FloatArray:
        """What opened indices may spend."""
        given = checks.counts("index", index, 1)
        if np.any(given > self.opened):
            raise SettingError(
                f"index={int(np.max(given))} of a ledger with {self.opened} opened",
                "an index has a level only after it was opened",
                "Call open() before drawing, and use the indices that it returns.",
            )
        return index_level(self.total, given)

    @property
    def spent(self) -> float:
        """What all opened indices together may spend; always below the total."""
        from scipy.special import polygamma

        rest = float(polygamma(1, self.opened + 1))
        return self.total * (1 - 6 * rest / math.pi**2)
