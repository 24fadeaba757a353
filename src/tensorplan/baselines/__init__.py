"""Opponents: local planners without a guarantee."""

from tensorplan.baselines.lookahead import Lookahead
from tensorplan.baselines.memory import Memory
from tensorplan.baselines.protocol import LocalPlanner
from tensorplan.baselines.uniform import Uniform

__all__ = ["LocalPlanner", "Lookahead", "Memory", "Uniform"]
