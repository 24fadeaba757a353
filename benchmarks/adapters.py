"""Everything that the benchmarks know about our oracle and about its rivals, in one place."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from families import layered
from instances import Instance
from tensorplan.hypotheses import Cuts, Hypotheses
from tensorplan.oracle.base import Oracle
from tensorplan.oracle.highs import HighsOracle
from tensorplan.oracle.scip import ScipOracle
from tensorplan.oracle.slabs import SlabOracle

GAP = 1e-6
"""Largest accepted difference of bound and value, for every solver."""

HERE = Path(__file__).resolve().parent


class WaitingError(RuntimeError):
    """A section was asked for that needs a part of the oracle which is not there yet."""


def ours(instance: Instance, seconds: float | None = None, nodes: int = 1_000_000_000) -> Oracle:
    """A fresh oracle of ours, compiled, with limits for each question."""
    scale = instance.norm * float(np.linalg.norm(instance.objective))
    return SlabOracle(nodes, gap=GAP / scale, time_limit=seconds, kernels="compiled")


def rivals(seconds: float) -> dict[str, Oracle]:
    """General solvers on the union of slabs, with a time limit for each attempt."""
    return {
        "SCIP": ScipOracle("slabs", gap=GAP, time_limit=seconds),
        "HiGHS": HighsOracle(gap=GAP, time_limit=seconds),
    }


def warm_up() -> float:
    """Compile whatever the searches run on, or load it from the cache; seconds."""
    started = time.perf_counter()
    instance = layered(3, 2, 0)
    for radius, cuts in ((0.0, 0), (1e-3, 0), (1e-3, 10)):
        beliefs = instance.one_shot(10, cuts, radius=radius)
        ours(instance).maximise(instance.objective, beliefs)
    return time.perf_counter() - started


def compile_seconds() -> float:
    """Seconds of :func:`warm_up` in a new process whose cache is empty."""
    with tempfile.TemporaryDirectory() as cache:
        ran = subprocess.run(
            [sys.executable, "-c", "import adapters; print(adapters.warm_up())"],
            cwd=HERE,
            env={**os.environ, "NUMBA_CACHE_DIR": cache},
            capture_output=True,
            text=True,
            check=True,
        )
    return float(ran.stdout)


def require_cuts(oracle: Oracle) -> None:
    """Refuse to measure an oracle with cuts that it would ignore."""
    cut = Cuts(np.ones((1, 1)), np.array([-np.inf]), np.array([0.5]))
    answer = oracle.maximise(np.ones(1), Hypotheses(1, 1.0, 0.0).with_cuts(cut))
    if abs(answer.upper - 0.5) > 1e-4:
        raise WaitingError(f"the oracle {oracle.name!r} ignores range cuts")


def make_proof(oracle: Oracle) -> Mapping[str, object]:
    """The proof of the last answer, as the content of its file (docs/proof-format.md)."""
    raise WaitingError(f"the oracle {oracle.name!r} writes no proof yet: wire adapters.make_proof")


def check_proof(path: Path) -> bool:
    """Whether the independent checker accepts a proof file."""
    command = [sys.executable, "-m", "tensorplan.checker", str(path)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def open_nodes_bytes(count: int, dim: int) -> int:
    """Memory of a search with so many open nodes."""
    raise WaitingError(
        f"{count} open nodes at d={dim} cannot be weighed yet: wire adapters.open_nodes_bytes"
    )
