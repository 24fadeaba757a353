"""Benchmark problems: ``make(name, **settings)`` builds one, ``names()`` lists them."""

from tensorplan.problems.base import Family, LinearTable
from tensorplan.problems.registry import defaults, family, make, names, parse, reference

__all__ = [
    "Family",
    "LinearTable",
    "defaults",
    "family",
    "make",
    "names",
    "parse",
    "reference",
]
