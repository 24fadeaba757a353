"""Finite processes: tables that a simulator can draw from and a referee can solve.

Shapes: ``S`` states, ``A`` actions, ``K`` the largest number of outcomes of a state and an action
(shorter lists are padded with probability 0), ``H`` stages, ``d`` features.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from reprlib import repr as shortened
from typing import Any, TypeVar

import numpy as np

from tensorplan.errors import AccessError, SettingError
from tensorplan.records import BoolArray, FloatArray, IntArray, Spec, States, Step, whole

_PROBABILITY_SLACK = 1e-9

T = TypeVar("T")
Outcome = tuple[float, int, float, bool]
"""(probability, next state, reward, terminated), as in Gymnasium's toy-text tables."""
Table = Mapping[int, Mapping[int, Sequence[Outcome]]] | Sequence[Sequence[Sequence[Outcome]]]


@dataclass(frozen=True)
class FiniteProcess:
    """A finite Markov decision process with features, the same dynamics at every stage.

    Attributes:
        spec: what the process promises.
        probabilities: [S, A, K].
        successors: [S, A, K].
        rewards: [S, A, K], the reward of each outcome.
        terminated: [S, A, K], whether an outcome ends the episode.
        feature_table: [H, S, d], or [1, S, d] where the features do not depend on the stage.
        start_probabilities: [S].
        allowed: [S, A].
    """

    spec: Spec
    probabilities: FloatArray
    successors: IntArray
    rewards: FloatArray
    terminated: BoolArray
    feature_table: FloatArray
    start_probabilities: FloatArray
    allowed: BoolArray = field(default_factory=lambda: np.ones((0, 0), np.bool_))

    def __post_init__(self) -> None:
        """Refuse a table that is not a process; fill in a missing action mask."""
        if self.allowed.size == 0:
            object.__setattr__(self, "allowed", np.ones(self.rewards.shape[:2], np.bool_))
        _check_shapes(self)
        _check_distributions(self)

    @property
    def states(self) -> int:
        """Number of states, S."""
        return self.probabilities.shape[0]

    def features_at(self, stage: int) -> FloatArray:
        """Features of all states at a stage: [S, d]."""
        return self.feature_table[min(stage, len(self.feature_table)) - 1]

    def mean_rewards(self) -> FloatArray:
        """Expected reward of each state and action: [S, A]."""
        return (self.probabilities * self.rewards).sum(axis=2)

    def expect(self, values: FloatArray) -> FloatArray:
        """Expectation of a function of the next state, 0 once terminated.

        Args:
            values: [S] or [S, m].

        Returns:
            [S, A] or [S, A, m].
        """
        weights = np.where(self.terminated, 0.0, self.probabilities)
        return np.einsum("sak,sak...->sa...", weights, values[self.successors])

    def with_features(self, feature_table: FloatArray, **changes: Any) -> FiniteProcess:
        """The same process seen through other features (and other promises)."""
        spec = replace(self.spec, dim=feature_table.shape[2], **changes)
        return replace(self, spec=spec, feature_table=feature_table)


class TableSimulator:
    """Draws from a finite process. States are numbers from 0 to S - 1."""

    def __init__(self, process: FiniteProcess) -> None:
        self.process = process
        # NOTE: nothing is left after the last possible outcome; sums that round to just below 1
        # must not let a draw fall through to the padding behind it.
        left = np.cumsum(process.probabilities[:, :, ::-1], axis=2)[:, :, ::-1]
        beyond = np.concatenate([left[:, :, 1:], np.zeros((*left.shape[:2], 1))], axis=2)
        self._cumulative = np.where(beyond > 0, np.cumsum(process.probabilities, axis=2), np.inf)
        self._cumulative_start = np.cumsum(process.start_probabilities)

    @property
    def spec(self) -> Spec:
        """What the process promises."""
        return self.process.spec

    def start(self, rng: np.random.Generator) -> States:
        """Draw a start state: a batch of one."""
        drawn = np.searchsorted(self._cumulative_start, rng.random(1), side="right")
        last = np.flatnonzero(self.process.start_probabilities)[-1]
        return np.minimum(drawn, last)

    def step(self, states: States, stage: int, actions: IntArray, rng: np.random.Generator) -> Step:
        """Draw an outcome for each of n pairs."""
        self._check_states(states)
        process = self.process
        if process.probabilities.shape[2] == 1:
            outcome = np.zeros(len(states), np.int64)
        else:
            uniform = rng.random(len(states))
            outcome = (uniform[:, None] >= self._cumulative[states, actions]).sum(axis=1)
        picked = (states, actions, outcome)
        return Step(process.rewards[picked], process.successors[picked], process.terminated[picked])

    def features(self, states: States, stage: int) -> FloatArray:
        """Rows of the feature table: [n, d]."""
        self._check_states(states)
        return self.process.features_at(stage)[states]

    def allowed(self, states: States, stage: int) -> BoolArray:
        """Rows of the action mask: [n, A]."""
        self._check_states(states)
        return self.process.allowed[states]

    def _check_states(self, states: States) -> None:
        """Refuse what would be counted from the end of the table, or not be found in it."""
        if states.dtype.kind in "iu":
            known = (states >= 0) & (states < self.process.states)
        else:
            known = np.zeros(states.shape, np.bool_)
        if not known.all():
            raise AccessError(
                f"state {states[~known][0]}",
                f"states of this table are whole numbers from 0 to {self.process.states - 1}",
                "Number the states as the rows of the table.",
            )


