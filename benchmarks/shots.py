"""The sections that ask one question: ratios to general solvers, proofs, memory."""

from __future__ import annotations

import json
import resource
import statistics
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from adapters import (
    Inspected,
    check_proof,
    compile_seconds,
    make_proof,
    ours,
    require_cuts,
    rivals,
    warm_up,
)
from families import COST, grid, layered
from instances import Instance
from loop import ask
from results import Row, Section, Settings, Table, Timing, median_ratio
from tensorplan.hypotheses import Hypotheses
from tensorplan.oracle.base import Oracle, OracleStatus

PATIENCE = 60.0
"""Seconds after which our own search is stopped."""

REPEATS = 3
"""Fresh searches of ours for one instance, of which the median counts."""

NOISE = 1e-3
SLIGHT = 1e-6


@dataclass(frozen=True)
class Shot:
    """One answer of one solver."""

    timing: Timing
    value: float
    nodes: int


def shoot(oracle: Oracle, instance: Instance, beliefs: Hypotheses) -> Shot:
    """Ask one solver once."""
    question = ask(oracle, instance.objective, beliefs)
    finished = question.optimum.status is OracleStatus.OPTIMAL
    timing = Timing(question.seconds, finished)
    return Shot(timing, question.optimum.value, question.optimum.nodes)


