"""Frozen lake, river swim and the gambler: tables that are well known, with one-hot features."""

import math

import gymnasium
import numpy as np
import pytest
from problems_reference import check_linear, recursive_value, reference_of, rows_of

from tensorplan.exact import best_realizable_value, evaluate, realizable_policies, solve
from tensorplan.finite import FiniteProcess
from tensorplan.problems import LinearTable, frozen_lake, gambler, river_swim
from tensorplan.problems.one_hot import one_hot_rows
from tensorplan.records import FloatArray


def check_values(world: LinearTable) -> None:
    """The known parameter gives v* at every state, and its bound has room for it."""
    process = world.process
    stages = process.spec.horizon or 1
    values = solve(process).values[:stages]
    if process.spec.horizon is not None:
        check_linear(world, values)
        return
    assert world.theta is not None
    assert np.linalg.norm(world.theta) <= (process.spec.bound or 0.0)
    np.testing.assert_allclose(process.features_at(1) @ world.theta, values[0], atol=1e-12)


def iterated(process: FiniteProcess, sweeps: int) -> FloatArray:
    """v* by plain value iteration, one outcome at a time."""
    values = np.zeros(process.states)
    for _ in range(sweeps):
        following = values.copy()
        for state, action in np.argwhere(process.allowed):
            worth = 0.0
            for outcome, chance in enumerate(process.probabilities[state, action]):
                place = (state, action, outcome)
                ahead = 0.0 if process.terminated[place] else values[process.successors[place]]
                worth += chance * (process.rewards[place] + process.spec.discount * ahead)
            following[state] = max(following[state], worth)
        values = following
    return values


# One-hot features.


@pytest.mark.parametrize(("stages", "states"), [(1, 1), (1, 4), (3, 5), (4, 1)])
def test_one_hot_rows_are_an_identity(stages: int, states: int):
    rows = one_hot_rows(stages, states)
    np.testing.assert_array_equal(rows.reshape(-1, stages * states), np.eye(stages * states))


def test_one_hot_rows_of_a_long_horizon_take_little_memory():
    rows = one_hot_rows(2_000, 64)
    assert rows.shape == (2_000, 64, 128_000)
    assert np.flatnonzero(rows[1_234, 56]).tolist() == [1_234 * 64 + 56]
    with pytest.raises(ValueError, match="read-only"):
        rows[0, 0, 0] = 2.0


# Frozen lake.


@pytest.mark.parametrize(
    ("settings", "value"),
    [
        ({"horizon": 20}, 0.1991),
        ({"horizon": 100}, 0.7442),
        ({"horizon": 200}, 0.8167),
        ({"discount": 0.9}, 0.0689),
        ({}, 0.0689),
        ({"discount": 0.95}, 0.1805),
        ({"discount": 0.95, "ends": "learned"}, 0.1805),
        ({"slippery": False, "discount": 0.9}, 0.9**5),
        ({"slippery": False, "map": "8x8", "horizon": 14}, 1.0),
        ({"slippery": False, "map": "8x8", "horizon": 13}, 0.0),
    ],
)
def test_frozen_lake_reference_values(settings: dict[str, object], value: float):
    assert reference_of(frozen_lake.FAMILY, **settings) == pytest.approx(value, abs=5.1e-5)


@pytest.mark.parametrize("slippery", [True, False])
@pytest.mark.parametrize("name", ["4x4", "8x8"])
def test_frozen_lake_is_gymnasiums(name: str, slippery: bool):
    unwrapped: object = gymnasium.make(
        "FrozenLake-v1", map_name=name, is_slippery=slippery
    ).unwrapped
    table: dict[int, dict[int, list[tuple[float, int, float, bool]]]] = getattr(unwrapped, "P")  # noqa: B009 - the table is not part of the declared type
    process = frozen_lake.build(map=name, slippery=slippery).process
    assert process.states == len(table)
    for state, row in table.items():
        if process.terminated[process.successors == state].all() and state > 0:
            continue  # a hole or the goal: no episode goes on there
        for action, outcomes in row.items():
            chances = process.probabilities[state, action]
            ours = zip(
                chances,
                process.successors[state, action],
                process.rewards[state, action],
                process.terminated[state, action],
                strict=True,
            )
            for mine, theirs in zip(list(ours), outcomes, strict=True):
                assert mine[0] == pytest.approx(theirs[0])
                assert tuple(mine[1:]) == tuple(theirs[1:])


def test_frozen_lake_features_and_values():
    for world in (frozen_lake.build(), frozen_lake.build(horizon=6), frozen_lake.build(map="8x8")):
        check_values(world)
    assert frozen_lake.build().spec.dim == 16
    assert frozen_lake.build(horizon=6).spec.dim == 96
    np.testing.assert_array_equal(rows_of(frozen_lake.build(horizon=2).process).sum(axis=2), 1)


def test_frozen_lake_by_slow_programs():
    small = frozen_lake.build(map="SFF/FHF/FFG", horizon=7)
    assert reference_of(frozen_lake.FAMILY, map="SFF/FHF/FFG", horizon=7) == pytest.approx(
        recursive_value(small.process), abs=1e-12
    )
    process = frozen_lake.build(map="SFF/FHF/FFG", discount=0.8).process
    np.testing.assert_allclose(solve(process).values[0], iterated(process, 200), atol=1e-12)


