"""What a finished run of the paper's planner may claim, and on which theorem."""

from __future__ import annotations

from collections.abc import Iterator

from tensorplan.oracle.base import Oracle
from tensorplan.planners.paper.algorithm import PaperState
from tensorplan.planners.paper.settings import Resolved
from tensorplan.records import Certificate, Spec, Status


def certify(resolved: Resolved, spec: Spec, state: PaperState, oracle: Oracle) -> Certificate:
    """The certificate of a finished run.

    After a clean run with the theorem's sizes, with probability at least 1 - 3 zeta (Corollary
    accurate-return, Lemma theta-star-in-sol): the policy's value is at least the prediction minus
    3/4 delta, and the best realizable value is at most the oracle's upper bound. For a
    deterministic simulator both hold surely, and the value is the return of the rollout itself.
    """
    reason = uncovered(resolved, spec)
    if reason is not None or state.optimum is None:
        words = reason if reason is not None else "it ended before its first iteration"
        return Certificate(None, None, None, f"no theorem covers this run: {words}")
    confidence = 1.0 if spec.deterministic else 1.0 - 3.0 * float(resolved.constants.zeta)
    grounds = f"{_grounds(resolved, spec)}; {_searched(oracle)}"
    assumptions = tuple(_assumptions(resolved, spec, state.status, oracle))
    if state.status is Status.REJECTED:
        return Certificate(None, None, confidence, grounds, assumptions)
    eta = spec.misspecification + resolved.rounding
    upper = min(state.optimum.upper + eta, _largest_value(spec, resolved))
    lower = _lower(resolved, spec, state) if _clean(resolved, spec, state) else None
    return Certificate(lower, upper, confidence, grounds, assumptions)


def uncovered(resolved: Resolved, spec: Spec) -> str | None:
    """Why no theorem covers a run, or None if one does."""
    settings, constants = resolved.settings, resolved.constants
    if settings.rule == "best":
        return (
            "the Remark's best-action test has a counterexample (the problem 'counterexample'), "
            "although the paper says that its proofs go through"
        )
    if settings.sizes is not None and not spec.deterministic:
        return "the sample sizes were given by hand"
    limits = (
        ("inaccuracy", spec.inaccuracy, constants.accuracy),
        ("misspecification", spec.misspecification, constants.misspecification),
    )
    for name, value, limit in limits:
        allowed = 0.0 if settings.exact else float(limit) * resolved.width
        if value > allowed:
            return f"{name} {value:g} exceeds the {allowed:.3g} that the theorem allows"
    return None


def _clean(resolved: Resolved, spec: Spec, state: PaperState) -> bool:
    """Whether the clean run is one that the lemmas speak of: the first E_d + 1 iterations."""
    counted = spec.deterministic or state.iteration <= resolved.constants.eluder_bound + 1
    return state.status is Status.CLEAN and counted


def _grounds(resolved: Resolved, spec: Spec) -> str:
    if resolved.settings.exact:
        return "exact data with zero thresholds, up to rounding"
    theorem = "misspecification" if spec.misspecification > 0 else "main"
    if spec.deterministic:
        return f"Theorem '{theorem}' of the paper with exact measurements"
    edition = "with its errata corrected" if resolved.settings.errata.zeta else "as printed"
    return f"Theorem '{theorem}' of the paper {edition} (Corollary accurate-return)"


def _searched(oracle: Oracle) -> str:
    """What the oracle's set means for the theorem."""
    if oracle.form == "product":
        return "the paper's set of parameters searched in its product form"
    return (
        "the paper's set of parameters relaxed to a union of slabs, which keeps every realizable "
        "parameter but does not inherit the bound on failed tests"
    )


_REPEATED = {
    Status.CLEAN: "the last rollout repeated it",
    Status.REJECTED: "the last failed test repeated it",
}
"""What was asked of a deterministic simulator a second time."""


def _assumptions(
    resolved: Resolved, spec: Spec, status: Status | None, oracle: Oracle
) -> Iterator[str]:
    yield f"||theta|| <= {resolved.norm:g}"
    if status is not Status.REJECTED:
        yield (
            "some deterministic policy is realizable by the features on all states that any "
            "actions reach from the start; the upper bound speaks of the best such policy"
        )
    if spec.deterministic:
        repeated = _REPEATED.get(status) if status is not None else None
        checked = repeated or "this run ended before it was checked"
        yield f"the simulator is deterministic, as its Spec declares ({checked})"
    if spec.misspecification > 0:
        yield f"values are within {spec.misspecification:g} of linear"
    if resolved.rounding > 0:
        yield f"values are within {resolved.rounding:.2g} of linear, for rounding"
    if spec.inaccuracy > 0:
        yield f"mean rewards are within {spec.inaccuracy:g} of the truth"
    if not oracle.proved:
        yield (
            f"the bound of the oracle {oracle.name!r}, and its word that nothing is left, hold "
            "within its solver's tolerances"
        )


def _lower(resolved: Resolved, spec: Spec, state: PaperState) -> float:
    if spec.deterministic:
        return state.mean_return - resolved.horizon * spec.inaccuracy
    slack = 0.75 * resolved.delta + 2 * resolved.horizon * spec.misspecification
    return state.events[-1].predicted - slack


def _largest_value(spec: Spec, resolved: Resolved) -> float:
    """u_1 of F10: the largest value that any policy can have at the start."""
    _, high = spec.reward_range
    later = max(high, 0.0) if spec.may_terminate else high
    return high + (resolved.horizon - 1) * later
