"""What a run of ``tensorplan plan`` prints."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import sqrt
from statistics import fmean, stdev
from typing import Any

from tensorplan.cli.load import Loaded
from tensorplan.cli.output import labelled, number, settings_text, short
from tensorplan.plan import AdaptivePlan, PaperPlan, Plan

Pairs = list[tuple[str, str]]


@dataclass(frozen=True)
class Outcome:
    """A run that has ended.

    Attributes:
        problem: what was planned in.
        plan: what came out.
        seed: of all random streams.
        returns: of the episodes that were played.
        truncation: what cutting a discounted problem may change in a value, or None.
    """

    problem: Loaded
    plan: Plan
    seed: int
    returns: list[float]
    truncation: float | None

    @property
    def achieved(self) -> float | None:
        """Mean return, or None if nothing was played."""
        return fmean(self.returns) if self.returns else None

    @property
    def standard_error(self) -> float | None:
        """Standard error of the mean, or None if a single episode was played."""
        several = len(self.returns) > 1
        return stdev(self.returns) / sqrt(len(self.returns)) if several else None


def as_data(outcome: Outcome) -> dict[str, Any]:
    """Everything, for JSON."""
    return outcome.plan.summary() | {
        "advice": outcome.plan.status.advice,
        "sentence": outcome.plan.certificate.sentence,
        "value_achieved": outcome.achieved,
        "value_achieved_error": outcome.standard_error,
        "value_reference": outcome.problem.reference,
        "episodes": len(outcome.returns),
        "problem": outcome.problem.name,
        "problem_settings": outcome.problem.settings,
        "planner": outcome.plan.planner,
        "planner_settings": _planner_settings(outcome.plan),
        "truncation": outcome.truncation,
        "seed": outcome.seed,
    }


def _planner_settings(plan: Plan) -> dict[str, Any]:
    if isinstance(plan, PaperPlan):
        settings = plan.resolved.settings
        return {
            "delta": settings.delta,
            "norm": plan.resolved.norm,
            "horizon": plan.resolved.horizon,
            "errata": "corrected" if settings.errata.zeta else "printed",
            "exact": settings.exact,
            "rule": settings.rule,
            "early_exit": settings.early_exit,
            "return_test": settings.return_test,
        }
    if isinstance(plan, AdaptivePlan):
        return asdict(plan.resolved.settings) | {
            "norm": plan.resolved.norm,
            "misspecification": plan.resolved.eta_given,
            "fitted": plan.resolved.fitted,
            "rounding": plan.resolved.eta - plan.resolved.eta_given,
        }
    return {"delta": plan.delta}


def as_text(outcome: Outcome) -> str:
    """Everything, for people."""
    plan = outcome.plan
    title = f"{outcome.problem.name}, {_planner(plan)} planner, seed {outcome.seed}"
    sections = (
        [("settings", settings_text(outcome.problem.settings))],
        [("status", plan.status.value), ("status", plan.status.advice)],
        _values(outcome),
        _certificate(plan),
        _effort(plan),
    )
    return "\n\n".join((title, *_aligned(sections)))


def _planner(plan: Plan) -> str:
    return "the paper's" if plan.planner == "paper" else f"the {plan.planner}"


def _aligned(sections: tuple[Pairs, ...]) -> list[str]:
    """Sections with their texts in one column."""
    widest = max(len(label) for section in sections for label, _ in section)
    return [labelled([(f"{label:<{widest}}", text) for label, text in s]) for s in sections]


def _values(outcome: Outcome) -> Pairs:
    lines = [("predicted", number(outcome.plan.value_predicted)), ("achieved", _achieved(outcome))]
    if outcome.problem.reference is not None:
        lines.append(("reference", f"{number(outcome.problem.reference)}, the optimal value"))
    if outcome.truncation is not None:
        lines.append(
            (
                "horizon",
                f"cut after {number(outcome.plan.access.spec.horizon)} stages, which changes a "
                f"value by at most {short(outcome.truncation)}",
            )
        )
    return lines


def _achieved(outcome: Outcome) -> str:
    if outcome.achieved is None:
        return "not played: no parameter to follow, or too many queries; see --episodes"
    error = outcome.standard_error
    episodes = "1 episode" if len(outcome.returns) == 1 else f"{len(outcome.returns)} episodes"
    spread = "" if error is None else f" +- {number(error)} (standard error)"
    return f"{number(outcome.achieved)}{spread} in {episodes}"


def _certificate(plan: Plan) -> Pairs:
    certificate = plan.certificate
    if certificate.confidence is None:
        return [("certificate", f"none: {certificate.grounds}")]
    claimed = certificate.lower is not None and certificate.upper is not None
    return [
        *([("claim", certificate.sentence)] if claimed else []),
        ("lower", _bound(certificate.lower, "<= value of this policy")),
        (
            "upper",
            _bound(certificate.upper, ">= value of the best policy that these features represent"),
        ),
        ("gap", _bound(certificate.gap, f"with delta {plan.delta:g}")),
        ("confidence", number(certificate.confidence)),
        ("grounds", certificate.grounds),
        *(("assuming", assumption) for assumption in certificate.assumptions),
    ]


def _bound(value: float | None, meaning: str) -> str:
    return "none" if value is None else f"{number(value)} {meaning}"


def _effort(plan: Plan) -> Pairs:
    queries, summary = plan.queries, plan.summary()
    phases = ", ".join(f"{name} {number(n)}" for name, n in queries.by_phase.items() if n)
    return [
        ("queries", number(queries.total) + (f" ({phases}; play is no query)" if phases else "")),
        ("", f"{number(queries.per_episode)} in the dearest episode, planning included"),
        ("iterations", _iterations(plan, summary["iterations"])),
        ("oracle", f"{plan.oracle}, {number(plan.nodes)} nodes"),
        *_sizes(plan),
    ]


def _iterations(plan: Plan, iterations: int) -> str:
    states = number(plan.critical_states)
    if isinstance(plan, PaperPlan):
        return f"{number(iterations)}, {states} of them ended in a failed test"
    return f"{number(iterations)}, and {states} states whose data exclude parameters"


def _sizes(plan: Plan) -> Pairs:
    if not isinstance(plan, PaperPlan):
        return []
    sizes = plan.resolved.sizes
    drawn = (sizes.rollouts, sizes.test_draws, sizes.refine_draws)
    words = " ".join(f"n{i}={short(n)}" for i, n in enumerate(drawn, start=1))
    return [("sizes", words)]
