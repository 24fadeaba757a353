"""The paper's constants: published tables, the formulas again in floats, what the proof needs."""

from __future__ import annotations

import json
import math
import time
from dataclasses import replace
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import hypothesis
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tensorplan.errors import SettingError
from tensorplan.theory import (
    CORRECTED,
    Errata,
    HorizonRule,
    PaperConstants,
    Setting,
    bounds_table,
    direct_horizon,
    discounted_constants,
    effective_horizon,
    failure_bound,
    lower_bound,
    misspecified_constants,
    paper_constants,
    scientific,
    symmetric_dimension,
)

no_deadline = hypothesis.settings(deadline=None)  # a busy machine is no failure

PRINTED = Errata.printed()
SMALL = Setting(2, 2, 2, 1.0, 0.5)
HUGE = Setting(100, 60, 1000, 1.0, 0.5)
DISCOUNTED = Setting(2, 2, None, 1.0, 0.5)

# E_d, n1, n2, n3, queries; then n3 with A1 as printed, queries with A11 as printed.
TABLE = {
    (2, 2, 2, 1, 0.5): "1.08e3 5.0e4 4.58e6 6.4e14 1.4e18 2.6e16 6.9e22",
    (2, 2, 5, 1, 0.5): "1.23e3 3.4e5 3.30e7 5.2e18 1.3e22 5.2e20 4.4e27",
    (4, 2, 10, 2, 1): "3.61e3 1.0e6 1.38e8 9.0e20 6.5e24 9.1e22 6.8e30",
    (5, 3, 5, 1, 0.5): "4.30e4 4.5e5 7.70e7 7.4e25 9.6e30 7.6e27 4.3e36",
    (10, 2, 20, 5, 2): "1.91e4 5.7e6 1.39e9 3.1e23 1.2e28 3.2e25 6.7e34",
}

errata_choices = st.builds(Errata, st.booleans(), st.booleans(), st.booleans(), st.booleans())


@st.composite
def settings(draw: st.DrawFn, least_horizon: int = 1) -> Setting:
    horizon = draw(st.integers(least_horizon, 30))
    return Setting(
        dim=draw(st.integers(1, 8)),
        actions=draw(st.integers(1, 4)),
        horizon=horizon,
        norm=draw(st.floats(0.1, 50)),
        delta=horizon * draw(st.floats(0.001, 0.99)),
    )


def stages(setting: Setting) -> int:
    assert setting.horizon is not None
    return setting.horizon


def eluder_dimension(setting: Setting, scale: float) -> float:
    """The paper's eq. (eddef) in floats, before rounding down."""
    widest = 2 * (setting.norm + 1) ** setting.actions * 3**setting.actions / scale
    rate = math.e / (math.e - 1)
    return 3 * (setting.dim + 1) ** setting.actions * rate * math.log(3 + 3 * widest**2) + 1


def scale_at(setting: Setting, eluder: int) -> float:
    """H^A epsilon, the scale at which E_d is taken."""
    epsilon = (setting.delta / (12 * stages(setting) ** 2)) ** setting.actions
    return stages(setting) ** setting.actions * epsilon / (1 + 1 / (2 * math.sqrt(eluder)))


def half_width(c: PaperConstants) -> Decimal:
    return c.epsilon / (2 * Decimal(c.eluder_bound).sqrt())


# --- published values -----------------------------------------------------------------------


@pytest.mark.parametrize(("key", "row"), TABLE.items())
def test_published_table(key: tuple[int, int, int, float, float], row: str) -> None:
    setting = Setting(*key)
    c = paper_constants(setting)
    found = (
        *(c.eluder_bound, c.rollouts, c.test_draws, c.refine_draws, c.query_bound),
        paper_constants(setting, replace(CORRECTED, refined_log=False)).refine_draws,
        paper_constants(setting, replace(CORRECTED, query_count=False)).query_bound,
    )
    for value, text in zip(found, row.split(), strict=True):
        published = Decimal(text)
        last_digit = Decimal(1).scaleb(int(published.as_tuple().exponent))
        assert abs(value - published) <= max(published / 50, last_digit / 2), (value, text)


