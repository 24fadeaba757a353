"""``tensorplan plan``: plan in a problem, play the plan, and say what is known about it."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any, Final, get_args

from tensorplan.adapters.discounted import Truncated, truncation_horizon
from tensorplan.cli.codes import exit_code
from tensorplan.cli.command import Command, UsageError, add_problem, count, unique
from tensorplan.cli.load import load
from tensorplan.cli.output import emit, emit_json, reserved
from tensorplan.cli.plan_report import Outcome, as_data, as_text
from tensorplan.cli.plan_settings import add_settings, edition, settings_of
from tensorplan.cli.progress import announce, announce_adaptive, reporter
from tensorplan.errors import SettingError
from tensorplan.oracle import ORACLES, make_oracle
from tensorplan.plan import AdaptivePlan, Budget, Plan, PlannerName
from tensorplan.plan import plan as make_plan
from tensorplan.planners import adaptive
from tensorplan.planners.adaptive import adaptive_settings, check_oracle
from tensorplan.planners.paper import paper_settings, resolve
from tensorplan.problem import Simulator

EPISODES: Final = 20
"""Episodes played of a stochastic problem, unless asked otherwise."""
PLAY_QUERIES: Final = 10_000_000
"""Queries that playing may cost, unless episodes are asked for."""


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    add = parser.add_argument
    add_problem(parser)
    add(
        "--delta",
        type=float,
        default=0.1,
        help="how far below the best realizable policy the plan may be (default: %(default)s)",
    )
    add("--seed", type=count(0), default=0, help="of all random streams (default: %(default)s)")
    add(
        "--planner",
        choices=list(get_args(PlannerName)),
        default="adaptive",
        help="who plans: with data as they are needed, or line by line as the paper does (default: "
        "%(default)s)",
    )
    add("--norm", type=float, metavar="B", help="bound on ||theta||_2 (default: the problem's)")
    add("--oracle", choices=list(ORACLES), default="slabs", help="search for theta")
    _add_output(parser)
    _add_budget(parser)
    add_settings(parser)


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
    settings = settings_of(arguments)
    if arguments.proof is not None and not Path(arguments.proof).resolve().parent.is_dir():
        raise UsageError(f"argument --proof: there is no folder for {arguments.proof}.")
    by_paper = arguments.planner == "paper"
    simulator = _staged(problem.simulator, arguments) if by_paper else problem.simulator
    if not arguments.quiet:
        _announce(simulator, arguments, settings)
    planner: PlannerName = arguments.planner
    plan = make_plan(
        simulator,
        delta=arguments.delta,
        planner=planner,
        seed=arguments.seed,
        oracle=arguments.oracle,
        budget=Budget(arguments.budget_queries, arguments.budget_seconds),
        watch=None if arguments.quiet else reporter(),
        **settings,
    )
    _write_proof(plan, arguments)
    episodes = _episodes(plan, arguments.episodes)
    returns = list(plan.play(episodes, most_queries=None)) if episodes else []
    cut = float(simulator.truncation) if isinstance(simulator, Truncated) else None
    return Outcome(problem, plan, arguments.seed, returns, cut)


def _announce(simulator: Simulator, arguments: Namespace, settings: dict[str, Any]) -> None:
    """Say what is about to be run; settings that mean nothing are refused here already."""
    spec = simulator.spec
    if arguments.planner == "paper":
        resolved = resolve(paper_settings(arguments.delta, **settings), spec)
        announce(resolved, exact_draws=spec.deterministic)
    else:
        adapted = adaptive.resolve(adaptive_settings(arguments.delta, **settings), spec)
        check_oracle(make_oracle(arguments.oracle))
        announce_adaptive(adapted)


def _write_proof(plan: Plan, arguments: Namespace) -> None:
    """Write the proof of the upper bound, or of the rejection, where it was asked for."""
    if arguments.proof is not None and isinstance(plan, AdaptivePlan):
        try:
            Path(arguments.proof).write_text(json.dumps(plan.proof()), encoding="utf-8")
        except OSError as error:
            raise UsageError(f"argument --proof: {error}.") from None


def _staged(simulator: Simulator, arguments: Namespace) -> Simulator:
    """The problem over finitely many stages, for the paper's planner."""
    spec, horizon = simulator.spec, arguments.horizon
    if spec.discounted:
        if horizon is None:
            rule = edition(arguments).horizon
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
    if not plan.usable:
        return 0
    if asked is not None:
        return asked
    if plan.access.spec.deterministic:
        return min(1, PLAY_QUERIES // max(1, plan.episode_cost))
    return min(EPISODES, PLAY_QUERIES // max(1, plan.episode_cost))


COMMAND: Final = Command(
    name="plan",
    summary="plan in a problem, and say what the plan is worth",
    about="Plan from a simulator's start state, play the plan, and print how planning ended, the "
    "value that was predicted and achieved, the certificate, and the queries. PROBLEM can be "
    "your own: a function without required arguments that returns a simulator, called with the "
    "settings of --set.",
    examples=(
        "tensorplan plan deep-sea --set size=50 --delta 0.1",
        "tensorplan plan deep-sea --delta 1e-3 --compete optimal --proof proof.json",
        "tensorplan plan random-tabular --set outcomes=2 --planner paper --delta 1 "
        "--sizes 20,2000,1e6",
        "tensorplan plan mine.py:make_problem --set stages=5 --json",
        "tensorplan plan mypackage.mymodule:make_problem --norm 2 --budget-queries 1e6",
    ),
    add_arguments=add_arguments,
    run=run,
)
