"""The families of problems, by name."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Any, Final

from tensorplan.problem import Simulator
from tensorplan.problems.base import Family
from tensorplan.problems.settings import Value, known, settings_of, unknown

_MODULES: Final = (
    "aggregated",
    "asset_selling",
    "bermudan_put",
    "combination_lock",
    "counterexample",
    "deep_sea",
    "frozen_lake",
    "gambler",
    "hidden_linear",
    "lower_bound",
    "random_tabular",
    "river_swim",
)
"""Modules of this package that define a ``FAMILY``: a new family is one more line here.

They are imported when a family is first asked for, so that importing the package stays quick.
"""


def names() -> tuple[str, ...]:
    """Names of all families, in alphabetical order."""
    return tuple(_families())


def family(name: str) -> Family:
    """The family of a name."""
    families = _families()
    if name not in families:
        raise unknown(f"problem {name!r}", name, families, "of the problems")
    return families[name]


def defaults(name: str) -> dict[str, Value]:
    """The settings of a family with their defaults."""
    return {key: each.default for key, each in settings_of(family(name).build).items()}


def parse(name: str, texts: Mapping[str, str]) -> dict[str, Value]:
    """Settings from texts, such as the command line's ``--set size=20``."""
    settings = settings_of(family(name).build)
    known(texts, settings, name)
    return {key: settings[key].read(text) for key, text in texts.items()}


def make(name: str, **settings: Any) -> Simulator:
    """Build a problem.

    Args:
        name: of the family.
        **settings: those that differ from the defaults.
    """
    return family(name).build(**_checked(name, settings))


def reference(name: str, **settings: Any) -> float | None:
    """The reference value v*_1(start) of a problem, or None where none is known."""
    return family(name).reference(**_checked(name, settings))


def _checked(name: str, values: Mapping[str, object]) -> dict[str, Value]:
    settings = settings_of(family(name).build)
    known(values, settings, name)
    return {key: settings[key].check(value) for key, value in values.items()}


@cache
def _families() -> dict[str, Family]:
    modules = [import_module(f"tensorplan.problems.{module}") for module in _MODULES]
    found: list[Family] = [module.FAMILY for module in modules]
    return {each.name: each for each in sorted(found, key=lambda each: each.name)}