@pytest.mark.parametrize(
    ("setting", "discount", "expected"),
    [
        (DISCOUNTED, 0.9, {"printed": 3738, "scan": 374, "direct": 33}),
        (Setting(4, 2, None, 2.0, 5.0), 0.99, {"printed": 475410, "scan": 4755, "direct": 185}),
        (DISCOUNTED, 0.0, {"printed": 1, "scan": 1, "direct": 1}),
    ],
)
def test_effective_horizons(
    setting: Setting, discount: float, expected: dict[HorizonRule, int]
) -> None:
    found = {r: effective_horizon(setting, discount, Errata(horizon=r)) for r in expected}
    assert found == expected
    staged = replace(setting, horizon=7)
    assert effective_horizon(staged, discount) == expected["scan"]


# --- the formulas, once more ----------------------------------------------------------------


@no_deadline
@given(settings(least_horizon=2), errata_choices, st.booleans())
def test_closed_forms(setting: Setting, errata: Errata, safe_start: bool) -> None:
    c = paper_constants(setting, replace(errata, threshold=False), safe_start=safe_start)
    h, a, b, delta = stages(setting), setting.actions, setting.norm, setting.delta
    e, width, n1, n2, n3 = c.eluder_bound, setting.dim + 1, c.rollouts, c.test_draws, c.refine_draws
    zeta = delta / ((12 if errata.zeta else 4) * h)
    shrink = 1.5 if safe_start else 1 + 1 / (2 * math.sqrt(e))
    epsilon = (delta / (12 * h**2)) ** a / shrink
    draws = 1867 * h**2 * (b + 1) ** 2 * width / (2 * delta**2)
    draws *= math.log(4 * (e + 1) * n1 * h * a * width / zeta)
    events = 2 * (e + 1) * n1 * h * a
    log = math.log(events / zeta) if errata.refined_log else math.log(events) / zeta
    refined = max(float(n2), 32 * (h + 1) ** 2 * e / epsilon**2 * log)

    expected = {
        "zeta": zeta,
        "epsilon": epsilon,
        "rollouts": 32 * h**2 * (1 + 2 * b) ** 2 / delta**2 * math.log((e + 1) / zeta),
        "test_draws": draws,
        "refine_draws": refined,
        "sol_threshold": h**a * epsilon / (2 * math.sqrt(e)),
        "accuracy": epsilon / (4 * math.sqrt(e)),
        "tolerance": delta / (4 * h),
    }
    for name, value in expected.items():
        found = getattr(c, name)
        rounding = 1.0 if isinstance(found, int) else 0.0
        slack = 1e-10 * value
        assert value - slack <= float(found) <= value + rounding + slack, name
    repeats = 1 if errata.query_count else n1
    assert c.query_bound == h * n2 * a + (e + 2) * (n1 * h * a * n2 + n1 * h + repeats * a * n3)
    assert c.misspecification == 0


@no_deadline
@given(settings())
def test_eluder_bound_is_the_least_safe_one(setting: Setting) -> None:
    e = paper_constants(setting).eluder_bound
    limits = [eluder_dimension(setting, scale_at(setting, at)) for at in (e, e - 1)]
    assume(all(abs(limit - round(limit)) > 1e-6 for limit in limits))
    assert e >= math.floor(limits[0])
    assert e - 1 < math.floor(limits[1])


@no_deadline
@given(settings(least_horizon=2))
def test_safe_start(setting: Setting) -> None:
    plain, safe = paper_constants(setting), paper_constants(setting, safe_start=True)
    base = (setting.delta / (12 * stages(setting) ** 2)) ** setting.actions
    assert float(safe.epsilon) == pytest.approx(2 / 3 * base, rel=1e-12)
    limit = eluder_dimension(setting, 2 / 3 * base * stages(setting) ** setting.actions)
    assert safe.eluder_bound == pytest.approx(math.floor(limit), abs=1 if limit > 1e6 else 0.01)
    assert safe.eluder_bound >= plain.eluder_bound
    assert safe.refine_draws >= plain.refine_draws


