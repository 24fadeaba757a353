"""Processes with linear optimal values, and plain re-computations, for tests of whole runs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tensorplan.exact import best_realizable_value, solve
from tensorplan.finite import FiniteProcess, TableSimulator
from tensorplan.plan import PaperPlan, Plan, Watcher
from tensorplan.plan import plan as any_plan
from tensorplan.problem import Simulator
from tensorplan.problems.random_tabular import rows_with_values
from tensorplan.records import FloatArray, Spec


def plan(
    simulator: Simulator, *, delta: float, watch: Watcher | None = None, **options: Any
) -> PaperPlan:
    """A plan of the paper's planner."""
    return any_plan(simulator, delta=delta, planner="paper", watch=watch, **options)


@dataclass(frozen=True)
class Shape:
    """What a random process looks like."""

    states: int = 5
    actions: int = 2
    horizon: int | None = 3
    dim: int = 3
    discount: float = 1.0
    rewards: tuple[float, float] = (0.0, 1.0)
    ends: float = 0.0
    masks: float = 0.0
    starts: int = 1
    noise: float = 0.0


def linear_process(seed: int, shape: Shape) -> FiniteProcess:
    """A random deterministic process in whose random features v* is linear.

    ``noise`` moves every linear value by up to that much, so that it is the misspecification.
    """
    rng = np.random.default_rng([11, seed])
    low, high = shape.rewards
    reach = max(abs(low), abs(high))
    reach *= shape.horizon if shape.horizon is not None else 1 / (1 - shape.discount)
    spec = Spec(
        actions=shape.actions,
        dim=shape.dim,
        horizon=shape.horizon,
        discount=shape.discount,
        reward_range=shape.rewards,
        bound=1.05 * reach,
        deterministic=True,
        misspecification=shape.noise,
        may_terminate=shape.ends > 0,
    )
    cells = (shape.states, shape.actions, 1)
    allowed = rng.random(cells[:2]) >= shape.masks
    allowed[np.arange(shape.states), rng.integers(shape.actions, size=shape.states)] = True
    process = FiniteProcess(
        spec=spec,
        probabilities=np.ones(cells),
        successors=rng.integers(shape.states, size=cells),
        rewards=rng.uniform(low, high, size=cells),
        terminated=rng.random(cells) < shape.ends,
        feature_table=np.zeros((shape.horizon or 1, shape.states, shape.dim)),
        start_probabilities=(np.arange(shape.states) < shape.starts) / shape.starts,
        allowed=allowed,
    )
    theta = rng.normal(size=shape.dim)
    theta *= reach / np.linalg.norm(theta)
    values = solve(process).values[: shape.horizon or 1]
    values = values + shape.noise * rng.uniform(-1, 1, size=values.shape)
    return process.with_features(rows_with_values(values / 1.01, theta, rng), bound=1.06 * reach)


def bound_of(simulator: Simulator) -> float:
    """B, which is known."""
    assert simulator.spec.bound is not None
    return simulator.spec.bound


def best_of(process: FiniteProcess, eta: float = 0.0) -> float:
    """v° of the start."""
    return best_realizable_value(process, bound_of(TableSimulator(process)), eta)


def starting_at(process: FiniteProcess, state: int) -> FiniteProcess:
    """The same process from one start."""
    return replace(process, start_probabilities=np.eye(process.states)[state])


def walked(made: Plan, simulator: TableSimulator) -> float:
    """Return of an episode in which the environment, not the plan, moves on."""
    rng, total = np.random.default_rng(0), 0.0
    states = simulator.start(rng)
    for stage in range(1, (simulator.spec.horizon or 1) + 1):
        action = made.action(states[0], stage)
        step = simulator.step(states, stage, np.array([action]), rng)
        states, total = step.states, total + float(step.rewards[0])
        if step.terminated[0]:
            break
    return total


def thetas_of(made: Plan) -> FloatArray:
    """The parameter of every iteration: [T, d]."""
    return np.array([event.theta for event in made.events])


def failures_of(made: Plan) -> list[tuple[int, int] | None]:
    """The kept failure of every iteration."""
    return [event.failed for event in made.events]


def failed_in_record(made: PaperPlan, iteration: int) -> list[tuple[int, int]]:
    """Failed tests of an iteration in the printed order, from the recorded measurements."""
    u = np.array([1.0, *made.events[iteration - 1].theta])
    failed: list[tuple[int, int]] = []
    for batch in made.record.tests:
        if batch.iteration == iteration:
            errors = np.abs(batch.measurement.rows @ u)
            errors[~batch.measurement.measured] = np.inf
            rollouts = batch.rollouts[errors.min(axis=1) > made.resolved.tolerance]
            failed += [(int(rollout), batch.stage) for rollout in rollouts]
    return sorted(failed)
