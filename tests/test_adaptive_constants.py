"""Theorem C's constants against the table of theory.md, section C."""

from __future__ import annotations

import math
from decimal import Decimal

import pytest

from tensorplan.errors import SettingError
from tensorplan.theory import Setting, adaptive_constants, scientific

Row = tuple[int, int, int, float, float]

TABLE: dict[Row, tuple[int, int, int, float, float, float]] = {
    (2, 2, 2, 1, 0.5): (6, 92, 301, 3.8e4, 8.4e7, 2.0e10),
    (2, 2, 5, 1, 0.5): (6, 111, 336, 2.7e5, 1.4e11, 3.2e13),
    (4, 2, 10, 2, 1): (15, 312, 369, 8.0e5, 6.3e12, 3.9e15),
    (5, 3, 5, 1, 0.5): (56, 1570, 421, 3.1e5, 3.8e16, 1.8e20),
    (10, 2, 20, 5, 2): (66, 1640, 527, 4.3e6, 5.1e14, 1.7e18),
}
"""(d, A, H, B, delta) -> p, N, n_1, n_2, n_3 at stage 1, queries."""


@pytest.mark.parametrize("row", list(TABLE))
def test_the_table(row: Row) -> None:
    found, expected = adaptive_constants(Setting(*row)), TABLE[row]
    assert found.dimension == expected[0]
    # N is printed with three digits from 1000 on.
    assert float(scientific(found.failures)) == pytest.approx(expected[1], rel=1e-9)
    assert found.rollouts == expected[2]
    numbers = found.test_draws, found.refine_draws[0], found.query_bound
    for number, rounded in zip(numbers, expected[3:], strict=True):
        # The table has two digits, some of them rounded up.
        unit = 10.0 ** (math.floor(math.log10(rounded)) - 1)
        assert abs(float(number) - rounded) <= unit


def test_later_stages_need_less() -> None:
    found = adaptive_constants(Setting(2, 2, 5, 1, 0.5))
    assert list(found.refine_draws) == sorted(found.refine_draws, reverse=True)
    assert len(found.refine_draws) == 5


def test_tolerances_leave_room_for_the_tests() -> None:
    found = adaptive_constants(Setting(3, 2, 4, 1, 0.25))
    gap = found.pass_tolerance - found.fail_tolerance
    assert gap == pytest.approx(Decimal(6) * Decimal("0.25") / 64)
    assert found.refined_tolerance < found.fail_tolerance < found.pass_tolerance
    assert 8 * found.zeta * 4 == Decimal("0.25")


def test_many_actions_are_no_trouble() -> None:
    found = adaptive_constants(Setting(2, 300, 5, 1, 0.5))
    assert 0 < found.margin < Decimal("1e-400")


@pytest.mark.parametrize(("horizon", "delta"), [(None, 0.5), (2, 2.0)])
def test_trivial_settings_are_refused(horizon: int | None, delta: float) -> None:
    with pytest.raises(SettingError, match="delta below H"):
        adaptive_constants(Setting(2, 2, horizon, 1.0, delta))
