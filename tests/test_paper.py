"""The paper's planner against the referee."""

from __future__ import annotations

import numpy as np
import pytest
from paper_reference import plan

from tensorplan import problems
from tensorplan.exact import best_realizable_value
from tensorplan.finite import TableSimulator
from tensorplan.plan import PaperPlan
from tensorplan.records import Status
from tensorplan.theory import failure_bound

KINDS = ("optimal", "suboptimal", "none")


def small_process(index: int) -> tuple[TableSimulator, float]:
    """A random deterministic process, every third one realizable by nothing, and a delta."""
    rng = np.random.default_rng([7, index])
    sim = problems.make(
        "random-tabular",
        states=int(rng.integers(3, 9)),
        actions=int(rng.integers(2, 4)),
        horizon=int(rng.integers(1, 5)),
        dim=int(rng.integers(2, 5)),
        seed=index,
        realizable=KINDS[index % 3],
    )
    assert isinstance(sim, TableSimulator)
    return sim, float(rng.uniform(0.05, 0.5))


def check_against_referee(sim: TableSimulator, delta: float, *, exact: bool) -> PaperPlan:
    """Everything that the theorem promises about one deterministic run."""
    bound = sim.spec.bound
    assert bound is not None
    best = best_realizable_value(sim.process, bound)
    made = plan(sim, delta=delta, exact=exact)
    failures = len(made.record.beliefs.states)
    realizable = best > -np.inf
    if exact:
        limit = failure_bound(sim.spec.dim, sim.spec.actions, realizable=realizable)
    else:
        limit = made.resolved.constants.eluder_bound + 1
    assert failures <= limit
    if made.status is not Status.CLEAN:
        assert made.status is Status.REJECTED
        assert not realizable
        return made
    value = float(made.play()[0])
    certificate = made.certificate
    assert certificate.lower == pytest.approx(value, abs=1e-12)
    assert certificate.upper is not None
    assert value >= best - delta
    assert certificate.upper >= best - 1e-9
    slack = 1e-6 if exact else delta / 4
    assert abs(value - made.value_predicted) <= slack + 1e-9
    return made


@pytest.mark.parametrize("exact", [False, True], ids=["thresholds", "exact"])
def test_two_hundred_processes_hold_what_the_theorem_promises(exact: bool) -> None:
    outcomes: dict[tuple[str, Status], int] = {}
    for index in range(200):
        sim, delta = small_process(index)
        made = check_against_referee(sim, delta, exact=exact)
        key = (KINDS[index % 3], made.status)
        outcomes[key] = outcomes.get(key, 0) + 1
    assert outcomes[("optimal", Status.CLEAN)] == 67
    assert outcomes[("suboptimal", Status.CLEAN)] == 67
    assert outcomes[("none", Status.REJECTED)] >= 10
