"""Compiled and plain functions say the same, and nobody waits for a compiler who need not."""

from __future__ import annotations

import json
import math
import os
import resource
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracle_reference import KINDS, Instance, random_instance_with_cuts
from oracle_sets import random_tabular, unit, verdict_of

from families import chain, generic, grid, layered
from tensorplan.hypotheses import Hypotheses
from tensorplan.oracle.base import Optimum, OracleStatus
from tensorplan.oracle.growth import Growth
from tensorplan.oracle.kernels import COMPILE_AFTER, Kernels
from tensorplan.oracle.rows import RowTable
from tensorplan.oracle.slabs import SlabOracle
from tensorplan.records import FloatArray

SAME = 1e-9  # relative: how far bounds of compiled and plain searches may be apart
ROOT = Path(__file__).resolve().parents[1]

# --- the same answers ----------------------------------------------------------------------------


def larger() -> list[tuple[str, FloatArray, Hypotheses]]:
    """Searches of up to a few hundred nodes."""
    found: list[tuple[str, FloatArray, Hypotheses]] = []
    for process, states, cuts in (
        (layered(5, 3, 1), 15, 0),
        (layered(6, 3, 2), 20, 40),
        (generic(6, 3, 3), 15, 0),
        (chain(8, 3, 4), 8, 8),
        (grid(3), 8, 0),
        (grid(3, ceiling=-0.1), 8, 8),
    ):
        for radius in (0.0, 1e-3):
            beliefs = process.one_shot(states, cuts, radius=radius)
            found.append((process.name, process.objective, beliefs))
    return found


def tiny() -> list[Instance]:
    return [random_instance_with_cuts(seed) for seed in range(20 * len(KINDS))]


def check_same(plain: Optimum, compiled: Optimum, size: float, note: object) -> None:
    assert compiled.status is plain.status, note
    if plain.status is not OracleStatus.EMPTY:
        assert abs(compiled.upper - plain.upper) <= SAME * size, note
        assert abs(compiled.value - plain.value) <= SAME * size, note


def test_compiled_and_plain_searches_agree_on_tiny_sets() -> None:
    """Also in the number of nodes, but for a few on which rounding decides what comes first."""
    counted = other = 0
    for seed, instance in enumerate(tiny()):
        if instance.kind in ("tangent", "near-dependent"):
            continue  # where the last digit decides about the answer
        plain, compiled = SlabOracle(kernels="plain"), SlabOracle(kernels="compiled")
        for beliefs in instance.sets:
            size = unit(instance.objective, beliefs)
            one = plain.maximise(instance.objective, beliefs)
            two = compiled.maximise(instance.objective, beliefs)
            check_same(one, two, size, (seed, instance.kind))
            counted, other = counted + 1, other + (one.nodes != two.nodes)
        assert verdict_of(compiled).accepted, seed
    assert counted > 250
    assert other <= counted // 50


def test_compiled_and_plain_searches_agree_on_longer_searches() -> None:
    for name, objective, beliefs in larger():
        plain, compiled = SlabOracle(kernels="plain"), SlabOracle(kernels="compiled")
        one = plain.maximise(objective, beliefs)
        two = compiled.maximise(objective, beliefs)
        check_same(one, two, unit(objective, beliefs) * 1e3, name)
        assert abs(one.upper - two.upper) <= 1e-7 * unit(objective, beliefs), name
        assert abs(one.nodes - two.nodes) <= 0.1 * one.nodes + 3, name
        assert verdict_of(compiled).accepted, name


def test_compiled_hulls_are_the_plain_ones() -> None:
    process = layered(4, 3, 3)
    beliefs = process.one_shot(10, 20, radius=1e-2)
    plain = SlabOracle(kernels="plain").tighten(beliefs, 2)
    compiled = SlabOracle(kernels="compiled").tighten(beliefs, 2)
    assert compiled == pytest.approx(plain, abs=1e-8)
    assert np.any(plain[:, 1] < np.linalg.norm(process.features, axis=1).max() * 1.5)


def test_a_compiled_run_is_the_same_every_time() -> None:
    for name, objective, beliefs in larger()[:4]:
        runs: list[str] = []
        for _ in range(2):
            oracle = SlabOracle(kernels="compiled")
            answer = oracle.maximise(objective, beliefs)
            runs.append(json.dumps([oracle.proof(), answer.nodes, answer.expansions]))
        assert runs[0] == runs[1], name


