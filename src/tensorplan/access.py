"""Local access to a simulator: who holds which state, the two queries, and random streams.

The planner never sees a state. It holds :class:`Handle` objects, batches of states that it was
given, and asks :meth:`Access.measure` (Algorithm 2 of the paper, aggregated) or
:meth:`Access.advance` (one fresh draw) about them. Every answer is checked against the
simulator's contract, every query is counted.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple, cast

import numpy as np

from tensorplan.errors import AccessError, SimulatorError
from tensorplan.guards import checked_features, checked_masks, checked_step
from tensorplan.local import Handle, Key, LocalAccess, Measurement, Outcomes, Transition
from tensorplan.meter import QueryMeter
from tensorplan.problem import Simulator, SupportsAllowed, SupportsPacking, lent
from tensorplan.records import (
    BoolArray,
    FloatArray,
    IntArray,
    Phase,
    Queries,
    Spec,
    States,
    Step,
    whole,
)
from tensorplan.spread import Spread

CHUNK_ROWS = 8192
"""Rows of one simulator call. Part of the definition of a run: random streams depend on it."""

_KEYS_REMEMBERED = 1 << 16
_KEY_WORDS = 1 << 32
_PHASE_CODE = {phase: code for code, phase in enumerate(Phase, start=1)}
_START_CODE = 0


class _Entry(NamedTuple):
    """What a handle stands for."""

    states: States
    features: FloatArray
    ended: BoolArray
    stage: int


class Access:
    """Local access to a simulator (the paper's Section 2.3 and Appendix A).

    States live only as long as a handle that leads to them, so memory stays bounded over long
    runs. Random numbers are a function of the seed, the episode, the phase, the stage and the
    key of a query, in chunks of :data:`CHUNK_ROWS` rows (theory F1.9): a result does not depend
    on what else was asked.

    Args:
        simulator: answers the queries.
        seed: of all random streams.
        meter: counts the queries; by default one without limits.
    """

    def __init__(self, simulator: Simulator, *, seed: int, meter: QueryMeter | None = None) -> None:
        self._simulator = simulator
        self._seed = seed
        self._episode = 0
        self._entries: weakref.WeakKeyDictionary[Handle, _Entry] = weakref.WeakKeyDictionary()
        self._recent_keys: deque[Key] = deque(maxlen=_KEYS_REMEMBERED)
        self._used_keys: set[Key] = set()
        self._like: States | None = None
        self.meter = meter if meter is not None else QueryMeter()

    @property
    def spec(self) -> Spec:
        """What the simulator promises."""
        return self._simulator.spec

    @property
    def seed(self) -> int:
        """Of all random streams."""
        return self._seed

    @property
    def queries(self) -> Queries:
        """The queries so far."""
        return self.meter.read()

    @property
    def local(self) -> LocalAccess:
        """What to hand to a planner: the same without the doors of the owner."""
        return _Local(self)

    @property
    def live_states(self) -> int:
        """Number of states that some handle still leads to."""
        return sum(len(entry.ended) for entry in self._entries.values())

    # Doors of the owner: they make handles, or open them.

    def new_episode(self) -> None:
        """Begin another episode: fresh random streams, and a line in the meter."""
        self._episode += 1
        self._used_keys.clear()
        self._recent_keys.clear()
        self.meter.new_episode()

    def start(self) -> Handle:
        """Draw the start state of this episode; not a query."""
        return self._admit(self._drawn_start(), 1, np.zeros(1, np.bool_))

    def admit(self, states: States, stage: int) -> Handle:
        """A handle for states that the environment, not the planner, brought up."""
        self._check_stage(stage)
        return self._admit(states, stage, np.zeros(len(states), np.bool_))

    def admit_one(self, state: object, stage: int) -> Handle:
        """The same for one state, as the user writes it."""
        like = self._drawn_start() if self._like is None else self._like
        if isinstance(self._simulator, SupportsPacking):
            state = self._simulator.pack([state])[0]
        return self.admit(_as_row(state, like), stage)

    def reveal(self, handle: Handle) -> States:
        """The states behind a handle: for the referee that checks a finished run, only."""
        return lent(self._entry(handle).states)

    # What a planner may ask.

    def take(self, handle: Handle, rows: IntArray | Sequence[int]) -> Handle:
        """A handle for some of the states of another."""
        entry = self._entry(handle)
        given = np.asarray(rows)
        # NOTE: a truth mask would be read as the rows 0 and 1.
        whole = given.size == 0 or np.issubdtype(given.dtype, np.integer)
        if not whole or np.any((given < 0) | (given >= handle.size)):
            raise AccessError(
                f"rows {given.tolist()} of a handle of {handle.size} states",
                f"rows are whole numbers from 0 to {handle.size - 1}",
                "Take only states that the handle holds; turn a mask into rows by np.flatnonzero.",
            )
        index = given.astype(np.int64)
        picked = (entry.states[index], entry.features[index], entry.ended[index])
        return self._register(_Entry(*picked, entry.stage))

    def features(self, handle: Handle) -> FloatArray:
        """Features of the states: [n, d]; zeros where the episode has ended."""
        return self._entry(handle).features.copy()

    def allowed(self, handle: Handle) -> BoolArray:
        """Which actions are available: [n, A]; all of them where the episode has ended."""
        entry = self._entry(handle)
        masks = np.ones((handle.size, self.spec.actions), np.bool_)
        alive = np.flatnonzero(~entry.ended)
        if len(alive) and isinstance(self._simulator, SupportsAllowed):
            rows = self._simulator.allowed(lent(entry.states[alive]), entry.stage)
            masks[alive] = checked_masks(rows, len(alive), self.spec, entry.stage)
        return masks

    def measure(
        self,
        handle: Handle,
        stage: int,
        draws: int,
        *,
        phase: Phase,
        key: Key,
        actions: BoolArray | None = None,
        detail: bool = False,
    ) -> Measurement:
        """Mean of fresh draws for available actions of every state (Algorithm 2).

        Args:
            handle: n states.
            stage: their stage, as the planner believes it.
            draws: fresh draws per state and action.
            phase: what the queries are spent on.
            key: names this query; no two of one phase, stage and episode may be equal (of those,
                the last 65,536 are remembered).
            actions: [n, A], which actions to draw; by default all. Masked ones never are.
            detail: whether to say how the answers spread, too.
        """
        check_draws(draws)
        entry = self._open(handle, stage)
        measured = self.allowed(handle)
        if actions is not None:
            measured &= _checked_choice(actions, measured)
        pairs = np.argwhere(measured)
        stream = self._stream(phase, stage, key, len(pairs) * draws)
        totals = np.zeros((len(pairs), 2 + self.spec.dim))
        spread = Spread(self.spec.dim, len(pairs)) if detail else None
        for chunk, first in enumerate(range(0, len(pairs) * draws, CHUNK_ROWS)):
            pair = np.arange(first, min(first + CHUNK_ROWS, len(pairs) * draws)) // draws
            self.meter.charge(phase, len(pair))
            rng = self._generator((*stream, chunk))
            step = self._step(entry.states[pairs[pair, 0]], stage, pairs[pair, 1], rng)
            ended = self._ended(step, stage)
            following = self._features_after(step, stage)
            first_pair, last_pair = int(pair[0]), int(pair[-1]) + 1
            totals[first_pair:last_pair] += _sums(pair - first_pair, ended, step, following)
            if spread is not None:
                spread.add(pair, ended, step, following)
        means = np.zeros((*measured.shape, 2 + self.spec.dim))
        means[measured] = totals / draws
        return Measurement(
            rewards=means[:, :, 1],
            next_features=means[:, :, 2:],
            features=entry.features.copy(),
            measured=measured,
            draws=draws,
            discount=self.spec.discount,
            live=means[:, :, 0],
            outcomes=None if spread is None else self._outcomes(spread, pairs, stage),
            seconds=None if spread is None else spread.seconds(measured, draws),
        )

    def advance(
        self,
        handle: Handle,
        stage: int,
        actions: IntArray | Sequence[int],
        *,
        phase: Phase,
        key: Key,
    ) -> Transition:
        """One fresh draw for each state; the planner gets a handle of the next states."""
        entry = self._open(handle, stage)
        actions = self._checked_actions(handle, actions)
        stream = self._stream(phase, stage, key, handle.size)
        states, rewards, ended = list[States](), list[FloatArray](), list[BoolArray]()
        for chunk, first in enumerate(range(0, handle.size, CHUNK_ROWS)):
            rows = slice(first, first + CHUNK_ROWS)
            rng = self._generator((*stream, chunk))
            self.meter.charge(phase, len(entry.ended[rows]))
            step = self._step(entry.states[rows], stage, actions[rows], rng)
            # NOTE: copies, as the next chunk may be answered in the same arrays.
            states.append(lent(step.states))
            rewards.append(step.rewards.copy())
            ended.append(self._ended(step, stage).copy())
        terminated = np.concatenate(ended)
        following = self._admit(np.concatenate(states), self._after(stage), terminated)
        return Transition(np.concatenate(rewards), following, terminated)

    # Inside.

    def _ended(self, step: Step, stage: int) -> BoolArray:
        """Whether episodes ended with a step: by the simulator, or after stage H."""
        return np.ones_like(step.terminated) if stage == self.spec.horizon else step.terminated

    def _outcomes(self, spread: Spread, pairs: IntArray, stage: int) -> Outcomes | None:
        """The distinct answers, if they are few; their states get a handle."""
        found = spread.distinct()
        if found is None:
            return None
        live = found.values[:, 0] > 0
        return Outcomes(
            pairs=pairs[found.pairs] @ np.array([self.spec.actions, 1]),
            values=found.values[:, 1:],
            counts=found.counts,
            live=live,
            states=self._admit(found.states, self._after(stage), ~live),
        )

    def _after(self, stage: int) -> int:
        return 1 if self.spec.horizon is None else stage + 1

    def _register(self, entry: _Entry) -> Handle:
        handle = Handle(len(entry.ended), entry.stage)
        self._entries[handle] = entry
        return handle

    def _admit(self, states: States, stage: int, ended: BoolArray) -> Handle:
        if self._like is None:
            self._like = states[:0].copy()
        kept = lent(states)
        features = np.zeros((len(states), self.spec.dim))
        alive = np.flatnonzero(~ended)
        if len(alive):
            rows = self._simulator.features(states[alive], stage)
            features[alive] = checked_features(rows, len(alive), self.spec, stage)
        return self._register(_Entry(kept, features, ended, stage))

    def _entry(self, handle: Handle) -> _Entry:
        known = isinstance(cast("object", handle), Handle)
        entry = self._entries.get(handle) if known else None
        if entry is None:
            raise AccessError(
                f"a handle of {handle.size} states at stage {handle.stage}"
                if known
                else f"an object of type {type(handle).__name__} in place of a handle",
                "a planner may use only handles that this access has returned",
                "Reach the state by start(), advance() or take() first.",
            )
        return entry

    def _open(self, handle: Handle, stage: int) -> _Entry:
        """What a handle stands for, if it can be queried at this stage."""
        entry = self._entry(handle)
        self._check_stage(stage)
        if stage != entry.stage:
            raise AccessError(
                f"stage {stage} for a handle of stage {entry.stage}",
                "a state is queried at the stage at which it was reached",
                f"Pass stage={entry.stage}.",
            )
        if handle.size == 0:
            raise AccessError(
                "a handle of 0 states",
                "a query is about at least one state",
                "Stop when no episode of the batch goes on.",
            )
        if np.any(entry.ended):
            raise AccessError(
                f"state {int(np.flatnonzero(entry.ended)[0])} of the handle",
                "its episode has ended, so it has no successors",
                "Take the rows of Transition that are not terminated.",
            )
        return entry

    def _check_stage(self, stage: int) -> None:
        last = self.spec.horizon or 1
        if (whole(stage) or 0) not in range(1, last + 1):
            raise AccessError(
                f"stage {stage}",
                f"stages run from 1 to {last}, in whole numbers",
                "Stop an episode after its last stage; discounted problems have stage 1 only.",
            )

    def _checked_actions(self, handle: Handle, given: IntArray | Sequence[int]) -> IntArray:
        actions = np.asarray(given)
        if actions.shape != (handle.size,):
            raise AccessError(
                f"actions of shape {actions.shape}",
                f"one action is needed for each of {handle.size} states",
                "Pass an array of as many actions as the handle has states.",
            )
        if actions.dtype.kind not in "iu":
            raise AccessError(
                f"actions of dtype {actions.dtype}",
                "actions are whole numbers",
                "Number the actions from 0, and pass an array of integers.",
            )
        known = (actions >= 0) & (actions < self.spec.actions)
        if not np.all(known):
            raise AccessError(
                f"action {int(actions[~known][0])}",
                f"actions run from 0 to {self.spec.actions - 1}",
                "Choose one of the actions of the Spec.",
            )
        actions = actions.astype(np.int64)
        available = self.allowed(handle)[np.arange(handle.size), actions]
        if not np.all(available):
            raise AccessError(
                f"action {int(actions[~available][0])} at stage {handle.stage}",
                "the action is masked there",
                "Choose among the actions that allowed() marks as available.",
            )
        return actions

    def _drawn_start(self) -> States:
        states = self._simulator.start(self._generator((_START_CODE,)))
        if len(states) != 1:
            raise SimulatorError(
                f"start() gave {len(states)} states",
                "a start is a batch of one",
                "Return an array whose first axis has length 1.",
            )
        return states

    def _step(
        self, states: States, stage: int, actions: IntArray, rng: np.random.Generator
    ) -> Step:
        """A checked step from copies of the states, and of the actions."""
        step = self._simulator.step(lent(states), stage, actions.copy(), rng)
        dtype = None if self._like is None else self._like.dtype
        return checked_step(step, len(states), self.spec, stage, dtype)

    def _features_after(self, step: Step, stage: int) -> FloatArray:
        """Features of the next states: zeros after the end of the episode (F10)."""
        if stage != self.spec.horizon and not step.terminated.any():
            rows = self._simulator.features(step.states, self._after(stage))
            # NOTE: a copy, as the simulator may answer the next chunk in the same array.
            rows = checked_features(rows, len(step.rewards), self.spec, self._after(stage))
            return np.array(rows)
        following = np.zeros((len(step.rewards), self.spec.dim))
        if stage == self.spec.horizon:
            return following
        alive = np.flatnonzero(~step.terminated)
        if len(alive):
            rows = self._simulator.features(step.states[alive], self._after(stage))
            following[alive] = checked_features(rows, len(alive), self.spec, self._after(stage))
        return following

    def _stream(self, phase: Phase, stage: int, key: Key, queries: int) -> Key:
        """See that a query fits the budget, and name its random stream, once (F1.9)."""
        if not all(whole(word) is not None and word < _KEY_WORDS for word in key):
            raise AccessError(
                f"key {key} of phase {phase.value!r} at stage {stage}",
                f"keys are whole numbers from 0 to {_KEY_WORDS - 1}, or streams might coincide",
                "Count from 0, and use several small numbers instead of one large one.",
            )
        stream = (_PHASE_CODE[phase], stage, *key)
        if stream in self._used_keys:
            raise AccessError(
                f"key {key} of phase {phase.value!r} at stage {stage}",
                "the same key would repeat the same random numbers, so it is good for one query",
                "Put the iteration, the draw index or a counter into the key.",
            )
        self.meter.allow(phase, queries)
        if len(self._recent_keys) == _KEYS_REMEMBERED:
            self._used_keys.discard(self._recent_keys[0])
        self._recent_keys.append(stream)
        self._used_keys.add(stream)
        return stream

    def _generator(self, stream: Key) -> np.random.Generator:
        words = np.random.SeedSequence(self._seed, spawn_key=(self._episode, *stream))
        return np.random.Generator(np.random.PCG64(words))


def _sums(pair: IntArray, ended: BoolArray, step: Step, following: FloatArray) -> FloatArray:
    """Sums of (went on, reward, next features) for each pair of a chunk: [pairs, 2 + d].

    Args:
        pair: [n], from 0 and increasing.
        ended: [n].
        step: the answers.
        following: [n, d].
    """
    counts = np.bincount(pair)
    sums = np.empty((len(counts), 2 + following.shape[1]))
    sums[:, 0] = counts - np.bincount(pair, ended, len(counts))
    sums[:, 1] = np.bincount(pair, step.rewards, len(counts))
    if len(counts) > _FEW_PAIRS:
        sums[:, 2:] = np.add.reduceat(following, np.cumsum(counts) - counts, axis=0)
        return sums
    ends = np.cumsum(counts).tolist()
    for row, (first, last) in enumerate(pairwise([0, *ends])):
        sums[row, 2:] = np.ones(last - first) @ following[first:last]
    return sums


_FEW_PAIRS = 64
"""Pairs of a chunk up to which each is summed by a product of its own, which is faster."""


def _checked_choice(actions: BoolArray, allowed: BoolArray) -> BoolArray:
    """Which actions to draw, in the shape of the masks."""
    chosen = np.asarray(actions)
    if chosen.shape != allowed.shape or chosen.dtype != np.bool_:
        raise AccessError(
            f"actions of shape {chosen.shape} and dtype {chosen.dtype}",
            f"a choice of actions needs truth values of shape {allowed.shape}",
            "Pass a row of Spec.actions truth values for each state.",
        )
    if not (chosen & allowed).any():
        raise AccessError(
            "a choice without any available action",
            "a query is about at least one action",
            "Choose among the actions that allowed() marks as available.",
        )
    return chosen


def check_draws(draws: int) -> None:
    """Refuse what is no number of draws."""
    if whole(draws, 1) is None:
        raise AccessError(
            f"draws={draws}", "a mean needs a whole number of draws, at least 1", "Ask for 1."
        )


def _as_row(state: object, like: States) -> States:
    """A state as its user writes it, as a batch of one in the dtype and shape of the others."""
    row = np.empty((1, *like.shape[1:]), like.dtype)
    try:
        kept = _write(row, state)
    except (TypeError, ValueError, OverflowError):
        kept = False
    if not kept:
        raise AccessError(
            f"state {state!r}",
            f"states of this simulator have dtype {row.dtype} and shape {row.shape[1:]}, and must "
            "be held without loss",
            "Write it as the simulator's own start() is written.",
        )
    return row


def _write(row: States, state: object) -> bool:
    """Write a state into a batch of one; whether nothing was lost."""
    names = row.dtype.names
    if names is not None:
        fields = zip(names, cast("tuple[object, ...]", state), strict=True)
        return all(_write(row[name], value) for name, value in fields)
    row[0] = state
    if row.dtype.hasobject:
        return True
    given = np.asarray(state)
    if row.dtype.kind == "f" and given.dtype.kind in "iuf":  # rounding is no loss
        return given.shape == row.shape[1:]
    return np.array_equal(row[0], given)


class _Local:
    """Local access as a planner holds it."""

    __slots__ = ("__access", "advance", "allowed", "features", "measure", "take")

    def __init__(self, access: Access) -> None:
        self.__access = access
        self.take, self.features, self.allowed = access.take, access.features, access.allowed
        self.measure, self.advance = access.measure, access.advance

    @property
    def spec(self) -> Spec:
        return self.__access.spec

    @property
    def queries(self) -> Queries:
        return self.__access.queries
