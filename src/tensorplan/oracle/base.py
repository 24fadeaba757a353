"""The question that every oracle answers, and the form of its answer."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from tensorplan.hypotheses import Hypotheses
from tensorplan.records import FloatArray


class OracleStatus(Enum):
    """How a search for the optimistic parameter ended."""

    OPTIMAL = "optimal"
    EMPTY = "empty"
    LIMIT = "limit"


@dataclass(frozen=True)
class Optimum:
    """The optimistic parameter and what is known about it.

    Attributes:
        status: EMPTY means that no parameter is left; LIMIT that the search was cut short.
        theta: [d]; after EMPTY, zeros; after LIMIT it need not be in the set.
        value: what theta predicts, <c, theta>; -inf after EMPTY. It is above ``upper`` where theta
            is not in the set, or in the newest slabs but not in those that they refine.
        upper: upper bound on <c, .> over the whole set, valid also after LIMIT.
        nodes: subproblems solved.
        expansions: splits made.
    """

    status: OracleStatus
    theta: FloatArray
    value: float
    upper: float
    nodes: int
    expansions: int = 0


class Oracle(Protocol):
    """Maximises a linear function over the believable set."""

    @property
    def name(self) -> str:
        """How it is chosen."""
        ...

    @property
    def form(self) -> str:
        """Which set it searches, in words for the output."""
        ...

    @property
    def proved(self) -> bool:
        """Whether its bounds and its emptiness are proved by multipliers, rounding included."""
        ...

    def maximise(self, objective: FloatArray, beliefs: Hypotheses) -> Optimum:
        """Maximise <objective, theta> over the set."""
        ...
