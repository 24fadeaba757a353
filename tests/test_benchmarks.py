"""Instances are what they claim, the loop finds the optimal value, and tables are written."""

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from adapters import WaitingError, require_cuts
from families import COST, chain, cube, generic, grid, layered
from instances import END, Instance
from kernels import clarabel_solver, draw_node, project_node
from loop import Rules, iterate
from oracle import SECTIONS, main, parse, settings_of
from results import (
    Section,
    Settings,
    Table,
    Timing,
    make_results,
    median_ratio,
    render,
    show,
    write_json,
    write_page,
)
from tensorplan.hypotheses import Hypotheses
from tensorplan.oracle.base import Optimum, OracleStatus
from tensorplan.oracle.slabs import SlabOracle
from tensorplan.records import FloatArray

ROUNDING = 1e-12

INSTANCES: dict[str, Callable[[int], Instance]] = {
    "layered": lambda seed: layered(6, 3, seed),
    "layered d=1": lambda seed: layered(1, 2, seed),
    "ranged": lambda seed: layered(6, 3, seed, ranged=True),
    "generic": lambda seed: generic(5, 3, seed),
    "chain": lambda seed: chain(8, 3, seed),
    "chain d=1": lambda seed: chain(1, 4, seed),
    "grid": lambda _: grid(4, ceiling=-COST),
    "cube": lambda seed: cube(3, seed),
}

TINY: dict[str, Callable[[int], Instance]] = {
    "layered": lambda seed: layered(3, 2, seed, horizon=4, width=6),
    "ranged": lambda seed: layered(3, 2, seed, ranged=True, horizon=4, width=6),
    "generic": lambda seed: generic(3, 2, seed, size=40),
    "chain": lambda seed: chain(4, 2, seed),
    "grid": lambda _: grid(2),
    "cube": lambda seed: cube(2, seed),
}


def drawn(makers: dict[str, Callable[[int], Instance]]) -> pytest.MarkDecorator:
    pairs = [(name, seed) for name in makers for seed in range(3)]
    return pytest.mark.parametrize(("name", "seed"), pairs)


@drawn(INSTANCES)
def test_some_action_of_every_state_is_consistent_and_none_is_better(name: str, seed: int):
    instance = INSTANCES[name](seed)
    errors = instance.rows[:, :, 0] + instance.rows[:, :, 1:] @ instance.theta
    errors = np.where(instance.allowed, errors, -np.inf)
    assert float(instance.misses(instance.theta).min(axis=1).max()) <= ROUNDING
    if instance.successors is not None:  # then theta* is the parameter of v*
        assert float(errors.max()) <= ROUNDING
    assert np.linalg.norm(instance.theta) < instance.norm
    assert instance.walk(instance.theta).failed is None
    assert instance.counterexample(instance.theta) is None


@pytest.mark.parametrize("ranged", [False, True])
def test_only_one_action_of_the_layered_family_is_consistent(ranged: bool):
    for seed in range(5):
        instance = layered(5, 4, seed, ranged=ranged)
        misses = np.sort(instance.misses(instance.theta), axis=1)
        assert misses.shape == (240, 4)
        assert float(misses[:, 1].min()) > 1e-3


@drawn(INSTANCES)
def test_walks_of_the_optimal_parameter_collect_its_value(name: str, seed: int):
    instance = INSTANCES[name](seed)
    if instance.successors is None:
        return
    best = instance.misses(instance.theta).argmin(axis=1)
    visited = instance.walk(instance.theta).visited
    collected = sum(float(instance.rows[state, best[state], 0]) for state in visited)
    assert instance.successors[visited[-1], best[visited[-1]]] == END
    assert math.isclose(collected, instance.value, abs_tol=1e-9)


@drawn(INSTANCES)
def test_the_optimal_parameter_stays_believable(name: str, seed: int):
    instance = INSTANCES[name](seed)
    for radius in (0.0, 1e-6, 1e-3):
        beliefs = instance.one_shot(20, 30, radius=radius, seed=seed)
        assert len(beliefs.states) == min(20, instance.size)
        assert len(beliefs.cuts) == (0 if name == "cube" else min(30, instance.size))
        assert beliefs.in_slabs(instance.theta, slack=ROUNDING)
        assert beliefs.half_width == radius


