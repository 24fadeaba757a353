"""What people meet first: the public names, the doors of ``plan``, and what they say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tensorplan as tp
from tensorplan.errors import AccessError, QueryBudgetError, SettingError, SimulatorError
from tensorplan.finite import TableSimulator
from tensorplan.problem import SimulatorSession
from tensorplan.records import IntArray, Phase, States, Step
from tensorplan.testing import CountingSimulator, check_session, check_simulator

COIN = [[[(0.5, 0, 1.0, False), (0.5, 0, 0.0, False)]]]


def coin(horizon: int = 2) -> TableSimulator:
    """One state, one action, a fair coin's reward."""
    return tp.from_table(COIN, np.array([[0.5]]), tp.Spec(1, 1, horizon, bound=4.0))


def test_public_names_are_these() -> None:
    assert tp.__all__ == [
        "Budget",
        "Certificate",
        "Plan",
        "SessionPlan",
        "Simulator",
        "Spec",
        "Status",
        "Step",
        "adapters",
        "diagnose",
        "from_functions",
        "from_table",
        "load",
        "plan",
        "plan_session",
        "problems",
        "testing",
    ]
    assert all(hasattr(tp, name) for name in tp.__all__)


class TestDoors:
    @pytest.mark.parametrize(
        ("simulator", "settings", "message"),
        [
            ("deep-sea", {}, "type str.*has spec, start, step and features"),
            (None, {"seed": -1}, "seed=-1"),
            (None, {"seed": None}, "seed=None"),
            (None, {"rule": "bst"}, "rule='bst'.*'consistent' or 'best'"),
            (None, {"sizes": (1, 1)}, "there are three"),
            (None, {"sizes": (1, 1, 0.5)}, "refine_draws=0.5"),
            (None, {"sizes": 7}, "sizes=7"),
            (None, {"errata": "wrong"}, "'corrected' or 'printed'"),
        ],
    )
    def test_what_is_no_plan(self, simulator: Any, settings: dict[str, Any], message: str) -> None:
        with pytest.raises(SettingError, match=message):
            tp.plan(
                simulator or tp.problems.make("counterexample"),
                delta=0.5,
                planner="paper",
                **settings,
            )

    def test_short_forms_are_the_long_ones(self) -> None:
        sim = tp.problems.make("random-tabular", outcomes=2, horizon=2)
        made = tp.plan(
            sim, delta=1.0, planner="paper", sizes=(2, 30, 40), errata="printed", iteration_limit=3
        )
        assert made.summary()["sizes"] == {"rollouts": 2, "test_draws": 30, "refine_draws": 40}
        assert not made.resolved.settings.errata.zeta

    def test_a_run_beyond_all_lifetimes_wants_a_budget(self) -> None:
        with pytest.raises(SettingError, match=r"in no lifetime.*sizes=.*--budget-queries"):
            tp.plan(coin(), delta=0.5, planner="paper")
        made = tp.plan(coin(), delta=0.5, planner="paper", budget=tp.Budget(queries=10))
        assert made.status is tp.Status.BUDGET
        assert made.certificate.upper is not None  # what the oracle said first is kept
        with pytest.raises(SettingError, match="most_queries=None"):
            made.play()

    def test_queries_are_counted_as_they_are_drawn(self) -> None:
        counting = CountingSimulator(coin())
        made = tp.plan(counting, delta=0.5, planner="paper", budget=tp.Budget(seconds=0.05))
        assert made.status is tp.Status.BUDGET
        assert 0 < counting.queries == made.queries.total

    def test_more_draws_than_any_machine_makes_end_the_budget(self) -> None:
        sim = coin()
        access = tp.plan(sim, delta=0.5, planner="paper", sizes=(1, 1, 1), iteration_limit=1).access
        with pytest.raises(QueryBudgetError, match="of any run"):
            access.measure(access.start(), 1, 10**20, phase=Phase.TEST, key=(9,))


class TestStart:
    def test_a_given_start_is_planned_from(self) -> None:
        sim = tp.problems.make("random-tabular", states=6, horizon=3, seed=3)
        values = {start: tp.plan(sim, delta=0.1, start=start).play()[0] for start in range(6)}
        assert len(set(values.values())) > 1
        assert values[0] == tp.plan(sim, delta=0.1).play()[0]

    def test_states_are_written_as_the_user_writes_them(self) -> None:
        def step(state: Any, stage: int, action: int, rng: Any) -> tuple[float, Any, bool]:
            assert isinstance(state, tuple)
            return 0.5, (1, "next"), False

        spec = tp.Spec(2, 1, 2, bound=4.0, deterministic=True)
        sim = tp.from_functions(
            spec, lambda rng: (1, "first"), step, lambda state, stage: [(3 - stage) / 4]
        )
        made = tp.plan(sim, delta=0.1, start=(1, "mine"))
        assert made.action((1, "first"), 1) in (0, 1)
        assert made.play()[0] == 1.0

    def test_a_simulator_that_changes_its_input_cannot_reach_what_is_kept(self) -> None:
        class Careless(TableSimulator):
            def step(
                self, states: States, stage: int, actions: IntArray, rng: np.random.Generator
            ) -> Step:
                answer = super().step(states.copy(), stage, actions, rng)
                states[:] = 0
                return answer

        plain = tp.problems.make("random-tabular", states=6, horizon=3, seed=3)
        assert isinstance(plain, TableSimulator)
        careless = tp.plan(Careless(plain.process), delta=0.1, start=4)
        assert careless.events == tp.plan(plain, delta=0.1, start=4).events
        assert careless.play(3).tolist() == [tp.plan(plain, delta=0.1, start=4).play()[0]] * 3


