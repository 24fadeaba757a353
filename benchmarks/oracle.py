"""Benchmarks of the optimistic oracle.

    python benchmarks/oracle.py [--quick] [--only NAME] [--seeds N] [--limit SECONDS] [--out FILE]
    python benchmarks/oracle.py --table FILE

The first form measures, prints the tables and writes all numbers to FILE as JSON; the second
writes docs/benchmarks-oracle.md from such a file. Give a full run an idle machine.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from adapters import WaitingError
from kernels import cold, warm
from results import Section, Settings, make_results, render, write_json, write_page
from sections import iterations, sizes
from shots import memory, one_shot, proofs

PAGE = Path(__file__).resolve().parent.parent / "docs" / "benchmarks-oracle.md"

SECTIONS: dict[str, Callable[[Settings], Section]] = {
    "one-shot": one_shot,
    "sizes": sizes,
    "iterations": iterations,
    "warm": warm,
    "cold": cold,
    "memory": memory,
    "proofs": proofs,
}


@dataclass
class Arguments(argparse.Namespace):
    """The command line."""

    quick: bool = False
    only: str | None = None
    seeds: int | None = None
    limit: float | None = None
    out: Path | None = None
    table: Path | None = None


def parse(arguments: list[str]) -> Arguments:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Benchmarks of the optimistic oracle.")
    parser.add_argument("--quick", action="store_true", help="small sizes: does everything run?")
    parser.add_argument("--only", choices=list(SECTIONS), help="one section")
    parser.add_argument("--seeds", type=int, help="instances of each kind (10; quick: 2)")
    parser.add_argument("--limit", type=float, help="seconds for a rival (60; quick: 5)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write all numbers as JSON")
    parser.add_argument("--table", type=Path, metavar="FILE", help="write the page of such a file")
    return parser.parse_args(arguments, Arguments())


def settings_of(given: Arguments) -> Settings:
    """What the command line asks for."""
    usual = Settings(2, 5.0, True) if given.quick else Settings()
    return Settings(
        usual.seeds if given.seeds is None else given.seeds,
        usual.limit if given.limit is None else given.limit,
        given.quick,
    )


def measure(names: list[str], settings: Settings) -> tuple[list[Section], list[str]]:
    """Run sections: those that ran, and why the others did not."""
    done: list[Section] = []
    waiting: list[str] = []
    for name in names:
        print(f"measuring: {name}", file=sys.stderr, flush=True)
        try:
            done.append(SECTIONS[name](settings))
        except WaitingError as error:
            waiting.append(f"{name}: {error}")
    return done, waiting


def main(arguments: list[str] | None = None) -> int:
    """Measure, or write the page; 1 if a section could not be measured."""
    words = sys.argv[1:] if arguments is None else arguments
    given = parse(words)
    if given.table is not None:
        results = json.loads(given.table.read_text(encoding="utf-8"))
        write_page(PAGE, results, given.table.name)
        return 0
    names = list(SECTIONS) if given.only is None else [given.only]
    settings = settings_of(given)
    done, waiting = measure(names, settings)
    when = dt.datetime.now(dt.UTC).isoformat(timespec="minutes")
    command = shlex.join(["python", "benchmarks/oracle.py", *words])
    results = make_results(command, when, settings, done)
    if given.out is not None:
        write_json(given.out, results)
    print(render(results, given.out.name if given.out else "FILE"))
    for line in waiting:
        print(f"not measured: {line}", file=sys.stderr)
    return 1 if waiting else 0


if __name__ == "__main__":
    sys.exit(main())