def test_rewards_of_the_ranged_family_are_in_their_range():
    rewards = layered(6, 4, 0, ranged=True).rows[:, :, 0]
    assert rewards.min() >= 0
    assert rewards.max() <= 1 / 12 + ROUNDING


def test_features_have_norm_at_most_1():
    for make in INSTANCES.values():
        assert np.linalg.norm(make(0).features, axis=1).max() <= 1 + ROUNDING


def test_the_grid_has_its_values_and_its_dead_moves():
    instance = grid(5, ceiling=-COST)
    assert (instance.dim, instance.actions) == (24, 4)
    assert math.isclose(instance.value, -0.8)
    assert math.isclose(float(instance.theta.max()), -COST)
    dead = ~instance.rows[:, :, 1:].any(axis=2)
    assert int(dead.sum()) == 18  # 20 edges of the border, less the two of the goal


def test_chains_lead_to_different_later_states():
    successors = chain(9, 3, 0).successors
    assert successors is not None
    later = np.where(successors == END, 9, successors)
    assert (later > np.arange(9)[:, None]).all()
    assert all(len(set(row)) == 3 for row in later[:7].tolist())


@drawn(INSTANCES)
def test_counterexamples_are_failing_states(name: str, seed: int):
    instance = INSTANCES[name](seed)
    theta = np.zeros(instance.dim)
    walk = instance.walk(theta)
    state = instance.counterexample(theta)
    assert walk.failed is not None
    assert state is not None
    assert walk.visited[-1] == walk.failed
    assert np.array_equal(state.rows, instance.rows[walk.failed][instance.allowed[walk.failed]])
    assert float(np.abs(state.errors(theta)).min()) > 1e-6
    passed = instance.misses(theta)[list(walk.visited[:-1])].min(axis=1, initial=np.inf)
    assert (passed <= 1e-6).all()
    worst = instance.worst(theta)
    assert worst is not None
    assert instance.misses(theta)[worst].min() >= instance.misses(theta)[walk.failed].min()


def test_exploration_sees_states_that_can_be_reached():
    instance = layered(4, 2, 0)
    seen = instance.explore(5, seed=1)
    stages = instance.stages[seen.states]
    assert set(stages.tolist()) == set(range(1, 13))
    assert int((stages == 1).sum()) == 1
    assert seen.queries == 2 * len(seen.states)
    assert set(seen.states) <= set(instance.around(seen.states))
    assert np.array_equal(seen.states, instance.explore(5, seed=1).states)
    with pytest.raises(ValueError, match="no dynamics"):
        generic(3, 2, 0).explore(1)


def test_seeds_decide():
    assert np.array_equal(layered(4, 2, 7).rows, layered(4, 2, 7).rows)
    assert not np.array_equal(layered(4, 2, 7).rows, layered(4, 2, 8).rows)


@drawn(TINY)
def test_the_loop_ends_at_the_optimal_value(name: str, seed: int):
    instance = TINY[name](seed)
    for adversarial in (False, True):
        run = iterate(instance, SlabOracle(), instance.beliefs(), Rules(adversarial=adversarial))
        assert run.outcome == "clean"
        assert abs(run.value - instance.value) <= 1e-5
        assert run.upper >= instance.value - 1e-9
        assert run.failures == run.iterations - 1 == len(run.beliefs.states)


def test_the_loop_adds_cuts_of_what_it_saw():
    instance = TINY["layered"](0)
    run = iterate(instance, SlabOracle(), instance.beliefs(1e-6), Rules(cuts=True))
    assert run.outcome == "clean"
    assert len(run.beliefs.cuts) >= len(run.beliefs.states)
    assert run.beliefs.in_slabs(instance.theta, slack=ROUNDING)
    assert run.upper >= instance.value - 1e-9


class Fixed:
    """An oracle that always gives the same answer."""

    name, form, proved = "fixed", "nothing", False

    def __init__(self, status: OracleStatus) -> None:
        self.status = status

    def maximise(self, objective: FloatArray, beliefs: Hypotheses) -> Optimum:
        return Optimum(self.status, np.zeros_like(objective), 0.0, 1.0, 3)


