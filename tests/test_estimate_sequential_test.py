"""The one-sided test: a loop over one state as reference, error rates, rounds and their mutants."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from estimate_streams import exceeds

from tensorplan import estimate
from tensorplan.errors import SettingError
from tensorplan.estimate import Grid, Moments, PassRule, SequentialTest, Verdict
from tensorplan.records import BoolArray, FloatArray, IntArray

RULE = PassRule(0.2, 0.1, 1.0, 0.05, Grid(16, 1.5))
CAP = int(RULE.caps(np.array(RULE.level)))


def coins(
    errors: FloatArray, counts: IntArray, rng: np.random.Generator, offset: float = 0.5
) -> Moments:
    """Draws in [-offset, 1 - offset] of two values, with these means."""
    chance = np.broadcast_to(errors + offset, counts.shape)
    share = rng.binomial(counts, chance) / np.maximum(counts, 1)
    means = np.where(counts > 0, share - offset, 0.0)
    return Moments(counts, means, counts * share * (1 - share))


def finished(
    rule: PassRule, errors: FloatArray, allowed: BoolArray, rng: np.random.Generator
) -> SequentialTest:
    test = rule.begin(allowed)
    while np.any(test.open):
        test = test.update(coins(errors, test.wanted(), rng))
    return test


# --- decisions -----------------------------------------------------------------------------------


def test_clear_cases_are_decided_as_they_are() -> None:
    errors = np.array([[0.1, -0.4], [-0.4, 0.2], [-0.45, -0.4]])
    test = finished(RULE, errors, np.ones((3, 2), np.bool_), np.random.default_rng(1))
    assert test.verdicts.tolist() == [Verdict.PASS, Verdict.PASS, Verdict.FAIL]
    assert test.actions[:2].tolist() == [0, 1]


def test_masked_actions_are_neither_drawn_nor_played() -> None:
    allowed = np.array([[False, True], [True, False]])
    errors = np.array([[0.4, -0.4], [-0.4, 0.4]])
    test = finished(RULE, errors, allowed, np.random.default_rng(2))
    assert test.verdicts.tolist() == [Verdict.FAIL, Verdict.FAIL]
    assert test.actions.tolist() == [1, 0]
    assert np.all(test.moments.counts[~allowed] == 0)


def test_the_decisive_cap_decides_everything() -> None:
    """B5 iii, theorem C: 128 H^2 (1+2B)^2 / (9 delta^2) ln(4/alpha) for its tolerances."""
    horizon, norm, delta = 5, 1.0, 0.5
    tolerances = 0.75 * delta / horizon, 0.375 * delta / horizon
    rule = PassRule(*tolerances, 1 + 2 * norm, 1e-3, Grid(16))
    cap = int(rule.caps(np.array(1e-3)))
    worst = 128 * horizon**2 * (1 + 2 * norm) ** 2 / (9 * delta**2) * math.log(4 / 1e-3)
    assert cap == math.ceil(worst)
    errors = np.linspace(-0.3, 0.0, 200)[:, None]
    test = finished(RULE, errors, np.ones((200, 1), np.bool_), np.random.default_rng(3))
    assert set(test.verdicts.tolist()) == {Verdict.PASS, Verdict.FAIL}
    assert test.moments.counts.max() == CAP


def test_a_small_cap_may_decide_nothing() -> None:
    test = finished(
        replace(RULE, cap=40), np.array([[-0.15]]), np.array([[True]]), np.random.default_rng(4)
    )
    assert test.verdicts.tolist() == [Verdict.CAPPED]
    assert test.moments.counts.tolist() == [[40]]
    assert not test.wanted().any()


def test_rounds_end_at_sizes_of_the_grid() -> None:
    rng, errors = np.random.default_rng(5), np.array([[-0.1, -0.12, -0.4]])
    test = RULE.begin(np.ones((1, 3), np.bool_))
    assert test.wanted().tolist() == [[16, 16, 16]]
    while np.any(test.open):
        before = test.moments.counts
        wanted = test.wanted()
        assert (wanted > 0).sum() in (1, 3)
        after = before + wanted
        assert np.all(np.isin(after, [*RULE.grid.sizes.tolist(), CAP]))
        test = test.update(coins(errors, wanted, rng))


def test_the_batch_is_the_loop_over_its_states() -> None:
    """Each state decided alone, from the same draws, by the definition of the test."""
    rng, size = np.random.default_rng(6), RULE.grid.sizes[:12]
    draws = rng.random((40, 2, int(size[-1]))) - rng.uniform(0.3, 1.0, (40, 2, 1))
    test = RULE.begin(np.ones((40, 2), np.bool_))
    for first, last in zip([0, *size[:-1].tolist()], size.tolist(), strict=True):
        test = test.update(Moments.of(draws[:, :, first:last]))
    for state in range(40):
        verdict, lower, upper = Verdict.OPEN, np.full(2, -np.inf), np.full(2, np.inf)
        for last in size.tolist():
            for action in range(2):
                seen = draws[state, action, :last]
                radius = float(estimate.anytime_radius(last, seen.var(), 1.0, RULE.level / 2))
                lower[action] = max(lower[action], seen.mean() - radius)
                upper[action] = min(upper[action], seen.mean() + radius)
            if max(lower) >= -0.2:
                verdict = Verdict.PASS
            elif max(upper) < -0.1:
                verdict = Verdict.FAIL
            if verdict is not Verdict.OPEN:
                break
        assert test.verdicts[state] == verdict


def test_states_may_have_levels_of_their_own() -> None:
    """F3: the m-th entry of a table that is kept spends 6 zeta / (pi^2 m^2 A)."""
    levels = estimate.index_level(0.05, np.arange(1, 51)) / 2
    errors = np.linspace(-0.4, 0.3, 50)[:, None] + np.zeros(2)
    test = RULE.begin(np.ones((50, 2), np.bool_), levels)
    rng = np.random.default_rng(13)
    while np.any(test.open):
        test = test.update(coins(errors, test.wanted(), rng))
    assert Verdict.CAPPED not in test.verdicts
    for row, alone in ((0, float(levels[0])), (30, float(levels[30])), (49, float(levels[49]))):
        part = Moments(
            test.moments.counts[[row]], test.moments.means[[row]], test.moments.scatter[[row]]
        )
        own = replace(RULE, level=alone).begin(np.ones((1, 2), np.bool_)).update(part)
        assert np.all(test.lower[row] >= own.lower[0])
        assert np.all(test.upper[row] <= own.upper[0])
        assert test.caps[row] == own.caps[0]


def test_draws_of_decided_states_change_nothing() -> None:
    test = finished(RULE, np.array([[0.3]]), np.array([[True]]), np.random.default_rng(7))
    again = test.update(Moments.of(np.full((1, 1, 50), -0.5)))
    assert again.verdicts.tolist() == test.verdicts.tolist() == [Verdict.PASS]
    np.testing.assert_array_equal(again.moments.counts, test.moments.counts)
    np.testing.assert_array_equal(again.lower, test.lower)


@pytest.mark.parametrize("before", [(-0.95, -0.9), (0.9, 0.95)])
def test_limits_at_the_cap_win_where_they_contradict(before: tuple[float, float]) -> None:
    """F8: the limits of earlier rounds are wrong and the last round shows it."""
    rule = replace(RULE, level=0.5, cap=20000)
    test = rule.begin(np.array([[True]]))
    test = replace(test, lower=np.full((1, 1), before[0]), upper=np.full((1, 1), before[1]))
    last = test.update(Moments.of(np.zeros((1, 1, 20000))))
    assert -0.05 <= float(last.lower[0, 0]) <= 0 <= float(last.upper[0, 0]) <= 0.05


def test_each_action_has_half_of_its_level_for_all_times_and_half_for_the_cap() -> None:
    counts = np.array([[50, 1000]])
    moments = Moments(counts, np.zeros((1, 2)), 0.25 * counts)
    lower, upper = replace(RULE, cap=1000).limits(moments, np.array([RULE.level]))
    anytime = float(estimate.anytime_radius(50, 0.25, 1.0, RULE.level / 2))
    final = float(estimate.hoeffding_radius(1000, 1.0, RULE.level / 2))
    assert upper[0].tolist() == [anytime, final]
    assert lower[0].tolist() == [-anytime, -final]


# --- error rates ---------------------------------------------------------------------------------


def test_wrong_verdicts_are_as_rare_as_the_level_says() -> None:
    rng, allowed = np.random.default_rng(8), np.ones((2000, 1), np.bool_)
    rule = replace(RULE, level=0.2)
    too_low = finished(rule, np.array([-0.2 - 1e-9]), allowed, rng)
    assert not exceeds(too_low.verdicts == Verdict.PASS, 0.2)
    high_enough = finished(rule, np.array([-0.1]), allowed, rng)
    assert not exceeds(high_enough.verdicts == Verdict.FAIL, 0.2)


def test_choosing_actions_by_what_was_seen_costs_nothing_per_action() -> None:
    """Each action has its own level: A actions that must not pass do so in at most A level."""
    rng, allowed = np.random.default_rng(9), np.ones((2000, 3), np.bool_)
    rule = replace(RULE, level=0.1)
    test = finished(rule, np.array([-0.2 - 1e-9]), allowed, rng)
    assert not exceeds(test.verdicts == Verdict.PASS, 0.3)


class OneSizeRule(PassRule):
    """Mutant: Hoeffding's limits for one size, read after every round."""

    def limits(self, moments: Moments, levels: FloatArray) -> tuple[FloatArray, FloatArray]:
        counts = np.maximum(moments.counts, 1)
        radius = estimate.hoeffding_radius(counts, self.width, levels[:, None])
        return moments.means - radius, moments.means + radius


