"""Certificates hold as often as they say, and planners with a flaw in their statistics are caught.

A run misses if its policy is worth less than the lower bound, if the best realizable policy is
worth more than the upper one, or if it rejects what is realizable. Misses may be as frequent as
the level; a count that is larger with probability below 1e-3 fails (one-sided binomial test). With
a level of 5% nothing fails by chance in more than one run of this file in a hundred.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from coverage_reference import (
    Sketch,
    World,
    choices,
    drawn,
    judged,
    misses,
    too_many,
    wrong_of,
)

from tensorplan.access import Access
from tensorplan.estimate import sampling_radius
from tensorplan.exact import evaluate, solve, start_value
from tensorplan.finite import FiniteProcess
from tensorplan.local import Handle, Key, LocalAccess, Measurement, Transition
from tensorplan.oracle import SlabOracle
from tensorplan.oracle.base import Optimum
from tensorplan.plan import plan
from tensorplan.planners.adaptive import adaptive_settings, engine, fine_oracle, general
from tensorplan.planners.adaptive import resolve as resolved_settings
from tensorplan.planners.adaptive.book import Book
from tensorplan.planners.adaptive.engine import StochasticEngine
from tensorplan.planners.adaptive.general import GeneralEngine, GeneralState
from tensorplan.planners.adaptive.policy import GreedyPolicy
from tensorplan.planners.adaptive.rollouts import Batch, roll
from tensorplan.planners.adaptive.state import State
from tensorplan.records import BoolArray, FloatArray, IntArray, Phase, Queries, Spec

PROBLEMS: dict[str, tuple[World, float]] = {
    "an optimal policy": (drawn(1, Sketch()), 0.3),
    "only a suboptimal policy": (drawn(3, Sketch(linear="suboptimal")), 0.3),
    "values off by eta": (drawn(4, Sketch(noise=0.03)), 0.6),
    "rewards too high": (drawn(5, Sketch(bias=0.03, spread=0.5)), 0.4),
    "rewards too low": (drawn(5, Sketch(bias=-0.03, spread=0.5)), 0.4),
    "costs, and early ends": (drawn(7, Sketch(rewards=(-1.0, 0.0), ends=0.25, horizon=3)), 0.6),
    "discounted": (drawn(6, Sketch(horizon=None, discount=0.5, states=3)), 0.6),
    "an axis for each state": (
        drawn(9, Sketch(horizon=None, discount=0.5, states=3, dim=3, axes=True)),
        0.5,
    ),
    "an axis for each state and stage": (drawn(10, Sketch(states=3, axes=True)), 0.5),
    "quiet rewards": (drawn(12, Sketch(spread=0.05)), 0.15),
    "nothing": (drawn(11, Sketch(linear="nothing")), 0.4),
}
"""What is realizable, or what else is special: the process, and delta."""

LEVEL = 0.05


def coin(chance: float) -> World:
    """One toss."""
    spec = Spec(1, 1, 1, bound=1.5, may_terminate=False)
    tosses, one = np.array([[[1 - chance, chance]]]), np.zeros((1, 1, 2))
    rewards = np.array([[[0.0, 1.0]]])
    return World(
        FiniteProcess(
            spec,
            tosses,
            one.astype(np.int64),
            rewards,
            one > 0,
            np.ones((1, 1, 1)),
            np.ones(1),
        )
    )


def alike() -> World:
    """Two stages with three actions each, all of them the same toss."""
    spec = Spec(3, 1, 2, bound=1.5, may_terminate=False)
    shape = (1, 3, 2)
    return World(
        FiniteProcess(
            spec,
            np.full(shape, 0.5),
            np.zeros(shape, np.int64),
            np.broadcast_to([0.0, 1.0], shape).copy(),
            np.zeros(shape, np.bool_),
            np.array([[[1.0]], [[0.5]]]),
            np.ones(1),
        )
    )


def toll() -> World:
    """Costs 1 at every step, for ever."""
    spec = Spec(1, 1, None, discount=0.5, reward_range=(-1.0, 0.0), bound=3.0, may_terminate=False)
    one = np.ones((1, 1, 1))
    none = np.zeros((1, 1, 1), np.int64)
    return World(FiniteProcess(spec, one, none, -one, none > 0, one, np.ones(1)))


# What a run is made to do, however unlikely that a planner would.


@dataclass(frozen=True)
class Begun:
    """An engine before its first step."""

    access: Access
    engine: GeneralEngine
    state: GeneralState


def begun(world: World, seed: int, oracle: SlabOracle | None = None, **settings: Any) -> Begun:
    """The engine for features of any kind, driven by the test."""
    access = Access(world.simulator, seed=seed)
    start = access.start()
    resolved = resolved_settings(adaptive_settings(**settings), access.spec)
    chosen = oracle or fine_oracle(resolved, access.features(start)[0])
    own = GeneralEngine(access.local, start, resolved, chosen)
    return Begun(access, own, own.begin())


def planned(world: World, delta: float, **settings: Any) -> Callable[[int], bool]:
    """A whole run; whether it missed."""
    return lambda seed: misses(world, 1, first=seed, delta=delta, **settings)[0].any


def opened_often(seed: int) -> bool:
    """One toss, made critical 250 times; whether the truth is excluded some time."""
    chance = 0.05
    made = begun(coin(chance), seed, delta=0.01, confidence=0.5)
    state = made.engine.open(made.state, made.engine.start, 104)
    for _ in range(249):
        slab = state.slabs[-1]
        if abs(float(slab.samples[0].mean[1]) - chance) > slab.radii[0]:
            return True
        # The others are put aside, as they would only cost time.
        state = replace(made.state, opened=state.opened, named=state.named)
        state = made.engine.open(state, made.engine.start, 104)
    return False


def drawn_often(seed: int) -> bool:
    """One toss, drawn twice as often again and again; whether the truth is excluded some time."""
    made = begun(coin(0.5), seed, delta=0.01, confidence=0.99)
    state = made.engine.open(made.state, made.engine.start, 64)
    for _ in range(12):
        slab = state.slabs[0]
        if abs(float(slab.samples[0].mean[1]) - 0.5) > slab.radii[0]:
            return True
        state = made.engine.refine(state, 0, {0: slab.samples[0].count})
    return False


def looked_often(world: World, delta: float, looks: int) -> Callable[[int], bool]:
    """A policy that is certified only if its lower bound is too high, tried over and over again."""
    value = start_value(world.process, solve(world.process).values)

    def run(seed: int) -> bool:
        made = begun(world, seed, delta=delta, confidence=0.5)
        state = replace(made.state, upper=value + delta)
        policy = made.engine.policy_of(state)
        for _ in range(looks):
            state = replace(made.engine.verify(state, policy), status=None)
            if state.lower > value + 1e-9:
                return True
        return False

    return run


def hurried(seed: int) -> bool:
    """A search that is cut short where every state is known well; whether its bound is too low."""
    sketch = Sketch(states=8, actions=3, dim=6, outcomes=1)
    world = drawn(2, sketch)
    made = begun(world, seed, SlabOracle(10), delta=0.1)
    state = made.engine.open(made.state, made.engine.start, 3000)
    for place in range(sketch.states):
        following = made.access.admit(np.array([place]), 2)
        state = made.engine.open(state, following, 3000)
    return made.engine.oracle.maximise(made.engine.objective, state.beliefs).upper < world.best


def count(run: Callable[[int], bool], runs: int) -> int:
    """How many of so many seeded runs missed."""
    return sum(run(seed) for seed in range(runs))


# Flaws.

Flaw = Callable[[pytest.MonkeyPatch], None]


def halve_radii(patch: pytest.MonkeyPatch) -> None:
    """Every radius of a slab is half of what it should be."""
    honest = sampling_radius

    def half(
        count: FloatArray, variance: FloatArray, bound: float, level: float, reach: FloatArray
    ) -> FloatArray:
        return 0.5 * honest(count, variance, bound, level, reach)

    patch.setattr("tensorplan.planners.adaptive.book.sampling_radius", half)
    patch.setattr("tensorplan.planners.adaptive.general.sampling_radius", half)


def spend_all_at_every_state(patch: pytest.MonkeyPatch) -> None:
    """Every critical state gets the whole level."""

    def whole(own: Book, index: int) -> float:
        return own.level

    patch.setattr(Book, "level_of", whole)


def spend_all_at_every_look(patch: pytest.MonkeyPatch) -> None:
    """Every attempt to certify gets the whole level."""

    def whole(own: GeneralEngine, state: GeneralState) -> float:
        return own.resolved.level / 2

    patch.setattr(StochasticEngine, "look_level", whole)


def recycle_draws(patch: pytest.MonkeyPatch) -> None:
    """Rollouts go on by a draw of the test that chose the action."""

    def flawed(access: LocalAccess, *given: Any, **settings: Any) -> Batch:
        return roll(Recycling(access), *given, **settings)

    patch.setattr(engine, "roll", flawed)
    patch.setattr(general, "roll", flawed)


def forget_the_rest(patch: pytest.MonkeyPatch) -> None:
    """What comes after a rollout was cut off counts as nothing."""

    def flawed(access: LocalAccess, *given: Any, **settings: Any) -> Batch:
        return roll(Costless(access), *given, **settings)

    patch.setattr(engine, "roll", flawed)


def take_what_was_found(patch: pytest.MonkeyPatch) -> None:
    """The value of the parameter that was found passes for a bound on all."""
    honest = SlabOracle.maximise

    def found(own: SlabOracle, *given: Any, **settings: Any) -> Optimum:
        answer = honest(own, *given, **settings)
        return replace(answer, upper=answer.value)

    patch.setattr(SlabOracle, "maximise", found)


Rows = IntArray | Sequence[int]


class Around:
    """Local access through another one."""

    def __init__(self, inner: LocalAccess) -> None:
        self.inner = inner

    @property
    def spec(self) -> Spec:
        return self.inner.spec

    @property
    def queries(self) -> Queries:
        return self.inner.queries

    def take(self, handle: Handle, rows: Rows) -> Handle:
        return self.inner.take(handle, rows)

    def features(self, handle: Handle) -> FloatArray:
        return self.inner.features(handle)

    def allowed(self, handle: Handle) -> BoolArray:
        return self.inner.allowed(handle)

    def measure(self, *given: Any, **settings: Any) -> Measurement:
        return self.inner.measure(*given, **settings)

    def advance(
        self, handle: Handle, stage: int, actions: Rows, *, phase: Phase, key: Key
    ) -> Transition:
        return self.inner.advance(handle, stage, actions, phase=phase, key=key)


class Costless(Around):
    """Says that no reward is below 0, to whoever asks what a missing stage may cost."""

    @property
    def spec(self) -> Spec:
        return replace(self.inner.spec, reward_range=(0.0, 1.0))


class Recycling(Around):
    """Goes on by a draw that a test has made of the same action."""

    def __init__(self, inner: LocalAccess) -> None:
        super().__init__(inner)
        self._rng = np.random.default_rng(0)
        self._tested: Measurement | None = None

    def measure(self, *given: Any, **settings: Any) -> Measurement:
        made = super().measure(*given, **{**settings, "detail": True})
        if settings.get("actions") is None:
            self._tested = made  # the first part of the draws, at all states
        return made

    def advance(
        self, handle: Handle, stage: int, actions: Rows, *, phase: Phase, key: Key
    ) -> Transition:
        assert self._tested is not None
        drawn = self._tested.outcomes
        assert drawn is not None
        pairs = np.arange(handle.size) * self.spec.actions + np.asarray(actions)
        # One of the draws of each pair, at random: the largest of random numbers that favour it.
        chances = self._rng.random(len(drawn.counts)) ** (1 / drawn.counts)
        order = np.lexsort((chances, drawn.pairs))
        rows = order[np.searchsorted(drawn.pairs[order], pairs, side="right") - 1]
        states = self.inner.take(drawn.states, rows)
        return Transition(drawn.values[rows, 0], states, ~drawn.live[rows])


@dataclass(frozen=True)
class Trap:
    """A flaw, and runs in which it shows.

    Attributes:
        flaw: what goes wrong.
        run: a seeded run; whether it missed.
        runs: how many.
        level: how often an honest planner may miss.
    """

    flaw: Flaw
    run: Callable[[int], bool]
    runs: int
    level: float


TRAPS = {
    "radii halved": Trap(halve_radii, drawn_often, 120, 0.005),
    "no level is spent by states": Trap(spend_all_at_every_state, opened_often, 40, 0.25),
    "no level is spent by looks": Trap(
        spend_all_at_every_look, looked_often(coin(0.5), 0.4, 60), 40, 0.25
    ),
    "draws recycled": Trap(recycle_draws, looked_often(alike(), 0.4, 10), 20, 0.25),
    "the rest forgotten": Trap(forget_the_rest, looked_often(toll(), 0.4, 1), 10, 0.25),
    "found, not bounded": Trap(take_what_was_found, hurried, 20, LEVEL),
}


class TestReferee:
    @pytest.mark.parametrize(("draws", "actions"), [(8, 2), (8, 3), (2, 3), (24, 2)])
    def test_chances_are_those_of_the_policy(self, draws: int, actions: int) -> None:
        """Against 20,000 tests at a state; each frequency within 5 standard errors."""
        world = drawn(40 + draws, Sketch(actions=actions, states=3, ends=0.3, bias=0.02))
        access = Access(world.simulator, seed=1)
        theta = np.random.default_rng(draws).normal(size=2)
        policy = GreedyPolicy(theta, draws, 0.1)
        chances = world.chances(policy)
        assert np.any((chances > 0.05) & (chances < 0.95))
        for stage in (1, 2):
            for state in range(3):
                batch = access.admit(np.full(20_000, state), stage)
                chosen, _ = policy.act(access.local, batch, Phase.ACT, (stage, state))
                seen = np.bincount(chosen, minlength=actions) / 20_000
                likely = np.clip(chances[stage - 1, state], 0.0, 1.0)
                error = np.sqrt(likely * (1 - likely) / 20_000)
                assert np.all(np.abs(seen - likely) <= 5 * error + 1e-12)

    def test_ties_go_to_the_first_action(self) -> None:
        answers = np.array([[0.5, 0.5], [0.5, 0.5], [0.25, 0.75]])
        chances = choices(answers, np.full((3, 2), 0.5), GreedyPolicy(np.zeros(1), 2, 1.0))
        assert chances == pytest.approx([0.75, 0.0, 0.25])

    def test_problems_are_what_they_are_called(self) -> None:
        for name, (world, _) in PROBLEMS.items():
            optimum = start_value(world.process, solve(world.process).values)
            if name == "nothing":
                assert world.best == -np.inf
            elif name == "only a suboptimal policy":
                assert 0 < world.best < optimum - 0.1
            else:
                assert world.best == pytest.approx(optimum)

    def test_what_is_worth_what(self) -> None:
        """The referee's value of a certified policy, against 4,000 episodes of the plan."""
        world, delta = PROBLEMS["costs, and early ends"]
        made = plan(world.simulator, delta=delta, seed=3)
        assert isinstance(made.record, State)
        assert made.record.best is not None
        value = world.worth(made.record.best)
        returns = made.play(1500)
        assert abs(returns.mean() - value) <= 4 * returns.std() / np.sqrt(1500)
        always = np.zeros((3, 4), np.int64)
        assert value > start_value(world.process, evaluate(world.process, always).values) - 1


