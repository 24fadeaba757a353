"""Small noisy processes, and the exact worth of what the adaptive planner certifies on them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from scipy.special import betainc

from tensorplan.adapters import Inaccurate
from tensorplan.exact import best_realizable_value, evaluate, solve, start_value
from tensorplan.finite import FiniteProcess, TableSimulator
from tensorplan.plan import AdaptivePlan, Budget, plan
from tensorplan.planners.adaptive.policy import GreedyPolicy
from tensorplan.planners.adaptive.rollouts import RolloutPolicy
from tensorplan.planners.adaptive.state import State
from tensorplan.planners.adaptive.tabular import TablePolicy
from tensorplan.problem import Simulator
from tensorplan.problems.random_tabular import rows_with_values
from tensorplan.ranges import ValueRanges
from tensorplan.records import BoolArray, FloatArray, IntArray, Spec, Status

UNLIKELY = 1e-3
"""Probability with which a count of misses is allowed to look too large by chance."""

TIE = 1e-9
"""Rounding in sums of a few numbers near 1."""

MOST_CASES = 4_000_000
"""Outcomes of the tests at a state that are worth enumerating."""


@dataclass(frozen=True)
class Sketch:
    """What a random process looks like.

    Attributes:
        axes: whether every state has an axis of its own, at each stage if there is a horizon.
        linear: whose values the features express.
        noise: by how much values stray from linear, which is the misspecification.
        bias: what the simulator adds to every reward; its size is the inaccuracy.
    """

    states: int = 4
    actions: int = 2
    horizon: int | None = 2
    dim: int = 2
    discount: float = 1.0
    rewards: tuple[float, float] = (0.0, 1.0)
    ends: float = 0.0
    outcomes: int = 2
    axes: bool = False
    linear: Literal["optimal", "suboptimal", "nothing"] = "optimal"
    noise: float = 0.0
    bias: float = 0.0
    spread: float = 1.0


@dataclass(frozen=True)
class World:
    """A process, what a simulator says of it, and what the referee knows.

    Attributes:
        process: the truth.
        bias: what the simulator adds to every reward.
    """

    process: FiniteProcess
    bias: float = 0.0

    @cached_property
    def simulator(self) -> Simulator:
        """What the planner asks."""
        truth, bias = TableSimulator(self.process), self.bias
        if not bias:
            return truth
        return Inaccurate(truth, abs(bias), bias=lambda states, _: np.full(len(states), bias))

    @cached_property
    def best(self) -> float:
        """v°."""
        spec = self.process.spec
        assert spec.bound is not None
        return best_realizable_value(self.process, spec.bound, spec.misspecification)

    def worth(self, policy: RolloutPolicy) -> float:
        """v^pi of a policy as the planner certifies it: a table, or a test at every state."""
        if isinstance(policy, TablePolicy):
            return start_value(self.process, evaluate(self.process, self._actions(policy)).values)
        assert isinstance(policy, GreedyPolicy)
        return start_value(self.process, evaluate(self.process, self.chances(policy)).values)

    def chances(self, policy: GreedyPolicy) -> FloatArray:
        """How likely the policy's test chooses each action: [H or 1, S, A]."""
        process, spec = self.process, self.process.spec
        low, high = spec.reward_range
        rewards = np.clip(process.rewards + self.bias, low, high)
        rows: list[list[FloatArray]] = []
        for stage in range(1, (spec.horizon or 1) + 1):
            after = np.zeros(process.states)
            if stage != spec.horizon:
                following = 1 if spec.horizon is None else stage + 1
                after = process.features_at(following) @ policy.theta
            ahead = np.where(process.terminated, 0.0, spec.discount * after[process.successors])
            answers, weights = rewards + ahead, process.probabilities
            rows.append([choices(a, w, policy) for a, w in zip(answers, weights, strict=True)])
        return np.array(rows)

    def _actions(self, policy: TablePolicy) -> IntArray:
        """The table by states instead of axes: [H or 1, S]."""
        stages = range(1, (self.process.spec.horizon or 1) + 1)
        axes = np.array([self.process.features_at(stage).argmax(axis=1) for stage in stages])
        chosen: IntArray = np.take_along_axis(policy.table, axes, axis=1)
        return np.maximum(chosen, 0)


