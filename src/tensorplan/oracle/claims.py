"""Claims that follow from the data: inequalities on theta, each with the cases that prove it."""

from __future__ import annotations

from dataclasses import dataclass

from tensorplan.records import FloatArray


@dataclass(frozen=True, eq=False)
class Case:
    """Why a claim holds where one action of a state is consistent.

    Attributes:
        rows: rows of the table.
        multipliers: theirs, in normal form.
        empty: whether they prove that nothing is left in this case.
        same: identical action whose case covers this one, if one does.
    """

    rows: tuple[int, ...] = ()
    multipliers: tuple[float, ...] = ()
    empty: bool = False
    same: int | None = None


@dataclass(frozen=True, eq=False)
class Claim:
    """sign <normal, theta> <= value for every allowed theta.

    Attributes:
        normal: [d].
        sign: 1 or -1.
        value: the bound.
        state: whose actions are told apart; None if there is a single case.
        cases: one for each action of the state, or a single one.
    """

    normal: FloatArray
    sign: int
    value: float
    state: int | None
    cases: tuple[Case, ...]