# --- what the proof needs -------------------------------------------------------------------


@no_deadline
@given(settings(), errata_choices, st.booleans())
def test_proof_inequalities(setting: Setting, errata: Errata, safe_start: bool) -> None:
    """Retention of theta°, progress at a failure, Hoeffding for rollouts and refined data."""
    errata = replace(errata, refined_log=True)
    c = paper_constants(setting, errata, safe_start=safe_start)
    h, a, e, delta = stages(setting), setting.actions, c.eluder_bound, Decimal(str(setting.delta))
    x, root, above = half_width(c), Decimal(c.eluder_bound).sqrt(), 1 + Decimal("1e-20")
    assert (h + x) ** (a - 1) * x <= c.sol_threshold * above
    assert c.sol_threshold * (2 * root + 1) <= (delta / (12 * h)) ** a * above

    reach = 32 * h**2 * (1 + 2 * Decimal(str(setting.norm))) ** 2 / delta**2
    assert (-c.rollouts / reach).exp() <= c.zeta / (e + 1) * above
    assert (-(c.rollouts - 1) / reach).exp() > c.zeta / (e + 1)
    miss = 2 * (-Decimal(c.refine_draws) * x**2 / (8 * (h + 1) ** 2)).exp()
    assert miss <= c.zeta / ((e + 1) * c.rollouts * h * a) * above


@no_deadline
@given(settings(least_horizon=2))
def test_only_the_corrected_zeta_proves_delta(setting: Setting) -> None:
    for errata, loss in ((CORRECTED, Fraction(1)), (PRINTED, Fraction(3, 2))):
        zeta = paper_constants(setting, errata).zeta
        total = 3 * zeta * stages(setting) + Decimal(str(setting.delta)) * 3 / 4
        assert float(total) == pytest.approx(float(loss) * setting.delta, rel=1e-12)


@no_deadline
@given(settings(least_horizon=2))
def test_threshold_option_moves_the_accuracy_alone(setting: Setting) -> None:
    plain = paper_constants(setting)
    exact = paper_constants(setting, replace(CORRECTED, threshold=True))
    h, x = stages(setting), half_width(exact)
    assert exact.eluder_bound == plain.eluder_bound
    assert exact.sol_threshold == pytest.approx(plain.sol_threshold)
    assert float((h + x) ** (setting.actions - 1) * x / exact.sol_threshold) == pytest.approx(1)
    assert half_width(plain) < x <= h * half_width(plain) * (1 + Decimal("1e-20"))


@pytest.mark.parametrize("errata", [PRINTED, CORRECTED])
def test_one_stage_uses_the_exact_threshold(errata: Errata) -> None:
    setting = Setting(3, 3, 1, 1.0, 0.5)
    c = paper_constants(setting, errata)
    assert c.errata.threshold
    assert c == paper_constants(setting, replace(errata, threshold=True))
    x = half_width(c)
    assert float((1 + x) ** 2 * x / c.sol_threshold) == pytest.approx(1, rel=1e-14)
    assert x < c.sol_threshold  # the printed form, x = threshold, would be too coarse


@no_deadline
@given(settings(least_horizon=2), st.sampled_from(["dim", "actions", "horizon", "norm", "delta"]))
def test_harder_settings_cost_more(setting: Setting, name: str) -> None:
    harder: dict[str, Any] = {
        "dim": setting.dim + 1,
        "actions": setting.actions + 1,
        "horizon": stages(setting) + 1,
        "norm": setting.norm * 1.5,
        "delta": setting.delta / 1.5,
    }
    easy = paper_constants(setting)
    hard = paper_constants(replace(setting, **{name: harder[name]}))
    assert hard.eluder_bound >= easy.eluder_bound  # a whole number, so a small step may not move it
    assert hard.rollouts >= easy.rollouts
    assert hard.test_draws > easy.test_draws
    assert hard.refine_draws > easy.refine_draws
    assert hard.query_bound > easy.query_bound
    assert hard.accuracy < easy.accuracy


