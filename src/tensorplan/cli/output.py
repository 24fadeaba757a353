"""Everything that is printed, and how: text for people, JSON for programs.

Results go to standard output, progress and errors to standard error.
"""

from __future__ import annotations

import json
import math
import sys
import textwrap
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, redirect_stdout
from decimal import Decimal
from typing import Any, Final, cast

from tensorplan.theory import scientific

WIDTH: Final = 100
"""Columns of text; not the terminal's, so that the same run prints the same."""

_PLAIN_BELOW: Final = 1000
_LONGEST_INTEGER: Final = 4300
"""Digits of the longest integer that Python reads and writes."""


def emit(text: str) -> None:
    """Print a result."""
    print(text, flush=True)


def note(text: str) -> None:
    """Print progress or an error."""
    print(text, file=sys.stderr, flush=True)


def reserved(*, for_json: bool) -> AbstractContextManager[object]:
    """Keeps what a simulator may print off standard output while there must be JSON alone."""
    return redirect_stdout(sys.stderr) if for_json else nullcontext()


def watched() -> bool:
    """Whether somebody sits at a terminal and reads the progress."""
    return sys.stderr.isatty()


def emit_json(data: Mapping[str, Any]) -> None:
    """Print one JSON object.

    Integers are exact, however large, and other numbers the nearest doubles. Where JSON has no
    number, as for infinity, stands null; a finite number that no reader could hold (an exponent
    beyond a double's, an integer of more than 4300 digits) becomes a text, like "1.23e-400".
    """
    emit(json.dumps(plain(data), indent=2, allow_nan=False))


def plain(value: object) -> Any:  # noqa: ANN401 (any JSON value)
    """The value as JSON has it."""
    if isinstance(value, Mapping):
        pairs = cast("Mapping[object, object]", value).items()
        return {str(key): plain(item) for key, item in pairs}
    if isinstance(value, list | tuple):
        return [plain(item) for item in cast("Sequence[object]", value)]
    if isinstance(value, Decimal):
        return _plain_decimal(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, int) and abs(value) >= 10**_LONGEST_INTEGER:
        return scientific(value)
    return value


def short(value: float | Decimal | None) -> str:
    """A number of any size in a few characters: counts below 1000 as they are; 1.08e3."""
    if value is None:
        return "-"
    if isinstance(value, int) and abs(value) < _PLAIN_BELOW:
        return str(value)
    return scientific(value)


def number(value: float | None) -> str:
    """A number of a result: counts in full, values to six digits."""
    if value is None:
        return "none"
    return f"{value:,}" if isinstance(value, int) else f"{value:.6g}"


def settings_text(settings: Mapping[str, object]) -> str:
    """Settings on a line, as they are given on the command line."""
    return " ".join(f"{name}={setting_text(value)}" for name, value in settings.items()) or "none"


def setting_text(value: object) -> str:
    """A setting as it is given on the command line."""
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def labelled(pairs: Sequence[tuple[str, str]]) -> str:
    """Lines of a label and a wrapped text, the texts aligned; repeated labels stay blank."""
    margin = max(len(label) for label, _ in pairs) + 4
    lines: list[str] = []
    last = ""
    for label, text in pairs:
        head = "" if label == last else label
        wrapped = textwrap.wrap(text, WIDTH - margin) or [""]
        lines += [f"  {head:<{margin - 2}}{wrapped[0]}", *(" " * margin + w for w in wrapped[1:])]
        last = label
    return "\n".join(line.rstrip() for line in lines)


def table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as they need to be."""
    widths = [max(map(len, column)) for column in zip(headers, *rows, strict=True)]
    lines = (headers, ["-" * width for width in widths], *rows)
    return "\n".join(
        "  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def _plain_decimal(value: Decimal) -> float | str | None:
    if not value.is_finite():
        return None
    near = float(value)
    held = math.isfinite(near) and abs(near) >= sys.float_info.min
    return near if held or value == 0 else scientific(value)
