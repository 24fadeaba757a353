"""Realizable policies, the best of them, and the claim of soundness."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from paper_reference import plan
from test_exact_worlds import (
    permuted,
    planted,
    random_process,
    rotation,
    slow_pairs,
    slow_policies,
    slow_values,
    two_states,
)

from tensorplan.errors import SettingError
from tensorplan.exact import (
    best_linear_fit,
    best_realizable,
    best_realizable_value,
    evaluate,
    realizable_policies,
    realized,
    solve,
    soundness,
    start_value,
)
from tensorplan.finite import FiniteProcess, from_table
from tensorplan.records import Spec, Status

SPECS = [
    Spec(2, 2, 3),
    Spec(2, 3, 3),
    Spec(3, 2, 2, discount=0.7),
    Spec(2, 2, None, discount=0.8),
    Spec(3, 3, None, discount=0.5),
]
Found = dict[tuple[int, ...], tuple[float, float]]


def slow_realizable(process: FiniteProcess, bound: float) -> Found:
    """Every policy that a least-squares fit reproduces: {actions: (value, norm)}."""
    live = tuple(np.transpose(slow_pairs(process)))
    table = np.broadcast_to(
        process.feature_table, (process.spec.horizon or 1, *process.feature_table.shape[1:])
    )
    found: Found = {}
    for policy in slow_policies(process):
        values = slow_values(process, policy)
        theta = np.linalg.lstsq(table[live], values[live])[0]
        gap = float(np.abs(table[live] @ theta - values[live]).max())
        norm = float(np.linalg.norm(theta))
        if gap < 1e-8 and norm <= bound:
            found[tuple(policy[live].tolist())] = (start_value(process, values), norm)
    return found


def listed(process: FiniteProcess, bound: float, eta: float = 0.0) -> Found:
    """The referee's own list in the same form."""
    live = tuple(np.transpose(slow_pairs(process)))
    return {
        tuple(each.policy[live].tolist()): (each.value, float(np.linalg.norm(each.theta)))
        for each in realizable_policies(process, bound, eta)
    }


def same(first: Found, second: Found) -> bool:
    """Whether two lists hold the same policies with the same values and norms."""
    return first.keys() == second.keys() and all(
        first[key] == pytest.approx(second[key], abs=1e-7) for key in first
    )


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("seed", range(8))
def test_list_and_best_value_agree_with_all_policies(spec: Spec, seed: int):
    process = random_process(seed, spec, end=0.15, mask=0.15)
    if seed % 2:  # many rewards of 0: equations that hold at theta = 0, but not everywhere
        process = replace(process, rewards=np.round(process.rewards))
    process = planted(process, seed)
    for bound in (1.5, 2.0 + 1e-6, math.inf):
        slow = slow_realizable(process, bound)
        assert same(listed(process, bound), slow)
        best = max((value for value, _ in slow.values()), default=-math.inf)
        assert best_realizable_value(process, bound) == pytest.approx(best, abs=1e-9)
        assert slow or bound < 2


@pytest.mark.parametrize("spec", SPECS)
def test_equal_actions_are_listed_apart(spec: Spec):
    process = planted(random_process(3, spec), seed=3)
    doubled = permuted(process, [0, *range(spec.actions)])
    slow = slow_realizable(doubled, 5.0)
    assert len(slow) > len(slow_realizable(process, 5.0)) > 0
    assert same(listed(doubled, 5.0), slow)
    assert best_realizable_value(doubled, 5.0) == pytest.approx(best_realizable_value(process, 5.0))


@pytest.mark.parametrize("seed", range(3))
def test_redundant_features_leave_many_parameters_and_one_value(seed: int):
    process = planted(random_process(seed, Spec(2, 2, 3)), seed)
    wide = np.concatenate([process.feature_table, process.feature_table], axis=2)
    doubled = process.with_features(wide)
    slow = slow_realizable(doubled, math.inf)
    assert same(listed(doubled, math.inf), slow)
    best = best_realizable(doubled, bound=2.0)
    single = best_realizable(process, bound=2.0 * math.sqrt(2))
    assert best is not None
    assert single is not None
    assert best.value == pytest.approx(single.value)
    np.testing.assert_allclose(best.theta, np.tile(single.theta, 2) / 2, atol=1e-9)


def test_two_hundred_processes_are_refereed():
    rng = np.random.default_rng(0)
    above = 0
    for seed in range(200):
        spec = Spec(int(rng.integers(2, 4)), int(rng.integers(2, 5)), int(rng.integers(2, 5)))
        process = planted(random_process(seed, spec, states=6), seed, norm=3.0)
        best = best_realizable(process, bound=3.0 + 1e-9)
        assert best is not None
        values = evaluate(process, best.policy).values
        fit = best_linear_fit(process, values)
        assert fit.misfit < 1e-7
        assert np.linalg.norm(best.theta) <= 3.0 + 1e-6
        assert best.value <= start_value(process, solve(process).values) + 1e-12
        above += best.value > min(p.value for p in realizable_policies(process, 3.0 + 1e-9)) + 1e-3
    assert above > 5


