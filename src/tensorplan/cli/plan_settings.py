"""Settings of the planners on the command line: each belongs to one of them."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from dataclasses import fields
from typing import Any, Final, get_args

from tensorplan.cli.command import count
from tensorplan.errors import SettingError
from tensorplan.planners.adaptive import FITTED, Rival
from tensorplan.planners.paper import Sizes
from tensorplan.theory import Errata

_ERRATA: Final = {"corrected": Errata.corrected(), "printed": Errata.printed()}
_RULES: Final = {"consistent": "consistent", "best": "best", "remark": "best"}

_ADAPTIVE: Final = {
    "compete": "compete",
    "eta": "misspecification",
    "confidence": "confidence",
    "explore": "explore",
    "proof": None,
}
"""Flags of the adaptive planner, and the settings that they give."""

_PAPER: Final = ("sizes", "exact", "errata", "rule", "keep_rolling", "return_test", "horizon")
"""Flags of the paper's planner."""


def add_settings(parser: ArgumentParser) -> None:
    """Declare the flags of either planner. Those that were not given are None."""
    _add_adaptive(parser)
    _add_paper(parser)


def settings_of(arguments: Namespace) -> dict[str, Any]:
    """Settings of the planner that was chosen, delta apart; those of the other are refused."""
    if arguments.planner == "paper":
        _refuse(arguments, tuple(_ADAPTIVE), "adaptive")
        return _of_paper(arguments)
    _refuse(arguments, _PAPER, "paper")
    given = {name: getattr(arguments, flag) for flag, name in _ADAPTIVE.items() if name is not None}
    return {"norm": arguments.norm} | {
        name: value for name, value in given.items() if value is not None
    }


def edition(arguments: Namespace) -> Errata:
    """Which of the paper's constants were asked for."""
    return _ERRATA[arguments.errata or "corrected"]


def _add_adaptive(parser: ArgumentParser) -> None:
    add = parser.add_argument_group("the adaptive planner").add_argument
    add(
        "--compete",
        choices=list(get_args(Rival)),
        help="whom the upper bound speaks of: every policy that the features represent, or an "
        "optimal one if they represent it (default: realizable)",
    )
    add(
        "--eta",
        type=_eta,
        help="how far values may be from linear (default: the problem's); 'fitted' raises it from "
        "0 as far as the data ask for, and the plan is then assumed, not certified",
    )
    add("--confidence", type=float, help="with which both bounds hold (default: 0.95)")
    add("--explore", type=count(0), metavar="N", help="random rollouts that come first")
    add("--proof", metavar="FILE", help="write the proof of the upper bound, for 'verify'")


def _add_paper(parser: ArgumentParser) -> None:
    add = parser.add_argument_group("the paper's planner").add_argument
    add(
        "--sizes",
        type=_sizes,
        metavar="N1,N2,N3",
        help="rollouts, draws of a test, draws kept after a failure (default: the theorem's)",
    )
    yes: Any = {"action": "store_const", "const": True}
    add("--exact", **yes, help="zero thresholds, for deterministic problems")
    add("--errata", choices=list(_ERRATA), help="which constants (default: corrected)")
    add(
        "--rule",
        choices=list(_RULES),
        help="action that a test asks about; 'best' or 'remark' is the variant of the Remark "
        "(default: consistent)",
    )
    add("--keep-rolling", **yes, help="finish all rollouts after a failed test")
    add("--return-test", **yes, help="also test the mean return of the rollouts")
    add(
        "--horizon",
        type=count(1),
        metavar="N",
        help="stages after which a discounted problem is cut (default: the theorem's)",
    )


def _of_paper(arguments: Namespace) -> dict[str, Any]:
    return {
        "norm": arguments.norm,
        "errata": edition(arguments),
        "sizes": arguments.sizes,
        "exact": bool(arguments.exact),
        "rule": _RULES[arguments.rule or "consistent"],
        "early_exit": not arguments.keep_rolling,
        "return_test": bool(arguments.return_test),
    }


def _refuse(arguments: Namespace, flags: tuple[str, ...], owner: str) -> None:
    """Refuse flags that belong to the other planner."""
    for flag in flags:
        if getattr(arguments, flag) is not None:
            shown = f"--{flag.replace('_', '-')}"
            raise SettingError(
                f"{shown} with --planner {arguments.planner}",
                f"it is a setting of the {owner} planner",
                f"Leave it out, or plan with --planner {owner}.",
            )


def _eta(text: str) -> float | str:
    try:
        return text if text == FITTED else float(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} must be a number or {FITTED!r}") from None


def _sizes(text: str) -> Sizes:
    parts = text.split(",")
    if len(parts) != len(fields(Sizes)):
        raise ArgumentTypeError(f"{text!r} must be three whole numbers, n1,n2,n3")
    return Sizes(*(count(1)(part) for part in parts))