def test_the_loop_says_why_it_stopped():
    instance = TINY["layered"](0)

    def outcome(status: OracleStatus, rules: Rules) -> str:
        return iterate(instance, Fixed(status), instance.beliefs(), rules).outcome

    assert outcome(OracleStatus.EMPTY, Rules()) == "empty"
    assert outcome(OracleStatus.LIMIT, Rules()) == "stopped"
    assert outcome(OracleStatus.OPTIMAL, Rules()) == "stalled"
    assert outcome(OracleStatus.OPTIMAL, Rules(seconds=0)) == "stopped"
    assert outcome(OracleStatus.OPTIMAL, Rules(iterations=1)) == "too many"


def test_an_oracle_that_ignores_cuts_is_not_measured_with_them():
    with pytest.raises(WaitingError, match="ignores range cuts"):
        require_cuts(Fixed(OracleStatus.OPTIMAL))


def test_cold_nodes_are_bounded_by_their_solvers():
    pytest.importorskip("clarabel")
    pytest.importorskip("daqp")
    node = draw_node(5, 20, 0)
    solved = clarabel_solver(node)()
    values = node.normals @ solved.theta
    assert float(node.objective @ solved.theta) <= solved.upper + 1e-6
    assert np.linalg.norm(solved.theta) <= node.norm + 1e-6
    assert float(np.maximum(node.low - values, values - node.high).max()) <= 1e-6
    projected = node.normals @ project_node(node)().theta
    assert float(np.maximum(node.low - projected, projected - node.high).max()) <= 1e-6


def test_a_median_with_stopped_runs_is_a_lower_bound_where_it_could_move():
    own = [Timing(1.0, True)] * 3
    fast, slow = Timing(2.0, True), Timing(8.0, True)
    assert median_ratio([fast, slow, Timing(9.0, False)], own) == 8.0
    assert median_ratio([fast, Timing(8.0, False), slow], own) == {"at least": 8.0}
    assert median_ratio([fast, fast, slow], [*own[:2], Timing(1.0, False)]) is None


def test_cells():
    cells = [None, True, False, 12345, 12345.6, 0.012345, "text", {"at least": 512.0}]
    shown = ["–", "yes", "no", "12,345", "12,346", "0.0123", "text", "at least 512"]
    assert [show(cell) for cell in cells] == shown


def test_the_page_says_where_it_is_from(tmp_path: Path):
    rows = ({"d": 1, "ratio": {"at least": 2.0}}, {"d": 2, "more": None})
    section = Section("sizes", (Table("What stops", ("A note.",), rows),), rows)
    results = make_results("python x --seeds 3", "2000-01-01", Settings(3, 7.5), [section])
    write_json(tmp_path / "r.json", results)
    write_page(tmp_path / "page.md", json.loads((tmp_path / "r.json").read_text()), "r.json")
    page = (tmp_path / "page.md").read_text()
    assert page == render(results, "r.json")
    for part in ("--table r.json", "`python x --seeds 3`", "numpy", "7.5 s", "3 seeds", "A note."):
        assert part in page
    assert "| d | ratio | more |\n|---|---|---|\n| 1 | at least 2 | – |\n| 2 | – | – |" in page
    with pytest.raises(ValueError, match="holds no results"):
        write_page(tmp_path / "page.md", {}, "other.json")


def test_the_command_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    assert settings_of(parse([])) == Settings(10, 60.0, False)
    assert settings_of(parse(["--quick", "--limit", "3"])) == Settings(2, 3.0, True)

    def waits(_: Settings) -> Section:
        raise WaitingError("wire it")

    def done(settings: Settings) -> Section:
        return Section("memory", (), ({"seeds": settings.seeds},))

    monkeypatch.setitem(SECTIONS, "memory", done)
    monkeypatch.setitem(SECTIONS, "proofs", waits)
    out = tmp_path / "out.json"
    assert main(["--only", "memory", "--seeds", "4", "--out", str(out)]) == 0
    assert json.loads(out.read_text())["sections"][0]["runs"] == [{"seeds": 4}]
    assert main(["--only", "proofs"]) == 1
