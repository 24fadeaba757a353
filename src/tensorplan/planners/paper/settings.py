"""What a run of the paper's planner is asked to do, and what follows from that.

:class:`PaperSettings` is the request, :class:`Resolved` the request with every number filled in
from the theorem. Rewards in [lo, hi] are used as they are: with w the width of what a stage can
bring (F10), the constants are those of the paper at (B/w, delta/w), and Sol's threshold is
multiplied by w^A.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from decimal import Decimal
from typing import Any, Literal, TypeVar, cast, get_args

from tensorplan.errors import SettingError
from tensorplan.hypotheses import rounding_slack
from tensorplan.planners.names import check_names
from tensorplan.records import LEAST, Spec, real, settle, whole
from tensorplan.theory import (
    CORRECTED,
    Errata,
    PaperConstants,
    Setting,
    misspecified_constants,
    paper_constants,
)

T = TypeVar("T")
Rule = Literal["consistent", "best"]
"""Which action a test asks about: any consistent one (the paper), or the best one (its Remark)."""

EXACT_TOLERANCE = 1e-8
"""Temporal difference, in units of 1 + B, that counts as zero when exact data are asked for."""


@dataclass(frozen=True)
class Sizes:
    """Sample sizes.

    Attributes:
        rollouts: n1, rollouts in an iteration.
        test_draws: n2, draws per action in a test.
        refine_draws: n3, draws per action in the data kept after a failed test.
    """

    rollouts: int
    test_draws: int
    refine_draws: int

    def __post_init__(self) -> None:
        """Refuse sizes that are not counts."""
        for name in ("rollouts", "test_draws", "refine_draws"):
            settle(self, name, whole(getattr(self, name), 1), "a whole number of 1 or more")


ONE_EACH = Sizes(1, 1, 1)


def _instance(value: object, kind: type[T]) -> T | None:
    return value if isinstance(value, kind) else None


@dataclass(frozen=True)
class PaperSettings:
    """What to run.

    Attributes:
        delta: how far below the best realizable policy the plan may be.
        norm: B; by default the simulator's own bound.
        errata: which corrections of the paper's constants apply.
        sizes: sample sizes; by default the theorem's, or one draw each if the simulator is
            deterministic (B5 iv). Sizes given here are covered by no theorem.
        exact: zero thresholds: a test passes only an error of zero, Sol allows only zero (up to
            rounding). For deterministic simulators, and oracles that prove their answers.
        rule: the paper's test, or its Remark's.
        early_exit: whether an iteration stops at its first failed test (A20) or keeps rolling
            out, as printed.
        return_test: also ask that the mean return of the rollouts match the prediction within
            delta / 4, the paper's "(seemingly) stronger test". Its failure brings no data, so the
            same parameter is then rolled out again.
        safe_start: use the safe start of A14 in place of the fixed point.
        iteration_limit: stop earlier than the theorem's E_d + 2 iterations.
        record: keep every measurement, for the referee.
    """

    delta: float
    norm: float | None = None
    errata: Errata = CORRECTED
    sizes: Sizes | None = None
    exact: bool = False
    rule: Rule = "consistent"
    early_exit: bool = True
    return_test: bool = False
    safe_start: bool = False
    iteration_limit: int | None = None
    record: bool = False

    def __post_init__(self) -> None:
        """Refuse settings that mean nothing."""
        settle(self, "delta", real(self.delta, LEAST), "a number, positive and finite")
        settle(self, "norm", real(self.norm, LEAST), "a number, positive and finite", optional=True)
        settle(
            self, "errata", _instance(self.errata, Errata), "'corrected', 'printed' or an Errata"
        )
        settle(self, "sizes", _instance(self.sizes, Sizes), "three counts", optional=True)
        rule = next((known for known in get_args(Rule) if known == self.rule), None)
        settle(self, "rule", rule, "'consistent' or 'best'")
        limit = whole(self.iteration_limit, 1)
        settle(self, "iteration_limit", limit, "a whole number of 1 or more", optional=True)


@dataclass(frozen=True)
class Resolved:
    """The same with every number filled in.

    Attributes:
        settings: the request.
        norm: B.
        horizon: H.
        sizes: n1, n2, n3 in use.
        tolerance: largest discrepancy that a test lets pass.
        root: rho = kappa^(1/A) of Sol.
        slab_width: half-width of the slabs of its relaxation; None for rho.
        iterations: most iterations.
        constants: the theorem's constants, at B / w and delta / w.
        width: w.
    """

    settings: PaperSettings
    norm: float
    horizon: int
    sizes: Sizes
    tolerance: float
    root: float
    slab_width: float | None
    iterations: int
    constants: PaperConstants
    width: float

    @property
    def delta(self) -> float:
        """delta that the theorem is run with: .98 of the target under misspecification."""
        return float(self.constants.setting.delta) * self.width

    @property
    def threshold(self) -> float:
        """kappa of Sol at a state where all actions are available."""
        return self.root**self.constants.setting.actions

    @property
    def test_noise(self) -> float:
        """Largest standard deviation of a test's mean temporal difference (range w + 2B)."""
        return (self.width + 2 * self.norm) / (2 * math.sqrt(self.sizes.test_draws))

    @property
    def rounding(self) -> float:
        """eta that finite precision always needs where Sol has no width (F5)."""
        return rounding_slack(self.norm) if self.settings.exact else 0.0