class TestPromises:
    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"deterministic": True}, "2 outcomes of state 0, action 0"),
            ({"reward_range": (0.0, 0.5)}, "reward 1 in the table"),
        ],
    )
    def test_a_table_that_its_spec_contradicts(self, change: Any, message: str) -> None:
        spec = replace(coin().spec, **change)
        with pytest.raises(SettingError, match=message):
            tp.from_table(COIN, np.array([[0.5]]), spec)

    def test_an_outcome_of_three_parts(self) -> None:
        table: Any = [[[(1.0, 0, 1.0)]]]
        with pytest.raises(SettingError, match=r"\(probability, next state, reward, terminated\)"):
            tp.from_table(table, np.array([[0.5]]), coin().spec)

    @pytest.mark.parametrize("answer", [(1.0, 0), (1.0, 0, False, {}), (None, 0, False), 1.0])
    def test_a_step_of_the_wrong_form(self, answer: Any) -> None:
        spec = tp.Spec(1, 1, 1, bound=2.0, deterministic=True)
        sim = tp.from_functions(
            spec, lambda rng: 0, lambda s, h, a, rng: answer, lambda s, h: [0.5]
        )
        with pytest.raises(SimulatorError, match="returns \\(reward, next state, terminated\\)"):
            tp.plan(sim, delta=0.1)

    @pytest.mark.parametrize("seed", range(4))
    def test_noise_declared_deterministic_voids_the_run(self, seed: int) -> None:
        """Each seed meets the other side of the coin in twenty tosses, but for 1 in 2^19."""
        spec = replace(coin(20).spec, deterministic=True)
        sim = TableSimulator(replace(coin(20).process, spec=spec))
        with pytest.raises(SimulatorError, match="two answers to one question"):
            plan_often(sim, range(40 * seed, 40 * seed + 40))


def plan_often(simulator: TableSimulator, seeds: range) -> None:
    for seed in seeds:
        tp.plan(simulator, delta=8.0, planner="paper", seed=seed)


class TestSessions:
    def test_a_session_is_planned_and_played(self) -> None:
        sim = tp.problems.make("deep-sea", size=8)
        session = SimulatorSession(sim)
        assert check_session(session).ok
        made = tp.plan_session(session, delta=0.1)
        other = tp.plan(sim, delta=0.1, planner="paper")
        assert (made.status, made.theta.tolist()) == (other.status, other.theta.tolist())
        assert made.play() == other.play()[0] == pytest.approx(0.99)
        assert made.queries == other.queries
        assert made.certificate == other.certificate


class TestWords:
    def test_a_certificate_reads_as_claims(self) -> None:
        made = tp.plan(tp.problems.make("deep-sea", size=8), delta=0.1, planner="paper")
        lines = str(made).splitlines()
        assert lines[0].startswith("clean plan after")
        assert lines[1] == "value of this policy >= 0.99"
        assert lines[2].startswith("value of the best policy that the features express <= 0.99")
        assert lines[3].startswith("confidence 1, by Theorem 'main'")
        hand = tp.plan(coin(), delta=0.5, planner="paper", sizes=(1, 5, 5), iteration_limit=2)
        assert str(hand.certificate) == (
            "no theorem covers this run: the sample sizes were given by hand"
        )

    def test_a_rejected_plan_does_not_act(self) -> None:
        spec = tp.Spec(1, 1, 2, bound=4.0, deterministic=True)
        sim = tp.from_functions(
            spec, lambda rng: 0, lambda s, h, a, rng: (1.0, 0, False), lambda s, h: [0.5]
        )
        assert check_simulator(sim).ok
        made = tp.plan(sim, delta=0.1)
        assert (made.status, made.value_predicted) == (tp.Status.REJECTED, -np.inf)
        with pytest.raises(SettingError, match="no parameter is left to act by"):
            made.play()


def test_planners_hold_no_door_of_the_owner() -> None:
    made = tp.plan(tp.problems.make("deep-sea", size=4), delta=0.1)
    local, start = made.access.local, made.access.start()
    assert local.features(start).shape == (1, 4)
    assert local.queries == made.queries
    for door in ("admit", "admit_one", "reveal", "start", "new_episode", "meter"):
        assert hasattr(made.access, door)
        assert not hasattr(local, door)
    with pytest.raises(AttributeError):
        start.stage = 2  # pyright: ignore[reportAttributeAccessIssue]  # the point
    with pytest.raises(AccessError, match="stage 2 for a handle of stage 1"):
        made.access.measure(start, 2, 1, phase=Phase.TEST, key=(99,))
