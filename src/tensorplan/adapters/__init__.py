"""Simulators made from simulators: the reductions of the paper."""

from tensorplan.adapters.conditions import Condition
from tensorplan.adapters.discounted import Truncated, truncation_horizon
from tensorplan.adapters.inaccurate import Inaccurate
from tensorplan.adapters.levelled import Levelled

__all__ = ["Condition", "Inaccurate", "Levelled", "Truncated", "truncation_horizon"]
