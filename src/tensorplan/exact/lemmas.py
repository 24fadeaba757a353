"""Whether the events that the paper's proofs rely on occurred in a finished run.

Each check compares what a run recorded with the exact rows of the process. A check that fails
refutes nothing by itself: the events hold with high probability only, for the sample sizes that
the theorem asks for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from tensorplan.errors import SettingError
from tensorplan.exact.policies import stage_count
from tensorplan.exact.records import (
    Check,
    EluderViolation,
    RecordedRollout,
    RecordedRun,
    RecordedTest,
)
from tensorplan.exact.rows import exact_rows, expected_errors, features
from tensorplan.finite import FiniteProcess
from tensorplan.records import FloatArray, IntArray

_MATCH = 1e-9
"""Difference up to which a recorded reward is one of the rewards in the table."""


def row_deviations(process: FiniteProcess, test: RecordedTest) -> FloatArray:
    """Measured minus exact rows: [k, d + 1]."""
    stages = stage_count(process)
    inside = 1 <= test.stage <= stages and 0 <= test.state < process.states
    if not inside or not set(test.actions.tolist()) <= set(range(process.spec.actions)):
        raise SettingError(
            f"a test at stage {test.stage}, state {test.state}, actions {test.actions.tolist()}",
            f"the process has stages 1 to {stages}, states below {process.states} and actions "
            f"below {process.spec.actions}",
            "Check the run against the process that it was made on.",
        )
    return test.rows - exact_rows(process)[test.stage - 1, test.state, test.actions]


def uniform_deviation(process: FiniteProcess, test: RecordedTest, norm: float) -> float:
    """Largest |<measured - exact row, (1, theta)>| over |theta| <= B and the actions.

    It is |dr| + B |dphi|: theta along the error of the features, with the sign of that of r.
    """
    off = row_deviations(process, test)
    return float((np.abs(off[:, 0]) + norm * np.linalg.norm(off[:, 1:], axis=1)).max())


def deviation_at(process: FiniteProcess, test: RecordedTest, theta: FloatArray) -> float:
    """Largest |<measured - exact row, (1, theta)>| over the actions, at one parameter."""
    off = row_deviations(process, test)
    return float(np.abs(off[:, 0] + off[:, 1:] @ theta).max())


def measured_in_any_direction(process: FiniteProcess, run: RecordedRun, delta: float) -> Check:
    """Lemma d-measured-accurately-in-any-dir: every measurement within delta / (12 H)."""
    worst = (uniform_deviation(process, test, run.norm) for test in run.tests)
    return Check(max(worst, default=0.0), delta / (12 * stage_count(process)))


def measured_at(
    process: FiniteProcess,
    run: RecordedRun,
    theta_circ: FloatArray,
    epsilon: float,
    eluder_bound: float,
) -> Check:
    """Lemma d-measured-accurately-in-thetastar: refined rows within eps / (2 sqrt E) at theta°."""
    worst = (deviation_at(process, test, theta_circ) for test in run.failures)
    return Check(max(worst, default=0.0), epsilon / (2 * math.sqrt(eluder_bound)))


def retained(run: RecordedRun, theta_circ: FloatArray, scale: float, eluder_bound: float) -> Check:
    """Lemma theta-star-in-sol: |<X_j, M_theta°>| <= scale / (2 sqrt E) at every failure j.

    Args:
        run: the finished run.
        theta_circ: [d], a parameter that realizes a policy.
        scale: H^A eps.
        eluder_bound: E.
    """
    worst = (abs(test.product(theta_circ)) for test in run.failures)
    return Check(max(worst, default=0.0), scale / (2 * math.sqrt(eluder_bound)))


def eluder_violations(
    run: RecordedRun, theta_circ: FloatArray, scale: float, eluder_bound: float
) -> tuple[EluderViolation, ...]:
    """Where Lemma new-eluder-element breaks: nowhere, if the run went as the proof says.

    With X_i the tensor of the i-th failure and theta_i its parameter, theta_i and theta° must
    differ by at most scale / sqrt(E) on every older X_j, and by more than scale on X_i itself.

    Args:
        run: the finished run.
        theta_circ: [d], a parameter that realizes a policy.
        scale: H^A eps.
        eluder_bound: E.
    """
    broken: list[EluderViolation] = []
    near, failures = scale / math.sqrt(eluder_bound), run.failures
    for index, failure in enumerate(failures):
        theta = run.theta_of(failure)
        for earlier, old in enumerate(failures[:index]):
            apart = abs(old.product(theta) - old.product(theta_circ))
            if apart > near:
                broken.append(EluderViolation(index, earlier, apart, near))
        apart = abs(failure.product(theta) - failure.product(theta_circ))
        if apart <= scale:
            broken.append(EluderViolation(index, None, apart, scale))
    return tuple(broken)


def rollout_average(
    process: FiniteProcess,
    rollouts: Sequence[RecordedRollout],
    policy: IntArray | FloatArray,
    theta: FloatArray,
    delta: float,
) -> Check:
    """Lemma value-accurate: the average of exact errors along rollouts is near its expectation.

    Args:
        process: the process.
        rollouts: those of the last iteration, all played to their end. Discounted rollouts are
            cut somewhere; the errors beyond the cut are part of the deviation.
        policy: what the rollouts followed, [H, S] or [H, S, A].
        theta: [d], the parameter of the last iteration.
        delta: the event is a deviation of at most delta / 4.
    """
    if not rollouts:
        raise SettingError(
            "no rollouts", "an average needs at least one", "Record those of the last iteration."
        )
    errors = exact_rows(process) @ np.concatenate([[1.0], theta])
    totals = [_along(process, path, errors) for path in rollouts]
    expected = expected_errors(process, policy, theta)
    return Check(abs(float(np.mean(totals)) - expected), delta / 4)


def telescoped(
    process: FiniteProcess, rollout: RecordedRollout, theta: FloatArray
) -> tuple[float, float]:
    """Both sides of the telescoping sum along one recorded path.

    Args:
        process: must allow every step of the path.
        rollout: the path; one that was cut counts what theta predicts for the rest.
        theta: [d].

    Returns:
        The return, sum_j gamma^{j-1} R_j (plus gamma^L <phi(S_{L+1}), theta> if cut), and
        <phi_1(S_1), theta> + sum_j gamma^{j-1} (R_j + gamma v(S_{j+1}; theta) - v(S_j; theta)).
    """
    _check_path(process, rollout)
    gamma, steps = process.spec.discount, len(rollout.actions)
    values = features(process) @ theta
    seen = [
        0.0 if _over(process, rollout, time) else float(values[_row(process, time), state])
        for time, state in enumerate(rollout.states)
    ]
    weights = gamma ** np.arange(steps + 1)
    errors = [
        float(reward) + gamma * after - before
        for reward, (before, after) in zip(rollout.rewards, pairwise(seen), strict=True)
    ]
    total = float(weights[:-1] @ rollout.rewards) + float(weights[-1]) * seen[-1]
    return total, seen[0] + float(weights[:-1] @ np.array(errors))


def _along(process: FiniteProcess, rollout: RecordedRollout, errors: FloatArray) -> float:
    _check_path(process, rollout)
    steps = range(len(rollout.actions))
    rows = [_row(process, time) for time in steps]
    weights = process.spec.discount ** np.arange(len(rows))
    return float(weights @ errors[rows, rollout.states[:-1], rollout.actions])


def _row(process: FiniteProcess, time: int) -> int:
    return 0 if process.spec.horizon is None else time


def _over(process: FiniteProcess, rollout: RecordedRollout, time: int) -> bool:
    ended = rollout.terminated and time == len(rollout.actions)
    return ended or (process.spec.horizon is not None and time >= process.spec.horizon)


def _check_path(process: FiniteProcess, rollout: RecordedRollout) -> None:
    horizon = process.spec.horizon
    if horizon is not None and len(rollout.actions) > horizon:
        raise SettingError(
            f"a rollout of {len(rollout.actions)} steps",
            f"the process has {horizon} stages",
            "Record each episode as a rollout of its own.",
        )
    if not process.start_probabilities[rollout.states[0]] > 0:
        raise SettingError(
            f"a rollout from state {int(rollout.states[0])}",
            "the process does not start there",
            "Check the run against the process that it was made on.",
        )
    for time, action in enumerate(rollout.actions):
        if not _possible(process, rollout, time):
            raise SettingError(
                f"step {time + 1} of a rollout: state {int(rollout.states[time])}, action "
                f"{int(action)}, reward {float(rollout.rewards[time])}, next state "
                f"{int(rollout.states[time + 1])}",
                "the process has no such outcome",
                "Check the run against the process that it was made on.",
            )


def _possible(process: FiniteProcess, rollout: RecordedRollout, time: int) -> bool:
    cell = (int(rollout.states[time]), int(rollout.actions[time]))
    ended = rollout.terminated and time == len(rollout.actions) - 1
    fits = (
        (process.probabilities[cell] > 0)
        & (process.successors[cell] == rollout.states[time + 1])
        & (np.abs(process.rewards[cell] - rollout.rewards[time]) <= _MATCH)
        & (process.terminated[cell] == ended)
    )
    return bool(process.allowed[cell]) and bool(fits.any())
