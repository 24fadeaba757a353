"""Infinitely many states whose optimal value is linear in random features.

Shapes: ``n`` states, ``K`` successors of a state and an action, ``d`` features. ``h`` is the
stage and ``k = H - h + 1`` the number of stages that are left, the present one included.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal

import numpy as np

from tensorplan.errors import SettingError
from tensorplan.hashing import KeyArray, hashed, uniform
from tensorplan.problems.base import Family, require_at_least
from tensorplan.records import FloatArray, IntArray, Spec, States, Step

LOW: Final = 0.3
HIGH: Final = 0.7
"""Optimal values lie strictly between LOW k and HIGH k, well inside their range [0, k]."""
BOUND_FACTOR: Final = 1.5
"""``Spec.bound`` is the norm of theta times this: the ball gives nothing away."""

_REWARD_NOISE: Final = 0.5  # spread of rewards around the value per stage
_VALUE_SPREAD: Final = 0.5  # spread of the successors' values around their mean
_FRACTION_BITS: Final = 32  # leading bits of a state that hold its value; the rest is its name
_FRACTION_STEP: Final = 2.0**-_FRACTION_BITS
_MIDDLE: Final = 1 << 31  # the fraction of a state in the middle of its range

# One number for each purpose of a hash, so that its draws are independent of all others.
_START, _ACTION, _BEST, _LENGTH, _FEATURE = range(5)  # of a seed, or of a state
_LOSS, _SHARE, _REWARD, _VALUE, _WEIGHT, _NAME = range(6)  # of an action in a state


@dataclass(frozen=True)
class Outcomes:
    """All that can follow n states and actions.

    Attributes:
        probabilities: [n, K].
        rewards: [n], mean rewards.
        states: [n, K].
    """

    probabilities: FloatArray
    rewards: FloatArray
    states: States


@dataclass(frozen=True, kw_only=True)
class HiddenLinear:
    """A process drawn by hashing: v*_h(s) = <phi_h(s), theta> for a hidden theta.

    A state is a 64-bit key: its leading half says how large its value is between LOW k and
    HIGH k, and everything else about it is a hash of the key. One action, at a uniformly random
    place, is best; any other loses between ``gap`` / 2 and ``gap`` (less where the value would
    fall below LOW k), a quarter to three quarters of it in its reward and the rest in the value
    of its successors. Rewards are what Bellman's equation leaves between the value of a state
    and that of its successors. A uniformly random policy is worth about half of v*.

    The features are a random rotation of (v_h(s) / H, w_h(s)) with w random of dimension d - 1:
    the value is there, along a hidden direction. Since values stay in the middle of their range,
    being in range says little about theta; what says more is temporal differences at well-chosen
    states. A planner can promise v* after work that depends on d, A and H alone, which no search
    of states can. Values of other policies are not linear.

    Attributes:
        dim: d, at least 2: a single feature would be the value itself.
        actions: A.
        horizon: H.
        successors: K; 1 is a deterministic process, if rewards are sure.
        gap: largest loss of an action, in (0, 1].
        seed: of everything.
        weights: whether the K successors are equally likely.
        rewards: "sure", or "bernoulli" for 0 or 1 with the same mean.
    """

    dim: int = 4
    actions: int = 2
    horizon: int = 20
    successors: int = 1
    gap: float = 0.6
    seed: int = 0
    weights: Literal["equal", "unequal"] = "equal"
    rewards: Literal["sure", "bernoulli"] = "sure"

    def __post_init__(self) -> None:
        """Refuse settings out of range."""
        require_at_least(1, actions=self.actions, horizon=self.horizon, successors=self.successors)
        require_at_least(2, dim=self.dim)
        require_at_least(0, seed=self.seed)
        if not 0 < self.gap <= 1:
            raise SettingError(
                f"gap={self.gap}", "gap must be positive and at most 1", "The default is 0.6."
            )

    @property
    def spec(self) -> Spec:
        """What the process promises."""
        return self._spec

    @cached_property
    def _spec(self) -> Spec:
        return Spec(
            actions=self.actions,
            dim=self.dim,
            horizon=self.horizon,
            bound=BOUND_FACTOR * self.horizon,
            deterministic=self.successors == 1 and self.rewards == "sure",
            may_terminate=False,
        )

    @cached_property
    def theta(self) -> FloatArray:
        """The hidden parameter, of norm H: [d]."""
        return self.horizon * self._rotation[0]

    @cached_property
    def _rotation(self) -> FloatArray:
        """[d, d], orthogonal and uniformly random."""
        square = np.random.default_rng(self.seed).normal(size=(self.dim, self.dim))
        orthogonal, triangle = np.linalg.qr(square)
        return orthogonal * np.sign(np.diag(triangle))

    def start(self, rng: np.random.Generator) -> States:
        """The start state, always the same: in the middle of its range."""
        name = hashed(self._salt, _START)
        return _joined(np.array([_MIDDLE], np.uint64), name)

    def step(self, states: States, stage: int, actions: IntArray, rng: np.random.Generator) -> Step:
        """Draw a reward and a next state for each of n pairs."""
        after = self.outcomes(states, stage, actions)
        rows, drawn = np.arange(len(states)), np.zeros(len(states), np.int64)
        if self.successors > 1:
            below = np.cumsum(after.probabilities[:, :-1], axis=1)
            drawn = (rng.random(len(states))[:, None] >= below).sum(axis=1)
        rewards = after.rewards
        if self.rewards == "bernoulli":
            rewards = np.where(rng.random(len(states)) < rewards, 1.0, 0.0)
        return Step(rewards, after.states[rows, drawn], np.zeros(len(states), np.bool_))

    def features(self, states: States, stage: int) -> FloatArray:
        """Features of n states: [n, d]."""
        key = self._key(states, stage)
        along = self.values(states, stage) / self.horizon
        coordinates = np.arange(self.dim - 1)
        across = 2 * uniform(hashed(key[:, None], _FEATURE, coordinates)) - 1
        room = np.sqrt(1 - along**2) * (1 + uniform(hashed(key, _LENGTH))) / 2
        across *= (room / np.sqrt((across**2).sum(axis=1)))[:, None]
        # NOTE: a matrix product may round differently in batches of different sizes; then a
        # state would not have the same features wherever it is met.
        rows = along[:, None] * self._rotation[0]
        for coordinate, axis in zip(across.T, self._rotation[1:], strict=True):
            rows += coordinate[:, None] * axis
        return rows

    def values(self, states: States, stage: int) -> FloatArray:
        """Optimal values of n states: [n]; 0 after the last stage."""
        fraction = ((states >> np.uint64(_FRACTION_BITS)).astype(np.float64) + 0.5) * _FRACTION_STEP
        return (self.horizon - stage + 1) * (LOW + (HIGH - LOW) * fraction)

    def best_actions(self, states: States, stage: int) -> IntArray:
        """The optimal action of n states: [n]."""
        draw = uniform(hashed(self._key(states, stage), _BEST))
        return (draw * self.actions).astype(np.int64)

    def outcomes(self, states: States, stage: int, actions: IntArray) -> Outcomes:
        """All that can follow n states and actions."""
        left = self.horizon - stage
        worth, wish = self._worth(states, stage, actions)
        margin = self.horizon * _FRACTION_STEP  # the successors' rounding must fit
        lowest = np.maximum(margin, worth - HIGH * left)
        highest = np.minimum(1 - margin, worth - LOW * left)
        mean_next = worth - np.clip(wish, lowest, highest)
        key = self._action_key(states, stage, actions)[:, None]
        probabilities, spread = self._spread(key)
        room = np.minimum(mean_next - LOW * left, HIGH * left - mean_next)
        next_values = mean_next[:, None] + np.clip(room, 0.0, _VALUE_SPREAD)[:, None] * spread
        following = self._with_values(next_values, left, key)
        expected = (probabilities * self.values(following, stage + 1)).sum(axis=1)
        return Outcomes(probabilities, worth - expected, following)

    def _worth(
        self, states: States, stage: int, actions: IntArray
    ) -> tuple[FloatArray, FloatArray]:
        """Action values, and the rewards that are wished for: both [n]."""
        left = self.horizon - stage
        key = self._action_key(states, stage, actions)
        value = self.values(states, stage)
        most = value - LOW * left - self.horizon * _FRACTION_STEP
        loss = np.minimum(self.gap * (1 + uniform(hashed(key, _LOSS))) / 2, most)
        loss = np.where(actions == self.best_actions(states, stage), 0.0, loss)
        share = (0.5 + uniform(hashed(key, _SHARE))) / 2
        noise = _REWARD_NOISE * (2 * uniform(hashed(key, _REWARD)) - 1)
        return value - loss, value / (left + 1) + noise - share * loss

    def _spread(self, key: KeyArray) -> tuple[FloatArray, FloatArray]:
        """Probabilities of successors, and offsets in [-1, 1] of mean 0: both [n, K]."""
        indices = np.arange(self.successors)
        weights = np.ones((len(key), self.successors))
        if self.weights == "unequal":
            weights = 0.1 + uniform(hashed(key, _WEIGHT, indices))
        probabilities = weights / weights.sum(axis=1, keepdims=True)
        offsets = uniform(hashed(key, _VALUE, indices))
        offsets -= (probabilities * offsets).sum(axis=1, keepdims=True)
        return probabilities, offsets / np.maximum(np.abs(offsets).max(axis=1, keepdims=True), 0.5)

    def _with_values(self, values: FloatArray, left: int, key: KeyArray) -> States:
        """States of given values with ``left`` stages left, to the nearest fraction: [n, K]."""
        fraction = (values / max(left, 1) - LOW) / (HIGH - LOW)
        whole = np.floor(np.clip(fraction, 0.0, 1.0) / _FRACTION_STEP)
        name = hashed(key, _NAME, np.arange(self.successors))
        return _joined(np.minimum(whole, 2.0**_FRACTION_BITS - 1).astype(np.uint64), name)

    def _key(self, states: States, stage: int) -> KeyArray:
        return hashed(states, self._salt, stage)

    def _action_key(self, states: States, stage: int, actions: IntArray) -> KeyArray:
        return hashed(self._key(states, stage), _ACTION, actions)

    @cached_property
    def _salt(self) -> KeyArray:
        """The seed, of any size, as one key."""
        return np.random.SeedSequence(self.seed).generate_state(1, np.uint64).astype(np.uint64)


def _joined(fraction: KeyArray, name: KeyArray) -> States:
    bits = np.uint64(_FRACTION_BITS)
    return (fraction << bits) | (name >> bits)


def _reference(**settings: Any) -> float:
    process = HiddenLinear(**settings)
    return float(process.values(process.start(np.random.default_rng(0)), 1)[0])


FAMILY = Family(
    name="hidden-linear",
    summary="Infinitely many states, linear optimal values, one best action hidden in each.",
    features="phi_h(s) = R (v*_h(s) / H, w_h(s)) with R a random rotation and w_h(s) a random "
    "vector of dimension d - 1, filling between a half and all of the norm that is left",
    realizable="v* is exactly linear with a theta of norm H; its direction is hidden by the "
    "rotation, no feature is v*. Values of other policies are not linear.",
    build=HiddenLinear,
    reference=_reference,
)