# --- sizes that no float can hold -----------------------------------------------------------


def test_huge_values_have_the_right_size() -> None:
    c = paper_constants(HUGE)
    h, a, e = stages(HUGE), HUGE.actions, c.eluder_bound
    log_scale = a * math.log(HUGE.delta / (12 * h))
    log_widest = math.log(2) + a * math.log(3 * (HUGE.norm + 1)) - log_scale
    tensor = (HUGE.dim + 1) ** a
    eluder = math.log(3 * math.e / (math.e - 1) * (math.log(3) + 2 * log_widest)) + math.log(tensor)
    assert math.log(e) == pytest.approx(eluder, rel=1e-12)
    log_epsilon = a * math.log(HUGE.delta / (12 * h**2))
    assert float(c.epsilon.ln()) == pytest.approx(log_epsilon, rel=1e-12)
    events = math.log(2 * (e + 1) * c.rollouts * h * a) - math.log(HUGE.delta / (12 * h))
    refined = math.log(32 * (h + 1) ** 2) + math.log(e) - 2 * log_epsilon + math.log(events)
    assert math.log(c.refine_draws) == pytest.approx(refined, rel=1e-12)
    assert scientific(c.query_bound) == "4.11e1145"


@pytest.mark.parametrize("threshold", [False, True])
@pytest.mark.parametrize("setting", [replace(SMALL, norm=1.2345678, delta=1 / 3), HUGE])
def test_counts_do_not_depend_on_the_precision(
    setting: Setting, threshold: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    errata = replace(CORRECTED, threshold=threshold)
    usual = paper_constants(setting, errata)
    monkeypatch.setattr("tensorplan.theory._GUARD_DIGITS", 300)
    with localcontext(prec=5):  # what the caller has set is of no account either
        assert paper_constants(setting, errata) == usual
        assert effective_horizon(replace(DISCOUNTED, delta=9.99999999), 0.9) > 9


def test_long_counts_are_rounded_up_after_a_thousand_digits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    setting = replace(SMALL, actions=300)
    rounded = bounds_table(setting)
    monkeypatch.setattr("tensorplan.theory._COUNT_DIGITS", 10**9)
    longer = 0
    for row, exact in zip(rounded, bounds_table(setting), strict=True):
        for found, wanted in ((row.printed, exact.printed), (row.corrected, exact.corrected)):
            assert wanted is not None
            assert found is not None
            if wanted < 10**1000:
                assert found == wanted
            else:
                longer += 1
                assert wanted < found < wanted + int(wanted) // 10**990
    assert longer == 4  # n3 and the queries, as printed and as corrected


def test_thousands_of_actions_are_no_trouble() -> None:
    """The figures are those of the exact computation, which takes more than a minute."""
    began = time.process_time()
    rows = {row.name: row for row in bounds_table(replace(SMALL, actions=5000))}
    assert time.process_time() - began < 10
    shown = {name: scientific(row.corrected) for name, row in rows.items()}
    assert shown["eluder_bound"] == "1.09e2391"
    assert (shown["rollouts"], shown["test_draws"]) == ("2.54e7", "9.93e8")
    assert (shown["refine_draws"], shown["query_bound"]) == ("8.92e22219", "4.84e24614")
    assert (shown["sol_threshold"], shown["accuracy"]) == ("9.44e-9603", "3.34e-11108")
    printed = [rows[name].printed for name in ("refine_draws", "query_bound")]
    assert [scientific(value) for value in printed if value] == ["1.43e22221", "1.97e24623"]


# --- near-realizable and discounted ---------------------------------------------------------


@no_deadline
@given(settings(least_horizon=2))
def test_misspecified_constants(setting: Setting) -> None:
    c = misspecified_constants(setting)
    plain = paper_constants(replace(setting, delta=0.98 * setting.delta))
    assert c.setting.delta == 0.98 * setting.delta
    assert (c.refine_draws, c.query_bound) == (plain.refine_draws, plain.query_bound)
    assert float(c.accuracy / plain.accuracy) == pytest.approx(1 / 3)
    assert c.misspecification == c.accuracy
    # 2 eta + lambda is what the plain theorem allows, 4 H eta is what delta' gives away.
    assert 2 * c.misspecification + c.accuracy <= plain.accuracy * (1 + Decimal("1e-20"))
    assert 4 * stages(setting) * float(c.misspecification) <= 0.02 * setting.delta


@pytest.mark.parametrize("errata", [CORRECTED, replace(CORRECTED, threshold=True)])
@pytest.mark.parametrize("safe_start", [False, True])
@pytest.mark.parametrize("setting", [DISCOUNTED, replace(DISCOUNTED, actions=1, delta=2.5)])
def test_scan_finds_the_smallest_horizon(
    setting: Setting, errata: Errata, safe_start: bool
) -> None:
    discount = 0.7

    def fits(horizon: int) -> bool:
        c = misspecified_constants(replace(setting, horizon=horizon), errata, safe_start=safe_start)
        eta = c.epsilon / (24 * Decimal(c.eluder_bound).sqrt())
        return Decimal(str(discount)) ** horizon / Decimal("0.3") <= eta

    first = math.floor(setting.delta) + 1
    slow = next(horizon for horizon in range(first, 1000) if fits(horizon))
    c = discounted_constants(setting, discount, errata, safe_start=safe_start)
    assert c.setting.horizon == slow
    assert float(c.accuracy / c.misspecification) == pytest.approx(2)
    assert 2 * float(c.misspecification) <= 0.02 * setting.delta


def test_discounted_errata() -> None:
    assert discounted_constants(DISCOUNTED, 0.9, PRINTED).setting.horizon == 3738
    at_once = discounted_constants(DISCOUNTED, 0.0)
    assert at_once.setting.horizon == 1
    assert at_once.errata.threshold
    with pytest.raises(SettingError, match=r"direct.*Use horizon='scan'"):
        discounted_constants(DISCOUNTED, 0.9, Errata(horizon="direct"))


@pytest.mark.parametrize(
    ("norm", "delta", "discount", "lowest", "expected"),
    [
        (0.5, 1.0, 0.5, 0.0, 3),  # ln 8 / ln 2, exactly
        (0.5, 0.99, 0.5, 0.0, 4),
        (1.0, 16.0, 0.99, 0.0, 1),  # ln 1 = 0: one stage all the same
        (1.0, 20.0, 0.99, 0.0, 1),
        (0.5, 1.0, 0.5, -1.75, 6),  # B' = .5 + 1.75/.5 = 4: ln 64 / ln 2
        (0.5, 1.0, 0.5, 3.0, 3),
        (0.5, 1.0, 0.0, -1.0, 1),
    ],
)
def test_direct_horizon(
    norm: float, delta: float, discount: float, lowest: float, expected: int
) -> None:
    assert direct_horizon(norm, delta, discount, lowest_reward=lowest) == expected


# --- small formulas -------------------------------------------------------------------------


def test_lower_bound() -> None:
    assert lower_bound(12, 3, corrected=False) == Fraction(1024, 48) - 1
    assert lower_bound(12, 3) == (Fraction(256, 11) - 1) / 2
    assert lower_bound(12, 2) == (Fraction(341, 11) - 1) / 2  # 1024/3 rounded down
    assert all(lower_bound(d, 0) < lower_bound(d, 0, corrected=False) for d in range(5, 40))


def test_symmetric_dimension() -> None:
    assert [symmetric_dimension(2, 2), symmetric_dimension(5, 3)] == [6, 56]
    assert symmetric_dimension(7, 1) == 8
    assert failure_bound(4, 2) == 14
    assert failure_bound(4, 2, realizable=False) == 15


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (1080, 3, "1.08e3"),
        (0, 3, "0"),
        (9999, 2, "1.0e4"),
        (-5e-7, 3, "-5.00e-7"),
        (Fraction(1, 3), 4, "3.333e-1"),
        (7 * 10**4000, 1, "7e4000"),
        (Decimal("1.25e-5000"), 2, "1.2e-5000"),
    ],
)
def test_scientific(value: float | Decimal | Fraction, digits: int, text: str) -> None:
    assert scientific(value, digits) == text


