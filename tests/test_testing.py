"""The conformance kit: broken simulators are caught by the right rule, good ones pass."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorplan.errors import SettingError, SimulatorError
from tensorplan.finite import from_table
from tensorplan.problem import SessionData, SimulatorSession, SupportsAllowed, from_functions
from tensorplan.records import Spec, Step
from tensorplan.testing import (
    CountingSimulator,
    RecordingSimulator,
    Report,
    check_session,
    check_simulator,
)
from tensorplan.testing.compare import same_rows, snapshot

Change = Callable[[Any], Any]
NOISY = Spec(actions=2, dim=2, horizon=4)


class Drift:
    """A good simulator: a point on a ring of 9 that is pushed, and sometimes pushed twice."""

    def __init__(self, spec: Spec = NOISY) -> None:
        self.spec = spec

    def start(self, rng: np.random.Generator) -> Any:
        return rng.integers(9, size=1)

    def noise(self, rng: np.random.Generator, count: int) -> Any:
        return np.zeros(count, np.int64) if self.spec.deterministic else rng.integers(2, size=count)

    def step(self, states: Any, stage: int, actions: Any, rng: np.random.Generator) -> Step:
        moved = (states + 1 + actions + self.noise(rng, len(states))) % 9
        return Step(moved / 8, moved, np.zeros(len(states), np.bool_))

    def features(self, states: Any, stage: int) -> Any:
        angle = states * (2 * np.pi / 9)
        return np.stack([np.cos(angle), np.sin(angle)], axis=1)


def quiet(**changes: Any) -> Spec:
    return replace(NOISY, deterministic=True, **changes)


def verdicts(report: Report) -> dict[str, str]:
    return {finding.rule: finding.verdict for finding in report.findings}


def details(report: Report) -> dict[str, str]:
    return {finding.rule: finding.detail for finding in report.findings}


# Simulators that are broken in one way each.


class HiddenCounter(Drift):
    asked = 0

    def step(self, states: Any, stage: int, actions: Any, rng: np.random.Generator) -> Step:
        self.asked += 1
        answer = super().step(states, stage, actions, rng)
        return Step(np.full(len(states), 1 / self.asked), answer.states, answer.terminated)


class LastAsked(Drift):
    """Answers by the state of the previous call: equal twice in a row, not later."""

    last = key = 0

    def step(self, states: Any, stage: int, actions: Any, rng: np.random.Generator) -> Step:
        if (key := hash((states.tobytes(), stage))) != self.key:
            self.last, self.key = self.key, key
        answer = super().step(states, stage, actions, rng)
        rewards = np.full(len(states), (self.last % 1000) / 1000)
        return Step(rewards, answer.states, answer.terminated)


class CachedFeatures(Drift):
    """Remembers the features of a stage, whoever asks."""

    def __init__(self, spec: Spec = NOISY) -> None:
        super().__init__(spec)
        self.cache: dict[int, Any] = {}

    def features(self, states: Any, stage: int) -> Any:
        rows = self.cache.setdefault(stage, super().features(states, stage))
        return rows[np.arange(len(states)) % len(rows)]


class Mutating(Drift):
    def step(self, states: Any, stage: int, actions: Any, rng: np.random.Generator) -> Step:
        answer = super().step(states, stage, actions, rng)
        states[:] = answer.states
        return Step(answer.rewards, states, answer.terminated)


class MutatingActions(Drift):
    def step(self, states: Any, stage: int, actions: Any, rng: np.random.Generator) -> Step:
        answer = super().step(states, stage, actions, rng)
        actions += 1
        return answer


class MutatingFeatures(Drift):
    def features(self, states: Any, stage: int) -> Any:
        rows = super().features(states, stage)
        states += 1
        return rows


class GlobalRandomness(Drift):
    def noise(self, rng: np.random.Generator, count: int) -> Any:
        return np.random.randint(2, size=count)  # noqa: NPY002


class OwnGenerator(Drift):
    def __init__(self, spec: Spec = NOISY) -> None:
        super().__init__(spec)
        self.rng = np.random.default_rng(0)

    def start(self, rng: np.random.Generator) -> Any:
        return self.rng.integers(9, size=1)


class SharedNoise(Drift):
    def noise(self, rng: np.random.Generator, count: int) -> Any:
        return np.full(count, rng.integers(2))


class NotDeterministic(Drift):
    def noise(self, rng: np.random.Generator, count: int) -> Any:
        return rng.integers(2, size=count)


class BatchDependent(Drift):
    def noise(self, rng: np.random.Generator, count: int) -> Any:
        return np.full(count, count % 2 == 0, np.int64)


class CentredFeatures(Drift):
    def features(self, states: Any, stage: int) -> Any:
        rows = super().features(states, stage)
        return (rows - rows.mean(axis=0)) / 2


class ReusedBuffer(Drift):
    def __init__(self, spec: Spec = NOISY) -> None:
        super().__init__(spec)
        self.buffer = np.zeros(1000)

    def step(self, states: Any, stage: int, actions: Any, rng: np.random.Generator) -> Step:
        answer = super().step(states, stage, actions, rng)
        rewards = self.buffer[: len(states)]
        rewards[:] = answer.rewards
        return Step(rewards, answer.states, answer.terminated)


class ReusedFeatures(Drift):
    def __init__(self, spec: Spec = NOISY) -> None:
        super().__init__(spec)
        self.buffer = np.zeros((1000, 2))

    def features(self, states: Any, stage: int) -> Any:
        rows = self.buffer[: len(states)]
        rows[:] = super().features(states, stage)
        return rows


class Bent(Drift):
    """Exchanges a part of the answer."""

    def __init__(self, spec: Spec = NOISY, **parts: Change) -> None:
        super().__init__(spec)
        self.parts = parts

    def step(self, states: Any, stage: int, actions: Any, rng: np.random.Generator) -> Step:
        answer = super().step(states, stage, actions, rng)
        bent = {name: change(getattr(answer, name)) for name, change in self.parts.items()}
        return replace(answer, **bent)


class Masked(Drift):
    def __init__(self, masks: Change) -> None:
        super().__init__()
        self.masks = masks

    def allowed(self, states: Any, stage: int) -> Any:
        return self.masks(states)


class WithStart(Drift):
    def __init__(self, start: Any) -> None:
        super().__init__()
        self.start = lambda rng: start


class WithFeatures(Drift):
    def __init__(self, change: Change) -> None:
        super().__init__()
        self.change = change

    def features(self, states: Any, stage: int) -> Any:
        return self.change(super().features(states, stage))


class Failing(Drift):
    def step(self, states: Any, stage: int, actions: Any, rng: np.random.Generator) -> Step:
        if stage == 3:
            raise KeyError("no such road")
        return super().step(states, stage, actions, rng)


BROKEN: dict[str, tuple[Any, str, str]] = {
    "hidden counter": (HiddenCounter(), "memoryless", "step"),
    "hidden counter, twice": (HiddenCounter(), "repeatable", "step"),
    "last asked": (LastAsked(quiet()), "memoryless", "step"),
    "cached features": (CachedFeatures(), "batch", "features"),
    "mutates states": (Mutating(), "inputs", "step at stage 1 changed the states"),
    "mutates actions": (MutatingActions(), "inputs", "changed the actions"),
    "features mutate": (MutatingFeatures(), "inputs", "features at stage 1 changed"),
    "global randomness": (GlobalRandomness(), "repeatable", "step"),
    "own generator": (OwnGenerator(), "repeatable", "start"),
    "shared noise": (SharedNoise(), "independent-rows", "one and the same draw"),
    "shared noise, 1 stage": (
        SharedNoise(replace(NOISY, horizon=1)),
        "independent-rows",
        "one and the same draw",
    ),
    "not deterministic": (NotDeterministic(quiet()), "deterministic", "changed with the gen"),
    "depends on batch": (BatchDependent(quiet()), "batch", "step at stage 1"),
    "centred features": (CentredFeatures(), "batch", "features at stage 1"),
    "reused buffer": (ReusedBuffer(), "outputs", "changed by a later call"),
    "reused features": (ReusedFeatures(), "outputs", "changed by a later call"),
    "reward range": (Bent(rewards=lambda r: r * 2), "rewards", "reward_range"),
    "reward nan": (Bent(rewards=lambda r: r * np.nan), "rewards", "finite"),
    "reward words": (Bent(rewards=lambda r: ["much"] * len(r)), "shapes", "float"),
    "reward columns": (Bent(rewards=lambda r: r[:, None]), "shapes", "batch first"),
    "state dtype": (Bent(states=lambda s: s / 1), "shapes", "dtype float64"),
    "state shape": (Bent(states=lambda s: s[:, None]), "shapes", "row shape (1,)"),
    "flags": (Bent(terminated=lambda t: t.astype(int)), "shapes", "truth values"),
    "one flag": (Bent(terminated=lambda t: False), "shapes", "batch first"),
    "termination": (
        Bent(replace(NOISY, may_terminate=False), terminated=lambda t: ~t),
        "termination",
        "may_terminate",
    ),
    "start scalar": (WithStart(3), "start", "a int, not an array"),
    "start twins": (WithStart(np.zeros(2, int)), "start", "not a batch of one"),
    "feature width": (WithFeatures(lambda rows: rows[:, :1]), "features", "shape (32, 2)"),
    "feature norm": (WithFeatures(lambda rows: 1.01 * rows), "features", "Divide"),
    "feature inf": (WithFeatures(lambda rows: rows + np.inf), "features", "finite"),
    "mask shape": (Masked(lambda s: np.ones(2, bool)), "masks", "(32, 2)"),
    "mask numbers": (Masked(lambda s: np.ones((len(s), 2))), "masks", "float64"),
    "mask empty": (Masked(lambda s: np.zeros((len(s), 2), bool)), "masks", "without any"),
    "mask by batch": (Masked(lambda s: np.ones((len(s), 2), bool) & (len(s) > 1)), "masks", ""),
    "exception": (Failing(), "runs", "step at stage 3 raised KeyError: 'no such road'"),
    "spec": (Drift({"actions": 2}), "spec", "a dict"),  # pyright: ignore[reportArgumentType] bad
    "no spec": (object(), "runs", "AttributeError"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_simulators_are_caught_by_the_right_rule(name: str):
    simulator, rule, detail = BROKEN[name]
    report = check_simulator(simulator)
    assert verdicts(report)[rule] == "broken", str(report)
    assert detail in details(report)[rule]
    assert not report.ok
    with pytest.raises(SimulatorError, match=rule):
        report.raise_if_broken()


@pytest.mark.parametrize(
    "name",
    ["shared noise", "mutates actions", "depends on batch", "reward range", "feature norm",
     "reused buffer", "centred features", "termination", "exception"],
)  # fmt: skip
def test_one_fault_is_one_finding(name: str):
    simulator, rule, _ = BROKEN[name]
    assert [finding.rule for finding in check_simulator(simulator).broken] == [rule]


@pytest.mark.parametrize(
    "spec",
    [NOISY, quiet(), replace(NOISY, horizon=None, discount=0.9), replace(NOISY, horizon=None),
     replace(NOISY, may_terminate=False), quiet(horizon=1), replace(NOISY, horizon=1)],
)  # fmt: skip
@pytest.mark.parametrize("seed", [0, 1])
def test_good_simulators_pass(spec: Spec, seed: int):
    report = check_simulator(Drift(spec), seed=seed)
    assert report.ok, str(report)
    found = verdicts(report)
    assert found["deterministic"] == ("ok" if spec.deterministic else "skipped")
    assert found["fresh-noise"] == found["independent-rows"]
    assert found["fresh-noise"] == ("skipped" if spec.deterministic else "ok")
    assert found["termination"] == ("skipped" if spec.may_terminate else "ok")
    untried = {"masks", "deterministic", "fresh-noise", "independent-rows", "termination"}
    assert all(verdict == "ok" for rule, verdict in found.items() if rule not in untried)
    report.raise_if_broken()


def test_an_undeclared_deterministic_simulator_is_told_so():
    class Quiet(Drift):
        def noise(self, rng: np.random.Generator, count: int) -> Any:
            return np.zeros(count, np.int64)

    report = check_simulator(Quiet())
    assert report.ok
    assert "declare it" in details(report)["fresh-noise"]
    assert "skipped  fresh-noise" in str(report)


def test_rounding_in_matrix_products_is_no_fault():
    """The last bit of a product may depend on the size of the batch."""
    mix = np.random.default_rng(0).normal(size=(60, 2)) / 30

    class Product(Drift):
        def features(self, states: Any, stage: int) -> Any:
            return (np.eye(9)[states] @ np.ones((9, 60)) * states[:, None] / 9) @ mix / 4

    check_simulator(Product(quiet())).raise_if_broken()


def test_a_walk_goes_through_all_stages_and_tries_all_actions():
    simulator = RecordingSimulator(Drift(replace(NOISY, horizon=12)))
    assert check_simulator(simulator, draws=6).ok
    steps = [call for call in simulator.calls if call.method == "step"]
    assert {call.stage for call in steps} == set(range(1, 13))
    tried = np.concatenate([call.actions for call in steps if call.actions is not None])
    assert set(tried) == {0, 1}


def test_without_a_horizon_all_is_stage_1():
    simulator = RecordingSimulator(Drift(replace(NOISY, horizon=None, discount=0.9)))
    assert check_simulator(simulator, draws=2).ok
    assert {call.stage for call in simulator.calls} == {1}


def test_a_walk_that_ends_early_says_where():
    ending = from_table([[[(1.0, 0, 0, True)]]], np.ones((1, 1)), Spec(1, 1, 7, deterministic=True))
    report = check_simulator(ending)
    assert report.ok
    assert details(report)["stages"] == "the walk ended at stage 1 of 7"


def test_only_allowed_actions_are_asked():
    simulator = RecordingSimulator(Masked(lambda s: np.stack([s % 2 == 0, s % 2 == 1], axis=1)))
    assert check_simulator(simulator).ok
    for call in simulator.calls:
        assert call.actions is None or np.array_equal(call.actions, call.states % 2)


@pytest.mark.parametrize("mutates", [False, True])
def test_object_states(mutates: bool):
    class Bag:
        """Objects without an equality of their own."""

        def __init__(self, items: list[int]) -> None:
            self.items = items

    def step(state: Bag, stage: int, action: int, rng: np.random.Generator) -> Any:
        items = state.items if mutates else list(state.items)
        items.append(int(rng.integers(3)))
        return 0.5, Bag(items), False

    simulator = from_functions(
        NOISY,
        start=lambda rng: Bag([1]),
        step=step,
        features=lambda state, stage: [np.tanh(sum(state.items)) / 2, 0.5],
    )
    report = check_simulator(simulator)
    assert report.ok != mutates, str(report)
    assert (verdicts(report)["inputs"] == "broken") == mutates


def test_structured_states():
    kind = np.dtype([("place", np.int64), ("load", np.float64)])

    class Structured(Drift):
        def start(self, rng: np.random.Generator) -> Any:
            return np.zeros(1, kind)

        def step(self, states: Any, stage: int, actions: Any, rng: np.random.Generator) -> Step:
            following = states.copy()
            following["load"] = rng.random(len(states))
            return Step(following["load"], following, following["load"] > 0.9)

        def features(self, states: Any, stage: int) -> Any:
            return np.stack([states["load"], 0 * states["load"]], axis=1)

    check_simulator(Structured()).raise_if_broken()


@dataclass
class Board:
    """A state whose own equality fails, as it holds an array."""

    cells: Any
    parent: Any = None


class Plain:
    def __init__(self, inside: Any) -> None:
        self.inside = inside


def circle(number: int) -> Board:
    board = Board(np.array([number, 2]))
    board.parent = Plain(board)
    return board


NAN = float("nan")


@pytest.mark.parametrize(
    ("make", "other"),
    [
        (lambda: Board(np.array([1, 2])), Board(np.array([1, 3]))),
        (lambda: Board(np.array([1, 2])), Board(np.array([1]))),
        (lambda: circle(1), circle(3)),
        (lambda: Plain([{"a": np.zeros(2)}]), Plain([{"a": np.ones(2)}])),
        (lambda: Plain((1, 2)), Plain((1, 2, 3))),
        (lambda: {"a": 1}, {"b": 1}),
        (lambda: (1, "two"), [1, "two"]),
        (lambda: np.arange(3), [0, 1, 2]),
        (lambda: frozenset([3]), frozenset([4])),
        (lambda: np.int64(1), 2),
    ],
)
def test_objects_are_compared_by_what_they_hold(make: Callable[[], Any], other: Any):
    first, second, third = np.empty((3, 2), dtype=object)
    first[0] = first[1] = second[0] = make()
    second[1], third[0], third[1] = make(), other, make()
    assert same_rows(first, second).tolist() == [True, True]
    assert same_rows(first, third).tolist() == [False, True]
    assert same_rows(first, snapshot(first)).all()


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        ([[1.0, NAN], [0.0, 1.0]], [[1.0, NAN], [0.0, NAN]], [True, False]),
        ([1.0, 1.0], [1.0, 1.0 + 1e-15], [True, False]),
        (["a", "b"], ["a", "c"], [True, False]),
        ([1, 2], [1.0, 2.0], [False, False]),
        ([1, 2], [[1], [2]], [False, False]),
    ],
)
def test_rows_are_compared_exactly(left: Any, right: Any, same: list[bool]):
    assert same_rows(np.array(left), np.array(right)).tolist() == same


def test_rows_are_compared_up_to_rounding_on_request():
    left, right = np.array([1.0, 2.0, NAN]), np.array([1.0 + 1e-14, 2.001, NAN])
    assert same_rows(left, right, rounding=True).tolist() == [True, False, True]


def test_reports_read_well():
    report = check_simulator(Bent(rewards=lambda r: r * 2))
    text = str(report).splitlines()
    assert len(text) == len(report.findings) + 1
    assert text[-1] == "It breaks 1 of its rules."
    assert any(line.startswith("BROKEN   rewards ") for line in text)
    assert str(check_simulator(Drift())).endswith("It keeps its contract.")


def test_the_same_seed_gives_the_same_report():
    for simulator in (Drift(), SharedNoise(), Bent(rewards=lambda r: r * 2)):
        assert check_simulator(simulator, seed=3) == check_simulator(simulator, seed=3)


@pytest.mark.parametrize("draws", [0, 1])
def test_a_batch_needs_two_rows(draws: int):
    with pytest.raises(SettingError, match=f"draws={draws}"):
        check_simulator(Drift(), draws=draws)


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.integers(1, 3), st.booleans())
def test_random_tables_keep_the_contract(seed: int, states: int, actions: int, endless: bool):
    luck = np.random.default_rng(seed)
    table = [[cell(luck, states) for _ in range(actions)] for _ in range(states)]
    spec = Spec(actions, 2, None if endless else 4, discount=0.9)
    simulator = from_table(table, luck.uniform(-0.5, 0.5, (states, 2)), spec)
    check_simulator(simulator, draws=8, seed=seed % 1000).raise_if_broken()
    session = SimulatorSession(simulator, seed % 1000)
    check_session(session, draws=3, episodes=2).raise_if_broken()


def cell(luck: np.random.Generator, states: int) -> Any:
    weights = luck.dirichlet(np.ones(luck.integers(1, 4)))
    return [
        (float(p), int(luck.integers(states)), float(luck.random()), bool(luck.random() < 0.2))
        for p in weights
    ]


class TestWrappers:
    def test_counting_counts_rows_of_steps_only(self):
        counting = CountingSimulator(Drift())
        states = np.repeat(counting.start(np.random.default_rng(0)), 7)
        counting.features(states, 1)
        answer = counting.step(states, 1, np.zeros(7, np.int64), np.random.default_rng(1))
        same = Drift().step(states, 1, np.zeros(7, np.int64), np.random.default_rng(1))
        assert counting.queries == 7
        np.testing.assert_array_equal(answer.rewards, same.rewards)
        assert counting.spec is NOISY

    @pytest.mark.parametrize("wrapper", [CountingSimulator, RecordingSimulator])
    def test_masks_pass_through_where_there_are_any(self, wrapper: Any):
        assert not isinstance(wrapper(Drift()), SupportsAllowed)
        masked = wrapper(Masked(lambda s: np.ones((len(s), 2), np.bool_)))
        assert isinstance(masked, SupportsAllowed)
        assert masked.allowed(np.zeros(3), 1).shape == (3, 2)

    def test_recording_keeps_copies(self):
        recording = RecordingSimulator(Drift())
        states = np.array([4])
        recording.step(states, 2, np.array([1]), np.random.default_rng(0))
        recording.features(states, 3)
        states[0] = 8
        first, second = recording.calls
        assert (first.method, first.stage, first.states.tolist()) == ("step", 2, [4])
        assert first.actions is not None
        assert first.actions.tolist() == [1]
        assert (second.method, second.stage, second.actions) == ("features", 3, None)
        assert recording.queries == 1


# Sessions that are broken in one way each.


class MovingData(SimulatorSession):
    def data(self, draws: int) -> SessionData:
        answer = super().data(draws)
        self.forward(0)
        return answer


class StickyReset(SimulatorSession):
    def reset(self) -> None:
        if self._over():
            super().reset()
            self.forward(0)


class Undead(SimulatorSession):
    """Goes on telling about the end."""

    def data(self, draws: int) -> SessionData:
        answer = super().data(draws)
        return replace(answer, features=answer.features + 0.5 * (not answer.features.any()))


class Revived(SimulatorSession):
    def forward(self, action: int) -> tuple[float, bool]:
        was_over = self._over()
        reward, ended = super().forward(action)
        return reward, ended and not was_over


class Endless(SimulatorSession):
    def forward(self, action: int) -> tuple[float, bool]:
        return super().forward(action)[0], False


class Seeing(SimulatorSession):
    """Tells features of the stage after the last."""

    def data(self, draws: int) -> SessionData:
        answer = super().data(draws)
        following = np.full_like(answer.next_features, 0.5 * bool(answer.features.any()))
        return replace(answer, next_features=following)


class Repeating(SimulatorSession):
    def data(self, draws: int) -> SessionData:
        self._rng = np.random.default_rng(0)
        return super().data(draws)


class Told(SimulatorSession):
    """Exchanges a part of the data."""

    def __init__(self, name: str, change: Change) -> None:
        super().__init__(Drift())
        self.name, self.change = name, change

    def data(self, draws: int) -> SessionData:
        answer = super().data(draws)
        return replace(answer, **{self.name: self.change(getattr(answer, self.name))})


SESSIONS: dict[str, tuple[Any, str]] = {
    "moving": (MovingData(Drift()), "movement"),
    "sticky": (StickyReset(Drift()), "reset"),
    "undead": (Undead(Drift()), "end"),
    "revived": (Revived(Drift()), "end"),
    "endless": (Endless(Drift()), "horizon"),
    "seeing": (Seeing(Drift()), "horizon"),
    "noisy": (SimulatorSession(NotDeterministic(quiet())), "deterministic"),
    "features": (Told("features", lambda f: 2 * f), "features"),
    "next features": (Told("next_features", lambda f: 2 * f), "features"),
    "reward": (Told("rewards", lambda r: r - 1.5), "rewards"),
    "nan": (Told("rewards", lambda r: r * np.nan), "rewards"),
    "transposed": (Told("rewards", lambda r: r.T), "shapes"),
    "one feature": (Told("next_features", lambda f: f[..., 0]), "shapes"),
    "nothing allowed": (Told("allowed", lambda a: ~a), "masks"),
    "early end": (
        SimulatorSession(Bent(replace(NOISY, may_terminate=False), terminated=lambda t: ~t)),
        "termination",
    ),
    "exception": (SimulatorSession(Failing()), "runs"),
}


@pytest.mark.parametrize("name", SESSIONS)
def test_broken_sessions_are_caught_by_the_right_rule(name: str):
    session, rule = SESSIONS[name]
    report = check_session(session)
    assert verdicts(report)[rule] == "broken", str(report)


@pytest.mark.parametrize(
    "spec", [NOISY, quiet(), replace(NOISY, may_terminate=False),
             replace(NOISY, horizon=None, discount=0.5)],
)  # fmt: skip
def test_good_sessions_pass(spec: Spec):
    report = check_session(SimulatorSession(Drift(spec)))
    assert report.ok, str(report)
    assert verdicts(report)["deterministic"] == ("ok" if spec.deterministic else "skipped")
    assert verdicts(report)["fresh-noise"] == ("skipped" if spec.deterministic else "ok")


def test_rows_of_missing_actions_are_ignored():
    class Chattering(SimulatorSession):
        def data(self, draws: int) -> SessionData:
            answer = super().data(draws)
            answer.rewards[~answer.allowed] = self._rng.normal(size=draws)
            answer.next_features[~answer.allowed] = np.nan
            return answer

    masked = Masked(lambda s: np.stack([s >= 0, s < 0], axis=1))
    masked.spec = quiet()
    assert check_session(Chattering(masked)).ok


def test_a_session_that_repeats_its_noise_looks_deterministic():
    report = check_session(Repeating(Drift()))
    assert "declare it" in details(report)["fresh-noise"]


def test_a_check_of_sessions_needs_two_episodes():
    with pytest.raises(SettingError, match="episodes=1"):
        check_session(SimulatorSession(Drift()), episodes=1)
