"""Simulators from plain functions, and sessions over a simulator."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tensorplan.errors import AccessError, SettingError
from tensorplan.finite import from_table
from tensorplan.problem import Codec, Simulator, SimulatorSession, SupportsAllowed, from_functions
from tensorplan.records import Spec
from tensorplan.testing import RecordingSimulator, check_session, check_simulator


@dataclass(frozen=True)
class Cell:
    """A state of a user's own type."""

    place: int
    bag: tuple[str, ...] = ()


def walk(state: Cell, stage: int, action: int, rng: np.random.Generator) -> Any:
    slip = rng.random() < 0.25
    place = state.place + (1 if action and not slip else -1)
    return 0.1 * stage, Cell(place, (*state.bag, "x")), place >= 3


def corridor(codec: Codec | None = None) -> Simulator:
    return from_functions(
        Spec(actions=2, dim=2, horizon=4),
        start=lambda rng: Cell(0),
        step=walk,
        features=lambda state, stage: [np.tanh(state.place) / 2, 0.1 * stage],
        codec=codec,
    )


def by_length(cell: Cell) -> list[int]:
    return [0] * (2 + cell.place)


def by_type(cell: Cell) -> float:
    return 0 if cell.place == 1 else 0.5


def numpy_step(state: Any, stage: int, action: int, rng: np.random.Generator) -> Any:
    return np.float32(0.25), np.int32(state + action), np.bool_(state > 0)


class TestFromFunctions:
    def test_object_states_run_and_keep_the_contract(self):
        sim = corridor()
        states = sim.start(np.random.default_rng(0))
        assert states.dtype == object
        assert states[0] == Cell(0)
        step = sim.step(np.repeat(states, 2), 1, np.array([0, 1]), np.random.default_rng(1))
        assert [state.bag for state in step.states] == [("x",), ("x",)]
        assert step.states[0].place == -1
        check_simulator(sim).raise_if_broken()

    def test_rows_are_drawn_one_after_the_other_from_the_one_generator(self):
        sim = corridor()
        states = np.repeat(sim.start(np.random.default_rng(0)), 20)
        step = sim.step(states, 2, np.ones(20, np.int64), np.random.default_rng(5))
        slips = np.random.default_rng(5).random(20) < 0.25
        assert [state.place for state in step.states] == [(-1 if slip else 1) for slip in slips]
        assert step.rewards.tolist() == [0.2] * 20

    def test_states_that_look_like_sequences_stay_whole(self):
        sim = from_functions(
            Spec(actions=1, dim=1, horizon=2),
            start=lambda rng: (1, 2, 3),
            step=lambda state, stage, action, rng: (0.5, [len(state)] * 3, False),
            features=lambda state, stage: [0.1],
        )
        states = sim.start(np.random.default_rng(0))
        assert states.shape == (1,)
        step = sim.step(states, 1, np.array([0]), np.random.default_rng(0))
        assert step.states.shape == (1,)
        assert step.states[0] == [3, 3, 3]

    def test_codec_round_trip(self):
        codec = Codec(
            encode=lambda cell: np.array([cell.place, len(cell.bag)]),
            decode=lambda row: Cell(int(row[0]), ("x",) * int(row[1])),
        )
        plain, coded = corridor(), corridor(codec)
        assert coded.start(np.random.default_rng(0)).tolist() == [[0, 0]]
        rows = np.array([[0, 0], [2, 1], [1, 5]])
        cells = np.array([codec.decode(row) for row in rows], dtype=object)
        actions = np.array([1, 1, 0])
        step = coded.step(rows, 3, actions, np.random.default_rng(3))
        same = plain.step(cells, 3, actions, np.random.default_rng(3))
        assert step.states.dtype == rows.dtype
        assert [codec.decode(row) for row in step.states] == list(same.states)
        np.testing.assert_array_equal(step.terminated, same.terminated)
        np.testing.assert_array_equal(coded.features(rows, 3), plain.features(cells, 3))
        check_simulator(coded).raise_if_broken()

    @pytest.mark.parametrize("encode", [by_length, by_type])
    def test_uneven_encodings_are_refused(self, encode: Callable[[Cell], Any]):
        sim = corridor(Codec(encode, lambda row: Cell(0)))
        with pytest.raises(SettingError, match=r"codec.encode gave.*one shape and one dtype.*Pad"):
            sim.step(np.zeros(30), 1, np.arange(30) % 2, np.random.default_rng(0))

    def test_numpy_scalars_are_welcome_everywhere(self):
        sim = from_functions(
            Spec(actions=2, dim=1, horizon=3, deterministic=True),
            start=lambda rng: np.int32(0),
            step=numpy_step,
            features=lambda state, stage: np.float32(0.5),
            allowed=lambda state, stage: np.array([1, 0]),
            codec=Codec(encode=lambda state: state, decode=lambda row: row),
        )
        check_simulator(sim).raise_if_broken()
        states = sim.start(np.random.default_rng(0))
        step = sim.step(states, 1, np.array([1]), np.random.default_rng(0))
        assert (states.dtype, step.states.dtype) == (np.dtype(np.int32), np.dtype(np.int32))
        assert step.rewards.dtype == np.float64
        assert step.terminated.dtype == np.bool_
        assert sim.features(states, 1).tolist() == [[0.5]]

    def test_masks_are_there_only_where_given(self):
        assert not isinstance(corridor(), SupportsAllowed)
        sim = from_functions(
            corridor().spec,
            start=lambda rng: Cell(0),
            step=walk,
            features=lambda state, stage: [0.1, 0.1],
            allowed=lambda state, stage: [state.place > -1, stage > 0],
        )
        assert isinstance(sim, SupportsAllowed)
        cells = np.array([Cell(0), Cell(-1)], dtype=object)
        assert sim.allowed(cells, 1).tolist() == [[True, True], [False, True]]
        check_simulator(sim).raise_if_broken()


