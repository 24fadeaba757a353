"""What the exit code of a command says."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from tensorplan.records import Status


class ExitCode(IntEnum):
    """Exit codes. Python ends with 1 too, after a crash with its traceback."""

    DONE = 0
    FALSE_PROOF = 1
    MISUSE = 2
    REJECTED = 3
    UNFINISHED = 4
    ORACLE_GAP = 5
    INTERRUPTED = 130
    PIPE_CLOSED = 141


EXIT_CODES: Final = """\
exit codes:
  0    done; a plan ended clean or certified (or assumed, where eta was to be fitted), a proof was
       accepted
  1    a proof is false or damaged (the reason is printed); or a crash, in the package or in code
       of yours, with a traceback
  2    misuse: a wrong argument, setting or simulator, a file that cannot be read
  3    rejected: no parameter is left (the result is printed)
  4    the budget ended first, or the run was cancelled (likewise)
  5    oracle-gap: the oracle stopped at its limit (likewise)
  130  interrupted by Ctrl-C
  141  nobody reads the output any more, as after "| head"
"""

_OF_STATUS: Final = {
    Status.CERTIFIED: ExitCode.DONE,
    Status.ASSUMED: ExitCode.DONE,
    Status.CLEAN: ExitCode.DONE,
    Status.BUDGET: ExitCode.UNFINISHED,
    Status.CANCELLED: ExitCode.UNFINISHED,
    Status.REJECTED: ExitCode.REJECTED,
    Status.ORACLE_GAP: ExitCode.ORACLE_GAP,
}


def exit_code(status: Status) -> ExitCode:
    """The exit code for how a run ended."""
    return _OF_STATUS[status]
