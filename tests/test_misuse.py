"""What is misused says so: the value, the rule and the way out, and never a raw exception."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import count
from typing import Any

import numpy as np
import pytest
from paper_reference import plan

from tensorplan import problems
from tensorplan.access import Access
from tensorplan.adapters import Levelled
from tensorplan.cli import main
from tensorplan.errors import AccessError, SettingError, TensorplanError
from tensorplan.local import Handle
from tensorplan.oracle import OracleName
from tensorplan.plan import Budget, PaperPlan
from tensorplan.planners.paper import PaperSettings, Sizes, resolve
from tensorplan.problem import Codec, Simulator, from_functions
from tensorplan.records import LARGEST, LEAST, Phase, Spec, States, Status, real, whole
from tensorplan.testing import CountingSimulator
from tensorplan.theory import Setting, failure_bound, lower_bound

SMALL: dict[str, Any] = {"states": 5, "horizon": 3, "dim": 2}
LIMITS: dict[str, Any] = {"queries": np.int64(10**6), "seconds": np.float64(60)}
NAN = math.nan


def table() -> Simulator:
    return problems.make("random-tabular", **SMALL)


@pytest.fixture(scope="module")
def made() -> PaperPlan:
    return plan(table(), delta=0.2)


def planned(settings: dict[str, Any]) -> PaperPlan:
    return plan(table(), **settings)


def check_parts(error: TensorplanError) -> None:
    """All three parts are there."""
    assert all(part and not part.endswith(" ") for part in (error.value, error.rule, error.way_out))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"delta": "a"}, "delta='a': delta must be a number, positive and finite"),
        ({"delta": None}, "delta=None"),
        ({"delta": True}, "delta=True"),
        ({"delta": NAN}, "delta=nan"),
        ({"delta": 10**400}, "delta must be a number, positive and finite"),
        ({"norm": "3"}, "norm='3': norm must be a number, positive and finite, or None"),
        ({"errata": 3}, "errata=3: errata must be 'corrected', 'printed' or an Errata"),
        ({"errata": "both"}, "errata='both'"),
        ({"rule": [1]}, r"rule=\[1\]: rule must be 'consistent' or 'best'"),
        ({"iteration_limit": 2.5}, "iteration_limit=2.5: .* a whole number of 1 or more, or None"),
        ({"sizes": "many"}, "sizes='many': sizes must be three counts, or None"),
        ({"sizes": (1, 2)}, "there are three: rollouts"),
        ({"sizes": (1, 2.5, 1)}, r"Sizes\.test_draws=2\.5"),
        ({"sizes": ("a", 1, 1)}, r"Sizes\.rollouts='a'"),
        ({"budget": 100}, r"budget=100: .*Pass budget=Budget\(queries=\.\.\.\)"),
        ({"seed": 1.5}, "seed=1.5: a seed is a whole number"),
        ({"seed": -1}, "seed=-1"),
        ({"seed": None}, "seed=None"),
        ({"oracle": 3}, "an oracle of type int: an oracle has name, form, proved and maximise"),
    ],
)
def test_settings_of_a_plan(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError, match=message) as caught:
        planned({"delta": 0.2, **settings})
    check_parts(caught.value)


@pytest.mark.parametrize(
    "settings",
    [
        {"seed": np.int64(3)},
        {"sizes": (np.int64(1), np.int32(1), np.uint8(1))},
        {"iteration_limit": np.int64(9)},
        {"delta": np.float32(0.25)},
        {"delta": Fraction(1, 4)},
        {"norm": np.float32(8)},
        {"norm": np.int64(8)},
        {"budget": Budget(**LIMITS)},
    ],
    ids=lambda settings: str(next(iter(settings))),
)
def test_numbers_of_numpy_are_numbers(settings: dict[str, Any]) -> None:
    plain: dict[str, Any] = {}
    kinds: dict[str, Any] = {"delta": float, "norm": float, "seed": int, "iteration_limit": int}
    for name, value in settings.items():
        plain[name] = kinds[name](value) if name in kinds else value
    found, wanted = planned({"delta": 0.25, **settings}), planned({"delta": 0.25, **plain})
    assert found.events == wanted.events
    assert found.status is Status.CLEAN
    assert all(type(size) is int for size in vars(found.resolved.sizes).values())


def test_counts_and_numbers_are_told_from_all_else() -> None:
    for value in (True, np.True_, 1.0, "1", None, -1, [1], np.array([1, 2]), NAN):
        assert whole(value) is None
    assert [whole(value) for value in (0, np.int8(3), np.uint64(2**63))] == [0, 3, 2**63]
    assert (whole(0, 1), whole(-2, -2)) == (None, -2)
    for value in (True, np.False_, "1", None, NAN, math.inf, [1.0], 10**400, -(10**400)):
        assert real(value) is None
    assert [real(value) for value in (3, np.float32(0.5), Fraction(1, 2))] == [3.0, 0.5, 0.5]
    assert real(LARGEST) == LARGEST
    assert (real(0.0, LEAST), real(LEAST, LEAST), real(math.inf, 0, math.inf)) == (
        None,
        LEAST,
        math.inf,
    )


@pytest.mark.parametrize(
    "limits",
    [
        {"queries": -1},
        {"queries": 2.5},
        {"queries": "9"},
        {"seconds": NAN},
        {"seconds": -1},
        {"seconds": "a"},
    ],
    ids=str,
)
def test_budgets_are_limits(limits: dict[str, Any]) -> None:
    (name,) = limits
    with pytest.raises(SettingError, match=f"Budget.{name}=.*of 0 or more, or None"):
        Budget(**limits)
    assert Budget(0, 0.0) == Budget(queries=0, seconds=0)
    assert Budget(seconds=math.inf).seconds == math.inf


@pytest.mark.parametrize("seconds", ["nan", "-1"])
def test_budgets_of_the_command_line_are_limits(
    seconds: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", "counterexample", "--quiet", f"--budget-seconds={seconds}"]) == 2
    assert "seconds must be a number of 0 or more" in capsys.readouterr().err


@pytest.mark.parametrize(
    "changes",
    [
        {"reward_range": (0, 1, 2)},
        {"reward_range": 3},
        {"reward_range": "01"},
        {"reward_range": (0, "a")},
        {"discount": "a"},
        {"bound": "3"},
        {"bound": [1]},
        {"horizon": "a"},
        {"misspecification": None},
        {"actions": True},
    ],
    ids=str,
)
def test_promises_of_a_spec(changes: dict[str, Any]) -> None:
    (name,) = changes
    with pytest.raises(SettingError, match=rf"Spec\.{name}=") as caught:
        replace(Spec(actions=2, dim=1, horizon=2), **changes)
    check_parts(caught.value)


def test_a_spec_and_a_theorem_take_numbers_of_numpy() -> None:
    numpy: dict[str, Any] = {"actions": np.int64(2), "dim": np.int32(3), "horizon": np.uint8(4)}
    numpy |= {"bound": np.float32(2), "reward_range": np.array([0, 1])}
    spec = Spec(**numpy, deterministic=True)
    assert spec == Spec(2, 3, 4, bound=2.0, deterministic=True)
    assert type(spec.horizon) is int
    assert resolve(PaperSettings(0.5), spec).constants.setting == Setting(3, 2, 4, 2.0, 0.5)
    large: Any = (np.int64(70), np.int64(3))
    assert lower_bound(*large) == lower_bound(70, 3)
    assert failure_bound(*large) == failure_bound(70, 3)
    sizes: Any = (np.int64(2**62),) * 3
    assert vars(Sizes(*sizes)) == vars(Sizes(2**62, 2**62, 2**62))


class TestAsking:
    @pytest.fixture
    def access(self) -> Access:
        return Access(table(), seed=0)

    @pytest.mark.parametrize("handle", [3, None, np.zeros(2), "start"], ids=str)
    def test_a_handle_is_a_handle(self, access: Access, handle: Any) -> None:
        asks: tuple[Callable[[], object], ...] = (
            lambda: access.measure(handle, 1, 1, phase=Phase.TEST, key=(0,)),
            lambda: access.advance(handle, 1, [0], phase=Phase.TEST, key=(0,)),
            lambda: access.features(handle),
            lambda: access.take(handle, [0]),
        )
        for ask in asks:
            with pytest.raises(AccessError, match=f"type {type(handle).__name__} in place of a"):
                ask()

    @pytest.mark.parametrize("draws", [1.5, 0, "1", True, None])
    def test_draws(self, access: Access, draws: Any) -> None:
        with pytest.raises(AccessError, match=f"draws={draws}: .*a whole number of draws"):
            access.measure(access.start(), 1, draws, phase=Phase.TEST, key=(0,))

    @pytest.mark.parametrize("stage", [1.0, "1", None, 0, 4])
    def test_stages(self, access: Access, stage: Any) -> None:
        with pytest.raises(AccessError, match="stages run from 1 to 3, in whole numbers"):
            access.measure(access.start(), stage, 1, phase=Phase.TEST, key=(0,))
        with pytest.raises(AccessError, match="stages run from 1 to 3"):
            access.admit(np.array([0]), stage)

    @pytest.mark.parametrize("actions", [[0.0], np.array([0.5]), ["a"], [True], [None]], ids=str)
    def test_actions_are_whole_numbers(self, access: Access, actions: Any) -> None:
        with pytest.raises(AccessError, match=r"of dtype .*: actions are whole numbers"):
            access.advance(access.start(), 1, actions, phase=Phase.TEST, key=(0,))

    @pytest.mark.parametrize("actions", [[1], (1,), np.array([1], np.uint8)], ids=str)
    def test_lists_of_actions_will_do(self, access: Access, actions: Any) -> None:
        start = access.start()
        moved = access.advance(start, 1, actions, phase=Phase.FORWARD, key=(0,))
        plain = access.advance(start, 1, np.array([1]), phase=Phase.FORWARD, key=(1,))
        np.testing.assert_array_equal(moved.rewards, plain.rewards)
        np.testing.assert_array_equal(access.reveal(moved.states), access.reveal(plain.states))

    def test_keys_are_whole_numbers(self, access: Access) -> None:
        key: Any = ("first",)
        with pytest.raises(AccessError, match="keys are whole numbers"):
            access.measure(access.start(), 1, 1, phase=Phase.TEST, key=key)


REFUSED = [1.9, -1, 7, [0, 1], "1", None, NAN, 2**70, (0,)]


class TestStates:
    @pytest.mark.parametrize("state", REFUSED, ids=str)
    def test_a_state_is_one_of_the_table(self, made: PaperPlan, state: Any) -> None:
        asked = made.queries
        with pytest.raises(AccessError, match="state ") as caught:
            made.action(state, 1)
        check_parts(caught.value)
        assert made.queries == asked
        if state is not None:
            with pytest.raises(AccessError, match="state "):
                plan(table(), delta=0.2, start=state)

    @pytest.mark.parametrize("state", [1, 1.0, np.int8(1), np.uint64(1), np.array(1), True])
    def test_what_casts_without_loss_is_the_state(self, made: PaperPlan, state: Any) -> None:
        assert made.action(state, 1) == made.action(1, 1)
        assert (
            plan(table(), delta=0.2, start=state).events == plan(table(), delta=0.2, start=1).events
        )

    def test_a_table_knows_its_states(self) -> None:
        simulator: Any = table()
        rng = np.random.default_rng(0)
        for states in (np.array([0, -1]), np.array([5]), np.array([0.0]), np.array(["a"])):
            asks: tuple[Callable[[], object], ...] = (
                lambda states=states: simulator.features(states, 1),
                lambda states=states: simulator.allowed(states, 1),
                lambda states=states: simulator.step(states, 1, np.zeros(len(states), int), rng),
            )
            for ask in asks:
                with pytest.raises(AccessError, match="whole numbers from 0 to 4"):
                    ask()
        assert simulator.features(np.zeros(0, np.int64), 1).shape == (0, 2)

    def test_levels_have_fields(self) -> None:
        levelled = Levelled(table())
        found = plan(levelled, delta=0.2)
        row = levelled.start(np.random.default_rng(0))[0]
        assert found.action((2, 1), 1) == plan(table(), delta=0.2).action(2, 1)
        assert found.action(row, 1) in (0, 1)
        wrong: tuple[Any, ...] = ((2, 1.5), (2,), 2, (1.5, 1), (2, 1, 0))
        for state in wrong:
            with pytest.raises(AccessError, match="without loss"):
                found.action(state, 1)

    @pytest.mark.parametrize(
        ("dtype", "good", "bad"),
        [
            (np.float32, [0.1, np.float64(0.25), 1, np.int64(3)], ["0.1", [0.1], None, 1j]),
            (np.uint8, [3, 3.0], [300, -1, 0.5]),
            ("U3", ["abc", ""], ["abcd", 3]),
            (object, [(1, 2), [1, 2], "abc", None], []),
        ],
        ids=str,
    )
    def test_dtypes(self, dtype: Any, good: Sequence[Any], bad: Sequence[Any]) -> None:
        asked: list[States] = []

        class Typed(CountingSimulator):
            def start(self, rng: np.random.Generator) -> States:
                return np.zeros(1, dtype)

            def features(self, states: States, stage: int) -> Any:
                asked.append(states)
                return np.zeros((len(states), 2))

        access = Access(Typed(table()), seed=0)
        for state in good:
            assert isinstance(access.admit_one(state, 1), Handle)
            assert asked[-1].dtype == np.dtype(dtype)
            if dtype is object:
                assert asked[-1][0] == state
            else:
                assert asked[-1][0] == np.dtype(dtype).type(state)
        for state in bad:
            with pytest.raises(AccessError, match="without loss"):
                access.admit_one(state, 1)

    def test_a_codec_writes_states_of_one_kind(self) -> None:
        simulator = from_functions(
            Spec(actions=1, dim=1, horizon=2, bound=1.0, deterministic=True),
            start=lambda rng: 0,
            step=lambda state, stage, action, rng: (0.5, state, False),
            features=lambda state, stage: [0.5],
            codec=Codec(encode=lambda state: np.asarray(state), decode=lambda row: row),
        )
        access = Access(simulator, seed=0)
        assert len(access.admit_one(4, 1)) == 1
        for state in (0.5, [1, 2]):
            with pytest.raises(AccessError, match="without loss"):
                access.admit_one(state, 1)


@pytest.mark.parametrize("episodes", [1.5, -1, "2", None])
def test_episodes_are_a_count(made: PaperPlan, episodes: Any) -> None:
    with pytest.raises(SettingError, match="a whole number of 0 or more"):
        made.play(episodes)


class TestExactAndTolerant:
    """Zero thresholds need an oracle that proves its answers."""

    @pytest.mark.parametrize("oracle", ["product", "scip-slabs", "highs"])
    def test_the_pair_is_refused(self, oracle: OracleName) -> None:
        numbers = count()
        with pytest.raises(SettingError, match=f"exact=True with oracle='{oracle}'.*'slabs'"):
            plan(table(), delta=0.2, exact=True, oracle=oracle, watch=lambda _: next(numbers) < 3)
        assert next(numbers) == 0

    def test_our_own_search_keeps_the_bound_on_failed_tests(self) -> None:
        settings: dict[str, Any] = {"states": 5, "actions": 3, "horizon": 3, "dim": 2, "seed": 0}
        simulator = problems.make("random-tabular", **settings, realizable="suboptimal")
        found = plan(simulator, delta=0.2, exact=True)
        assert found.status is Status.CLEAN
        assert len(found.record.beliefs.states) <= failure_bound(2, 3) == 9
