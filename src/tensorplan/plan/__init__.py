"""``plan(simulator, delta=...)``: from a simulator to a plan that acts, with its certificate."""

from __future__ import annotations

from typing import Any, Literal, overload

from tensorplan.access import Access
from tensorplan.errors import SettingError
from tensorplan.meter import QueryMeter
from tensorplan.oracle import Oracle, OracleName
from tensorplan.plan.adaptive import AdaptivePlan, plan_adaptively
from tensorplan.plan.base import Budget, Plan, Watcher, check_door, chosen_oracle
from tensorplan.plan.diagnosis import Diagnosis
from tensorplan.plan.paper import PaperPlan, plan_by_paper
from tensorplan.plan.saved import LoadedPlan, load
from tensorplan.planners.adaptive import FITTED
from tensorplan.problem import Simulator
from tensorplan.records import whole

__all__ = [
    "AdaptivePlan",
    "Budget",
    "Diagnosis",
    "LoadedPlan",
    "PaperPlan",
    "Plan",
    "PlannerName",
    "Watcher",
    "diagnose",
    "load",
    "plan",
]

PlannerName = Literal["adaptive", "paper"]
"""Who plans: with data as they are needed, or line by line as the paper does."""


@overload
def plan(
    simulator: Simulator,
    *,
    delta: float,
    planner: Literal["paper"],
    start: object = None,
    seed: int = 0,
    oracle: OracleName | Oracle = "slabs",
    budget: Budget | None = None,
    watch: Watcher | None = None,
    **settings: Any,
) -> PaperPlan: ...


@overload
def plan(
    simulator: Simulator,
    *,
    delta: float,
    planner: Literal["adaptive"] = "adaptive",
    start: object = None,
    seed: int = 0,
    oracle: OracleName | Oracle = "slabs",
    budget: Budget | None = None,
    watch: Watcher | None = None,
    **settings: Any,
) -> AdaptivePlan: ...


@overload
def plan(
    simulator: Simulator,
    *,
    delta: float,
    planner: PlannerName,
    start: object = None,
    seed: int = 0,
    oracle: OracleName | Oracle = "slabs",
    budget: Budget | None = None,
    watch: Watcher | None = None,
    **settings: Any,
) -> Plan: ...


def plan(
    simulator: Simulator,
    *,
    delta: float,
    planner: PlannerName = "adaptive",
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
        planner: "adaptive", or "paper" for the paper's own.
        start: one state to plan from, at stage 1; by default the simulator's own start, drawn
            once if it is random.
        seed: of all random streams; the same seed gives the same plan, bit for bit.
        oracle: "slabs" searches a union of slabs, "product" the paper's own Sol by SCIP.
        budget: what may be spent.
        watch: is told of every iteration.
        settings: the other fields of the planner's settings,
            :class:`~tensorplan.planners.adaptive.AdaptiveSettings` or
            :class:`~tensorplan.planners.paper.PaperSettings`.
    """
    check_door(simulator, "a simulator", ("spec", "start", "step", "features"), _SIMULATOR_MAKERS)
    limits = Budget.of(budget)
    meter = QueryMeter(limits.queries, seconds=limits.seconds)
    number = _checked_seed(seed)
    access = Access(simulator, seed=number, meter=meter)
    here = access.start() if start is None else access.admit_one(start, 1)
    chosen = chosen_oracle(oracle)
    if planner == "paper":
        return plan_by_paper(access, here, chosen, limits, watch, delta=delta, **settings)
    if planner == "adaptive":
        own = None if oracle == "slabs" else chosen
        return plan_adaptively(access, here, own, watch, seed=number, delta=delta, **settings)
    raise SettingError(
        f"planner={planner!r}", "there is no such planner", "Use 'adaptive' or 'paper'."
    )


def diagnose(
    simulator: Simulator,
    *,
    delta: float,
    start: object = None,
    seed: int = 0,
    budget: Budget | None = None,
    watch: Watcher | None = None,
    **settings: Any,
) -> Diagnosis:
    """How badly the features fit the values of every policy, at least (theory F6).

    Data are taken by random rollouts and by an adaptive plan whose eta rises from 0 whenever the
    data refute it; all of them are then read again at other eta, without a query.

    Args:
        simulator: what to look at.
        delta: gap of the plan that takes the data; a smaller one takes more.
        start: one state to plan from, at stage 1.
        seed: of all random streams.
        budget: what may be spent.
        watch: is told of every iteration.
        settings: other fields of :class:`~tensorplan.planners.adaptive.AdaptiveSettings`.
    """
    asked: dict[str, Any] = {"explore": EXPLORED} | settings | {"misspecification": FITTED}
    made = plan(
        simulator,
        delta=delta,
        planner="adaptive",
        start=start,
        seed=seed,
        budget=budget,
        watch=watch,
        **asked,
    )
    return made.diagnose()


EXPLORED = 10
"""Random rollouts of a diagnosis, unless asked otherwise."""

_SIMULATOR_MAKERS = "Make one by tensorplan.from_functions, from_table or problems.make."


def _checked_seed(seed: object) -> int:
    number = whole(seed)
    if number is None:
        raise SettingError(f"seed={seed!r}", "a seed is a whole number of 0 or more", "Use 0.")
    return number