def shoot_ours(instance: Instance, beliefs: Hypotheses) -> Shot:
    """The median of some fresh searches of ours."""
    shots = [shoot(ours(instance, PATIENCE), instance, beliefs) for _ in range(REPEATS)]
    return sorted(shots, key=lambda shot: shot.timing.seconds)[REPEATS // 2]


def one_shot(settings: Settings) -> Section:
    """All constraints at once, against general solvers."""
    dim, states, cuts = (5, 15, 40) if settings.quick else (10, 50, 120)
    for oracle in (ours(layered(2, 2, 0)), *rivals(settings.limit).values()):
        require_cuts(oracle)
    warm_up()
    runs: list[Row] = []
    rows: list[Row] = []
    for count, radius in ((cuts, NOISE), (0, 0.0)):
        label = f"{count} cuts, rho={radius:g}" if count else f"no cuts, rho={radius:g}"
        own: list[Shot] = []
        others: dict[str, list[Shot]] = {name: [] for name in rivals(settings.limit)}
        for seed in range(settings.seeds):
            instance = layered(dim, 3, seed)
            beliefs = instance.one_shot(states, count, radius=radius, seed=seed)
            own.append(shoot_ours(instance, beliefs))
            runs.append(_shot_row(label, seed, "ours", own[-1]))
            for name, oracle in rivals(settings.limit).items():
                others[name].append(shoot(oracle, instance, beliefs))
                runs.append(_shot_row(label, seed, name, others[name][-1]))
        rows += [_ratio_row(label, name, shots, own) for name, shots in others.items()]
    title = f"One question: layered, d={dim}, A=3, {states} critical states"
    notes = (
        f"A rival's time includes building its model. Ours is the median of {REPEATS} fresh "
        "searches of a compiled oracle, the table of rows included; compiling from an empty cache "
        f"takes {compile_seconds():.1f} s more, once on a machine. The difference is between the "
        "values, where the rival finished.",
    )
    return Section("one-shot", (Table(title, notes, tuple(rows)),), tuple(runs))


def _shot_row(label: str, seed: int, solver: str, shot: Shot) -> Row:
    return {
        "setting": label,
        "seed": seed,
        "solver": solver,
        "seconds": shot.timing.seconds,
        "finished": shot.timing.finished,
        "value": shot.value,
        "nodes": shot.nodes,
    }


def _ratio_row(label: str, name: str, shots: Sequence[Shot], own: Sequence[Shot]) -> Row:
    finished = [
        abs(shot.value - other.value)
        for shot, other in zip(shots, own, strict=True)
        if shot.timing.finished
    ]
    seconds = statistics.median(shot.timing.seconds for shot in shots)
    stopped = sum(not shot.timing.finished for shot in shots)
    timings = [shot.timing for shot in shots], [shot.timing for shot in own]
    return {
        "setting": label,
        "rival": name,
        "finished": f"{len(finished)} of {len(shots)}",
        "rival, median s": {"at least": seconds} if 2 * stopped >= len(shots) else seconds,
        "ours, median ms": 1e3 * statistics.median(shot.timing.seconds for shot in own),
        "rival / ours, median": median_ratio(*timings),
        "largest difference": max(finished) if finished else None,
    }


def memory(settings: Settings) -> Section:
    """What open nodes weigh."""
    count = 10_000 if settings.quick else 1_000_000
    instance = layered(15, 5, 0)
    rows = tuple(
        _memory_row(instance, radius, states, count) for radius, states in ((NOISE, 20), (0.0, 16))
    )
    notes = (
        "One-shot searches (layered, A=5, no cuts) that are stopped once they have so many open "
        "nodes. All arrays of the tree count, with the nodes that were split, the proofs of the "
        "empty ones, and the room that is left. The peak is that of the process so far, with the "
        "arrays that were copied to larger ones, Python, Numba and the other sections.",
    )
    return Section("memory", (Table("Memory of open nodes", notes, rows),), rows)


def _memory_row(instance: Instance, radius: float, states: int, count: int) -> Row:
    """The tree of one search, once it has so many open nodes."""
    search = Inspected(instance, instance.one_shot(states, 0, radius=radius, seed=0))
    effort = search.run(PATIENCE, count // 100)
    while effort.leaves < count and not effort.proved and effort.seconds < PATIENCE:
        effort = search.run(PATIENCE, count // 100)
    return {
        "d": instance.dim,
        "critical states": states,
        "rho": radius,
        "open nodes": effort.leaves,
        "enough": effort.leaves >= count,
        "node solves": effort.solves,
        "bytes each": search.bytes / effort.leaves,
        "MiB": search.bytes / 2**20,
        "MiB, peak of the process": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10,
    }


def proved(settings: Settings) -> Iterator[tuple[str, Instance, Hypotheses]]:
    """The questions whose proofs are checked."""
    dim, states, cuts = (4, 10, 20) if settings.quick else (10, 50, 120)
    for seed in range(settings.seeds):
        instance = layered(dim, 3, seed)
        for count, radius in ((cuts, NOISE), (0, 0.0)):
            beliefs = instance.one_shot(states, count, radius=radius, seed=seed)
            yield f"layered, {count} cuts, seed {seed}", instance, beliefs
    for actions, dim in ((2, 4),) if settings.quick else ((3, 20), (4, 16), (5, 12)):
        instance = layered(dim, actions, 0)
        seen = instance.explore(12).states
        beliefs = instance.beliefs(SLIGHT, seen, instance.around(seen))
        yield f"layered, explored, d={dim}, A={actions}", instance, beliefs
    side = 3 if settings.quick else 5
    instance = grid(side, ceiling=-COST)
    every = range(instance.size)
    yield f"grid {side} x {side}", instance, instance.beliefs(0.0, every, every)


def proofs(settings: Settings) -> Section:
    """Every proof is written, and decided by the checker."""
    warm_up()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "proof.json"
        rows = tuple(_proof_rows(proved(settings), path))
    notes = ("The checker is a process of its own, in exact arithmetic.",)
    return Section("proofs", (Table("Proofs", notes, rows),), rows)


def _proof_rows(questions: Iterable[tuple[str, Instance, Hypotheses]], path: Path) -> Iterator[Row]:
    for label, instance, beliefs in questions:
        oracle = ours(instance, PATIENCE)
        question = ask(oracle, instance.objective, beliefs)
        started = time.perf_counter()
        path.write_text(json.dumps(make_proof(oracle)), encoding="utf-8")
        written = time.perf_counter()
        verdict = check_proof(path)
        yield {
            "question": label,
            "nodes": question.optimum.nodes,
            "solved": question.optimum.status is not OracleStatus.LIMIT,
            "solved in s": question.seconds,
            "written in s": written - started,
            "kB": path.stat().st_size / 1000,
            "checked in s": time.perf_counter() - written,
            "accepted": verdict.accepted,
        }