def from_table(
    table: Table,
    features: FloatArray | Callable[[int, int], Any],
    spec: Spec,
    *,
    start: int | Sequence[float] = 0,
) -> TableSimulator:
    """Make a simulator from ``table[s][a] = [(probability, next state, reward, terminated)]``.

    Args:
        table: an empty list of outcomes marks an action that is not available.
        features: [S, d] or [H, S, d], or a function of (state, stage).
        spec: what the process promises.
        start: a state, or a probability for each state.
    """
    actions = spec.actions
    cells = [
        [_rows(cell, f"outcomes of action {a}") for a, cell in enumerate(_rows(row, "actions"))]
        for row in _rows(table, "states")
    ]
    states = len(cells)
    _check_actions(cells, actions)
    padded = _padded(cells)
    process = FiniteProcess(
        spec=spec,
        probabilities=padded[..., 0],
        successors=padded[..., 1].astype(np.int64),
        rewards=padded[..., 2],
        terminated=padded[..., 3].astype(np.bool_),
        feature_table=_feature_table(features, states, spec),
        start_probabilities=_start_distribution(start, states),
        allowed=np.array([[len(cell) > 0 for cell in row] for row in cells]),
    )
    _check_promises(process)
    return TableSimulator(process)


def _rows(table: Mapping[int, T] | Sequence[T], what: str) -> list[T]:
    """The entries of a table for 0, 1, 2 and so on."""
    try:
        return [table[number] for number in range(len(table))]
    except (TypeError, KeyError, IndexError) as error:
        raise SettingError(
            f"{shortened(table)} in place of {what}",
            f"{what} are a list, or a mapping with the keys 0, 1, 2 and so on",
            "Number them from 0, without gaps; an empty list of outcomes marks an action that is "
            "not available.",
        ) from error


def _padded(outcomes: list[list[list[Outcome]]]) -> FloatArray:
    """Lists of outcomes as one array, padded with zeros: [S, A, K, 4]."""
    width = max((len(cell) for row in outcomes for cell in row), default=0)
    padded = np.zeros((len(outcomes), len(outcomes[0]), max(width, 1), 4))
    for s, row in enumerate(outcomes):
        for a, cell in enumerate(row):
            for k, outcome in enumerate(cell):
                if not _is_outcome(outcome):
                    raise SettingError(
                        f"outcome {outcome!r} of state {s}, action {a}",
                        "an outcome is (probability, next state, reward, terminated)",
                        "Give these four, the state as a whole number; terminated is False where "
                        "the episode goes on.",
                    )
                padded[s, a, k] = outcome
    return padded


def _is_outcome(outcome: Outcome) -> bool:
    """Whether these are four numbers, the second a whole one and the last 0 or 1."""
    try:
        parts = np.asarray(outcome)
    except ValueError:  # parts of different lengths
        return False
    if parts.shape != (4,) or parts.dtype.kind not in "biuf":
        return False
    return bool(parts[1] == np.floor(parts[1])) and parts[3] in (0, 1)


def _feature_table(
    features: FloatArray | Callable[[int, int], Any], states: int, spec: Spec
) -> FloatArray:
    if callable(features):
        stages = range(1, (spec.horizon or 1) + 1)
        rows = [[features(s, h) for s in range(states)] for h in stages]
        return np.array(rows, dtype=np.float64)
    table = np.asarray(features, dtype=np.float64)
    return table[None] if table.ndim == 2 else table


