"""Results: what is measured, how it is kept, and the table that is made of it."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

SCHEMA = "tensorplan-benchmarks/1"

PACKAGES = ("tensorplan", "numpy", "numba", "pyscipopt", "highspy", "clarabel", "daqp")

Cell = str | int | float | bool | None | dict[str, float]
"""A number that is only known to be at least so much is ``{"at least": number}``."""

Row = Mapping[str, Cell]


@dataclass(frozen=True)
class Settings:
    """What was asked for on the command line.

    Attributes:
        seeds: instances of each kind.
        limit: seconds after which a rival is stopped.
        quick: whether sizes are small, to see that everything runs.
    """

    seeds: int = 10
    limit: float = 60.0
    quick: bool = False


@dataclass(frozen=True)
class Table:
    """Rows with the same columns.

    Attributes:
        title: what they show.
        notes: how it was measured.
        rows: in order.
    """

    title: str
    notes: tuple[str, ...]
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Section:
    """A part of the benchmarks.

    Attributes:
        name: by which it is asked for.
        tables: its summary.
        runs: every single measurement.
    """

    name: str
    tables: tuple[Table, ...]
    runs: tuple[Row, ...]


@dataclass(frozen=True)
class Timing:
    """Seconds of a run, and whether it came to its end; if not, it would have taken longer."""

    seconds: float
    finished: bool


def median_ratio(theirs: Sequence[Timing], own: Sequence[Timing]) -> Cell:
    """Median over instances of their time over ours; None if ours was stopped.

    It is a lower bound where a stopped run could move the median up.
    """
    if not all(timing.finished for timing in own):
        return None
    ratios = [one.seconds / other.seconds for one, other in zip(theirs, own, strict=True)]
    upper = sorted(ratios)[len(ratios) // 2]
    stopped = any(
        not timing.finished and ratio <= upper for timing, ratio in zip(theirs, ratios, strict=True)
    )
    median = statistics.median(ratios)
    return {"at least": median} if stopped else median


def environment() -> dict[str, Any]:
    """The machine and the versions, as far as results depend on them."""
    return {
        "machine": _processor(),
        "cores": os.cpu_count(),
        "load": [round(one, 2) for one in os.getloadavg()],
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in PACKAGES},
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "missing"


def make_results(
    command: str,
    when: str,
    settings: Settings,
    sections: Sequence[Section],
    *,
    about: str = "oracle",
) -> dict[str, Any]:
    """Everything that is worth keeping of a run of ``benchmarks/<about>.py``."""
    return {
        "schema": SCHEMA,
        "about": about,
        "command": command,
        "when": when,
        "settings": asdict(settings),
        "environment": environment(),
        "sections": [asdict(section) for section in sections],
    }


def write_json(path: Path, results: Mapping[str, Any]) -> None:
    """Write the results."""
    path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def show(cell: object) -> str:
    """A cell of a table."""
    if isinstance(cell, dict):
        return f"at least {show(cast('dict[str, float]', cell)['at least'])}"
    if cell is None or isinstance(cell, bool):
        return {None: "–", True: "yes", False: "no"}[cell]
    if isinstance(cell, int):
        return f"{cell:,}"
    if isinstance(cell, float):
        return f"{cell:,.0f}" if abs(cell) >= 1000 else f"{cell:.3g}"
    return str(cell)


def table_lines(table: Mapping[str, Any]) -> list[str]:
    """A table in Markdown."""
    rows: list[Mapping[str, object]] = list(table["rows"])
    columns = list(dict.fromkeys(column for row in rows for column in row))
    lines = [f"### {table['title']}", ""]
    lines += [line for note in table["notes"] for line in (note, "")]
    lines += ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(show(row.get(name)) for name in columns) + " |" for row in rows]
    return [*lines, ""]


def render(results: Mapping[str, Any], source: str) -> str:
    """The page that is made of a run."""
    place, settings = results["environment"], results["settings"]
    versions = ", ".join(f"{name} {version}" for name, version in place["versions"].items())
    load = ", ".join(map(str, place["load"]))
    about = results.get("about", "oracle")
    lines = [
        f"# Benchmarks of the {about}",
        "",
        f"Generated by `python benchmarks/{about}.py --table {source}`; do not edit. The numbers "
        f"are from `{results['command']}`, run at {results['when']}.",
        "",
        f"- Machine: {place['machine']}, {place['cores']} cores, load {load} at the end; "
        f"{place['system']}, Python {place['python']}.",
        f"- Versions: {versions}.",
    ]
    if about == "oracle":
        lines += [
            f"- Limits: a rival is stopped after {show(settings['limit'])} s for each attempt on "
            'an instance. Where that happened, a ratio says "at least".',
            f"- {settings['seeds']} seeds{', small sizes only' if settings['quick'] else ''}.",
        ]
    lines += [
        "- Ratios compare times of one run on one machine; times of different runs do not compare.",
        "",
    ]
    for section in results["sections"]:
        lines += [f"## {section['name']}", ""]
        lines += [line for table in section["tables"] for line in table_lines(table)]
    return "\n".join(lines).rstrip() + "\n"


def write_page(path: Path, results: Mapping[str, Any], source: str) -> None:
    """Write the page of a run."""
    if results.get("schema") != SCHEMA:
        raise ValueError(f"{source} holds no results of schema {SCHEMA}")
    path.write_text(render(results, source), encoding="utf-8")
