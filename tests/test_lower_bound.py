"""The lower bound of thm:lb: its processes, and its adversary against every baseline."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from tensorplan.baselines.lookahead import Lookahead
from tensorplan.baselines.memory import Memory
from tensorplan.baselines.protocol import LocalPlanner
from tensorplan.baselines.uniform import Uniform
from tensorplan.errors import AccessError, QueryBudgetError, SettingError
from tensorplan.experiments.adversary import Challenge, challenge
from tensorplan.local import Handle, LocalAccess
from tensorplan.problems import lower_bound as module
from tensorplan.problems.lower_bound import FAMILY, LowerBound
from tensorplan.records import Phase, States
from tensorplan.theory import lower_bound

RNG = np.random.default_rng(0)
Factory = Callable[[int], LocalPlanner]
BASELINES: dict[str, Callable[[int, int], LocalPlanner]] = {
    "uniform": lambda seed, budget: Uniform(seed),
    "lookahead": Lookahead,
    "memory": Memory,
}
CASES = [
    (dim, budget)
    for dim in range(2, 14)
    for budget in (0, 1, 2 * dim - 1)
    if lower_bound(dim, budget) >= Fraction(1, 2)
]


def grid(dim: int) -> States:
    """All 3^(D-1) states."""
    return np.array(list(itertools.product((-1, 0, 1), repeat=dim - 1)), dtype=np.int8)


def run(planner: Factory, dim: int = 6, budget: int = 0, runs: int = 4) -> Challenge:
    return challenge(planner, dim, budget, range(runs))


# The processes


@pytest.mark.parametrize("dim", [2, 3, 4, 5])
@pytest.mark.parametrize("seed", range(3))
def test_optimal_value_by_value_iteration(dim: int, seed: int) -> None:
    process, states = module.build(dim=dim, seed=seed), grid(dim)
    allowed = process.allowed(states, 1)
    rewards, following = np.full(allowed.shape, -np.inf), np.zeros(allowed.shape, np.int64)
    for action in range(process.spec.actions):
        step = process.step(states, 1, np.full(len(states), action), RNG)
        rewards[allowed[:, action], action] = step.rewards[allowed[:, action]]
        following[:, action] = (step.states + 1) @ 3 ** np.arange(dim - 1)[::-1]
    values = np.zeros(len(states))
    for _ in range(2 * dim):  # no goal is further away than 2(D-1) steps
        values = (rewards + values[following]).max(axis=1)
    np.testing.assert_allclose(values, process.values(states), atol=1e-12)
    np.testing.assert_allclose(values, process.features(states, 1) @ process.theta, atol=1e-12)
    assert values.min() == pytest.approx(-2)
    start = process.start(RNG)
    assert process.values(start) == FAMILY.reference(dim=dim, seed=seed) == -1


@pytest.mark.parametrize("dim", [2, 3, 7])
def test_features_are_bounded_only_when_rescaled(dim: int) -> None:
    process = LowerBound(dim, [1] * (dim - 1))
    norms = np.linalg.norm(process.features(grid(dim), 1), axis=1)
    assert norms.max() == pytest.approx(1)
    as_printed = np.linalg.norm(np.r_[1, np.ones(dim - 1) / (dim - 1)])
    assert as_printed > 1
    assert np.linalg.norm(process.theta) == pytest.approx(dim / np.sqrt(dim - 1))
    bound = process.spec.bound
    assert bound is not None
    assert bound > np.linalg.norm(process.theta)


def test_moves_costs_and_masks() -> None:
    process = LowerBound(3, [1, -1])
    states = np.array([[0, 0], [1, -1], [1, 1]], dtype=np.int8)
    assert process.allowed(states, 1).tolist() == [
        [True, True, True, True, True],
        [False, True, True, False, True],
        [False, False, True, True, True],
    ]
    corner = np.repeat(states[1:2], 5, axis=0)
    step = process.step(corner, 1, np.arange(5), RNG)
    assert step.rewards.tolist() == [-0.5, -0.5, -0.5, -0.5, 0.0]
    assert step.states.tolist() == [[1, -1], [1, 0], [0, -1], [1, -1], [1, -1]]
    assert step.states.dtype == states.dtype
    assert not step.terminated.any()
    empty = LowerBound(3).step(corner, 1, np.arange(5), RNG)
    assert np.all(empty.rewards == -0.5)


def test_settings_are_checked() -> None:
    for goal in ([1, 0], [1, 1, 1], [2, 1]):
        with pytest.raises(SettingError, match="must be a corner"):
            LowerBound(3, goal)
    with pytest.raises(SettingError, match="dim=1"):
        LowerBound(1)
    with pytest.raises(SettingError, match="without a goal"):
        module.build(seed=None).values(grid(6))
    assert FAMILY.reference(seed=None) is None
    goals = {tuple(module.build(dim=9, seed=seed).theta) for seed in range(10)}
    assert len(goals) > 5


# The adversary


@pytest.mark.parametrize("name", BASELINES)
@pytest.mark.parametrize(("dim", "budget"), CASES)
def test_every_baseline_suffers_the_corrected_bound(name: str, dim: int, budget: int) -> None:
    result = run(lambda seed: BASELINES[name](seed, budget), dim, budget, 4 if dim < 11 else 2)
    assert result.mean >= result.corrected >= 0.5
    assert result.seen <= 0.5
    blind = result.calls / (dim - 1) - 1
    unseen = round((1 - result.seen) * len(result.suboptimality))
    assert sum(loss == pytest.approx(blind) for loss in result.suboptimality) >= unseen


@pytest.mark.parametrize(("dim", "budget", "bound"), [(8, 1, 1.79), (12, 23, 1.41)])
def test_figures_of_the_corrected_bound(dim: int, budget: int, bound: float) -> None:
    result = run(Uniform, dim, budget, 2)
    assert float(result.corrected) == pytest.approx(bound, abs=0.005)
    assert result.mean == pytest.approx(2 * bound, abs=0.01)  # no run saw the goal


@pytest.mark.parametrize(("dim", "budget"), CASES)
def test_printed_bound_does_not_follow_from_the_proof(dim: int, budget: int) -> None:
    """Half of the runs pay for N calls (A26): that is less than the theorem states."""
    calls = 2 ** (dim - 2) // (budget + 1)
    proved = Fraction(1, 2) * (Fraction(calls, dim - 1) - 1)
    assert lower_bound(dim, budget) == proved
    assert lower_bound(dim, budget, corrected=False) > proved


class Tourist:
    """Walks straight to the corner of its seed, and back to the middle, and so on."""

    def __init__(self, seed: int, dim: int) -> None:
        axes = range(dim - 1)
        self.route = [axis if seed >> axis & 1 else dim - 1 + axis for axis in axes]
        back = [dim - 1 + axis if seed >> axis & 1 else axis for axis in axes]
        self.actions = [*self.route, 2 * (dim - 1), *back]

    def act(self, access: LocalAccess, here: Handle, call: int) -> int:
        return self.actions[call % len(self.actions)]


def test_goal_goes_to_the_corner_that_the_fewest_runs_have_seen() -> None:
    dim = 5  # 16 corners, 8 calls: each run sees its own corner, stays and turns round
    most = challenge(lambda seed: Tourist(seed, dim), dim, 0, [0, *range(2, 16)])
    assert most.goal == (1, -1, -1, -1)  # the only one that nobody visits
    assert most.seen == 0
    everyone = challenge(lambda seed: Tourist(seed, dim), dim, 0, [*range(16), 7])
    assert everyone.seen == 1 / 17
    assert everyone.goal == (-1, -1, -1, -1)  # visited once, the first of those
    spoilt = everyone.suboptimality[0]
    assert all(loss == 1 for loss in everyone.suboptimality[1:])
    assert spoilt == 0.75  # it stayed at the goal once, for nothing


def test_a_run_that_finds_the_goal_loses_nothing() -> None:
    class Settler(Tourist):
        def act(self, access: LocalAccess, here: Handle, call: int) -> int:
            return self.actions[min(call, 5)]

    result = challenge(lambda seed: Settler(seed, 6), 6, 0, range(32))
    assert result.seen == 1 / 32
    assert result.suboptimality[0] == 0
    assert all(loss > 2 for loss in result.suboptimality[1:])


def test_suboptimality_is_never_counted_as_negative() -> None:
    result = run(Uniform, budget=3)
    assert result.calls < result.dim - 1  # too few to cost as much as the shortest way
    assert result.suboptimality == (0.0,) * 4


def test_same_seeds_same_figures() -> None:
    for name, baseline in BASELINES.items():
        first, second = (run(lambda seed: baseline(seed, 3), 9, 3) for _ in range(2))  # noqa: B023
        assert first == second, name


class Scout:
    """Looks at the corner of its seed in its first call, then stays for ever."""

    def __init__(self, seed: int, dim: int) -> None:
        self._route = Tourist(seed, dim).route
        self._stay = 2 * (dim - 1)

    def act(self, access: LocalAccess, here: Handle, call: int) -> int:
        for index, action in enumerate(self._route if call == 0 else []):
            step = access.advance(here, 1, np.array([action]), phase=Phase.ACT, key=(index,))
            here = step.states
        return self._stay


def test_queries_count_as_sight() -> None:
    result = challenge(lambda seed: Scout(seed, 6), 6, 5, range(31))
    assert result.goal == (1, 1, 1, 1, 1)  # the only one that nobody looks at
    assert result.seen == 0
    with pytest.raises(QueryBudgetError):
        challenge(lambda seed: Scout(seed, 6), 6, 4, range(2))


# Cheats


class Cheat:
    """Does one forbidden thing."""

    def __init__(self, act: Callable[[LocalAccess, Handle], object]) -> None:
        self._act = act

    def act(self, access: LocalAccess, here: Handle, call: int) -> int:
        self._act(access, here)
        return 0


def stopped(act: Callable[[LocalAccess, Handle], object], budget: int = 1) -> None:
    run(lambda seed: Cheat(act), budget=budget, runs=1)


def test_cheats_are_stopped() -> None:
    def ask(access: LocalAccess, handle: Handle, action: int, key: int) -> object:
        return access.advance(handle, 1, np.array([action]), phase=Phase.ACT, key=(key,))

    with pytest.raises(AccessError, match="only handles"):
        stopped(lambda access, here: ask(access, Handle(1, 1), 0, 0))
    with pytest.raises(QueryBudgetError):
        stopped(lambda access, here: [ask(access, here, 0, key) for key in range(2)])
    with pytest.raises(QueryBudgetError):
        stopped(lambda access, here: access.measure(here, 1, 1, phase=Phase.ACT, key=()))
    with pytest.raises(AccessError, match="action 0"):
        stopped(lambda access, here: None)  # the second increment leaves the grid


def test_an_unseeded_planner_is_found_out() -> None:
    shared = np.random.default_rng(0)

    class Fickle:
        def act(self, access: LocalAccess, here: Handle, call: int) -> int:
            return int(shared.choice(np.flatnonzero(access.allowed(here)[0])))

    with pytest.raises(SettingError, match="chose differently"):
        run(lambda seed: Fickle(), dim=7)


def test_budgets_beyond_the_theorem_are_refused() -> None:
    with pytest.raises(SettingError, match="budgets below 16"):
        run(Uniform, budget=16)
    with pytest.raises(SettingError, match="0 seeds"):
        run(Uniform, runs=0)
