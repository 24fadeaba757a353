"""What a user brings: a simulator, or the paper's oracle that keeps its own state.

A :class:`Simulator` is stateless and batched: it answers for any state that it has returned
before. A :class:`Session` is the weaker oracle of the paper's Appendix A, which cannot revisit.
:func:`from_functions` makes a simulator from plain scalar functions, :mod:`tensorplan.finite`
makes one from a table.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import Error as CopyError
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, cast, runtime_checkable

import numpy as np

from tensorplan.errors import AccessError, SettingError, SimulatorError
from tensorplan.records import BoolArray, FloatArray, IntArray, Spec, States, Step


class Simulator(Protocol):
    """A generative model with features: batched, and without a state of its own.

    States are an array with a fixed dtype and the batch first; an array of objects will do.
    All randomness comes from the generator that is passed in, so that the same generator gives
    the same answer and a fresh one gives a fresh draw. What is passed in stays as it is; whoever
    keeps states lends out copies of their own all the same (:func:`lent`).
    """

    @property
    def spec(self) -> Spec:
        """What the simulator promises."""
        ...

    def start(self, rng: np.random.Generator) -> States:
        """Draw a start state: a batch of one."""
        ...

    def step(self, states: States, stage: int, actions: IntArray, rng: np.random.Generator) -> Step:
        """Draw a reward and a next state for each of n pairs of a state and an action."""
        ...

    def features(self, states: States, stage: int) -> FloatArray:
        """Features of n states at a stage: [n, d], each row of 2-norm at most 1."""
        ...


@runtime_checkable
class SupportsAllowed(Protocol):
    """A simulator in which some actions are not available everywhere."""

    def allowed(self, states: States, stage: int) -> BoolArray:
        """Which actions are available: [n, A], at least one in each row."""
        ...


@runtime_checkable
class SupportsPacking(Protocol):
    """A simulator whose users write states in a type of their own."""

    def pack(self, states: list[Any]) -> States:
        """One array from a list of states."""
        ...


PackFunction = Callable[[list[Any]], States]
"""What a simulator around another one takes over, if the inner one has it."""


def allowed_actions(simulator: Simulator, states: States, stage: int) -> BoolArray:
    """Which actions are available: [n, A]; all, where the simulator does not say."""
    if isinstance(simulator, SupportsAllowed):
        return simulator.allowed(states, stage)
    return np.ones((len(states), simulator.spec.actions), np.bool_)


def lent(states: States) -> States:
    """A copy of states for a simulator to look at: whatever it does, the states stay as they are.

    Objects are copied one by one, so that no two rows share one.
    """
    if not states.dtype.hasobject:
        return states.copy()
    rows = [_copied(states[row : row + 1]) for row in range(len(states))]
    return np.concatenate(rows) if rows else states.copy()


T = TypeVar("T")


def _copied(state: T) -> T:
    try:
        return deepcopy(state)
    except (TypeError, CopyError) as error:
        raise SimulatorError(
            f"a state that cannot be copied ({error})",
            "a state is kept while a step is made from it, so it must survive copy.deepcopy",
            "Keep files, locks and the like out of states, let __deepcopy__ share what never "
            "changes, or give from_functions a codec.",
        ) from error


@dataclass(frozen=True)
class SessionData:
    """What a session tells about the state that it is in (Appendix A, item iv).

    Attributes:
        features: [d], of the current state; zeros once the episode has ended.
        rewards: [A, n].
        next_features: [A, n, d]; zeros for ended episodes.
        allowed: [A], the actions that are available; the rows of the others are ignored.
    """

    features: FloatArray
    rewards: FloatArray
    next_features: FloatArray
    allowed: BoolArray


class Session(Protocol):
    """The paper's Appendix A oracle: it keeps its own state, and nothing can be revisited."""

    @property
    def spec(self) -> Spec:
        """What the oracle promises."""
        ...

    def reset(self) -> None:
        """Go back to the start state, at stage 1."""
        ...

    def forward(self, action: int) -> tuple[float, bool]:
        """Move on by one step; return the reward, and whether the episode has ended."""
        ...

    def data(self, draws: int) -> SessionData:
        """Draw ``draws`` fresh steps for every action, without moving.

        With 0 draws it tells only the features and the actions of the current state.
        """
        ...


