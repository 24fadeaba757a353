"""``plan(simulator, delta=...)``: from a simulator to a plan that acts, with its certificate."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, cast

import numpy as np

from tensorplan.access import Access
from tensorplan.errors import SettingError
from tensorplan.local import Handle
from tensorplan.meter import QueryMeter
from tensorplan.oracle import Oracle, OracleName, make_oracle
from tensorplan.planners.driver import drive
from tensorplan.planners.paper import (
    PaperPlanner,
    PaperPolicy,
    PaperState,
    Resolved,
    certify,
    paper_settings,
)
from tensorplan.planners.world import SimulatorWorld
from tensorplan.problem import Simulator
from tensorplan.records import (
    Certificate,
    FloatArray,
    IterationEvent,
    Phase,
    Queries,
    Status,
    real,
    settle,
    whole,
)

Watcher = Callable[[IterationEvent], bool | None]
"""Is told of every iteration as it ends; the run is cancelled when it returns False."""


@dataclass(frozen=True)
class Budget:
    """What a run may spend.

    Attributes:
        queries: most queries in all, or None.
        seconds: no query is made after these, or None.
    """

    queries: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        """Refuse limits that are none."""
        seconds = real(self.seconds, 0, math.inf)
        settle(self, "queries", whole(self.queries), "a whole number of 0 or more", optional=True)
        settle(self, "seconds", seconds, "a number of 0 or more", optional=True)

    @staticmethod
    def of(given: Budget | None) -> Budget:
        """The budget given, or one without limits."""
        if given is not None and not isinstance(cast("object", given), Budget):
            raise SettingError(
                f"budget={given!r}",
                "a budget says what it limits: queries, seconds or both",
                "Pass budget=Budget(queries=...) or Budget(seconds=...).",
            )
        return given or Budget()


MOST_UNASKED = 10**10
"""Queries of one iteration beyond which a run wants a budget, and of one played episode."""


class Plan:
    """A planned policy: what it is worth, and what it does.

    Made by :func:`plan`. Acting asks the simulator further queries, as the paper's GetAction
    does; they are counted under ``act``.
    """

    def __init__(
        self, access: Access, start: Handle, resolved: Resolved, state: PaperState, oracle: Oracle
    ) -> None:
        self._access, self._start, self._state = access, start, state
        self._policy = PaperPolicy(access.local, self.theta, resolved)
        self._acts = self._episodes = 0
        self.resolved = resolved
        self.oracle = oracle.name
        self.certificate: Certificate = certify(resolved, access.spec, state, oracle)

    @property
    def status(self) -> Status:
        """How planning ended."""
        return self._state.status or Status.CANCELLED

    @property
    def theta(self) -> FloatArray:
        """The parameter that the plan follows: [d]; zeros if none is left."""
        optimum = self._state.optimum
        return np.zeros(self._access.spec.dim) if optimum is None else optimum.theta

    @property
    def value_predicted(self) -> float:
        """What theta predicts at the start; -inf if no parameter is left."""
        if self.status is Status.REJECTED:
            return -math.inf
        return float(self._access.features(self._start)[0] @ self.theta)

    @property
    def events(self) -> tuple[IterationEvent, ...]:
        """One for each iteration."""
        return self._state.events

    @property
    def record(self) -> PaperState:
        """All that the planner knew at the end, for the referee."""
        return self._state

    @property
    def access(self) -> Access:
        """The door to the simulator, with its meter."""
        return self._access

    @property
    def queries(self) -> Queries:
        """All queries so far, those of acting included."""
        return self._access.meter.read()

    def action(self, state: object, stage: int = 1) -> int:
        """The action for one state at a stage (the paper's GetAction)."""
        return self._act(self._access.admit_one(state, stage), stage)

    def play(self, episodes: int = 1, *, most_queries: int | None = 10**7) -> FloatArray:
        """Play episodes from the planned start state; return what each collected: [episodes].

        The first one continues the episode of planning, so the meter's ``per_episode`` is the
        paper's per-episode query-cost.

        Args:
            episodes: how many.
            most_queries: an episode that would cost more is refused; None allows any.
        """
        check_play(self.resolved, most_queries)
        if whole(episodes) is None:
            raise SettingError(
                f"episodes={episodes!r}", "episodes are a whole number of 0 or more", "Play 1."
            )
        returns = np.zeros(episodes)
        for episode in range(episodes):
            if self._episodes:
                self._access.new_episode()
            self._episodes += 1
            returns[episode] = self._play_once()
        return returns

    def __str__(self) -> str:
        """How planning ended, in a few lines."""
        head = f"{self.status.value} plan after {self.queries.total} queries"
        return f"{head}, predicted {self.value_predicted:.6g}\n{self.certificate}"

    def summary(self) -> dict[str, Any]:
        """Everything a reader of results needs, as plain data."""
        certificate = asdict(self.certificate) | {"gap": self.certificate.gap}
        queries = self.queries
        return {
            "status": self.status.value,
            "certificate": certificate,
            "queries": {"total": queries.total, **queries.by_phase},
            "queries_per_episode": queries.per_episode,
            "queries_per_call": queries.per_call,
            "iterations": self._state.iteration,
            "failures": len(self._state.beliefs.states),
            "value_predicted": self.value_predicted,
            "theta": self.theta.tolist(),
            "oracle": self.oracle,
            "nodes": self._state.nodes,
            "sizes": asdict(self.resolved.sizes),
        }

    def _act(self, here: Handle, stage: int) -> int:
        check_usable(self.status)
        # The first call of GetAction is the one that planned (Algorithm 1, line 2).
        if self._acts:
            self._access.meter.new_call()
        self._acts += 1
        return int(self._policy.actions(here, stage, (self._acts,))[0])

    def _play_once(self) -> float:
        here, total = self._start, 0.0
        while True:
            stage = here.stage
            action = np.array([self._act(here, stage)])
            moved = self._access.advance(here, stage, action, phase=Phase.PLAY, key=(self._acts,))
            total += float(moved.rewards[0])
            if moved.terminated[0]:
                return total
            here = moved.states


def plan(
    simulator: Simulator,
    *,
    delta: float,
    start: object = None,
    seed: int = 0,
    oracle: OracleName | Oracle = "slabs",
    budget: Budget | None = None,
    watch: Watcher | None = None,
    **settings: Any,
) -> Plan:
    """Plan from a simulator's start state.

    Args:
        simulator: what to plan in.
        delta: how far below the best realizable policy the plan may be.
        start: one state to plan from, at stage 1; by default the simulator's own start, drawn
            once if it is random.
        seed: of all random streams; the same seed gives the same plan, bit for bit.
        oracle: "slabs" searches a union of slabs, "product" the paper's own Sol by SCIP.
        budget: what may be spent.
        watch: is told of every iteration.
        settings: the other fields of :class:`~tensorplan.planners.paper.PaperSettings`.
    """
    check_door(simulator, "a simulator", ("spec", "start", "step", "features"), _SIMULATOR_MAKERS)
    limits = Budget.of(budget)
    meter = QueryMeter(limits.queries, seconds=limits.seconds)
    access = Access(simulator, seed=_checked_seed(seed), meter=meter)
    here = access.start() if start is None else access.admit_one(start, 1)
    chosen = chosen_oracle(oracle)
    planner = PaperPlanner(
        SimulatorWorld(access.local, here), paper_settings(delta, **settings), chosen
    )
    check_cost(planner.resolved, limits)
    state = drive(planner, watch=_watcher(watch))
    access.meter.lift_limit()
    return Plan(access, here, planner.resolved, state, chosen)


_SIMULATOR_MAKERS = "Make one by tensorplan.from_functions, from_table or problems.make."


def check_door(given: object, kind: str, names: tuple[str, ...], way_out: str) -> None:
    """Say what a simulator or a session is before something deeper fails."""
    if not all(hasattr(given, name) for name in names):
        *others, last = names
        rule = f"{kind} has {', '.join(others)} and {last}"
        raise SettingError(f"{kind} of type {type(given).__name__}", rule, way_out)


def chosen_oracle(oracle: OracleName | Oracle) -> Oracle:
    """The oracle itself, or the one of a name."""
    if isinstance(oracle, str):
        return make_oracle(oracle)
    check_door(oracle, "an oracle", ("name", "form", "proved", "maximise"), "Use oracle='slabs'.")
    return oracle


def check_usable(status: Status) -> None:
    """Refuse to act by a plan that has no parameter."""
    if status is Status.REJECTED:
        raise SettingError(
            "a rejected plan", "no parameter is left to act by", Status.REJECTED.advice
        )


def check_play(resolved: Resolved, most_queries: int | None) -> None:
    """Refuse an episode that costs more than was meant."""
    one = resolved.horizon * resolved.constants.setting.actions * resolved.sizes.test_draws
    if most_queries is not None and one > most_queries:
        raise SettingError(
            f"an episode of {one:.3g} queries",
            f"playing one may cost {most_queries:.3g}, as every action is tested afresh",
            "Plan with smaller sizes=, or pass most_queries=None.",
        )


def _checked_seed(seed: object) -> int:
    number = whole(seed)
    if number is None:
        raise SettingError(f"seed={seed!r}", "a seed is a whole number of 0 or more", "Use 0.")
    return number


def check_cost(resolved: Resolved, limits: Budget) -> None:
    """The theorem's sizes are astronomical for a stochastic simulator: nobody means to wait."""
    sizes, actions = resolved.sizes, resolved.constants.setting.actions
    one = sizes.rollouts * resolved.horizon * actions * sizes.test_draws
    if limits.queries is None and limits.seconds is None and one > MOST_UNASKED:
        raise SettingError(
            f"{one:.3g} queries in a single iteration",
            "the theorem's sample sizes for this stochastic simulator end in no lifetime",
            "Give sizes of your own (sizes=(n1, n2, n3), --sizes n1,n2,n3; no theorem covers "
            "those), a budget (budget=Budget(...), --budget-queries, --budget-seconds), or declare "
            "the Spec deterministic if that is what it is.",
        )


def _watcher(watch: Watcher | None) -> Callable[[PaperState], bool]:
    def go_on(state: PaperState) -> bool:
        return watch is None or not state.events or watch(state.events[-1]) is not False

    return go_on
