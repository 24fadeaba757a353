"""Exact temporal-difference rows, and the identity that they telescope to."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_exact_values import SPECS, any_policy
from test_exact_worlds import planted, random_process, slow_values, two_states

from tensorplan.exact import exact_rows, solve, value_identity
from tensorplan.finite import TableSimulator
from tensorplan.records import Spec


def test_rows_of_a_hand_example():
    rows = exact_rows(two_states(horizon=2, discount=0.5))
    np.testing.assert_allclose(rows[0, 0], [[0.1, -0.5, 0.0], [0.0, -1.0, 0.5]])
    np.testing.assert_allclose(rows[0, 1], [[1.0, 0.0, -0.5]] * 2)
    np.testing.assert_allclose(rows[1, 0], [[0.1, -1.0, 0.0], [0.0, -1.0, 0.0]])
    endless = exact_rows(two_states(horizon=None, discount=0.5))
    np.testing.assert_allclose(endless[0], rows[0])


@pytest.mark.parametrize("spec", SPECS)
def test_rows_are_means_of_simulated_rows(spec: Spec):
    process = random_process(8, spec, end=0.4)
    rng, count, simulator = np.random.default_rng(1), 40_000, TableSimulator(process)
    states = np.full(count, 1)
    step = simulator.step(states, 1, np.full(count, 1), rng)
    seen = simulator.features(step.states, 1 if spec.horizon is None else 2)
    ahead = np.where(step.terminated[:, None], 0.0, spec.discount * seen)
    rows = np.column_stack([step.rewards, ahead - simulator.features(states, 1)])
    # Six standard errors in each of three coordinates: wrong once in about 10^8 seeds.
    error = 6 * rows.std(axis=0) / count**0.5
    assert np.all(np.abs(rows.mean(axis=0) - exact_rows(process)[0, 1, 1]) <= error)


def test_unavailable_actions_have_zero_rows():
    process = random_process(3, Spec(3, 2, 2), mask=0.5)
    assert not process.allowed.all()
    assert not exact_rows(process)[:, ~process.allowed].any()


@pytest.mark.parametrize("spec", SPECS)
def test_the_chosen_rows_vanish_at_a_parameter_that_realizes_the_policy(spec: Spec):
    process = random_process(4, spec, end=0.2)
    policy = solve(process).policy
    values = slow_values(process, policy)[: len(policy)]
    direct = process.with_features(np.stack([values, np.ones_like(values)], axis=2))
    errors = exact_rows(direct) @ np.array([1.0, 1.0, 0.0])
    np.testing.assert_allclose(errors.max(axis=2), 0.0, atol=1e-12)
    assert errors.min() < -1e-3


@pytest.mark.parametrize("spec", SPECS)
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000), size=st.floats(0, 100))
def test_value_identity_for_any_policy_and_parameter(spec: Spec, seed: int, size: float):
    process = random_process(seed, spec, end=0.2, mask=0.2)
    theta = size * np.random.default_rng(seed).normal(size=2)
    left, right = value_identity(process, any_policy(process, seed), theta)
    assert right == pytest.approx(left, abs=1e-11 * (1 + size))


def test_value_identity_has_no_error_terms_at_a_realizing_parameter():
    process = planted(random_process(1, Spec(2, 3, 3)), seed=1)
    zero = np.zeros(3)
    policy = solve(process).policy
    left, right = value_identity(process, policy, zero)
    assert left == pytest.approx(right)
    assert left > 0.1
