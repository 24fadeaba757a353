"""Settings of a planner by name: unknown ones are refused with the nearest."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from difflib import get_close_matches
from typing import Any

from tensorplan.errors import SettingError


def check_names(names: Iterable[str], settings: type[Any], owner: str) -> None:
    """Refuse names that are no fields of the settings of a planner.

    Args:
        names: as they were given.
        settings: the dataclass of its settings.
        owner: the planner, in words.
    """
    known = [field.name for field in fields(settings)]
    for name in names:
        if name not in known:
            near = get_close_matches(name, known, n=3) or known
            raise SettingError(
                f"setting {name!r}",
                f"{owner} has no such setting",
                f"Did you mean {' or '.join(map(repr, near))}?",
            )
