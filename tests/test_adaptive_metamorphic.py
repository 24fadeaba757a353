"""What must not matter to the adaptive planner: axes of the features, names of actions, units.

On deterministic simulators plans are worth the same to rounding. On stochastic ones whole runs are
the same, number for number: features and units have no part in random numbers, and
:class:`Steady` gives every action the same ones whatever its name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from coverage_reference import Sketch, drawn
from paper_reference import Shape, linear_process

from tensorplan.finite import FiniteProcess, TableSimulator
from tensorplan.hashing import hashed, uniform
from tensorplan.hypotheses import rounding_slack
from tensorplan.plan import AdaptivePlan, plan
from tensorplan.problem import Simulator
from tensorplan.records import FloatArray, IntArray, States, Status, Step

EXACT = 1e-6
"""Rounding of bounds that a search finds, and twice the gap that it may leave."""

UNITS = 4.0
"""A power of two, so that nothing is rounded otherwise."""

SKETCHES: dict[str, tuple[int, Sketch, float]] = {
    "levels": (1, Sketch(), 0.4),
    "three actions": (2, Sketch(actions=3, states=3), 0.6),
    "suboptimal": (3, Sketch(linear="suboptimal"), 0.4),
    "costs": (7, Sketch(rewards=(-1.0, 0.0), ends=0.25, horizon=3), 0.8),
    "discounted": (6, Sketch(horizon=None, discount=0.5, states=3), 0.8),
    "noise and bias": (5, Sketch(noise=0.02), 0.6),
}
AXES: dict[str, tuple[int, Sketch, float]] = {
    "axes": (9, Sketch(horizon=None, discount=0.5, states=3, dim=3, axes=True), 0.5),
    "axes and stages": (10, Sketch(states=3, axes=True), 0.5),
}

Change = Callable[[FiniteProcess], FiniteProcess]


class Steady(TableSimulator):
    """Gives the k-th draw of an action in a call the same random number, whatever its name.

    Args:
        process: what to draw from.
        names: [A], the names of the actions, by their present numbers.
    """

    def __init__(self, process: FiniteProcess, names: IntArray) -> None:
        super().__init__(process)
        self._names = names
        self._ends = np.cumsum(process.probabilities, axis=2)

    def step(self, states: States, stage: int, actions: IntArray, rng: np.random.Generator) -> Step:
        """Draw an outcome for each of n pairs."""
        names = self._names[actions]
        before = np.zeros(len(names), np.int64)
        for name in range(len(self._names)):
            own = names == name
            before[own] = np.arange(np.count_nonzero(own))
        salt = rng.integers(1 << 63, size=1).astype(np.uint64)
        chance = uniform(hashed(np.repeat(salt, len(names)), names, before))
        process = self.process
        outcome = (chance[:, None] >= self._ends[states, actions, :-1]).sum(axis=1)
        picked = (states, actions, outcome)
        return Step(process.rewards[picked], process.successors[picked], process.terminated[picked])


def rotated(process: FiniteProcess) -> FiniteProcess:
    """The same process with features along other axes."""
    dim = process.spec.dim
    rotation, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(dim, dim)))
    return replace(process, feature_table=process.feature_table @ rotation)


def permuted(process: FiniteProcess, order: IntArray) -> FiniteProcess:
    """The same process with other numbers for its actions: the new action a is order[a]."""
    return replace(
        process,
        probabilities=process.probabilities[:, order],
        successors=process.successors[:, order],
        rewards=process.rewards[:, order],
        terminated=process.terminated[:, order],
        allowed=process.allowed[:, order],
    )


def turned(process: FiniteProcess) -> FiniteProcess:
    """The same process with three actions in another order."""
    return permuted(process, np.array([2, 0, 1]))


def scaled(process: FiniteProcess) -> FiniteProcess:
    """The same process with rewards in other units."""
    spec, (low, high) = process.spec, process.spec.reward_range
    assert spec.bound is not None
    spec = replace(
        spec,
        reward_range=(UNITS * low, UNITS * high),
        bound=UNITS * spec.bound,
        # The slack for rounding is in units of 1 + B, whatever these are.
        misspecification=UNITS * spec.misspecification + (UNITS - 1) * rounding_slack(0.0),
    )
    return replace(process, spec=spec, rewards=UNITS * process.rewards)


FAR = 19 / 40
"""Kolmogorov-Smirnov distance that two samples of 40 exceed with probability below 3e-4."""


def largest_step(one: FloatArray, other: FloatArray) -> float:
    """Kolmogorov-Smirnov distance of two samples."""
    ends = np.concatenate([one, other]) + EXACT
    shares = [np.searchsorted(np.sort(each), ends) / len(each) for each in (one, other)]
    return float(np.abs(shares[0] - shares[1]).max())


UNITS_OF_AXES = ("axes", scaled, UNITS)


def bounds(made: AdaptivePlan) -> FloatArray:
    """Both bounds, which exist."""
    lower, upper = made.certificate.lower, made.certificate.upper
    assert lower is not None
    assert upper is not None
    return np.array([lower, upper])


def check_same(one: AdaptivePlan, other: AdaptivePlan, units: float = 1.0) -> None:
    """Two runs asked the same and found the same."""
    assert one.status is Status.CERTIFIED
    assert other.status is one.status
    assert other.queries == one.queries
    assert [event.queries for event in other.events] == [event.queries for event in one.events]
    assert bounds(other) == pytest.approx(units * bounds(one), abs=units * EXACT)


class TestStochastic:
    @pytest.mark.parametrize("name", SKETCHES)
    @pytest.mark.parametrize("seed", [0, 1])
    def test_the_same_data_say_the_same_along_any_axes(self, name: str, seed: int) -> None:
        """Runs are the same until the search picks another one of equally good parameters."""
        kind, sketch, delta = SKETCHES[name]
        process = drawn(kind, sketch).process
        one = plan(TableSimulator(process), delta=delta, seed=seed)
        other = plan(TableSimulator(rotated(process)), delta=delta, seed=seed)
        pairs = list(zip(one.events, other.events, strict=False))
        same = next((k for k, (a, b) in enumerate(pairs) if a.queries != b.queries), len(pairs))
        assert same >= 3
        for a, b in pairs[:same]:
            assert b.upper == pytest.approx(a.upper, abs=1e-4)
            assert np.linalg.norm(b.theta) == pytest.approx(np.linalg.norm(a.theta), abs=1e-2)
        if same == len(one.events) == len(other.events):
            check_same(one, other)

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("name", "change", "units"), [*((name, rotated, 1.0) for name in SKETCHES), UNITS_OF_AXES]
    )
    def test_runs_are_alike(self, name: str, change: Change, units: float) -> None:
        """Two-sample tests of 40 runs each; some of all 21 fails by chance once in 100 cases."""
        kind, sketch, delta = (SKETCHES | AXES)[name]
        process = drawn(kind, sketch).process
        found: list[list[list[float]]] = []
        for each, unit in ((process, 1.0), (change(process), units)):
            simulator = TableSimulator(each)
            runs = [plan(simulator, delta=unit * delta, seed=seed) for seed in range(40)]
            found.append([[*bounds(made) / unit, made.queries.total] for made in runs])
        for one, other in zip(*np.array(found).transpose(0, 2, 1), strict=True):
            assert largest_step(one, other) <= FAR

    # NOTE: "axes" is missing, as answers are told apart in an order that depends on their units;
    # there it decides which of the states behind the start is opened first.
    @pytest.mark.parametrize("name", [*SKETCHES, "axes and stages"])
    @pytest.mark.parametrize("seed", [0, 1])
    def test_units_do_not_matter(self, name: str, seed: int) -> None:
        kind, sketch, delta = (SKETCHES | AXES)[name]
        process = drawn(kind, sketch).process
        one = plan(TableSimulator(process), delta=delta, seed=seed)
        other = plan(TableSimulator(scaled(process)), delta=UNITS * delta, seed=seed)
        check_same(one, other, UNITS)

    @pytest.mark.parametrize("name", [*SKETCHES, *AXES])
    @pytest.mark.parametrize("seed", [0, 1])
    def test_names_of_actions_do_not_matter(self, name: str, seed: int) -> None:
        kind, sketch, delta = (SKETCHES | AXES)[name]
        process = drawn(kind, sketch).process
        order = np.roll(np.arange(sketch.actions), 1)
        one = plan(Steady(process, np.arange(sketch.actions)), delta=delta, seed=seed)
        other = plan(Steady(permuted(process, order), order), delta=delta, seed=seed)
        check_same(one, other)
        state = int(np.flatnonzero(process.start_probabilities)[0])
        # Fresh draws in acting come from the same numbers, too.
        assert order[other.action(state)] == one.action(state)


class TestDeterministic:
    @pytest.mark.parametrize("change", [rotated, turned])
    def test_plans_are_worth_the_same(self, change: Change) -> None:
        for seed in range(4):
            process = linear_process(seed, Shape(states=6, actions=3, horizon=5))
            one = plan(TableSimulator(process), delta=EXACT)
            other = plan(TableSimulator(change(process)), delta=EXACT)
            assert other.status is one.status is Status.CERTIFIED
            assert bounds(other) == pytest.approx(bounds(one), abs=2 * EXACT)
            assert other.play() == pytest.approx(one.play(), abs=2 * EXACT)

    def test_units_do_not_matter(self) -> None:
        for seed in range(4):
            process = linear_process(seed, Shape(states=6, actions=3, horizon=5))
            one: Simulator = TableSimulator(process)
            first = plan(one, delta=0.01, seed=seed)
            other = plan(TableSimulator(scaled(process)), delta=UNITS * 0.01, seed=seed)
            check_same(first, other, UNITS)
