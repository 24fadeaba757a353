"""The conformance kit: does a simulator keep its contract?

``check_simulator(simulator).raise_if_broken()`` in a project's own tests is all it takes. The
wrappers count or record what a planner asks of a simulator.
"""

from tensorplan.testing.contract import check_simulator
from tensorplan.testing.reports import Finding, Report, Verdict
from tensorplan.testing.sessions import check_session
from tensorplan.testing.wrappers import Call, CountingSimulator, RecordingSimulator

__all__ = [
    "Call",
    "CountingSimulator",
    "Finding",
    "RecordingSimulator",
    "Report",
    "Verdict",
    "check_session",
    "check_simulator",
]
