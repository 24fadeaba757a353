"""What goes wrong, told so that it can be put right.

Every error names three things: the offending value, the rule that it breaks, and the way out.
"""

from __future__ import annotations


class TensorplanError(ValueError):
    """Base of all errors of this package.

    Args:
        value: what was given, in a few words (for example ``"reward 3.2 of action 1"``).
        rule: the rule that it breaks.
        way_out: what to do about it.
    """

    def __init__(self, value: str, rule: str, way_out: str) -> None:
        super().__init__(f"{value}: {rule}. {way_out}")
        self.value = value
        self.rule = rule
        self.way_out = way_out

    def __reduce__(self) -> tuple[type[TensorplanError], tuple[str, str, str]]:
        """Rebuild from the three parts, so that errors survive a trip between processes."""
        return type(self), (self.value, self.rule, self.way_out)


class SettingError(TensorplanError):
    """A setting (of a problem, a planner or a theorem) is outside its range."""


class SimulatorError(TensorplanError):
    """A simulator broke its contract."""


class AccessError(TensorplanError):
    """A planner asked for something that local access does not give."""


class OracleError(TensorplanError):
    """The optimistic oracle could not be run, or could not answer."""


class QueryBudgetError(TensorplanError):
    """The next query would exceed the query budget."""
