"""Levels: states that know their stage, as in the proof of thm:misspecification.

The misspecification eta of a policy is pushed into the rewards of a second process M', in which
the policy is realizable exactly; the rewards of M then serve as inaccurate rewards of M'.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from tensorplan.adapters.conditions import (
    Condition,
    at_most,
    finite_conditions,
    require_horizon,
    setting_for,
)
from tensorplan.errors import AccessError
from tensorplan.guards import checked_features, checked_step
from tensorplan.problem import PackFunction, Simulator, SupportsPacking, allowed_actions
from tensorplan.records import BoolArray, FloatArray, IntArray, Spec, States, Step, whole
from tensorplan.theory import CORRECTED, Errata, misspecified_constants

END = 0
"""Level of the end state, which is all zeros and which nothing leaves; other levels are 1..H."""


class Levels:
    """States (s, h) for h = 1..H, and an end: what the two levelled processes share.

    A state is a record with the fields ``state``, as the inner simulator has it, and ``level``;
    whoever writes one, for ``Plan.action`` say, writes the pair (state, level).
    The step from level H gives its reward, then the end (A22). Levels and stages agree wherever
    a planner can get; where they do not, the level decides on the reward and on what follows, the
    stage on the features and on what the inner simulator is asked.

    Args:
        simulator: gives rewards, next states and features.
        spec: what the levelled process promises; it has a horizon.

    Attributes:
        pack: records from such pairs; absent where the inner simulator does not pack states.
    """

    pack: PackFunction

    def __init__(self, simulator: Simulator, spec: Spec) -> None:
        self._simulator = simulator
        self._spec = spec
        self._horizon = require_horizon(spec)
        if isinstance(simulator, SupportsPacking):
            self.pack = partial(_packed, simulator)

    @property
    def spec(self) -> Spec:
        """What the levelled process promises."""
        return self._spec

    def start(self, rng: np.random.Generator) -> States:
        """Draw a start state at level 1: a batch of one."""
        inner = self._simulator.start(rng)
        return _records(inner, np.ones(len(inner), np.int64))

    def step(self, states: States, stage: int, actions: IntArray, rng: np.random.Generator) -> Step:
        """Draw steps to the next level, or from level H to the end."""
        rewards, terminated = np.zeros(len(states)), np.zeros(len(states), np.bool_)
        following = np.zeros_like(states)
        alive = np.flatnonzero(states["level"] != END)
        if len(alive):
            levels = states["level"][alive]
            drawn = self._ask(states["state"][alive], stage, actions[alive], rng)
            rewards[alive] = self.reward_weights(levels) * drawn.rewards
            terminated[alive] = drawn.terminated
            onward = levels < self._horizon
            following["state"][alive[onward]] = drawn.states[onward]
            following["level"][alive[onward]] = levels[onward] + 1
        if stage < self._horizon:
            terminated |= following["level"] == END
        return Step(rewards, following, terminated)

    def features(self, states: States, stage: int) -> FloatArray:
        """Features of the inner states, weighted; zeros at the end: [n, d]."""
        features = np.zeros((len(states), self._spec.dim))
        alive = np.flatnonzero(states["level"] != END)
        if len(alive):
            asked = self.inner_stage(stage)
            rows = self._simulator.features(states["state"][alive], asked)
            checked = checked_features(rows, len(alive), self._simulator.spec, asked)
            features[alive] = self.feature_weight(stage) * checked
        return features

    def allowed(self, states: States, stage: int) -> BoolArray:
        """Action masks of the inner simulator, every action at the end: [n, A]."""
        masks = np.ones((len(states), self._spec.actions), np.bool_)
        alive = np.flatnonzero(states["level"] != END)
        if len(alive):
            inner = states["state"][alive]
            masks[alive] = allowed_actions(self._simulator, inner, self.inner_stage(stage))
        return masks

    def inner_stage(self, stage: int) -> int:
        """Stage at which the inner simulator is asked."""
        return stage

    def reward_weights(self, levels: IntArray) -> FloatArray:
        """What the inner rewards are multiplied by: [n]."""
        return np.ones(len(levels))

    def feature_weight(self, stage: int) -> float:
        """What the inner features are multiplied by."""
        return 1.0

    def _ask(self, inner: States, stage: int, actions: IntArray, rng: np.random.Generator) -> Step:
        """A checked step of the inner simulator: a record would hide a change of its dtype."""
        asked = self.inner_stage(stage)
        drawn = self._simulator.step(inner, asked, actions, rng)
        return checked_step(drawn, len(inner), self._simulator.spec, asked, inner.dtype)


def _records(inner: States, levels: IntArray) -> States:
    fields = [("state", inner.dtype, inner.shape[1:]), ("level", np.int64)]
    states = np.zeros(len(inner), np.dtype(fields))
    states["state"], states["level"] = inner, levels
    return states


def _packed(simulator: SupportsPacking, states: list[Any]) -> States:
    """Records from a list of pairs, their states as the inner simulator's user writes them."""
    pairs = [_pair(state) for state in states]
    inner = simulator.pack([state for state, _ in pairs])
    return _records(inner, np.array([level for _, level in pairs]))


def _pair(state: Any) -> tuple[Any, int]:  # noqa: ANN401 any state
    """A state and its level."""
    try:
        inner, given = state
    except (TypeError, ValueError):
        inner = given = None
    level = whole(given)
    if level is None:
        raise AccessError(
            f"state {state!r}",
            "a state of a levelled process is a pair (state, level)",
            "Write the state as the inner simulator has it, and its stage as the level.",
        )
    return inner, level


class Levelled(Levels):
    """M' and Sim' of thm:misspecification.

    Sim'((s, h), h', a) asks the inner simulator at stage h' and gives (R, (S', h + 1)), from
    level H (R, end). In M' the reward is R + z(s, h), |z| <= (1 + gamma) eta, which makes the
    values of a policy of misspecification eta linear. So the Spec promises no misspecification,
    an inaccuracy of lambda + (1 + gamma) eta, and a range that has room for z.

    Args:
        simulator: a process with a finite horizon.
    """

    def __init__(self, simulator: Simulator) -> None:
        inner = simulator.spec
        require_horizon(inner)
        shift = (1 + inner.discount) * inner.misspecification
        low, high = inner.reward_range
        spec = replace(
            inner,
            reward_range=(low - shift, high + shift),
            misspecification=0.0,
            inaccuracy=inner.inaccuracy + shift,
        )
        super().__init__(simulator, spec)

    def conditions(
        self, delta: float, *, norm: float | None = None, errata: Errata = CORRECTED
    ) -> tuple[Condition, ...]:
        """Conditions of thm:misspecification on the inner simulator.

        lambda and eta at most epsilon/(12 sqrt E_d), at delta' = .98 delta.
        """
        inner = self._simulator.spec
        setting = setting_for(inner, self._horizon, delta, norm)
        common = finite_conditions(inner, self._horizon, delta)
        if setting.trivial:
            return common
        limits = misspecified_constants(setting, errata)
        return (
            *common,
            at_most("misspecification", inner.misspecification, limits.misspecification),
            at_most("inaccuracy", inner.inaccuracy, limits.accuracy),
        )
