"""The families of instances: each function draws one instance from a seed, or builds the only one.

The norm bound B is 1.5 times the norm of theta* in all of them, and |theta*| = 1 where the family
is free to choose it.
"""

from __future__ import annotations

import math

import numpy as np

from instances import END, Instance, make_instance
from tensorplan.problems.lower_bound import LowerBound
from tensorplan.records import BoolArray, FloatArray, IntArray

ROOM = 1.5
"""B over |theta*|."""

GAP = (0.05, 0.5)
"""By how much the other actions are worse in the layered family."""

LEAST = 0.1
"""Least reward of a consistent action in the ranged family, as a fraction of the largest."""

COST = 0.1
"""What a step costs in the grid."""

_MOVES = np.array([(0, 1), (0, -1), (1, 0), (-1, 0)])


def unit_vectors(rng: np.random.Generator, count: int, dim: int) -> FloatArray:
    """Directions, uniform on the sphere: [count, dim]."""
    vectors = rng.standard_normal((count, dim))
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def features_of(rng: np.random.Generator, theta: FloatArray, values: FloatArray) -> FloatArray:
    """Random unit features with <phi, theta> = value, for |theta| = 1: [n, d].

    In one dimension no direction is left beside theta, and they are shorter than 1.
    """
    vectors = rng.standard_normal((len(values), len(theta)))
    vectors -= np.outer(vectors @ theta, theta)
    vectors -= np.outer(vectors @ theta, theta)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    sideways = vectors / lengths if len(theta) > 1 else np.zeros_like(vectors)
    return values[:, None] * theta + np.sqrt(1 - values**2)[:, None] * sideways


def pick(rng: np.random.Generator, mask: BoolArray, count: int) -> IntArray:
    """For each row of a mask, columns drawn from its true ones with repetition: [n, count]."""
    scores = np.where(mask[:, None, :], rng.random((len(mask), count, mask.shape[1])), -1.0)
    return scores.argmax(axis=2)


Layer = tuple[FloatArray, FloatArray, IntArray]
"""Values [w], rewards [w, A] and successors [w, A] of a layer; action 0 is the consistent one."""


def _free_layer(
    rng: np.random.Generator, following: FloatArray, actions: int, _left: int, _horizon: int
) -> Layer:
    """Uniform values and uniform next states, and the rewards that they ask for."""
    width = len(following)
    values = rng.random(width)
    successors = rng.integers(width, size=(width, actions))
    rewards = values[:, None] - following[successors]
    rewards[:, 1:] -= rng.uniform(*GAP, (width, actions - 1))
    return values, rewards, successors


def _ranged_layer(
    rng: np.random.Generator, following: FloatArray, actions: int, left: int, horizon: int
) -> Layer:
    """Values and next states as random as rewards in [0, 1/H] allow."""
    most, least = 1 / horizon, LEAST / horizon
    target = rng.random(len(following)) * left / horizon
    gap = target[:, None] - following
    misfit = np.maximum(0.0, np.maximum(least - gap, gap - most))
    chosen = pick(rng, misfit == misfit.min(axis=1, keepdims=True), 1)[:, 0]
    values = np.clip(target, following[chosen] + least, following[chosen] + most)
    others = pick(rng, following <= values[:, None] - least, actions - 1)
    room = np.minimum(values[:, None] - following[others], most)
    rewards = 0.5 * rng.random(room.shape) * room
    successors = np.concatenate([chosen[:, None], others], axis=1)
    return values, np.concatenate([(values - following[chosen])[:, None], rewards], 1), successors


def _shuffled(
    rng: np.random.Generator, rewards: FloatArray, successors: IntArray
) -> tuple[FloatArray, IntArray]:
    """The actions of each state in random order."""
    order = rng.random(rewards.shape).argsort(axis=1)
    return np.take_along_axis(rewards, order, 1), np.take_along_axis(successors, order, 1)


def layered(
    dim: int, actions: int, seed: int, *, ranged: bool = False, horizon: int = 12, width: int = 20
) -> Instance:
    """A layered deterministic process with random features (the family "mdp").

    One action of each state is exactly consistent with theta*; the rewards of the others are
    smaller than theta* asks for, so theta* is the parameter of v*. Two kinds:

    * free: values are uniform on [0, 1] and next states uniform on the next layer; rewards are what
      that asks for. The range cuts are those of rewards in [0, 1], 0 <= v_h <= H-h+1, of which the
      upper side hardly matters.
    * ranged: everything is in units of H, rewards are in [0, 1/H], and the range cuts that follow
      are 0 <= v_h <= (H-h+1)/H. Worse actions lead to states of lower value, where random walks
      soon meet: they see few states.
    """
    rng = np.random.default_rng([seed, dim, actions, horizon, width])
    theta = unit_vectors(rng, 1, dim)[0]
    values = np.zeros((horizon + 1, width))
    rewards = np.zeros((horizon, width, actions))
    successors = np.full((horizon, width, actions), END)
    draw = _ranged_layer if ranged else _free_layer
    for layer in reversed(range(horizon)):
        drawn = draw(rng, values[layer + 1], actions, horizon - layer, horizon)
        values[layer], rewards[layer] = drawn[:2]
        if layer + 1 < horizon:
            successors[layer] = drawn[2] + (layer + 1) * width
    mixed = _shuffled(rng, rewards.reshape(-1, actions), successors.reshape(-1, actions))
    stages = np.repeat(np.arange(1, horizon + 1), width)
    return make_instance(
        name="ranged" if ranged else "layered",
        theta=theta,
        norm=ROOM,
        features=features_of(rng, theta, values[:-1].ravel()),
        rewards=mixed[0],
        successors=mixed[1],
        stages=stages,
        low=np.zeros(horizon * width),
        high=(horizon + 1 - stages) / (horizon if ranged else 1),
        horizon=horizon,
    )