def test_bounds_table() -> None:
    rows = {row.name: row for row in bounds_table(SMALL)}
    printed, corrected = paper_constants(SMALL, PRINTED), paper_constants(SMALL)
    assert rows["zeta"][1:] == (printed.zeta, corrected.zeta)
    assert rows["query_bound"][1:] == (printed.query_bound, corrected.query_bound)
    assert len(rows) == 11
    assert "horizon" not in rows

    discounted = {row.name: row for row in bounds_table(DISCOUNTED, 0.9)}
    assert discounted["horizon"][1:] == (3738, 374)
    assert discounted["direct_horizon"][1:] == (None, 33)
    assert discounted["misspecification"].corrected > 0
    assert json.dumps([(name, str(a), str(b)) for name, a, b in discounted.values()])


def test_switches_of_the_errata() -> None:
    assert Errata.corrected() == CORRECTED == Errata(True, True, True, False, "scan")
    assert Errata(False, False, False, False, "printed") == PRINTED


# --- bad input ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dim": 0}, r"Setting.dim=0: .* at least 1\. Pass int"),
        ({"actions": 2.0}, r"Setting.actions=2.0: .*Pass int"),
        ({"horizon": True}, r"Setting.horizon=True: .*Pass int"),
        ({"horizon": -3}, r"Setting.horizon=-3: .* at least 1"),
        ({"norm": 0.0}, r"Setting.norm=0.0: it must be a positive.*Pass a float above 0"),
        ({"norm": "1"}, r"Setting.norm='1': .*Pass a float above 0"),
        ({"delta": math.nan}, r"Setting.delta=nan: .*Pass a float above 0"),
        ({"delta": math.inf}, r"Setting.delta=inf: .*Pass a float above 0"),
    ],
)
def test_bad_settings(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        replace(SMALL, **changes)


@pytest.mark.parametrize("delta", [2.0, 2.5])
def test_trivial_settings(delta: float) -> None:
    setting = replace(SMALL, delta=delta)
    assert setting.trivial
    assert not replace(setting, horizon=3).trivial
    assert not replace(setting, horizon=None).trivial
    for constants in (paper_constants, misspecified_constants):
        with pytest.raises(SettingError, match=rf"delta={delta} .*every policy.*smaller delta"):
            constants(setting)


def test_other_bad_input() -> None:
    with pytest.raises(SettingError, match=r"horizon=None.*discounted_constants"):
        paper_constants(DISCOUNTED)
    with pytest.raises(SettingError, match=r"Errata.horizon='exact'.*'printed', 'scan', 'direct'"):
        replace(CORRECTED, horizon="exact")  # the point
    for discount in (1.0, -0.1, math.nan):
        with pytest.raises(SettingError, match=rf"discount={discount}: .* Pass a discount below"):
            effective_horizon(DISCOUNTED, discount)
        with pytest.raises(SettingError, match="Pass a discount below"):
            direct_horizon(1.0, 0.5, discount)
    with pytest.raises(SettingError, match=r"delta=10.0 at discount 0.9.*smaller delta"):
        effective_horizon(replace(DISCOUNTED, delta=10.0), 0.9)
    with pytest.raises(SettingError, match=r"delta=0.0: it must be a positive.*above 0"):
        direct_horizon(1.0, 0.0, 0.9)
    with pytest.raises(SettingError, match=r"norm=inf: it must be a positive.*above 0"):
        direct_horizon(math.inf, 1.0, 0.9)
    with pytest.raises(SettingError, match=r"dim=1: .* at least 2"):
        lower_bound(1, 5)
    with pytest.raises(SettingError, match=r"queries=-1: .* at least 0"):
        lower_bound(5, -1)
    with pytest.raises(SettingError, match=r"actions=0"):
        symmetric_dimension(3, 0)
