"""What a check found: one finding for each rule, and a report that can be read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from tensorplan.errors import SimulatorError

Verdict = Literal["ok", "broken", "skipped"]


class Halt(Exception):
    """The answers are too broken to ask any further along this line."""


@dataclass(frozen=True)
class Finding:
    """What was found about one rule.

    Attributes:
        rule: short name of the rule.
        verdict: "ok" where it was seen to hold, "skipped" where it could not be tried.
        detail: what the rule says, what broke it first, or why it was skipped.
    """

    rule: str
    verdict: Verdict
    detail: str

    def __str__(self) -> str:
        label = self.verdict.upper() if self.verdict == "broken" else self.verdict
        return f"{label:8} {self.rule:17} {self.detail}"


@dataclass(frozen=True)
class Report:
    """All findings, in the order of the rules."""

    findings: tuple[Finding, ...]

    @property
    def broken(self) -> tuple[Finding, ...]:
        """The findings about broken rules."""
        return tuple(finding for finding in self.findings if finding.verdict == "broken")

    @property
    def ok(self) -> bool:
        """Whether no rule was seen to be broken."""
        return not self.broken

    def raise_if_broken(self) -> None:
        """Raise a :class:`SimulatorError` that lists every broken rule."""
        if self.broken:
            raise SimulatorError(
                "broken rules " + ", ".join(finding.rule for finding in self.broken),
                "; ".join(finding.detail for finding in self.broken).rstrip("."),
                "Correct the first one first: others may follow from it.",
            )

    def __str__(self) -> str:
        count = len(self.broken)
        verdict = "keeps its contract" if not count else f"breaks {count} of its rules"
        return "\n".join([*(str(finding) for finding in self.findings), f"It {verdict}."])


class Ledger:
    """Gathers findings rule by rule; the first break of a rule is the one that is told.

    Args:
        rules: what each rule says, by its name.
    """

    def __init__(self, rules: Mapping[str, str]) -> None:
        self._rules = rules
        self._held: set[str] = set()
        self._breaks: dict[str, list[str]] = {}
        self._skips: dict[str, str] = {}

    def hold(self, rule: str) -> None:
        """The rule was tried, and held."""
        self._held.add(rule)

    def skip(self, rule: str, reason: str) -> None:
        """The rule says nothing here."""
        self._skips[rule] = reason

    def break_(self, rule: str, detail: str) -> None:
        """The rule was broken."""
        self._breaks.setdefault(rule, []).append(detail)

    def judge(self, rule: str, complaint: str | None) -> None:
        """The rule held if there is nothing to complain about."""
        if complaint is None:
            self.hold(rule)
        else:
            self.break_(rule, complaint)

    def report(self) -> Report:
        """One finding for each rule."""
        return Report(tuple(self._finding(rule) for rule in self._rules))

    def _finding(self, rule: str) -> Finding:
        if rule in self._breaks:
            first, *more = self._breaks[rule]
            return Finding(rule, "broken", first + (f" (and {len(more)} more)" if more else ""))
        if rule in self._skips:
            return Finding(rule, "skipped", self._skips[rule])
        if rule in self._held:
            return Finding(rule, "ok", self._rules[rule])
        return Finding(rule, "skipped", "the check did not get that far")
