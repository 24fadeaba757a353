"""States in groups that share their value but not their best action."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tensorplan.finite import FiniteProcess
from tensorplan.problems.base import BOUND_ROOM, Family, LinearTable, require_at_least
from tensorplan.problems.induction import optimal_values, start_value
from tensorplan.records import FloatArray, IntArray, Spec


class _Groups(NamedTuple):
    """The process of the groups: G groups, A moves, W possible next groups.

    Shapes: rewards [G, A]; weights and following [G, A, W].
    """

    rewards: FloatArray
    weights: FloatArray
    following: IntArray


def build(
    *,
    groups: int = 3,
    members: int = 4,
    actions: int = 2,
    horizon: int = 4,
    stochastic: bool = False,
    seed: int = 0,
) -> LinearTable:
    """A random process of groups, whose members give the moves different names.

    Action a of member m stands for move a + m (mod A) of its group, so that all members are
    worth the same and disagree on the best action. A policy that is a function of the features
    (the stage and the group) is wrong for some members, while v* is exactly linear: value
    features are enough where policy features are not. The start is a random member of group 0.
    A planner that looks at temporal differences can promise v*; one that learns a policy over
    the features cannot.

    Args:
        groups: number of groups, G.
        members: states of a group, at least 2.
        actions: A, at least 2.
        horizon: H.
        stochastic: whether the next group is random (one of two, with the member uniformly
            random); otherwise only the start is.
        seed: of everything.
    """
    require_at_least(1, groups=groups, horizon=horizon)
    require_at_least(2, members=members, actions=actions)
    require_at_least(0, seed=seed)
    rng = np.random.default_rng(seed)
    spec = Spec(
        actions=actions,
        dim=horizon * groups,
        horizon=horizon,
        deterministic=not stochastic,
        may_terminate=False,
    )
    process = _process(spec, _draw_groups(groups, actions, stochastic, rng), members, rng)
    theta = optimal_values(process)[:, ::members].ravel()
    bound = BOUND_ROOM * float(np.linalg.norm(theta))
    return LinearTable(process.with_features(process.feature_table, bound=bound), theta)


def _draw_groups(groups: int, actions: int, stochastic: bool, rng: np.random.Generator) -> _Groups:
    """One move of each group pays at least .2 more at once than the others."""
    rewards = 0.4 * rng.random((groups, actions))
    rewards[np.arange(groups), rng.integers(actions, size=groups)] += 0.6
    first = rng.uniform(0.2, 0.8, size=(groups, actions, 1))
    if stochastic:
        weights = np.concatenate([first, 1 - first], axis=2)
    else:
        weights = np.ones((groups, actions, 1))
    return _Groups(rewards, weights, rng.integers(groups, size=weights.shape))


def _process(spec: Spec, drawn: _Groups, members: int, rng: np.random.Generator) -> FiniteProcess:
    groups = len(drawn.rewards)
    group, member = np.divmod(np.arange(groups * members), members)
    move = (np.arange(spec.actions) + member[:, None]) % spec.actions
    picked = (group[:, None], move)
    first, chances = members * drawn.following[picked], drawn.weights[picked]
    if spec.deterministic:
        successors = first + rng.integers(members, size=first.shape)
    else:
        shape = (*first.shape[:2], -1)
        successors = (first[..., None] + np.arange(members)).reshape(shape)
        chances = np.repeat(chances / members, members, axis=2)
    rewards = np.broadcast_to(drawn.rewards[picked][..., None], chances.shape)
    one_hot = np.eye(spec.dim).reshape(-1, groups, spec.dim)
    return FiniteProcess(
        spec=spec,
        probabilities=chances,
        successors=successors,
        rewards=rewards,
        terminated=np.zeros(chances.shape, np.bool_),
        feature_table=np.repeat(one_hot, members, axis=1),
        start_probabilities=np.where(group == 0, 1 / members, 0.0),
    )


def _reference(**settings: Any) -> float:
    return start_value(build(**settings).process)


FAMILY = Family(
    name="aggregated",
    summary="Groups of states that share their value but not their best action.",
    features="one-hot over (stage, group): d = H G",
    realizable="v* is exactly linear, theta_(h,g) = v*_h(g). No function of the features is an "
    "optimal policy. A parameter for each pair gives nothing away, and shares nothing either.",
    build=build,
    reference=_reference,
)
