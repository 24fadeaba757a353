"""``tensorplan verify``: whether a proof file proves what it claims."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from dataclasses import asdict
from typing import Final

from tensorplan.checker import verify_file
from tensorplan.cli.codes import ExitCode
from tensorplan.cli.command import Command, UsageError
from tensorplan.cli.output import emit, emit_json, labelled


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("file", metavar="FILE", help="the proof file")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(arguments: Namespace) -> int:
    """Print the verdict."""
    try:
        verdict = verify_file(arguments.file)
    except OSError as error:
        raise UsageError(f"argument FILE: {error}.") from None
    if arguments.json:
        emit_json({"file": arguments.file} | asdict(verdict))
    else:
        emit(f"{arguments.file}\n{labelled(verdict.lines())}")
    return ExitCode.DONE if verdict.accepted else ExitCode.FALSE_PROOF


COMMAND: Final = Command(
    name="verify",
    summary="check a proof file",
    about="Checks a proof file in exact arithmetic and without trusting the search that wrote it: "
    "that every parameter that its data allow predicts at most the claimed value, or that no "
    "parameter is allowed. It also says up to which bound on the parameter's norm this holds. A "
    "proof that is false, damaged or cut is rejected, with the place where it breaks.",
    examples=(
        "tensorplan verify proof.json",
        "tensorplan verify proof.json --json",
    ),
    add_arguments=add_arguments,
    run=run,
)
