"""Sets that change anyhow, what the search means by them, and their maxima by enumeration."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from oracle_reference import best_in_slabs

from tensorplan.checker import Verdict, verify_text
from tensorplan.hypotheses import CriticalState, Cuts, Hypotheses, rounding_slack
from tensorplan.oracle.slabs import SlabOracle
from tensorplan.records import FloatArray

SURE = 1e-16
"""Tolerance of an enumeration whose maximum is attained but for rounding."""


def state(
    rows: Sequence[Sequence[float]],
    radii: Sequence[float] | None = None,
    features: Sequence[float] | None = None,
    stage: int = 1,
) -> CriticalState:
    """A critical state from lists."""
    return CriticalState(
        stage,
        np.array(rows, np.float64),
        None if radii is None else np.array(radii, np.float64),
        None if features is None else np.array(features, np.float64),
    )


def believed(
    *states: CriticalState, norm: float = 1.0, root: float = 0.0, bellman: bool = False
) -> Hypotheses:
    """A set of given states without cuts."""
    return Hypotheses(states[0].rows.shape[1] - 1, norm, root, states, bellman=bellman)


def searched(beliefs: Hypotheses) -> Hypotheses:
    """The set as it is searched: no slab is thinner than rounding."""
    least = rounding_slack(beliefs.norm)
    states = (replace(s, radii=np.maximum(beliefs.radii(s), least)) for s in beliefs.states)
    return replace(beliefs, states=tuple(states))


def unit(objective: FloatArray, beliefs: Hypotheses) -> float:
    """B ||c||, or 1 where nothing is asked for."""
    return beliefs.norm * float(np.linalg.norm(objective)) or 1.0


def verdict_of(oracle: SlabOracle) -> Verdict:
    """What the checker says of the proof of the last answer."""
    return verify_text(json.dumps(oracle.proof()))


def epochs(state: CriticalState) -> list[CriticalState]:
    """A state and all that it refines."""
    found = [state]
    while found[-1].refines is not None:
        found.append(found[-1].refines)
    return found


def best_in_all_epochs(objective: FloatArray, beliefs: Hypotheses) -> float:
    """The maximum over the parameters that one action's slabs of all epochs keep at each state."""
    cuts = beliefs.cuts
    everything = [epoch for state in beliefs.states for epoch in epochs(state)]
    if beliefs.bellman:
        for epoch in everything:
            none = np.full(len(epoch.rows), -np.inf)
            high = beliefs.radii(epoch) - epoch.rows[:, 0]
            cuts = cuts.joined(Cuts(epoch.rows[:, 1:], none, high))
    best = -np.inf
    for choice in itertools.product(*(range(len(state.rows)) for state in beliefs.states)):
        alone = tuple(
            CriticalState(1, epoch.rows[a : a + 1], beliefs.radii(epoch)[a : a + 1])
            for state, a in zip(beliefs.states, choice, strict=True)
            for epoch in epochs(state)
        )
        left = Hypotheses(beliefs.dim, beliefs.norm, 0.0, alone, cuts=cuts)
        best = max(best, best_in_slabs(objective, left, tolerance=SURE).value)
    return best


@dataclass(frozen=True)
class Story:
    """A set as it changes, and what is asked of it.

    Attributes:
        objectives: each [d].
        sets: each a later stage of the one before.
    """

    objectives: tuple[FloatArray, FloatArray]
    sets: tuple[Hypotheses, ...]


def random_story(seed: int) -> Story:
    """A tiny set whose refinements need not lie within what they refine.

    Rows come from a small pool, so that actions are twins, come apart, and states repeat.
    """
    return _Teller(np.random.default_rng([seed, 77])).story()


