"""``tensorplan problems``: the families of benchmark problems, and what each is made of."""

from __future__ import annotations

import inspect
from argparse import ArgumentParser, Namespace
from typing import Any, Final

from tensorplan import problems
from tensorplan.cli.codes import ExitCode
from tensorplan.cli.command import Command
from tensorplan.cli.output import (
    emit,
    emit_json,
    labelled,
    number,
    setting_text,
    settings_text,
    table,
)
from tensorplan.problems.settings import Setting, settings_of


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="show this one in full")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(arguments: Namespace) -> int:
    """Print all families, or one of them."""
    name: str | None = arguments.name
    if arguments.json:
        every = [_data(each) for each in problems.names()] if name is None else []
        emit_json({"problems": every} if name is None else _data(name))
    elif name is None:
        emit("\n\n".join(_brief(each) for each in problems.names()))
    else:
        emit(_details(name))
    return ExitCode.DONE


def _data(name: str) -> dict[str, Any]:
    family = problems.family(name)
    return {
        "name": name,
        "summary": family.summary,
        "features": family.features,
        "realizable": family.realizable,
        "reference": problems.reference(name),
        "settings": {key: _setting(each) for key, each in settings_of(family.build).items()},
    }


def _setting(setting: Setting) -> dict[str, Any]:
    return {
        "default": setting.default,
        "type": setting.kind.__name__,
        "optional": setting.optional,
        "options": setting.options,
    }


def _brief(name: str) -> str:
    family = problems.family(name)
    lines = labelled(
        [
            ("summary", family.summary),
            ("settings", settings_text(problems.defaults(name))),
            ("realizable", family.realizable),
            ("reference", _reference(name)),
        ]
    )
    return f"{name}\n{lines}"


def _details(name: str) -> str:
    family = problems.family(name)
    lines = labelled(
        [
            ("summary", family.summary),
            ("features", family.features),
            ("realizable", family.realizable),
            ("reference", f"{_reference(name)} at the defaults"),
        ]
    )
    rows = [
        (each.name, setting_text(each.default), each.rule)
        for each in settings_of(family.build).values()
    ]
    settings = table(("setting", "default", "must be"), rows) if rows else "It has no settings."
    about = inspect.getdoc(family.build) or ""
    return "\n\n".join(part for part in (name + "\n" + lines, settings, about) if part)


def _reference(name: str) -> str:
    value = problems.reference(name)
    return "unknown" if value is None else f"optimal value {number(value)}"


COMMAND: Final = Command(
    name="problems",
    summary="the benchmark problems",
    about="The families of benchmark problems: their settings, what is exactly linear in their "
    "features, and the optimal value at the start where it is known. With NAME, one in full.",
    examples=(
        "tensorplan problems",
        "tensorplan problems deep-sea",
        "tensorplan problems --json",
    ),
    add_arguments=add_arguments,
    run=run,
)
