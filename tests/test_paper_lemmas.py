"""The events of the paper's proofs on recorded runs, and the law of what a run measures."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from paper_reference import Shape, best_of, linear_process, plan
from scipy.special import gammainc
from test_paper import small_process

from tensorplan import problems
from tensorplan.adapters import Levelled
from tensorplan.errors import SettingError
from tensorplan.exact import best_realizable, exact_rows, telescoped
from tensorplan.experiments.lemmas import (
    check_lemmas,
    followed_policy,
    last_rollouts,
    recorded,
)
from tensorplan.finite import FiniteProcess, TableSimulator
from tensorplan.local import Measurement
from tensorplan.oracle.slabs import SlabOracle
from tensorplan.plan import PaperPlan
from tensorplan.planners.paper import PaperState, Sizes
from tensorplan.records import FloatArray, Status

EVERY_DETERMINISTIC = ["any direction", "theta*", "retention", "rollout average", "value identity"]


def theta_circ_of(process: FiniteProcess) -> FloatArray:
    """The parameter of a best realizable policy."""
    assert process.spec.bound is not None
    best = best_realizable(process, process.spec.bound)
    assert best is not None
    return best.theta


def verdicts(made: PaperPlan, process: FiniteProcess, theta: FloatArray | None) -> dict[str, bool]:
    return {check.name: check.holds for check in check_lemmas(made, process, theta)}


class TestDeterministicRuns:
    @pytest.mark.parametrize("exact", [False, True])
    def test_every_event_occurs_exactly(self, exact: bool) -> None:
        wanted = {*EVERY_DETERMINISTIC, "independent tensors" if exact else "eluder sequence"}
        for index in [index for index in range(24) if index % 3 != 2]:
            simulator, delta = small_process(index)
            process = simulator.process
            made = plan(simulator, delta=delta, exact=exact, record=True)
            checks = check_lemmas(made, process, theta_circ_of(process))
            assert {check.name for check in checks} == wanted
            for check in checks:
                # The union of slabs does not inherit Lemma new-eluder-element.
                assert check.holds or check.name == "eluder sequence"
            rounding = {check.name: check.worst for check in checks}
            assert all(rounding[name] < 1e-12 for name in EVERY_DETERMINISTIC)

    def test_failures_of_the_product_form_are_an_eluder_sequence(self) -> None:
        failures = 0
        for seed in range(8):
            # Thresholds far above what SCIP may be off by.
            process = linear_process(seed, Shape(horizon=2, dim=4, states=6))
            made = plan(TableSimulator(process), delta=1.0, oracle="product", record=True)
            assert all(verdicts(made, process, theta_circ_of(process)).values())
            failures += made.record.iteration - 1
        assert failures >= 10

    def test_runs_without_a_realizable_policy(self) -> None:
        simulator, delta = small_process(5)
        for exact in (False, True):
            made = plan(simulator, delta=delta, exact=exact, record=True)
            assert made.status is Status.REJECTED
            found = verdicts(made, simulator.process, None)
            assert found == {"any direction": True} | (
                {"independent tensors": True} if exact else {}
            )

    @pytest.mark.parametrize("ends", [0.0, 0.3])
    def test_paths_and_policies_are_those_that_were_played(self, ends: float) -> None:
        for seed in range(8):
            process = linear_process(seed, Shape(actions=3, horizon=4, ends=ends, masks=0.4))
            sizes = Sizes(3, 1, 2)
            made = plan(TableSimulator(process), delta=0.3, record=True, sizes=sizes)
            policy, paths = followed_policy(made, process), last_rollouts(made, process)
            assert len(paths) == 3
            for path in paths:
                for stage, (state, action) in enumerate(
                    zip(path.states, path.actions, strict=False)
                ):
                    assert policy[stage, state] == action
                assert path.rewards.sum() == pytest.approx(float(made.play()[0]))
                total, other = telescoped(process, path, made.theta)
                assert total == pytest.approx(other)
            assert all(verdicts(made, process, None).values())


class TestCorruptedRecords:
    """Each check catches a record that its lemma rules out."""

    @staticmethod
    def altered(made: PaperPlan, **changes: Any) -> PaperPlan:
        """The same run with other records."""
        state: PaperState = replace(made.record, **changes)
        return PaperPlan(made.access, made.access.start(), made.resolved, state, SlabOracle())

    @staticmethod
    def bent(made: PaperPlan, change: Callable[[Measurement], Measurement]) -> PaperPlan:
        """The same run with other refined data at its last failure."""
        *others, (failure, refined) = made.record.failures
        failures = (*others, (failure, change(refined)))
        return TestCorruptedRecords.altered(made, failures=failures)

    @pytest.fixture
    def process(self) -> FiniteProcess:
        return linear_process(3, Shape(horizon=2, dim=4, states=6))

    def run(self, process: FiniteProcess, **settings: Any) -> PaperPlan:
        made = plan(TableSimulator(process), delta=1.0, record=True, **settings)
        assert len(made.record.failures) >= 2
        assert all(verdicts(made, process, theta_circ_of(process)).values())
        return made

    def failing(self, made: PaperPlan, process: FiniteProcess) -> set[str]:
        found = verdicts(made, process, theta_circ_of(process))
        return {name for name, holds in found.items() if not holds}

    def test_a_wrong_reward_in_the_refined_data(self, process: FiniteProcess) -> None:
        made = self.run(process, oracle="product")
        slight = self.bent(made, lambda data: replace(data, rewards=data.rewards + 1e-3))
        assert self.failing(slight, process) == {"theta*"}
        gross = self.bent(made, lambda data: replace(data, rewards=data.rewards + 0.2))
        assert self.failing(gross, process) >= {"any direction", "theta*", "retention"}

    def test_a_wrong_feature_in_a_test(self, process: FiniteProcess) -> None:
        made = self.run(process, oracle="product")
        first, *others = made.record.tests
        data = first.measurement
        shifted = replace(data, next_features=data.next_features + 0.1)
        tests = (replace(first, measurement=shifted), *others)
        assert self.failing(self.altered(made, tests=tests), process) == {"any direction"}

    def test_a_failure_that_tells_nothing(self, process: FiniteProcess) -> None:
        made = self.run(process, oracle="product")
        nothing = self.bent(made, lambda data: replace(data, measured=data.measured & False))
        with pytest.raises(SettingError, match="at least one"):
            recorded(nothing)
        # A parameter at which the last failure's errors vanish cannot have failed there.
        failed = [event for event in made.events if event.failed is not None][-1]
        harmless = replace(failed, theta=tuple(theta_circ_of(process)))
        events = tuple(harmless if event is failed else event for event in made.events)
        assert self.failing(self.altered(made, events=events), process) == {"eluder sequence"}

    def test_a_failure_that_was_known(self, process: FiniteProcess) -> None:
        made = self.run(process, exact=True)
        first, *others, _ = made.record.failures
        twice = self.altered(made, failures=(first, *others, first))
        assert self.failing(twice, process) == {"independent tensors"}

    def test_rollouts_that_left_the_policy(self, process: FiniteProcess) -> None:
        made = self.run(process, oracle="product")
        *others, last = made.record.tests
        other = replace(last, actions=1 - last.actions)
        astray = self.altered(made, tests=(*others, other))
        assert self.failing(astray, process) == {"rollout average"}
        *before, turned, _ = made.record.tests
        gone = replace(turned, actions=1 - turned.actions)
        with pytest.raises(SettingError, match="cannot go on from there"):
            last_rollouts(self.altered(made, tests=(*before, gone, last)), process)

    def test_another_process(self, process: FiniteProcess) -> None:
        made = self.run(process, oracle="product")
        dearer = replace(process, rewards=process.rewards * 0.5)
        found = verdicts(made, dearer, None)
        assert not found["any direction"]
        assert found["value identity"]


def test_only_recorded_runs_on_numbered_states_that_ended_clean() -> None:
    simulator, delta = small_process(0)
    unrecorded = plan(simulator, delta=delta)
    with pytest.raises(SettingError, match="record=False"):
        recorded(unrecorded)
    with pytest.raises(SettingError, match="record=False"):
        last_rollouts(unrecorded, simulator.process)
    cut = plan(simulator, delta=delta, record=True, iteration_limit=1)
    assert "value identity" not in verdicts(cut, simulator.process, None)
    with pytest.raises(SettingError, match="status 'budget'"):
        last_rollouts(cut, simulator.process)
    with pytest.raises(SettingError, match=r"states of dtype \[\('state'"):
        recorded(plan(Levelled(simulator), delta=delta, record=True))


class TestNoisyRuns:
    """What a stochastic run measures has the law of the process, at its stated size."""

    SIZES = Sizes(15, 80, 6000)
    ERROR = 1e-4
    """Each of the two tests is wrong for one seed in 10 000, if the means are normal."""

    @pytest.fixture
    def process(self) -> FiniteProcess:
        simulator = problems.make(
            "random-tabular", outcomes=3, states=6, horizon=4, dim=3, actions=3, seed=5
        )
        assert isinstance(simulator, TableSimulator)
        return simulator.process

    @staticmethod
    def scores(made: PaperPlan, process: FiniteProcess, u: FloatArray, claimed: int) -> FloatArray:
        """Standardised errors of all measured pairs in the direction u, by the table."""
        exact, found = exact_rows(process), list[FloatArray]()
        horizon, tests = process.spec.horizon or 0, list[tuple[Any, int, Measurement]]()
        for batch in made.record.tests:
            tests.append((batch.states, batch.stage, batch.measurement))
        for failure, refined in made.record.failures:
            tests.append((failure.state, failure.stage, refined))
        for handle, stage, data in tests:
            following = np.zeros((process.states, process.spec.dim))
            if stage < horizon:
                following = process.features_at(stage + 1)
            outcomes = process.rewards * u[0] + following[process.successors] @ u[1:]
            means = (process.probabilities * outcomes).sum(axis=2)
            spread = (process.probabilities * outcomes**2).sum(axis=2) - means**2
            states = made.access.reveal(handle)
            errors = (data.rows - exact[stage - 1, states]) @ u
            found.append((errors / np.sqrt(spread[states] / (data.draws * claimed))).ravel())
        return np.concatenate(found)

    def accepted(self, scores: FloatArray) -> tuple[bool, bool]:
        """Whether the mean is 0 and the variance 1, each at the stated error."""
        normal = math.erfc(abs(float(scores.sum())) / math.sqrt(2 * len(scores)))
        chi_square = float(gammainc(len(scores) / 2, float(scores @ scores) / 2))
        return normal > self.ERROR, min(chi_square, 1 - chi_square) > self.ERROR / 2

    @pytest.mark.parametrize("seed", [0, 1])
    @pytest.mark.parametrize("direction", [(1, 0, 0, 0), (0.2, 1, -1, 0.5), (1, 1, 2, -1)])
    def test_measurements_have_the_mean_and_the_variance_of_the_table(
        self, process: FiniteProcess, seed: int, direction: tuple[float, ...]
    ) -> None:
        made = plan(
            TableSimulator(process),
            delta=1.5,
            sizes=self.SIZES,
            record=True,
            iteration_limit=25,
            early_exit=False,
            seed=seed,
        )
        u = np.array(direction)
        scores = self.scores(made, process, u, 1)
        assert len(scores) > 1000
        assert self.accepted(scores) == (True, True)
        # The same tests see a biased reward, a biased feature, and more draws than were made.
        biased = replace(process, rewards=process.rewards * 0.98)
        assert not self.accepted(self.scores(made, biased, u, 1))[0]
        drift = process.with_features(process.feature_table + 0.01)
        assert self.accepted(self.scores(made, drift, u, 1))[0] is not bool(u[1:].any())
        assert not self.accepted(self.scores(made, process, u, 2))[1]

    def test_hand_given_sizes_are_covered_by_no_theorem(self, process: FiniteProcess) -> None:
        made = plan(TableSimulator(process), delta=1.5, sizes=self.SIZES, iteration_limit=60)
        certificate = made.certificate
        assert certificate.grounds.startswith("no theorem covers this run: the sample sizes")
        assert (certificate.lower, certificate.upper, certificate.confidence) == (None,) * 3
        assert certificate.gap is None

    def test_large_samples_make_the_events_likely(self) -> None:
        simulator = problems.make("random-tabular", outcomes=3, states=4, horizon=2, dim=2, seed=1)
        assert isinstance(simulator, TableSimulator)
        process = simulator.process
        theta = theta_circ_of(process)
        fine = Sizes(20, 100_000, 100_000)
        made = plan(simulator, delta=1.0, sizes=fine, record=True)
        assert made.status is Status.CLEAN
        found = verdicts(made, process, theta)
        assert found["any direction"]
        assert not verdicts(
            plan(simulator, delta=1.0, sizes=Sizes(20, 20, 20), record=True, iteration_limit=5),
            process,
            theta,
        )["any direction"]
        paths = last_rollouts(made, process)
        assert len(paths) == 20
        assert made.record.beliefs.in_slabs(theta)
        assert made.events[-1].upper >= best_of(process)
        for path in paths:
            assert telescoped(process, path, theta)[0] == pytest.approx(path.rewards.sum())
