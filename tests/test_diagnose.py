"""How badly features fit, at least: against closed forms, every policy of a process, and chance."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from paper_reference import Shape, linear_process
from scipy.stats import binom

import tensorplan as tp
from tensorplan.cli import main
from tensorplan.errors import SettingError
from tensorplan.exact import best_linear_fit, evaluate, start_value
from tensorplan.finite import FiniteProcess, TableSimulator
from tensorplan.plan import Budget, Diagnosis, plan
from tensorplan.planners.adaptive.misfit import MARGIN, PRECISION
from tensorplan.problem import Simulator
from tensorplan.records import Certificate, Spec, Status

NORM = 100.0


def chain(
    pays: dict[int, float] | float, *, noisy: bool = False, inaccuracy: float = 0.0
) -> Simulator:
    """One action, one feature that is always 1."""

    def step(state: int, stage: int, action: int, rng: Any) -> tuple[float, int, bool]:
        pay = pays.get(stage, 0.0) if isinstance(pays, dict) else pays
        return float(rng.random() < pay) if noisy else pay, state, False

    spec = Spec(1, 1, 10, bound=10.0, deterministic=not noisy, inaccuracy=inaccuracy)
    return tp.from_functions(spec, lambda rng: 0, step, lambda state, stage: [1.0])


def misfits(process: FiniteProcess) -> list[tuple[float, float]]:
    """Misfit and value of every policy that differs where an episode gets to."""
    stages, found = process.spec.horizon or 1, list[tuple[float, float]]()
    shape = (stages, process.states)
    for choice in product(range(process.spec.actions), repeat=stages * process.states):
        values = evaluate(process, np.array(choice, np.int64).reshape(shape)).values
        fit = best_linear_fit(process, values)
        assert np.linalg.norm(fit.theta) <= NORM
        found.append((fit.misfit, start_value(process, values)))
    return found


def rough(seed: int, outcomes: int = 1) -> FiniteProcess:
    """A small process whose features fit nothing."""
    process, rng = linear_process(seed, Shape(states=3, horizon=2)), np.random.default_rng(seed)
    spec = replace(
        process.spec, dim=1, bound=NORM, misspecification=0.0, deterministic=outcomes == 1
    )
    table = rng.uniform(0.3, 1.0, size=(2, 3, 1))
    if outcomes == 1:
        return replace(process, spec=spec, feature_table=table)
    cells = (3, 2, outcomes)
    return replace(
        process,
        spec=spec,
        feature_table=table,
        probabilities=rng.dirichlet(np.ones(outcomes), size=cells[:2]),
        successors=rng.integers(3, size=cells),
        rewards=rng.uniform(size=cells),
        terminated=np.zeros(cells, np.bool_),
    )


class TestClosedForms:
    def test_errors_add_up_so_that_the_truth_may_be_far_above(self) -> None:
        # F6: the smallest eta is half a reward, the misfit of the one policy 4.5 of them.
        found = tp.diagnose(chain(0.05), delta=0.01)
        assert 0.025 * (1 - 2 * PRECISION) <= found.least <= 0.025 + 1e-8
        assert found.least <= found.fitting <= found.least * (1 + 2 * PRECISION)
        assert found.confidence == 1.0
        assert found.least < 0.225
        assert "nothing" in found.advice

    def test_the_bound_at_the_least_eta_says_nothing(self) -> None:
        found = tp.diagnose(chain(0.05), delta=0.01)
        eta, bound = found.upper[0]
        assert eta == found.fitting
        assert bound < 0.5  # which is the value of the only policy
        assert all(bound >= 0.5 for eta, bound in found.upper if eta >= 0.225)

    def test_a_single_payment_is_the_witness(self) -> None:
        found = tp.diagnose(chain({5: 0.5}), delta=0.01)
        assert found.least == pytest.approx(0.25, rel=2 * PRECISION)
        assert [witness.stage for witness in found.witnesses] == [5]
        assert not found.leans_on_norm

    def test_a_small_ball_is_named(self) -> None:
        spec = Spec(1, 1, 1, bound=0.25, deterministic=True)
        simulator = tp.from_functions(
            spec, lambda rng: 0, lambda s, h, a, rng: (1.0, 0, False), lambda s, h: [1.0]
        )
        found = tp.diagnose(simulator, delta=0.01)
        assert found.least == pytest.approx(0.75, rel=2 * PRECISION)
        assert found.leans_on_norm
        assert "needs it" in found.assumptions[0]

    def test_what_fits_is_not_accused(self) -> None:
        found = tp.diagnose(tp.problems.make("deep-sea", size=5), delta=0.01)
        assert (found.least, found.witnesses) == (0.0, ())
        assert found.upper[0][0] == 0.0
        assert found.upper[0][1] >= 0.99 - 1e-6

    def test_inaccuracy_is_forgiven_first(self) -> None:
        found = tp.diagnose(chain(0.05, inaccuracy=0.02), delta=0.01)
        assert found.least == pytest.approx(0.015, rel=2 * PRECISION)
        assert "within 0.02" in found.assumptions[1]


class TestEveryPolicy:
    def test_no_policy_is_accused_of_more_than_its_misfit(self) -> None:
        seen = 0
        for seed in range(12):
            process = rough(seed)
            found = tp.diagnose(TableSimulator(process), delta=0.01)
            policies = misfits(process)
            assert found.least <= min(policies)[0] + 1e-7
            for eta, bound in found.upper:
                values = [value for misfit, value in policies if misfit <= eta]
                assert bound >= max(values, default=-np.inf) - 1e-7
            seen += found.least > 0
        assert seen >= 6

    def test_witnesses_prove_what_is_said(self) -> None:
        for seed in range(6):
            made = plan(TableSimulator(rough(seed)), delta=0.01)
            found = made.diagnose()
            if found.least:
                stages = {state.stage for state in made.record.beliefs.states}
                assert {witness.stage for witness in found.witnesses} <= stages

    @pytest.mark.slow
    def test_it_is_wrong_about_noisy_ones_as_often_as_it_says(self) -> None:
        # At most 20% of 40 runs in truth; more than the limit has probability 1e-3.
        wrong, told = 0, 0
        for seed in range(40):
            process = rough(seed % 4, outcomes=3)
            budget = Budget(queries=20_000)
            settings: dict[str, Any] = {"budget": budget, "confidence": 0.8, "seed": seed}
            found = tp.diagnose(TableSimulator(process), delta=0.05, **settings)
            wrong += found.least > min(misfits(process))[0] + 1e-7
            told += found.least > 0
        assert wrong <= binom.isf(1e-3, 40, 0.2)
        assert told >= 5

    def test_noise_and_misfit_are_told_apart(self) -> None:
        found = tp.diagnose(chain(0.5, noisy=True), delta=0.1, budget=Budget(queries=100_000))
        assert 0.1 < found.least <= 2.25
        assert found.confidence == 0.95
        assert found.witnesses[0].draws[0] > 100


class TestNoQueries:
    def test_data_are_read_again_without_asking(self) -> None:
        for simulator in (chain(0.05), chain(0.5, noisy=True)):
            made = plan(simulator, delta=0.5, budget=Budget(queries=5000))
            before, kept = made.queries.total, made.certificate
            first, second = made.diagnose(), made.diagnose()
            assert made.queries.total == before == first.queries
            assert made.certificate == kept
            assert first.summary() == second.summary()


class TestFitted:
    def test_a_fitted_eta_is_assumed(self) -> None:
        made = plan(chain(0.05), delta=0.01, misspecification="fitted")
        assert made.status is Status.ASSUMED
        assert made.resolved.eta_given == pytest.approx(0.025 * MARGIN, rel=0.01)
        certificate = made.certificate
        assert (certificate.lower, certificate.upper) == (pytest.approx(0.5, abs=0.06), None)
        assert "chosen from the data" in certificate.grounds
        assert "nothing is claimed about the best" in certificate.sentence
        assert made.play()[0] == pytest.approx(0.5)

    def test_what_is_not_refuted_is_certified(self) -> None:
        simulator = tp.problems.make("deep-sea", size=4)
        made = plan(simulator, delta=0.01, misspecification="fitted")
        assert (made.status, made.resolved.fitted) == (Status.CERTIFIED, False)
        assert made.certificate == plan(simulator, delta=0.01).certificate

    def test_a_noisy_run_goes_on_with_what_it_has(self) -> None:
        budget = Budget(queries=60_000)
        made = plan(chain(0.5, noisy=True), delta=4.0, misspecification="fitted", budget=budget)
        assert made.status in (Status.ASSUMED, Status.BUDGET)
        assert made.resolved.fitted
        assert made.certificate.upper is None
        assert made.certificate.lower is not None
        assert made.certificate.lower <= 5.0

    def test_other_words_are_refused(self) -> None:
        with pytest.raises(SettingError, match="a number of 0 or more, or 'fitted'"):
            plan(chain(0.05), delta=0.01, misspecification="fit")


class TestWords:
    def test_a_rejection_says_its_level_and_what_it_may_mean(self) -> None:
        exact = plan(chain(0.05), delta=0.01).certificate
        noisy = plan(chain(0.5, noisy=True), delta=0.01, budget=Budget(queries=10**6)).certificate
        for certificate, level in ((exact, "certain"), (noisy, "at most 0.025")):
            assert (certificate.lower, certificate.upper) == (None, None)
            for word in (level, "B = ", "eta = ", "lambda = ", "features", "diagnose"):
                assert word in certificate.grounds
        assert "not deterministic" in exact.grounds
        assert "not deterministic" not in noisy.grounds

    def test_a_certificate_without_upper_bound(self) -> None:
        sentence = Certificate(1.0, None, 0.95, "grounds").sentence
        assert sentence.startswith("This policy is worth at least 1;")

    def test_the_text_holds_the_figures(self) -> None:
        found = tp.diagnose(chain(0.05), delta=0.01)
        text = str(found)
        assert isinstance(found, Diagnosis)
        assert found.sentence in text
        assert "witness: stage" in text
        assert f"eta {found.fitting:.4g}" in text


class TestCommand:
    def test_text(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["diagnose", "deep-sea", "--quiet"]) == 0
        out = capsys.readouterr().out
        assert "0 is not excluded" in out
        assert "worth at most" in out

    def test_json(self, capsys: pytest.CaptureFixture[str], tmp_path: Any) -> None:
        file = tmp_path / "mine.py"
        file.write_text(
            "import tensorplan as tp\n"
            "def make():\n"
            "    spec = tp.Spec(1, 1, 10, bound=4.0, deterministic=True)\n"
            "    step = lambda s, h, a, rng: (0.05, 0, False)\n"
            "    return tp.from_functions(spec, lambda rng: 0, step, lambda s, h: [1.0])\n"
        )
        where = f"{file}:make"
        assert main(["diagnose", where, "--json", "--quiet", "--budget-queries", "1e3"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["eta"] == pytest.approx(0.025, rel=2 * PRECISION)
        assert found["witnesses"]
        assert {"upper", "sentence", "confidence", "queries", "seed"} <= found.keys()
        assert main(["plan", where, "--eta", "fitted", "--json", "--quiet"]) == 0
        made = json.loads(capsys.readouterr().out)
        assert made["status"] == "assumed"
        assert made["certificate"]["upper"] is None
        assert made["planner_settings"]["fitted"]

    def test_misuse(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["plan", "deep-sea", "--eta", "fit"]) == 2
        assert "'fitted'" in capsys.readouterr().err
        assert main(["diagnose", "deep-sea", "--delta", "-1", "--quiet"]) == 2