def _start_distribution(start: int | Sequence[float], states: int) -> FloatArray:
    if np.ndim(start) == 0:
        number = whole(start)
        if number is None or number >= states:
            raise SettingError(
                f"start={start}",
                f"the start must be one of the states 0 to {states - 1}",
                "Name an existing state, or give a probability for each state.",
            )
        return np.eye(states)[number]
    chances = np.asarray(start)
    if chances.dtype.kind not in "iuf":
        raise SettingError(
            f"start={shortened(start)}", "probabilities are numbers", "Give one for each state."
        )
    return chances.astype(np.float64)


def _check_actions(cells: list[list[list[Outcome]]], actions: int) -> None:
    if not cells:
        raise SettingError(
            "a table without states", "a process has at least one state", "List its states."
        )
    for state, row in enumerate(cells):
        if len(row) != actions:
            raise SettingError(
                f"{len(row)} actions of state {state}",
                f"every state needs a list of outcomes for each of the {actions} actions",
                "Correct Spec.actions, or give an empty list where an action is not available.",
            )


def _check_shapes(process: FiniteProcess) -> None:
    spec, shape = process.spec, process.probabilities.shape
    stages = spec.horizon or 1
    wanted = {
        "probabilities": (process.probabilities, (shape[0], spec.actions, shape[-1])),
        "successors": (process.successors, shape),
        "rewards": (process.rewards, shape),
        "terminated": (process.terminated, shape),
        "start_probabilities": (process.start_probabilities, shape[:1]),
        "allowed": (process.allowed, shape[:2]),
    }
    for name, (array, expected) in wanted.items():
        if array.shape != expected:
            raise SettingError(
                f"{name} of shape {array.shape}",
                f"it must have shape {expected}",
                "Give every table one row per state and one column per action of the Spec.",
            )
    tables = process.feature_table.shape
    if len(tables) != 3 or tables[0] not in (1, stages) or tables[1:] != (shape[0], spec.dim):
        raise SettingError(
            f"features of shape {tables}",
            f"they must have shape (1 or {stages}, {shape[0]}, {spec.dim})",
            "Give one row of dim numbers per state, at one stage or at every stage.",
        )


def _check_distributions(process: FiniteProcess) -> None:
    sums = process.probabilities.sum(axis=2)
    wrong = np.argwhere(process.allowed & ~(np.abs(sums - 1) <= _PROBABILITY_SLACK))  # nan, too
    if len(wrong):
        state, action = (int(index) for index in wrong[0])
        raise SettingError(
            f"probabilities of state {state}, action {action} sum to {sums[state, action]:.12g}",
            "the outcomes of an available action must have probabilities that sum to 1",
            "Correct the table, or leave its list empty to mark the action as not available.",
        )
    smallest = min(process.probabilities.min(), process.start_probabilities.min())
    if smallest < 0:
        raise SettingError(
            f"smallest probability {smallest}",
            "probabilities must not be negative",
            "Correct the table.",
        )
    if not abs(process.start_probabilities.sum() - 1) <= _PROBABILITY_SLACK:
        raise SettingError(
            f"start probabilities that sum to {process.start_probabilities.sum():.12g}",
            "they must sum to 1",
            "Give a start state, or a probability for each state.",
        )
    outside = (process.successors < 0) | (process.successors >= process.states)
    if np.any(outside):
        raise SettingError(
            f"successor {int(process.successors[outside][0])}",
            f"next states must be numbers from 0 to {process.states - 1}",
            "Number the states from 0, and keep every transition among them.",
        )


def _check_promises(process: FiniteProcess) -> None:
    """Refuse a table that its own Spec contradicts."""
    spec, likely = process.spec, process.probabilities > 0
    likely &= process.allowed[:, :, None]
    fits = spec.admits(process.rewards)
    if not fits[likely].all():
        raise SettingError(
            f"reward {process.rewards[likely & ~fits][0]:.9g} in the table",
            f"rewards lie in Spec.reward_range={spec.reward_range}",
            "Widen the range, or correct the table.",
        )
    several = np.argwhere(likely.sum(axis=2) > 1)
    if spec.deterministic and len(several):
        state, action = (int(index) for index in several[0])
        raise SettingError(
            f"{int(likely[state, action].sum())} outcomes of state {state}, action {action}",
            "Spec.deterministic=True promises a single outcome",
            "Declare deterministic=False, or merge the outcomes.",
        )
    if not spec.may_terminate and process.terminated[likely].any():
        raise SettingError(
            "an outcome that ends the episode",
            "Spec.may_terminate=False promises that none does",
            "Set may_terminate=True, or correct the table.",
        )
