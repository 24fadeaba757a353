"""Plans in files: what comes back, what is refused, and that a file is whole or not there."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorplan as tp
from tensorplan import problems
from tensorplan.errors import SettingError
from tensorplan.plan import Budget, Plan, plan
from tensorplan.plan.files import SCHEMA
from tensorplan.problem import Simulator

SMALL = problems.make("random-tabular", outcomes=2, horizon=2)
KINDS: dict[str, tuple[Simulator, dict[str, Any]]] = {
    "ask": (problems.make("deep-sea", size=5), {"delta": 0.01}),
    "table": (
        problems.make("frozen-lake", horizon=4),
        {"delta": 0.5, "budget": Budget(queries=5000)},
    ),
    "test": (SMALL, {"delta": 0.8}),
    "paper": (
        SMALL,
        {"delta": 1.0, "planner": "paper", "sizes": (2, 30, 40), "iteration_limit": 3},
    ),
}


def made(kind: str) -> tuple[Simulator, Plan]:
    simulator, settings = KINDS[kind]
    planner: Any = plan
    found: Plan = planner(simulator, **settings)
    return simulator, found


def changed(path: Path, **words: Any) -> None:
    """The file with other words."""
    with zipfile.ZipFile(path) as archive:
        kept = {name: archive.read(name) for name in archive.namelist()}
    content = json.loads(kept["plan.json"]) | words
    kept["plan.json"] = json.dumps(content).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in kept.items():
            archive.writestr(name, data)


class TestRoundTrip:
    @pytest.mark.parametrize("kind", list(KINDS))
    def test_it_prints_and_acts_as_before(self, kind: str, tmp_path: Path) -> None:
        simulator, first = made(kind)
        first.save(tmp_path / "a.plan")
        second = tp.load(tmp_path / "a.plan", simulator)
        assert second.queries.total == 0
        assert second.certificate == first.certificate
        assert (second.status, second.events) == (first.status, first.events)
        assert second.planner == first.planner
        assert np.array_equal(second.theta, first.theta)
        alike = ("status", "certificate", "iterations", "failures", "theta", "oracle", "nodes")
        one, two = first.summary(), second.summary()
        assert all(one[name] == two[name] for name in alike)
        assert second.episode_cost == first.episode_cost

    @pytest.mark.parametrize("kind", list(KINDS))
    def test_it_is_worth_as_much(self, kind: str, tmp_path: Path) -> None:
        simulator, first = made(kind)
        first.save(tmp_path / "a.plan")
        one, two = first.evaluate(60), tp.load(tmp_path / "a.plan", simulator).evaluate(60)
        assert one.standard_error is not None
        assert two.standard_error is not None
        assert abs(one.mean - two.mean) <= 6 * (one.standard_error + two.standard_error) + 1e-9

    @pytest.mark.parametrize("kind", list(KINDS))
    def test_a_loaded_plan_is_saved_alike(self, kind: str, tmp_path: Path) -> None:
        simulator, first = made(kind)
        first.save(tmp_path / "a.plan")
        tp.load(tmp_path / "a.plan", simulator).save(tmp_path / "b.plan")
        for name in ("plan.json", "arrays.npz"):
            texts = [
                zipfile.ZipFile(tmp_path / f"{letter}.plan").read(name) for letter in ("a", "b")
            ]
            if name == "plan.json":
                assert texts[0] == texts[1]
            else:
                both = [np.load(io.BytesIO(text)) for text in texts]
                assert sorted(both[0].files) == sorted(both[1].files)
                assert all(np.array_equal(both[0][key], both[1][key]) for key in both[0].files)

    def test_a_trajectory_is_replayed_and_known_again(self, tmp_path: Path) -> None:
        simulator, first = made("ask")
        first.save(tmp_path / "a.plan")
        second = tp.load(tmp_path / "a.plan", simulator)
        assert second.play()[0] == pytest.approx(0.99)
        assert second.queries.total == 0
        assert second.action(0, 1) == first.action(0, 1)
        assert second.queries.by_phase["check"] == 5
        assert second.queries.by_phase["act"] == 0

    def test_another_start(self, tmp_path: Path) -> None:
        simulator = problems.make("random-tabular", outcomes=1, horizon=2)
        first = plan(simulator, delta=0.1, start=2)
        first.save(tmp_path / "a.plan")
        with pytest.raises(SettingError, match="Pass start="):
            tp.load(tmp_path / "a.plan", simulator)
        second = tp.load(tmp_path / "a.plan", simulator, start=2)
        assert second.play()[0] == first.play()[0]

    def test_a_rejected_plan_still_says_so(self, tmp_path: Path) -> None:
        spec = tp.Spec(1, 1, 2, bound=4.0, deterministic=True)
        simulator = tp.from_functions(
            spec, lambda rng: 0, lambda s, h, a, rng: (1.0, 0, False), lambda s, h: [0.5]
        )
        plan(simulator, delta=0.1).save(tmp_path / "a.plan")
        second = tp.load(tmp_path / "a.plan", simulator)
        assert second.status is tp.Status.REJECTED
        with pytest.raises(SettingError, match="no parameter is left"):
            second.evaluate(5)


class TestRefusals:
    def test_files_that_are_no_plans(self, tmp_path: Path) -> None:
        simulator, _ = KINDS["ask"]
        with pytest.raises(SettingError, match="no such file"):
            tp.load(tmp_path / "none", simulator)
        (tmp_path / "text").write_text("hello")
        with pytest.raises(SettingError, match="no plan, or damaged"):
            tp.load(tmp_path / "text", simulator)

    def test_another_schema(self, tmp_path: Path) -> None:
        simulator, first = made("ask")
        first.save(tmp_path / "a.plan")
        changed(tmp_path / "a.plan", schema="tensorplan-plan/2")
        with pytest.raises(SettingError, match=f"'tensorplan-plan/2'.*'{SCHEMA}'"):
            tp.load(tmp_path / "a.plan", simulator)

    def test_another_simulator(self, tmp_path: Path) -> None:
        _, first = made("ask")
        first.save(tmp_path / "a.plan")
        with pytest.raises(SettingError, match=r"horizon=6.*horizon=5"):
            tp.load(tmp_path / "a.plan", problems.make("deep-sea", size=6))

    def test_a_file_is_whole_or_as_it_was(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        simulator, first = made("ask")
        path = tmp_path / "a.plan"
        first.save(path)
        before = path.read_bytes()

        def full(self: zipfile.ZipFile, *given: Any, **named: Any) -> None:
            raise OSError("no space left")

        with monkeypatch.context() as patch:
            patch.setattr(zipfile.ZipFile, "writestr", full)
            with pytest.raises(OSError, match="no space"):
                first.save(path)
        assert path.read_bytes() == before
        assert tp.load(path, simulator).certificate == first.certificate
