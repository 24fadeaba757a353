"""Plans that were saved, at work again by their policies."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from tensorplan.access import Access
from tensorplan.errors import SettingError
from tensorplan.hypotheses import Hypotheses
from tensorplan.local import Handle, Key
from tensorplan.oracle import SlabOracle
from tensorplan.plan.base import Plan, check_door
from tensorplan.plan.files import Arrays, read_archive
from tensorplan.plan.replay import Replay
from tensorplan.planners.adaptive import AdaptiveSettings, Policy, Trajectory, policy_from, resolve
from tensorplan.planners.paper import PaperPolicy, Sizes, paper_settings
from tensorplan.planners.paper import resolve as resolve_paper
from tensorplan.problem import Simulator
from tensorplan.records import Certificate, FloatArray, IntArray, IterationEvent, Phase, Status

_CLOSE = 1e-9
"""Difference in the features of two starts that counts as none."""


@dataclass(frozen=True)
class SavedRecord:
    """What is left of a run in a file: how it ended, not what is believable."""

    status: Status | None
    events: tuple[IterationEvent, ...]
    beliefs: Hypotheses
    nodes: int


class LoadedPlan(Plan):
    """A plan from a file: it acts, is evaluated and is printed, and cannot go on planning.

    Args:
        access: the door to the simulator.
        start: a handle of the planned start state.
        words: of the file.
        arrays: of the file.
    """

    def __init__(
        self, access: Access, start: Handle, words: dict[str, Any], arrays: Arrays
    ) -> None:
        certificate = words["certificate"] | {
            "assumptions": tuple(words["certificate"]["assumptions"])
        }
        super().__init__(access, start, SlabOracle(), Certificate(**certificate))
        self.planner, self.oracle = words["planner"], words["oracle"]
        self._words, self._arrays = words, arrays
        self._record = _record(words, arrays, access.spec.dim)
        self._policy = _policy(access, words, arrays)
        self._actions: list[int] = arrays["trajectory"].tolist()
        self._replay: Replay | None = None

    @property
    def record(self) -> SavedRecord:
        """How the run ended."""
        return self._record

    @property
    def critical_states(self) -> int:
        """Number of states whose data exclude parameters."""
        return int(self._words["critical_states"])

    @property
    def theta(self) -> FloatArray:
        """The parameter that the plan follows: [d]."""
        return np.asarray(self._arrays["theta"], np.float64)

    @property
    def delta(self) -> float:
        """The gap that was asked for."""
        return float(self._words["settings"]["delta"])

    @property
    def episode_cost(self) -> int:
        """Most queries that playing an episode can take."""
        return int(self._words["episode_cost"])

    def _content(self) -> tuple[dict[str, Any], Arrays]:
        return self._words, self._arrays

    def _choose(self, here: Handle, stage: int, call: int, step: int | None = None) -> int:
        if step is not None and step < len(self._actions):
            return self._actions[step]
        known = self._walked().action(here) if self._actions and step is None else None
        return int(self._policy.actions(here, stage, (call,))[0]) if known is None else known

    def _choose_many(self, here: Handle, step: int, key: Key) -> IntArray:
        if step < len(self._actions):
            return np.full(here.size, self._actions[step], np.int64)
        return self._policy.actions(here, here.stage, key, phase=Phase.VERIFY)

    def _steps(self) -> int | None:
        steps: int | None = self._words["steps"]
        return steps

    def _walked(self) -> Replay:
        """The trajectory with its states, which are walked through once more to know them."""
        if self._replay is None:
            here, handles = self._start, list[Handle]()
            for step, action in enumerate(self._actions):
                handles.append(here)
                moved = self._access.advance(
                    here, here.stage, [action], phase=Phase.CHECK, key=(step,)
                )
                here = moved.states
            known = Trajectory(tuple(self._actions), tuple(handles), self.certificate.lower or 0.0)
            self._replay = Replay(self._access, known)
        return self._replay


def load(
    path: str | Path, simulator: Simulator, *, start: object = None, seed: int | None = None
) -> LoadedPlan:
    """A plan from a file, for the simulator that it was made in.

    No query is made for it. A deterministic plan that is asked about single states walks its
    trajectory once more, to know them again; those queries are counted under ``check``.

    Args:
        path: of the file.
        simulator: the same process; its promises are compared, its answers cannot be.
        start: the state that was planned from, if it is not the simulator's own.
        seed: of the random streams; by default that of the plan, with fresh draws.
    """
    words, arrays = read_archive(path)
    check_door(simulator, "a simulator", ("spec", "start", "step", "features"), "Pass one.")
    _check_spec(words["spec"], simulator)
    access = Access(simulator, seed=words["seed"] if seed is None else seed)
    here = access.start() if start is None else access.admit_one(start, 1)
    if not np.allclose(access.features(here)[0], arrays["start"], rtol=0, atol=_CLOSE):
        raise SettingError(
            "a start with other features",
            f"the plan in {path} is one from another state",
            "Pass start=, the state that was planned from, or the seed that drew it.",
        )
    access.new_episode()
    return LoadedPlan(access, here, words, arrays)


def _check_spec(saved: dict[str, Any], simulator: Simulator) -> None:
    given = asdict(simulator.spec)
    for name, value in saved.items():
        own = given.get(name)
        if (list(cast("tuple[float, ...]", own)) if isinstance(own, tuple) else own) != value:
            raise SettingError(
                f"a simulator with {name}={own}",
                f"the plan was made with {name}={value}",
                "Load it with the simulator that it was made in.",
            )


def _policy(access: Access, words: dict[str, Any], arrays: Arrays) -> Policy:
    settings = dict(words["settings"])
    if words["policy"] == "paper":
        settings["sizes"] = Sizes(**settings["sizes"])
        resolved = resolve_paper(paper_settings(**settings), access.spec)
        return PaperPolicy(access.local, np.asarray(arrays["theta"], np.float64), resolved)
    numbers = resolve(AdaptiveSettings(**settings), access.spec)
    numbers = numbers.with_eta(words["eta"], fitted=words["fitted"])
    return policy_from(words["policy"], arrays, access.local, numbers)


def _record(words: dict[str, Any], arrays: Arrays, dim: int) -> SavedRecord:
    events = tuple(
        IterationEvent(
            iteration=int(whole[0]),
            upper=float(real[0]),
            predicted=float(real[1]),
            theta=tuple(theta),
            failed=None if whole[1] < 0 else (int(whole[1]), int(whole[2])),
            queries=int(whole[3]),
            nodes=int(whole[4]),
        )
        for whole, real, theta in zip(
            arrays["event_counts"].tolist(),
            arrays["event_values"].tolist(),
            arrays["event_thetas"].tolist(),
            strict=True,
        )
    )
    status = Status(words["status"])
    return SavedRecord(status, events, Hypotheses(dim, words["norm"], 0.0), int(words["nodes"]))
