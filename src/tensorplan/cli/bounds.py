"""``tensorplan bounds``: every constant of the paper, as printed and as corrected."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final

from tensorplan.cli.codes import ExitCode
from tensorplan.cli.command import Command, UsageError, count
from tensorplan.cli.output import emit, emit_json, short, table
from tensorplan.theory import BoundRow, Setting, adaptive_constants, bounds_table

SYMBOLS: Final = {
    "horizon": ("H", "stages after which the process is cut"),
    "direct_horizon": ("H_direct", "stages that matter to a planner that does not cut it"),
    "zeta": ("zeta", "failure probability of each of three events"),
    "epsilon": ("epsilon", "scale of Sol"),
    "eluder_bound": ("E_d", "most failed tests"),
    "rollouts": ("n1", "rollouts of an iteration"),
    "test_draws": ("n2", "draws per action in a test"),
    "refine_draws": ("n3", "draws per action kept after a failed test"),
    "sol_threshold": ("kappa", "Sol's threshold, H^A epsilon / (2 sqrt E_d)"),
    "query_bound": ("queries", "most queries in an episode"),
    "accuracy": ("lambda", "inaccuracy of the simulator that is allowed"),
    "misspecification": ("eta", "misspecification that is allowed"),
    "tolerance": ("tolerance", "delta/4H, the temporal difference that a test lets pass"),
}
"""The paper's symbol for each constant, and what it is."""


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--dim", type=count(1), required=True, help="d, number of features")
    parser.add_argument("--actions", type=count(1), required=True, help="A, number of actions")
    parser.add_argument(
        "--horizon", type=count(1), help="H, number of stages; not needed with --discount"
    )
    parser.add_argument("--norm", type=float, required=True, help="B, bound on ||theta||_2")
    parser.add_argument("--delta", type=float, required=True, help="accuracy of the plan")
    parser.add_argument(
        "--discount", type=float, help="gamma: cut a discounted process; --horizon is ignored"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(arguments: Namespace) -> int:
    """Print the table."""
    discount: float | None = arguments.discount
    if discount is None and arguments.horizon is None:
        raise UsageError("--horizon is required, or --discount for a discounted problem.")
    horizon = arguments.horizon if discount is None else None
    setting = Setting(arguments.dim, arguments.actions, horizon, arguments.norm, arguments.delta)
    rows = bounds_table(setting, discount)
    if arguments.json:
        emit_json(_data(setting, discount, rows))
    else:
        emit(_text(setting, discount, rows))
    return ExitCode.DONE


def _data(setting: Setting, discount: float | None, rows: Sequence[BoundRow]) -> dict[str, Any]:
    return {
        "dim": setting.dim,
        "actions": setting.actions,
        "horizon": setting.horizon,
        "norm": setting.norm,
        "delta": setting.delta,
        "discount": discount,
        "printed": {SYMBOLS[row.name][0]: row.printed for row in rows},
        "corrected": {SYMBOLS[row.name][0]: row.corrected for row in rows},
        "adaptive": _adaptive(setting, discount),
    }


def _text(setting: Setting, discount: float | None, rows: Sequence[BoundRow]) -> str:
    process = f"H={setting.horizon}" if discount is None else f"discount {discount:g}"
    title = (
        f"d={setting.dim} A={setting.actions} {process} B={setting.norm:g} "
        f"delta={setting.delta:g}, rewards in [0, 1]"
    )
    adaptive = _adaptive(setting, discount)
    cells = [
        (
            SYMBOLS[name][0],
            short(printed),
            short(corrected),
            short(adaptive.get(SYMBOLS[name][0])),
            SYMBOLS[name][1],
        )
        for name, printed, corrected in rows
    ]
    return f"{title}\n\n{table(('', 'printed', 'corrected', 'adaptive', ''), cells)}"


def _adaptive(setting: Setting, discount: float | None) -> dict[str, int | Decimal]:
    """What stands in the place of the paper's constants in Theorem C, by their symbols."""
    if discount is not None:
        return {}
    found = adaptive_constants(setting)
    return {
        "zeta": found.zeta,
        "E_d": found.failures,
        "n1": found.rollouts,
        "n2": found.test_draws,
        "n3": found.refine_draws[0],
        "queries": found.query_bound,
        "tolerance": found.pass_tolerance,
    }


COMMAND: Final = Command(
    name="bounds",
    summary="the paper's constants, as printed and as corrected",
    about="The constants of the paper, as printed and with its errata corrected. They are the "
    "worst case's: they say what is provably enough, not what a run needs. With --discount they "
    "are those of the process cut at the horizon H. The column 'adaptive' has what stands in their "
    "place in the worst-case bound of the adaptive algorithm (Theorem C): its N for E_d, its "
    "3 delta/4H for the tolerance, n3 at the first stage.",
    examples=(
        "tensorplan bounds --dim 2 --actions 2 --horizon 2 --norm 1 --delta .5",
        "tensorplan bounds --dim 2 --actions 2 --norm 1 --delta .5 --discount .9",
        "tensorplan bounds --dim 4 --actions 2 --horizon 10 --norm 2 --delta 1 --json",
    ),
    add_arguments=add_arguments,
    run=run,
)