def test_the_bound_decides():
    process = two_states(horizon=None, discount=0.5).with_features(np.array([[[1.0], [2.0]]]))
    assert realizable_policies(process, bound=0.999) == ()
    assert best_realizable(process, bound=0.999) is None
    assert best_realizable_value(process, bound=0.999) == -math.inf
    best = best_realizable(process, bound=1.0)
    assert best is not None
    assert best.value == pytest.approx(1.0)
    assert best.policy[0, 0] == 1
    np.testing.assert_allclose(best.theta, [1.0])


def test_a_realizable_policy_that_is_not_optimal():
    process = two_states(horizon=None, discount=0.9).with_features(np.array([[[0.1], [1.0]]]))
    best = best_realizable(process, bound=20.0)
    assert best is not None
    assert best.value == pytest.approx(1.0)
    assert solve(process).values[0, 0] == pytest.approx(9.0)


@pytest.mark.parametrize("exponent", range(-14, -5))
@pytest.mark.parametrize("factor", [1.0, 2.0, 4.0, 7.0])
def test_the_referee_forgives_no_more_than_the_planner(exponent: int, factor: float):
    """One action, two stages, and features that miss the value by a little: .5 (1 + e) theta."""
    error = factor * 10.0**exponent
    features = np.array([[[1.0]], [[0.5 * (1 + error)]]])
    spec = Spec(1, 1, 2, bound=1.5, deterministic=True)
    simulator = from_table([[[(1.0, 0, 0.5, False)]]], features, spec)
    best = best_realizable_value(simulator.process, 1.5)
    made = plan(simulator, delta=0.1, exact=True)
    if error <= 1e-10:
        assert best == pytest.approx(1.0)
    if error >= 1e-7:
        assert best == -np.inf
        assert made.status is Status.REJECTED
    if best > -np.inf:
        assert made.status is Status.CLEAN
        assert made.certificate.upper is not None
        assert made.certificate.upper >= best


def test_states_that_no_episode_reaches_do_not_spoil_a_policy():
    ended = [(1.0, 1, 1.0, True)]
    table = [[ended], [[(1.0, 1, 1.0, False)]]]
    process = from_table(table, np.ones((2, 1)), Spec(1, 1, 2)).process
    assert best_realizable_value(process, bound=1.0) == pytest.approx(1.0)
    seen = replace(process, start_probabilities=np.array([0.5, 0.5]))
    assert best_realizable_value(seen, bound=10.0) == -math.inf


@pytest.mark.parametrize("seed", range(5))
def test_rotated_features_and_renamed_actions(seed: int):
    process = planted(random_process(seed, Spec(3, 3, 3)), seed)
    before = best_realizable(process, bound=4.0)
    assert before is not None
    turn = rotation(3, seed)
    turned = best_realizable(process.with_features(process.feature_table @ turn), bound=4.0)
    assert turned is not None
    assert turned.value == pytest.approx(before.value)
    np.testing.assert_allclose(turned.theta, turn.T @ before.theta, atol=1e-8)
    renamed = permuted(process, [1, 2, 0])
    assert best_realizable_value(renamed, bound=4.0) == pytest.approx(before.value)
    assert len(listed(renamed, 4.0)) == len(listed(process, 4.0))


def test_best_value_does_not_list_what_the_limit_forbids():
    process = random_process(1, Spec(3, 2, 4), states=6)
    flat = replace(process, rewards=np.zeros_like(process.rewards))
    with pytest.raises(SettingError, match="more than limit=50 realizable policies"):
        realizable_policies(flat, bound=1.0, limit=50)
    best = best_realizable(flat, bound=1.0)
    assert best is not None
    assert best.value == 0.0
    np.testing.assert_array_equal(best.theta, 0.0)


@pytest.mark.parametrize("spec", SPECS[:1] + SPECS[3:4])
@pytest.mark.parametrize("seed", range(5))
def test_misspecified_list_agrees_with_all_policies(spec: Spec, seed: int):
    process = random_process(seed, spec, end=0.2, mask=0.1)
    live = tuple(np.transpose(slow_pairs(process)))
    fits = {
        tuple(policy[live].tolist()): best_linear_fit(process, slow_values(process, policy))
        for policy in slow_policies(process)
    }
    for eta in np.quantile([fit.misfit for fit in fits.values()], [0.3, 0.8]) + 1e-6:
        wanted = {key for key, fit in fits.items() if fit.misfit <= eta}
        assert wanted
        assert listed(process, math.inf, eta).keys() == wanted
        some = listed(process, 1.0, eta)
        assert some.keys() <= wanted
        assert all(norm <= 1.0 + 1e-8 for _, norm in some.values())
        certain = {key for key in wanted if np.linalg.norm(fits[key].theta) <= 1.0}
        assert certain <= some.keys()
        best = max((value for value, _ in some.values()), default=-math.inf)
        assert best_realizable_value(process, 1.0, eta) == pytest.approx(best)


