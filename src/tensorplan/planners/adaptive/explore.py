"""Random rollouts before a stochastic run: their states are cuts, and some of them constraints.

Every query is counted. What is opened spends its level like any other state (F1), so few are: as
many as there are features, chosen so that their features point in different directions.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tensorplan.errors import QueryBudgetError
from tensorplan.hypotheses import Cuts
from tensorplan.local import Handle, Key, LocalAccess, Measurement
from tensorplan.planners.adaptive.engine import StochasticEngine
from tensorplan.planners.adaptive.rollouts import Visits, roll
from tensorplan.planners.adaptive.state import State
from tensorplan.records import FloatArray, IntArray, Phase

_SAME = 1e-9
"""Part of a feature vector's length that counts as nothing new."""


class RandomPolicy:
    """Plays available actions at random, each as often.

    Args:
        rng: draws them.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def act(
        self, access: LocalAccess, handle: Handle, phase: Phase, key: Key
    ) -> tuple[IntArray, list[tuple[IntArray, Measurement]]]:
        """Actions for n states: [n]; nothing is measured."""
        allowed = access.allowed(handle)
        lots = np.where(allowed, self._rng.random(allowed.shape), -1.0)
        return lots.argmax(axis=1), []


def explored(engine: StochasticEngine[Any], state: State, rng: np.random.Generator) -> State:
    """The state after the random rollouts that the settings ask for.

    A budget that ends on the way is noticed by the next query.
    """
    visits: list[Visits] = []

    def keep(met: Visits) -> bool:
        visits.append(met)
        return True

    try:
        roll(
            engine.access,
            engine.start,
            RandomPolicy(rng),
            engine.resolved.settings.explore,
            length=engine.length,
            phase=Phase.TEST,
            key=(engine.name(),),
            watch=keep,
        )
        return _opened(engine, _cut(engine, state, visits), visits)
    except QueryBudgetError:
        return state


def _cut(engine: StochasticEngine[Any], state: State, visits: list[Visits]) -> State:
    """Values of the states that were met lie in their ranges (F10.3)."""
    beliefs, eta = state.beliefs, engine.resolved.eta
    for met in visits:
        fresh = np.unique(met.features[met.features.any(axis=1)], axis=0)
        stage, size = met.handle.stage, len(fresh)
        low = np.full(size, engine.ranges.low(stage) - eta)
        high = np.full(size, engine.ranges.high(stage) + eta)
        beliefs = beliefs.with_cuts(Cuts(fresh, low, high))
    return replace(state, beliefs=beliefs)


def _opened(engine: StochasticEngine[Any], state: State, visits: list[Visits]) -> State:
    """Make critical what points in new directions, the start first."""
    state = engine.open(state, engine.start, engine.first_draws(1))
    for met, row in _spread_out(visits, engine.objective):
        handle = engine.access.take(met.handle, [row])
        if not engine.is_open(state, handle):
            state = engine.open(state, handle, engine.first_draws(handle.stage))
    return state


def _spread_out(visits: list[Visits], first: FloatArray) -> list[tuple[Visits, int]]:
    """Rows of visits, each the one with the most that those before it do not span."""
    rest = np.concatenate([met.features for met in visits])
    owners = [(met, row) for met in visits for row in range(len(met.features))]
    found: list[tuple[Visits, int]] = []
    direction = first
    while len(found) < len(first) - 1 and (length := float(np.linalg.norm(direction))) > _SAME:
        unit = direction / length
        rest = rest - np.outer(rest @ unit, unit)
        best = int((rest**2).sum(axis=1).argmax())
        direction = rest[best]
        if np.linalg.norm(direction) > _SAME:
            found.append(owners[best])
    return found
