"""The lemmas of the paper, checked on a finished run of its planner.

The run must have been made with ``record=True``, on a simulator whose states are the numbers of
the states of a finite process.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tensorplan.errors import SettingError
from tensorplan.exact import (
    Check,
    RecordedRollout,
    RecordedRun,
    RecordedTest,
    eluder_violations,
    exact_rows,
    measured_at,
    measured_in_any_direction,
    retained,
    rollout_average,
    tensor_rank,
    value_identity,
)
from tensorplan.finite import FiniteProcess
from tensorplan.local import Handle, Measurement
from tensorplan.plan import PaperPlan
from tensorplan.planners.paper import PaperSettings, TestRecord, select
from tensorplan.planners.paper.settings import EXACT_TOLERANCE
from tensorplan.records import FloatArray, IntArray, Status


@dataclass(frozen=True)
class LemmaCheck(Check):
    """A check with the name of what it checks.

    Attributes:
        name: the lemma, in a few words.
    """

    name: str


def recorded(plan: PaperPlan) -> RecordedRun:
    """What a run recorded, in the form that the referee reads."""
    _settings(plan)
    events, tests = plan.record.events, list[RecordedTest]()
    kept = iter(plan.record.failures)
    batches = iter(plan.record.tests)
    batch = next(batches, None)
    for event in events:
        while batch is not None and batch.iteration == event.iteration:
            tests.extend(_tests_of(plan, batch))
            batch = next(batches, None)
        if event.failed is not None:
            failure, refined = next(kept)
            state = int(_states(plan, failure.state)[0])
            place = (event.iteration, failure.rollout + 1, failure.stage, state)
            tests.append(_test(place, refined, 0, refined=True))
    thetas = np.array([event.theta for event in events]).reshape(len(events), -1)
    return RecordedRun(thetas, tuple(tests), plan.resolved.norm)


def last_rollouts(plan: PaperPlan, process: FiniteProcess) -> tuple[RecordedRollout, ...]:
    """The paths of a clean run's last iteration.

    A run records where its rollouts were and what they did, not what each of them collected. The
    rewards, and the state after the last step, are those of a possible outcome of the table: the
    true ones where the process is deterministic.
    """
    _settings(plan)
    if plan.status is not Status.CLEAN:
        raise SettingError(
            f"a run that ended with status {plan.status.value!r}",
            "its last rollouts were not all played to their end",
            "Look at a run that ended clean.",
        )
    paths: dict[int, list[tuple[int, int]]] = {}
    for batch in plan.record.tests:
        if batch.iteration == plan.record.iteration:
            states = _states(plan, batch.states)
            for row, rollout in enumerate(batch.rollouts):
                here = (int(states[row]), int(batch.actions[row]))
                paths.setdefault(int(rollout), []).append(here)
    return tuple(_rollout(process, paths[rollout]) for rollout in sorted(paths))


def followed_policy(plan: PaperPlan, process: FiniteProcess) -> IntArray:
    """The policy that exact measurements give to the plan's parameter: [H, S].

    For a deterministic process it is the policy that the plan plays. Noise makes the policy of a
    stochastic one random.
    """
    rule, table = plan.resolved.settings.rule, exact_rows(process)
    actions = np.zeros(table.shape[:2], np.int64)
    live = process.allowed.any(axis=1)
    for stage, rows in enumerate(table):
        exact = Measurement(
            rewards=rows[live, :, 0],
            next_features=rows[live, :, 1:],
            features=np.zeros((int(live.sum()), process.spec.dim)),
            measured=process.allowed[live],
            draws=1,
            discount=1.0,
        )
        actions[stage, live] = select(exact, plan.theta, rule)[0]
    return actions


def check_lemmas(
    plan: PaperPlan, process: FiniteProcess, theta_circ: FloatArray | None = None
) -> tuple[LemmaCheck, ...]:
    """Check on a finished run whatever its records allow to be checked.

    Lemma new-eluder-element counts its violations; it is about the product form of Sol, and need
    not hold for a run that searched the union of slabs. For exact data it gives way to the
    independence of the failures' tensors (theory B1). The rollouts and the value are checked
    where the process is deterministic and the run ended clean.

    Args:
        plan: the run, made with ``record=True``.
        process: what it was made on.
        theta_circ: [d], a parameter that realizes a policy; without it the checks that speak of
            one are left out.
    """
    run, resolved = recorded(plan), plan.resolved
    constants, width = resolved.constants, resolved.width
    delta = float(constants.setting.delta) * width
    found = [_named("any direction", measured_in_any_direction(process, run, delta))]
    if theta_circ is not None:
        eluder = float(constants.eluder_bound)
        scale = 2 * math.sqrt(eluder) * float(constants.sol_threshold) * width**process.spec.actions
        epsilon = float(constants.epsilon) * width
        found.append(_named("theta*", measured_at(process, run, theta_circ, epsilon, eluder)))
        kept = retained(run, theta_circ, scale, eluder)
        if resolved.settings.exact:
            found.append(LemmaCheck(kept.worst, EXACT_TOLERANCE * (1 + run.norm), "retention"))
        else:
            broken = eluder_violations(run, theta_circ, scale, eluder)
            found.append(_named("retention", kept))
            found.append(LemmaCheck(len(broken), 0, "eluder sequence"))
    if resolved.settings.exact:
        dependent = len(run.failures) - tensor_rank(run)
        found.append(LemmaCheck(dependent, 0, "independent tensors"))
    if process.spec.deterministic and plan.status is Status.CLEAN:
        found.extend(_value_checks(plan, process, delta))
    return tuple(found)


def _value_checks(plan: PaperPlan, process: FiniteProcess, delta: float) -> Iterator[LemmaCheck]:
    policy, paths = followed_policy(plan, process), last_rollouts(plan, process)
    average = rollout_average(process, paths, policy, plan.theta, delta)
    yield _named("rollout average", average)
    value, telescoped = value_identity(process, policy, plan.theta)
    rounding = EXACT_TOLERANCE * (1 + abs(value))
    yield LemmaCheck(abs(value - telescoped), rounding, "value identity")


def _named(name: str, check: Check) -> LemmaCheck:
    return LemmaCheck(check.worst, check.allowed, name)


def _settings(plan: PaperPlan) -> PaperSettings:
    settings = plan.resolved.settings
    if not settings.record:
        raise SettingError(
            "a run with record=False",
            "it kept no measurements to look at",
            "Plan with record=True.",
        )
    return settings


def _states(plan: PaperPlan, handle: Handle | None) -> IntArray:
    """The numbers of the states behind a handle."""
    states = None if handle is None else plan.access.reveal(handle)
    if states is None or states.dtype.kind not in "iu" or states.ndim != 1:
        raise SettingError(
            "states that cannot be held" if states is None else f"states of dtype {states.dtype}",
            "the referee knows states by their number in a finite process",
            "Run on a TableSimulator.",
        )
    return states.astype(np.int64)


def _tests_of(plan: PaperPlan, batch: TestRecord) -> Iterator[RecordedTest]:
    states = _states(plan, batch.states)
    for row, rollout in enumerate(batch.rollouts):
        place = (batch.iteration, int(rollout) + 1, batch.stage, int(states[row]))
        yield _test(place, batch.measurement, row)


def _test(
    place: tuple[int, int, int, int], measurement: Measurement, row: int, *, refined: bool = False
) -> RecordedTest:
    actions = np.flatnonzero(measurement.measured[row])
    return RecordedTest(*place, measurement.rows[row, actions], actions, refined)


def _rollout(process: FiniteProcess, path: list[tuple[int, int]]) -> RecordedRollout:
    """A path of pairs (state, action), with outcomes that lead from each state to the next."""
    cut = process.spec.horizon is not None and len(path) < process.spec.horizon
    states, rewards, ended = [path[0][0]], list[float](), False
    for time, cell in enumerate(path):
        fits = process.probabilities[cell] > 0
        if time + 1 < len(path):
            fits &= ~process.terminated[cell] & (process.successors[cell] == path[time + 1][0])
        elif cut:
            fits &= process.terminated[cell]
        if not fits.any():
            raise SettingError(
                f"state {cell[0]}, action {cell[1]} at stage {time + 1}",
                "the process cannot go on from there as the run did",
                "Check the run against the process that it was made on.",
            )
        outcome = (*cell, int(fits.argmax()))
        rewards.append(float(process.rewards[outcome]))
        states.append(int(process.successors[outcome]))
        ended = bool(process.terminated[outcome])
    actions = np.array([action for _, action in path])
    return RecordedRollout(np.array(states), actions, np.array(rewards), ended)
