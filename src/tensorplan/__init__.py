"""TensorPlan: plan in a large Markov decision process from a simulator and linear features."""

from tensorplan import problems
from tensorplan.finite import from_table
from tensorplan.plan import Budget, Plan, plan
from tensorplan.problem import Simulator, from_functions
from tensorplan.records import Certificate, Spec, Status, Step

__all__ = [
    "Budget",
    "Certificate",
    "Plan",
    "Simulator",
    "Spec",
    "Status",
    "Step",
    "from_functions",
    "from_table",
    "plan",
    "problems",
]