def resolve(settings: PaperSettings, spec: Spec) -> Resolved:
    """Fill in every number that the request leaves open."""
    horizon = _finite_horizon(spec)
    norm = settings.norm if settings.norm is not None else spec.bound
    if norm is None:
        raise SettingError(
            "norm=None",
            "the paper's planner needs the bound B on the parameters it competes with",
            "Pass norm=..., or give the simulator's Spec a bound.",
        )
    width = spec.reward_width or 1.0
    if settings.delta >= horizon * width:
        raise SettingError(
            f"delta={settings.delta} with values of width {horizon * width:g}",
            "delta must be below the width of the values, any policy is delta-optimal otherwise",
            "Ask for a smaller delta.",
        )
    limit = settings.iteration_limit
    setting = Setting(spec.dim, spec.actions, horizon, norm / width, settings.delta / width)
    reduce = misspecified_constants if spec.misspecification > 0 else paper_constants
    constants = reduce(setting, settings.errata, safe_start=settings.safe_start)
    delta = float(constants.setting.delta) * width
    root, slab_width = _sol(settings, spec, constants, width)
    least = 24 * horizon * rounding_slack(norm)
    if not settings.exact and delta < least:
        raise SettingError(
            f"delta={settings.delta}",
            f"a failed test shows an error of delta/12H, which must stand out from the rounding of "
            f"floats ({rounding_slack(norm):.2g} at the bound {norm:g})",
            f"Ask for a delta of {least:.2g} or more, or for exact=True.",
        )
    most = constants.eluder_bound + 2
    return Resolved(
        settings=settings,
        norm=norm,
        horizon=horizon,
        sizes=_sizes(settings, spec, constants),
        tolerance=EXACT_TOLERANCE * (1 + norm) if settings.exact else delta / (4 * horizon),
        root=root,
        slab_width=slab_width,
        iterations=most if limit is None else min(limit, most),
        constants=constants,
        width=width,
    )


def _sol(
    settings: PaperSettings, spec: Spec, constants: PaperConstants, width: float
) -> tuple[float, float | None]:
    """Root rho = kappa^(1/A) of Sol, and half-width of its slabs if it is not rho.

    With sizes given by hand the theorem's threshold would cut off every parameter, so Sol is as
    wide as the data are noisy: x bounds the error of n3 draws at a realizable parameter
    (Hoeffding with the union of Lemma thetastar, A10), the slabs have half-width x + lambda (B2),
    and the threshold is (H+x)^(A-1) x (A7), rewards scaled to width 1.
    """
    if settings.exact:
        return 0.0, None
    if settings.sizes is None or spec.deterministic:
        # NOTE: the power is taken in decimals, as kappa can be below any float.
        return width * float(constants.sol_threshold ** (1 / Decimal(spec.actions))), None
    horizon = constants.setting.horizon or 1
    rollouts, draws = settings.sizes.rollouts, settings.sizes.refine_draws
    events = 2 * (constants.eluder_bound + 1) * rollouts * horizon * spec.actions
    log = math.log(events) - math.log(float(constants.zeta))
    bias = (spec.inaccuracy + 2 * spec.misspecification) / width
    x = horizon * math.sqrt(log / (2 * draws)) + bias
    factors = (spec.actions - 1) * math.log(horizon + x) + math.log(x)
    return width * math.exp(factors / spec.actions), width * x


def _sizes(settings: PaperSettings, spec: Spec, constants: PaperConstants) -> Sizes:
    if settings.sizes is not None:
        return settings.sizes
    if spec.deterministic:
        return ONE_EACH
    if settings.exact:
        raise SettingError(
            "exact=True",
            "zero thresholds need exact measurements, so a deterministic simulator",
            "Leave exact out, or declare deterministic=True in the Spec if that is what it is.",
        )
    return Sizes(constants.rollouts, constants.test_draws, constants.refine_draws)


def _finite_horizon(spec: Spec) -> int:
    if spec.horizon is None:
        how = (
            "Wrap the simulator in tensorplan.adapters.Truncated, the reduction of the paper."
            if spec.discounted
            else "Give the process a horizon: total reward without end needs exponentially many "
            "queries (Theorem lb)."
        )
        raise SettingError("horizon=None", "the paper's planner works at a finite horizon", how)
    if spec.discount != 1:
        raise SettingError(
            f"discount={spec.discount} with horizon={spec.horizon}",
            "the paper's planner sums rewards without a discount at a finite horizon",
            "Scale the rewards and features of stage h by discount^(h-1), or leave out one of "
            "the two.",
        )
    return spec.horizon


def paper_settings(delta: float, **settings: Any) -> PaperSettings:
    """Settings by name, with short forms: sizes as three counts, errata as a word.

    An unknown name is refused with the nearest ones.
    """
    check_names(settings, PaperSettings, "the paper's planner")
    sizes, errata = settings.get("sizes"), settings.get("errata")
    if isinstance(sizes, tuple | list):
        settings["sizes"] = _three_sizes(tuple(cast("Sequence[int]", sizes)))
    if isinstance(errata, str):
        if errata not in _EDITIONS:
            raise SettingError(
                f"errata={errata!r}", "it must be 'corrected' or 'printed'", "Use 'corrected'."
            )
        settings["errata"] = _EDITIONS[errata]
    return PaperSettings(delta=delta, **settings)


_EDITIONS = {"corrected": CORRECTED, "printed": Errata.printed()}


def _three_sizes(sizes: tuple[int, ...]) -> Sizes:
    if len(sizes) != len(fields(Sizes)):
        raise SettingError(
            f"sizes={sizes!r}",
            "there are three: rollouts, draws of a test, draws of refined data",
            "Pass sizes=(n1, n2, n3).",
        )
    return Sizes(*sizes)