def choices(answers: FloatArray, weights: FloatArray, policy: GreedyPolicy) -> FloatArray:
    """How likely a test at one state chooses each action, by going through all its outcomes: [A].

    Args:
        answers: [A, K], R + gamma v(S') at theta.
        weights: [A, K], their probabilities.
        policy: says how many are drawn at first, and which actions are drawn again.
    """
    count = len(answers)
    if np.allclose(answers, answers[0]) and np.allclose(weights, weights[0]):
        return np.full(count, 1 / count)  # whoever is chosen is worth the same
    first = max(2, policy.draws // 4)
    rest = max(0, policy.draws - first)
    begun = [_sums(a, w, first) for a, w in zip(answers, weights, strict=True)]
    more = [_sums(a, w, rest) for a, w in zip(answers, weights, strict=True)]
    assert math.prod(len(b[0]) for b in begun) * len(more[0][0]) <= MOST_CASES
    grid = np.meshgrid(*[values for values, _ in begun], indexing="ij")
    margin = 2.0 * policy.scale * math.sqrt(2 / first) if rest else math.inf
    means = np.array(grid) / first
    close = means >= means.max(axis=0) - margin
    likely = np.array(np.meshgrid(*[chance for _, chance in begun], indexing="ij")).prod(axis=0)
    return np.array(
        [float((likely * _wins(action, begun, more, close)).sum()) for action in range(count)]
    )


def _sums(values: FloatArray, chances: FloatArray, draws: int) -> tuple[FloatArray, FloatArray]:
    """The sum of some draws: its values in increasing order, and their probabilities."""
    found: FloatArray = np.zeros(1)
    weights: FloatArray = np.ones(1)
    for _ in range(draws):
        more: FloatArray = np.add.outer(found, values).ravel().round(10)
        found, where = np.unique(more, return_inverse=True)
        likely, weights = np.multiply.outer(weights, chances).ravel(), np.zeros(len(found))
        np.add.at(weights, where, likely)
    return found, weights


def _wins(
    action: int,
    begun: list[tuple[FloatArray, FloatArray]],
    more: list[tuple[FloatArray, FloatArray]],
    close: BoolArray,
) -> FloatArray:
    """How likely an action has the first largest mean, after each first part: [F_0, ..., F_A-1]."""
    own = np.add.outer(begun[action][0], more[action][0])  # [F, J]
    chance = np.where(close[action][..., None], more[action][1], 0.0)
    for other in range(len(begun)):
        if other == action:
            continue
        totals, chances = more[other]
        behind = np.concatenate([[0.0], np.cumsum(chances)])
        # The first of several largest ones is chosen.
        room = TIE if action < other else -TIE
        needed = own[:, :, None] + room - begun[other][0]  # [F, J, G]
        below = behind[np.searchsorted(totals, needed)]
        shape = [1] * len(begun)
        shape[action], shape[other] = len(own), len(begun[other][0])
        turned = below if action < other else below.transpose(2, 1, 0)
        axes = turned.transpose(0, 2, 1).reshape(*shape, -1)
        chance = chance * np.where(close[other][..., None], axes, 1.0)
    return chance.sum(axis=-1)


def drawn(seed: int, sketch: Sketch) -> World:
    """A random noisy process of some kind."""
    rng = np.random.default_rng([29, seed])
    low, high = sketch.rewards
    stages = sketch.horizon or 1
    reach = max(abs(low), abs(high))
    reach *= stages if sketch.horizon else 1 / (1 - sketch.discount)
    spec = Spec(
        actions=sketch.actions,
        dim=sketch.dim,
        horizon=sketch.horizon,
        discount=sketch.discount,
        reward_range=sketch.rewards,
        bound=1.06 * reach,
        misspecification=sketch.noise,
        may_terminate=sketch.ends > 0,
    )
    cells = (sketch.states, sketch.actions, sketch.outcomes)
    middle = rng.uniform(low, high, size=(*cells[:2], 1))
    rewards = middle + sketch.spread * (rng.uniform(low, high, size=cells) - middle)
    room = abs(sketch.bias) + 0.01
    process = FiniteProcess(
        spec=spec,
        probabilities=rng.dirichlet(2 * np.ones(sketch.outcomes), size=cells[:2]),
        successors=rng.integers(sketch.states, size=cells),
        rewards=np.clip(rewards, low + room, high - room),
        terminated=rng.random(cells) < sketch.ends,
        feature_table=np.zeros((stages, sketch.states, sketch.dim)),
        start_probabilities=np.eye(sketch.states)[0],
    )
    return World(_with_features(process, sketch, reach, rng), sketch.bias)


def _with_features(
    process: FiniteProcess, sketch: Sketch, reach: float, rng: np.random.Generator
) -> FiniteProcess:
    stages = sketch.horizon or 1
    if sketch.axes:
        size = stages * sketch.states
        return process.with_features(
            np.eye(size).reshape(stages, sketch.states, size), bound=reach * math.sqrt(size)
        )
    found = solve(process)
    values = found.values[:stages]
    if sketch.linear == "suboptimal":
        policy = rng.integers(sketch.actions, size=(stages, sketch.states))
        policy[0, 0] = found.q[0, 0].argmin()
        values = evaluate(process, policy).values[:stages]
    elif sketch.linear == "nothing":
        values = rng.permutation(values.ravel()).reshape(values.shape)
    values = values + sketch.noise * rng.choice([-1.0, 1.0], size=values.shape)
    theta = rng.normal(size=sketch.dim)
    theta *= reach / np.linalg.norm(theta)
    return process.with_features(rows_with_values(values / 1.01, theta, rng))


@dataclass(frozen=True)
class Miss:
    """What a run claimed wrongly.

    Attributes:
        lower: whether the policy is worth less than its lower bound.
        upper: whether the best realizable policy is worth more than the upper bound.
        rejected: whether a realizable policy was said not to exist.
        certified: whether the run closed its gap.
    """

    lower: bool
    upper: bool
    rejected: bool
    certified: bool

    @property
    def any(self) -> bool:
        """Whether anything was wrong: what the confidence is about."""
        return self.lower or self.upper or self.rejected


def judged(world: World, made: AdaptivePlan) -> Miss:
    """What a plan claims, held against the referee."""
    record, lower, upper = made.record, made.certificate.lower, made.certificate.upper
    assert isinstance(record, State)
    if lower is None or upper is None:
        assert made.status is Status.REJECTED
        return Miss(False, False, world.best > -math.inf, False)
    slack = TIE * (1 + abs(upper) + abs(lower))
    if record.best is None:
        # No policy has been looked at: the bound is what every policy is worth.
        too_high = lower > ValueRanges.of(world.process.spec).low(1) + slack
    else:
        too_high = lower > world.worth(record.best) + slack
    return Miss(too_high, world.best > upper + slack, False, made.status is Status.CERTIFIED)


def misses(
    world: World, runs: int, *, queries: int = 60_000, first: int = 0, **settings: Any
) -> list[Miss]:
    """What so many seeded runs claimed wrongly."""
    found: list[Miss] = []
    for seed in range(first, first + runs):
        budget = Budget(queries=queries)
        made = plan(world.simulator, planner="adaptive", seed=seed, budget=budget, **settings)
        found.append(judged(world, made))
    return found


def too_many(wrong: int, runs: int, level: float) -> bool:
    """Whether so many misses contradict the level: a one-sided binomial test."""
    if wrong == 0:
        return False
    return bool(betainc(wrong, runs - wrong + 1, level) < UNLIKELY)


def wrong_of(found: list[Miss], pick: Callable[[Miss], bool] = lambda miss: miss.any) -> int:
    """How many runs claimed something wrong."""
    return sum(pick(miss) for miss in found)
