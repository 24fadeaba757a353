"""What all plans share: bounds, acting, playing, and what may be spent on them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np

from tensorplan.access import Access
from tensorplan.errors import SettingError
from tensorplan.hypotheses import Hypotheses
from tensorplan.local import Handle, Key
from tensorplan.oracle import Oracle, OracleName, make_oracle
from tensorplan.plan.evaluation import Evaluation, check_request, fresh_returns, judged
from tensorplan.plan.files import Arrays, write_archive
from tensorplan.records import (
    Certificate,
    FloatArray,
    IntArray,
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


class Record(Protocol):
    """What all planners know at their end."""

    @property
    def status(self) -> Status | None:
        """How the run ended."""
        ...

    @property
    def events(self) -> tuple[IterationEvent, ...]:
        """One for each iteration."""
        ...

    @property
    def beliefs(self) -> Hypotheses:
        """What is still believable."""
        ...

    @property
    def nodes(self) -> int:
        """Subproblems that the oracle solved."""
        ...


class Plan(ABC):
    """A planned policy: what it is worth, and what it does.

    Made by :func:`tensorplan.plan`. Acting may ask the simulator further queries; they are counted
    under ``act``.
    """

    planner: str
    """Who planned."""

    def __init__(
        self, access: Access, start: Handle, oracle: Oracle, certificate: Certificate
    ) -> None:
        self._access, self._start, self._oracle = access, start, oracle
        self._acts = self._episodes = 0
        self._calls, self._call = count(1), 0
        self._returns = np.zeros(0)
        self.oracle = oracle.name
        self.certificate = certificate

    @property
    @abstractmethod
    def record(self) -> Record:
        """All that the planner knew at the end."""

    @property
    @abstractmethod
    def theta(self) -> FloatArray:
        """The parameter that the plan follows: [d]; zeros if none is left."""

    @property
    @abstractmethod
    def delta(self) -> float:
        """The gap that was asked for."""

    @property
    @abstractmethod
    def episode_cost(self) -> int:
        """Most queries that playing an episode can take."""

    @abstractmethod
    def _choose(self, here: Handle, stage: int, call: int, step: int | None = None) -> int:
        """The action for one state.

        Args:
            here: the state.
            stage: its stage.
            call: names this call among those of all plans over one access.
            step: of an episode that is played from the start, from 0.
        """

    @abstractmethod
    def _choose_many(self, here: Handle, step: int, key: Key) -> IntArray:
        """Actions for n states that rollouts from the start have come to: [n].

        Args:
            here: the states.
            step: of the episode, from 0.
            key: names the call.
        """

    def _steps(self) -> int | None:
        """Most steps of a played episode."""
        return None

    @property
    def status(self) -> Status:
        """How planning ended."""
        return self.record.status or Status.CANCELLED

    @property
    def events(self) -> tuple[IterationEvent, ...]:
        """One for each iteration."""
        return self.record.events

    @property
    def critical_states(self) -> int:
        """Number of states whose data exclude parameters."""
        return len(self.record.beliefs.states)

    @property
    def nodes(self) -> int:
        """Subproblems that the oracle solved."""
        return self.record.nodes

    @property
    def usable(self) -> bool:
        """Whether there is a policy to follow: of a parameter that was tried, or of any."""
        tried = bool(self.events) or self.status in (Status.CERTIFIED, Status.ASSUMED)
        return tried and self.status is not Status.REJECTED

    @property
    def value_predicted(self) -> float:
        """What theta predicts at the start; -inf if no parameter is left."""
        if self.status is Status.REJECTED:
            return -math.inf
        return float(self._access.features(self._start)[0] @ self.theta)

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
        paper's per-episode query-cost. Rewards are discounted where the process is; an endless
        episode is cut where the rest can hardly matter.

        Args:
            episodes: how many.
            most_queries: an episode that would cost more is refused; None allows any.
        """
        self._check_play(most_queries)
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

    def evaluate(self, rollouts: int = 1000, *, confidence: float = 0.95) -> Evaluation:
        """What the policy is worth from the planned start, by fresh rollouts.

        The bound holds however often one asks and whenever one stops; the rollouts of all calls
        count together. All of it is counted under ``verify``.

        Args:
            rollouts: how many more.
            confidence: of the lower bound.
        """
        check_request(rollouts, confidence)
        check_usable(self.status)
        before = self.queries.total
        fresh = fresh_returns(
            self._access,
            self._start,
            self._choose_many,
            rollouts,
            steps=self._steps(),
            call=next(self._calls),
        )
        self._returns = np.concatenate([self._returns, fresh])
        spent = self.queries.total - before
        return judged(self._access, self._returns, confidence, spent)

    def save(self, path: str | Path) -> None:
        """Write what it takes to act, to evaluate and to print; :func:`tensorplan.load` reads it.

        Args:
            path: of the file, a zip archive of JSON and arrays; nothing in it is executed. The
                start state and other handles of the simulator are not kept.
        """
        write_archive(path, *self._content())

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
            "iterations": len(self.events),
            "failures": self.critical_states,
            "value_predicted": self.value_predicted,
            "theta": self.theta.tolist(),
            "oracle": self.oracle,
            "nodes": self.nodes,
        }

    def _content(self) -> tuple[dict[str, Any], Arrays]:
        """Words and arrays of a file."""
        events = self.events
        failed = [(-1, -1) if event.failed is None else event.failed for event in events]
        words = {
            "planner": self.planner,
            "status": self.status.value,
            "certificate": asdict(self.certificate),
            "spec": asdict(self._access.spec),
            "seed": self._access.seed,
            "oracle": self.oracle,
            "nodes": self.nodes,
            "critical_states": self.critical_states,
            "episode_cost": self.episode_cost,
            "steps": self._steps(),
        }
        counts = [
            (event.iteration, *pair, event.queries, event.nodes)
            for event, pair in zip(events, failed, strict=True)
        ]
        dim = self._access.spec.dim
        return words, {
            "theta": self.theta,
            "start": self._access.features(self._start)[0],
            "event_counts": np.array(counts, np.int64).reshape(-1, 5),
            "event_values": np.array([(e.upper, e.predicted) for e in events]).reshape(-1, 2),
            "event_thetas": np.array([e.theta for e in events], np.float64).reshape(-1, dim),
        }

    def _act(self, here: Handle, stage: int, step: int | None = None) -> int:
        check_usable(self.status)
        # The first call of GetAction is the one that planned (Algorithm 1, line 2).
        if self._acts:
            self._access.meter.new_call()
        self._acts += 1
        self._call = next(self._calls)
        return self._choose(here, stage, self._call, step)

    def _check_play(self, most_queries: int | None) -> None:
        check_play(self.episode_cost, most_queries)

    def _play_once(self) -> float:
        here, total, weight = self._start, 0.0, 1.0
        most = self._steps()
        for step in count() if most is None else range(most):
            action = np.array([self._act(here, here.stage, step)])
            key = (self._call,)
            moved = self._access.advance(here, here.stage, action, phase=Phase.PLAY, key=key)
            total += weight * float(moved.rewards[0])
            if moved.terminated[0]:
                break
            here, weight = moved.states, weight * self._access.spec.discount
        return total


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


def check_play(episode_cost: int, most_queries: int | None) -> None:
    """Refuse an episode that costs more than was meant."""
    if most_queries is not None and episode_cost > most_queries:
        raise SettingError(
            f"an episode of {episode_cost:.3g} queries",
            f"playing one may cost {most_queries:.3g}, as every action is tested afresh",
            "Plan with smaller sizes=, or pass most_queries=None.",
        )