def test_limits_for_one_size_read_in_every_round_are_caught() -> None:
    rule = OneSizeRule(0.2, 0.2, 1.0, 0.2, Grid(20, 1.05), 4000)
    allowed = np.ones((2000, 1), np.bool_)
    test = finished(rule, np.array([-0.2 - 1e-9]), allowed, np.random.default_rng(10))
    assert exceeds(test.verdicts == Verdict.PASS, 0.1)  # each side pays for half


def test_clear_states_need_few_draws() -> None:
    """Of a worst case of 877 for each action."""
    errors = np.tile([0.3, -0.4, -0.4], (200, 1))
    test = finished(RULE, errors, np.ones((200, 3), np.bool_), np.random.default_rng(11))
    assert np.all(test.verdicts == Verdict.PASS)
    assert test.moments.counts.sum(axis=1).mean() < 0.1 * CAP


# --- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pass_tolerance": -0.1}, "pass_tolerance"),
        ({"fail_tolerance": 0.3}, "fail_tolerance"),
        ({"width": 0.0}, "width"),
        ({"level": 0.0}, "level"),
        ({"cap": 0}, "cap"),
    ],
)
def test_bad_rules_are_named(changes: dict[str, float], message: str) -> None:
    settings = {
        "pass_tolerance": 0.2, "fail_tolerance": 0.1, "width": 1.0, "level": 0.1, "cap": 100
    }  # fmt: skip
    settings.update(changes)
    with pytest.raises(SettingError, match=message):
        PassRule(**settings, grid=Grid(16))  # pyright: ignore[reportArgumentType] some are wrong


def test_bad_calls_are_named() -> None:
    with pytest.raises(SettingError, match="tolerance"):
        PassRule(0.1, 0.1, 1.0, 0.1, Grid(16))
    with pytest.raises(SettingError, match="mask"):
        RULE.begin(np.array([[True], [False]]))
    test = RULE.begin(np.array([[True]]))
    with pytest.raises(SettingError, match="moments of shape"):
        test.update(Moments.none((2, 1)))
    with pytest.raises(SettingError, match="the cap is"):
        test.update(Moments.of(np.zeros((1, 1, CAP + 1))))
