"""Levels never sum to more than their total, and sizes cannot be chosen by the data."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorplan.errors import SettingError
from tensorplan.estimate import EpochRule, Grid, Ledger, epoch_share, index_level


def test_levels_of_all_claims_sum_to_the_total() -> None:
    levels = index_level(0.05, np.arange(1, 10**6 + 1))
    assert levels.sum() < 0.05
    assert levels.sum() == pytest.approx(0.05, rel=1e-5)
    assert float(levels[0]) == pytest.approx(0.05 * 6 / math.pi**2)


@pytest.mark.parametrize(("rule", "epochs"), [("slow", 10**5), ("halving", 60)])
def test_shares_of_all_epochs_sum_to_one(rule: EpochRule, epochs: int) -> None:
    shares = epoch_share(np.arange(epochs), rule)
    assert float(shares[0]) == 0.5
    assert shares.sum() <= 1
    assert shares.sum() == pytest.approx(1, abs=1e-4)


@given(st.integers(1, 500), st.floats(1.01, 8))
def test_sizes_increase_and_know_their_epoch(first: int, growth: float) -> None:
    if first * (growth - 1) < 1:
        with pytest.raises(SettingError, match=r"Grid\.growth"):
            Grid(first, growth)
        return
    grid = Grid(first, growth)
    sizes = grid.sizes
    assert sizes[0] == first
    assert np.all(np.diff(sizes) >= 1)
    np.testing.assert_array_equal(grid.epoch(sizes[:40]), np.arange(len(sizes[:40])))
    np.testing.assert_array_equal(grid.next_size(sizes[:9] - 1), sizes[:9])
    np.testing.assert_array_equal(grid.next_size(sizes[:9]), sizes[1:10])


def test_sizes_are_those_of_the_formula() -> None:
    assert [Grid(64, 1.6).size(k) for k in range(5)] == [math.ceil(64 * 1.6**k) for k in range(5)]


def test_a_size_that_the_data_chose_has_no_level() -> None:
    grid = Grid(64)
    np.testing.assert_allclose(grid.level(0.12, np.array([64, 128, 256])), [0.06, 0.02, 0.01])
    with pytest.raises(SettingError, match="draws=100"):
        grid.level(0.12, np.array([64, 100]))


def test_ledger_spends_by_drawing() -> None:
    """Whether draws are kept changes nothing: there is no way to give an index back."""
    ledger = Ledger(0.025)
    seen = np.zeros(0, np.int64)
    for count in (1, 0, 5, 1000):
        ledger, fresh = ledger.open(count)
        seen = np.concatenate([seen, fresh])
        assert ledger.level(seen).sum() == pytest.approx(ledger.spent)
        assert ledger.spent < 0.025
    np.testing.assert_array_equal(seen, np.arange(1, 1007))


@given(st.floats(1e-9, 0.999), st.integers(0, 10**12))
def test_a_ledger_never_spends_more_than_its_total(total: float, opened: int) -> None:
    assert Ledger(total, opened).spent <= total


def test_ledger_and_epochs_together_stay_below_the_total() -> None:
    ledger, indices = Ledger(0.1).open(300)
    grid = Grid(16, 1.5)
    levels = grid.level(ledger.level(indices)[:, None], grid.sizes[None, :40])
    assert levels.shape == (300, 40)
    assert levels.sum() < 0.1


@pytest.mark.parametrize(
    ("call", "value"),
    [
        (lambda: Ledger(1.5), "total=1.5"),
        (lambda: Ledger(0.1, -1), "Ledger.opened"),
        (lambda: Ledger(0.1).open(-2), "count=-2"),
        (lambda: Ledger(0.1, 3).level(4), "index=4 of a ledger with 3"),
        (lambda: index_level(0.1, 0), "index=0"),
        (lambda: epoch_share(-1), "epoch=-1"),
        (lambda: epoch_share(0, "fast"), "rule='fast'"),  # pyright: ignore[reportArgumentType] the point
        (lambda: Grid(0), "Grid.first"),
        (lambda: Grid(2, 1.2), "Grid.growth"),
        (lambda: Grid(2).size(99), "epoch=99"),
    ],
)
def test_bad_input_is_named(call: object, value: str) -> None:
    assert callable(call)
    with pytest.raises(SettingError, match=value):
        call()
