"""The paper's planner: Algorithms 1 to 3, with every erratum switchable."""

from tensorplan.planners.paper.algorithm import (
    Failure,
    PaperPlanner,
    PaperPolicy,
    PaperState,
    TestRecord,
    select,
)
from tensorplan.planners.paper.claims import certify, uncovered
from tensorplan.planners.paper.settings import (
    ONE_EACH,
    PaperSettings,
    Resolved,
    Rule,
    Sizes,
    resolve,
)

__all__ = [
    "ONE_EACH",
    "Failure",
    "PaperPlanner",
    "PaperPolicy",
    "PaperSettings",
    "PaperState",
    "Resolved",
    "Rule",
    "Sizes",
    "TestRecord",
    "certify",
    "resolve",
    "select",
    "uncovered",
]
