"""The empirical model of tabular states against plain dynamic programming."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorplan.planners.adaptive.model import Model
from tensorplan.records import FloatArray, IntArray

SWEEPS = 400


def random_model(seed: int, *, staged: bool = False, masked: bool = False) -> Model:
    """K critical states and m unopened ones; discounts, or stages that only go on."""
    rng = np.random.default_rng(seed)
    count, actions, unseen = (int(rng.integers(1, n)) for n in (5, 4, 4))
    moves = rng.dirichlet(np.ones(count + unseen), (count, actions))
    moves *= rng.uniform(0.3, 0.9, size=(count, actions, 1))
    if staged:
        later = np.arange(count + unseen)[None, :] > np.arange(count)[:, None]
        moves = np.where(later[:, None, :], moves / 0.9, 0.0)
    rewards = rng.normal(size=(count, actions))
    if masked:
        barred = rng.random((count, actions)) < 0.4
        barred[np.arange(count), rng.integers(actions, size=count)] = False
        rewards[barred] = -np.inf
        moves[barred] = 0.0
    ends = np.sort(rng.normal(size=(count + unseen, 2)), axis=1)
    width = rng.exponential(size=(count, actions))
    counts = rng.integers(1, 9, size=(count, actions)).astype(np.float64)
    return Model(rewards, moves, ends, width, counts, int(rng.integers(count)))


def choices(model: Model) -> list[IntArray]:
    """All choices of available actions."""
    options = [np.flatnonzero(np.isfinite(row)).tolist() for row in model.rewards]
    return [np.array(choice, np.int64) for choice in itertools.product(*options)]


def values_by_sweeps(model: Model, actions: IntArray, unseen: FloatArray) -> FloatArray:
    count = len(model.rewards)
    values = np.zeros(count)
    for _ in range(SWEEPS):
        whole = np.concatenate([values, unseen])
        values = np.array(
            [model.rewards[k, a] + model.moves[k, a] @ whole for k, a in enumerate(actions)]
        )
    return values


def visits_by_steps(model: Model, actions: IntArray) -> FloatArray:
    count, whole = len(model.rewards), model.moves.shape[2]
    here, total = np.zeros(whole), np.zeros(whole)
    here[model.start] = 1.0
    for _ in range(SWEEPS):
        total += here
        after = np.zeros(whole)
        for k in range(count):
            after += here[k] * model.moves[k, actions[k]]
        here = after
    return total


@pytest.mark.parametrize("staged", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_visits_and_values_are_those_of_plain_programs(seed: int, staged: bool) -> None:
    model = random_model(seed, staged=staged)
    unseen = model.ends[len(model.rewards) :, 0]
    for actions in choices(model)[:6]:
        np.testing.assert_allclose(
            model.values(actions, unseen), values_by_sweeps(model, actions, unseen), atol=1e-9
        )
        np.testing.assert_allclose(
            model.visits(actions), visits_by_steps(model, actions), atol=1e-9
        )


@given(st.integers(0, 10**6), st.booleans(), st.booleans())
def test_no_choice_of_actions_is_better_than_the_best(
    seed: int, staged: bool, masked: bool
) -> None:
    model = random_model(seed, staged=staged, masked=masked)
    unseen = model.ends[len(model.rewards) :, 1]
    best = model.values(model.best(unseen), unseen)
    assert np.all(np.isfinite(best))
    for actions in choices(model):
        assert np.all(model.values(actions, unseen) <= best + 1e-9)


@given(st.integers(0, 10**6))
def test_visits_weigh_what_is_earned(seed: int) -> None:
    """The value at the start is the sum over states of visits times what they bring."""
    model = random_model(seed)
    count = len(model.rewards)
    unseen = model.ends[count:, 0]
    for actions in choices(model)[:4]:
        visits = model.visits(actions)
        earned = model.rewards[np.arange(count), actions]
        value = visits[:count] @ earned + visits[count:] @ unseen
        assert model.values(actions, unseen)[model.start] == pytest.approx(value, abs=1e-9)


@given(st.integers(0, 10**6))
def test_optimistic_actions_are_those_of_the_upper_ends(seed: int) -> None:
    model = random_model(seed, masked=True)
    chosen = model.optimistic()
    for k, action in enumerate(chosen.tolist()):
        worth = [
            model.rewards[k, a] + model.width[k, a] + model.moves[k, a] @ model.ends[:, 1]
            for a in range(model.rewards.shape[1])
        ]
        assert worth[action] == max(worth) > -np.inf


@given(st.integers(0, 10**6))
def test_names_of_actions_do_not_matter(seed: int) -> None:
    model = random_model(seed)
    order = np.random.default_rng(seed).permutation(model.rewards.shape[1])
    other = Model(
        model.rewards[:, order],
        model.moves[:, order],
        model.ends,
        model.width[:, order],
        model.counts[:, order],
        model.start,
    )
    unseen = model.ends[len(model.rewards) :, 0]
    np.testing.assert_array_equal(order[other.optimistic()], model.optimistic())
    np.testing.assert_allclose(
        other.values(other.best(unseen), unseen), model.values(model.best(unseen), unseen)
    )


def test_a_state_that_pays_now_and_one_that_pays_later() -> None:
    """Action 0 earns 1 and ends; action 1 earns 0 and leads, at 0.9, to a state worth 3."""
    moves = np.zeros((1, 2, 2))
    moves[0, 1, 1] = 0.9
    ends = np.array([[0.0, 5.0], [3.0, 4.0]])
    model = Model(np.array([[1.0, 0.0]]), moves, ends, np.zeros((1, 2)), np.ones((1, 2)), 0)
    assert model.best(np.array([3.0])).tolist() == [1]
    assert model.best(np.array([1.0])).tolist() == [0]
    assert model.values(np.array([1]), np.array([3.0])).tolist() == [pytest.approx(2.7)]
    np.testing.assert_allclose(model.visits(np.array([1])), [1, 0.9])
