"""``tensorplan plan``: plan in a problem, play the plan, and say what is known about it."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from dataclasses import fields
from typing import Any, Final

from tensorplan.adapters.discounted import Truncated, truncation_horizon
from tensorplan.cli.codes import exit_code
from tensorplan.cli.command import Command, assignment, count, unique
from tensorplan.cli.load import load
from tensorplan.cli.output import emit, emit_json, reserved
from tensorplan.cli.plan_report import Outcome, as_data, as_text
from tensorplan.cli.progress import announce, reporter
from tensorplan.errors import SettingError
from tensorplan.oracle import ORACLES
from tensorplan.plan import Budget, Plan
from tensorplan.plan import plan as make_plan
from tensorplan.planners.paper import Sizes, paper_settings, resolve
from tensorplan.problem import Simulator
from tensorplan.records import Status
from tensorplan.theory import Errata

EPISODES: Final = 20
"""Episodes played of a stochastic problem, unless asked otherwise."""
PLAY_QUERIES: Final = 10_000_000
"""Queries that playing may cost, unless episodes are asked for."""

_ERRATA: Final = {"corrected": Errata.corrected(), "printed": Errata.printed()}
_RULES: Final = {"consistent": "consistent", "best": "best", "remark": "best"}


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    add = parser.add_argument
    add(
        "problem",
        metavar="PROBLEM",
        help="a name from 'tensorplan problems', or module:factory or path.py:factory of yours",
    )
    add(
        "--set",
        type=assignment,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting of the problem; may be repeated",
    )
    add(
        "--delta",
        type=float,
        default=0.1,
        help="how far below the best realizable policy the plan may be (default: %(default)s)",
    )
    add("--seed", type=count(0), default=0, help="of all random streams (default: %(default)s)")
    add("--planner", choices=["paper"], default="paper", help="who plans")
    _add_output(parser)
    _add_budget(parser)
    _add_paper(parser)


def _add_output(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--episodes",
        type=count(0),
        help="episodes to play (default: 1 if deterministic, else 20 or as many as fit into "
        f"{PLAY_QUERIES:,} queries; none without a parameter to follow)",
    )
    add("--json", action="store_true", help="print one JSON object")
    add("--quiet", action="store_true", help="no progress on standard error")


def _add_budget(parser: ArgumentParser) -> None:
    group = parser.add_argument_group("budget of planning")
    group.add_argument("--budget-queries", type=count(0), metavar="N", help="most queries")
    group.add_argument(
        "--budget-seconds",
        type=float,
        metavar="S",
        help="make no query after these",
    )


def _add_paper(parser: ArgumentParser) -> None:
    group = parser.add_argument_group("the paper's planner")
    add = group.add_argument
    add("--norm", type=float, metavar="B", help="bound on ||theta||_2 (default: the problem's)")
    add("--oracle", choices=list(ORACLES), default="slabs", help="search for theta")
    add(
        "--sizes",
        type=_sizes,
        metavar="N1,N2,N3",
        help="rollouts, draws of a test, draws kept after a failure (default: the theorem's)",
    )
    add("--exact", action="store_true", help="zero thresholds, for deterministic problems")
    add("--errata", choices=list(_ERRATA), default="corrected", help="which constants")
    add(
        "--rule",
        choices=list(_RULES),
        default="consistent",
        help="action that a test asks about; 'best' or 'remark' is the variant of the Remark",
    )
    add("--keep-rolling", action="store_true", help="finish all rollouts after a failed test")
    add("--return-test", action="store_true", help="also test the mean return of the rollouts")
    add(
        "--horizon",
        type=count(1),
        metavar="N",
        help="stages after which a discounted problem is cut (default: the theorem's)",
    )


def run(arguments: Namespace) -> int:
    """Plan, play and print."""
    with reserved(for_json=arguments.json):
        outcome = _carry_out(arguments)
    if arguments.json:
        emit_json(as_data(outcome))
    else:
        emit(as_text(outcome))
    return exit_code(outcome.plan.status)


def _carry_out(arguments: Namespace) -> Outcome:
    problem = load(arguments.problem, unique(arguments.set))
    simulator = _staged(problem.simulator, arguments)
    settings = _settings(arguments)
    resolved = resolve(paper_settings(arguments.delta, **settings), simulator.spec)
    if not arguments.quiet:
        announce(resolved, exact_draws=simulator.spec.deterministic)
    plan = make_plan(
        simulator,
        delta=arguments.delta,
        seed=arguments.seed,
        oracle=arguments.oracle,
        budget=Budget(arguments.budget_queries, arguments.budget_seconds),
        watch=None if arguments.quiet else reporter(),
        **settings,
    )
    episodes = _episodes(plan, arguments.episodes)
    returns = list(plan.play(episodes, most_queries=None)) if episodes else []
    cut = float(simulator.truncation) if isinstance(simulator, Truncated) else None
    return Outcome(problem, plan, arguments.planner, arguments.seed, returns, cut)


def _settings(arguments: Namespace) -> dict[str, Any]:
    """Settings of the planner, delta apart."""
    return {
        "norm": arguments.norm,
        "errata": _ERRATA[arguments.errata],
        "sizes": arguments.sizes,
        "exact": arguments.exact,
        "rule": _RULES[arguments.rule],
        "early_exit": not arguments.keep_rolling,
        "return_test": arguments.return_test,
    }


def _staged(simulator: Simulator, arguments: Namespace) -> Simulator:
    """The problem over finitely many stages."""
    spec, horizon = simulator.spec, arguments.horizon
    if spec.discounted:
        if horizon is None:
            rule = _ERRATA[arguments.errata].horizon
            horizon = truncation_horizon(spec, arguments.delta, rule, norm=arguments.norm)
        return Truncated(simulator, horizon)
    if horizon is not None:
        raise SettingError(
            f"--horizon {horizon}",
            f"{arguments.problem} is not discounted, and only a discounted problem is cut",
            "Leave it out, or give the problem itself another horizon with --set.",
        )
    return simulator


def _episodes(plan: Plan, asked: int | None) -> int:
    """How many episodes to play."""
    if not plan.events or plan.status is Status.REJECTED:
        return 0
    if asked is not None:
        return asked
    spec, resolved = plan.access.spec, plan.resolved
    one = resolved.horizon * spec.actions * resolved.sizes.test_draws
    return min(1 if spec.deterministic else EPISODES, PLAY_QUERIES // one)


def _sizes(text: str) -> Sizes:
    parts = text.split(",")
    if len(parts) != len(fields(Sizes)):
        raise ArgumentTypeError(f"{text!r} must be three whole numbers, n1,n2,n3")
    return Sizes(*(count(1)(part) for part in parts))


COMMAND: Final = Command(
    name="plan",
    summary="plan in a problem, and say what the plan is worth",
    about="Plan from a simulator's start state, play the plan, and print how planning ended, the "
    "value that was predicted and achieved, the certificate, and the queries. PROBLEM can be "
    "your own: a function without required arguments that returns a simulator, called with the "
    "settings of --set.",
    examples=(
        "tensorplan plan deep-sea --set size=50 --delta 0.1",
        "tensorplan plan random-tabular --set outcomes=2 --delta 1 --sizes 20,2000,1e6",
        "tensorplan plan mine.py:make_problem --set stages=5 --json",
        "tensorplan plan mypackage.mymodule:make_problem --norm 2 --budget-queries 1e6",
    ),
    add_arguments=add_arguments,
    run=run,
)
