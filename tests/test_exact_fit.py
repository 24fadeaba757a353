"""Best linear fits in the largest error, and parameters of least norm."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import LinearConstraint, minimize
from test_exact_worlds import planted, random_process, rotation, slow_policies, two_states

from tensorplan.errors import SettingError
from tensorplan.exact import best_linear_fit, best_realizable, evaluate, reachable, solve
from tensorplan.exact.fit import fit_rows, largest_error, least_norm_point
from tensorplan.records import FloatArray, Spec


def test_chebyshev_line_through_a_parabola():
    x = np.linspace(-1, 1, 9)
    fit = fit_rows(np.column_stack([np.ones_like(x), x]), x**2)
    assert fit.misfit == pytest.approx(0.5, abs=1e-12)
    np.testing.assert_allclose(fit.theta, [0.5, 0.0], atol=1e-7)


def test_constant_between_two_values():
    fit = fit_rows(np.ones((3, 1)), np.array([0.0, 0.2, 1.0]))
    assert fit.misfit == pytest.approx(0.5, abs=1e-12)
    assert fit.theta == pytest.approx([0.5], abs=1e-8)


@pytest.mark.parametrize("seed", range(3))
def test_misfit_against_a_grid(seed: int):
    rng = np.random.default_rng(seed)
    matrix, targets = rng.normal(size=(7, 2)), rng.normal(size=7)
    fit = fit_rows(matrix, targets)
    line = np.linspace(-3, 3, 1201)
    grid = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
    best = np.full(len(grid), 0.0)
    for row, target in zip(matrix, targets, strict=True):
        np.maximum(best, np.abs(grid @ row - target), out=best)
    steepest = float(np.linalg.norm(matrix, axis=1).max())
    assert np.abs(fit.theta).max() < 3
    assert fit.misfit - 1e-9 <= best.min() <= fit.misfit + steepest * 0.005


def test_exact_values_have_no_misfit_and_the_least_parameter():
    matrix = np.array([[1.0, 1.0], [2.0, 2.0]])
    fit = fit_rows(matrix, np.array([1.0, 2.0]))
    assert fit.misfit == 0.0
    np.testing.assert_allclose(fit.theta, [0.5, 0.5])


def slsqp(matrix: FloatArray, targets: FloatArray, width: float) -> FloatArray:
    """The point of least norm in the slabs, by a general solver."""
    sides = LinearConstraint(matrix, targets - width, targets + width)
    start = np.linalg.lstsq(matrix, targets)[0]
    answer = minimize(
        lambda theta: float(theta @ theta),
        start,
        jac=lambda theta: 2 * theta,
        constraints=[sides],
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert answer.success
    return np.asarray(answer.x, dtype=np.float64)


@pytest.mark.parametrize("seed", range(20))
def test_least_norm_against_a_general_solver(seed: int):
    rng = np.random.default_rng(seed)
    matrix, targets = rng.normal(size=(8, 3)), 3 * rng.normal(size=8)
    width = 1.3 * fit_rows(matrix, targets).misfit
    found = least_norm_point(matrix, targets, width)
    assert found is not None
    assert largest_error(matrix, targets, found) <= width + 1e-9
    np.testing.assert_allclose(found, slsqp(matrix, targets, width), atol=1e-5)


@pytest.mark.parametrize("seed", range(5))
def test_least_norm_among_best_fits_when_many_are_best(seed: int):
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(6, 2)) @ rng.normal(size=(2, 4))
    targets = rng.normal(size=6)
    fit = fit_rows(matrix, targets)
    outside = np.linalg.svd(matrix)[2][2:]
    np.testing.assert_allclose(outside @ fit.theta, 0.0, atol=1e-8)
    assert largest_error(matrix, targets, fit.theta) == pytest.approx(fit.misfit, abs=1e-8)
    assert np.linalg.norm(slsqp(matrix, targets, fit.misfit + 1e-7)) == pytest.approx(
        float(np.linalg.norm(fit.theta)), abs=1e-4
    )


def test_slabs_without_a_common_point():
    matrix, targets = np.ones((2, 1)), np.array([0.0, 1.0])
    assert least_norm_point(matrix, targets, 0.49) is None
    assert least_norm_point(matrix, targets, 0.5 + 1e-9) == pytest.approx([0.5])
    assert least_norm_point(np.zeros((1, 1)), np.array([1.0]), 0.9) is None
    assert least_norm_point(np.zeros((1, 1)), np.array([1.0]), 1.1) == pytest.approx([0.0])


@pytest.mark.parametrize("spec", [Spec(2, 2, 3), Spec(2, 2, None, discount=0.7)])
def test_rotated_features_turn_the_parameter(spec: Spec):
    process = random_process(5, spec, states=5, end=0.1)
    turn = rotation(2, 1)
    values = solve(process).values
    before = best_linear_fit(process, values)
    after = best_linear_fit(process.with_features(process.feature_table @ turn), values)
    assert before.misfit > 0.1
    assert after.misfit == pytest.approx(before.misfit, abs=1e-9)
    np.testing.assert_allclose(after.theta, turn.T @ before.theta, atol=1e-7)


def test_states_that_no_episode_reaches_do_not_count():
    process = random_process(3, Spec(2, 2, 3), states=6, end=0.2)
    values = solve(process).values
    fit = best_linear_fit(process, values)
    spoiled = np.where(np.vstack([reachable(process), np.zeros(6, np.bool_)]), values, 99.0)
    assert (spoiled != values).any()
    assert fit.misfit > 0.01
    for ignored in (spoiled, spoiled[:3]):
        assert best_linear_fit(process, ignored).misfit == fit.misfit
        np.testing.assert_array_equal(best_linear_fit(process, ignored).theta, fit.theta)


def test_the_least_misfit_of_a_planted_process_is_zero():
    process = planted(random_process(1, Spec(2, 3, 3)), seed=1, norm=2.0)
    misfits = [
        best_linear_fit(process, evaluate(process, policy).values).misfit
        for policy in slow_policies(process)
    ]
    best = best_realizable(process, bound=2.0 + 1e-6)
    assert best is not None
    assert min(misfits) == 0.0
    assert misfits.count(0.0) < len(misfits)
    values = evaluate(process, best.policy).values
    np.testing.assert_allclose(best_linear_fit(process, values).theta, best.theta, atol=1e-9)


def test_values_of_the_wrong_shape_are_refused():
    process = two_states(horizon=3)
    with pytest.raises(SettingError, match=r"3 or 4 rows of 2 numbers"):
        best_linear_fit(process, np.zeros((2, 2)))
    endless = replace(process, spec=Spec(2, 2, None, discount=0.5))
    with pytest.raises(SettingError, match=r"must have 1 rows"):
        best_linear_fit(endless, np.zeros((2, 2)))
