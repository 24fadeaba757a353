"""The inaccurate simulator of the paper's Section 2.3: returned rewards carry a fixed bias."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tensorplan.adapters.conditions import (
    Condition,
    at_most,
    finite_conditions,
    require_horizon,
    setting_for,
)
from tensorplan.errors import SettingError
from tensorplan.guards import checked_step
from tensorplan.hashing import KeyArray, hashed, uniform
from tensorplan.problem import PackFunction, Simulator, SupportsPacking, allowed_actions
from tensorplan.records import BoolArray, FloatArray, IntArray, Spec, States, Step
from tensorplan.theory import CORRECTED, Errata, paper_constants

BiasFunction = Callable[[States, IntArray], FloatArray]
"""``bias(states, actions) -> [n]``, a fixed number for each pair of a state and an action."""

_WORD_BYTES = 8


class Inaccurate:
    """A simulator that returns [R + Lambda_sa] clipped to the reward range (A21).

    Lambda_sa in [-lambda, lambda] is fixed for a state and an action; the planner knows neither.
    The mean of what is returned is within lambda of the mean reward, because clipping brings no
    two numbers further apart; it is not the clipped mean.

    Args:
        simulator: gives the true rewards.
        accuracy: lambda.
        seed: names one bias among all: it is a hash of the seed, of the bytes of the state and
            of the action.
        bias: gives the bias instead; needed for states that are objects.

    Attributes:
        pack: the simulator's own; absent where it has none.
    """

    pack: PackFunction

    def __init__(
        self,
        simulator: Simulator,
        accuracy: float,
        *,
        seed: int = 0,
        bias: BiasFunction | None = None,
    ) -> None:
        if not 0 <= accuracy < math.inf:
            raise SettingError(
                f"accuracy={accuracy!r}",
                "the accuracy lambda must be at least 0 and finite",
                "Pass the largest error of a mean reward.",
            )
        self._simulator = simulator
        self._accuracy, self._seed, self._bias = accuracy, seed, bias
        inner = simulator.spec
        self._spec = replace(inner, inaccuracy=inner.inaccuracy + accuracy)
        if isinstance(simulator, SupportsPacking):
            self.pack = simulator.pack

    @property
    def spec(self) -> Spec:
        """The inner promises, with lambda added to the inaccuracy."""
        return self._spec

    def start(self, rng: np.random.Generator) -> States:
        """Draw a start state: a batch of one."""
        return self._simulator.start(rng)

    def step(self, states: States, stage: int, actions: IntArray, rng: np.random.Generator) -> Step:
        """Draw steps; their rewards are biased, then clipped."""
        bias = self.bias(states, actions)
        drawn = self._simulator.step(states, stage, actions, rng)
        # NOTE: clipping would hide a reward outside the promised range.
        step = checked_step(drawn, len(states), self._simulator.spec, stage, None)
        biased = np.clip(step.rewards + bias, *self._spec.reward_range)
        return replace(step, rewards=biased)

    def features(self, states: States, stage: int) -> FloatArray:
        """Features of the inner simulator: [n, d]."""
        return self._simulator.features(states, stage)

    def allowed(self, states: States, stage: int) -> BoolArray:
        """Action masks of the inner simulator: [n, A]."""
        return allowed_actions(self._simulator, states, stage)

    def bias(self, states: States, actions: IntArray) -> FloatArray:
        """Lambda_sa of n pairs, before clipping: [n]."""
        if self._bias is None:
            return self._accuracy * (2 * _hashed(states, actions, self._seed) - 1)
        bias = np.asarray(self._bias(states, actions), dtype=np.float64)
        if bias.shape != (len(states),) or not np.all(np.abs(bias) <= self._accuracy):
            raise SettingError(
                f"a bias of shape {bias.shape}, largest {np.abs(bias).max(initial=0):.9g}",
                f"it must be of shape ({len(states)},) and within {self._accuracy:g}",
                "Return one number per state, or raise the accuracy.",
            )
        return bias

    def conditions(
        self, delta: float, *, norm: float | None = None, errata: Errata = CORRECTED
    ) -> tuple[Condition, ...]:
        """Conditions of thm:main: lambda <= epsilon/(4 sqrt E_d) and eta = 0."""
        horizon = require_horizon(self._spec)
        setting = setting_for(self._spec, horizon, delta, norm)
        common = finite_conditions(self._spec, horizon, delta)
        if setting.trivial:
            return common
        limits = paper_constants(setting, errata)
        return (
            *common,
            at_most("misspecification", self._spec.misspecification, limits.misspecification),
            at_most("inaccuracy", self._spec.inaccuracy, limits.accuracy),
        )


def _hashed(states: States, actions: IntArray, seed: int) -> FloatArray:
    """Numbers in (0, 1) that depend on the seed, the bytes of the state and the action: [n].

    The loop is over the words of one state, never over states.
    """
    keys = np.full(len(states), seed % 2**64, dtype=np.uint64)
    return uniform(hashed(keys, *_words(states).T, actions))


def _words(states: States) -> KeyArray:
    """The bytes of n states, as words: [n, w]."""
    if states.dtype.hasobject:
        raise SettingError(
            f"states of dtype {states.dtype}",
            "objects have no bytes of their own to hash",
            "Pass bias=, a function of (states, actions), or give from_functions a codec.",
        )
    if states.dtype.kind == "f":
        states = states + states.dtype.type(0)  # -0.0 is the same state as 0.0
    count = len(states)
    width = states.dtype.itemsize * math.prod(states.shape[1:])
    padded = np.zeros((count, -(-width // _WORD_BYTES) * _WORD_BYTES), np.uint8)
    flat = np.ascontiguousarray(states).reshape(count * math.prod(states.shape[1:]))
    padded[:, :width] = flat.view(np.uint8).reshape(count, width)
    return padded.view(np.uint64)
