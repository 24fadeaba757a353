"""What a command is made of, and how its arguments are read."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

_SHOWN: Final = 40
"""Most characters of a wrong argument that an error repeats."""


class UsageError(Exception):
    """The arguments cannot be understood."""


@dataclass(frozen=True)
class Command:
    """One command.

    Attributes:
        name: what is typed.
        summary: what it does, in a line.
        about: the same at more length, for its own help.
        examples: lines of a shell, each an example.
        add_arguments: declares its arguments.
        run: does it; returns the exit code.
    """

    name: str
    summary: str
    about: str
    examples: tuple[str, ...]
    add_arguments: Callable[[ArgumentParser], None]
    run: Callable[[Namespace], int]

    @property
    def epilog(self) -> str:
        """The examples, for the help."""
        return "\n  ".join(("examples:", *self.examples))


def count(least: int) -> Callable[[str], int]:
    """A reader of whole numbers from ``least`` on; 1e6 and 1_000_000 are a million."""

    def read(text: str) -> int:
        number = _whole(text)
        if number is None or number < least:
            raise ArgumentTypeError(f"{text[:_SHOWN]!r} must be a whole number of at least {least}")
        return number

    return read


def assignment(text: str) -> tuple[str, str]:
    """A setting, ``name=value``."""
    name, equals, value = text.partition("=")
    if not (name.strip() and equals):
        raise ArgumentTypeError(f"{text[:_SHOWN]!r} must be of the form name=value")
    return name.strip().replace("-", "_"), value


def add_problem(parser: ArgumentParser) -> None:
    """Declare the problem and its settings."""
    parser.add_argument(
        "problem",
        metavar="PROBLEM",
        help="a name from 'tensorplan problems', or module:factory or path.py:factory of yours",
    )
    parser.add_argument(
        "--set",
        type=assignment,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting of the problem; may be repeated",
    )


def unique(pairs: list[tuple[str, str]]) -> dict[str, str]:
    """Settings by name, each given once."""
    found: dict[str, str] = {}
    for name, value in pairs:
        if name in found:
            raise UsageError(f"argument --set: {name} is given twice, as {found[name]} and {value}")
        found[name] = value
    return found


def nearest(name: str, candidates: list[str]) -> str:
    """A question that offers the nearest names; empty if there are none."""
    close = get_close_matches(name, candidates, n=3, cutoff=0.6)
    return f" Did you mean {' or '.join(map(repr, close))}?" if close else ""


def _whole(text: str) -> int | None:
    """The whole number that a text stands for, or None."""
    try:
        return int(text)
    except ValueError:
        pass
    try:
        number = float(text)
    except ValueError:
        return None
    return int(number) if number.is_integer() else None
