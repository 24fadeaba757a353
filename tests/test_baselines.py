"""The opponents: what each can do, and what it cannot."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tensorplan.access import Access
from tensorplan.baselines.lookahead import Lookahead
from tensorplan.baselines.memory import Memory
from tensorplan.baselines.protocol import LocalPlanner
from tensorplan.baselines.uniform import Uniform
from tensorplan.finite import TableSimulator, from_table
from tensorplan.local import LocalAccess
from tensorplan.meter import QueryMeter
from tensorplan.problem import Simulator
from tensorplan.problems.lower_bound import LowerBound
from tensorplan.records import Spec, States

ARMS = [0.2, 0.9, 0.1, 0.5]


def bandit(*, noisy: bool = False) -> TableSimulator:
    """One state; arm 3 is masked."""

    def outcomes(mean: float) -> list[tuple[float, int, float, bool]]:
        if noisy:
            return [(mean, 0, 1.0, False), (1 - mean, 0, 0.0, False)]
        return [(1.0, 0, mean, False)]

    table = [[*(outcomes(mean) for mean in ARMS[:3]), []]]
    spec = Spec(4, 1, None, discount=0.9, deterministic=not noisy)
    return from_table(table, np.ones((1, 1)), spec)


def play(
    simulator: Simulator, planner: LocalPlanner, calls: int, budget: int = 0
) -> tuple[list[int], float, States]:
    """Actions, total reward and last state of an episode without stages."""
    meter = QueryMeter(limit_per_call=budget)
    access, rng = Access(simulator, seed=0, meter=meter), np.random.default_rng(0)
    state, actions, total = simulator.start(rng), list[int](), 0.0
    for call in range(calls):
        here = access.admit(state, 1)
        meter.new_call()
        actions.append(planner.act(access, here, call))
        step = simulator.step(state, 1, np.array(actions[-1:]), rng)
        state, total = step.states, total + float(step.rewards[0])
    return actions, total, state


@pytest.mark.parametrize("planner", [Uniform(0), Lookahead(0, 0)], ids=["uniform", "lookahead"])
def test_without_queries_every_available_action_is_as_likely(planner: LocalPlanner) -> None:
    actions, _, _ = play(bandit(), planner, 3000)
    counts = np.bincount(actions, minlength=4)
    assert counts[3] == 0
    # chi-squared with 2 degrees of freedom: above 18.4 with probability 1e-4.
    assert ((counts[:3] - 1000) ** 2 / 1000).sum() < 18.4


def test_lookahead_plays_the_best_of_what_it_tried() -> None:
    actions, _, _ = play(bandit(), Lookahead(0, 3), 50, budget=3)
    assert set(actions) == {1}
    actions, _, _ = play(bandit(), Lookahead(0, 2), 300, budget=2)
    counts = np.bincount(actions, minlength=4)
    assert counts[2] == 0  # the worst arm is never the better one of two
    assert counts[1] == pytest.approx(200, abs=45)  # the best is among them in 2 of 3 calls
    actions, _, _ = play(bandit(), Lookahead(0, 1), 300, budget=1)
    assert np.bincount(actions, minlength=4)[:3].min() > 60


def test_lookahead_breaks_ties_at_random() -> None:
    process = LowerBound(4)
    actions, _, _ = play(process, Lookahead(0, 7), 400, budget=7)
    assert set(actions) == set(range(process.spec.actions))


def test_lookahead_repeats_its_draws_only_where_there_is_noise() -> None:
    for noisy, spent in ((False, 3), (True, 300)):
        meter = QueryMeter()
        access = Access(bandit(noisy=noisy), seed=0, meter=meter)
        assert Lookahead(0, 300).act(access, access.start(), 0) == 1
        assert meter.total == spent


def test_memory_finds_the_goal_and_rests_there() -> None:
    for seed in range(5):
        process = LowerBound(4, [1, -1, 1])
        planner = Memory(seed, 7)
        actions, total, state = play(process, planner, 60, budget=7)
        assert actions[-1] == process.stay
        assert process.values(state) == 0
        assert -total < 27 / 3  # less than a walk through all 27 states
        later, _, _ = play(process, Memory(seed, 7), 61, budget=7)
        assert later[:60] == actions


def test_memory_without_queries_walks_and_never_learns_what_is_free() -> None:
    process = LowerBound(3, [1, 1])
    planner = Memory(0, 0)
    play(process, planner, 100)
    assert planner.states == 9  # all of the grid, recognised by features
    tried: list[tuple[bytes, int]] = []

    class Watched(Memory):
        def act(self, access: LocalAccess, here: Any, call: int) -> int:
            action = super().act(access, here, call)
            tried.append((access.features(here).tobytes(), action))
            return action

    play(process, Watched(1, 0), 9 * 5)
    pairs = int(LowerBound(3).allowed(np.array([[0, 0]]), 1).sum())
    assert len(set(tried)) > 4 * pairs  # new pairs first: few of the 45 calls are repeats


def test_memory_asks_each_pair_once() -> None:
    process = LowerBound(3)
    states = np.array([(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1)], dtype=np.int8)
    pairs = int(process.allowed(states, 1).sum())
    meter = QueryMeter()
    access = Access(process, seed=0, meter=meter)
    planner = Memory(0, 1000)
    planner.act(access, access.start(), 0)
    assert planner.states == len(states)
    assert meter.total == pairs
    planner.act(access, access.admit(states[:1], 1), 1)
    assert meter.total == pairs


def episodes(simulator: TableSimulator, planner: Memory, count: int, budget: int) -> list[int]:
    """Actions of several episodes of a process with stages."""
    access = Access(simulator, seed=0, meter=QueryMeter(limit_per_call=budget))
    rng, actions = np.random.default_rng(0), list[int]()
    for _ in range(count):
        access.new_episode()
        state = simulator.start(rng)
        for stage in range(1, (simulator.spec.horizon or 0) + 1):
            access.meter.new_call()
            actions.append(planner.act(access, access.admit(state, stage), len(actions)))
            step = simulator.step(state, stage, np.array(actions[-1:]), rng)
            state = step.states
            if step.terminated[0]:
                break
    return actions


def test_memory_tells_stages_apart_and_stops_at_ends() -> None:
    table = [
        [[(1.0, 0, 0.0, False)], [(1.0, 1, 0.0, False)]],
        [[(1.0, 0, 0.0, False)], [(1.0, 1, 1.0, True)]],
    ]
    simulator = from_table(table, np.eye(2), Spec(2, 2, 3, deterministic=True))
    planner = Memory(0, 2)
    episodes(simulator, planner, 4, 2)
    assert planner.states == 5  # state 0 at stages 1 to 3, state 1 at stages 2 and 3


def test_memory_sees_no_way_from_the_last_stage_to_the_first() -> None:
    """Once all is tried at stage 2 it plays at random there, though stage 1 has more to try."""
    table = [
        [[(1.0, 1, 0.0, False)]] * 6,
        [[(1.0, 1, 0.0, False)]] * 2 + [[]] * 4,
    ]
    simulator = from_table(table, np.eye(2), Spec(6, 2, 2, deterministic=True))
    varied = 0
    for seed in range(20):
        actions = episodes(simulator, Memory(seed, 0), 6, 0)
        assert set(actions[0::2]) == set(range(6))
        assert set(actions[1:5:2]) == {0, 1}
        varied += len(set(actions[5::2])) > 1
    assert varied > 10


@pytest.mark.parametrize("budget", [0, 1, 5])
@pytest.mark.parametrize("kind", [Lookahead, Memory])
def test_same_seed_same_actions(kind: Any, budget: int) -> None:
    process = LowerBound(5, [1, 1, -1, 1])
    first, second, other = (play(process, kind(seed, budget), 40, budget)[0] for seed in (1, 1, 2))
    assert first == second
    assert first != other
