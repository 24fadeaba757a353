"""What ``diagnose`` says: how badly the features fit, at least, and what follows (theory F6)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tensorplan.records import FloatArray

_SHOWN = 10
"""Witnesses that the text lists."""


@dataclass(frozen=True, eq=False)
class Witness:
    """A critical state without which the proof would not hold.

    Attributes:
        stage: h.
        state: as the simulator has it.
        features: [d].
        draws: [k], of each available action.
    """

    stage: int
    state: Any
    features: FloatArray = field(repr=False)
    draws: FloatArray = field(repr=False)

    def __str__(self) -> str:
        """The state in a line."""
        low, high = int(self.draws.min()), int(self.draws.max())
        draws = f"{low}" if low == high else f"{low} to {high}"
        return f"stage {self.stage}, state {self.state}, {draws} draws of each action"


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """How badly the features fit, by the data of a run.

    Attributes:
        least: the values of every policy (of every optimal one, if ``compete`` is "optimal") are
            farther than this from linear somewhere; 0 if the data do not exclude a perfect fit.
        fitting: the least eta that was tried and is not excluded.
        confidence: probability with which ``least`` is not too large.
        upper: (eta, bound): a policy that fits as well as eta is worth at most the bound.
        witnesses: the states that prove together that ``least`` is too small.
        norm: B, the bound on ||theta|| that all this assumes.
        leans_on_norm: whether the proof needs it.
        compete: which policies are meant.
        inaccuracy: lambda, which is assumed.
        deterministic: whether determinism is assumed.
        lower: value that some policy is known to have, if one was found.
        queries: that the data took.
    """

    least: float
    fitting: float
    confidence: float
    upper: tuple[tuple[float, float], ...]
    witnesses: tuple[Witness, ...]
    norm: float
    leans_on_norm: bool
    compete: str
    inaccuracy: float
    deterministic: bool
    lower: float | None
    queries: int

    @property
    def sentence(self) -> str:
        """What was found, in plain language."""
        if not self.least:
            return (
                "The data do not exclude that the features fit perfectly; that is no proof that "
                "they do."
            )
        whose = "the optimal values are" if self.compete == "optimal" else "every policy's are"
        return (
            f"No policy fits better than {self.least:.4g}: {whose} farther than that from linear "
            "at some state."
        )

    @property
    def advice(self) -> str:
        """What to do with it."""
        if not self.least:
            return "Plan with the eta that you believe in, or go on with 0; more data may object."
        best = "" if self.lower is None else f", while {self.lower:.4g} is reached"
        bound = self.upper[0][1] if self.upper else None
        said = "" if bound is None else f" (the set of {self.fitting:.4g} says {bound:.4g}{best})"
        return (
            f"This is a lower bound, and the truth may be far above it. At {self.least:.4g} the "
            f"upper bound says nothing{said}. Choose eta by what is known of the process, from "
            f"{self.least:.4g} on, or find better features; data refute an eta, they confirm none."
        )

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What was taken for granted."""
        found = [f"||theta|| <= {self.norm:g}"]
        if self.least:
            found[0] += f"; the proof {'needs' if self.leans_on_norm else 'does not need'} it"
        if self.inaccuracy:
            found.append(f"mean rewards are within {self.inaccuracy:g} of the truth")
        if self.deterministic:
            found.append("rewards and next states are deterministic, as the Spec declares")
        return tuple(found)

    def summary(self) -> dict[str, Any]:
        """Everything, as plain data."""
        return {
            "eta": self.least,
            "eta_not_excluded": self.fitting,
            "confidence": self.confidence,
            "sentence": self.sentence,
            "advice": self.advice,
            "upper": [{"eta": eta, "upper": bound} for eta, bound in self.upper],
            "witnesses": [
                {
                    "stage": each.stage,
                    "state": str(each.state),
                    "features": each.features.tolist(),
                    "draws": [int(count) for count in each.draws],
                }
                for each in self.witnesses
            ],
            "norm": self.norm,
            "leans_on_norm": self.leans_on_norm,
            "compete": self.compete,
            "assumptions": list(self.assumptions),
            "lower": self.lower,
            "queries": self.queries,
        }

    def __str__(self) -> str:
        """What was found, in some lines."""
        lines = [self.sentence, f"confidence {self.confidence:g}, from {self.queries} queries"]
        lines += [f"assuming {each}" for each in self.assumptions]
        lines += [f"witness: {each}" for each in self.witnesses[:_SHOWN]]
        if len(self.witnesses) > _SHOWN:
            lines.append(f"and {len(self.witnesses) - _SHOWN} more witnesses")
        lines += [f"eta {eta:.4g}: worth at most {bound:.6g}" for eta, bound in self.upper]
        return "\n".join([*lines, self.advice])