class SimulatorSession:
    """A session over a simulator: the state is kept inside, the caller never sees it.

    Args:
        simulator: answers the queries.
        seed: of the noise, and of the start state, which stays the same over resets.
    """

    def __init__(self, simulator: Simulator, seed: int = 0) -> None:
        self._simulator = simulator
        self._rng = np.random.default_rng(seed)
        self._start = simulator.start(self._rng)
        self._state, self._stage, self._ended = self._start, 1, False

    @property
    def spec(self) -> Spec:
        """What the simulator promises."""
        return self._simulator.spec

    def reset(self) -> None:
        """Go back to the start state, at stage 1."""
        self._state, self._stage, self._ended = self._start, 1, False

    def forward(self, action: int) -> tuple[float, bool]:
        """Move on by one step; return the reward, and whether the episode has ended."""
        if self._over():
            return 0.0, True
        if not 0 <= action < self.spec.actions or not self._allowed()[action]:
            raise AccessError(
                f"action {action} at stage {self._stage}",
                f"it is not one of the available actions among 0 to {self.spec.actions - 1}",
                "Choose one that data() marks as allowed.",
            )
        state = lent(self._state)
        step = self._simulator.step(state, self._stage, np.array([action]), self._rng)
        self._state, self._ended = lent(step.states), bool(step.terminated[0])
        self._stage = self._next_stage()
        return float(step.rewards[0]), self._over()

    def data(self, draws: int) -> SessionData:
        """Draw ``draws`` fresh steps for every available action, without moving."""
        if draws < 0:
            raise AccessError(f"draws={draws}", "draws are a count", "Ask for 0 or more.")
        actions, dim = self.spec.actions, self.spec.dim
        rewards, following = np.zeros((actions, draws)), np.zeros((actions, draws, dim))
        if self._over():
            return SessionData(np.zeros(dim), rewards, following, np.ones(actions, np.bool_))
        allowed = self._allowed()
        states = np.repeat(self._state, draws, axis=0)
        for action in np.flatnonzero(allowed) if draws else ():
            chosen = np.full(draws, action)
            step = self._simulator.step(lent(states), self._stage, chosen, self._rng)
            rewards[action] = step.rewards
            alive = np.flatnonzero(~step.terminated)
            if len(alive) and not self._last_stage():
                seen = self._simulator.features(step.states[alive], self._next_stage())
                following[action, alive] = seen
        return SessionData(
            self._simulator.features(lent(self._state), self._stage)[0], rewards, following, allowed
        )

    def _allowed(self) -> BoolArray:
        return allowed_actions(self._simulator, lent(self._state), self._stage)[0]

    def _last_stage(self) -> bool:
        return self.spec.horizon is not None and self._stage >= self.spec.horizon

    def _over(self) -> bool:
        return self._ended or (self.spec.horizon is not None and self._stage > self.spec.horizon)

    def _next_stage(self) -> int:
        return 1 if self.spec.horizon is None else self._stage + 1


StartFunction = Callable[[np.random.Generator], Any]
StepFunction = Callable[[Any, int, int, np.random.Generator], tuple[float, Any, bool]]
FeatureFunction = Callable[[Any, int], Any]
AllowedFunction = Callable[[Any, int], Any]


@dataclass(frozen=True)
class Codec:
    """How one state of a user's own type becomes a row of numbers, and back.

    Attributes:
        encode: from a state to a number or an array of a fixed shape and dtype.
        decode: from that row to a state.
    """

    encode: Callable[[Any], Any]
    decode: Callable[[Any], Any]


