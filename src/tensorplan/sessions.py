"""Guarded, counted access to the paper's Appendix A oracle, which keeps its own state."""

from __future__ import annotations

import numpy as np

from tensorplan.access import Measurement, QueryMeter
from tensorplan.errors import SimulatorError
from tensorplan.guards import checked_features, checked_step
from tensorplan.problem import Session
from tensorplan.records import FloatArray, Phase, Spec, Step


class SessionAccess:
    """What a planner may do with a session: reset, forward, and data for a given n.

    Args:
        session: answers the queries.
        meter: counts them; by default one without limits.
    """

    def __init__(self, session: Session, *, meter: QueryMeter | None = None) -> None:
        self._session = session
        self._stage = 1
        self.meter = meter if meter is not None else QueryMeter()

    @property
    def spec(self) -> Spec:
        """What the oracle promises."""
        return self._session.spec

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
        self._stage = 1

    def start_features(self) -> FloatArray:
        """Features of the start state: [d]; not a query."""
        self.reset()
        return checked_features(self._session.data(0).features[None], 1, self.spec, 1)[0]

    def measure(self, draws: int, *, phase: Phase) -> Measurement:
        """Mean of fresh draws for every available action of the current state: n = 1."""
        spec, stage = self.spec, self._stage
        data = self._session.data(draws)
        measured = np.asarray(data.allowed, np.bool_)
        self.meter.charge(phase, int(measured.sum()) * draws)
        rewards, following = data.rewards[measured], data.next_features[measured]
        if rewards.shape != (len(rewards), draws):
            raise SimulatorError(
                f"data({draws}) with rewards of shape {data.rewards.shape}",
                f"it must have shape ({spec.actions}, {draws})",
                "Draw the given number of steps for every action.",
            )
        flat = Step(rewards.ravel(), np.zeros(rewards.size), np.zeros(rewards.size, np.bool_))
        checked_step(flat, rewards.size, spec, stage, None)
        rows = checked_features(following.reshape(-1, spec.dim), rewards.size, spec, stage)
        mean_rewards, mean_features = np.zeros(spec.actions), np.zeros((spec.actions, spec.dim))
        mean_rewards[measured] = rewards.mean(axis=1)
        if stage != spec.horizon:
            mean_features[measured] = rows.reshape(following.shape).mean(axis=1)
        return Measurement(
            rewards=mean_rewards[None],
            next_features=mean_features[None],
            features=checked_features(data.features[None], 1, spec, stage),
            measured=measured[None],
            draws=draws,
            discount=spec.discount,
        )

    def forward(self, action: int, *, phase: Phase) -> tuple[float, bool]:
        """Move on by one fresh step: the reward, and whether the episode has ended."""
        self.meter.charge(phase, 1)
        reward, ended = self._session.forward(action)
        at_end = self._stage == self.spec.horizon
        flat = Step(np.array([reward]), np.zeros(1), np.array([ended and not at_end]))
        checked_step(flat, 1, self.spec, self._stage, None)
        self._stage += 0 if self.spec.horizon is None else 1
        return float(reward), bool(ended) or at_end