@pytest.mark.parametrize("spec", [SPECS[0], SPECS[3]])
def test_misspecification_and_bound_only_help(spec: Spec):
    process = planted(random_process(4, spec), seed=4)
    exact = best_realizable_value(process, 2.0 + 1e-6)
    assert best_realizable_value(process, 2.0 + 1e-6, 1e-7) == pytest.approx(exact)
    for bound in (1.0, 2.0 + 1e-6, 5.0):
        row = [best_realizable_value(process, bound, eta) for eta in (0.0, 0.1, 0.5, 10.0)]
        assert row == sorted(row)
        assert row[-1] == pytest.approx(start_value(process, solve(process).values))
    column = [best_realizable_value(process, bound, 0.1) for bound in (0.1, 1.0, 2.0, 5.0)]
    assert column == sorted(column)


def test_misspecified_search_names_its_limit():
    process = random_process(1, Spec(3, 2, 4), states=6)
    with pytest.raises(SettingError, match="more than limit=100 partial policies"):
        realizable_policies(process, 10.0, 5.0, limit=100)
    with pytest.raises(SettingError, match="more than limit=10 partial policies"):
        best_realizable_value(process, 10.0, 0.6, limit=10)
    every = realizable_policies(random_process(1, SPECS[0]), math.inf, 50.0, limit=500)
    assert len(every) == len(list(slow_policies(random_process(1, SPECS[0]))))


def test_a_large_process_is_easy_where_its_optimum_is_realizable():
    process = random_process(2, Spec(4, 40, 30), states=40)
    table = process.with_features(np.tile(np.eye(40), (30, 1, 1)))
    assert best_realizable(table, math.inf) is None
    values = solve(process).values[:-1]
    direct = process.with_features(np.stack([values, np.ones_like(values)], axis=2))
    for eta in (0.0, 0.01):
        best = best_realizable(direct, 1.0, eta)
        assert best is not None
        assert best.value == pytest.approx(values[0, 0])
        np.testing.assert_allclose(best.theta, [1.0, 0.0], atol=2 * eta + 1e-9)


@pytest.mark.parametrize("spec", SPECS[:1] + SPECS[3:4])
def test_one_policy_is_realized_by_the_parameter_that_was_planted(spec: Spec):
    process = planted(random_process(5, spec), seed=5, norm=2.0)
    (first, *_) = realizable_policies(process, bound=2.0 + 1e-6)
    again = realized(process, first.policy, bound=2.0 + 1e-6)
    assert again is not None
    np.testing.assert_array_equal(again.theta, first.theta)
    assert realized(process, first.policy, bound=0.9 * float(np.linalg.norm(first.theta))) is None
    loose = realized(process, first.policy, bound=2.0, eta=0.1)
    assert loose is not None
    assert np.linalg.norm(loose.theta) < np.linalg.norm(first.theta)


@pytest.mark.parametrize(
    ("bound", "eta"), [(0.0, 0.0), (math.nan, 0.0), (1.0, -0.1), (1.0, math.inf)]
)
def test_bad_bounds_are_refused(bound: float, eta: float):
    with pytest.raises(SettingError, match=r"bound=|eta="):
        best_realizable(two_states(2), bound, eta)


def test_soundness_of_a_value_and_of_a_policy():
    process = two_states(horizon=None, discount=0.5).with_features(np.array([[[1.0], [2.0]]]))
    good = soundness(process, np.array([[1, 0]]), delta=0.0, bound=1.0)
    assert good.holds
    assert good.value == pytest.approx(1.0)
    assert good.slack == pytest.approx(0.0)
    stay = np.array([[0, 0]])
    assert not soundness(process, stay, delta=0.79, bound=1.0).holds
    assert soundness(process, stay, delta=0.81, bound=1.0).slack == pytest.approx(0.01)
    assert soundness(process, 0.5, delta=0.4, bound=1.0).slack == pytest.approx(-0.1)
    vacuous = soundness(process, 0.0, delta=0.0, bound=0.5)
    assert vacuous.holds
    assert vacuous.best_realizable == -math.inf
    assert soundness(process, 0.0, delta=0.0, bound=0.5, eta=5.0).best_realizable == 1.0
