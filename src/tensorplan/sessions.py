"""Guarded, counted access to the paper's Appendix A oracle, which keeps its own state."""

from __future__ import annotations

import numpy as np

from tensorplan.access import CHUNK_ROWS, check_draws
from tensorplan.errors import AccessError, SimulatorError
from tensorplan.guards import checked_features, checked_masks, checked_step
from tensorplan.local import Measurement
from tensorplan.meter import QueryMeter
from tensorplan.problem import Session, SessionData
from tensorplan.records import BoolArray, FloatArray, Phase, Queries, Spec, Step, whole


class SessionAccess:
    """What a planner may do with a session: reset, forward, and data for a given n.

    Args:
        session: answers the queries.
        meter: counts them; by default one without limits.
    """

    def __init__(self, session: Session, *, meter: QueryMeter | None = None) -> None:
        self._session = session
        self._stage, self._ended = 1, False
        self.meter = meter if meter is not None else QueryMeter()

    @property
    def spec(self) -> Spec:
        """What the oracle promises."""
        return self._session.spec

    @property
    def queries(self) -> Queries:
        """The queries so far."""
        return self.meter.read()

    @property
    def stage(self) -> int:
        """Stage of the state that the session is in."""
        return self._stage

    def new_episode(self) -> None:
        """Begin another episode in the meter."""
        self.meter.new_episode()

    def reset(self) -> None:
        """Go back to the start state; not a query."""
        self._session.reset()
        self._stage, self._ended = 1, False

    def features(self) -> FloatArray:
        """Features of the current state: [d]; not a query."""
        told = self._session.data(0).features[None]
        return checked_features(told, 1, self.spec, self._stage)[0]

    def start_features(self) -> FloatArray:
        """Features of the start state: [d]; not a query."""
        self.reset()
        return self.features()

    def measure(self, draws: int, *, phase: Phase) -> Measurement:
        """Mean of fresh draws for every available action of the current state: n = 1."""
        check_draws(draws)
        here, measured = self._here()
        spec, stage = self.spec, self._stage
        actions = int(measured.sum())
        self.meter.allow(phase, actions * draws)
        totals = np.zeros((actions, 1 + spec.dim))
        most = max(1, CHUNK_ROWS // actions)
        for first in range(0, draws, most):
            totals += self._draw(min(most, draws - first), measured, phase)
        means = np.zeros((1, spec.actions, 1 + spec.dim))
        means[0, measured] = totals / draws
        return Measurement(
            rewards=means[:, :, 0],
            next_features=means[:, :, 1:],
            features=checked_features(here.features[None], 1, spec, stage),
            measured=measured[None],
            draws=draws,
            discount=spec.discount,
        )

    def _draw(self, draws: int, measured: BoolArray, phase: Phase) -> FloatArray:
        """Sums of rewards and next features over fresh draws: [k, 1 + d]."""
        spec, stage = self.spec, self._stage
        self.meter.charge(phase, int(measured.sum()) * draws)
        data = self._session.data(draws)
        self._check_shape("rewards", data.rewards, (spec.actions, draws))
        self._check_shape("next_features", data.next_features, (spec.actions, draws, spec.dim))
        rewards, following = data.rewards[measured], data.next_features[measured]
        flat = Step(rewards.ravel(), np.zeros(rewards.size), np.zeros(rewards.size, np.bool_))
        checked_step(flat, rewards.size, spec, stage, None)
        rows = checked_features(following.reshape(-1, spec.dim), rewards.size, spec, stage)
        if stage == spec.horizon:
            rows = np.zeros_like(rows)
        values = np.column_stack([rewards.ravel(), rows])
        return values.reshape(*rewards.shape, -1).sum(axis=1)

    def forward(self, action: int, *, phase: Phase) -> tuple[float, bool]:
        """Move on by one fresh step: the reward, and whether the episode has ended."""
        number, available = whole(action), self._here()[1]
        if number is None or number >= len(available) or not available[number]:
            raise AccessError(
                f"action {action!r} at stage {self._stage}",
                f"the available actions are {np.flatnonzero(available).tolist()}",
                "Choose one that the session's data() marks as allowed.",
            )
        self.meter.allow(phase, 1)
        self.meter.charge(phase, 1)
        reward, ended = self._session.forward(number)
        at_end = self._stage == self.spec.horizon
        flat = Step(np.array([reward]), np.zeros(1), np.array([ended and not at_end]))
        checked_step(flat, 1, self.spec, self._stage, None)
        self._stage += 0 if self.spec.horizon is None else 1
        self._ended = bool(ended) or at_end
        return float(reward), self._ended

    def _here(self) -> tuple[SessionData, BoolArray]:
        """What the current state tells without a draw, and its available actions: [A]."""
        if self._ended:
            raise AccessError(
                f"a query after {self._stage - 1} steps",
                "the episode has ended, so its last state has no successors",
                "Go back to the start by reset().",
            )
        here = self._session.data(0)
        masks = np.asarray(here.allowed)[None]
        return here, checked_masks(masks, 1, self.spec, self._stage)[0]

    def _check_shape(self, name: str, array: FloatArray, shape: tuple[int, ...]) -> None:
        if np.shape(array) != shape:
            raise SimulatorError(
                f"data with {name} of shape {np.shape(array)}",
                f"it must have shape {shape}",
                "Draw the given number of steps for every action.",
            )
