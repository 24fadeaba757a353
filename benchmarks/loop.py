"""The iteration of the planner without its simulator: maximise, test by a rollout, add what failed.

The oracle is asked again and again on a growing set, so that one that keeps its work between calls
can show it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from instances import Instance, Walk, tolerance
from tensorplan.hypotheses import CriticalState, Hypotheses
from tensorplan.oracle.base import Optimum, Oracle, OracleStatus
from tensorplan.records import FloatArray

CLEAN, EMPTY, STOPPED, STALLED, ENDLESS = "clean", "empty", "stopped", "stalled", "too many"
"""How an iteration ends: as it should; with no parameter left; by a limit of the oracle or of time;
because a stored state failed again; after ``Rules.iterations``."""


@dataclass(frozen=True)
class Rules:
    """What the iteration may do.

    Attributes:
        cuts: whether range cuts are added at the states of a walk and their successors.
        adversarial: whether the worst state of all is added, not the one that the walk found.
        seconds: time in the oracle after which no further question is asked.
        iterations: questions.
    """

    cuts: bool = False
    adversarial: bool = False
    seconds: float = float("inf")
    iterations: int = 10_000


@dataclass(frozen=True)
class Run:
    """How an iteration went.

    Attributes:
        outcome: one of the words above.
        iterations: questions to the oracle, the last one included.
        failures: states that were added.
        nodes: of all questions.
        most_nodes: of one question.
        expansions: of all questions.
        seconds: in the oracle, all questions.
        most_seconds: one question.
        value: what the last parameter predicts.
        upper: bound of the last question.
        theta: [d], the last parameter.
        beliefs: the last set.
    """

    outcome: str
    iterations: int
    failures: int
    nodes: int
    most_nodes: int
    expansions: int
    seconds: float
    most_seconds: float
    value: float
    upper: float
    theta: FloatArray
    beliefs: Hypotheses

    @property
    def solved(self) -> bool:
        """Whether it ended with a clean run."""
        return self.outcome == CLEAN


@dataclass(frozen=True)
class Question:
    """One question and its answer: nodes and seconds are those of this question."""

    beliefs: Hypotheses
    optimum: Optimum
    seconds: float


def ask(oracle: Oracle, objective: FloatArray, beliefs: Hypotheses) -> Question:
    """Ask once, and time it."""
    started = time.perf_counter()
    optimum = oracle.maximise(objective, beliefs)
    return Question(beliefs, optimum, time.perf_counter() - started)


def iterate(instance: Instance, oracle: Oracle, beliefs: Hypotheses, rules: Rules) -> Run:
    """Ask until a walk is clean."""
    questions: list[Question] = []
    while True:
        questions.append(ask(oracle, instance.objective, beliefs))
        optimum = questions[-1].optimum
        if optimum.status is not OracleStatus.OPTIMAL:
            empty = optimum.status is OracleStatus.EMPTY
            return _summary(EMPTY if empty else STOPPED, questions)
        walk = _walk(instance, optimum.theta, beliefs.root, rules)
        if walk.failed is None:
            return _summary(CLEAN, questions)
        state = instance.state(walk.failed)
        if _stored(state, beliefs):
            return _summary(STALLED, questions)
        if sum(question.seconds for question in questions) >= rules.seconds:
            return _summary(STOPPED, questions)
        if len(questions) >= rules.iterations:
            return _summary(ENDLESS, questions)
        beliefs = beliefs.with_state(state)
        if rules.cuts:
            beliefs = beliefs.with_cuts(instance.cuts(instance.around(walk.visited)))


def _walk(instance: Instance, theta: FloatArray, radius: float, rules: Rules) -> Walk:
    """The walk of a parameter, or the worst state alone."""
    if not rules.adversarial:
        return instance.walk(theta, tolerance(radius))
    worst = instance.worst(theta, tolerance(radius))
    return Walk((), None) if worst is None else Walk((worst,), worst)


def _stored(state: CriticalState, beliefs: Hypotheses) -> bool:
    return any(np.array_equal(state.rows, other.rows) for other in beliefs.states)


def _summary(outcome: str, questions: list[Question]) -> Run:
    last = questions[-1]
    nodes = [question.optimum.nodes for question in questions]
    seconds = [question.seconds for question in questions]
    return Run(
        outcome=outcome,
        iterations=len(questions),
        failures=len(questions) - (outcome == CLEAN),
        nodes=sum(nodes),
        most_nodes=max(nodes),
        expansions=sum(question.optimum.expansions for question in questions),
        seconds=sum(seconds),
        most_seconds=max(seconds),
        value=last.optimum.value,
        upper=last.optimum.upper,
        theta=last.optimum.theta,
        beliefs=last.beliefs,
    )