def generic(dim: int, actions: int, seed: int, *, size: int = 240) -> Instance:
    """Random rows, of which one action's is consistent with theta*; no dynamics.

    The rows have random directions and lengths up to 2; the rewards of the other actions are
    uniform on [-1, 1]. Values at the states are in [0, 1]: those are the range cuts.
    """
    rng = np.random.default_rng([seed, dim, actions, size])
    theta = unit_vectors(rng, 1, dim)[0]
    lengths = rng.uniform(0.5, 2.0, (size * actions, 1))
    steps = (unit_vectors(rng, size * actions, dim) * lengths).reshape(size, actions, dim)
    rewards = rng.uniform(-1, 1, (size, actions))
    consistent = rng.integers(actions, size=size)
    rewards[np.arange(size), consistent] = -steps[np.arange(size), consistent] @ theta
    return Instance(
        name="generic",
        theta=theta,
        norm=ROOM,
        objective=unit_vectors(rng, 1, dim)[0],
        rows=np.concatenate([rewards[:, :, None], steps], axis=2),
        features=features_of(rng, theta, rng.random(size)),
        allowed=np.ones((size, actions), np.bool_),
        low=np.zeros(size),
        high=np.ones(size),
        stages=np.ones(size, np.int64),
        successors=None,
        start=0,
        horizon=1,
    )


def chain(dim: int, actions: int, seed: int) -> Instance:
    """A random acyclic graph on d states with one-hot features.

    Action 0 of a state leads to the next one, the others to random later ones or to the end, where
    possible to different ones. Rewards are uniform and scaled so that |theta*| = 1; a value is at
    most the largest reward times the longest way that is left: those are the range cuts.
    """
    rng = np.random.default_rng([seed, dim, actions])
    columns, rows = np.arange(max(dim + 1, actions - 1)), np.arange(dim)[:, None]
    later = (columns > rows + 1) & (columns <= dim)
    scores = np.where(later, rng.random(later.shape), -1.0)
    others = np.argsort(-scores, axis=1)[:, : actions - 1]
    others = np.where(np.take_along_axis(later, others, 1), others, rows + 1)
    successors = np.concatenate([rows + 1, others], axis=1)
    rewards = rng.random((dim, actions))
    values = np.zeros(dim + 1)
    for state in reversed(range(dim)):
        values[state] = (rewards[state] + values[successors[state]]).max()
    scale = float(np.linalg.norm(values))
    rewards, theta = rewards / scale, values[:-1] / scale
    mixed = _shuffled(rng, rewards, np.where(successors == dim, END, successors))
    return make_instance(
        name="chain",
        theta=theta,
        norm=ROOM,
        features=np.eye(dim),
        rewards=mixed[0],
        successors=mixed[1],
        stages=np.arange(1, dim + 1),
        low=np.zeros(dim),
        high=rewards.max() * np.arange(dim, 0, -1),
        horizon=dim,
    )


def grid(side: int, *, ceiling: float = math.inf) -> Instance:
    """A side x side grid with the goal in a corner and the start in the opposite one.

    Features are one-hot without the goal, d = side^2 - 1. The four moves cost COST each; those off
    the grid leave the state as it is, and are consistent with no parameter.

    Args:
        side: n.
        ceiling: range cut on the value at every state: 0, or -COST ("one step costs COST"), which
            is tight next to the goal; inf for none.
    """
    places = np.stack(np.divmod(np.arange(1, side**2), side), axis=1)
    moved = np.clip(places[:, None, :] + _MOVES, 0, side - 1)
    successors = moved @ np.array([side, 1]) - 1
    states = len(places)
    theta = -COST * places.sum(axis=1)
    return make_instance(
        name="grid",
        theta=theta,
        norm=ROOM * float(np.linalg.norm(theta)),
        features=np.eye(states),
        rewards=np.full((states, 4), -COST),
        successors=successors,
        stages=np.ones(states, np.int64),
        low=np.full(states, -np.inf),
        high=np.full(states, ceiling),
        horizon=4 * side**2,
        start=states - 1,
    )


def cube(axes: int, seed: int) -> Instance:
    """The grid {-1, 0, 1}^n of thm:lb with the goal in a random corner, d = n + 1.

    Staying at the goal is free for ever; here it ends the episode, which says the same and pins the
    constant of the features, to which no other row is sensitive. Walks are cut after 4 n steps. No
    range cuts.
    """
    goal = np.random.default_rng([seed, axes]).choice([-1, 1], size=axes)
    world = LowerBound(axes + 1, goal.tolist())
    states = np.indices((3,) * axes, np.int8).reshape(axes, -1).T - np.int8(1)
    count, actions = len(states), world.spec.actions
    repeated = np.repeat(states, actions, axis=0)
    chosen = np.tile(np.arange(actions), count)
    step = world.step(repeated, 1, chosen, np.random.default_rng(0))
    indices = (step.states + 1) @ 3 ** np.arange(axes)[::-1]
    successors = np.where(step.rewards == 0, END, indices)
    return make_instance(
        name="cube",
        theta=world.theta,
        norm=ROOM * float(np.linalg.norm(world.theta)),
        features=world.features(states, 1),
        rewards=step.rewards.reshape(count, actions),
        successors=successors.reshape(count, actions),
        stages=np.ones(count, np.int64),
        low=np.full(count, -np.inf),
        high=np.full(count, np.inf),
        horizon=4 * axes,
        allowed=world.allowed(states, 1),
        start=count // 2,
    )
