"""``plan(simulator, delta=...)``: from a simulator to a plan that acts, with its certificate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from difflib import get_close_matches
from typing import Any, Literal

import numpy as np

from tensorplan.access import Access, Handle, QueryMeter
from tensorplan.errors import SettingError
from tensorplan.oracle.base import Oracle
from tensorplan.oracle.scip import ScipOracle
from tensorplan.oracle.slabs import SlabOracle
from tensorplan.planners.driver import drive
from tensorplan.planners.paper import (
    PaperPlanner,
    PaperPolicy,
    PaperSettings,
    PaperState,
    Resolved,
    certify,
)
from tensorplan.planners.world import SimulatorWorld
from tensorplan.problem import Simulator
from tensorplan.records import (
    Certificate,
    FloatArray,
    IterationEvent,
    Phase,
    Queries,
    States,
    Status,
)

PlannerName = Literal["paper"]
OracleName = Literal["slabs", "product"]

Watcher = Callable[[IterationEvent], None]
"""Is told of every iteration as it ends."""


@dataclass(frozen=True)
class Budget:
    """What a run may spend.

    Attributes:
        queries: most queries in all, or None.
        seconds: no query is made after these, or None.
    """

    queries: int | None = None
    seconds: float | None = None


class Plan:
    """A planned policy: what it is worth, and what it does.

    Made by :func:`plan`. Acting asks the simulator further queries, as the paper's GetAction
    does; they are counted under ``act``.
    """

    def __init__(
        self, access: Access, start: Handle, resolved: Resolved, state: PaperState, oracle: Oracle
    ) -> None:
        self._access, self._start, self._state = access, start, state
        self._policy = PaperPolicy(access, self.theta, resolved)
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
        """What theta predicts at the start."""
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

    def action(self, state: States, stage: int = 1) -> int:
        """The action for one state at a stage (the paper's GetAction)."""
        here = self._access.admit(np.asarray(state)[None], stage)
        return self._act(here, stage)

    def play(self, episodes: int = 1) -> FloatArray:
        """Play episodes from the planned start state; return what each collected: [episodes].

        The first one continues the episode of planning, so the meter's ``per_episode`` is the
        paper's per-episode query-cost.
        """
        returns = np.zeros(episodes)
        for episode in range(episodes):
            if self._episodes:
                self._access.new_episode()
            self._episodes += 1
            returns[episode] = self._play_once()
        return returns

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
        seed: of all random streams; the same seed gives the same plan, bit for bit.
        oracle: "slabs" searches a union of slabs, "product" the paper's own Sol by SCIP.
        budget: what may be spent.
        watch: is told of every iteration.
        settings: the other fields of :class:`~tensorplan.planners.paper.PaperSettings`.
    """
    limits = budget or Budget()
    access = Access(simulator, seed=seed, meter=QueryMeter(limits.queries, seconds=limits.seconds))
    start = access.start()
    chosen = make_oracle(oracle) if isinstance(oracle, str) else oracle
    planner = PaperPlanner(SimulatorWorld(access, start), paper_settings(delta, **settings), chosen)
    state = drive(planner, watch=_watcher(watch))
    access.meter.lift_limit()
    return Plan(access, start, planner.resolved, state, chosen)


def paper_settings(delta: float, **settings: Any) -> PaperSettings:
    """Settings by name; an unknown name is refused with the nearest ones."""
    known = [field.name for field in fields(PaperSettings)]
    for name in settings:
        if name not in known:
            near = get_close_matches(name, known, n=3) or known
            raise SettingError(
                f"setting {name!r}",
                "the paper's planner has no such setting",
                f"Did you mean {' or '.join(map(repr, near))}?",
            )
    return PaperSettings(delta=delta, **settings)


def make_oracle(name: str) -> Oracle:
    """The oracle of a name."""
    if name == "slabs":
        return SlabOracle()
    if name == "product":
        return ScipOracle("product")
    raise SettingError(f"oracle={name!r}", "there is no such oracle", "Use 'slabs' or 'product'.")


def _watcher(watch: Watcher | None) -> Callable[[PaperState], bool]:
    def tell(state: PaperState) -> bool:
        if watch is not None and state.events:
            watch(state.events[-1])
        return True

    return tell
