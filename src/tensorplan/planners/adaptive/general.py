"""The adaptive planner for features of any kind, on a stochastic simulator (theory C and F).

A step that neither certifies nor rejects looks at how the optimistic parameter does: in a fresh
batch of rollouts, or against what earlier ones met. If it does well, its policy is certified by
rollouts of its own. Otherwise the data are sharpened where that is cheapest: by more draws at the
critical states that the upper bound leans on, by more draws at those that all but exclude the
parameter, or by a new critical state at which it fails.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from tensorplan.estimate import interval_variance, sampling_radius
from tensorplan.hypotheses import Cuts
from tensorplan.local import Handle
from tensorplan.planners.adaptive.book import Slab, Spreads
from tensorplan.planners.adaptive.engine import LOOK_SIZE, StochasticEngine
from tensorplan.planners.adaptive.policy import GreedyPolicy
from tensorplan.planners.adaptive.rollouts import Batch, Visits, roll
from tensorplan.planners.adaptive.samples import Sample
from tensorplan.planners.adaptive.state import State
from tensorplan.records import BoolArray, FloatArray, Phase, Status

FIRST_DRAWS, DRAWS_PER_STAGE = 64, 32
"""Draws of each action at a new critical state: at least so many, and so many for each stage that
is left."""

BATCH, WIDEST = 8, 1024
"""Rollouts of a batch, and the most that doubling leads to."""

TEST_DRAWS, MOST_TEST_DRAWS = 8, 64
"""Draws of each action in a test, and the most that doubling leads to."""

READY = 0.85
"""Part of delta between upper bound and mean return from which a policy may be certified."""

STALE_LOOK = 0.5
"""Part of delta by which the upper bound falls before the last attempt says nothing any more."""

FIRST_LOOK = 0.05
"""The first attempt is made once it costs no more than this part of all queries: a lower bound
also tells which parameters are not worth excluding."""

WORTHWHILE = 0.4
"""... if that is likely to cost no more than this part of all queries so far."""

STALE_FALL, STALE_STEPS, STALE_COST = 0.15, 25, 3.0
"""A batch is stale once the upper bound has fallen by this part of delta, after so many steps, or
after as many queries as so many such batches."""

LEANS = 0.3
"""Part of the gap that the noise of the data must explain for more draws to go there."""

CHEAP = 3.0
"""A new critical state is preferred to more draws that cost so many times more, ..."""

PAYS = 0.02
"""... unless the last one took less than this part of delta off the upper bound."""

GROWTH, MOST_GROWTH, LEAST_GROWTH = 2.25, 4.0, 1.3
"""Factors by which the draws of an action grow: where the bound leans on them; to exclude."""

SHRINKAGE = 1.7
"""A radius falls like the draws to the power 1 / SHRINKAGE, as a guess."""

CUT_ROUNDS = 3
"""Batches in a row that may be broken off because the parameter breaks a range."""

CUTS_AT_ONCE = 2
"""Broken ranges of one kind that a stage adds."""

SHOWS = 0.8
"""Radius, as a part of an error, at which the error is likely to show."""

_ROUNDING = 1e-9


@dataclass(frozen=True)
class GeneralState(State):
    """What the planner knows, with what the last batch of rollouts met.

    Attributes:
        batch: the last batch that came to its end; None asks for another.
        batch_upper: upper bound at that time.
        batch_cost: queries of the batch.
        batch_end: all queries up to its end.
        steps: since then.
        cut_rounds: batches that have been broken off since then.
        test_draws: draws of each action in a test.
        rollouts: of a batch.
        opening_upper: upper bound before a critical state was opened in place of more draws.
        floor: value of the start below which no parameter is believed any more; -inf if there is
            none.
    """

    batch: Batch | None = None
    batch_upper: float = math.inf
    batch_cost: int = 0
    batch_end: int = 0
    steps: int = 0
    cut_rounds: int = 0
    test_draws: int = TEST_DRAWS
    rollouts: int = BATCH
    opening_upper: float = math.inf
    floor: float = -math.inf


class GeneralEngine(StochasticEngine[GeneralState]):
    """Features of any kind."""

    def begin(self) -> GeneralState:
        """Nothing is known but where the episode starts."""
        return GeneralState(self.nothing_known(), self.ranges.high(1), self.ranges.low(1))

    def continued(
        self, state: GeneralState, *, start: Handle | None = None, delta: float | None = None
    ) -> tuple[Self, GeneralState]:
        """What goes on from a finished run; rollouts from another start say nothing of this one."""
        engine, following = super().continued(state, start=start, delta=delta)
        if start is None:
            return engine, following
        return engine, engine.unfloored(replace(following, batch=None, opening_upper=math.inf))

    def unfloored(self, state: GeneralState) -> GeneralState:
        """The set without what is only true of policies that are worth the lower bound.

        The best policy from one start may be worth little from another. Its parameter has been
        left out, and spreads were found without it, so radii begin again at the widest.
        """
        if math.isinf(state.floor):
            return state
        book, beliefs = self.book, self.nothing_known()
        slabs = tuple(book.with_radii(slab, book.widest(slab)) for slab in state.slabs)
        for slab in slabs:
            beliefs = beliefs.with_cuts(book.cuts(slab)).with_state(slab.state(self.discount))
        return replace(state, beliefs=beliefs, slabs=slabs, floor=-math.inf)

    def episode_cost(self, state: GeneralState) -> int:
        """Most queries that playing an episode takes."""
        draws = state.best.draws if isinstance(state.best, GreedyPolicy) else state.test_draws
        return self.length * self.resolved.spec.actions * draws

    def first_draws(self, stage: int) -> int:
        """Draws of each action at a new critical state."""
        low, high = self.resolved.spec.reward_range
        stages = self.ranges.width(stage) / (high - low) if high > low else 1.0
        return max(FIRST_DRAWS, math.ceil(DRAWS_PER_STAGE * stages))

    def spreads(self, state: GeneralState, slab: Slab) -> Spreads:
        """By the ranges of the answers, and of the principal parts of their spread (B5)."""
        widest = self.book.widest(slab)
        variance, reach = widest.variance.copy(), widest.reach.copy()
        for place, sample in enumerate(slab.samples):
            own = self._spread(state, slab, sample)
            variance[place] = min(variance[place], own[0])
            reach[place] = min(reach[place], own[1])
        return Spreads(variance, reach)

    def work(self, state: GeneralState) -> GeneralState:
        """Look at how the parameter does; certify its policy, or sharpen the data."""
        if not self._stale(state):
            return self._sharpen(replace(state, steps=state.steps + 1))
        state, ended = self._look_around(state)
        if not ended:
            return state
        state = self._certify(state)
        if state.status is not None or state.batch is None:
            return state
        return self._sharpen(state)

    def _stale(self, state: GeneralState) -> bool:
        """Whether the last batch says too little of the parameter at hand."""
        since = self.access.queries.total - state.batch_end
        return (
            state.batch is None
            or state.upper < state.batch_upper - STALE_FALL * self.resolved.delta
            or state.steps >= STALE_STEPS
            or since > STALE_COST * state.batch_cost
        )

    def respread(self, state: GeneralState) -> GeneralState:
        """Ranges of values at critical states come first, as they limit how answers spread."""
        if state.beliefs.states:
            self.oracle.tighten(state.beliefs)
        return super().respread(state)

    # How answers spread.

    def _spread(self, state: GeneralState, slab: Slab, sample: Sample) -> tuple[float, float]:
        """Bounds on the variance of an action's answers, and on their distance from its mean."""
        covariance = sample.covariance(self.discount)
        if covariance is None:
            return math.inf, math.inf
        within = self._within(state)
        values, vectors = np.linalg.eigh(covariance)
        used = values > _ROUNDING * max(1.0, float(values[-1]))
        spans = self.oracle.spans(vectors[1:, used].T, state.beliefs, within)
        ends = np.abs(spans + vectors[0, used][:, None]).max(axis=1, initial=0.0)
        size = 1 + self.resolved.norm**2
        variance = float(values[used] @ ends**2) + size * float(np.abs(values[~used]).sum())
        if sample.values is None or sample.counts is None:
            return variance, math.inf
        low, high = self.book.next_values(slab)
        live = sample.values[:, 0] > 0
        spans = self.oracle.spans(sample.values[:, 2:], state.beliefs, within)
        spans = np.where(live[:, None], np.clip(spans, low, high), 0.0)
        ends = sample.values[:, 1:2] + self.discount * spans
        weights = sample.counts / sample.count
        by_range = float(interval_variance(ends[None], weights[None])[0])
        return min(variance, by_range), float(ends[:, 1].max() - ends[:, 0].min())

    def _within(self, state: GeneralState) -> tuple[FloatArray, float, float]:
        """What is known of the start's value; it holds for theta° as every earlier bound does."""
        return self.objective, -math.inf, state.upper + self.resolved.eta

    def _scale(self, state: GeneralState) -> float:
        """A guess of the standard deviation of R + gamma v(S') at the optimistic parameter."""
        direction = np.concatenate([[1.0], state.choice.theta])
        found = [
            float(direction @ covariance @ direction)
            for slab in state.slabs
            for sample in slab.samples
            if (covariance := sample.covariance(self.discount)) is not None
        ]
        return math.sqrt(max(0.0, float(np.median(found)))) if found else self.ranges.width(1)

    # Rollouts.

    def policy_of(self, state: GeneralState) -> GreedyPolicy:
        """The policy that follows the optimistic parameter."""
        if state.optimum is None:
            nothing = np.zeros(self.resolved.spec.dim)
            return GreedyPolicy(nothing, state.test_draws, self.ranges.width(1))
        return GreedyPolicy(state.choice.theta, state.test_draws, self._scale(state))

    def _look_around(self, state: GeneralState) -> tuple[GeneralState, bool]:
        """A batch of rollouts, broken off where the parameter breaks a range; whether it ended."""
        broken: list[Cuts] = []

        def go_on(visits: Visits) -> bool:
            cuts = self._broken(state.choice.theta, visits)
            if len(cuts):
                broken.append(cuts)
            return not len(cuts) or state.cut_rounds >= CUT_ROUNDS

        before = self.access.queries.total
        batch = roll(
            self.access,
            self.start,
            self.policy_of(state),
            state.rollouts,
            length=self.length,
            phase=Phase.TEST,
            key=(self.name(),),
            watch=go_on,
        )
        for cuts in broken:
            state = replace(state, beliefs=state.beliefs.with_cuts(cuts))
        if broken and state.cut_rounds < CUT_ROUNDS:
            return replace(state, cut_rounds=state.cut_rounds + 1), False
        total = self.access.queries.total
        state = replace(state, batch=batch, batch_upper=state.upper, steps=0, cut_rounds=0)
        return replace(state, batch_cost=total - before, batch_end=total), True

    def _broken(self, theta: FloatArray, visits: Visits) -> Cuts:
        """Ranges that a parameter breaks at states that were met, and at what followed (F10.3)."""
        stage, eta = visits.handle.stage, self.resolved.eta
        after = self.ranges.after(stage)
        means = visits.mean.reshape(-1, visits.mean.shape[2])
        here = np.ones(len(visits.features))
        found = Cuts(np.zeros((0, len(theta))), np.zeros(0), np.zeros(0))
        for normals, weights, at in (
            (visits.features, here, stage),
            (means[:, 2:], means[:, 0], after),
        ):
            low = weights * (self.ranges.low(at) - eta)
            high = weights * (self.ranges.high(at) + eta)
            values = normals @ theta
            excess = np.maximum(low - values, values - high)
            worst = np.argsort(-excess)[:CUTS_AT_ONCE]
            rows = worst[excess[worst] > _ROUNDING * (1 + np.abs(high[worst]))]
            if len(rows):
                found = found.joined(Cuts(normals[rows], low[rows], high[rows]))
        return found

    def _certify(self, state: GeneralState) -> GeneralState:
        """Certify the policy if its batch did well; test harder where that keeps failing."""
        assert state.batch is not None
        if not self._ready(state, state.batch.returns):
            return state
        before = state.looks.failed
        state = self.verify(state, self.policy_of(state))
        if state.status is not None or state.looks.failed == before:
            return state
        state = self._floored(state)
        draws = state.test_draws
        if state.looks.failed % 2 == 0:
            draws = min(2 * draws, MOST_TEST_DRAWS)
        return replace(state, test_draws=draws, batch=None)

    def _ready(self, state: GeneralState, returns: FloatArray) -> bool:
        """Whether rollouts are likely to certify the policy, or cheap beside what was spent."""
        each, looks = state.batch_cost / len(returns), state.looks
        if looks.count == 0 and LOOK_SIZE * each < FIRST_LOOK * state.batch_end:
            return True
        # A failed attempt knows the mean better than a batch does, while policies change little.
        recent = state.upper > looks.upper - STALE_LOOK * self.resolved.delta
        seen = looks.seen if recent else 0
        shift = seen * (looks.mean - float(returns.mean())) / (seen + len(returns))
        if state.upper - float(returns.mean()) - shift > READY * self.resolved.delta:
            return False
        needed = self.rollouts_to_certify(state, returns + shift)
        return needed * each <= WORTHWHILE * state.batch_end

    def _floored(self, state: GeneralState) -> GeneralState:
        """The set without the parameters whose policies are worth less than one that is known.

        If the best realizable policy is worth less than the lower bound L, then L bounds it from
        above; otherwise its parameter is worth at least L - eta at the start, and stays.
        """
        if state.lower <= max(state.floor, self.ranges.low(1)):
            return state
        low = np.array([state.lower - self.resolved.eta])
        cut = Cuts(self.objective[None], low, np.array([math.inf]))
        return replace(state, beliefs=state.beliefs.with_cuts(cut), floor=state.lower)

    def floor(self, state: GeneralState) -> float:
        """The lower bound by which parameters were left out."""
        return state.floor

    def emptied(self, state: GeneralState) -> GeneralState:
        """No parameter is left: none at all, or none that is worth more than the lower bound."""
        if math.isinf(state.floor):
            return super().emptied(state)
        return replace(state, upper=state.lower, status=Status.CERTIFIED)

    # Sharper data.

    def _sharpen(self, state: GeneralState) -> GeneralState:
        """More draws where the bound leans on noise, or what excludes the parameter cheapest."""
        assert state.batch is not None
        weights = self.oracle.weights()
        noise = [
            weights[place, : len(slab.radii)] * slab.radii for place, slab in enumerate(state.slabs)
        ]
        total = float(sum(part.sum() for part in noise))
        gap = state.upper - max(state.lower, float(state.batch.returns.mean()))
        if total <= LEANS * gap:
            return self._exclude(state)
        chosen = self._heaviest(state, noise, total / 2)
        cost = sum(sum(draws.values()) for draws in chosen.values())
        opening = self._opening(state)
        pays = state.upper <= state.opening_upper - PAYS * self.resolved.delta
        if opening is not None and pays and CHEAP * opening[2] <= cost:
            return replace(self.open(state, *opening[:2]), opening_upper=state.upper)
        for place, draws in chosen.items():
            state = self.refine(state, place, draws)
        return replace(state, opening_upper=math.inf)

    def _heaviest(
        self, state: GeneralState, noise: list[FloatArray], goal: float
    ) -> dict[int, dict[int, int]]:
        """More draws of the actions that take most noise off for each draw, up to a goal."""
        arms = sorted(
            (
                (float(part[arm] / slab.counts[arm]), place, arm)
                for place, (slab, part) in enumerate(zip(state.slabs, noise, strict=True))
                for arm in np.flatnonzero(part > 0).tolist()
            ),
            reverse=True,
        )
        covered = 0.0
        chosen: dict[int, dict[int, int]] = {}
        for _, place, arm in arms:
            if covered >= goal:
                break
            covered += float(noise[place][arm])
            more = math.ceil((GROWTH - 1) * state.slabs[place].counts[arm])
            chosen.setdefault(place, {})[arm] = more
        return chosen

    def _opening(self, state: GeneralState) -> tuple[Handle, int, int] | None:
        """A new critical state where the parameter fails: (state, draws of each action, cost)."""
        failing = self._worst_visit(state)
        if failing is None:
            return None
        visits, row, error = failing
        draws = self._draws_to_show(state, visits.handle.stage, error)
        cost = draws * int((visits.counts[row] > 0).sum())
        return self.access.take(visits.handle, [row]), draws, cost

    def _exclude(self, state: GeneralState) -> GeneralState:
        """The cheapest draws that are likely to exclude the optimistic parameter."""
        cost, refinement = self._cheapest_refinement(state)
        opening = self._opening(state)
        if opening is not None and opening[2] <= cost:
            return self.open(state, *opening[:2])
        if refinement is not None:
            return self.refine(state, *refinement)
        return replace(state, batch=None, rollouts=min(2 * state.rollouts, WIDEST))

    def _cheapest_refinement(
        self, state: GeneralState
    ) -> tuple[float, tuple[int, Mapping[int, int]] | None]:
        """Draws that exclude the parameter at a known critical state: (cost, where and which)."""
        best: tuple[float, tuple[int, Mapping[int, int]] | None] = (math.inf, None)
        for place, slab in enumerate(state.slabs):
            rows = slab.rows(self.discount)
            errors = np.abs(rows[:, 0] + rows[:, 1:] @ state.choice.theta)
            # The parameter lies on the border of a slab that binds it, up to rounding.
            inside: BoolArray = errors <= (1 + _ROUNDING) * slab.radii + _ROUNDING
            if not inside.any() or np.any(errors[inside] <= _ROUNDING * slab.radii[inside]):
                continue
            factor = np.where(inside, 1.1 * (slab.radii / np.maximum(errors, 1e-300)), 1.0)
            wanted = factor**SHRINKAGE
            cost = float(((wanted - 1) * slab.counts)[inside].sum())
            if cost < best[0]:
                growth = np.clip(wanted, LEAST_GROWTH, MOST_GROWTH) - 1
                more = np.ceil(growth * slab.counts)
                best = (
                    cost,
                    (place, {arm: int(more[arm]) for arm in np.flatnonzero(inside).tolist()}),
                )
        return best

    def _worst_visit(self, state: GeneralState) -> tuple[Visits, int, float] | None:
        """Where the last batch says that the parameter fails most: (visits, row, error)."""
        assert state.batch is not None
        scale = self._scale(state)
        worst, found = 0.0, None
        for visits in state.batch.visits:
            errors = visits.errors(state.choice.theta, self.discount)
            places = np.arange(len(errors)), errors.argmax(axis=1)
            failure = -errors[places]
            score = failure - scale / np.sqrt(visits.counts[places])
            row = int(score.argmax())
            if score[row] > worst:
                worst, found = float(score[row]), (visits, row, float(failure[row]))
        return found

    def _draws_to_show(self, state: GeneralState, stage: int, error: float) -> int:
        """Draws after which an error is likely to show at a new critical state."""
        level = self.book.level_of(state.opened + 1)
        variance, bound = np.array([self._scale(state) ** 2]), self.book.bound(stage)
        draws, most = FIRST_DRAWS, MOST_GROWTH * self.first_draws(stage)
        while draws < most:
            count = np.array([float(draws)])
            radius = sampling_radius(count, variance, bound, level, np.array([bound]))
            if radius[0] <= SHOWS * error:
                break
            draws = math.ceil(1.5 * draws)
        return draws
