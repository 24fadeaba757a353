"""TensorPlan: plan in a large Markov decision process from a simulator and linear features."""

from tensorplan import adapters, problems, testing
from tensorplan.finite import from_table
from tensorplan.plan import Budget, Plan, diagnose, load, plan
from tensorplan.problem import Simulator, from_functions
from tensorplan.records import Certificate, Spec, Status, Step
from tensorplan.session_plan import SessionPlan, plan_session

__all__ = [
    "Budget",
    "Certificate",
    "Plan",
    "SessionPlan",
    "Simulator",
    "Spec",
    "Status",
    "Step",
    "adapters",
    "diagnose",
    "from_functions",
    "from_table",
    "load",
    "plan",
    "plan_session",
    "problems",
    "testing",
]
