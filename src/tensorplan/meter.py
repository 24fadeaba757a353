"""Counting queries, and refusing those that exceed a budget."""

from __future__ import annotations

import time
from collections import Counter

from tensorplan.errors import QueryBudgetError
from tensorplan.records import Phase, Queries

MOST_QUERIES = 2**62
"""More than any machine can make; the theorem's sizes can ask for them."""


class QueryMeter:
    """Counts queries by phase, by episode and by call of GetAction.

    Args:
        limit: largest number of queries in all, or None.
        limit_per_call: largest number in one call of GetAction, or None.
        seconds: time after which queries are refused, or None.
    """

    def __init__(
        self,
        limit: int | None = None,
        limit_per_call: int | None = None,
        seconds: float | None = None,
    ) -> None:
        self._limit, self._limit_per_call = limit, limit_per_call
        self._seconds = seconds
        self._began = time.monotonic()
        self._by_phase: Counter[Phase] = Counter()
        self._episode = self._call = 0
        self._worst_episode = self._worst_call = 0

    @property
    def total(self) -> int:
        """All queries so far."""
        return self._by_phase.total() - self._by_phase[Phase.PLAY]

    def allow(self, phase: Phase, queries: int) -> None:
        """Refuse queries that would break a budget; nothing is counted yet."""
        if phase is not Phase.PLAY:
            self._refuse(MOST_QUERIES, self.total + queries, "of any run")
            self._refuse(self._limit, self.total + queries, "in all")
            self._refuse(self._limit_per_call, self._call + queries, "in one call")

    def charge(self, phase: Phase, queries: int) -> None:
        """Count queries that are about to be made, if there is time for them."""
        if phase is Phase.PLAY:
            self._by_phase[phase] += queries
            return
        self._check_time()
        self._by_phase[phase] += queries
        self._episode += queries
        self._call += queries
        self._worst_episode = max(self._worst_episode, self._episode)
        self._worst_call = max(self._worst_call, self._call)

    def lift_limit(self) -> None:
        """Drop the limits in all: planning is over, and acting must not fail."""
        self._limit = self._seconds = None

    def allow_more(self, queries: int | None, seconds: float | None) -> None:
        """Set limits for what comes next; None is no limit."""
        self._limit = None if queries is None else self.total + queries
        self._seconds = None if seconds is None else time.monotonic() - self._began + seconds

    def _check_time(self) -> None:
        if self._seconds is not None and time.monotonic() - self._began > self._seconds:
            raise QueryBudgetError(
                f"{self.total} queries after {self._seconds:g} s",
                "the time budget is spent",
                "Allow more seconds, or ask for a larger delta.",
            )

    def new_call(self) -> None:
        """Begin another call of GetAction."""
        self._call = 0

    def new_episode(self) -> None:
        """Begin another episode."""
        self._episode = self._call = 0

    def read(self) -> Queries:
        """The counts so far."""
        by_phase = {phase.value: self._by_phase[phase] for phase in Phase}
        return Queries(self.total, by_phase, self._worst_episode, self._worst_call)

    @staticmethod
    def _refuse(limit: int | None, wanted: int, scope: str) -> None:
        if limit is not None and wanted > limit:
            raise QueryBudgetError(
                f"{wanted} queries {scope}",
                f"the budget {scope} is {limit}",
                "Allow more queries, or ask for a larger delta.",
            )
