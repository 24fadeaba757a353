"""What a finished run of the paper's planner may claim, and on which theorem."""

from __future__ import annotations

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
    assumptions = (f"||theta|| <= {resolved.norm:g}", *_assumptions(spec))
    if state.status is Status.REJECTED:
        return Certificate(None, None, confidence, grounds, assumptions)
    upper = min(state.optimum.upper + spec.misspecification, _largest_value(spec, resolved))
    lower = _lower(resolved, spec, state) if state.status is Status.CLEAN else None
    return Certificate(lower, upper, confidence, grounds, assumptions)


def uncovered(resolved: Resolved, spec: Spec) -> str | None:
    """Why no theorem covers a run, or None if one does."""
    settings, constants = resolved.settings, resolved.constants
    if settings.rule == "best":
        return (
            "the Remark's best-action test has a counterexample (theory A24), although the paper "
            "says that its proofs go through"
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


def _grounds(resolved: Resolved, spec: Spec) -> str:
    if resolved.settings.exact:
        return "exact data with zero thresholds (theory B5 iv, B1), up to rounding"
    if spec.deterministic:
        return "Theorem 'main' of the paper with exact measurements (theory B5 iv)"
    edition = "with its errata corrected" if resolved.settings.errata.zeta else "as printed"
    return f"Theorem 'main' of the paper {edition} (Corollary accurate-return)"


def _searched(oracle: Oracle) -> str:
    """What the oracle's set means for the theorem."""
    if oracle.name == "product":
        return "Sol searched as it is, the product form"
    return (
        "Sol relaxed to the union of slabs of half-width kappa^(1/A), which keeps every "
        "realizable parameter (theory B2) but does not inherit the bound E_d on failed tests"
    )


def _assumptions(spec: Spec) -> tuple[str, ...]:
    kept = [
        "some deterministic policy is realizable by the features on all states that any actions "
        "reach from the start; the upper bound speaks of the best such policy"
    ]
    if spec.deterministic:
        kept.append("the simulator is deterministic, as its Spec declares")
    if spec.misspecification > 0:
        kept.append(f"values are within {spec.misspecification:g} of linear")
    if spec.inaccuracy > 0:
        kept.append(f"mean rewards are within {spec.inaccuracy:g} of the truth")
    return tuple(kept)


def _lower(resolved: Resolved, spec: Spec, state: PaperState) -> float:
    if spec.deterministic:
        return state.mean_return - resolved.horizon * spec.inaccuracy
    delta = float(resolved.constants.setting.delta) * resolved.width
    slack = 0.75 * delta + 2 * resolved.horizon * spec.misspecification
    return state.events[-1].predicted - slack


def _largest_value(spec: Spec, resolved: Resolved) -> float:
    """u_1 of F10: the largest value that any policy can have at the start."""
    _, high = spec.reward_range
    later = max(high, 0.0) if spec.may_terminate else high
    return high + (resolved.horizon - 1) * later
