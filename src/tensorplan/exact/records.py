"""A finished run as the referee reads it: plain records that any planner's log can fill."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tensorplan.errors import SettingError
from tensorplan.records import FloatArray, IntArray


@dataclass(frozen=True)
class RecordedTest:
    """One measurement of a state: the data of a test, or the refined data of a failed one.

    Attributes:
        iteration: tau, from 1.
        rollout: t, from 1.
        stage: h, from 1.
        state: s.
        rows: [k, d + 1], measured rows (r, gamma phi' - phi).
        actions: [k], the action of each row.
        refined: whether these are the rows that the failed test appended to the constraints.
    """

    iteration: int
    rollout: int
    stage: int
    state: int
    rows: FloatArray
    actions: IntArray
    refined: bool = False

    def __post_init__(self) -> None:
        """Refuse rows that belong to no action."""
        if self.rows.ndim != 2 or self.actions.shape != self.rows.shape[:1] or not self.rows.size:
            raise SettingError(
                f"rows of shape {self.rows.shape} for actions of shape {self.actions.shape}",
                "a recorded test needs one row for each of its actions, and at least one",
                "Record the rows [k, d + 1] next to their actions [k].",
            )

    def product(self, theta: FloatArray) -> float:
        """<X, M_theta>: the product over actions of <row, (1, theta)>."""
        return float(np.prod(self.rows[:, 0] + self.rows[:, 1:] @ theta))


@dataclass(frozen=True)
class RecordedRun:
    """The parameters of a run and what was measured for them.

    Attributes:
        thetas: [T, d], the parameter of each iteration.
        tests: in the order in which they were made.
        norm: B.
    """

    thetas: FloatArray
    tests: tuple[RecordedTest, ...]
    norm: float

    def __post_init__(self) -> None:
        """Refuse tests of iterations that never were."""
        for test in self.tests:
            if not 1 <= test.iteration <= len(self.thetas):
                raise SettingError(
                    f"a test of iteration {test.iteration}",
                    f"the run has iterations 1 to {len(self.thetas)}",
                    "Record one parameter for each iteration.",
                )

    @property
    def failures(self) -> tuple[RecordedTest, ...]:
        """The refined measurements, in the order in which they became constraints."""
        return tuple(test for test in self.tests if test.refined)

    def theta_of(self, test: RecordedTest) -> FloatArray:
        """The parameter that a test was about: [d]."""
        return self.thetas[test.iteration - 1]


@dataclass(frozen=True)
class RecordedRollout:
    """One path through the process.

    Attributes:
        states: [L + 1], from the start to the state after the last step.
        actions: [L].
        rewards: [L].
        terminated: whether the last step ended the episode.
    """

    states: IntArray
    actions: IntArray
    rewards: FloatArray
    terminated: bool = False

    def __post_init__(self) -> None:
        """Refuse paths whose parts do not fit together."""
        steps = len(self.actions)
        if len(self.states) != steps + 1 or len(self.rewards) != steps:
            raise SettingError(
                f"{len(self.states)} states, {steps} actions and {len(self.rewards)} rewards",
                "a rollout of L steps has L + 1 states, L actions and L rewards",
                "Record the state after the last step too.",
            )


@dataclass(frozen=True)
class Check:
    """The outcome of a check of one event of a proof.

    Attributes:
        worst: the largest deviation found.
        allowed: the largest that the event permits.
    """

    worst: float
    allowed: float

    @property
    def holds(self) -> bool:
        """Whether the event occurred."""
        return self.worst <= self.allowed


@dataclass(frozen=True)
class EluderViolation:
    """A failed test at which the eluder argument breaks.

    Attributes:
        failure: which failure, from 0.
        earlier: the older failure whose tensor tells the parameters apart too well; None when
            the failure's own tensor does not tell them apart well enough.
        value: |<X, M_theta> - <X, M_theta°>|.
        limit: what it must not exceed (an older failure), or must exceed (its own).
    """

    failure: int
    earlier: int | None
    value: float
    limit: float
