"""The referee: exact answers about finite processes, to hold every planner against."""

from tensorplan.exact.claims import (
    Soundness,
    best_realizable,
    best_realizable_value,
    realizable_policies,
    soundness,
)
from tensorplan.exact.fit import Fit, best_linear_fit
from tensorplan.exact.lemmas import (
    deviation_at,
    eluder_violations,
    measured_at,
    measured_in_any_direction,
    retained,
    rollout_average,
    telescoped,
    uniform_deviation,
)
from tensorplan.exact.policies import occupancy, reachable
from tensorplan.exact.realized import RealizablePolicy, realized
from tensorplan.exact.records import (
    Check,
    EluderViolation,
    RecordedRollout,
    RecordedRun,
    RecordedTest,
)
from tensorplan.exact.rows import exact_rows, value_identity
from tensorplan.exact.tensors import independent_tensors, symmetric_tensor, tensor_rank
from tensorplan.exact.values import Evaluation, Solution, evaluate, solve, start_value

__all__ = [
    "Check",
    "EluderViolation",
    "Evaluation",
    "Fit",
    "RealizablePolicy",
    "RecordedRollout",
    "RecordedRun",
    "RecordedTest",
    "Solution",
    "Soundness",
    "best_linear_fit",
    "best_realizable",
    "best_realizable_value",
    "deviation_at",
    "eluder_violations",
    "evaluate",
    "exact_rows",
    "independent_tensors",
    "measured_at",
    "measured_in_any_direction",
    "occupancy",
    "reachable",
    "realizable_policies",
    "realized",
    "retained",
    "rollout_average",
    "solve",
    "soundness",
    "start_value",
    "symmetric_tensor",
    "telescoped",
    "tensor_rank",
    "uniform_deviation",
    "value_identity",
]
