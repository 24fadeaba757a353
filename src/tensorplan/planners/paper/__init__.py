"""The paper's planner: Algorithms 1 to 3, with every erratum switchable."""

from tensorplan.planners.paper.algorithm import PaperPlanner, PaperPolicy, PaperState
from tensorplan.planners.paper.claims import certify, uncovered
from tensorplan.planners.paper.iteration import Failure, TestRecord, select
from tensorplan.planners.paper.settings import (
    ONE_EACH,
    PaperSettings,
    Resolved,
    Rule,
    Sizes,
    paper_settings,
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
    "paper_settings",
    "resolve",
    "select",
    "uncovered",
]
