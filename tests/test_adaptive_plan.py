"""What is done with a plan of the adaptive planner: acting, going on, its certificate and proof."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from paper_reference import Shape, linear_process, walked
from test_adaptive_deterministic import bounds, hidden, optimum_of, planning_queries

import tensorplan as tp
from tensorplan import problems
from tensorplan.checker import verify_text
from tensorplan.cli import main
from tensorplan.errors import SettingError
from tensorplan.exact import solve
from tensorplan.finite import FiniteProcess, TableSimulator
from tensorplan.oracle import SlabOracle
from tensorplan.plan import Budget, plan
from tensorplan.planners.adaptive import adaptive_settings, fine_oracle, refit, resolve
from tensorplan.problem import Simulator
from tensorplan.records import Certificate, Spec, Status


class Knot:
    """A state without an equality of its own."""

    def __init__(self, place: int) -> None:
        self.place = place


def knots(length: int = 4) -> Simulator:
    """Action 1 goes on and pays at the end, action 0 ends the episode."""

    def step(state: Knot, stage: int, action: int, rng: Any) -> tuple[float, Knot, bool]:
        return float(action and stage == length), Knot(state.place + 1), action == 0

    spec = Spec(2, 1, length, bound=2.0, deterministic=True)
    return tp.from_functions(spec, lambda rng: Knot(0), step, lambda state, stage: [1.0])


class TestActing:
    def test_the_environment_may_move_on_by_itself(self) -> None:
        for seed in range(6):
            simulator = TableSimulator(linear_process(seed, Shape(actions=3, horizon=5, ends=0.1)))
            made = plan(simulator, delta=1e-6)
            assert walked(made, simulator) == pytest.approx(float(made.play()[0]), abs=1e-12)
            assert made.queries.by_phase["act"] == 0

    def test_an_endless_process_repeats_its_states(self) -> None:
        for seed in range(4):
            process = linear_process(seed, Shape(horizon=None, discount=0.6, states=4, dim=2))
            simulator = TableSimulator(process)
            made = plan(simulator, delta=0.01)
            rng, total, states = (
                np.random.default_rng(0),
                0.0,
                simulator.start(np.random.default_rng(0)),
            )
            steps = len(made.record.trajectory.actions) if made.record.trajectory else 0
            for step in range(steps):
                action = made.action(states[0])
                answer = simulator.step(states, 1, np.array([action]), rng)
                total += 0.6**step * float(answer.rewards[0])
                states = answer.states
            assert made.queries.by_phase["act"] == 0
            assert total == pytest.approx(bounds(made)[0], abs=1e-12)
            assert made.play()[0] >= total - 1e-12

    def test_other_states_are_asked_about(self) -> None:
        process = linear_process(1, Shape(states=6, actions=3, horizon=4))
        made = plan(TableSimulator(process), delta=1e-6)
        best = solve_actions(process)
        for state in range(6):
            for stage in (2, 3, 4):
                assert made.action(state, stage) in best[stage - 1][state]
        assert made.queries.by_phase["act"] > 0

    def test_states_that_cannot_be_compared_are_played_all_the_same(self) -> None:
        made = plan(knots(), delta=1e-6)
        assert made.play(2).tolist() == [1.0, 1.0]
        assert made.queries.by_phase["act"] == 0
        assert made.action(Knot(0), 1) == 1
        assert made.queries.by_phase["act"] > 0

    def test_a_rejected_plan_does_not_act(self) -> None:
        spec = Spec(1, 1, 2, bound=4.0, deterministic=True)
        made = plan(
            tp.from_functions(
                spec, lambda rng: 0, lambda s, h, a, rng: (1.0, 0, False), lambda s, h: [0.5]
            ),
            delta=0.1,
        )
        assert made.status is Status.REJECTED
        assert (made.certificate.lower, made.certificate.upper) == (None, None)
        assert verify_text(json.dumps(made.proof())).accepted
        with pytest.raises(SettingError, match="no parameter is left"):
            made.action(0, 1)


def solve_actions(process: FiniteProcess) -> list[list[set[int]]]:
    """The optimal actions of every stage and state."""
    values = solve(process).values
    after = np.concatenate([values, np.zeros((1, values.shape[1]))])
    chosen: list[list[set[int]]] = []
    for stage in range(len(values)):
        q = process.rewards[:, :, 0] + np.where(
            process.terminated[:, :, 0], 0.0, after[stage + 1][process.successors[:, :, 0]]
        )
        q = np.where(process.allowed, q, -np.inf)
        chosen.append([set(np.flatnonzero(row >= row.max() - 1e-6).tolist()) for row in q])
    return chosen


class TestGoingOn:
    def test_a_smaller_gap_asks_only_what_is_new(self) -> None:
        for seed in range(4):
            simulator = hidden(3, 5, 12, seed)
            rough = plan(simulator, delta=4.0)
            assert rough.status is Status.CERTIFIED
            known = planning_queries(rough)
            fine = rough.tighten(1e-5)
            fresh = plan(simulator, delta=1e-5)
            assert fine.status is Status.CERTIFIED
            assert bounds(fine)[1] - bounds(fine)[0] <= 1e-5
            assert bounds(fine)[0] == pytest.approx(bounds(fresh)[0], abs=1e-5)
            # The meter goes on, and no pair is asked twice: what is new is what is missing.
            assert known <= planning_queries(fine) <= 1.2 * planning_queries(fresh)
            assert rough.delta == 4.0

    def test_our_own_search_gets_the_gap_of_the_later_question(self) -> None:
        spec, features = hidden(2, 4, 10, 0).spec, np.array([0.5, 0.0, 0.0, 0.0])
        rough, fine = (resolve(adaptive_settings(delta), spec) for delta in (2.0, 1e-6))
        own, chosen = fine_oracle(rough, features), SlabOracle(gap=1e-3)
        for oracle in (own, chosen):
            refit(oracle, (rough, features), (fine, features))
        assert own.gap == fine_oracle(fine, features).gap < 1e-6
        assert own.gap * fine.norm * 0.5 <= 1e-6 / 2
        assert chosen.gap == 1e-3

    def test_another_start_uses_what_is_known_of_the_features(self) -> None:
        process = linear_process(2, Shape(states=8, actions=2, horizon=5, dim=3, starts=3))
        simulator = TableSimulator(process)
        first = plan(simulator, delta=1e-6, start=0)
        for start in (1, 2):
            made = first.extend(start)
            fresh = plan(simulator, delta=1e-6, start=start)
            assert made.status is Status.CERTIFIED
            assert bounds(made) == pytest.approx(bounds(fresh), abs=2e-6)
            assert made.play()[0] == pytest.approx(bounds(made)[0], abs=1e-12)
            spent = planning_queries(made) - planning_queries(first)
            assert spent <= planning_queries(fresh)
            first = made

    def test_a_budget_of_their_own(self) -> None:
        rough = plan(hidden(3, 5, 12, 0), delta=4.0)
        spent = rough.queries.total
        made = rough.tighten(1e-5, budget=Budget(queries=3))
        assert made.status is Status.BUDGET
        assert made.queries.total == spent + 3
        assert rough.tighten(1e-5).status is Status.CERTIFIED


class TestCertificate:
    def test_it_says_what_it_takes_for_granted(self) -> None:
        made = plan(problems.make("deep-sea", size=8), delta=0.1)
        text = str(made)
        for words in (
            "confidence 1, by exact data",
            "no bound on the number of queries is claimed",
            "||theta|| <= 1.485; the upper bound depends on it",
            "some deterministic policy is realizable",
            "what was asked twice was answered alike",
            "of linear, for rounding",
        ):
            assert words in text
        other = plan(problems.make("deep-sea", size=8), delta=0.1, compete="optimal", norm=1e4)
        assert "an optimal policy is realizable" in str(other)
        misfit = plan(problems.make("deep-sea", size=8), delta=0.5, misspecification=0.01)
        assert "values are within 0.01 of linear, and" in str(misfit)
        nameless = replace(linear_process(0, Shape()).spec, bound=None)
        process = replace(linear_process(0, Shape()), spec=nameless)
        assert "(a default, as nobody gave a bound)" in str(
            plan(TableSimulator(process), delta=0.1)
        )

    def test_whether_the_bound_on_parameters_matters(self) -> None:
        """Where every state is known in full and every value is pinned, B has no part in it."""
        process = linear_process(4, Shape(states=4, actions=2, horizon=3, dim=2))
        pinned = plan(TableSimulator(process), delta=1e-6, norm=50.0)
        assert "the upper bound does not depend on it" in str(pinned)
        assert bounds(pinned)[1] == pytest.approx(optimum_of(process), abs=1e-5)

    def test_crossing_bounds_are_no_error(self) -> None:
        """Nothing but a constant is representable, and the best policy is worth more than it."""
        certificate = Certificate(0.75, 0.5, 1.0, "grounds")
        assert certificate.gap == -0.25
        assert certificate.sentence.endswith("at most 0.5: this one is better.")
        assert Certificate(0.5, 0.75, 1.0, "").sentence.endswith("which is 0.25 more.")
        assert "Nothing is claimed" in Certificate(None, 0.5, 1.0, "").sentence
        crossed = [
            made
            for made in (
                plan(problems.make("random-tabular", realizable="none", seed=seed), delta=0.05)
                for seed in range(20)
            )
            if made.certificate.gap is not None and made.certificate.gap < 0
        ]
        assert all(made.status is Status.CERTIFIED for made in crossed)
        assert crossed

    @pytest.mark.parametrize("compete", ["realizable", "optimal"])
    def test_the_proof_holds(self, compete: str) -> None:
        for seed in range(3):
            made = plan(hidden(2, 4, 8, seed), delta=1e-5, compete=compete)
            made.tighten(1e-6)  # shares the oracle, and asks it something else
            verdict = verify_text(json.dumps(made.proof()))
            assert verdict.accepted
            optimum = made.record.optimum
            assert optimum is not None
            assert bounds(made)[1] == pytest.approx(optimum.upper, abs=1e-6)


def test_the_command_line_tells_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    proof = tmp_path / "proof.json"
    words = ["plan", "deep-sea", "--set", "size=6", "--seed", "4", "--proof", str(proof)]
    assert main([*words, "--json", "--quiet"]) == 0
    data = json.loads(capsys.readouterr().out)
    made = plan(problems.make("deep-sea", size=6), delta=0.1, seed=4)
    made.play()
    assert data.items() >= json.loads(json.dumps(made.summary())).items()
    assert {"lower", "upper", "gap", "confidence", "assumptions"} <= data["certificate"].keys()
    assert (data["planner"], data["seed"], data["status"]) == ("adaptive", 4, "certified")
    assert data["planner_settings"]["compete"] == "realizable"
    assert main(["verify", str(proof)]) == 0
    capsys.readouterr()
    assert main([*words, "--quiet", "--compete", "optimal", "--eta", ".01", "--explore", "1"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "the best policy that these features represent" in text
    assert "an optimal policy is realizable" in text
    assert "within 0.01 of linear" in text
