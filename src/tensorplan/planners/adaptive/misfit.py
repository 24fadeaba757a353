"""The same data at another eta: how badly every policy fits, at least (theory F6).

A policy whose values are within eta of linear keeps its parameter in the believable set of that
eta. So an eta whose set is empty is below the misfit of every policy, and what the set of an eta
predicts at most bounds the value of every policy that fits so well. No query is made for it.

For one policy and all eta from its misfit on at once, the noise may not depend on eta (F1.6): with
v(s) = <phi, theta> + e(s), |e| <= eta, only the mean of R + gamma v(S') has to come close to its
expectation. Its answers lie in the range of values, and their spread is at most that of
R + gamma <phi', theta> and gamma eta more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, cast

import numpy as np

from tensorplan.hypotheses import Cuts, Hypotheses
from tensorplan.local import Handle
from tensorplan.oracle.base import OracleStatus
from tensorplan.oracle.slabs import SlabOracle
from tensorplan.planners.adaptive.book import Book, Slab, Spreads
from tensorplan.planners.adaptive.deterministic import DeterministicEngine
from tensorplan.planners.adaptive.engine import StochasticEngine
from tensorplan.planners.adaptive.evidence import everything, known_in_full
from tensorplan.planners.adaptive.records import AdaptiveState, Engine
from tensorplan.planners.adaptive.settings import Resolved
from tensorplan.planners.adaptive.state import State
from tensorplan.records import FloatArray

NODES = 20_000
"""Node solves of one question."""

PRECISION = 1e-3
"""Part of the misfit to which it is found, and ..."""

FINEST = 1e-6
"""... part of the largest value below which it counts as none."""

POINTS = 10
"""Points of the curve, each eta twice the one before, or as many as say something."""

MOST_TRIED = 64
"""Critical states of a proof that are tried to leave out."""

ROUNDS = 3
"""How often radii and what is believable sharpen one another."""

MARGIN = 1.1
"""A fitted eta is so many times the least that leaves a parameter."""

AnyStochastic = StochasticEngine[Any]


@dataclass(frozen=True)
class SteadyBook(Book):
    """Radii that hold at every eta from a policy's misfit on at once."""

    def bound(self, stage: int) -> float:
        """b: how far R + gamma v(S') can be from its mean."""
        return self.resolved.ranges.width(stage)

    def with_radii(self, slab: Slab, spreads: Spreads) -> Slab:
        """The state with radii by the spread of R + gamma v(S')."""
        more = self.resolved.spec.discount * self.resolved.eta
        width = self.bound(slab.stage)
        own = Spreads(
            np.minimum((np.sqrt(spreads.variance) + more) ** 2, width**2 / 4),
            np.minimum(spreads.reach + 2 * more, width),
        )
        return super().with_radii(slab, own)


@dataclass(frozen=True)
class Misfit:
    """What the data say of the smallest eta.

    Attributes:
        least: no policy fits better; 0 if the data exclude nothing.
        fitting: the least eta that was tried and leaves a parameter.
        upper: (eta, largest value at the start of a policy that fits so well), for some eta.
        witnesses: handle and draws of each action, of the critical states that prove together that
            ``least`` is too small.
        leans_on_norm: whether that proof needs the norm bound B; False if nothing is excluded.
    """

    least: float
    fitting: float
    upper: tuple[tuple[float, float], ...]
    witnesses: tuple[tuple[Handle, FloatArray], ...]
    leans_on_norm: bool


def confidence_of(engine: Engine) -> float:
    """Probability with which a misfit is not overstated: nothing else is claimed with it."""
    return 1.0 if isinstance(engine, DeterministicEngine) else engine.resolved.settings.confidence


def find_misfit(engine: Engine, state: AdaptiveState) -> Misfit:
    """The smallest eta whose set is not empty, by bisection, and what follows from it."""
    read = _reader(engine, state)
    objective = _objective(engine)
    least, fitting = _bisect(read, _largest(engine.resolved), len(objective))
    if least is None:
        return Misfit(0.0, fitting, tuple(_curve(engine, read, objective, fitting)), (), False)
    places, leans = _witnesses(read(least), engine.resolved.norm)
    held = _held(engine, state)
    curve = tuple(_curve(engine, read, objective, fitting))
    return Misfit(least, fitting, curve, tuple(held[place] for place in places), leans)


def fit(engine: Engine, state: AdaptiveState) -> tuple[Engine, AdaptiveState]:
    """What goes on from a rejected run, at an eta that leaves a parameter, with all its data."""
    read = _reader(engine, state)
    _, found = _bisect(read, _largest(engine.resolved), len(_objective(engine)))
    least = max(found, engine.resolved.eta_given, FINEST * _largest(engine.resolved))
    resolved = engine.resolved.with_eta(MARGIN * least, fitted=True)
    if isinstance(engine, DeterministicEngine):
        return engine.reread(state, resolved)
    own, known = cast("AnyStochastic", engine), cast("State", state)
    later = copy(own)
    later.resolved = resolved
    later.book = later.make_book(resolved.level / 2)
    return cast("Engine", later), _reread(later, known, own.resolved)


Reader = Callable[[float], Hypotheses]
"""What is believable at an eta."""


