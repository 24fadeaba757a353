"""Settings of a family: the keyword arguments of its ``build``, read, checked and converted."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from types import NoneType, UnionType
from typing import Any, Final, Literal, Union, cast, get_args, get_origin

import numpy as np

from tensorplan.errors import SettingError
from tensorplan.problem import Simulator

Value = int | float | bool | str | None
"""What a setting can be."""

_TRUTH: Final = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_WORDS: Final = {
    int: "an integer",
    float: "a finite number",
    bool: "true or false",
    str: "a text",
}


@dataclass(frozen=True)
class Setting:
    """One keyword argument of a family.

    Attributes:
        name: of the argument.
        default: its default.
        kind: int, float, bool or str.
        optional: whether None is a value.
        options: the values allowed by a ``Literal``; empty if any value of the kind will do.
    """

    name: str
    default: Value
    kind: type[int] | type[float] | type[bool] | type[str]
    optional: bool
    options: tuple[Value, ...] = ()

    @property
    def rule(self) -> str:
        """What a value must be, in words."""
        words = " or ".join(map(repr, self.options)) if self.options else _WORDS[self.kind]
        return f"{words}, or none" if self.optional else words

    def read(self, text: str) -> Value:
        """The value that a text of the command line stands for."""
        stripped = text.strip()
        if self.optional and stripped.lower() == "none":
            return None
        if self.kind is bool:
            return self.check(_TRUTH.get(stripped.lower(), text))
        try:
            value = self.kind(stripped)
        except ValueError:
            raise self._refusal(text) from None
        return self.check(value)

    def check(self, value: object) -> Value:
        """The value itself in its plain type, or an error."""
        if value is None and self.optional:
            return None
        plain = self._plain(value)
        infinite = isinstance(plain, float) and not math.isfinite(plain)
        if plain is None or infinite or (self.options and plain not in self.options):
            raise self._refusal(value)
        return plain

    def _plain(self, value: object) -> Value:
        """The value in the kind of the setting, or None if it is of another kind."""
        scalar: object = (
            cast("np.generic[Any]", value).item() if isinstance(value, np.generic) else value
        )
        if self.kind is float and type(scalar) is int:
            return float(scalar)
        # NOTE: a bool is an instance of int, hence the exact type.
        return scalar if isinstance(scalar, self.kind) and type(scalar) is self.kind else None

    def _refusal(self, value: object) -> SettingError:
        return SettingError(
            f"{self.name}={value!r}",
            f"{self.name} must be {self.rule}",
            f"The default is {self.name}={self.default!r}.",
        )


def settings_of(build: Callable[..., Simulator]) -> dict[str, Setting]:
    """The settings of a family, by name, in the order of its arguments."""
    parameters = inspect.signature(build, eval_str=True).parameters.values()
    return {each.name: _setting(each) for each in parameters}


def known(settings: Iterable[str], all_settings: Mapping[str, Setting], family: str) -> None:
    """Refuse names that are no settings of a family; offer the nearest ones."""
    for name in settings:
        if name not in all_settings:
            raise unknown(f"setting {name!r}", name, all_settings, f"of {family}")


def unknown(value: str, name: str, candidates: Iterable[str], whose: str) -> SettingError:
    """The error for a name that does not exist, with the nearest ones that do."""
    choices = list(candidates)
    nearest = get_close_matches(name, choices, n=3, cutoff=0.5)
    way_out = (
        f"Did you mean {' or '.join(map(repr, nearest))}?"
        if nearest
        else f"Choose among {', '.join(choices) or 'none: it has no settings'}."
    )
    return SettingError(value, f"there is no such name among those {whose}", way_out)


def _setting(parameter: inspect.Parameter) -> Setting:
    if parameter.default is inspect.Parameter.empty:
        raise TypeError(f"setting {parameter.name!r} has no default")
    annotation: Any = parameter.annotation
    union = get_origin(annotation) in (Union, UnionType)
    members: list[Any] = list(get_args(annotation)) if union else [annotation]
    kinds: list[Any] = [member for member in members if member is not NoneType]
    options: tuple[Any, ...] = ()
    if len(kinds) == 1 and get_origin(kinds[0]) is Literal:
        options = get_args(kinds[0])
        kinds = [type(options[0])]
    if len(kinds) != 1 or kinds[0] not in _WORDS:
        raise TypeError(f"setting {parameter.name!r} has an unreadable annotation {annotation!r}")
    return Setting(parameter.name, parameter.default, kinds[0], NoneType in members, options)
