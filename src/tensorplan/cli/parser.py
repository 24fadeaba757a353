"""The parser of the command line, with help that shows examples and errors that offer names."""

from __future__ import annotations

import re
import textwrap
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Sequence
from importlib import metadata
from typing import Final, NoReturn

from tensorplan.cli import bounds, diagnose, plan, problems, verify
from tensorplan.cli.codes import EXIT_CODES
from tensorplan.cli.command import UsageError, nearest
from tensorplan.cli.output import WIDTH

COMMANDS: Final = (problems.COMMAND, plan.COMMAND, diagnose.COMMAND, bounds.COMMAND, verify.COMMAND)

_ABOUT: Final = """\
Plan in a large Markov decision process from a simulator and a few features of its states, with few
simulator calls, and with a certificate for every plan."""


def parse(argv: Sequence[str] | None) -> Namespace:
    """The arguments of a command; ``run`` is what it does."""
    parser = build_parser()
    arguments, unknown = parser.parse_known_args(argv)
    if unknown:
        arguments.parser.refuse(unknown)
    return arguments


def build_parser() -> Parser:
    """The parser of all commands."""
    examples = "\n  ".join(("examples:", *(command.examples[0] for command in COMMANDS)))
    parser = Parser(
        prog="tensorplan",
        description=_ABOUT,
        epilog=f"{examples}\n\n{EXIT_CODES}\n'tensorplan COMMAND --help' has more on each command.",
    )
    version = f"tensorplan {_version()}"
    parser.add_argument("--version", action="version", version=version)
    commands = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=Parser)
    for command in COMMANDS:
        own = commands.add_parser(
            command.name,
            help=command.summary,
            description=command.about,
            epilog=f"{command.epilog}\n\n{EXIT_CODES}",
        )
        command.add_arguments(own)
        own.set_defaults(run=command.run, parser=own)
    return parser


class Parser(ArgumentParser):
    """A parser that keeps the lines of its epilog and raises its errors.

    Args:
        prog: name of the program or the command.
        description: what it does.
        epilog: stands at the end of the help, as it is.
    """

    def __init__(self, prog: str, description: str, epilog: str) -> None:
        super().__init__(
            prog=prog,
            description=textwrap.fill(description, WIDTH),
            epilog=epilog,
            formatter_class=RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )

    def error(self, message: str) -> NoReturn:
        """Raise instead of leaving the program."""
        found = re.search(r"invalid choice: '?([^' ]*)'? \(choose from (.*)\)", message)
        hint = nearest(found[1], re.findall(r"[\w-]+", found[2])) if found else ""
        raise UsageError(f"{message}.{hint} See '{self.prog} --help'.")

    def refuse(self, unknown: Sequence[str]) -> NoReturn:
        """Raise for arguments that this command does not have."""
        first = unknown[0].partition("=")[0]
        hint = nearest(first, re.findall(r"--[a-z]+(?:-[a-z]+)*", self.format_usage()))
        raise UsageError(
            f"unrecognized arguments: {' '.join(unknown)}.{hint} See '{self.prog} --help'."
        )


def _version() -> str:
    try:
        return metadata.version("tensorplan")
    except metadata.PackageNotFoundError:
        return "(not installed, run from its source)"