@pytest.mark.parametrize("name", PROBLEMS)
def test_some_certificates_hold(name: str) -> None:
    world, delta = PROBLEMS[name]
    found = misses(world, 4, delta=delta)
    assert not too_many(wrong_of(found), 4, LEVEL)
    assert wrong_of(found, lambda miss: miss.certified) == 4


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", PROBLEMS)
def test_certificates_hold_as_often_as_they_say(name: str) -> None:
    world, delta = PROBLEMS[name]
    found = misses(world, 1000, delta=delta)
    assert not too_many(wrong_of(found), 1000, LEVEL)
    assert wrong_of(found, lambda miss: miss.certified) >= 950


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", TRAPS)
def test_flaws_are_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    trap = TRAPS[name]
    assert not too_many(count(trap.run, trap.runs), trap.runs, trap.level)
    trap.flaw(monkeypatch)
    assert too_many(count(trap.run, trap.runs), trap.runs, trap.level)


def test_a_miss_is_a_miss() -> None:
    """A referee who knows of better policies than there are finds every upper bound too low."""
    world, delta = PROBLEMS["an optimal policy"]
    made = plan(world.simulator, delta=delta, seed=0)
    assert not judged(world, made).any
    richer = World(replace(world.process, rewards=world.process.rewards + 0.5))
    poorer = World(replace(world.process, rewards=world.process.rewards - 0.5))
    richer.__dict__["best"] = world.best + 1.0
    poorer.__dict__["best"] = world.best
    assert judged(richer, made).upper
    assert judged(poorer, made).lower
