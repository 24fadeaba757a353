"""The adaptive planner for features along the axes, as tabular ones are.

Box propagation gives the upper bound without a search. The empirical model says how often the
optimistic policy meets each critical state, and its actions there are drawn again where visits
times noise, for each draw, are largest. States that it meets often enough are opened. The policy
that is certified is a table: the one that is best in the model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from tensorplan.local import Handle, Key, LocalAccess, Measurement
from tensorplan.planners.adaptive.book import Book, Slab, Spreads, box_spread
from tensorplan.planners.adaptive.engine import StochasticEngine
from tensorplan.planners.adaptive.model import Model
from tensorplan.planners.adaptive.state import State
from tensorplan.records import FloatArray, IntArray, Phase

FIRST_DRAWS = 32
UPPER_SHARE = 0.7
"""Part of the gap that the upper bound may take before a policy is certified."""

UNSEEN = 0.02
"""A state is opened once visits times its largest value exceed this part of delta."""

SPREAD_ROUNDS = 3
"""How often ranges and radii sharpen one another in a step."""

MOST_NODES = 50
"""Node solves of a question."""


@dataclass(frozen=True, eq=False)
class TablePolicy:
    """Plays an action by the axis of the features.

    Attributes:
        table: [H or 1, d], by stage and axis; -1 where the first available action is played.
    """

    table: IntArray

    def act(
        self, access: LocalAccess, handle: Handle, phase: Phase, key: Key
    ) -> tuple[IntArray, list[tuple[IntArray, Measurement]]]:
        """Actions for n states: [n]; nothing is measured."""
        axes = access.features(handle).argmax(axis=1)
        allowed = access.allowed(handle)
        actions: IntArray = self.table[handle.stage - 1, axes]
        known = (actions >= 0) & allowed[np.arange(handle.size), actions]
        chosen: IntArray = np.where(known, actions, allowed.argmax(axis=1))
        return chosen, []


@dataclass(frozen=True)
class TabularState(State):
    """What the planner knows, with where unopened states are to be found.

    Attributes:
        found: (stage, axis) -> a handle of the state.
        box: [d, 2], ranges of theta's entries.
        left_axes: whether a state has been seen whose features are not along an axis, or one that
            came up among too many answers to be kept.
    """

    found: Mapping[tuple[int, int], Handle] = field(default_factory=dict[tuple[int, int], Handle])
    box: FloatArray = field(default_factory=lambda: np.zeros((0, 2)))
    left_axes: bool = False


class TabularEngine(StochasticEngine[TabularState]):
    """Features along the axes."""

    @property
    def most_nodes(self) -> int | None:
        """Few node solves: propagation has said what there is to say before any search."""
        return MOST_NODES

    def make_book(self, level: float) -> Book:
        """A state for each axis; with stages an axis could be met at several."""
        spec = self.resolved.spec
        return Book(self.resolved, level, spec.dim, closed=spec.horizon is None)

    def begin(self) -> TabularState:
        """Nothing is known but where the episode starts."""
        norm = self.resolved.norm
        ball = np.repeat([[-norm, norm]], len(self.objective), axis=0)
        ends = self.ranges.high(1), self.ranges.low(1)
        return TabularState(self.nothing_known(), *ends, box=ball)

    def episode_cost(self, state: TabularState) -> int:
        """A table is played without a query."""
        return 0

    def is_open(self, state: TabularState, handle: Handle) -> bool:
        """Whether a state of its stage and axis is critical already."""
        key = (handle.stage, int(self.access.features(handle)[0].argmax()))
        return any(key == (slab.stage, int(slab.features.argmax())) for slab in state.slabs)

    def policy_of(self, state: TabularState) -> TablePolicy:
        """The policy that is best in the model."""
        state = self._find(state)
        if state.left_axes or not state.slabs:
            return self._table([], np.zeros(0, np.int64))
        keys, model = self._model(state)
        return self._table(keys, model.best(model.ends[len(state.slabs) :, 0]))

    def first_draws(self, stage: int) -> int:
        """Draws of each action at a new critical state."""
        return FIRST_DRAWS

    def spreads(self, state: TabularState, slab: Slab) -> Spreads:
        """By the ranges of theta's entries."""
        widest = self.book.widest(slab)
        low, high = self.book.next_values(slab)
        found = box_spread(slab, self.discount, state.box, low, high)
        if found is None:
            return widest
        return Spreads(
            np.minimum(found.variance, widest.variance), np.minimum(found.reach, widest.reach)
        )

    def respread(self, state: TabularState) -> TabularState:
        """Radii and ranges sharpen one another."""
        for _ in range(SPREAD_ROUNDS):
            before = state.beliefs
            state = super().respread(replace(state, box=self._box(state)))
            if state.beliefs is before:
                break
        return state

    def work(self, state: TabularState) -> TabularState:
        """Open what the optimistic policy meets, certify, or draw where it pays."""
        state = self._find(state)
        if state.left_axes:
            return state
        keys, model = self._model(state)
        optimistic = model.optimistic()
        visits = model.visits(optimistic)
        count = len(state.slabs)
        size = np.abs(model.ends[count:]).max(axis=1, initial=0.0)
        new = np.flatnonzero(visits[count:] * size > UNSEEN * self.resolved.delta)
        if len(new):
            for key in [keys[count + k] for k in new.tolist()]:
                state = self.open(state, state.found[key], FIRST_DRAWS)
            return replace(state, spread_upper=np.inf)
        state = self._certify(state, keys, model, optimistic)
        return state if state.status is not None else self._refine(state, model, optimistic, visits)

    def _find(self, state: TabularState) -> TabularState:
        """Where the states behind critical ones are to be found, as far as that is news."""
        news = [pair for slab in state.slabs for pair in slab.following]
        found = dict(state.found)
        for handle, features in news:
            used = np.count_nonzero(features, axis=1)
            if used.max(initial=0) > 1 or features.min(initial=0.0) < 0:
                return replace(state, left_axes=True)
            axes = features.argmax(axis=1)
            for row in np.flatnonzero(used).tolist():
                key = (handle.stage, int(axes[row]))
                if key not in found:
                    found[key] = self.access.take(handle, [row])
        slabs = tuple(replace(slab, following=()) for slab in state.slabs)
        state = replace(state, found=found, slabs=slabs)
        return replace(state, left_axes=self._lost(state, found))

    def _lost(self, state: TabularState, found: Mapping[tuple[int, int], Handle]) -> bool:
        """Whether some next state is not to be found, as answers were too many to be counted."""
        known = {*found, *((slab.stage, int(slab.features.argmax())) for slab in state.slabs)}
        return any(
            (self.ranges.after(slab.stage), axis) not in known
            for slab in state.slabs
            for sample in slab.samples
            if sample.values is None
            for axis in np.flatnonzero(sample.mean[2:]).tolist()
        )

    def _model(self, state: TabularState) -> tuple[list[tuple[int, int]], Model]:
        """The empirical model, and the stage and axis of each of its states."""
        keys = [(slab.stage, int(slab.features.argmax())) for slab in state.slabs]
        place = {key: k for k, key in enumerate(keys)}
        for key in state.found:
            if key not in place:
                place[key] = len(keys)
                keys.append(key)
        count, actions = len(state.slabs), self.resolved.spec.actions
        rewards, width = np.full((count, actions), -np.inf), np.zeros((count, actions))
        moves, counts = np.zeros((count, actions, len(keys))), np.ones((count, actions))
        for k, slab in enumerate(state.slabs):
            for a, sample, radius in zip(
                slab.actions.tolist(), slab.samples, slab.radii.tolist(), strict=True
            ):
                rewards[k, a], width[k, a] = sample.mean[1], radius
                counts[k, a] = sample.count
                after = self.ranges.after(slab.stage)
                for axis in np.flatnonzero(sample.mean[2:]).tolist():
                    length = sample.mean[2 + axis]
                    moves[k, a, place[after, axis]] += self.discount * length
        box = state.box
        ends = np.array([box[axis] for _, axis in keys])
        eta = self.resolved.eta
        low = np.array([self.ranges.low(stage) - eta for stage, _ in keys])
        high = np.array([self.ranges.high(stage) + eta for stage, _ in keys])
        ends = np.stack([np.maximum(ends[:, 0], low), np.minimum(ends[:, 1], high)], axis=1)
        begin = (self.start.stage, int(self.objective.argmax()))
        return keys, Model(rewards, moves, ends, width, counts, place.get(begin, 0))

    def _box(self, state: TabularState) -> FloatArray:
        """Ranges of theta's entries: [d, 2]; as before while no critical state says anything."""
        box = self.oracle.box(state.beliefs)
        return state.box if box is None else box

    def _certify(
        self,
        state: TabularState,
        keys: list[tuple[int, int]],
        model: Model,
        optimistic: IntArray,
    ) -> TabularState:
        """Certify the policy that is best in the model, if its value there is close enough."""
        count = len(state.slabs)
        unseen = model.ends[count:, 0]
        candidates = [model.best(unseen), optimistic]
        worth = [float(model.values(actions, unseen)[model.start]) for actions in candidates]
        gap = state.upper - max(worth)
        if gap > UPPER_SHARE * self.resolved.delta or not self.may_look(state):
            return state
        actions = candidates[int(np.argmax(worth))]
        return self.verify(state, self._table(keys, actions))

    def _table(self, keys: list[tuple[int, int]], actions: IntArray) -> TablePolicy:
        """The policy that plays some actions at the first of some stages and axes."""
        stages = self.ranges.horizon or 1
        table = np.full((stages, self.resolved.spec.dim), -1, np.int64)
        for (stage, axis), action in zip(keys, actions.tolist(), strict=False):
            table[stage - 1, axis] = action
        return TablePolicy(table)

    def _refine(
        self, state: TabularState, model: Model, actions: IntArray, visits: FloatArray
    ) -> TabularState:
        """Double the draws that take most noise off the bound, until half of it is covered."""
        rows = np.arange(len(actions))
        noise = visits[: len(rows)] * model.width[rows, actions]
        order: IntArray = np.argsort(-noise / model.counts[rows, actions])
        covered: FloatArray = np.cumsum(noise[order])
        last = int(np.count_nonzero(covered < covered[-1] / 2)) + 1
        for place in (int(k) for k in order[:last]):
            slab = state.slabs[place]
            arm = int(np.flatnonzero(slab.actions == actions[place])[0])
            state = self.refine(state, place, {arm: slab.samples[arm].count})
        return replace(state, spread_upper=np.inf)
