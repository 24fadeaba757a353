"""The rules that a simulator promises to keep, and a walk that tries them all."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from tensorplan.errors import SettingError
from tensorplan.problem import Simulator
from tensorplan.records import BoolArray, FloatArray, IntArray, States, Step
from tensorplan.testing.compare import (
    pick,
    same_rows,
    same_steps,
    snapshot_step,
)
from tensorplan.testing.probe import Key, Probe, generator
from tensorplan.testing.reports import Halt, Ledger, Report

RULES = {
    "spec": "spec is a Spec",
    "runs": "every call returns",
    "start": "a start is an array of one state",
    "shapes": "the batch comes first; states keep the dtype and row shape of the start",
    "rewards": "rewards are finite and within Spec.reward_range",
    "features": "features are [n, d], finite, and of norm at most 1",
    "masks": "masks are [n, A] truth values with an action in every row",
    "termination": "no episode ends before the horizon, as Spec.may_terminate=False promises",
    "stages": "a random walk goes through the stages",
    "repeatable": "the same generator state gives the same answer, bit for bit",
    "memoryless": "answers do not depend on what was asked before",
    "fresh-noise": "another generator gives fresh noise",
    "independent-rows": "equal queries in one batch get noise of their own",
    "deterministic": "the generator makes no difference, as Spec.deterministic=True promises",
    "batch": "an answer does not depend on the other rows of the batch",
    "inputs": "states and actions that are passed in stay as they are",
    "outputs": "answers that were given are not overwritten later",
}

_ENDLESS_WALK = 50
"""Steps of a walk where the problem has no horizon."""
_LONGEST_WALK = 1000
_SINGLE_ROWS = 3
_COPIES = 64
"""Equal queries in a batch. By chance alone, batches of independent rows that are constant but
unlike each other have probability below 2^-63 each."""
_NOISY_PAIRS = _NOISY_CALLS = 8
_OTHERS = 32
"""Generators tried in all before a simulator looks deterministic."""
_START, _ACTIONS, _NOISE, _OTHER, _COPY = range(5)


@dataclass(frozen=True)
class _Record:
    """One batch of queries of the walk, with its answers and copies made at once."""

    states: States
    stage: int
    actions: IntArray
    key: Key
    features: FloatArray
    masks: BoolArray
    step: Step
    features_copy: FloatArray
    step_copy: Step


class _Examination:
    """A walk through a simulator, and the rules that need more than one answer."""

    def __init__(self, probe: Probe, draws: int, seed: int) -> None:
        self._probe, self._draws, self._seed = probe, draws, seed
        self._ledger, self._spec = probe.ledger, probe.spec
        self._records: list[_Record] = []
        self._noisy: list[tuple[_Record, int]] = []
        self._first: States = np.empty(0)

    @property
    def parts(self) -> tuple[Callable[[], None], ...]:
        """What to do, in this order."""
        return (self.walk, self.ask_again, self.ask_alone, self.ask_copies, self.look_back)

    def walk(self) -> None:
        """Walk a batch of episodes with random actions, asking everything twice in a row."""
        self._first = states = self._starts()
        self._agree("repeatable", "start", same_rows(states, self._starts()))
        stage = 1
        last = _ENDLESS_WALK if self._spec.horizon is None else self._spec.horizon
        for move in range(1, min(last, _LONGEST_WALK) + 1):
            record = self._visit(states, stage, move)
            self._records.append(record)
            alive = np.flatnonzero(~record.step.terminated)
            if not len(alive):
                break
            states = record.step_copy.states[alive]
            stage = 1 if self._spec.horizon is None else stage + 1
        reached = self._records[-1].stage
        if self._spec.horizon is None or reached == self._spec.horizon:
            self._ledger.hold("stages")
        else:
            self._ledger.skip(
                "stages", f"the walk ended at stage {reached} of {self._spec.horizon}"
            )

    def ask_again(self) -> None:
        """Ask in the opposite order, each time after another question."""
        if not self._records:
            return
        differs = False
        others = max(1, _OTHERS // len(self._records))
        for record in reversed(self._records):
            for number in range(others):
                other = self._step_reversed(record, number)
                same = same_steps(record.step_copy, other, rounding=True)
                differs = differs or not same.all()
                self._noisy += [(record, int(row)) for row in np.flatnonzero(~same)]
            self._compare("memoryless", record)
        self._agree("memoryless", "start", same_rows(self._first, self._starts()))
        self._judge_noise(differs)

    def ask_alone(self) -> None:
        """Ask single rows of the batches, and compare."""
        for record in self._records:
            for row in range(min(len(record.states), _SINGLE_ROWS)):
                one = slice(row, row + 1)
                states, stage = record.states[one], record.stage
                features = self._probe.features(states, stage)
                same = same_rows(features, record.features_copy[one], rounding=True)
                self._agree("batch", f"features at stage {stage}", same)
                same = same_rows(self._probe.masks(states, stage), record.masks[one])
                self._agree("batch", f"allowed at stage {stage}", same)
                if self._spec.deterministic:
                    step = self._probe.step(states, stage, record.actions[one], record.key)
                    same = same_steps(step, pick(record.step_copy, one), rounding=True)
                    self._agree("batch", f"step at stage {stage}", same)

    def ask_copies(self) -> None:
        """Ask copies of one noisy query in one batch, to see whether they share their noise."""
        if not self._noisy:
            self._ledger.skip("independent-rows", "no noise was seen")
            return
        rng = generator((self._seed, _COPY))
        chosen = rng.choice(len(self._noisy), min(len(self._noisy), _NOISY_PAIRS), replace=False)
        for pair, (record, row) in enumerate(self._noisy[int(index)] for index in chosen):
            calls = [self._copies(record, row, (pair, call)) for call in range(_NOISY_CALLS)]
            constant = all(same_steps(pick(s, [0] * _COPIES), s).all() for s in calls)
            unlike = any(not same_steps(pick(s, [0]), pick(calls[0], [0])).all() for s in calls)
            if not constant:
                self._ledger.hold("independent-rows")
            elif unlike:
                self._ledger.break_(
                    "independent-rows",
                    f"{_COPIES} equal queries at stage {record.stage} got one and the same draw; "
                    "draw noise for each row, for example rng.random(len(states))",
                )

    def look_back(self) -> None:
        """See whether the arrays that were returned are still what they were."""
        for record in self._records:
            same = same_steps(record.step, record.step_copy).all()
            same = same and same_rows(record.features, record.features_copy).all()
            broken = f"an array returned at stage {record.stage} was changed by a later call"
            self._ledger.judge("outputs", None if same else broken)

    def _starts(self) -> States:
        keys = [(self._seed, _START, index) for index in range(self._draws)]
        return np.concatenate([self._probe.start(key) for key in keys])

    def _visit(self, states: States, stage: int, move: int) -> _Record:
        masks = self._probe.masks(states, stage)
        luck = generator((self._seed, _ACTIONS, move)).random(masks.shape)
        actions = np.where(masks, luck, -1.0).argmax(axis=1)
        key = (self._seed, _NOISE, move)
        features = self._probe.features(states, stage)
        features_copy = features.copy()
        step = self._probe.step(states, stage, actions, key)
        copied = snapshot_step(step)
        record = _Record(states, stage, actions, key, features, masks, step, features_copy, copied)
        self._compare("repeatable", record)
        return record

    def _compare(self, rule: str, record: _Record) -> None:
        """Ask a batch again, with the same generator state, and compare all answers."""
        states, stage = record.states, record.stage
        masks = self._probe.masks(states, stage)
        self._agree(rule, f"allowed at stage {stage}", same_rows(masks, record.masks))
        features = self._probe.features(states, stage)
        self._agree(rule, f"features at stage {stage}", same_rows(features, record.features_copy))
        step = self._probe.step(states, stage, record.actions, record.key)
        self._agree(rule, f"step at stage {stage}", same_steps(step, record.step_copy))

    def _step_reversed(self, record: _Record, number: int) -> Step:
        """The same queries from the last row to the first, with another generator."""
        key = (*record.key, _OTHER, number)
        self._probe.start(key)
        step = self._probe.step(record.states[::-1], record.stage, record.actions[::-1], key)
        return pick(step, slice(None, None, -1))

    def _copies(self, record: _Record, row: int, name: Key) -> Step:
        rows = np.full(_COPIES, row)
        key = (self._seed, _COPY, *name)
        return self._probe.step(record.states[rows], record.stage, record.actions[rows], key)

    def _judge_noise(self, differs: bool) -> None:
        if self._spec.deterministic:
            self._ledger.skip("fresh-noise", "declared deterministic")
            broken = "an answer changed with the generator, or with the order of the batch"
            self._ledger.judge("deterministic", broken if differs else None)
            return
        self._ledger.skip("deterministic", "not declared deterministic")
        if differs:
            self._ledger.hold("fresh-noise")
        else:
            self._ledger.skip(
                "fresh-noise",
                "looks deterministic: declare it by Spec(deterministic=True), which saves many "
                "queries, or check with more draws",
            )

    def _agree(self, rule: str, name: str, same: BoolArray) -> None:
        if same.all():
            self._ledger.hold(rule)
        else:
            row = int(np.flatnonzero(~same)[0])
            self._ledger.break_(rule, f"{name} gave two answers about row {row} of {len(same)}")


def check_simulator(simulator: Simulator, *, draws: int = 32, seed: int = 0) -> Report:
    """Walk through a simulator with random actions, and see whether it keeps its contract.

    Args:
        simulator: to be checked.
        draws: episodes that are walked, as one batch.
        seed: of the actions and of all the generators that the simulator gets.

    Returns:
        A finding for each of the rules; what the simulator raises is a finding, too.
    """
    if draws < 2:
        raise SettingError(
            f"draws={draws}", "a batch has at least 2 rows", "Ask for 2 episodes or more."
        )
    ledger = Ledger(RULES)
    with suppress(Halt):
        for part in _Examination(Probe(simulator, ledger), draws, seed).parts:
            with suppress(Halt):
                part()
    return ledger.report()
