"""Random finite processes with random features in which a chosen value is linear."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np

from tensorplan.errors import SettingError
from tensorplan.finite import FiniteProcess
from tensorplan.problems.base import BOUND_ROOM, Family, LinearTable, require_at_least
from tensorplan.problems.induction import action_values, policy_values, start_value
from tensorplan.records import FloatArray, IntArray, Spec

Realizable = Literal["optimal", "suboptimal", "none"]


def build(
    *,
    states: int = 20,
    actions: int = 2,
    horizon: int = 5,
    dim: int = 4,
    seed: int = 0,
    outcomes: int = 1,
    realizable: Realizable = "optimal",
) -> LinearTable:
    """A random process whose features make one value linear, or none.

    Successors, their probabilities and the rewards are uniformly random; the start is state 0.
    The features of (s, h) are a random row whose component along a hidden direction is v_h(s),
    for the v that ``realizable`` names: a planner can find theta by queries, and can promise v*
    for "optimal". For "suboptimal" it can promise only the value of that policy, about half of
    whose actions are best. For "none" the states 2i and 2i + 1 share their features but not
    their rewards, so that no policy, not even a random one, is realizable: a planner without
    misspecification is right to reject.

    Args:
        states: S, at least 2 for "none".
        actions: A, at least 2 for "suboptimal".
        horizon: H.
        dim: d, at least 2: a single feature would be the value itself.
        seed: of everything; dynamics and rewards are the same for "optimal" and "suboptimal".
        outcomes: K, outcomes of a state and an action; 1 is a deterministic process.
        realizable: whose value is linear.
    """
    require_at_least(1, states=states, actions=actions, horizon=horizon, outcomes=outcomes)
    require_at_least(0, seed=seed)
    require_at_least(2, dim=dim)
    _check_room(realizable, states, actions)
    dynamics, choices, rows = map(np.random.default_rng, np.random.SeedSequence(seed).spawn(3))
    spec = Spec(
        actions=actions,
        dim=dim,
        horizon=horizon,
        bound=BOUND_ROOM * horizon,
        deterministic=outcomes == 1,
        may_terminate=False,
    )
    process = _draw_process(spec, states, outcomes, dynamics)
    if realizable == "none":
        rewards = 0.4 * process.rewards
        rewards[1::2] += 0.6
        process = replace(process, rewards=rewards)
    return _with_linear_values(process, realizable, choices, rows)


def _draw_process(
    spec: Spec, states: int, outcomes: int, rng: np.random.Generator
) -> FiniteProcess:
    """Dynamics and rewards; the features are still zero."""
    shape = (states, spec.actions, outcomes)
    return FiniteProcess(
        spec=spec,
        probabilities=rng.dirichlet(np.ones(outcomes), size=shape[:2]),
        successors=rng.integers(states, size=shape),
        rewards=rng.random(shape),
        terminated=np.zeros(shape, np.bool_),
        feature_table=np.zeros((1, states, spec.dim)),
        start_probabilities=np.eye(states)[0],
    )


def _with_linear_values(
    process: FiniteProcess,
    realizable: Realizable,
    choices: np.random.Generator,
    rows: np.random.Generator,
) -> LinearTable:
    optimal = action_values(process)
    values, policy = optimal.max(axis=2), None
    if realizable == "suboptimal":
        policy = _suboptimal_policy(optimal, choices)
        values = policy_values(process, policy)
    look = np.arange(process.states)
    if realizable == "none":
        look //= 2
        sums = np.stack([np.bincount(look, weights=each) for each in values])
        values = sums / np.bincount(look)
    direction = rows.normal(size=process.spec.dim)
    theta = direction * ((process.spec.horizon or 1) / np.linalg.norm(direction))
    features = rows_with_values(values, theta, rows)[:, look]
    return LinearTable(
        process.with_features(features), None if realizable == "none" else theta, policy
    )


def _suboptimal_policy(action_values: FloatArray, rng: np.random.Generator) -> IntArray:
    """About half of the best actions, and the worst one at the start: [H, S]."""
    stages, states, actions = action_values.shape
    best = action_values.argmax(axis=2)
    other = rng.integers(actions, size=(stages, states))
    policy = np.where(rng.random((stages, states)) < 0.5, best, other)
    policy[0, 0] = action_values[0, 0].argmin()
    return policy


def rows_with_values(values: FloatArray, theta: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Random rows phi of norm at most 1 with <phi, theta> = v.

    Args:
        values: [H, S], at most the norm of theta.
        theta: [d], d at least 2.
        rng: draws the components across theta: a uniform direction, and a length that fills
            the norm that is left to between a half and all of it.

    Returns:
        [H, S, d].
    """
    norm = float(np.linalg.norm(theta))
    along, axis = values / norm, theta / norm
    across = rng.normal(size=(*values.shape, len(theta)))
    across -= (across @ axis)[..., None] * axis
    room = np.sqrt(1 - along**2) * rng.uniform(0.5, 1.0, size=values.shape)
    across *= (room / np.linalg.norm(across, axis=-1))[..., None]
    return along[..., None] * axis + across


def _check_room(realizable: Realizable, states: int, actions: int) -> None:
    if realizable == "none" and states < 2:
        raise SettingError(
            f"states={states} with realizable='none'",
            "two states must look the same and be worth different amounts",
            "Give 2 states or more.",
        )
    if realizable == "suboptimal" and actions < 2:
        raise SettingError(
            f"actions={actions} with realizable='suboptimal'",
            "a single action is always optimal",
            "Give 2 actions or more.",
        )


def _reference(**settings: Any) -> float:
    return start_value(build(**settings).process)


FAMILY = Family(
    name="random-tabular",
    summary="Random finite process, deterministic or with K outcomes, with random features.",
    features="phi_h(s) = (v_h(s) / H) u + w_h(s), with u = theta / H a hidden unit vector and "
    "w_h(s) random and orthogonal to it",
    realizable="exactly the value of an optimal policy (realizable='optimal') or of a given "
    "policy ('suboptimal') is linear; with 'none' no policy's is. The features are not v*, "
    "but one hidden direction of them is proportional to it.",
    build=build,
    reference=_reference,
)