def table_session(horizon: int | None = 3, seed: int = 0) -> SimulatorSession:
    table: Any = [
        [[(0.5, 0, 0.25, False), (0.5, 1, 0.5, False)], [(1.0, 2, 1.0, True)]],
        [[(1.0, 1, 0.75, False)], []],
        [[], []],
    ]
    spec = Spec(actions=2, dim=3, horizon=horizon, discount=0.9 if horizon is None else 1.0)
    return SimulatorSession(from_table(table, np.eye(3), spec), seed)


class TestSimulatorSession:
    @pytest.mark.parametrize("horizon", [3, None])
    def test_keeps_the_contract_of_a_session(self, horizon: int | None):
        check_session(table_session(horizon)).raise_if_broken()

    def test_data_has_the_means_of_the_table(self):
        session = table_session()
        data = session.data(20_000)
        # Means of 20000 draws of a fair coin: 5 sigma are 0.018.
        np.testing.assert_allclose(data.rewards.mean(axis=1), [0.375, 1.0], atol=0.25 * 0.018)
        means = data.next_features.mean(axis=1)
        np.testing.assert_allclose(means, [[0.5, 0.5, 0], [0, 0, 0]], atol=0.018)
        np.testing.assert_array_equal(data.features, [1, 0, 0])
        # Row by row: state 0 was reached with reward 0.25, state 1 with reward 0.5.
        np.testing.assert_array_equal(data.next_features[0, :, 0], data.rewards[0] == 0.25)

    def test_masked_actions_stay_empty_and_are_refused(self):
        session = table_session()
        while session.data(1).features[1] == 0:  # until it is in state 1
            session.reset()
            session.forward(0)
        data = session.data(4)
        assert data.allowed.tolist() == [True, False]
        assert not data.rewards[1].any()
        for action in (1, 2, -1):
            with pytest.raises(AccessError, match=f"action {action}.*Choose"):
                session.forward(action)

    def test_termination_and_the_horizon_end_an_episode(self):
        session = table_session()
        assert session.forward(1) == (1.0, True)
        assert session.forward(0) == (0.0, True)
        assert not session.data(2).features.any()
        session.reset()
        assert [session.forward(0)[1] for _ in range(3)] == [False, False, True]
        session.reset()
        session.forward(0)
        session.forward(0)
        assert session.data(5).features.any()
        assert not session.data(5).next_features.any()

    def test_the_start_survives_a_reset(self):
        table = [[[(1.0, s, 0.0, False)]] for s in range(50)]
        sim = from_table(table, np.eye(50), Spec(1, 50, 5), start=[0.02] * 50)
        session = SimulatorSession(sim, seed=3)
        first = session.data(1).features
        for _ in range(5):
            session.reset()
            np.testing.assert_array_equal(session.data(1).features, first)
        others = [SimulatorSession(sim, seed).data(1).features for seed in range(8)]
        assert len({tuple(features) for features in others}) > 1

    def test_features_of_ended_episodes_are_never_asked_for(self):
        sim = RecordingSimulator(
            from_table([[[(0.5, 0, 0, False), (0.5, 1, 1, True)]], [[]]], np.eye(2), Spec(1, 2, 3))
        )
        data = SimulatorSession(sim).data(40)
        asked = np.concatenate([call.states for call in sim.calls if call.method == "features"])
        assert set(asked) == {0}
        np.testing.assert_array_equal(data.next_features[0, :, 0], 1 - data.rewards[0])

    @pytest.mark.parametrize(("horizon", "stages"), [(None, {1}), (3, {1, 2, 3})])
    def test_stages(self, horizon: int | None, stages: set[int]):
        table = [[[(1.0, 0, 0.5, False)]]]
        sim = RecordingSimulator(from_table(table, np.ones((1, 1)), Spec(1, 1, horizon, 0.9)))
        session = SimulatorSession(sim)
        for _ in range(3):
            session.data(2)
            session.forward(0)
        assert {call.stage for call in sim.calls} == stages

    def test_no_draws_tell_the_features_alone(self):
        session = table_session()
        told, drawn = session.data(0), session.data(3)
        assert (told.rewards.shape[1], told.next_features.shape[1]) == (0, 0)
        assert np.array_equal(told.features, drawn.features)
        assert np.array_equal(told.allowed, drawn.allowed)

    def test_a_negative_number_of_draws_is_refused(self):
        with pytest.raises(AccessError, match="draws=-1"):
            table_session().data(-1)
