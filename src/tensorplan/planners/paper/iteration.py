"""One iteration of Algorithm 3: the rollouts of one parameter, and the failed test that is kept.

Rollouts go in batches, in lockstep; the failed test that is kept is the one that comes first in
the printed order (rollout, then stage), so the outcome has the law of the printed loops. Only the
queries of rollouts that were under way with it come on top.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from tensorplan.guards import require_same
from tensorplan.local import Handle, Measurement
from tensorplan.planners.paper.settings import Resolved, Rule
from tensorplan.planners.world import Walk, World
from tensorplan.records import BoolArray, FloatArray, IntArray, Phase


@dataclass(frozen=True)
class TestRecord:
    """All tests of one batch of rollouts at one stage.

    Attributes:
        iteration: tau.
        stage: j.
        rollouts: [n], t.
        states: handle of the states, where they can be held.
        measurement: the sample that was tested.
        actions: [n], the actions that were rolled forward.
    """

    __test__ = False

    iteration: int
    stage: int
    rollouts: IntArray
    states: Handle | None
    measurement: Measurement
    actions: IntArray


@dataclass(frozen=True)
class Failure:
    """The failed test that an iteration keeps.

    Attributes:
        rollout: t.
        stage: j.
        state: handle of the state, where it can be held.
        refined: draws, or gives, the larger sample.
        again: asks every action once more; where nothing can be revisited, of the state that the
            same actions lead to, which is the same if the simulator is deterministic.
    """

    rollout: int
    stage: int
    state: Handle | None
    refined: Callable[[], Measurement]
    again: Callable[[], Measurement]


@dataclass(frozen=True)
class Move:
    """One step of a rollout.

    Attributes:
        features: [d], of the state.
        action: what was done there.
        reward: what it brought.
    """

    features: FloatArray
    action: int
    reward: float


def select(measurement: Measurement, theta: FloatArray, rule: Rule) -> tuple[IntArray, FloatArray]:
    """The action that a test follows, and the discrepancy that it checks.

    Args:
        measurement: of n states.
        theta: [d].
        rule: "consistent" follows argmin |<Delta_a, (1, theta)>| (Algorithm 1); "best" follows
            argmax <Delta_a, (1, theta)>, the Remark's variant.

    Returns:
        (actions [n], discrepancies [n]).
    """
    errors = measurement.rows @ np.concatenate([[1.0], theta])
    if rule == "consistent":
        scores = np.where(measurement.measured, np.abs(errors), np.inf)
        actions = scores.argmin(axis=1)
    else:
        scores = np.where(measurement.measured, errors, -np.inf)
        actions = scores.argmax(axis=1)
    return actions, np.abs(errors[np.arange(len(actions)), actions])


class Iteration:
    """Lines 6 to 17: the rollouts of one parameter."""

    def __init__(self, world: World, resolved: Resolved, theta: FloatArray, number: int) -> None:
        self._world, self._resolved = world, resolved
        self._settings, self._sizes = resolved.settings, resolved.sizes
        self.theta, self.number = theta, number
        self.tests: list[TestRecord] = []
        self.path: list[Move] = []
        self._returns, self._rolled = 0.0, 0

    @property
    def mean_return(self) -> float:
        """Mean return of the rollouts so far."""
        return self._returns / self._rolled

    def run(self) -> Failure | None:
        """All rollouts; the failed test that is kept, if any."""
        kept: Failure | None = None
        for first, count in self._batches():
            walk = self._world.walk(self.number, first, count)
            self._rolled += count
            kept = self._roll(walk, kept, last=first + count == self._sizes.rollouts)
            if kept is not None and self._settings.early_exit:
                break
        return kept

    def return_matches(self, start_features: FloatArray) -> bool:
        """The paper's "(seemingly) stronger test", where it is asked for."""
        if not self._settings.return_test:
            return True
        predicted = float(start_features @ self.theta)
        return abs(self.mean_return - predicted) <= self._resolved.delta / 4

    def _batches(self) -> Iterator[tuple[int, int]]:
        """Batches of 1, 2, 4, ... rollouts: early failures are cheap, clean runs are wide."""
        first, width = 0, 1
        while first < self._sizes.rollouts:
            count = min(width, self._sizes.rollouts - first, self._world.widest_batch)
            yield first, count
            first, width = first + count, 2 * width

    def _roll(self, walk: Walk, kept: Failure | None, *, last: bool) -> Failure | None:
        """Lines 8 to 17 for a batch, stage by stage; the path of the last rollout is kept."""
        while len(walk.rollouts):
            measurement = walk.measure(self._sizes.test_draws, Phase.TEST)
            actions, discrepancies = select(measurement, self.theta, self._settings.rule)
            if self._settings.record:
                self.tests.append(
                    TestRecord(
                        self.number, walk.stage, walk.rollouts, walk.handle, measurement, actions
                    )
                )
            kept = self._first_failure(walk, discrepancies > self._resolved.tolerance, kept)
            if kept is not None and self._settings.early_exit:
                ahead = walk.rollouts < kept.rollout
                walk.keep(ahead)
                actions = actions[ahead]
                if not len(actions):
                    break
            rewards = walk.forward(actions, Phase.FORWARD)
            self._returns += float(rewards.sum())
            if last:
                self.path.append(Move(measurement.features[-1], int(actions[-1]), rewards[-1]))
        return kept

    def _first_failure(self, walk: Walk, failed: BoolArray, kept: Failure | None) -> Failure | None:
        """Line 11: the failure of the smallest rollout so far (CleanTest lets one through)."""
        row = int(failed.argmax())
        rollout = int(walk.rollouts[row])
        if not failed[row] or (kept is not None and kept.rollout <= rollout):
            return kept
        refined = walk.refine_later(row, self._sizes.refine_draws)
        again = walk.ask_again(row, self._sizes.refine_draws)
        return Failure(rollout, walk.stage, walk.hold(row), refined, again)

    def check_path(self) -> None:
        """Ask the last rollout's trajectory once more: what is deterministic repeats it (F6)."""
        walk = self._world.walk(self.number, self._sizes.rollouts, 1)
        for move in self.path:
            stage = walk.stage
            goes_on = len(walk.rollouts) > 0
            require_same(goes_on and np.array_equal(walk.features()[0], move.features), stage)
            reward = float(walk.forward(np.array([move.action]), Phase.CHECK)[0])
            require_same(reward == move.reward, stage)
