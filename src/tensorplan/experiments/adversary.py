"""The adversary of thm:lb: it hides the goal where a planner is least likely to look.

The planner first plays in a process without a goal. Each call shows it at most b + 1 states, so
N = floor(2^(D-2)/(b+1)) calls show it at most half of the 2^(D-1) corners. The goal then goes to
the corner that the fewest runs have seen, and the same runs are played again in the process with
that goal: a run that did not see the corner cannot tell the two processes apart, and pays for
every one of its calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tensorplan.access import Access
from tensorplan.baselines.protocol import LocalPlanner
from tensorplan.errors import AccessError, SettingError
from tensorplan.local import Handle
from tensorplan.meter import QueryMeter
from tensorplan.problems.lower_bound import LowerBound
from tensorplan.records import BoolArray, FloatArray, IntArray, Spec, States, Step
from tensorplan.theory import lower_bound

PlannerFactory = Callable[[int], LocalPlanner]
"""Makes a planner whose choices depend on the seed and on what it is shown, on nothing else."""

_OPTIMAL_COST = 1
"""Cost of the shortest way from the middle of the grid to any corner."""


@dataclass(frozen=True)
class Challenge:
    """How a planner fared against the adversary.

    Attributes:
        dim: D, dimension of the features.
        budget: b, queries that each call was granted.
        calls: N, calls of ``act`` in each run.
        goal: the corner where the goal was hidden.
        seen: fraction of the runs that saw that corner before it was the goal; at most 1/2.
        suboptimality: cost of each run minus the optimal cost 1, cut after N calls, and 0 where
            that is negative; no more than what the policy loses.
        mean: of the suboptimality.
        printed: bound that thm:lb states, and that does not follow from its proof (A26).
        corrected: bound that follows; ``mean`` is never below it.
    """

    dim: int
    budget: int
    calls: int
    goal: tuple[int, ...]
    seen: float
    suboptimality: tuple[float, ...]
    mean: float
    printed: Fraction
    corrected: Fraction


def challenge(
    factory: PlannerFactory, dim: int, budget: int, seeds: Sequence[int] = range(8)
) -> Challenge:
    """Find the goal that is worst for a planner, and measure what the planner loses there.

    Args:
        factory: makes the planner of each run from its seed.
        dim: D, at least 2.
        budget: b, queries per call; the planner is stopped when it asks for more.
        seeds: one for each run.
    """
    printed = lower_bound(dim, budget, corrected=False)
    corrected = lower_bound(dim, budget)
    calls = _calls(dim, budget, len(seeds))
    blind = [_play(LowerBound(dim), factory(seed), budget, calls, seed) for seed in seeds]
    corners = np.array([run.corners for run in blind])
    hidden = int(np.argmin(corners.sum(axis=0)))
    goal = tuple(1 if hidden >> axis & 1 else -1 for axis in range(dim - 1))
    runs = [_play(LowerBound(dim, goal), factory(seed), budget, calls, seed) for seed in seeds]
    for seed, before, after in zip(seeds, blind, runs, strict=True):
        if not before.corners[hidden] and before.trace != after.trace:
            raise SettingError(
                f"the planner of seed {seed}",
                "it chose differently although it was shown the same",
                "Draw all its random numbers from a generator made from the seed.",
            )
    losses = tuple(max(run.cost - _OPTIMAL_COST, 0.0) for run in runs)
    seen, mean = float(corners[:, hidden].mean()), float(np.mean(losses))
    return Challenge(dim, budget, calls, goal, seen, losses, mean, printed, corrected)


@dataclass(frozen=True)
class _Run:
    """One episode of N calls.

    Attributes:
        corners: [2^(D-1)], which corners the planner was shown.
        trace: everything that it was shown and did.
        cost: minus the total reward.
    """

    corners: BoolArray
    trace: tuple[tuple[int, ...], tuple[float, ...], tuple[int, ...]]
    cost: float


class _Recorder:
    """A simulator that writes down which states and rewards a planner is shown.

    A state is shown when its features are: access asks for them exactly once for each state that
    it hands out.
    """

    def __init__(self, simulator: LowerBound) -> None:
        self._simulator = simulator
        self._places = 3 ** np.arange(simulator.axes)
        self.start, self.allowed = simulator.start, simulator.allowed
        self.shown: list[int] = []
        self.rewards: list[float] = []
        self.corners = np.zeros(2**simulator.axes, np.bool_)

    @property
    def spec(self) -> Spec:
        return self._simulator.spec

    def step(self, states: States, stage: int, actions: IntArray, rng: np.random.Generator) -> Step:
        step = self._simulator.step(states, stage, actions, rng)
        self.rewards.extend(step.rewards.tolist())
        return step

    def features(self, states: States, stage: int) -> FloatArray:
        self.shown.extend(((states + 1) @ self._places).tolist())
        corners = states[(states != 0).all(axis=1)]
        self.corners[(corners > 0) @ (1 << np.arange(corners.shape[1]))] = True
        return self._simulator.features(states, stage)


def _play(process: LowerBound, planner: LocalPlanner, budget: int, calls: int, seed: int) -> _Run:
    """Run a planner for N calls; only its queries and the states of its calls are recorded."""
    rng = np.random.default_rng(seed)
    recorder = _Recorder(process)
    access = Access(recorder, seed=seed, meter=QueryMeter(limit_per_call=budget))
    state, played, cost = process.start(rng), list[int](), 0.0
    for call in range(calls):
        here = access.admit(state, 1)
        access.meter.new_call()
        action = _checked(planner.act(access.local, here, call), access, here)
        step = process.step(state, 1, np.array([action]), rng)
        state = step.states
        played.append(action)
        cost -= float(step.rewards[0])
    trace = (tuple(recorder.shown), tuple(recorder.rewards), tuple(played))
    return _Run(recorder.corners, trace, cost)


def _checked(action: int, access: Access, here: Handle) -> int:
    if not (0 <= action < access.spec.actions and access.allowed(here)[0, action]):
        raise AccessError(
            f"action {action}",
            "the planner must play an action that is available",
            "Choose among the actions that allowed() marks.",
        )
    return action


def _calls(dim: int, budget: int, runs: int) -> int:
    """N = floor(2^(D-2)/(b+1))."""
    calls = 2 ** (dim - 2) // (budget + 1)
    if calls == 0 or runs == 0:
        raise SettingError(
            f"budget={budget}, dim={dim} and {runs} seeds",
            f"the theorem speaks of budgets below {2 ** (dim - 2)}, and a mean needs a run",
            "Grant fewer queries or raise dim, and pass a seed.",
        )
    return calls
