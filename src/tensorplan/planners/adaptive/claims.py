"""What a finished run of the adaptive planner may claim, and what it takes for granted (B9, F6)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, runtime_checkable

from tensorplan.oracle.base import Oracle
from tensorplan.planners.adaptive.records import AdaptiveState, Engine
from tensorplan.planners.adaptive.settings import Resolved
from tensorplan.records import Certificate, Status

OWES_NOTHING = 10.0
"""A proof that holds up to so many times the bound B owes nothing to it."""


@runtime_checkable
class Proving(Protocol):
    """An oracle that writes down why its last answer is right."""

    def proof(self) -> dict[str, object]:
        """The proof, as the content of its file."""
        ...

    def norm_limit(self) -> float:
        """The norm bound up to which the proof holds."""
        ...


def certify(engine: Engine, state: AdaptiveState, oracle: Oracle) -> Certificate:
    """The certificate of a finished run.

    Nothing is clipped: a lower bound above the upper one says that the plan beats every policy
    that the features represent (F4).
    """
    rejected = state.status is Status.REJECTED
    return Certificate(
        None if rejected else state.lower,
        None if rejected or engine.resolved.fitted else state.upper,
        engine.confidence,
        _rejection(engine) if rejected else _grounds(engine, state),
        tuple(_assumptions(engine, state, oracle)),
    )


def labelled(engine: Engine, state: AdaptiveState) -> Status | None:
    """How the run ended, in words that it has a right to."""
    certified = state.status is Status.CERTIFIED
    return Status.ASSUMED if certified and engine.resolved.fitted else state.status


def _grounds(engine: Engine, state: AdaptiveState) -> str:
    if engine.resolved.fitted:
        return (
            f"{engine.grounds}; no upper bound is claimed: {state.upper:.6g} would be one if some "
            f"policy were within {engine.resolved.eta_given:.4g} of linear, which was chosen from "
            "the data"
        )
    return (
        f"{engine.grounds}; ranges of values are constraints, so no bound on the number of queries "
        "is claimed"
    )


def _rejection(engine: Engine) -> str:
    """At which level the hypothesis is rejected, and which parts of it may be wrong (B10, F6)."""
    resolved, level = engine.resolved, engine.rejection_level
    whom = "the optimal policy" if resolved.bellman else "no deterministic policy"
    fits = "does not fit" if resolved.bellman else "fits"
    sure = "certain" if level == 0 else f"an error of at most {level:.3g}"
    parts = [
        "the features may be too poor",
        f"the bound B = {resolved.norm:g} or the misspecification eta = {resolved.eta_given:g} too "
        "small",
        f"the inaccuracy lambda = {resolved.inaccuracy:g} understated",
    ]
    if resolved.spec.deterministic:
        parts.append("the simulator not deterministic")
    parts.append("a promise of the Spec broken (rewards, horizon, early ends, fresh answers)")
    return (
        f"{engine.grounds}: {whom} {fits} within what was assumed ({sure}). Which part is wrong "
        f"the data cannot tell: {'; '.join(parts)}. 'diagnose' says which eta they allow"
    )


def depends_on_norm(engine: Engine, state: AdaptiveState, oracle: Oracle) -> bool | None:
    """Whether the upper bound, or the rejection, leans on B (F6); None if that cannot be said."""
    resolved = engine.resolved
    if state.upper >= resolved.ranges.high(1) and state.status is not Status.REJECTED:
        return False
    data = engine.leans_on_norm
    if data:
        return True
    if state.optimum is None or not isinstance(oracle, Proving):
        return None
    return oracle.norm_limit() < OWES_NOTHING * resolved.norm or data


def _assumptions(engine: Engine, state: AdaptiveState, oracle: Oracle) -> Iterator[str]:
    resolved = engine.resolved
    rejected = state.status is Status.REJECTED
    if rejected or not resolved.fitted:
        yield _norm(engine, state, oracle)
        if not rejected:
            yield _realizability(resolved)
    if resolved.spec.deterministic:
        repeated = (
            "what was asked twice was answered alike"
            if state.checked
            else "this run ended before it was checked"
        )
        yield f"rewards and next states are deterministic, as the Spec declares ({repeated})"
    if rejected or not resolved.fitted:
        yield _linearity(resolved)
    if resolved.inaccuracy > 0:
        yield f"mean rewards are within {resolved.inaccuracy:g} of the truth"


def _norm(engine: Engine, state: AdaptiveState, oracle: Oracle) -> str:
    resolved = engine.resolved
    claim = "rejection" if state.status is Status.REJECTED else "upper bound"
    leans = depends_on_norm(engine, state, oracle)
    roles = {True: "depends on it", False: "does not depend on it", None: "may depend on it"}
    source = "" if resolved.norm_given else " (a default, as nobody gave a bound)"
    return f"||theta|| <= {resolved.norm:g}{source}; the {claim} {roles[leans]}"


def _realizability(resolved: Resolved) -> str:
    where = "realizable by the features on all states that any actions reach from the start"
    if resolved.bellman:
        return f"an optimal policy is {where}; the upper bound speaks of nothing else"
    return f"some deterministic policy is {where}; the upper bound speaks of the best such policy"


def _linearity(resolved: Resolved) -> str:
    rounding = resolved.eta - resolved.eta_given
    if resolved.eta_given:
        return (
            f"values are within {resolved.eta_given:g} of linear, and {rounding:.2g} more for "
            "rounding"
        )
    return f"values are within {rounding:.2g} of linear, for rounding"
