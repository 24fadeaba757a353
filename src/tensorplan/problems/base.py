"""What every family of problems is made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tensorplan.errors import SettingError
from tensorplan.finite import FiniteProcess, TableSimulator
from tensorplan.problem import Simulator
from tensorplan.records import FloatArray, IntArray

BOUND_ROOM: Final = 1.05
"""``Spec.bound`` is the norm of the known parameter times this, so that it is not tight."""


@dataclass(frozen=True)
class Family:
    """A family of problems that differ in their settings.

    Attributes:
        name: as given on the command line.
        summary: what it is, in a sentence.
        features: the formula of the features.
        realizable: which values are exactly linear in them, and how much they give away.
        build: makes a simulator; its keyword arguments are the settings, each with a default
            and an annotation (int, float, bool, str, a ``Literal``, or one of these or None).
        reference: takes the same settings; v*_1(start) from a closed form or an exact dynamic
            program, or None where neither is known.
    """

    name: str
    summary: str
    features: str
    realizable: str
    build: Callable[..., Simulator]
    reference: Callable[..., float | None]


class LinearTable(TableSimulator):
    """A finite process that knows its own linear values.

    Attributes:
        theta: [d], with <phi_h(s), theta> the value of ``policy`` at every reachable (s, h);
            None if there is no such parameter.
        policy: [H, S], the actions of that policy; None stands for an optimal one.
    """

    def __init__(
        self, process: FiniteProcess, theta: FloatArray | None, policy: IntArray | None = None
    ) -> None:
        super().__init__(process)
        self.theta = theta
        self.policy = policy


def require_at_least(least: int, **settings: int) -> None:
    """Refuse settings below ``least``."""
    for name, value in settings.items():
        if value < least:
            raise SettingError(
                f"{name}={value}",
                f"{name} must be at least {least}",
                f"Give a {name} of {least} or more.",
            )