def from_functions(
    spec: Spec,
    start: StartFunction,
    step: StepFunction,
    features: FeatureFunction,
    *,
    allowed: AllowedFunction | None = None,
    codec: Codec | None = None,
) -> Simulator:
    """Make a simulator from plain functions of one state.

    Args:
        spec: what the process promises.
        start: ``start(rng) -> state``.
        step: ``step(state, stage, action, rng) -> (reward, next state, terminated)``; it should
            return a new state and leave the given one as it is. Planners are safe from one that
            does not: they lend it copies.
        features: ``features(state, stage) -> d numbers``.
        allowed: ``allowed(state, stage) -> A truth values``, where actions can be missing.
        codec: turns states into rows of numbers. Without it states may be any objects; such
            runs work, but cannot be saved and resumed. Objects are copied by ``copy.deepcopy``,
            when a step is asked for and when it is answered: numbers, texts and tuples of them
            cost nothing, a state that drags its world along costs a world each time.
    """
    plain = _FunctionSimulator(spec, start, step, features, codec)
    return plain if allowed is None else _MaskedFunctionSimulator(plain, allowed)


class _FunctionSimulator:
    """Calls scalar functions row by row: convenient, not fast."""

    def __init__(
        self,
        spec: Spec,
        start: StartFunction,
        step: StepFunction,
        features: FeatureFunction,
        codec: Codec | None,
    ) -> None:
        self._spec = spec
        self._start, self._step, self._features = start, step, features
        self._codec = codec

    @property
    def spec(self) -> Spec:
        return self._spec

    def start(self, rng: np.random.Generator) -> States:
        return self.pack([self._start(rng)])

    def step(self, states: States, stage: int, actions: IntArray, rng: np.random.Generator) -> Step:
        answers = [
            _three_parts(self._step(state, stage, int(action), rng))
            for state, action in zip(self.unpack(states), actions, strict=True)
        ]
        return Step(
            rewards=np.array([float(answer[0]) for answer in answers]),
            states=self.pack([answer[1] for answer in answers]),
            terminated=np.array([bool(answer[2]) for answer in answers]),
        )

    def features(self, states: States, stage: int) -> FloatArray:
        rows = [self._features(state, stage) for state in self.unpack(states)]
        return np.array(rows, dtype=np.float64).reshape(len(rows), -1)

    def pack(self, states: list[Any]) -> States:
        """One array from a list of states."""
        if self._codec is not None:
            rows = [np.asarray(self._codec.encode(state)) for state in states]
            if len({(row.shape, row.dtype.kind) for row in rows}) > 1:
                kinds = sorted({f"{row.dtype}{list(row.shape)}" for row in rows})
                raise SettingError(
                    f"codec.encode gave rows of the kinds {', '.join(kinds)}",
                    "all states must be encoded with one shape and one dtype",
                    "Pad the encoding to a fixed shape, or leave the codec out.",
                )
            return np.stack(rows)
        packed = np.empty(len(states), dtype=object)
        for index, state in enumerate(states):
            packed[index] = _copied(state)  # the user may go on with the object
        return packed

    def unpack(self, states: States) -> list[Any]:
        """A list of states from one array."""
        rows = list(states)
        return rows if self._codec is None else [self._codec.decode(row) for row in rows]


def _three_parts(answer: object) -> tuple[Any, Any, Any]:
    """What a user's step returned, if it has the right form."""
    if isinstance(answer, tuple):
        parts = cast("tuple[Any, ...]", answer)
        if len(parts) == 3 and np.isscalar(parts[0]):
            return parts[0], parts[1], parts[2]
    raise SimulatorError(
        f"step returned {answer!r}",
        "step(state, stage, action, rng) returns (reward, next state, terminated)",
        "Return a number, the next state, and whether the episode ends.",
    )


class _MaskedFunctionSimulator:
    """The same, with an ``allowed`` function of one state."""

    def __init__(self, plain: _FunctionSimulator, allowed: AllowedFunction) -> None:
        self._plain = plain
        self._allowed = allowed
        self.start, self.step, self.features = plain.start, plain.step, plain.features
        self.pack = plain.pack

    @property
    def spec(self) -> Spec:
        return self._plain.spec

    def allowed(self, states: States, stage: int) -> BoolArray:
        rows = [self._allowed(state, stage) for state in self._plain.unpack(states)]
        return np.array(rows, dtype=np.bool_).reshape(len(rows), -1)
