"""The one-sided test at a state: is some action's temporal-difference error not too negative?

For n states with A actions, samples Y = R + gamma v(S'; theta) - v(s; theta) of a fixed theta are
drawn in rounds, most promising actions first. PASS with an action once its lower limit is at
least -pass_tolerance; FAIL once every allowed action's upper limit is below -fail_tolerance
(B0, B5 iii). The limits hold at all times at once, so rounds may have any size and actions may be
chosen by what was seen (F1.4); only (count, mean, scatter) of each batch is needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from tensorplan.errors import SettingError
from tensorplan.estimate import checks
from tensorplan.estimate.concentration import anytime_radius, hoeffding_draws, hoeffding_radius
from tensorplan.estimate.moments import Moments
from tensorplan.estimate.spending import Grid
from tensorplan.records import (
    LARGEST,
    LEAST,
    BoolArray,
    FloatArray,
    IntArray,
    real,
    settle,
    whole,
)


class Verdict(IntEnum):
    """What a test says of a state. CAPPED counts as a FAIL for everything that is claimed (F2)."""

    OPEN = 0
    PASS = 1
    FAIL = 2
    CAPPED = 3


@dataclass(frozen=True)
class PassRule:
    """The settings of the one-sided test.

    Attributes:
        pass_tolerance: kappa_p, a passing action's error is at least minus this.
        fail_tolerance: kappa_f <= kappa_p, a failing state's errors are all below minus this.
        width: of the interval in which Y lies: hi - lo + 2 gamma B (F10.4).
        level: alpha, probability that an action's limits are ever wrong: half for all times, half
            for Hoeffding's limits at the cap.
        grid: sizes at which :meth:`SequentialTest.wanted` stops to look; looks are free of charge.
        cap: most draws of an action; by default as many as always decide.
    """

    pass_tolerance: float
    fail_tolerance: float
    width: float
    level: float
    grid: Grid
    cap: int | None = None

    def __post_init__(self) -> None:
        """Refuse rules that mean nothing."""
        settle(self, "pass_tolerance", real(self.pass_tolerance, 0), "a number, at least 0")
        rule = "a number from 0 to pass_tolerance"
        settle(self, "fail_tolerance", real(self.fail_tolerance, 0, self.pass_tolerance), rule)
        settle(self, "width", real(self.width, LEAST, LARGEST), "a number, positive and finite")
        settle(self, "cap", whole(self.cap, 1), "a whole number, at least 1", optional=True)
        self.caps(checks.level(self.level))

    def caps(self, levels: FloatArray) -> IntArray:
        """Most draws of an action at each level.

        By default n_2, at which Hoeffding's interval at half the level is no wider than the
        tolerances are apart, so that one of the verdicts is certain.
        """
        if self.cap is not None:
            return np.full(levels.shape, self.cap, np.int64)
        gap = self.pass_tolerance - self.fail_tolerance
        apart = checks.positive("pass_tolerance - fail_tolerance", gap)
        return hoeffding_draws(apart / 2, self.width, levels / 2)

    def begin(self, allowed: BoolArray, levels: FloatArray | None = None) -> SequentialTest:
        """A test of n states without draws.

        Args:
            allowed: [n, A], which actions are available.
            levels: [n], alpha of each state in place of the common one: a table that is kept
                spends 6 zeta / (pi^2 m^2 A) on its m-th entry (F3).
        """
        if allowed.ndim != 2 or not np.all(np.any(allowed, axis=1)):
            raise SettingError(
                f"a mask of shape {allowed.shape}",
                "each of n states must allow one of A actions",
                "Pass a mask [n, A] with a true entry in each row.",
            )
        shape = (len(allowed),)
        spent = np.broadcast_to(checks.level(self.level if levels is None else levels), shape)
        lower = np.full(allowed.shape, -np.inf)
        upper = np.where(allowed, np.inf, -np.inf)
        verdicts = np.full(shape, Verdict.OPEN, np.int64)
        none = Moments.none(allowed.shape)
        return SequentialTest(self, allowed, spent, none, lower, upper, verdicts, verdicts)

    def limits(self, moments: Moments, levels: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Lower and upper limits of each action from its draws alone: two arrays [n, A].

        Args:
            moments: [n, A], of the draws.
            levels: [n], alpha of each state.
        """
        half, caps = levels[:, None] / 2, self.caps(levels)[:, None]
        radius = anytime_radius(moments.counts, moments.spread, self.width, half)
        final = hoeffding_radius(caps, self.width, half)
        # NOTE: Hoeffding's limits are about one number of draws, which is the cap.
        radius = np.where(moments.counts == caps, np.minimum(radius, final), radius)
        radius = np.where(moments.counts > 0, radius, np.inf)
        return moments.means - radius, moments.means + radius


