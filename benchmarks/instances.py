"""Planning problems as the optimistic oracle meets them: states that can be asked, and answers.

An instance is a finite deterministic process whose optimal value is exactly linear. Everything that
a planner could measure in it is in arrays, so that a counterexample costs one product.

Shapes: ``n`` states, ``A`` actions, ``d`` features.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tensorplan.hypotheses import CriticalState, Cuts, Hypotheses
from tensorplan.records import BoolArray, FloatArray, IntArray

END = -1
"""Successor of an action that ends the episode, where the value is 0."""

TOLERANCE = 1e-6
"""What a test forgives where data are exact: more than any solver's own tolerance."""

Indices = Sequence[int] | IntArray


@dataclass(frozen=True, eq=False)
class Walk:
    """One rollout of a parameter.

    Attributes:
        visited: states in order, the failing one included.
        failed: the state at which no action was consistent, or None if the run was clean.
    """

    visited: tuple[int, ...]
    failed: int | None


@dataclass(frozen=True, eq=False)
class Exploration:
    """What random-policy rollouts have seen.

    Attributes:
        states: those that were visited, each once, in order.
        queries: calls of the simulator if every action is measured once at each of them.
    """

    states: IntArray
    queries: int


@dataclass(frozen=True, eq=False)
class Instance:
    """A process with a linear optimal value.

    Attributes:
        name: the family.
        theta: theta* [d], the parameter of the optimal value.
        norm: B, which theta* does not reach.
        objective: [d], features of the start.
        rows: [n, A, d + 1], temporal-difference rows (r, phi' - phi).
        features: [n, d].
        allowed: [n, A].
        low: [n], least value that a policy could have at the state; -inf if unknown.
        high: [n], largest one; inf if unknown.
        stages: [n].
        successors: [n, A], END where the episode ends; None for data without dynamics.
        start: where rollouts begin.
        horizon: steps after which a rollout is cut.
    """

    name: str
    theta: FloatArray
    norm: float
    objective: FloatArray
    rows: FloatArray
    features: FloatArray
    allowed: BoolArray
    low: FloatArray
    high: FloatArray
    stages: IntArray
    successors: IntArray | None
    start: int
    horizon: int

    @property
    def dim(self) -> int:
        """d."""
        return len(self.theta)

    @property
    def actions(self) -> int:
        """A."""
        return self.rows.shape[1]

    @property
    def size(self) -> int:
        """n."""
        return len(self.rows)

    @property
    def value(self) -> float:
        """v* of the start."""
        return float(self.objective @ self.theta)

    def misses(self, theta: FloatArray) -> FloatArray:
        """How far each action is from consistent with theta, inf where it is masked: [n, A]."""
        errors = np.abs(self.rows[:, :, 0] + self.rows[:, :, 1:] @ theta)
        return np.where(self.allowed, errors, np.inf)

    def walk(self, theta: FloatArray, tolerance: float = TOLERANCE) -> Walk:
        """Follow the most consistent action from the start until none is consistent.

        Without dynamics the state that theta fails worst stands for the end of the walk.
        """
        misses = self.misses(theta)
        if self.successors is None:
            worst = self.worst(theta, tolerance)
            return Walk((), None) if worst is None else Walk((worst,), worst)
        best, least = misses.argmin(axis=1), misses.min(axis=1)
        visited: list[int] = []
        state = self.start
        while state != END and len(visited) < self.horizon:
            visited.append(state)
            if least[state] > tolerance:
                return Walk(tuple(visited), state)
            state = int(self.successors[state, best[state]])
        return Walk(tuple(visited), None)

    def worst(self, theta: FloatArray, tolerance: float = TOLERANCE) -> int | None:
        """The state that theta fails worst, of all of them."""
        least = self.misses(theta).min(axis=1)
        worst = int(least.argmax())
        return worst if least[worst] > tolerance else None

    def counterexample(
        self, theta: FloatArray, tolerance: float = TOLERANCE
    ) -> CriticalState | None:
        """The first failing state of the walk, or None if it is clean."""
        failed = self.walk(theta, tolerance).failed
        return None if failed is None else self.state(failed)

    def state(self, index: int) -> CriticalState:
        """What measuring every action of a state gives."""
        return CriticalState(
            int(self.stages[index]),
            self.rows[index][self.allowed[index]],
            features=self.features[index],
        )

    def around(self, states: Indices) -> IntArray:
        """The states and all their successors, each once: [m]."""
        indices = np.asarray(states, np.int64)
        if self.successors is None:
            return np.unique(indices)
        following = self.successors[indices]
        return np.unique(np.concatenate([indices, following[following != END]]))

    def cuts(self, states: Indices) -> Cuts:
        """Range cuts at states: low <= <phi, theta> <= high."""
        indices = np.unique(np.asarray(states, np.int64))
        known = np.isfinite(self.low[indices]) | np.isfinite(self.high[indices])
        kept = indices[known]
        return Cuts(self.features[kept], self.low[kept], self.high[kept])

    def beliefs(self, radius: float = 0.0, states: Indices = (), cuts: Indices = ()) -> Hypotheses:
        """The believable set after measuring states, with range cuts at others.

        Args:
            radius: rho; with 0 the oracle widens every slab by its own slack for rounding.
            states: critical states.
            cuts: states with a range cut.
        """
        critical = tuple(self.state(int(index)) for index in states)
        beliefs = Hypotheses(self.dim, self.norm, radius, critical)
        ranges = self.cuts(cuts)
        return beliefs.with_cuts(ranges) if len(ranges) else beliefs

    def one_shot(
        self, states: int, cuts: int = 0, *, radius: float = 0.0, seed: int = 0
    ) -> Hypotheses:
        """The believable set of so many random states and cuts, given at once."""
        rng = np.random.default_rng([seed, 1])
        critical = rng.permutation(self.size)[:states]
        return self.beliefs(radius, critical, rng.permutation(self.size)[:cuts])

    def explore(self, rollouts: int, steps: int = 12, seed: int = 0) -> Exploration:
        """Walk at random from the start, all rollouts in lockstep."""
        if self.successors is None:
            raise ValueError(f"{self.name} has no dynamics: there is nothing to explore")
        rng = np.random.default_rng([seed, 2])
        current = np.full(rollouts, self.start)
        seen: list[npt.NDArray[np.int64]] = []
        for _ in range(steps):
            current = current[current != END]
            seen.append(current)
            scores = np.where(self.allowed[current], rng.random((len(current), self.actions)), -1)
            current = self.successors[current, scores.argmax(axis=1)]
        states = np.unique(np.concatenate(seen))
        return Exploration(states, int(self.allowed[states].sum()))


def tolerance(radius: float) -> float:
    """What a test must forgive so that every parameter in the slabs passes at a stored state."""
    return max(TOLERANCE, 2 * radius)


def make_instance(
    *,
    name: str,
    theta: FloatArray,
    norm: float,
    features: FloatArray,
    rewards: FloatArray,
    successors: IntArray,
    stages: IntArray,
    low: FloatArray,
    high: FloatArray,
    horizon: int,
    allowed: BoolArray | None = None,
    start: int = 0,
) -> Instance:
    """An instance from tables: rewards [n, A], successors [n, A]; the rest as in the class."""
    ends = successors == END
    following = np.where(ends[:, :, None], 0.0, features[np.where(ends, 0, successors)])
    steps = following - features[:, None, :]
    return Instance(
        name=name,
        theta=theta,
        norm=norm,
        objective=features[start],
        rows=np.concatenate([rewards[:, :, None], steps], axis=2),
        features=features,
        allowed=np.ones(rewards.shape, np.bool_) if allowed is None else allowed,
        low=low,
        high=high,
        stages=stages,
        successors=successors,
        start=start,
        horizon=horizon,
    )