def test_compiled_functions_take_over_after_so_much_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NUMBA_DISABLE_JIT", raising=False)
    process = layered(10, 3, 5)
    direction = process.objective / np.linalg.norm(process.objective)
    growth = Growth(direction, RowTable(process.one_shot(30)))
    kernels = Kernels("auto")
    assert not kernels.compiled
    assert Kernels("compiled").compiled
    growth.run(kernels, gap=0.0, solves=COMPILE_AFTER // 10, deadline=math.inf)
    assert not kernels.compiled
    growth.run(kernels, gap=0.0, solves=COMPILE_AFTER, deadline=math.inf)
    assert kernels.compiled
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    assert not kernels.compiled
    assert not Kernels("compiled").compiled


# --- processes of their own ----------------------------------------------------------------------

PRELUDE = """
    import json, sys, logging
    logging.basicConfig(stream=sys.stderr, format="%(name)s: %(message)s")
    from families import layered
    from tensorplan.oracle.slabs import SlabOracle
"""


def ran(code: str, *, variables: dict[str, str] | None = None) -> tuple[dict[str, Any], str, float]:
    """Run a program.

    Returns:
        (what it printed as JSON, its messages, its CPU seconds)
    """
    folders = [Path(path) for path in sys.path if path] + [ROOT / "benchmarks", ROOT / "tests"]
    path = os.pathsep.join(str(folder) for folder in (ROOT / "src", *folders))
    environment = {**os.environ, "PYTHONPATH": path, **(variables or {})}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-c", textwrap.dedent(PRELUDE) + textwrap.dedent(code)]
    process = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert process.returncode == 0, process.stderr
    seconds = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return json.loads(process.stdout), process.stderr, seconds


ANSWERS = """
    from test_oracle_compiled import answers
    print(json.dumps({"answers": answers(MODE), "numba": "numba" in sys.modules}))
"""


def answers(kernels: str) -> list[Sequence[object]]:
    """What the search says of some sets."""
    found: list[Sequence[object]] = []
    for seed in range(2 * len(KINDS)):
        instance = random_instance_with_cuts(seed)
        oracle = SlabOracle(kernels=kernels)
        for beliefs in instance.sets:
            found.append(row_of(oracle.maximise(instance.objective, beliefs)))
    for seed in range(8):
        beliefs = random_tabular(seed).beliefs
        oracle = SlabOracle(kernels=kernels)
        found.append(oracle.tighten(beliefs).tolist())
        found.append(row_of(oracle.maximise(np.ones(beliefs.dim), beliefs)))
    for _, objective, beliefs in larger()[:3]:
        found.append(row_of(SlabOracle(kernels=kernels).maximise(objective, beliefs)))
    return found


def row_of(answer: Optimum) -> Sequence[object]:
    status, theta = answer.status.value, answer.theta.tolist()
    return [status, theta, repr(answer.upper), repr(answer.value), answer.nodes, answer.expansions]


@pytest.mark.parametrize("mode", ["auto", "compiled"])
def test_answers_are_the_same_where_nothing_may_be_compiled(mode: str) -> None:
    """NUMBA_DISABLE_JIT=1: the plain functions do it all, to the last digit."""
    code = ANSWERS.replace("MODE", repr(mode))
    found, _, _ = ran(code, variables={"NUMBA_DISABLE_JIT": "1"})
    assert found["answers"] == json.loads(json.dumps(answers("plain")))
    assert not found["numba"]


SMALL = """
    process = layered(10, 3, 0)
    answer = SlabOracle(kernels=MODE).maximise(
        process.objective, process.one_shot(30, 60, radius=1e-3)
    )
    print(json.dumps({"nodes": answer.nodes, "expansions": answer.expansions,
                      "status": answer.status.value, "upper": answer.upper,
                      "numba": "numba" in sys.modules}))
"""


def test_a_small_problem_does_not_wait_for_a_compiler(tmp_path: Path) -> None:
    """From the start of the process, with nothing in the cache: under 3 seconds of work."""
    code = SMALL.replace("MODE", "'auto'")
    found, messages, seconds = ran(code, variables={"NUMBA_CACHE_DIR": str(tmp_path)})
    assert found["status"] == "optimal"
    assert found["nodes"] >= 100
    assert not found["numba"]
    assert messages == ""
    assert not list(tmp_path.iterdir())
    assert seconds < 3, f"{seconds:.1f} s"


@pytest.mark.slow
def test_compilation_is_announced_once_and_kept(tmp_path: Path) -> None:
    """Under a minute of work; a later process has it for less than a second more."""
    variables = {"NUMBA_CACHE_DIR": str(tmp_path)}
    compiled, plain = (SMALL.replace("MODE", repr(mode)) for mode in ("compiled", "plain"))
    found, messages, first = ran(compiled, variables=variables)
    assert found["numba"]
    assert messages.count("tensorplan: ") == 1
    assert "compiling it, once" in messages
    assert first < 60, f"{first:.1f} s"
    again, silence, later = ran(compiled, variables=variables)
    assert again == found
    assert silence == ""
    _, _, bare = ran(plain, variables=variables)
    assert later < bare + 1, f"{later:.1f} s, plain {bare:.1f} s"
    imported = "import numba; print(json.dumps({}))"
    _, _, alone = ran(imported, variables=variables)
    assert later < alone + 1, f"{later:.1f} s, with Numba alone {alone:.1f} s"


WIDE = """
    import math, resource
    import numpy as np
    from tensorplan.oracle.growth import Growth
    from tensorplan.oracle.kernels import Kernels
    from tensorplan.oracle.rows import RowTable
    process = layered(15, 5, 0)
    table = RowTable(process.one_shot(STATES, radius=RADIUS))
    growth = Growth(process.objective / np.linalg.norm(process.objective), table)
    kernels = Kernels("compiled")
    while len(growth.open_bounds) < 1_000_000:
        outcome = growth.run(kernels, gap=1e-6, solves=20_000, deadline=math.inf)
        assert not outcome.proved
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"leaves": len(growth.open_bounds), "memory": memory}))
"""


@pytest.mark.slow
@pytest.mark.parametrize(("radius", "states"), [(0.0, 16), (1e-3, 20)])
def test_a_million_open_leaves_take_less_than_a_gigabyte(radius: float, states: int) -> None:
    found, _, _ = ran(WIDE.replace("RADIUS", repr(radius)).replace("STATES", str(states)))
    assert found["leaves"] >= 1_000_000
    assert found["memory"] < 2**30, f"{found['memory'] / 2**20:.0f} MiB"
