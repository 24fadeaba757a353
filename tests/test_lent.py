"""Simulators that change what they are given: the states that a run keeps stay as they are."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from paper_reference import plan

from tensorplan.access import Access
from tensorplan.adapters import Inaccurate, Levelled
from tensorplan.errors import SimulatorError
from tensorplan.plan import PaperPlan
from tensorplan.problem import Simulator, SimulatorSession, from_functions, lent
from tensorplan.records import BoolArray, FloatArray, IntArray, Phase, Spec, States, Step
from tensorplan.session_plan import plan_session

SPEC = Spec(actions=2, dim=1, horizon=3, bound=4.0, deterministic=True)

Changed = tuple[float, Any, bool]


def feature(state: Any, stage: int) -> list[float]:
    """The value of always taking action 1, divided by 4."""
    return [max(0, 4 - stage) / 16 if state[0] == stage - 1 else 0.0]


def fresh(state: Any, stage: int, action: int, rng: np.random.Generator) -> Changed:
    return 0.25 * action, [state[0] + action], False


def in_place(state: Any, stage: int, action: int, rng: np.random.Generator) -> Changed:
    state[0] += action
    return 0.25 * action, state, False


def sorting(state: Any, stage: int) -> list[float]:
    """Leaves garbage behind in the state that it was asked about."""
    row = feature(state, stage)
    state[0] = 99
    return row


class Board:
    """Compared and hashed by its identity, as classes are unless they say otherwise."""

    def __init__(self, place: int) -> None:
        self.place = place

    def __getitem__(self, index: int) -> int:
        return self.place

    def move(self, action: int) -> Board:
        self.place += action
        return self


@dataclass(frozen=True)
class Frozen:
    """Frozen and hashable, but what it holds is neither."""

    board: Board

    def __getitem__(self, index: int) -> int:
        return self.board.place


def on_one_board() -> Any:
    """A step that answers every question with one and the same list."""
    board = [0]

    def step(state: Any, stage: int, action: int, rng: np.random.Generator) -> Changed:
        board[0] = state[0] + action
        return 0.25 * action, board, False

    return step


def simulator(
    step: Any = fresh, features: Any = feature, start: Callable[[], Any] = lambda: [0]
) -> Simulator:
    return from_functions(SPEC, lambda rng: start(), step, features)


def board_step(state: Any, stage: int, action: int, rng: np.random.Generator) -> Changed:
    return 0.25 * action, state.move(action), False


def frozen_step(state: Any, stage: int, action: int, rng: np.random.Generator) -> Changed:
    state.board.move(action)
    return 0.25 * action, state, False


class Arrays:
    """The same process over arrays, or over rows of objects, changed in place."""

    def __init__(self, dtype: type, *, reuses: bool = False) -> None:
        self.dtype, self.reuses = dtype, reuses
        self.buffer: States = np.zeros((8192, 1), dtype)

    @property
    def spec(self) -> Spec:
        return SPEC

    def start(self, rng: np.random.Generator) -> States:
        return np.zeros_like(self.buffer[:1])

    def step(self, states: States, stage: int, actions: IntArray, rng: np.random.Generator) -> Step:
        states[:, 0] += actions
        ended = np.zeros(len(states), np.bool_)
        if self.reuses:
            self.buffer[: len(states)] = states
            states = self.buffer[: len(states)]
        rewards = 0.25 * actions.astype(np.float64)
        actions[:] = 0
        return Step(rewards, states, ended)

    def features(self, states: States, stage: int) -> FloatArray:
        rows = np.array([feature(row, stage) for row in states])
        states[:] = 7
        return rows

    def allowed(self, states: States, stage: int) -> BoolArray:
        states[:] = 7
        return np.ones((len(states), 2), np.bool_)


class Lists(Arrays):
    """A batch of lists, each changed in place."""

    def start(self, rng: np.random.Generator) -> States:
        states = np.empty(1, object)
        states[0] = [0]
        return states

    def step(self, states: States, stage: int, actions: IntArray, rng: np.random.Generator) -> Step:
        for state, action in zip(states, actions, strict=True):
            state[0] += int(action)
        return Step(0.25 * actions.astype(np.float64), states, np.zeros(len(states), np.bool_))


MUTATING: dict[str, Callable[[], Simulator]] = {
    "lists": lambda: simulator(in_place),
    "one board for all": lambda: simulator(on_one_board()),
    "hashed by identity": lambda: simulator(board_step, start=lambda: Board(0)),
    "mutable inside": lambda: simulator(frozen_step, start=lambda: Frozen(Board(0))),
    "features": lambda: simulator(fresh, sorting),
    "array": lambda: Arrays(np.int64),
    "array of floats, one buffer": lambda: Arrays(np.float64, reuses=True),
    "array of objects": lambda: Arrays(object),
    "batch of lists": lambda: Lists(object),
}


def check(made: Any, value: float) -> None:
    assert made.certificate.confidence == 1.0
    assert value == made.certificate.lower == 0.75
    assert 0.75 <= made.certificate.upper <= 0.75 + 0.1


@pytest.mark.parametrize("name", ["none", *MUTATING])
@pytest.mark.parametrize("exact", [False, True])
def test_a_certificate_does_not_depend_on_what_a_simulator_does_to_its_states(
    name: str, exact: bool
) -> None:
    make = MUTATING.get(name, simulator)
    made: PaperPlan = plan(make(), delta=0.1, exact=exact)
    check(made, float(made.play(2)[1]))
    pure = plan(simulator(), delta=0.1, exact=exact)
    assert made.events == pure.events
    session = plan_session(SimulatorSession(make()), delta=0.1, exact=exact)
    session.play()
    check(session, session.play())


@pytest.mark.parametrize("name", MUTATING)
def test_through_an_adapter(name: str) -> None:
    made = plan(Levelled(MUTATING[name]()), delta=0.1)
    check(made, float(made.play()[0]))


def test_a_bias_belongs_to_the_state_that_was_asked_about() -> None:
    for kind in (np.int64, np.float64):
        biased = Inaccurate(Arrays(kind), 1e-3)
        states, actions = np.zeros((3, 1), kind), np.ones(3, np.int64)
        wanted = 0.25 + biased.bias(states, actions)
        step = biased.step(states, 1, actions, np.random.default_rng(0))
        np.testing.assert_array_equal(step.rewards, wanted)


def test_rows_that_share_an_object_are_lent_apart() -> None:
    states = np.empty(3, object)
    states[:] = [[shared := [0]], shared, shared]
    copies = lent(states)
    copies[1].append(1)
    assert (copies[1], copies[2], shared) == ([0, 1], [0], [0])
    assert copies[0][0] is not shared
    fields = np.zeros(2, [("state", object), ("level", np.int64)])
    fields["state"][:] = [shared, shared]
    lent(fields)["state"][0].append(1)
    assert shared == [0]
    assert lent(states[:0]).shape == (0,)


def test_immutable_states_are_not_copied() -> None:
    states = np.empty(3, object)
    states[:] = [(1, ("a", 2.5)), "text", 10**30]
    assert all(copy is state for copy, state in zip(lent(states), states, strict=True))


def test_a_state_that_cannot_be_copied_is_refused() -> None:
    locked = simulator(start=lambda: [0, threading.Lock()])
    with pytest.raises(SimulatorError, match=r"cannot be copied.*copy\.deepcopy.*a codec"):
        plan(locked, delta=0.1)


def test_a_state_may_share_what_never_changes() -> None:
    class World:
        def __deepcopy__(self, memo: Any) -> World:
            return self

    world = World()
    access = Access(simulator(start=lambda: [0, world]), seed=0)
    assert access.reveal(access.start())[0][1] is world


def test_answers_in_one_buffer_are_kept_apart() -> None:
    """More rows than one call of the simulator takes, answered in the same arrays."""
    access = Access(Arrays(np.int64, reuses=True), seed=0)
    rows = 8192 + 5
    many = access.take(access.start(), np.zeros(rows, np.int64))
    actions = np.arange(rows) % 2
    moved = access.advance(many, 1, actions, phase=Phase.FORWARD, key=(0,))
    np.testing.assert_array_equal(access.reveal(moved.states)[:, 0], actions)
    np.testing.assert_array_equal(moved.rewards, 0.25 * actions)