def _reader(engine: Engine, state: AdaptiveState) -> Reader:
    if isinstance(engine, DeterministicEngine):
        graph, resolved = engine.graph, engine.resolved

        def read(eta: float) -> Hypotheses:
            other = resolved.with_eta(eta)
            return everything(graph.read_by(other), other).beliefs

        return read
    own, known = cast("AnyStochastic", engine), cast("State", state)

    def reread(eta: float) -> Hypotheses:
        return _reread(_steady(own, eta), known, own.resolved).beliefs

    return reread


def _steady(engine: AnyStochastic, eta: float) -> AnyStochastic:
    """The engine at another eta, with radii that hold at all eta at once and the whole level."""
    later = copy(engine)
    later.resolved = engine.resolved.with_eta(eta)
    later.oracle = SlabOracle(NODES, gap=engine.oracle.gap)
    book = engine.book
    later.book = SteadyBook(later.resolved, later.resolved.level, book.even, book.closed)
    return later


def _reread(engine: AnyStochastic, state: State, before: Resolved) -> State:
    """What is known, read by an engine with another eta; what has been certified stays."""
    fresh = cast("State", engine.begin())
    slabs = tuple(engine.book.with_radii(slab, engine.book.widest(slab)) for slab in state.slabs)
    cuts = _widened(state.beliefs.cuts, engine.resolved, before)
    if engine.resolved.eta < before.eta:
        cuts = reduce(Cuts.joined, map(engine.book.cuts, slabs), cuts)
    beliefs = engine.nothing_known().with_cuts(cuts)
    beliefs = replace(beliefs, states=tuple(slab.state(engine.discount) for slab in slabs))
    known = replace(
        fresh,
        beliefs=beliefs,
        slabs=slabs,
        opened=state.opened,
        lower=state.lower,
        best=state.best,
        looks=state.looks,
        named=state.named,
        events=state.events,
        nodes=state.nodes,
    )
    for _ in range(ROUNDS):
        sharper = engine.respread(known)
        if sharper.beliefs is known.beliefs:
            break
        known = sharper
    return known


def _widened(cuts: Cuts, resolved: Resolved, before: Resolved) -> Cuts:
    """Ranges of values, or of a fraction of them, as they are at another eta (F10.3).

    They were drawn at the first one; below it they stay as they are, which is wider than needed.
    """
    more = max(0.0, resolved.eta - before.eta)
    return Cuts(cuts.normals, cuts.low - more, cuts.high + more)


def _largest(resolved: Resolved) -> float:
    """An eta at which theta = 0 fits."""
    ranges = resolved.ranges
    rewards = max(abs(ranges.reward_low), abs(ranges.reward_high)) + resolved.inaccuracy
    return max(abs(ranges.low(1)), abs(ranges.high(1)), rewards)


def _objective(engine: Engine) -> FloatArray:
    if isinstance(engine, DeterministicEngine):
        return engine.objective
    return cast("AnyStochastic", engine).objective


def _bisect(read: Reader, top: float, dim: int) -> tuple[float | None, float]:
    """The largest eta found to be too small, if any, and the least found to be enough."""
    if not _is_empty(read(0.0), dim):
        return None, 0.0
    low, high = 0.0, top
    while high - low > max(PRECISION * high, FINEST * top):
        # While nothing is known of its size, by size.
        middle = 0.5 * (low + high) if low else 0.1 * high
        low, high = (middle, high) if _is_empty(read(middle), dim) else (low, middle)
    return low, high


def _is_empty(beliefs: Hypotheses, dim: int) -> bool:
    """Whether it is proved that nothing is left; a search that was cut short proves nothing."""
    answer = SlabOracle(NODES).maximise(np.zeros(dim), beliefs)
    return answer.status is OracleStatus.EMPTY


def _witnesses(beliefs: Hypotheses, norm: float) -> tuple[list[int], bool]:
    """Places of critical states that leave nothing, none of them needlessly; and B's part."""
    oracle, dim = SlabOracle(NODES), beliefs.dim
    oracle.maximise(np.zeros(dim), beliefs)
    places = oracle.blamed()
    for place in places[::-1][:MOST_TRIED]:
        fewer = [other for other in places if other != place]
        if _is_empty(_only(beliefs, fewer), dim):
            places = fewer
    oracle.maximise(np.zeros(dim), _only(beliefs, places))
    return places, oracle.norm_limit() < 2 * norm


def _only(beliefs: Hypotheses, places: list[int]) -> Hypotheses:
    return replace(beliefs, states=tuple(beliefs.states[place] for place in places))


def _held(engine: Engine, state: AdaptiveState) -> list[tuple[Handle, FloatArray]]:
    """Handle and draws of each critical state."""
    if isinstance(engine, DeterministicEngine):
        graph = engine.graph
        nodes = known_in_full(graph)
        return [(graph.handles[node], np.ones(len(graph.available(node)))) for node in nodes]
    return [(slab.handle, slab.counts) for slab in cast("State", state).slabs]


def _curve(
    engine: Engine, read: Reader, objective: FloatArray, first: float
) -> Iterator[tuple[float, float]]:
    """Upper bounds on the value of policies that fit, from the least eta on (F6)."""
    top, most = _largest(engine.resolved), engine.resolved.ranges.high(1)
    etas = [first] if first else [0.0]
    etas += [(first or top / 2**POINTS) * 2.0**k for k in range(1 if first else 0, POINTS)]
    for eta in etas:
        beliefs = read(eta)
        answer = SlabOracle(NODES, gap=1e-5).maximise(objective, beliefs)
        bound = min(most, answer.upper + engine.resolved.with_eta(eta).eta)
        yield eta, bound
        if bound >= most:
            return