@dataclass(frozen=True, eq=False)
class SequentialTest:
    """The test of n states after some rounds.

    Attributes:
        rule: the settings.
        allowed: [n, A].
        levels: [n], probability that limits of an action of this state are ever wrong.
        moments: [n, A], of all draws of states that were open.
        lower: [n, A], lower limits of the actions' errors; -inf without draws.
        upper: [n, A], upper limits; -inf where an action is masked.
        verdicts: [n], values of :class:`Verdict`.
        actions: [n], the action that passes; after FAIL or CAPPED the one with the largest mean.
    """

    rule: PassRule
    allowed: BoolArray
    levels: FloatArray
    moments: Moments
    lower: FloatArray
    upper: FloatArray
    verdicts: IntArray
    actions: IntArray

    @property
    def open(self) -> BoolArray:
        """Which states are not decided yet: [n]."""
        return self.verdicts == Verdict.OPEN

    @property
    def caps(self) -> IntArray:
        """Most draws of each action: [n, 1]."""
        return self.rule.caps(self.levels)[:, None]

    def wanted(self) -> IntArray:
        """How many draws of which actions would serve best now: [n, A], 0 for none.

        First the smallest size for each allowed action; then, for the action with the largest
        mean among those that may still pass, as many as lead to its next size. (Measured: half
        the draws of a rule that follows the largest upper limit, where several actions are good.)
        """
        counts, caps = self.moments.counts, self.caps
        size = np.minimum(self.rule.grid.next_size(counts), caps)
        new = self.allowed & (counts == 0)
        alive = (self.upper >= -self.rule.fail_tolerance) & (counts < caps)
        hope = np.where(alive, self.moments.means, -np.inf)
        leads = np.zeros_like(self.allowed)
        leads[np.arange(len(leads)), hope.argmax(axis=1)] = True
        chosen = np.where(np.any(new, axis=1)[:, None], new, leads & alive)
        return np.where(chosen & self.open[:, None], size - counts, 0)

    def update(self, more: Moments) -> SequentialTest:
        """After more draws [n, A]; those of decided states are ignored, so verdicts are final."""
        if more.counts.shape != self.allowed.shape:
            raise SettingError(
                f"moments of shape {more.counts.shape}",
                f"the test has {self.allowed.shape[0]} states and {self.allowed.shape[1]} actions",
                "Pass an entry for each, with count 0 where nothing was drawn.",
            )
        moments = _where(self.open[:, None] & self.allowed, self.moments.joined(more), self.moments)
        if np.any(beyond := moments.counts > self.caps):
            raise SettingError(
                f"{int(moments.counts[beyond][0])} draws of an action",
                f"the cap is {int(self.caps[beyond.any(axis=1)][0, 0])}, and the limits at the cap "
                "hold there only",
                "Draw at most what wanted() asks for.",
            )
        lower, upper = self._narrowed(moments)
        verdicts, actions = self._decided(moments, lower, upper)
        kept = self.rule, self.allowed, self.levels
        return SequentialTest(*kept, moments, lower, upper, verdicts, actions)

    def _narrowed(self, moments: Moments) -> tuple[FloatArray, FloatArray]:
        """Limits of all rounds together; those at the cap alone where they contradict (F8)."""
        low, high = self.rule.limits(moments, self.levels)
        low, high = np.where(self.allowed, low, -np.inf), np.where(self.allowed, high, -np.inf)
        lower, upper = np.maximum(self.lower, low), np.minimum(self.upper, high)
        clash = (lower > upper) & (moments.counts == self.caps)
        return np.where(clash, low, lower), np.where(clash, high, upper)

    def _decided(
        self, moments: Moments, lower: FloatArray, upper: FloatArray
    ) -> tuple[IntArray, IntArray]:
        passing = lower >= -self.rule.pass_tolerance
        failing = upper < -self.rule.fail_tolerance
        passed, failed = np.any(passing, axis=1), np.all(failing, axis=1)
        spent = np.all(failing | (moments.counts == self.caps), axis=1)
        choices = [passed, failed, spent]
        now = np.select(choices, [Verdict.PASS, Verdict.FAIL, Verdict.CAPPED], Verdict.OPEN)
        means = np.where(self.allowed & (moments.counts > 0), moments.means, -np.inf)
        best = np.where(passed[:, None] & ~passing, -np.inf, means).argmax(axis=1)
        return now.astype(np.int64), best


def _where(chosen: BoolArray, yes: Moments, no: Moments) -> Moments:
    return Moments(
        np.where(chosen, yes.counts, no.counts),
        np.where(chosen, yes.means, no.means),
        np.where(chosen, yes.scatter, no.scatter),
    )
