"""The planner on the paper's Appendix A oracle, and what that oracle must not answer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from paper_reference import Shape, best_of, failures_of, linear_process, thetas_of
from test_paper import small_process

from tensorplan import problems
from tensorplan.errors import QueryBudgetError, SimulatorError
from tensorplan.finite import TableSimulator
from tensorplan.meter import QueryMeter
from tensorplan.oracle.slabs import SlabOracle
from tensorplan.plan import plan
from tensorplan.planners.driver import drive
from tensorplan.planners.paper import PaperPlanner, PaperSettings, PaperState, Sizes
from tensorplan.planners.world import SessionWorld
from tensorplan.problem import Session, SessionData, Simulator, SimulatorSession
from tensorplan.records import Phase, Spec, Status
from tensorplan.sessions import SessionAccess
from tensorplan.testing import CountingSimulator


def run(session: Session, settings: PaperSettings, limit: int | None = None) -> Any:
    """A finished run over a session, and its access."""
    access = SessionAccess(session, meter=QueryMeter(limit))
    return drive(PaperPlanner(SessionWorld(access), settings, SlabOracle())), access


def session_over(simulator: Simulator) -> tuple[SimulatorSession, CountingSimulator]:
    """A session, and the simulator inside that counts."""
    counting = CountingSimulator(simulator)
    return SimulatorSession(counting), counting


class TestAgainstTheSimulator:
    @pytest.mark.parametrize("exact", [False, True])
    def test_deterministic_runs_are_the_same(self, exact: bool) -> None:
        statuses: set[Status] = set()
        for index in range(24):
            simulator, delta = small_process(index)
            statuses.add(self.check(simulator, PaperSettings(delta, exact=exact)))
        assert statuses == {Status.CLEAN, Status.REJECTED}

    @pytest.mark.parametrize("early_exit", [True, False])
    @pytest.mark.parametrize("sizes", [Sizes(1, 1, 1), Sizes(4, 2, 3)], ids=str)
    def test_with_masks_ends_and_several_rollouts(self, sizes: Sizes, early_exit: bool) -> None:
        for seed in range(6):
            process = linear_process(seed, Shape(actions=3, horizon=4, ends=0.2, masks=0.4))
            settings = PaperSettings(0.2, sizes=sizes, early_exit=early_exit)
            assert self.check(TableSimulator(process), settings) is Status.CLEAN

    def check(self, simulator: TableSimulator, settings: PaperSettings) -> Status:
        session, counting = session_over(simulator)
        state, access = run(session, settings)
        assert isinstance(state, PaperState)
        made = plan(
            simulator,
            delta=settings.delta,
            exact=settings.exact,
            sizes=settings.sizes,
            early_exit=settings.early_exit,
        )
        assert state.status is made.status
        assert [event.failed for event in state.events] == failures_of(made)
        found = np.array([event.theta for event in state.events])
        np.testing.assert_array_equal(found, thetas_of(made))
        asked = access.meter.read()
        assert counting.queries == asked.total
        if made.status is Status.CLEAN:
            assert asked == made.queries
        else:
            # A rejection asks the last failure again where the state can be revisited (F6).
            again = made.queries.by_phase["check"]
            assert again > asked.by_phase["check"] == 0
            assert asked.total == made.queries.total - again
        return made.status


def test_noisy_sessions_are_counted_and_learn() -> None:
    simulator = problems.make("random-tabular", outcomes=3, states=4, horizon=3, dim=2, seed=1)
    assert isinstance(simulator, TableSimulator)
    session, counting = session_over(simulator)
    state, access = run(session, PaperSettings(1.0, sizes=Sizes(10, 500, 20_000)))
    assert state.status is Status.CLEAN
    assert counting.queries == access.meter.total
    # 10 returns in [0, 3]: their mean is 1.5 below its expectation once in 80 million seeds.
    assert state.mean_return > best_of(simulator.process) - 1.0 - 1.5
    assert state.optimum.upper >= best_of(simulator.process)


def test_a_spent_budget_asks_nothing_more() -> None:
    simulator, delta = small_process(0)
    whole = plan(simulator, delta=delta)
    limit = whole.queries.total - 1
    session, counting = session_over(simulator)
    state, access = run(session, PaperSettings(delta), limit)
    assert state.status is Status.BUDGET
    assert state.events == whole.events[: len(state.events)]
    assert counting.queries == access.meter.total <= limit
    with pytest.raises(QueryBudgetError):
        access.measure(limit, phase=Phase.TEST)
    assert counting.queries == access.meter.total


class Bent:
    """A session that answers wrongly about one thing."""

    def __init__(self, session: SimulatorSession, change: dict[str, Any]) -> None:
        self._session = session
        self._change = dict(change)
        self._forward = self._change.pop("forward", None)

    @property
    def spec(self) -> Spec:
        return self._session.spec

    def reset(self) -> None:
        self._session.reset()

    def data(self, draws: int) -> SessionData:
        return replace(self._session.data(draws), **self._change)

    def forward(self, action: int) -> tuple[float, bool]:
        return self._forward or self._session.forward(action)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"features": np.array([0.9, 0.9, 0.9])}, "norm 1.55884573 at stage 1"),
        ({"features": np.zeros(4)}, r"features of shape \(1, 4\)"),
        ({"features": np.array([np.nan, 0, 0])}, "must be finite"),
        ({"rewards": np.full((2, 1), 1.5)}, "reward 1.5 at stage 1"),
        ({"rewards": np.full((2, 1), np.nan)}, "rewards must be finite"),
        ({"rewards": np.zeros((2, 2))}, r"rewards of shape \(2, 2\).*shape \(2, 1\)"),
        ({"rewards": np.zeros(2)}, r"rewards of shape \(2,\)"),
        ({"next_features": np.full((2, 1, 3), 0.9)}, "norm 1.55884573"),
        ({"next_features": np.zeros((2, 1, 4))}, r"next_features of shape \(2, 1, 4\)"),
        ({"next_features": np.zeros((2, 3, 1))}, r"next_features of shape \(2, 3, 1\)"),
        ({"allowed": np.zeros(2, np.bool_)}, "without any action"),
        ({"allowed": np.ones(3, np.bool_)}, r"mask of shape \(1, 3\)"),
        ({"allowed": np.ones(2)}, "dtype float64"),
        ({"forward": (1.5, False)}, "reward 1.5 at stage 1"),
        ({"forward": (0.5, True)}, "may_terminate=False"),
    ],
    ids=str,
)
def test_wrong_answers_are_refused(change: dict[str, Any], message: str) -> None:
    process = linear_process(0, Shape())
    session = SimulatorSession(TableSimulator(process))
    assert run(session, PaperSettings(0.2))[0].status is Status.CLEAN
    with pytest.raises(SimulatorError, match=message):
        run(Bent(session, change), PaperSettings(0.2))