@pytest.mark.parametrize("horizon", [None, 5])
def test_ends_that_are_learned_change_no_value(horizon: int | None):
    known, learned = (
        frozen_lake.build(ends=ends, horizon=horizon) for ends in ("known", "learned")
    )
    np.testing.assert_allclose(
        solve(known.process).values, solve(learned.process).values, atol=1e-12
    )
    assert known.spec.may_terminate
    assert not learned.spec.may_terminate


def test_worlds_without_hope_are_worth_nothing():
    assert reference_of(frozen_lake.FAMILY, map="SHG", horizon=9) == 0.0
    assert frozen_lake.build(map="SHG", horizon=9).spec.bound is None


# River swim.


def test_river_swim_reference_values():
    assert reference_of(river_swim.FAMILY, horizon=20) == pytest.approx(3.3973, abs=5.1e-5)
    assert reference_of(river_swim.FAMILY) == pytest.approx(4.669, abs=5.1e-4)


def test_river_swim_values_and_spec():
    for world in (river_swim.build(), river_swim.build(horizon=20), river_swim.build(states=2)):
        check_values(world)
    assert river_swim.build(horizon=20).spec.dim == 120
    process = river_swim.build(discount=0.5).process
    np.testing.assert_allclose(solve(process).values[0], iterated(process, 60), atol=1e-12)
    process = river_swim.build(states=3, horizon=5).process
    assert recursive_value(process) == pytest.approx(solve(process).values[0, 0], abs=1e-12)


def test_drifting_is_worth_a_geometric_sum():
    process = river_swim.build(discount=0.9).process
    drifting = evaluate(process, np.zeros((1, 6), np.int64)).values[0]
    np.testing.assert_allclose(drifting, 0.005 * 0.9 ** np.arange(6) / 0.1, atol=1e-12)
    assert (solve(process).values[0] >= drifting).all()


# The gambler.


@pytest.mark.parametrize(("win", "goal"), [(0.4, 20), (0.5, 9), (0.7, 12)])
def test_unit_bets_without_a_discount_are_gamblers_ruin(win: float, goal: int):
    capital, ratio = np.arange(1, goal), (1 - win) / win
    ruin = capital / goal if win == 0.5 else (1 - ratio**capital) / (1 - ratio**goal)
    np.testing.assert_allclose(gambler.unit_bet_values(goal, win), ruin, rtol=1e-12)
    process = gambler.build(goal=goal, win=win, stakes="unit", horizon=3_000).process
    np.testing.assert_allclose(solve(process).values[0, 1:-1], ruin, atol=1e-9)


@pytest.mark.parametrize(("win", "discount"), [(0.4, 0.95), (0.5, 0.9), (0.6, 0.999)])
def test_unit_bets_in_closed_form(win: float, discount: float):
    process = gambler.build(goal=11, win=win, discount=discount, stakes="unit-or-bold").process
    always_one = evaluate(process, np.zeros((1, 12), np.int64)).values[0]
    closed = gambler.unit_bet_values(11, win, discount)
    np.testing.assert_allclose(always_one[1:-1], closed, rtol=1e-9)
    assert always_one[0] == always_one[-1] == 0.0


def test_unit_bets_of_a_long_game_do_not_overflow():
    values = gambler.unit_bet_values(5_000, 0.3, 0.9)
    assert values[-1] > 0.25
    assert (np.diff(values) >= 0).all()


@pytest.mark.parametrize("discount", [0.9, 0.99])
def test_bold_play_is_best_at_poor_odds(discount: float):
    values = [
        solve(gambler.build(goal=16, stakes=stakes, discount=discount).process)
        for stakes in ("unit", "unit-or-bold", "any")
    ]
    np.testing.assert_allclose(values[1].values, values[2].values, atol=1e-12)
    assert (values[1].values[0, 2:14] > values[0].values[0, 2:14]).all()


@pytest.mark.parametrize("win", [0.4, 0.6])
def test_two_features_hold_the_value_of_unit_bets_alone(win: float):
    world = gambler.build(goal=10, win=win, features="unit-bets")
    process, bound = world.process, world.spec.bound
    assert bound is not None
    assert world.theta is not None
    assert np.linalg.norm(world.theta) <= bound
    closed = gambler.unit_bet_values(10, win, gambler.DISCOUNT)
    np.testing.assert_allclose(process.features_at(1)[1:-1] @ world.theta, closed, rtol=1e-12)
    found = realizable_policies(process, math.inf)
    assert {round(each.value, 12) for each in found} == {round(float(closed[2]), 12)}
    assert best_realizable_value(process, bound) == pytest.approx(closed[2])
    assert closed[2] < reference_of(gambler.FAMILY, goal=10, win=win) - 1e-3


def test_gambler_one_hot_values():
    for world in (gambler.build(), gambler.build(horizon=6, stakes="any")):
        check_values(world)
    process = gambler.build(goal=6, stakes="any", horizon=6).process
    assert recursive_value(process) == pytest.approx(solve(process).values[0, 2], abs=1e-12)
    assert gambler.build(goal=2, stakes="any", discount=0.5).spec.actions == 1
    assert reference_of(gambler.FAMILY, goal=2, win=0.3) == pytest.approx(0.3)
