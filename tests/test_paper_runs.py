"""Runs of the paper's planner: its Remark, its errata, its loops, and what must not matter."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from paper_reference import (
    Shape,
    best_of,
    failed_in_record,
    failures_of,
    linear_process,
    plan,
    starting_at,
    thetas_of,
)
from test_exact_worlds import permuted, rotation
from test_paper import small_process

from tensorplan import problems
from tensorplan.errors import SettingError
from tensorplan.exact import soundness
from tensorplan.finite import FiniteProcess, TableSimulator
from tensorplan.oracle import OracleName
from tensorplan.oracle.slabs import SlabOracle
from tensorplan.plan import Budget, PaperPlan
from tensorplan.planners.paper import PaperSettings, Sizes, certify, resolve
from tensorplan.records import IterationEvent, Spec, Status
from tensorplan.testing import RecordingSimulator
from tensorplan.theory import Errata, Setting, paper_constants

SPEC = Spec(actions=2, dim=2, horizon=3, bound=2.0, deterministic=True)
ORACLES = ("slabs", "product")


def check_sound(made: PaperPlan, process: FiniteProcess, delta: float) -> None:
    """A clean deterministic run keeps every promise."""
    assert made.status is Status.CLEAN
    value, certificate = float(made.play()[0]), made.certificate
    bound = process.spec.bound
    assert bound is not None
    judged = soundness(process, value, delta, bound)
    assert np.isfinite(judged.best_realizable)
    assert judged.holds
    assert certificate.confidence == 1.0
    assert certificate.lower == pytest.approx(value, abs=1e-12)
    assert certificate.upper is not None
    assert certificate.upper >= judged.best_realizable - 1e-9


class TestRemark:
    """Theory A24: the best-action test of the Remark never learns."""

    @pytest.fixture
    def made(self) -> PaperPlan:
        return plan(problems.make("counterexample"), delta=0.5, rule="best")

    def test_it_repeats_itself_up_to_the_theorems_own_limit(self, made: PaperPlan) -> None:
        assert made.status is Status.BUDGET
        assert made.record.iteration == made.resolved.constants.eluder_bound + 2
        thetas = thetas_of(made)
        assert not np.array_equal(thetas[0], thetas[1])
        assert np.all(thetas[1:] == thetas[1])
        np.testing.assert_allclose(thetas[1], [0, 5], atol=0.01)
        assert set(failures_of(made)[1:]) == {(0, 2)}
        assert all(event.upper > 1.9 for event in made.events)

    def test_its_plan_is_worth_nothing_and_certified_by_nothing(self, made: PaperPlan) -> None:
        assert made.value_predicted == pytest.approx(2.0, abs=0.01)
        assert made.play()[0] == 0.0
        certificate = made.certificate
        assert certificate.grounds.startswith("no theorem covers this run: the Remark's")
        assert (certificate.lower, certificate.upper, certificate.confidence) == (None,) * 3

    def test_what_it_stores_excludes_nothing(self, made: PaperPlan) -> None:
        first, *others = made.record.beliefs.states
        assert (
            abs(np.prod(first.errors(thetas_of(made)[0]))) > made.resolved.constants.sol_threshold
        )
        assert len(others) == made.record.iteration - 1
        rng = np.random.default_rng(0)
        for state in others[:3]:
            assert np.all(state.rows[0] == 0)
            assert (
                np.prod(state.errors(made.theta)) == np.prod(state.errors(rng.normal(size=2))) == 0
            )

    @pytest.mark.parametrize("oracle", ORACLES)
    def test_the_papers_own_test_solves_the_same_problem(self, oracle: Any) -> None:
        simulator = problems.make("counterexample")
        assert isinstance(simulator, TableSimulator)
        made = plan(simulator, delta=0.5, oracle=oracle)
        check_sound(made, simulator.process, 0.5)
        assert made.certificate.lower == 1.0
        assert ("product form" in made.certificate.grounds) is (oracle == "product")

    def test_it_passes_where_the_best_action_is_consistent(self) -> None:
        made = plan(problems.make("combination-lock", length=3), delta=0.2, rule="best")
        assert made.status is Status.CLEAN
        assert made.play()[0] == 1.0
        assert made.certificate.lower is None


class TestErrata:
    def test_zeta_and_draws_as_printed_and_as_corrected(self) -> None:
        noisy = replace(SPEC, deterministic=False)
        printed, corrected = (
            resolve(PaperSettings(0.5, errata=errata), noisy)
            for errata in (Errata.printed(), Errata.corrected())
        )
        assert float(printed.constants.zeta) == pytest.approx(0.5 / 12)
        assert float(corrected.constants.zeta) == pytest.approx(0.5 / 36)
        for each in (printed, corrected):
            wanted = paper_constants(Setting(2, 2, 3, 2.0, 0.5), each.settings.errata)
            assert each.sizes == Sizes(wanted.rollouts, wanted.test_draws, wanted.refine_draws)
            assert each.constants == wanted
            assert each.iterations == wanted.eluder_bound + 2
            assert each.tolerance == pytest.approx(0.5 / 12)
        assert printed.sizes.rollouts < corrected.sizes.rollouts
        assert printed.sizes.refine_draws > corrected.sizes.refine_draws
        assert printed.constants.sol_threshold == corrected.constants.sol_threshold

    @pytest.mark.parametrize(("horizon", "smaller"), [(3, True), (1, False)])
    def test_threshold_of_a7_moves_the_draws_alone(self, horizon: int, smaller: bool) -> None:
        spec = replace(SPEC, deterministic=False, horizon=horizon)
        plain, option = (
            resolve(PaperSettings(0.5, errata=Errata(threshold=choice)), spec)
            for choice in (False, True)
        )
        assert option.constants.sol_threshold == plain.constants.sol_threshold
        assert option.sizes.rollouts == plain.sizes.rollouts
        assert (option.sizes.refine_draws < plain.sizes.refine_draws) is smaller

    def test_safe_start_is_safer(self) -> None:
        fixed, safe = (resolve(PaperSettings(0.5, safe_start=on), SPEC) for on in (False, True))
        assert safe.iterations > fixed.iterations
        assert safe.constants.sol_threshold < fixed.constants.sol_threshold
        # E_d is safe for the epsilon_0 of A14: 2/3 (delta / 12 H^2)^A.
        assert float(safe.constants.epsilon) == pytest.approx(2 / 3 * (0.5 / 108) ** 2)

    @pytest.mark.parametrize(
        "settings",
        [
            {"errata": Errata.printed()},
            {"errata": Errata(threshold=True)},
            {"safe_start": True},
            {"return_test": True},
            {"return_test": True, "exact": True},
        ],
        ids=str,
    )
    def test_every_variant_is_sound_where_measurements_are_exact(self, settings: Any) -> None:
        for index in (0, 1, 3, 4):
            simulator, delta = small_process(index)
            made = plan(simulator, delta=delta, **settings)
            check_sound(made, simulator.process, delta)

    @pytest.mark.parametrize(
        ("errata", "zeta", "words"),
        [
            (Errata.printed(), 0.5 / 12, "as printed (Corollary"),
            (Errata.corrected(), 0.5 / 36, "errata corrected (Corollary"),
        ],
    )
    def test_what_a_clean_run_with_the_theorems_sizes_claims(
        self, errata: Errata, zeta: float, words: str
    ) -> None:
        # No such run can be made: the theorem asks for 1e18 queries. What it would claim is known.
        made = plan(problems.make("counterexample"), delta=0.5)
        noisy = replace(made.access.spec, deterministic=False)
        resolved = resolve(PaperSettings(0.5, errata=errata), noisy)
        certificate = certify(resolved, noisy, made.record, SlabOracle())
        assert words in certificate.grounds
        assert certificate.confidence == pytest.approx(1 - 3 * zeta)
        assert certificate.lower == pytest.approx(made.value_predicted - 0.75 * 0.5)
        assert certificate.upper == made.certificate.upper


def test_a_failed_return_test_rolls_the_same_parameter_out_again() -> None:
    simulator = problems.make("random-tabular", outcomes=3, states=4, horizon=2, seed=1)
    made = plan(simulator, delta=0.7, sizes=Sizes(3, 2000, 20_000), return_test=True, record=True)
    assert made.status is Status.CLEAN
    assert failures_of(made)[2:] == [None, (2, 2), None, None]
    third, fourth, fifth, sixth = made.events[2:]
    for event in (fourth, sixth):
        before = made.events[event.iteration - 2]
        assert (event.theta, event.nodes) == (before.theta, before.nodes)
    assert third.theta != fifth.theta
    assert abs(made.record.mean_return - sixth.predicted) <= 0.7 / 4
    rows = [batch.measurement.rewards[0] for batch in made.record.tests if batch.stage == 1]
    assert len({row.tobytes() for row in rows}) == len(rows)


class TestLoops:
    @pytest.mark.parametrize("sizes", [(1, 1, 1), (3, 2, 2), (5, 1, 4)])
    @pytest.mark.parametrize("index", [0, 1, 6])
    def test_queries_without_early_exit_are_those_of_the_formula(
        self, sizes: tuple[int, int, int], index: int
    ) -> None:
        simulator, delta = small_process(index)
        horizon, actions = simulator.spec.horizon or 0, simulator.spec.actions
        printed = plan(simulator, delta=delta, sizes=Sizes(*sizes), early_exit=False)
        n1, n2, n3 = sizes
        tau, failures = printed.record.iteration, printed.record.iteration - 1
        assert failures >= 1
        printed.play()
        assert printed.queries.by_phase == {
            "test": tau * n1 * horizon * actions * n2,
            "forward": tau * n1 * horizon,
            "refine": failures * actions * n3,
            "act": horizon * actions * n2,
            "check": horizon,
            "play": horizon,
            "verify": 0,
        }
        rolled = tau * n1 * horizon * (actions * n2 + 1)
        # The formula of the paper, and one more look at the last trajectory (theory F6).
        total = horizon * n2 * actions + rolled + failures * actions * n3 + horizon
        assert printed.queries.total == printed.queries.per_episode == total
        short = plan(simulator, delta=delta, sizes=Sizes(*sizes))
        assert np.array_equal(thetas_of(short), thetas_of(printed))
        assert failures_of(short) == failures_of(printed)
        assert short.queries.total < printed.queries.total
        # One rollout, up to its failure; then the clean ones.
        spent = sum(stage for _, stage in filter(None, failures_of(short)))
        rolled = (spent + n1 * horizon) * actions * n2 + spent - failures + n1 * horizon
        assert short.queries.total == rolled + failures * actions * n3 + horizon

    @pytest.mark.parametrize("early_exit", [True, False])
    @pytest.mark.parametrize("seed", [0, 2, 3])
    def test_the_kept_failure_is_the_first_in_printed_order(
        self, seed: int, early_exit: bool
    ) -> None:
        simulator = problems.make("random-tabular", outcomes=3, states=5, horizon=4, seed=seed)
        sizes = Sizes(12, 100, 20_000)
        made = plan(
            simulator,
            delta=1.5,
            sizes=sizes,
            record=True,
            iteration_limit=12,
            early_exit=early_exit,
            seed=seed,
        )
        late = several = 0
        for event in made.events:
            failed = failed_in_record(made, event.iteration)
            assert event.failed == next(iter(failed), None)
            several += len({rollout for rollout, _ in failed}) > 1
            stages: dict[int, list[int]] = {}
            for batch in made.record.tests:
                if batch.iteration == event.iteration:
                    for rollout in batch.rollouts:
                        stages.setdefault(int(rollout), []).append(batch.stage)
            # Those that come before it were played to their end, in both modes.
            before = range(sizes.rollouts if event.failed is None else event.failed[0])
            assert all(stages[rollout] == [1, 2, 3, 4] for rollout in before)
            if not early_exit:
                assert sorted(stages) == list(range(sizes.rollouts))
            late += event.failed is not None and event.failed[0] > 0
        assert late >= 2
        assert several >= 1
        kept = [(failure.rollout, failure.stage) for failure, _ in made.record.failures]
        assert kept == [failed for failed in failures_of(made) if failed is not None]

    def test_iteration_limits_are_kept(self) -> None:
        simulator, delta = small_process(0)
        whole = plan(simulator, delta=delta)
        assert whole.record.iteration >= 3
        cut = plan(simulator, delta=delta, iteration_limit=2)
        assert cut.status is Status.BUDGET
        assert cut.events == whole.events[:2]
        assert cut.certificate.lower is None
        assert cut.certificate.upper is not None
        assert cut.certificate.upper >= best_of(simulator.process)
        with pytest.raises(SettingError, match="iteration_limit=0"):
            plan(simulator, delta=delta, iteration_limit=0)


class TestWorlds:
    @pytest.mark.parametrize("rewards", [(-1.0, 0.0), (-2.0, 3.0), (0.5, 2.0)])
    @pytest.mark.parametrize("exact", [False, True])
    def test_rewards_of_any_range(self, rewards: tuple[float, float], exact: bool) -> None:
        rng = np.random.default_rng(3)
        for seed in range(10):
            shape = Shape(
                states=int(rng.integers(3, 7)),
                actions=int(rng.integers(2, 4)),
                horizon=int(rng.integers(1, 5)),
                rewards=rewards,
                ends=0.2 * (seed % 2),
            )
            process = linear_process(seed, shape)
            delta = float(rng.uniform(0.05, 0.5)) * (rewards[1] - rewards[0])
            made = plan(TableSimulator(process), delta=delta, exact=exact)
            assert made.resolved.width == max(rewards[1], 0) - min(rewards[0], 0)
            check_sound(made, process, delta)

    @pytest.mark.parametrize("ends", [0.0, 0.3])
    def test_masks_ends_and_random_starts(self, ends: float) -> None:
        starts: set[int] = set()
        for seed in range(12):
            shape = Shape(actions=3, horizon=4, ends=ends, masks=0.4, starts=3)
            process = linear_process(seed, shape)
            assert not process.allowed.all()
            recording = RecordingSimulator(TableSimulator(process))
            made = plan(recording, delta=0.3, seed=seed, record=True)
            first = made.record.tests[0].states
            assert first is not None
            start = int(made.access.reveal(first)[0])
            check_sound(made, starting_at(process, start), 0.3)
            starts.add(start)
            asked = [call for call in recording.calls if call.actions is not None]
            assert all(process.allowed[call.states, call.actions].all() for call in asked)
            assert made.queries.total + made.queries.by_phase["play"] == recording.queries
        assert starts == {0, 1, 2}

    def test_a_run_that_ends_early_stops_asking(self) -> None:
        process = linear_process(1, Shape(horizon=4, ends=1.0))
        made = plan(TableSimulator(process), delta=0.3, sizes=Sizes(3, 1, 1), early_exit=False)
        check_sound(made, process, 0.3)
        assert made.queries.by_phase["forward"] == 3 * made.record.iteration
        assert made.queries.by_phase["play"] == 1


class TestRejection:
    @pytest.mark.parametrize("exact", [False, True])
    def test_an_empty_set_is_an_outcome(self, exact: bool) -> None:
        simulator, delta = small_process(5)
        made = plan(simulator, delta=delta, exact=exact)
        self.check(made, simulator)

    def test_by_the_product_form(self) -> None:
        # One action: v = 1 at the start, whose feature is 0.
        process = linear_process(0, Shape(actions=1, horizon=1, dim=2, rewards=(0.5, 1.0)))
        process = process.with_features(np.zeros_like(process.feature_table))
        simulator = TableSimulator(process)
        self.check(plan(simulator, delta=0.2, oracle="product"), simulator)

    def check(self, made: PaperPlan, simulator: TableSimulator) -> None:
        assert best_of(simulator.process) == -np.inf
        assert made.status is Status.REJECTED
        assert not made.theta.any()
        assert made.value_predicted == -np.inf
        certificate = made.certificate
        assert (certificate.lower, certificate.upper, certificate.confidence) == (None, None, 1.0)
        words = " ".join(certificate.assumptions)
        assert "(the last failed test repeated it)" in words
        assert "rollout" not in words
        assert "realizable" not in words  # the verdict says the contrary
        assert made.summary()["status"] == "rejected"
        with pytest.raises(SettingError, match="no parameter is left to act by"):
            made.play()


def stop(event: IterationEvent) -> bool:
    return False


class TestAssumptions:
    """What was taken for granted depends on how the run ended."""

    REALIZABLE = "some deterministic policy is realizable by the features"
    DETERMINISTIC = "the simulator is deterministic, as its Spec declares"

    @pytest.mark.parametrize("exact", [False, True])
    @pytest.mark.parametrize(
        ("settings", "status", "checked"),
        [
            ({}, Status.CLEAN, "the last rollout repeated it"),
            ({"iteration_limit": 2}, Status.BUDGET, "this run ended before it was checked"),
            ({"budget": Budget(0)}, Status.BUDGET, "this run ended before it was checked"),
            (
                {"watch": stop},
                Status.CANCELLED,
                "this run ended before it was checked",
            ),
            (
                {"oracle": SlabOracle(node_limit=1)},
                Status.ORACLE_GAP,
                "this run ended before it was checked",
            ),
        ],
        ids=["clean", "limit", "budget", "cancelled", "gap"],
    )
    def test_of_runs_with_an_upper_bound(
        self, settings: dict[str, Any], status: Status, checked: str, exact: bool
    ) -> None:
        simulator, delta = small_process(3)
        made = plan(simulator, delta=delta, exact=exact, **settings)
        assert made.status is status
        words = made.certificate.assumptions
        assert sum(each.startswith(self.REALIZABLE) for each in words) == 1
        assert f"{self.DETERMINISTIC} ({checked})" in words
        assert (made.queries.by_phase["check"] > 0) is (status is Status.CLEAN)

    @pytest.mark.parametrize("oracle", ["slabs", "product", "scip-slabs", "highs"])
    def test_of_an_oracle_that_proves_nothing(self, oracle: OracleName) -> None:
        made = plan(problems.make("counterexample"), delta=0.5, oracle=oracle)
        words = f"the bound of the oracle '{oracle}', and its word that nothing is left, hold"
        found = [each.startswith(words) for each in made.certificate.assumptions]
        assert any(found) is (oracle != "slabs")

    def test_of_a_stochastic_run(self) -> None:
        simulator = problems.make("random-tabular", outcomes=3, states=5, horizon=3)
        made = plan(simulator, delta=1.0, budget=Budget(queries=10))
        words = " ".join(made.certificate.assumptions)
        assert self.REALIZABLE in words
        assert "deterministic," not in words


def test_both_oracles_are_sound_and_agree_where_sol_does() -> None:
    for index in [index for index in range(30) if index % 3 != 2]:
        simulator, delta = small_process(index)
        uppers: list[float] = []
        for oracle in ORACLES:
            made = plan(simulator, delta=delta, oracle=oracle)
            check_sound(made, simulator.process, delta)
            uppers.append(made.events[0].upper)
        assert uppers[0] == pytest.approx(uppers[1], rel=1e-6)


class TestWhatMustNotMatter:
    """Deterministic problems: the same process under other names has the same value and bounds."""

    def outcome(self, process: FiniteProcess, delta: float, exact: bool) -> list[float]:
        made = plan(TableSimulator(process), delta=delta, exact=exact)
        check_sound(made, process, delta)
        lower, upper = made.certificate.lower, made.certificate.upper
        assert lower is not None
        assert upper is not None
        return [float(made.play()[0]), lower, upper]

    @pytest.mark.parametrize("exact", [False, True])
    @pytest.mark.parametrize("index", [0, 3, 4, 6, 9, 13])
    def test_rotations_permutations_and_units(self, index: int, exact: bool) -> None:
        simulator, delta = small_process(index)
        process, spec = simulator.process, simulator.spec
        plain = self.outcome(process, delta, exact)
        turned = process.feature_table @ rotation(spec.dim, seed=index)
        renamed = permuted(process, list(range(spec.actions))[::-1])
        assert self.outcome(process.with_features(turned), delta, exact) == pytest.approx(
            plain, abs=1e-9
        )
        assert self.outcome(renamed, delta, exact) == pytest.approx(plain, abs=1e-9)
        unit = 3.7
        assert spec.bound is not None
        scaled = replace(
            process,
            rewards=unit * process.rewards,
            spec=replace(spec, reward_range=(0.0, unit), bound=unit * spec.bound),
        )
        value, lower, upper = (
            number / unit for number in self.outcome(scaled, unit * delta, exact)
        )
        assert [value, lower] == pytest.approx(plain[:2], abs=1e-9)
        # The room for rounding in exact sets is a multiple of 1 + B, which is no unit.
        assert upper == pytest.approx(plain[2], abs=1e-7 if exact else 1e-9)


@pytest.mark.parametrize("name", ["rollouts", "test_draws", "refine_draws"])
def test_sizes_are_counts(name: str) -> None:
    with pytest.raises(SettingError, match=f"Sizes.{name}=0"):
        Sizes(**({"rollouts": 1, "test_draws": 1, "refine_draws": 1} | {name: 0}))
