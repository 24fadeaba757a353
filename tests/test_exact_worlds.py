"""Small processes and slow, plain answers about them, for the tests of the referee."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import numpy as np

from tensorplan.finite import FiniteProcess, from_table
from tensorplan.records import FloatArray, IntArray, Spec

Pair = tuple[int, int]


def random_process(
    seed: int, spec: Spec, states: int = 3, *, end: float = 0.0, mask: float = 0.0
) -> FiniteProcess:
    """Two random outcomes each; some end the episode, some actions are not available."""
    rng = np.random.default_rng(seed)
    shape = (states, spec.actions, 2)
    allowed = rng.random(shape[:2]) >= mask
    allowed[np.arange(states), rng.integers(spec.actions, size=states)] = True
    return FiniteProcess(
        spec=spec,
        probabilities=rng.dirichlet(np.ones(2), shape[:2]),
        successors=rng.integers(states, size=shape),
        rewards=rng.random(shape),
        terminated=rng.random(shape) < end,
        feature_table=rng.normal(size=(spec.horizon or 1, states, spec.dim)),
        start_probabilities=np.eye(states)[0],
        allowed=allowed,
    )


def planted(process: FiniteProcess, seed: int, *, norm: float = 2.0) -> FiniteProcess:
    """Change the features so that a random policy is realized by a theta of that norm."""
    rng = np.random.default_rng(seed)
    lots = rng.random((len(process.feature_table), *process.allowed.shape))
    policy = (lots * process.allowed).argmax(axis=2)
    theta = rng.normal(size=process.spec.dim)
    theta *= norm / np.linalg.norm(theta)
    gap = slow_values(process, policy)[: len(policy)] - process.feature_table @ theta
    return process.with_features(process.feature_table + gap[..., None] * theta / norm**2)


def slow_pairs(process: FiniteProcess) -> list[Pair]:
    """Pairs (stage from 0, state) reached alive: a search one outcome at a time."""
    found: set[Pair] = set()
    stack = [(0, int(s)) for s in np.flatnonzero(process.start_probabilities)]
    while stack:
        stage, state = stack.pop()
        if (stage, state) in found or stage == (process.spec.horizon or 1):
            continue
        found.add((stage, state))
        for action, outcome in product(
            range(process.spec.actions), range(process.rewards.shape[2])
        ):
            cell = (state, action, outcome)
            alive = process.probabilities[cell] > 0 and not process.terminated[cell]
            if alive and process.allowed[state, action]:
                following = stage + (process.spec.horizon is not None)
                stack.append((following, int(process.successors[cell])))
    return sorted(found)


def slow_policies(process: FiniteProcess) -> Iterator[IntArray]:
    """All deterministic policies that differ at some pair reached alive."""
    pairs = slow_pairs(process)
    options = [np.flatnonzero(process.allowed[state]) for _, state in pairs]
    for choice in product(*options):
        policy = np.tile(process.allowed.argmax(axis=1), (process.spec.horizon or 1, 1))
        for pair, action in zip(pairs, choice, strict=True):
            policy[pair] = action
        yield policy


def slow_values(process: FiniteProcess, policy: IntArray) -> FloatArray:
    """Values [H + 1, S] (or [1, S]) by adding up outcomes; 400 sweeps when discounted."""
    stages = process.spec.horizon
    values = np.zeros(((stages or 0) + 1, process.states))
    order = reversed(range(stages)) if stages is not None else iter([0] * 400)
    for stage in order:
        ahead = values[stage + 1] if stages is not None else values[0].copy()
        for state in range(process.states):
            total = 0.0
            for outcome in range(process.rewards.shape[2]):
                cell = (state, int(policy[stage, state]), outcome)
                later = 0.0 if process.terminated[cell] else ahead[process.successors[cell]]
                worth = process.rewards[cell] + process.spec.discount * later
                total += process.probabilities[cell] * worth
            values[stage, state] = total
    return values


def two_states(horizon: int | None, discount: float = 1.0) -> FiniteProcess:
    """State 0 can stay for 0.1 or move on for nothing; state 1 pays 1 for ever."""
    spec = Spec(actions=2, dim=2, horizon=horizon, discount=discount)
    rest = [(1.0, 1, 1.0, False)]
    table = [[[(1.0, 0, 0.1, False)], [(1.0, 1, 0.0, False)]], [rest, rest]]
    return from_table(table, np.eye(2), spec).process


def rotation(dim: int, seed: int) -> FloatArray:
    """A random orthogonal matrix."""
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(dim, dim)))[0]


def permuted(process: FiniteProcess, order: list[int]) -> FiniteProcess:
    """The same process with its actions renamed, left out or repeated."""
    return FiniteProcess(
        spec=replace(process.spec, actions=len(order)),
        probabilities=process.probabilities[:, order],
        successors=process.successors[:, order],
        rewards=process.rewards[:, order],
        terminated=process.terminated[:, order],
        feature_table=process.feature_table,
        start_probabilities=process.start_probabilities,
        allowed=process.allowed[:, order],
    )


def test_slow_values_of_a_hand_example():
    process = two_states(horizon=3)
    always_stay = np.zeros((3, 2), np.int64)
    np.testing.assert_allclose(slow_values(process, always_stay)[:, 0], [0.3, 0.2, 0.1, 0.0])
    np.testing.assert_allclose(slow_values(process, always_stay)[:, 1], [3, 2, 1, 0])


def test_planted_policy_is_linear_with_the_norm_asked_for():
    process = planted(random_process(3, Spec(2, 3, 3)), seed=3, norm=5.0)
    live = tuple(np.transpose(slow_pairs(process)))
    matrix, misfits = process.feature_table[live], list[float]()
    for policy in slow_policies(process):
        targets = slow_values(process, policy)[live]
        theta = np.linalg.lstsq(matrix, targets)[0]
        misfits.append(float(np.abs(matrix @ theta - targets).max()))
    assert len(matrix) > 3
    assert min(misfits) < 1e-12 < max(misfits)
