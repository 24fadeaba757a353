"""The command line: composes the library, prints what it says, and computes nothing itself."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from tensorplan.cli.codes import ExitCode
from tensorplan.cli.command import UsageError
from tensorplan.cli.output import note
from tensorplan.cli.parser import parse
from tensorplan.errors import TensorplanError

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: the arguments after the program's name; by default those of the process.

    Returns:
        The exit code, one of :class:`~tensorplan.cli.codes.ExitCode`.
    """
    try:
        return _run(argv)
    except (TensorplanError, UsageError) as error:
        note(f"error: {error}")
        return ExitCode.MISUSE
    except BrokenPipeError:
        # NOTE: Python flushes standard output once more on its way out, and would complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.PIPE_CLOSED
    except KeyboardInterrupt:
        note("interrupted")
        return ExitCode.INTERRUPTED


def _run(argv: Sequence[str] | None) -> int:
    try:
        arguments = parse(argv)
    except SystemExit as leaving:  # the way argparse ends after --help and --version
        return int(leaving.code or 0)
    return int(arguments.run(arguments))
