"""The planner on the paper's Appendix A oracle, and what that oracle must not answer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from paper_reference import Shape, best_of, failures_of, linear_process, plan, thetas_of
from test_paper import small_process

from tensorplan import problems
from tensorplan.errors import AccessError, QueryBudgetError, SettingError, SimulatorError
from tensorplan.finite import TableSimulator, from_table
from tensorplan.meter import QueryMeter
from tensorplan.oracle.slabs import SlabOracle
from tensorplan.plan import Budget
from tensorplan.planners.driver import drive
from tensorplan.planners.paper import PaperPlanner, PaperSettings, PaperState, Sizes
from tensorplan.planners.world import SessionWorld
from tensorplan.problem import Session, SessionData, Simulator, SimulatorSession
from tensorplan.records import Phase, Spec, Status
from tensorplan.session_plan import plan_session
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
        # A rejection asks the last failure again (F6); a session has to walk there first.
        walked = 0
        if made.status is Status.REJECTED:
            assert state.last_failure is not None
            walked = state.last_failure[0].stage - 1
        found = made.queries.by_phase
        assert asked.by_phase == {**found, "check": found["check"] + walked}
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


class Tiring(SimulatorSession):
    """Answers as before until it has been reset so many times; then something has changed."""

    def __init__(self, simulator: Simulator, resets: int, change: str) -> None:
        super().__init__(simulator)
        self.left, self.change = resets, change

    def reset(self) -> None:
        super().reset()
        self.left -= 1

    def data(self, draws: int) -> SessionData:
        told = super().data(draws)
        tired = self.left < 0 and self.change == "data"
        return replace(told, rewards=told.rewards / 2) if tired else told

    def forward(self, action: int) -> tuple[float, bool]:
        reward, ended = super().forward(action)
        return reward, ended or (self.left < 0 and self.change == "end")


class TestRejectedSessions:
    @staticmethod
    def hopeless() -> TableSimulator:
        """A process that nothing realizes, with a failure that was kept late in an episode."""
        for index in range(5, 60, 3):
            simulator, _ = small_process(index)
            made = plan(simulator, delta=0.2)
            failure = made.record.last_failure
            if made.status is Status.REJECTED and failure is not None and failure[0].stage > 2:
                spec = replace(simulator.spec, may_terminate=True)
                return TableSimulator(replace(simulator.process, spec=spec))
        raise AssertionError("no such process")

    @pytest.mark.parametrize("change", ["data", "end"])
    def test_the_last_failure_is_asked_again_on_the_way_that_led_to_it(self, change: str) -> None:
        steady = Tiring(self.hopeless(), 10**6, change)
        made = plan_session(steady, delta=0.2)
        assert made.status is Status.REJECTED
        assert made.queries.by_phase["check"] > 2
        assert "(the last failed test repeated it)" in str(made.certificate)
        resets = 10**6 - steady.left
        assert plan_session(Tiring(self.hopeless(), resets, change), delta=0.2).queries
        with pytest.raises(SimulatorError, match="two answers to one question"):
            plan_session(Tiring(self.hopeless(), resets - 1, change), delta=0.2)

    def test_nobody_acts_by_a_parameter_that_is_not_there(self) -> None:
        made = plan_session(SimulatorSession(self.hopeless()), delta=0.2)
        for act in (made.action, made.play):
            with pytest.raises(SettingError, match="a rejected plan: no parameter is left"):
                act()

    def test_means_of_many_equal_draws_are_compared_with_their_like(self) -> None:
        """The mean of 7 equal numbers need not be that number."""
        for index in range(5, 60, 3):
            simulator, delta = small_process(index)
            sizes = (1, 1, 7)
            status = plan(simulator, delta=delta, sizes=sizes).status
            session = SimulatorSession(simulator)
            assert plan_session(session, delta=delta, sizes=sizes).status is status


class TestDoors:
    def test_what_is_no_session_is_named(self) -> None:
        simulator: Any = small_process(0)[0]
        with pytest.raises(SettingError, match="a session has spec, reset, forward and data"):
            plan_session(simulator, delta=0.5)
        with pytest.raises(SettingError, match="an oracle has name, form, proved and maximise"):
            plan_session(SimulatorSession(simulator), delta=0.5, oracle=simulator)
        budget: Any = 100
        with pytest.raises(SettingError, match=r"budget=100.*Budget\(queries"):
            plan_session(SimulatorSession(simulator), delta=0.5, budget=budget)

    def test_the_theorems_own_sizes_cannot_be_afforded(self) -> None:
        simulator = problems.make("random-tabular", outcomes=3, states=5, horizon=3)
        with pytest.raises(SettingError, match="queries in a single iteration"):
            plan_session(SimulatorSession(simulator), delta=1.0)
        made = plan_session(SimulatorSession(simulator), delta=1.0, budget=Budget(queries=10**6))
        assert (made.status, made.queries.total) == (Status.BUDGET, 0)
        with pytest.raises(SettingError, match=r"an episode of .* queries"):
            made.play()


def masked_access() -> SessionAccess:
    """Two stages; action 1 is not available in state 0."""
    table: Any = [[[(1.0, 1, 0.5, False)], []], [[(1.0, 1, 0.5, False)]] * 2]
    spec = Spec(actions=2, dim=2, horizon=2, deterministic=True)
    return SessionAccess(Forgiving(from_table(table, np.eye(2), spec)))


class Forgiving(SimulatorSession):
    """Takes any action for action 0, and goes on after the end."""

    def forward(self, action: int) -> tuple[float, bool]:
        return super().forward(0)


class TestGuards:
    @pytest.mark.parametrize("action", [1, 17, -1, 0.0, "0"])
    def test_actions_are_numbers_of_available_ones(self, action: Any) -> None:
        access = masked_access()
        with pytest.raises(AccessError, match=r"at stage 1: the available actions are \[0\]"):
            access.forward(action, phase=Phase.FORWARD)
        assert access.meter.total == 0
        assert access.forward(0, phase=Phase.FORWARD) == (0.5, False)
        assert access.forward(1, phase=Phase.FORWARD) == (0.5, True)

    def test_nothing_is_asked_after_the_end(self) -> None:
        access = masked_access()
        for _ in range(2):
            access.forward(0, phase=Phase.FORWARD)
        with pytest.raises(AccessError, match=r"after 2 steps: the episode has ended.*reset\(\)"):
            access.forward(0, phase=Phase.FORWARD)
        with pytest.raises(AccessError, match="the episode has ended"):
            access.measure(1, phase=Phase.TEST)
        assert access.meter.total == 2
        access.reset()
        draws: Any = np.int64(2)
        assert access.measure(draws, phase=Phase.TEST).draws == 2

    @pytest.mark.parametrize("draws", [0, 1.5, "1"])
    def test_draws_are_a_count(self, draws: Any) -> None:
        with pytest.raises(AccessError, match="a whole number of draws"):
            masked_access().measure(draws, phase=Phase.TEST)
