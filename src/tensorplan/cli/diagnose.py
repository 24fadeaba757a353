"""``tensorplan diagnose``: how badly the features of a problem fit, at least."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any, Final, get_args

from tensorplan.cli.codes import ExitCode
from tensorplan.cli.command import Command, add_problem, count, unique
from tensorplan.cli.load import Loaded, load
from tensorplan.cli.output import (
    emit,
    emit_json,
    labelled,
    number,
    reserved,
    settings_text,
    short,
    table,
)
from tensorplan.cli.progress import reporter
from tensorplan.plan import Budget, Diagnosis
from tensorplan.plan import diagnose as make_diagnosis
from tensorplan.planners.adaptive import Rival

_SHOWN: Final = 10
"""Witnesses that the text lists."""


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    add = parser.add_argument
    add_problem(parser)
    add(
        "--delta",
        type=float,
        default=0.1,
        help="gap of the plan that takes the data; a smaller one takes more (default: %(default)s)",
    )
    add("--seed", type=count(0), default=0, help="of all random streams (default: %(default)s)")
    add("--norm", type=float, metavar="B", help="bound on ||theta||_2 (default: the problem's)")
    add("--confidence", type=float, help="with which nothing is overstated (default: 0.95)")
    add("--compete", choices=list(get_args(Rival)), help="whose misfit (default: every policy's)")
    add("--explore", type=count(0), metavar="N", help="random rollouts that come first")
    add("--budget-queries", type=count(0), metavar="N", help="most queries")
    add("--budget-seconds", type=float, metavar="S", help="make no query after these")
    add("--json", action="store_true", help="print one JSON object")
    add("--quiet", action="store_true", help="no progress on standard error")


def run(arguments: Namespace) -> int:
    """Take data and print what they say."""
    with reserved(for_json=arguments.json):
        problem, found = _carry_out(arguments)
    if arguments.json:
        emit_json(_data(problem, found, arguments))
    else:
        emit(_text(problem, found, arguments))
    return ExitCode.DONE


def _carry_out(arguments: Namespace) -> tuple[Loaded, Diagnosis]:
    problem = load(arguments.problem, unique(arguments.set))
    names = ("norm", "confidence", "compete", "explore")
    given = {name: getattr(arguments, name) for name in names}
    found = make_diagnosis(
        problem.simulator,
        delta=arguments.delta,
        seed=arguments.seed,
        budget=Budget(arguments.budget_queries, arguments.budget_seconds),
        watch=None if arguments.quiet else reporter(),
        **{name: value for name, value in given.items() if value is not None},
    )
    return problem, found


def _data(problem: Loaded, found: Diagnosis, arguments: Namespace) -> dict[str, Any]:
    return found.summary() | {
        "problem": problem.name,
        "problem_settings": problem.settings,
        "delta": arguments.delta,
        "seed": arguments.seed,
    }


def _text(problem: Loaded, found: Diagnosis, arguments: Namespace) -> str:
    pairs = [
        ("settings", settings_text(problem.settings)),
        ("eta", f"more than {short(found.least)}" if found.least else "0 is not excluded"),
        ("means", found.sentence),
        ("advice", found.advice),
        ("confidence", number(found.confidence)),
        ("queries", number(found.queries)),
        *(("assuming", each) for each in found.assumptions),
        *(("witnesses", str(each)) for each in found.witnesses[:_SHOWN]),
    ]
    hidden = len(found.witnesses) - _SHOWN
    if hidden > 0:
        pairs.append(("witnesses", f"and {hidden} more"))
    rows = [(short(eta), number(bound)) for eta, bound in found.upper]
    curve = table(("eta", "a policy that fits so well is worth at most"), rows)
    return f"{problem.name}, seed {arguments.seed}\n\n{labelled(pairs)}\n\n{curve}"


COMMAND: Final = Command(
    name="diagnose",
    summary="how badly the features fit every policy, at least",
    about="Takes data by random rollouts and by a plan whose eta rises from 0 whenever the data "
    "refute it. Then it reads all of them again at other eta, without a query: the largest eta "
    "that they refute is a lower bound on the misfit of every policy. It prints the states that "
    "prove it, and what the upper bound would be at larger eta.",
    examples=(
        "tensorplan diagnose bermudan-put --set features=european --budget-queries 1e5",
        "tensorplan diagnose aggregated --json",
        "tensorplan diagnose mine.py:make_problem --delta 0.5 --seed 1",
    ),
    add_arguments=add_arguments,
    run=run,
)