class _Teller:
    """Draws one story."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.dim, self.actions = (int(rng.integers(1, 4)) for _ in range(2))
        self.whole = bool(rng.random() < 0.4)
        self.pool = [self.row() for _ in range(4)]

    def story(self) -> Story:
        rng = self.rng
        states = tuple(self.state() for _ in range(int(rng.integers(1, 4))))
        norm, root = float(rng.choice([1.0, 2.5])), float(rng.choice([0.0, 1e-3, 0.1]))
        first = Hypotheses(self.dim, norm, root, states, bellman=bool(rng.random() < 0.15))
        sets = [first.with_cuts(self.cuts(2)) if rng.random() < 0.4 else first]
        for _ in range(int(rng.integers(1, 5))):
            sets.append(self.later(sets[-1]))
        return Story((rng.normal(size=self.dim), rng.normal(size=self.dim)), tuple(sets))

    def row(self) -> FloatArray:
        if self.whole:
            return self.rng.integers(-2, 3, size=self.dim + 1) / 2.0
        return self.rng.normal(size=self.dim + 1)

    def state(self) -> CriticalState:
        count = int(self.rng.integers(1, self.actions + 1))
        old = self.rng.random(count) < 0.6
        rows = [self.pool[int(self.rng.integers(4))] if known else self.row() for known in old]
        radii = self.rng.choice([0.0, 1e-9, 1e-3, 0.1, 0.3, 1.0, 3.0], size=count)
        return CriticalState(1, np.array(rows), radii if self.rng.random() < 0.7 else None)

    def cuts(self, count: int) -> Cuts:
        normals = self.rng.normal(size=(count, self.dim))
        middle = 0.3 * normals @ self.rng.normal(size=self.dim)
        room = self.rng.exponential(0.5, size=(2, count))
        return Cuts(normals, middle - room[0], middle + room[1])

    def later(self, beliefs: Hypotheses) -> Hypotheses:
        way = self.rng.random()
        if way < 0.6:
            index = int(self.rng.integers(len(beliefs.states)))
            return beliefs.refined(index, self.refined(beliefs, beliefs.states[index]))
        if way < 0.8 and len(beliefs.states) < 4:
            repeated = replace(next(iter(beliefs.states)), refines=None)
            return beliefs.with_state(self.state() if self.rng.random() < 0.6 else repeated)
        return beliefs.with_cuts(self.cuts(1))

    def refined(self, beliefs: Hypotheses, state: CriticalState) -> CriticalState:
        rows, way = state.rows.copy(), self.rng.random()
        if way < 0.3:
            rows += 0.1 * self.rng.normal(size=rows.shape)
        elif way < 0.6:
            rows[int(self.rng.integers(len(rows)))] = self.row()
        shares = self.rng.choice([0.1, 0.5, 1.0, 2.0], size=len(rows), p=[0.3, 0.3, 0.3, 0.1])
        return CriticalState(1, rows, beliefs.radii(state) * shares)


def box(dim: int, low: float, high: float) -> Cuts:
    """Limits of every entry."""
    return Cuts(np.eye(dim), np.full(dim, low), np.full(dim, high))


@dataclass(frozen=True)
class Tabular:
    """A tiny set with features along the axes.

    Attributes:
        hidden: [d], a parameter that the set keeps.
        beliefs: the set; its states can be put in one by one, in any order.
        discounted: whether the values rest on one another, without stages.
    """

    hidden: FloatArray
    beliefs: Hypotheses
    discounted: bool


def random_tabular(seed: int, *, most: int = 3, far: bool = False) -> Tabular:
    """A set of up to ``most`` entries, one or more of them without a critical state.

    With discounts every entry can lead to every other; otherwise to those of the next stage only.

    Args:
        seed: decides everything.
        most: largest d.
        far: whether the ball is too large to matter.
    """
    rng = np.random.default_rng([seed, 31])
    dim, actions = int(rng.integers(1, most + 1)), int(rng.integers(1, 4))
    discounted, bellman = bool(seed % 2), bool(seed // 2 % 2)
    hidden = rng.normal(size=dim)
    norm = float(np.linalg.norm(hidden)) * (50.0 if far else float(rng.choice([1.0, 1.5, 4.0])))
    stages = np.sort(rng.integers(1, 4, size=dim))
    states: list[CriticalState] = []
    for axis in rng.integers(dim, size=int(rng.integers(1, 4))).tolist():
        following = stages == stages[axis] + 1
        means = rng.random((actions, dim)) * (rng.random((actions, dim)) < 0.7)
        means *= 1.0 if discounted else following
        sums = np.maximum(means.sum(axis=1, keepdims=True), 1e-3)
        means = means / sums * (means.sum(axis=1, keepdims=True) > 0)
        means *= float(rng.choice([0.5, 0.9])) if discounted else 1.0
        features = np.zeros(dim)
        features[axis] = float(rng.choice([0.5, 1.0, 1.0, 2.0]))
        below = rng.exponential(0.5, size=actions) * (rng.random(actions) < 0.8)
        below[int(rng.integers(actions))] = 0.0
        below *= 1.0 if bellman else rng.choice([-1.0, 1.0], size=actions)
        steps = means - features
        rows = np.column_stack([-steps @ hidden - below, steps])
        radii = rng.choice([0.0, 1e-6, 1e-2, 0.1], size=actions)
        stage = 1 if discounted else int(stages[axis])
        states.append(CriticalState(stage, rows, radii, features))
    beliefs = Hypotheses(dim, norm, 0.0, tuple(states), bellman=bellman)
    if rng.random() < 0.4:
        high = np.where(rng.random(dim) < 0.5, hidden + rng.exponential(0.3, size=dim), np.inf)
        low = np.where(rng.random(dim) < 0.5, hidden - rng.exponential(0.3, size=dim), -np.inf)
        beliefs = beliefs.with_cuts(Cuts(np.eye(dim), low, high))
    return Tabular(hidden, beliefs, discounted)


def growing(beliefs: Hypotheses) -> list[Hypotheses]:
    """The stages of a set: its cuts, and then one state after the other."""
    return [replace(beliefs, states=beliefs.states[:n]) for n in range(len(beliefs.states) + 1)]


def with_features(sets: Sequence[Hypotheses], seed: int) -> list[Hypotheses]:
    """The same sets with stages, and features at every state: along the axes, or of any kind."""
    rng = np.random.default_rng([seed, 32])
    dim = sets[0].dim
    axes = seed % 2 == 0
    count = max(len(beliefs.states) for beliefs in sets)
    features = np.eye(dim)[rng.integers(dim, size=count)] if axes else rng.normal(size=(count, dim))
    stages: list[int] = rng.integers(1, 3, size=count).tolist()
    known: dict[int, CriticalState] = {}

    def dressed(old: CriticalState, index: int) -> CriticalState:
        if id(old) not in known:
            before = None if old.refines is None else dressed(old.refines, index)
            known[id(old)] = replace(
                old, stage=stages[index], features=features[index], refines=before
            )
        return known[id(old)]

    return [
        replace(b, states=tuple(dressed(old, index) for index, old in enumerate(b.states)))
        for b in sets
    ]
