"""Slow or independent computations that the tests of the finite problems compare with."""

import math
from collections.abc import Callable
from functools import cache
from itertools import product

import numpy as np

from tensorplan.finite import FiniteProcess
from tensorplan.problem import Simulator
from tensorplan.problems import Family, LinearTable
from tensorplan.records import BoolArray, FloatArray, IntArray, States


def horizon_of(process: FiniteProcess) -> int:
    assert process.spec.horizon is not None
    return process.spec.horizon


def recursive_value(process: FiniteProcess, policy: IntArray | None = None) -> float:
    """Value of the start, one outcome at a time: slow, and nothing in common with the arrays."""
    horizon = horizon_of(process)

    @cache
    def value(stage: int, state: int) -> float:
        if stage > horizon:
            return 0.0
        choices = (
            np.flatnonzero(process.allowed[state]) if policy is None else [policy[stage - 1, state]]
        )
        return max(worth(stage, state, int(action)) for action in choices)

    def worth(stage: int, state: int, action: int) -> float:
        total = 0.0
        for outcome, chance in enumerate(process.probabilities[state, action]):
            if chance > 0:
                end = process.terminated[state, action, outcome]
                following = int(process.successors[state, action, outcome])
                total += chance * process.rewards[state, action, outcome]
                total += 0.0 if end else chance * value(stage + 1, following)
        return float(total)

    starts = np.flatnonzero(process.start_probabilities)
    return sum(float(process.start_probabilities[s]) * value(1, int(s)) for s in starts)


def reachable(process: FiniteProcess) -> BoolArray:
    """Which states can be met at which stage: [H, S]."""
    marks = [process.start_probabilities > 0]
    for _ in range(horizon_of(process) - 1):
        goes_on = (process.probabilities > 0) & ~process.terminated & process.allowed[..., None]
        following = process.successors[goes_on & marks[-1][:, None, None]]
        marks.append(np.isin(np.arange(process.states), following))
    return np.stack(marks)


def rows_of(process: FiniteProcess) -> FloatArray:
    """Features: [H, S, d]."""
    return np.stack([process.features_at(stage + 1) for stage in range(horizon_of(process))])


def misfit(process: FiniteProcess, values: FloatArray, mask: BoolArray | None = None) -> float:
    """Largest residual of the best least-squares fit to values at the marked pairs."""
    chosen = np.ones(values.shape, np.bool_) if mask is None else mask
    rows, targets = rows_of(process)[chosen], values[chosen]
    theta = np.linalg.lstsq(rows, targets, rcond=None)[0]
    return float(np.abs(rows @ theta - targets).max())


def check_linear(world: LinearTable, values: FloatArray, mask: BoolArray | None = None) -> None:
    """The known parameter reproduces the values, within the bound."""
    process = world.process
    chosen = np.ones(values.shape, np.bool_) if mask is None else mask
    assert world.theta is not None
    assert process.spec.bound is not None
    assert np.linalg.norm(world.theta) <= process.spec.bound
    np.testing.assert_allclose((rows_of(process) @ world.theta)[chosen], values[chosen], atol=1e-9)


def returns_of_all_sequences(world: LinearTable) -> dict[tuple[int, ...], float]:
    """Return of every sequence of actions of a deterministic process, by playing it."""
    rng, spec = np.random.default_rng(0), world.spec
    returns: dict[tuple[int, ...], float] = {}
    for sequence in product(range(spec.actions), repeat=horizon_of(world.process)):
        states, total = world.start(rng), 0.0
        for stage, action in enumerate(sequence, start=1):
            step = world.step(states, stage, np.array([action]), rng)
            states, total = step.states, total + float(step.rewards[0])
        returns[sequence] = total
    return returns


def played(
    world: Simulator, policy: Callable[[States, int], IntArray], episodes: int, seed: int
) -> tuple[float, float]:
    """Mean return of a policy's episodes, and its standard error."""
    assert world.spec.horizon is not None
    rng = np.random.default_rng(seed)
    states, returns = np.repeat(world.start(rng), episodes), np.zeros(episodes)
    alive = np.ones(episodes, np.bool_)
    for stage in range(1, world.spec.horizon + 1):
        step = world.step(states, stage, policy(states, stage), rng)
        returns += np.where(alive, step.rewards, 0.0)
        states, alive = step.states, alive & ~step.terminated
    return float(returns.mean()), float(returns.std() / math.sqrt(episodes))


def misfit_of(column: FloatArray, values: FloatArray) -> float:
    """Largest residual of the best multiple of one feature."""
    square = float(column @ column)
    best = float(column @ values) / square if square > 0 else 0.0
    return float(np.abs(best * column - values).max())


def reference_of(family: Family, **settings: object) -> float:
    """The reference value, which is known."""
    value = family.reference(**settings)
    assert value is not None
    return value
