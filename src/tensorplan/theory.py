"""Every constant of the TensorPlan paper, as printed and as corrected.

The constants are the worst case's: they say what is provably enough, not what a run needs.
Labels such as ``(algn2def)`` are the paper's equations, labels such as ``A7`` the errata.
Rewards lie in [0, 1] as in the paper. Counts are integers, exact up to 1000 digits and from there
rounded up to as many significant ones; real constants are decimals, whose exponents have room for
values that no float can hold.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields, replace
from decimal import Decimal
from fractions import Fraction
from typing import Final, Literal, NamedTuple, Self, get_args

from tensorplan.errors import SettingError
from tensorplan.records import LEAST, real, whole

HorizonRule = Literal["printed", "scan", "direct"]
"""How a discounted problem gets its horizon: see :func:`effective_horizon`."""

REDUCED_DELTA: Final = 0.98
"""delta' / delta in thm:misspecification and thm:discounted: the planner is run with delta'."""

_COUNT_DIGITS = 1000  # of a count; a logarithm takes ten times as long with every tripling
_GUARD_DIGITS = 30  # digits beyond the last one kept when a real number is rounded to a count
_REAL_DIGITS = 50  # significant digits of a real constant


@dataclass(frozen=True, slots=True)
class Setting:
    """What the constants depend on.

    Attributes:
        dim: d, length of the feature vectors.
        actions: A, number of actions.
        horizon: H, number of stages; None for a discounted problem.
        norm: B, largest 2-norm of a parameter that the planner competes with.
        delta: how far from the best realizable policy the plan may be.
    """

    dim: int
    actions: int
    horizon: int | None
    norm: float
    delta: float

    def __post_init__(self) -> None:
        """Refuse what the theorems do not cover."""
        for name in ("dim", "actions", "horizon"):
            if name != "horizon" or self.horizon is not None:
                count = _require_count(f"Setting.{name}", getattr(self, name), 1)
                object.__setattr__(self, name, count)
        for name in ("norm", "delta"):
            number = _require_positive(f"Setting.{name}", getattr(self, name))
            object.__setattr__(self, name, number)

    @property
    def trivial(self) -> bool:
        """Whether delta >= H, so that every policy is delta-optimal; A8."""
        return self.horizon is not None and self.delta >= self.horizon


@dataclass(frozen=True, slots=True)
class Errata:
    """Which corrections apply, one switch for each erratum that changes a constant.

    Attributes:
        zeta: A2, zeta = delta/12H, not delta/4H (which proves 1.5 delta only).
        refined_log: A1, log(2(E_d+1) n1 H A / zeta) in n3, not log(2(E_d+1) n1 H A) / zeta.
        query_count: A11, refined data are drawn once per iteration, not n1 times.
        threshold: A7, an option: Sol's threshold written as (H+x)^(A-1) x; saves about H^2 in n3
            and holds for every H. Always used at H = 1, where the printed constants prove
            nothing: the paper's remark changes epsilon alone, and theta° may then be lost.
        horizon: A12, the horizon of a discounted problem (see :func:`effective_horizon`).
    """

    zeta: bool = True
    refined_log: bool = True
    query_count: bool = True
    threshold: bool = False
    horizon: HorizonRule = "scan"

    def __post_init__(self) -> None:
        """Refuse an unknown horizon rule."""
        if self.horizon not in get_args(HorizonRule):
            rules = ", ".join(map(repr, get_args(HorizonRule)))
            raise SettingError(
                f"Errata.horizon={self.horizon!r}", f"it must be one of {rules}", "Use 'scan'."
            )

    @classmethod
    def printed(cls) -> Self:
        """The paper as printed."""
        return cls(zeta=False, refined_log=False, query_count=False, horizon="printed")

    @classmethod
    def corrected(cls) -> Self:
        """What must be corrected (A1, A2, A11, A12 by scan), without the option A7."""
        return cls()


CORRECTED: Final = Errata.corrected()


@dataclass(frozen=True, slots=True)
class PaperConstants:
    """The constants of a run; their equations stand at the functions that compute them.

    Attributes:
        setting: what they are for; its delta is the one that the planner is run with.
        errata: the corrections that they contain.
        zeta: failure probability of each of the three events of the proof.
        epsilon: scale of Sol; what is measured must be within epsilon/(2 sqrt E_d).
        eluder_bound: E_d, the largest number of failed tests.
        rollouts: n1, rollouts of an iteration.
        test_draws: n2, draws per action in a consistency test.
        refine_draws: n3, draws per action in the data kept after a failed test.
        sol_threshold: largest |<Delta_i, (1,theta)^(tensor A)>| that Sol allows; eq. (sol).
        query_bound: most queries in an episode.
        accuracy: lambda, the simulator's error that the theorem allows.
        misspecification: eta, the features' error that the theorem allows.
        tolerance: delta/(4H), the temporal difference that a test lets pass.
    """

    setting: Setting
    errata: Errata
    zeta: Decimal
    epsilon: Decimal
    eluder_bound: int
    rollouts: int
    test_draws: int
    refine_draws: int
    sol_threshold: Decimal
    query_bound: int
    accuracy: Decimal
    misspecification: Decimal
    tolerance: Decimal


class BoundRow(NamedTuple):
    """A constant as printed and as corrected; None where the paper has no such constant."""

    name: str
    printed: int | Decimal | None
    corrected: int | Decimal


def paper_constants(
    setting: Setting, errata: Errata = CORRECTED, *, safe_start: bool = False
) -> PaperConstants:
    """Constants of thm:main: lambda <= epsilon/(4 sqrt E_d) and eta = 0.

    epsilon and E_d depend on each other (A14). The smallest consistent E_d is used, or, with
    ``safe_start``, epsilon_0 = 2/3 (delta/12H^2)^A and E_d(epsilon_0), slightly larger.
    """
    return _collect(_formulas(setting, errata, safe_start), accuracy=4, misspecification=None)


def misspecified_constants(
    setting: Setting, errata: Errata = CORRECTED, *, safe_start: bool = False
) -> PaperConstants:
    """Constants of thm:misspecification, for a planner run with delta' = .98 delta.

    lambda <= epsilon/(12 sqrt E_d) and eta <= epsilon/(12 sqrt E_d).
    """
    formulas = _formulas(setting, errata, safe_start, REDUCED_DELTA)
    return _collect(formulas, accuracy=12, misspecification=12)


def discounted_constants(
    setting: Setting, discount: float, errata: Errata = CORRECTED, *, safe_start: bool = False
) -> PaperConstants:
    """Constants of thm:discounted, for a planner run with delta' = .98 delta.

    lambda <= epsilon/(12 sqrt E_d) and eta <= epsilon/(24 sqrt E_d), at the effective horizon;
    the setting's own horizon is ignored.
    """
    if errata.horizon == "direct":
        raise SettingError(
            "Errata.horizon='direct'",
            "the direct horizon belongs to a planner that does not cut the process, so the "
            "paper's constants prove nothing there",
            "Use horizon='scan' here, and effective_horizon for the direct horizon.",
        )
    horizon = effective_horizon(setting, discount, errata, safe_start=safe_start)
    staged = replace(setting, horizon=horizon)
    formulas = _formulas(staged, errata, safe_start, REDUCED_DELTA)
    return _collect(formulas, accuracy=12, misspecification=24)


def effective_horizon(
    setting: Setting, discount: float, errata: Errata = CORRECTED, *, safe_start: bool = False
) -> int:
    """Effective horizon H_{gamma,delta} of a discounted problem: proof of thm:discounted; A12.

    The setting's own horizon is ignored. With eta(H) = epsilon(H)/(24 sqrt E_d(H)) at .98 delta:

    * ``"scan"``: smallest H > delta with gamma^H/(1-gamma) <= eta(H);
    * ``"printed"``: ceil(ln((1-gamma) eta)/ln(gamma)/(1-gamma)), circular as printed, hence at
      the eta of the scan; its last division is spurious;
    * ``"direct"``: :func:`direct_horizon`, for a planner that does not cut the process.
    """
    gamma = _require_discount(discount)
    if Fraction(_decimal(setting.delta)) * (1 - Fraction(gamma)) >= 1:
        raise SettingError(
            f"delta={setting.delta!r} at discount {discount!r}",
            "delta must be below 1/(1-discount), every policy is delta-optimal otherwise (A27)",
            "Play any policy, or ask for a smaller delta.",
        )
    if errata.horizon == "direct":
        return direct_horizon(setting.norm, setting.delta, discount)
    if gamma == 0:
        return 1

    def formulas(horizon: int) -> _Formulas:
        return _formulas(replace(setting, horizon=horizon), errata, safe_start, REDUCED_DELTA)

    # NOTE: truncation(H) increases with H, so no H below the next jump can do: the jumps find
    # in a few steps what a scan of all H would find.
    horizon, jump = 0, math.floor(setting.delta) + 1
    while jump > horizon:
        horizon, at = jump, formulas(jump)
        jump = _ceil(lambda at=at: at.truncation(gamma))
    if errata.horizon == "scan":
        return horizon
    return max(1, _ceil(lambda: formulas(horizon).truncation(gamma) / (1 - gamma)))


def direct_horizon(
    norm: float, delta: float, discount: float, *, lowest_reward: float = 0.0
) -> int:
    """H_gamma = max(1, ceil(ln(16 B'/delta)/ln(1/gamma))), A12; 1 at discount 0.

    B' = B + max(-lowest_reward, 0)/(1-gamma), which is B for the paper's rewards in [0, 1].
    """
    _require_positive("norm", norm)
    _require_positive("delta", delta)
    gamma = _require_discount(discount)
    if gamma == 0:
        return 1

    def stages() -> Decimal:
        reach = _decimal(norm) + max(-_decimal(lowest_reward), Decimal(0)) / (1 - gamma)
        # NOTE: the ratio can be a whole number, which rounding must not push to the next one.
        return -(16 * reach / _decimal(delta)).ln() / gamma.ln() - Decimal("1e-20")

    return max(1, _ceil(stages))


def lower_bound(dim: int, queries: int, *, corrected: bool = True) -> Fraction:
    """Suboptimality that thm:lb forces on a planner with this many queries per state, A26.

    Printed: 2^(d-2)/(d(b+1)) - 1. Proved: (floor(2^(d-2)/(b+1))/(d-1) - 1)/2. The problem has
    2d-1 actions and is not discounted; a bound <= 0 says nothing.
    """
    dim, queries = _require_count("dim", dim, 2), _require_count("queries", queries, 0)
    states = 2 ** (dim - 2)
    if not corrected:
        return Fraction(states, dim * (queries + 1)) - 1
    return (Fraction(states // (queries + 1), dim - 1) - 1) / 2


def symmetric_dimension(dim: int, actions: int) -> int:
    """Dimension p = C(d+A, A) of the symmetric tensors, in place of (d+1)^A; B1."""
    dim, actions = _require_count("dim", dim, 1), _require_count("actions", actions, 1)
    return math.comb(dim + actions, actions)


def failure_bound(dim: int, actions: int, *, realizable: bool = True) -> int:
    """Most failed tests without noise: p-1 if some policy is realizable, p otherwise; B1."""
    return symmetric_dimension(dim, actions) - realizable


@dataclass(frozen=True)
class AdaptiveConstants:
    """Constants of Theorem C, the worst-case mode of the adaptive planner (theory C, F10.8).

    Rewards in [0, 1], lambda = eta = 0.

    Attributes:
        pass_tolerance: kappa_p = 3 delta/4H.
        fail_tolerance: kappa_f = 3 delta/8H.
        refined_tolerance: kappa_1 = delta/3H.
        zeta: delta/8H; zeta_1 is half of it, zeta_2 and zeta_3 a quarter each.
        dimension: p = C(d+A, A).
        margin: x = kappa_1^A / (3 sqrt p).
        failures: N = floor(p ln((5 (1+B^2))^(A/2) / x) / ln(3/sqrt e)), B1'.
        rollouts: n_1 = ceil(16 B/delta ln((N+1)/zeta_3)).
        level: alpha = min(zeta_2/(2 (N+1) n_1 H A), delta/(16 B H A)).
        test_draws: n_2 = ceil(128 H^2 (1+2B)^2 / (9 delta^2) ln(4/alpha)), the cap of a test.
        refine_draws: n_3 at stages 1 to H, the larger of H_h^2/(2 r_h^2) ln(2N/zeta_1) with
            r_h = x/H_h^(A-1), and 288 H^2 (1+2B)^2/delta^2 ln(4NA/zeta_2).
        query_bound: (N+1) n_1 H (A n_2 + 1) + N A n_3 + H A n_2.
    """

    pass_tolerance: Decimal
    fail_tolerance: Decimal
    refined_tolerance: Decimal
    zeta: Decimal
    dimension: int
    margin: Decimal
    failures: int
    rollouts: int
    level: Decimal
    test_draws: int
    refine_draws: tuple[int, ...]
    query_bound: int


def adaptive_constants(setting: Setting) -> AdaptiveConstants:
    """Constants of Theorem C, for 0 < delta < H."""
    stages = setting.horizon
    if stages is None or setting.delta >= stages:
        raise SettingError(
            f"delta={setting.delta!r} with horizon={stages!r}",
            "Theorem C is for a horizon H and delta below H",
            "Give a horizon and a smaller delta.",
        )
    actions, p = setting.actions, symmetric_dimension(setting.dim, setting.actions)
    with _precision(_REAL_DIGITS):
        norm, delta = _decimal(setting.norm), _decimal(setting.delta)
        step, tested = delta / stages, stages * actions
        margin = (step / 3) ** actions / (3 * Decimal(p).sqrt())
        zeta, power = step / 8, actions * (5 * (1 + norm**2)).ln() / 2
        failures = math.floor(p * (power - margin.ln()) / (Decimal(3).ln() - Decimal("0.5")))
        rollouts = math.ceil(16 * norm / delta * (4 * (failures + 1) / zeta).ln())
        level = min(zeta / (8 * (failures + 1) * rollouts * tested), delta / (16 * norm * tested))
        noise = ((1 + 2 * norm) / step) ** 2
        tests = math.ceil(128 * noise / 9 * (4 / level).ln())
        seen = 288 * noise * (16 * failures * actions / zeta).ln()
        kept = (4 * failures / zeta).ln() / 2
        refined = tuple(
            math.ceil(max((Decimal(left) ** actions / margin) ** 2 * kept, seen))
            for left in range(stages, 0, -1)
        )
    whole_test = tested * tests
    return AdaptiveConstants(
        pass_tolerance=3 * step / 4,
        fail_tolerance=3 * step / 8,
        refined_tolerance=step / 3,
        zeta=zeta,
        dimension=p,
        margin=margin,
        failures=failures,
        rollouts=rollouts,
        level=level,
        test_draws=tests,
        refine_draws=refined,
        query_bound=(failures + 1) * rollouts * (whole_test + stages)
        + failures * actions * refined[0]
        + whole_test,
    )


def bounds_table(setting: Setting, discount: float | None = None) -> list[BoundRow]:
    """Every constant as printed and as corrected, with the horizons if there is a discount."""
    printed, corrected = Errata.printed(), Errata.corrected()
    if discount is None:
        rows: list[BoundRow] = []
        pair = paper_constants(setting, printed), paper_constants(setting, corrected)
    else:
        horizons = [effective_horizon(setting, discount, e) for e in (printed, corrected)]
        direct = direct_horizon(setting.norm, setting.delta, discount)
        rows = [BoundRow("horizon", *horizons), BoundRow("direct_horizon", None, direct)]
        pair = tuple(discounted_constants(setting, discount, e) for e in (printed, corrected))
    names = [field.name for field in fields(PaperConstants)]
    numbers = [name for name in names if name not in ("setting", "errata")]
    return rows + [BoundRow(name, *(getattr(side, name) for side in pair)) for name in numbers]


def scientific(value: float | Decimal | Fraction, digits: int = 3) -> str:
    """Write a number of any size with a few significant digits: 1080 is ``"1.08e3"``.

    Unlike ``str``, which refuses integers of more than 4300 digits.
    """
    if value == 0:
        return "0"
    with _precision(_REAL_DIGITS):
        if isinstance(value, Fraction):
            value = Decimal(value.numerator) / value.denominator
        return f"{Decimal(value):.{digits - 1}e}".replace("e+", "e")


@dataclass(frozen=True, slots=True)
class _Formulas:
    """The paper's formulas, evaluated at the precision of the decimal context.

    Sol's threshold t, the eluder scale s and the measured half-width x = epsilon/(2 sqrt E_d)
    hang together: t = s/(2 sqrt E_d), s (1 + 1/(2 sqrt E_d)) <= (delta/12H)^A, and t is H^A x
    as printed or (H+x)^(A-1) x with A7. So A7 moves x, and neither t nor E_d.
    """

    setting: Setting
    horizon: int
    errata: Errata
    safe_start: bool

    @property
    def delta(self) -> Decimal:
        return _decimal(self.setting.delta)

    def zeta(self) -> Decimal:
        """zeta = delta/4H, corrected delta/12H: paper eq. (algzetadef); A2."""
        return self.delta / ((12 if self.errata.zeta else 4) * self.horizon)

    def scale(self, eluder: int) -> Decimal:
        """s = H^A epsilon = (delta/12H)^A / (1 + 1/(2 sqrt E_d)): paper eq. (algepsdef); A14."""
        slack = Decimal(1) if self.safe_start else Decimal(eluder).sqrt()
        return (self.delta / (12 * self.horizon)) ** self.setting.actions / (1 + 1 / (2 * slack))

    def eluder(self, candidate: int) -> int:
        """E_d at the epsilon of a candidate E_d: paper eq. (eddef); A13.

        floor(3 (d+1)^A e/(e-1) ln{3 + 3 (2 (B+1)^A 3^A/s)^2} + 1)
        """
        actions, norm = self.setting.actions, _decimal(self.setting.norm)
        tensor = (self.setting.dim + 1) ** actions

        def limit() -> Decimal:
            widest = 2 * (3 * (norm + 1)) ** actions / self.scale(candidate)
            rate = 1 / (1 - Decimal(-1).exp())
            return 3 * tensor * rate * (3 + 3 * widest**2).ln() + 1

        return _whole(limit, decimal.ROUND_FLOOR)

    def eluder_bound(self) -> int:
        """Smallest E with E >= E_d(epsilon(E)); A14."""
        return _least_safe(self.eluder, self.eluder(1))

    def threshold(self, eluder: int) -> Decimal:
        """t = H^A epsilon/(2 sqrt E_d), with A7 (H+x)^(A-1) x: paper eq. (sol); A7."""
        return self.scale(eluder) / (2 * Decimal(eluder).sqrt())

    def half_width(self, eluder: int) -> Decimal:
        """x = epsilon/(2 sqrt E_d), half-width at theta°: paper lem:theta-star-in-sol; A7."""
        actions, horizon, target = self.setting.actions, self.horizon, self.threshold(eluder)
        if not self.errata.threshold:
            return target / horizon**actions
        x = target / horizon ** (actions - 1)  # above the root, so that Newton falls towards it
        for _ in range(decimal.getcontext().prec.bit_length()):
            power = (horizon + x) ** (actions - 2)
            x -= ((horizon + x) * power * x - target) / (power * (horizon + actions * x))
        return x

    def truncation(self, gamma: Decimal) -> Decimal:
        """Stages after which gamma^H/(1-gamma) <= epsilon/(24 sqrt E_d); A12."""
        eta = self.half_width(self.eluder_bound()) / 12
        return ((1 - gamma) * eta).ln() / gamma.ln()

    def rollouts(self, eluder: int) -> int:
        """n1 = ceil(32 H^2 (1+2B)^2/delta^2 ln((E_d+1)/zeta)): paper eq. (algn1def)."""

        def draws() -> Decimal:
            reach = self.horizon * (1 + 2 * _decimal(self.setting.norm)) / self.delta
            return 32 * reach**2 * ((eluder + 1) / self.zeta()).ln()

        return _ceil(draws)

    def test_draws(self, eluder: int, rollouts: int) -> int:
        """n2: paper eq. (algn2def); A9.

        ceil(1867 H^2 (B+1)^2 (d+1)/(2 delta^2) ln(4 (E_d+1) n1 H A (d+1)/zeta))
        """
        width = self.setting.dim + 1
        events = 4 * (eluder + 1) * rollouts * self.horizon * self.setting.actions * width

        def draws() -> Decimal:
            reach = self.horizon * (_decimal(self.setting.norm) + 1) / self.delta
            return 1867 * width * reach**2 / 2 * (events / self.zeta()).ln()

        return _ceil(draws)

    def refine_draws(self, eluder: int, rollouts: int, test_draws: int) -> int:
        """n3, printed with log(2 (E_d+1) n1 H A)/zeta: paper eq. (algn3def); A1.

        ceil(max{n2, 32 (H+1)^2 E_d/epsilon^2 ln(2 (E_d+1) n1 H A/zeta)})
        """
        events = 2 * (eluder + 1) * rollouts * self.horizon * self.setting.actions

        def draws() -> Decimal:
            zeta = self.zeta()
            log = (events / zeta).ln() if self.errata.refined_log else Decimal(events).ln() / zeta
            return 8 * ((self.horizon + 1) / self.half_width(eluder)) ** 2 * log

        return max(test_draws, _ceil(draws))

    def queries(self, eluder: int, rollouts: int, test_draws: int, refine_draws: int) -> int:
        """H n2 A + (E_d+2) [n1 H (A n2 + 1) + A n3], printed with n1 A n3: thm:main; A11."""
        horizon, actions = self.horizon, self.setting.actions
        refinements = 1 if self.errata.query_count else rollouts
        tests = rollouts * horizon * (actions * test_draws + 1)
        iteration = tests + refinements * actions * refine_draws
        return horizon * test_draws * actions + (eluder + 2) * iteration


def _formulas(
    setting: Setting, errata: Errata, safe_start: bool, delta_share: float = 1.0
) -> _Formulas:
    if setting.horizon is None:
        raise SettingError(
            "Setting.horizon=None",
            "these constants are for a finite horizon",
            "Pass a horizon, or call discounted_constants with the discount.",
        )
    if setting.trivial:
        raise SettingError(
            f"Setting.delta={setting.delta!r} with horizon {setting.horizon}",
            "delta must be below the horizon, every policy is delta-optimal otherwise (A8)",
            "Play any policy, or ask for a smaller delta.",
        )
    run = replace(setting, delta=delta_share * setting.delta)
    used = replace(errata, threshold=errata.threshold or setting.horizon == 1)
    return _Formulas(run, setting.horizon, used, safe_start)


def _collect(f: _Formulas, accuracy: int, misspecification: int | None) -> PaperConstants:
    """Evaluate everything; the theorem's allowances are epsilon/(k sqrt E_d), given by k."""
    eluder = f.eluder_bound()
    rollouts = f.rollouts(eluder)
    test_draws = f.test_draws(eluder, rollouts)
    refine_draws = f.refine_draws(eluder, rollouts, test_draws)
    with _precision(_REAL_DIGITS):
        unit = 2 * f.half_width(eluder)  # epsilon / sqrt(E_d)
        return PaperConstants(
            setting=f.setting,
            errata=f.errata,
            zeta=f.zeta(),
            epsilon=unit * Decimal(eluder).sqrt(),
            eluder_bound=eluder,
            rollouts=rollouts,
            test_draws=test_draws,
            refine_draws=refine_draws,
            sol_threshold=f.threshold(eluder),
            query_bound=f.queries(eluder, rollouts, test_draws, refine_draws),
            accuracy=unit / accuracy,
            misspecification=unit / misspecification if misspecification else Decimal(0),
            tolerance=f.delta / (4 * f.horizon),
        )


def _least_safe(bound: Callable[[int], int], high: int) -> int:
    """Smallest E with E >= bound(E), for a bound that does not increase and a safe ``high``.

    NOTE: the safe numbers are all those from the answer on. So bound(E) <= answer if E is safe
    and bound(E) >= answer if not, which leaves next to nothing to bisect: E_d hardly depends on
    epsilon. Bisection alone would take a step for each binary digit of (d+1)^A.
    """
    low = bound(high)
    high = max(low, bound(low))
    low = bound(high)
    while low < high:
        middle = (low + high) // 2
        if middle >= bound(middle):
            high = middle
        else:
            low = middle + 1
    return high


def _require_count(name: str, value: object, least: int) -> int:
    count = whole(value, least)
    if count is None:
        raise SettingError(
            f"{name}={value!r}",
            f"it must be an int of at least {least}",
            f"Pass int(...) of a whole number >= {least}.",
        )
    return count


def _require_positive(name: str, value: object) -> float:
    number = real(value, LEAST)
    if number is None:
        raise SettingError(
            f"{name}={value!r}",
            "it must be a positive, finite number",
            "Pass a float above 0, for example 1.0.",
        )
    return number


def _require_discount(discount: float) -> Decimal:
    if real(discount, 0, 1) in (None, 1.0):
        raise SettingError(
            f"discount={discount!r}",
            "it must be in [0, 1)",
            "Pass a discount below 1, or a Setting with a horizon and no discount.",
        )
    return _decimal(discount)


def _decimal(value: float) -> Decimal:
    """The number as it is written: .1 is one tenth."""
    return Decimal(value) if isinstance(value, int) else Decimal(str(float(value)))


def _precision(digits: int) -> AbstractContextManager[decimal.Context]:
    rounding, low, high = decimal.ROUND_HALF_EVEN, decimal.MIN_EMIN, decimal.MAX_EMAX
    return decimal.localcontext(decimal.Context(digits, rounding, Emin=low, Emax=high))


def _ceil(value: Callable[[], Decimal]) -> int:
    return _whole(value, decimal.ROUND_CEILING)


def _whole(value: Callable[[], Decimal], rounding: str) -> int:
    """Round to an integer, at the precision that the size of the value asks for.

    A count of more than _COUNT_DIGITS digits is rounded up: it remains enough, and a bound.
    """
    with _precision(_GUARD_DIGITS):
        digits = max(value().adjusted(), 0)
    dropped = max(digits - _COUNT_DIGITS, 0)
    with _precision(digits - dropped + _GUARD_DIGITS):
        kept = value().scaleb(-dropped)
        kept = kept.to_integral_value(decimal.ROUND_CEILING if dropped else rounding)
        return int(kept) * 10**dropped
