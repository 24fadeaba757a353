"""Asks a simulator, and judges each answer by itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar, cast

import numpy as np

from tensorplan.errors import SimulatorError
from tensorplan.guards import checked_features, checked_masks, checked_step
from tensorplan.problem import Simulator, SupportsAllowed
from tensorplan.records import BoolArray, FloatArray, IntArray, Spec, States, Step
from tensorplan.testing.compare import same_rows, snapshot
from tensorplan.testing.reports import Halt, Ledger

T = TypeVar("T")
Key = tuple[int, ...]


def generator(key: Key) -> np.random.Generator:
    """A generator in the state that a key names."""
    return np.random.default_rng(key)


def called(ledger: Ledger, name: str, call: Callable[[], T]) -> T:
    """Answer of a call into somebody else's code; an exception becomes a finding."""
    try:
        answer = call()
    # NOTE: the code under test may raise anything at all, and that is what is to be reported.
    except Exception as error:
        ledger.break_("runs", f"{name} raised {type(error).__name__}: {error}")
        raise Halt from error
    ledger.hold("runs")
    return answer


def judged(ledger: Ledger, rule: str, check: Callable[[], T]) -> T | None:
    """Answer of a check of one rule, or None where it raised."""
    try:
        answer = check()
    except (SimulatorError, ValueError, TypeError, AttributeError) as error:
        ledger.break_(rule, str(error))
        return None
    ledger.hold(rule)
    return answer


class Probe:
    """Asks a simulator on copies of its states, and judges each answer by itself.

    Args:
        simulator: to be judged.
        ledger: takes the findings.
    """

    def __init__(self, simulator: Simulator, ledger: Ledger) -> None:
        self._simulator = simulator
        self.ledger = ledger
        self._like: States | None = None
        self.spec: Spec = self._called("spec", lambda: simulator.spec)
        _judge_spec(ledger, self.spec)
        if self.spec.may_terminate:
            ledger.skip("termination", "Spec.may_terminate=True: episodes may end at any stage")
        if not isinstance(simulator, SupportsAllowed):
            ledger.skip("masks", "no allowed(): all actions are available everywhere")

    def start(self, key: Key) -> States:
        """A start state, judged: [1, ...]."""
        states = self._called("start", lambda: self._simulator.start(generator(key)))
        _judge_start(self.ledger, states)
        if self._like is None:
            self._like = states
        if judged(self.ledger, "shapes", lambda: self._alike(states)) is None:
            raise Halt
        return snapshot(states)

    def step(self, states: States, stage: int, actions: IntArray, key: Key) -> Step:
        """An answer to n queries, judged."""
        given, chosen = snapshot(states), actions.copy()
        step = self._called(
            f"step at stage {stage}",
            lambda: self._simulator.step(given, stage, chosen, generator(key)),
        )
        self._untouched(f"step at stage {stage}", given, states)
        if not np.array_equal(chosen, actions):
            self.ledger.break_("inputs", f"step at stage {stage} changed the actions it was given")
        count = len(states)
        whole = judged(self.ledger, "shapes", lambda: self._shaped(step, count, stage))
        if whole is None:
            raise Halt
        lenient = replace(self.spec, may_terminate=True)
        judged(self.ledger, "rewards", lambda: checked_step(whole, count, lenient, stage, None))
        ended = _without_rewards(whole)
        strict = replace(self.spec, reward_range=(0.0, 0.0))
        judged(self.ledger, "termination", lambda: checked_step(ended, count, strict, stage, None))
        return whole

    def features(self, states: States, stage: int) -> FloatArray:
        """Features, judged: [n, d]."""
        given = snapshot(states)
        name = f"features at stage {stage}"
        rows = self._called(name, lambda: self._simulator.features(given, stage))
        self._untouched(name, given, states)
        checked = judged(
            self.ledger,
            "features",
            lambda: checked_features(rows, len(states), self.spec, stage),
        )
        return np.zeros((len(states), self.spec.dim)) if checked is None else checked

    def masks(self, states: States, stage: int) -> BoolArray:
        """Action masks, judged: [n, A]."""
        everything = np.ones((len(states), self.spec.actions), np.bool_)
        simulator = self._simulator
        if not isinstance(simulator, SupportsAllowed):
            return everything
        given = snapshot(states)
        name = f"allowed at stage {stage}"
        masks = self._called(name, lambda: simulator.allowed(given, stage))
        self._untouched(name, given, states)
        checked = judged(
            self.ledger, "masks", lambda: checked_masks(masks, len(states), self.spec, stage)
        )
        if checked is None:
            raise Halt
        return checked

    def _called(self, name: str, call: Callable[[], T]) -> T:
        return called(self.ledger, name, call)

    def _untouched(self, name: str, given: States, kept: States) -> None:
        same = same_rows(given, kept).all()
        self.ledger.judge("inputs", None if same else f"{name} changed the states it was given")

    def _shaped(self, step: Step, count: int, stage: int) -> Step:
        whole = Step(
            np.asarray(step.rewards, dtype=np.float64),
            np.asarray(step.states),
            np.asarray(step.terminated),
        )
        lenient = replace(self.spec, may_terminate=True, reward_range=(0.0, 0.0))
        checked_step(_without_rewards(whole), count, lenient, stage, None)
        self._alike(whole.states)
        return whole

    def _alike(self, states: States) -> States:
        """The states, if they have the dtype and the row shape of the first start."""
        like = states if self._like is None else self._like
        if states.dtype != like.dtype or states.shape[1:] != like.shape[1:]:
            raise SimulatorError(
                f"states of dtype {states.dtype} and row shape {states.shape[1:]}",
                f"states keep those of the start, {like.dtype} and {like.shape[1:]}",
                "Build all states with one dtype and one shape.",
            )
        return states


def _judge_spec(ledger: Ledger, spec: object) -> None:
    if not isinstance(spec, Spec):
        ledger.break_("spec", f"spec is a {type(spec).__name__}, not a tensorplan.Spec")
        raise Halt
    ledger.hold("spec")


def _judge_start(ledger: Ledger, states: object) -> None:
    if not isinstance(states, np.ndarray):
        ledger.break_("start", f"start() gave a {type(states).__name__}, not an array")
        raise Halt
    shape = cast("States", states).shape
    if shape[:1] != (1,):
        ledger.break_("start", f"start() gave an array of shape {shape}, not a batch of one")
        raise Halt
    ledger.hold("start")


def _without_rewards(step: Step) -> Step:
    return Step(np.zeros_like(step.rewards), step.states, step.terminated)
