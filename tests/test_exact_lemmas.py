"""Checks of finished runs: hand-made ones that keep each event, and ones that break it."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import permutations, product

import numpy as np
import pytest
from test_exact_worlds import random_process, two_states

from tensorplan.errors import SettingError
from tensorplan.exact import (
    EluderViolation,
    RecordedRollout,
    RecordedRun,
    RecordedTest,
    deviation_at,
    eluder_violations,
    exact_rows,
    independent_tensors,
    measured_at,
    measured_in_any_direction,
    retained,
    rollout_average,
    symmetric_tensor,
    telescoped,
    tensor_rank,
    uniform_deviation,
)
from tensorplan.finite import TableSimulator
from tensorplan.records import FloatArray, Spec

PROCESS = random_process(1, Spec(2, 2, 3), states=4)


def measured(noise: FloatArray, *, stage: int = 2, state: int = 1) -> RecordedTest:
    """A measurement of both actions that is off by the given noise [2, d + 1]."""
    rows = exact_rows(PROCESS)[stage - 1, state] + noise
    return RecordedTest(1, 1, stage, state, rows, np.array([0, 1]), refined=True)


def failure(rows: list[list[float]], iteration: int = 1) -> RecordedTest:
    """A failed test with given rows; where it happened does not matter."""
    return RecordedTest(iteration, 1, 1, 0, np.array(rows), np.arange(len(rows)), refined=True)


def test_deviation_of_hand_made_noise():
    test = measured(np.array([[0.01, 0.03, 0.04], [-0.02, 0.0, 0.0]]))
    assert uniform_deviation(PROCESS, test, norm=2.0) == pytest.approx(0.01 + 2 * 0.05)
    assert deviation_at(PROCESS, test, np.array([1.0, 0.0])) == pytest.approx(0.04)
    assert deviation_at(PROCESS, test, np.array([0.0, 0.0])) == pytest.approx(0.02)
    assert uniform_deviation(PROCESS, measured(np.zeros((2, 3))), norm=2.0) == 0.0


def test_uniform_deviation_is_attained_and_never_exceeded():
    rng = np.random.default_rng(0)
    test = measured(0.1 * rng.normal(size=(2, 3)))
    circle = np.linspace(0, 2 * np.pi, 4001)
    ball = 2.0 * np.column_stack([np.cos(circle), np.sin(circle)])
    seen = max(deviation_at(PROCESS, test, theta) for theta in ball)
    assert seen <= uniform_deviation(PROCESS, test, norm=2.0) <= seen + 1e-6


def test_rows_belong_to_their_actions():
    rows = exact_rows(PROCESS)[0, 2]
    swapped = RecordedTest(1, 1, 1, 2, rows[::-1], np.array([1, 0]))
    assert uniform_deviation(PROCESS, swapped, norm=1.0) == 0.0
    only_one = RecordedTest(1, 1, 1, 2, rows[1:], np.array([1]))
    assert uniform_deviation(PROCESS, only_one, norm=1.0) == 0.0
    assert uniform_deviation(PROCESS, replace(swapped, actions=np.array([0, 1])), 1.0) > 0.1


def test_event_of_lemma_any_direction():
    run = RecordedRun(np.zeros((1, 2)), (measured(np.full((2, 3), 0.01)),), norm=2.0)
    size = 0.01 + 2 * 0.01 * math.sqrt(2)
    kept = measured_in_any_direction(PROCESS, run, delta=36 * size * 1.001)
    assert kept.holds
    assert kept.worst == pytest.approx(size)
    assert not measured_in_any_direction(PROCESS, run, delta=36 * size * 0.999).holds
    assert measured_in_any_direction(PROCESS, replace(run, tests=()), delta=0.1).worst == 0.0


def test_event_of_lemma_at_theta_counts_refined_rows_only():
    test = measured(np.array([[0.02, 0.0, 0.0], [0.0, 0.0, 0.0]]))
    run = RecordedRun(np.zeros((1, 2)), (test,), norm=2.0)
    theta = np.ones(2)
    assert measured_at(PROCESS, run, theta, epsilon=0.41, eluder_bound=100).holds is True
    assert not measured_at(PROCESS, run, theta, epsilon=0.39, eluder_bound=100).holds
    assert measured_at(PROCESS, run, theta, 0.41, 100).allowed == pytest.approx(0.0205)
    rough = replace(run, tests=(replace(test, refined=False),))
    assert measured_at(PROCESS, rough, theta, epsilon=0.39, eluder_bound=100).holds


def test_retention_looks_at_products():
    run = RecordedRun(np.zeros((1, 1)), (failure([[0.3, 0.0], [0.0, -0.5]]),), norm=1.0)
    theta = np.array([0.4])
    assert retained(run, theta, scale=0.61, eluder_bound=25).holds
    assert retained(run, theta, scale=0.61, eluder_bound=25).worst == pytest.approx(0.06)
    assert not retained(run, theta, scale=0.59, eluder_bound=25).holds


def test_eluder_argument_of_hand_made_failures():
    # With d = 2 and theta° = 0 the first failure asks for theta_1, the second for theta_2.
    first = failure([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]], iteration=1)
    second = failure([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]], iteration=2)
    good = RecordedRun(np.array([[1.0, 0.0], [0.1, 1.0]]), (first, second), norm=2.0)
    origin = np.zeros(2)
    assert eluder_violations(good, origin, scale=0.9, eluder_bound=16) == ()
    weak = replace(good, thetas=np.array([[0.8, 0.0], [0.1, 1.0]]))
    broken = eluder_violations(weak, origin, scale=0.9, eluder_bound=16)
    assert broken == (EluderViolation(0, None, value=0.8, limit=0.9),)
    back = replace(good, thetas=np.array([[1.0, 0.0], [-0.5, 1.0]]))
    broken = eluder_violations(back, origin, scale=0.9, eluder_bound=16)
    assert broken == (EluderViolation(1, 0, value=0.5, limit=0.225),)
    untested = replace(back, tests=(replace(first, refined=False), second))
    assert eluder_violations(untested, origin, scale=0.9, eluder_bound=16) == ()


@pytest.mark.parametrize(("dim", "degree"), [(1, 3), (2, 2), (3, 3), (4, 1)])
def test_symmetric_tensor_against_the_full_one(dim: int, degree: int):
    rng = np.random.default_rng(dim)
    rows = rng.normal(size=(degree, dim + 1))
    full = rows[0]
    for row in rows[1:]:
        full = np.multiply.outer(full, row)
    wanted: dict[tuple[int, ...], float] = {}
    for index in product(range(dim + 1), repeat=degree):
        key = tuple(sorted(index))
        wanted[key] = wanted.get(key, 0.0) + float(full[index])
    found = symmetric_tensor(rows, degree)
    assert len(found) == math.comb(dim + degree, degree)
    np.testing.assert_allclose(found, [wanted[key] for key in sorted(wanted)])
    for order in permutations(range(degree)):
        np.testing.assert_allclose(symmetric_tensor(rows[list(order)], degree), found)


def test_missing_actions_are_factors_of_one():
    rows = np.array([[2.0, 3.0]])
    np.testing.assert_allclose(symmetric_tensor(rows, 2), [2.0, 3.0, 0.0])


def test_independent_and_dependent_failures():
    rng = np.random.default_rng(3)
    count = math.comb(2 + 2, 2)
    tests = tuple(failure(rng.normal(size=(2, 3)).tolist()) for _ in range(count + 1))
    run = RecordedRun(np.zeros((1, 2)), tests[:count], norm=1.0)
    assert independent_tensors(run)
    assert tensor_rank(run) == count
    assert tensor_rank(replace(run, tests=tests)) == count
    assert not independent_tensors(replace(run, tests=tests))
    first = tests[0].rows
    turned = failure([(-5 * first[1]).tolist(), first[0].tolist()])
    assert not independent_tensors(replace(run, tests=(tests[0], turned)))
    assert not independent_tensors(replace(run, tests=(failure([[0.0, 0.0]]),)))
    assert independent_tensors(replace(run, tests=()))


def draw(count: int, seed: int) -> list[RecordedRollout]:
    """Rollouts of the policy that always plays action 0."""
    simulator, rng = TableSimulator(PROCESS), np.random.default_rng(seed)
    rollouts: list[RecordedRollout] = []
    for _ in range(count):
        states, rewards = [0], list[float]()
        for stage in (1, 2, 3):
            step = simulator.step(np.array(states[-1:]), stage, np.zeros(1, np.int64), rng)
            rewards.append(float(step.rewards[0]))
            states.append(int(step.states[0]))
        rollouts.append(RecordedRollout(np.array(states), np.zeros(3, np.int64), np.array(rewards)))
    return rollouts


def test_event_of_lemma_value_accurate():
    theta = np.array([1.0, -2.0])
    policy = np.zeros((3, 4), np.int64)
    rollouts = draw(4000, seed=5)
    check = rollout_average(PROCESS, rollouts, policy, theta, delta=1.0)
    errors = exact_rows(PROCESS) @ np.array([1.0, *theta])
    sums = [errors[[0, 1, 2], path.states[:-1], 0].sum() for path in rollouts]
    # Five standard errors: wrong once in about two million seeds.
    assert 0 < check.worst < 5 * float(np.std(sums)) / math.sqrt(len(sums))
    assert check.allowed == 0.25
    few = [rollouts[int(np.argmax(sums))]] * 10
    assert not rollout_average(PROCESS, few, policy, theta, delta=0.1).holds
    other = np.ones((3, 4), np.int64)
    assert not rollout_average(PROCESS, rollouts, other, theta, delta=0.3).holds
    assert rollout_average(PROCESS, rollouts, policy, theta, delta=0.3).holds


def test_rollouts_of_a_deterministic_policy_without_noise_are_exact():
    process = two_states(horizon=3, discount=0.5)
    path = RecordedRollout(np.array([0, 1, 1, 1]), np.array([1, 0, 0]), np.array([0.0, 1.0, 1.0]))
    policy = np.array([[1, 0], [0, 0], [0, 0]])
    theta = np.array([0.3, 0.7])
    assert rollout_average(process, [path], policy, theta, delta=0.0).worst < 1e-15
    with pytest.raises(SettingError, match="no rollouts"):
        rollout_average(process, [], policy, theta, delta=0.1)


def test_telescoping_of_full_ended_and_cut_paths():
    process = two_states(horizon=3, discount=0.5)
    theta = np.array([0.3, 0.7])
    full = RecordedRollout(np.array([0, 1, 1, 1]), np.array([1, 0, 0]), np.array([0.0, 1.0, 1.0]))
    assert telescoped(process, full, theta) == pytest.approx((0.75, 0.75))
    cut = RecordedRollout(np.array([0, 1, 1]), np.array([1, 0]), np.array([0.0, 1.0]))
    assert telescoped(process, cut, theta) == pytest.approx((0.5 + 0.25 * 0.7,) * 2)
    ends = replace(process, terminated=np.ones_like(process.terminated))
    short = RecordedRollout(np.array([0, 1]), np.array([1]), np.array([0.0]), terminated=True)
    assert telescoped(ends, short, theta) == pytest.approx((0.0, 0.0))
    endless = replace(process, spec=Spec(2, 2, None, discount=0.5))
    assert telescoped(endless, full, theta) == pytest.approx((0.75 + 0.7 / 8,) * 2)


@pytest.mark.parametrize(
    ("states", "actions", "rewards", "message"),
    [
        ([1, 1], [0], [1.0], "does not start there"),
        ([0, 1], [0], [0.1], "no such outcome"),
        ([0, 1], [1], [0.5], "no such outcome"),
        ([0, 0, 0, 0, 0], [0] * 4, [0.1] * 4, "has 3 stages"),
    ],
)
def test_paths_that_the_process_cannot_take(
    states: list[int], actions: list[int], rewards: list[float], message: str
):
    path = RecordedRollout(np.array(states), np.array(actions), np.array(rewards))
    with pytest.raises(SettingError, match=message):
        telescoped(two_states(horizon=3), path, np.zeros(2))


def test_paths_that_end_or_move_as_the_process_does_not():
    process, theta = two_states(horizon=3), np.zeros(2)
    path = RecordedRollout(np.array([0, 1]), np.array([1]), np.array([0.0]))
    assert telescoped(process, path, theta) == (0.0, 0.0)
    with pytest.raises(SettingError, match="no such outcome"):
        telescoped(process, replace(path, terminated=True), theta)
    masked = replace(process, allowed=np.array([[True, False], [True, True]]))
    with pytest.raises(SettingError, match="no such outcome"):
        telescoped(masked, path, theta)


def test_malformed_records_are_refused():
    with pytest.raises(SettingError, match="one row for each of its actions"):
        RecordedTest(1, 1, 1, 0, np.zeros((2, 3)), np.array([0]))
    with pytest.raises(SettingError, match="iteration 2"):
        RecordedRun(np.zeros((1, 1)), (failure([[1.0, 0.0]], iteration=2),), norm=1.0)
    with pytest.raises(SettingError, match="L \\+ 1 states"):
        RecordedRollout(np.array([0]), np.array([0]), np.array([0.1]))
    for stage, state, action in ((0, 0, 0), (4, 0, 0), (1, 4, 0), (1, 0, 2)):
        alien = RecordedTest(1, 1, stage, state, np.zeros((1, 3)), np.array([action]))
        with pytest.raises(SettingError, match="a test at stage"):
            uniform_deviation(PROCESS, alien, norm=1.0)
