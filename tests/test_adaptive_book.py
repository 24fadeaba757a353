"""Levels, bounds and radii of critical states, and what a run that was broken off has spent."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from estimate_streams import exceeds
from hypothesis import given
from hypothesis import strategies as st
from stochastic_worlds import asked, few_answers

from tensorplan import problems
from tensorplan.access import Access
from tensorplan.errors import QueryBudgetError
from tensorplan.estimate import sampling_radius
from tensorplan.finite import from_table
from tensorplan.meter import QueryMeter
from tensorplan.plan import Budget, plan
from tensorplan.planners.adaptive.book import Book, Slab, Spreads, box_spread, open_slab
from tensorplan.planners.adaptive.engines import fine_oracle
from tensorplan.planners.adaptive.general import GeneralEngine
from tensorplan.planners.adaptive.samples import Sample
from tensorplan.planners.adaptive.settings import AdaptiveSettings, Resolved, resolve
from tensorplan.planners.adaptive.tabular import TabularEngine
from tensorplan.planners.driver import drive
from tensorplan.problem import Simulator, from_functions
from tensorplan.records import FloatArray, Spec, Status


def resolved(spec: Spec, **settings: Any) -> Resolved:
    return resolve(AdaptiveSettings(delta=0.1, **settings), spec)


def engine_of(
    simulator: Simulator, kind: Any = GeneralEngine, limit: int | None = None, **settings: Any
) -> Any:
    access = Access(simulator, seed=0, meter=QueryMeter(limit))
    start = access.start()
    numbers = resolved(simulator.spec, **settings)
    oracle = fine_oracle(numbers, access.features(start)[0])
    return kind(access.local, start, numbers, oracle)


# --- the bound b (F1.6, F10.2) -------------------------------------------------------------------


def widest_answer(numbers: Resolved, stage: int) -> float:
    """Range of R + gamma v(S'; theta) by its extremes, one case at a time."""
    spec, ranges, eta = numbers.spec, numbers.ranges, numbers.eta
    ends: list[float] = []
    if stage != spec.horizon:
        after = ranges.after(stage)
        low = max(ranges.low(after) - eta, -numbers.norm)
        high = min(ranges.high(after) + eta, numbers.norm)
        ends += [low, high] if low <= high else []
    if stage == spec.horizon or spec.may_terminate:
        ends.append(0.0)
    if not ends:
        return 0.0
    answers = [r + spec.discount * v for r, v in itertools.product(spec.reward_range, ends)]
    return max(answers) - min(answers)


@given(
    st.sampled_from([1, 2, 5, None]),
    st.sampled_from([0.0, 0.5, 0.9]),
    st.sampled_from([(0.0, 1.0), (-1.0, 0.0), (-2.0, 3.0), (0.5, 1.0), (-1.0, -0.5), (0.0, 0.0)]),
    st.sampled_from([0.1, 1.0, 100.0]),
    st.sampled_from([0.0, 0.2]),
    st.booleans(),
)
def test_no_answer_is_further_from_its_mean_than_the_bound(
    horizon: int | None,
    discount: float,
    rewards: tuple[float, float],
    norm: float,
    eta: float,
    ends: bool,
) -> None:
    spec = Spec(
        2, 2, horizon, discount, rewards, bound=norm, misspecification=eta, may_terminate=ends
    )
    numbers = resolved(spec)
    book = Book(numbers, 0.02)
    for stage in range(1, (horizon or 1) + 1):
        bound, needed = book.bound(stage), widest_answer(numbers, stage)
        assert bound >= needed - 1e-12
        assert bound <= numbers.ranges.width(stage) + 2 * discount * numbers.eta + 1e-12
        assert not book.leans_on_norm or norm < 100


def test_a_small_norm_narrows_the_bound_and_is_told() -> None:
    spec = Spec(2, 2, 10, bound=1.5)
    small, large = Book(resolved(spec), 0.02), Book(resolved(replace(spec, bound=50.0)), 0.02)
    assert small.bound(1) == pytest.approx(1 + 1.5, abs=1e-6)
    assert large.bound(1) == pytest.approx(10, abs=1e-6)
    assert (small.leans_on_norm, large.leans_on_norm) == (True, False)


# --- radii ---------------------------------------------------------------------------------------


def slab_of(draws: int, simulator: Any = None) -> Slab:
    world = asked(simulator or few_answers())
    return open_slab(1, world.start, world.measure(draws, 0))


def test_slack_takes_the_chance_to_go_on_and_not_the_fraction_that_did() -> None:
    """F10.2, read as an expectation: where no draw went on, some could have."""
    table: Any = [[[(1 - 1e-9, 0, 1.0, True), (1e-9, 0, 1.0, False)]]]
    spec = Spec(1, 1, 2, 1.0, misspecification=0.3, inaccuracy=0.1)
    world = asked(from_table(table, np.ones((1, 1)), spec))
    slab = open_slab(1, world.start, world.measure(20, 0))
    assert slab.samples[0].live == 0
    book = Book(resolved(spec, misspecification=0.3), 0.02)
    sure = Spreads(np.zeros(1), np.zeros(1))
    first = book.with_radii(slab, sure).radii[0]
    last = book.with_radii(replace(slab, stage=2), sure).radii[0]
    rounding = 2 * book.resolved.eta - 0.6
    assert first == pytest.approx(0.1 + 2 * 0.3 + rounding + radius(book, 20, 1), abs=1e-9)
    assert last == pytest.approx(0.1 + 0.3 + rounding / 2 + radius(book, 20, 2), abs=1e-9)


def radius(book: Book, draws: int, stage: int) -> float:

    nothing = np.zeros(1)
    own = book.level_of(1)
    found = sampling_radius(np.array([float(draws)]), nothing, book.bound(stage), own, nothing)
    return float(found[0])


def test_theta_stays_in_its_slab_however_often_it_is_refined() -> None:
    """F1: a rule that goes on until the slab is empty of theta, for a hundred draws."""
    runs, level = 400, 0.2
    spec = Spec(1, 1, 1)
    book = Book(resolved(spec), level)
    rng = np.random.default_rng(0)
    missed, half = np.zeros(runs, np.bool_), np.zeros(runs, np.bool_)
    for run in range(runs):
        values = (rng.random(120) < 0.3).astype(np.float64)
        for count in (8, 12, 20, 30, 45, 70, 120):
            own = values[:count]
            spreads = Spreads(np.array([own.var()]), np.array([1.0]))
            sample = Sample(count, np.array([0.0, own.mean(), 0.0]))
            slab = Slab(1, None, 1, np.ones(1), np.zeros(1, np.int64), (sample,), np.zeros(1))  # pyright: ignore[reportArgumentType] a handle is not needed
            sharp = book.with_radii(slab, spreads).radii[0]
            missed[run] |= abs(own.mean() - 0.3) > sharp
            half[run] |= abs(own.mean() - 0.3) > 0.3 * sharp
    assert not exceeds(missed, book.level_of(1))
    assert exceeds(half, book.level_of(1))


def test_cuts_are_those_of_the_state_and_of_what_followed() -> None:
    slab = slab_of(200)
    cuts = Book(resolved(few_answers().spec), 0.02).cuts(slab)
    features = {tuple(row) for row in cuts.normals.tolist()}
    assert features == {(0.6, 0.0), (0.0, 0.8)}
    eta = 1e-6
    for normal, low, high in zip(cuts.normals, cuts.low, cuts.high, strict=True):
        left = 4 if normal is cuts.normals[0] else None
        assert low == pytest.approx(0.0, abs=eta)
        assert high == pytest.approx(left or high)
    assert cuts.high[0] == pytest.approx(4, abs=eta)
    assert cuts.high[1] == pytest.approx(3, abs=eta)


# --- spreads along the axes ----------------------------------------------------------------------


def axis_sample(rng: np.random.Generator, dim: int) -> Sample:
    count = int(rng.integers(1, 6))
    after = np.eye(dim)[rng.integers(dim, size=count)] * rng.uniform(0.2, 1, size=(count, 1))
    live = rng.random(count) < 0.7
    after[~live] = 0.0
    values = np.column_stack([live, rng.random(count), after]).astype(np.float64)
    counts = rng.integers(1, 9, size=count).astype(np.float64)
    total = int(counts.sum())
    return Sample(total, counts @ values / total, values, counts)


def state_of(samples: tuple[Sample, ...], dim: int) -> Slab:
    actions = np.arange(len(samples))
    return Slab(1, None, 1, np.eye(dim)[0], actions, samples, np.ones(len(samples)))  # pyright: ignore[reportArgumentType] a handle is not needed


@given(st.integers(0, 10**6))
def test_no_parameter_of_the_box_spreads_answers_more(seed: int) -> None:
    rng = np.random.default_rng(seed)
    dim = int(rng.integers(1, 4))
    samples = tuple(axis_sample(rng, dim) for _ in range(int(rng.integers(1, 4))))
    box = np.sort(rng.normal(size=(dim, 2)), axis=1)
    low, high = -0.8, 1.1
    found = box_spread(state_of(samples, dim), 0.9, box, low, high)
    assert found is not None
    for share in rng.random((40, dim)).round(int(rng.integers(0, 2))):
        theta = box[:, 0] + share * (box[:, 1] - box[:, 0])
        for place, sample in enumerate(samples):
            assert sample.values is not None
            assert sample.counts is not None
            ahead = np.clip(sample.values[:, 2:] @ theta, low, high) * sample.values[:, 0]
            answers = np.repeat(sample.values[:, 1] + 0.9 * ahead, sample.counts.astype(np.int64))
            assert answers.var() <= found.variance[place] + 1e-9
            assert np.abs(answers - answers.mean()).max() <= found.reach[place] + 1e-9


@pytest.mark.parametrize("after", [[0.5, 0.5], [-1.0, 0.0], [0.9, -0.1], [0.0, -0.3]])
def test_features_off_the_axes_are_not_read_as_if_they_lay_on_them(after: list[float]) -> None:
    values = np.array([[1.0, 0.3, *after], [1.0, 0.2, 1.0, 0.0]])
    sample = Sample(2, values.mean(axis=0), values, np.ones(2))
    box = np.array([[0.0, 0.1], [0.0, 9.0]])
    assert box_spread(state_of((sample,), 2), 0.9, box, -9.0, 9.0) is None
    many = Sample(2, values.mean(axis=0))
    assert box_spread(state_of((many,), 2), 0.9, box, -9.0, 9.0) is None


def test_a_start_on_an_axis_makes_no_claim_about_states_off_it() -> None:
    """Start (1, 0), then (.6, .6): values hold although the engine of the axes took the run."""
    table: Any = [
        [[(0.5, 1, 0.0, False), (0.5, 1, 1.0, False)], [(1.0, 1, 0.25, False)]],
        [[(0.5, 1, 0.0, False), (0.5, 1, 1.0, False)], [(1.0, 1, 0.25, False)]],
    ]
    features = np.array([[1.0, 0.0], [0.6, 0.6]])
    simulator = from_table(table, features, Spec(2, 2, None, 0.5, bound=2.0))
    made = plan(simulator, delta=0.3, budget=Budget(queries=20_000))
    assert made.certificate.upper is not None
    assert made.certificate.lower is not None
    assert made.certificate.upper >= 1.0
    assert made.certificate.lower <= 1.0


# --- what is spent stays spent (F1.1) ------------------------------------------------------------


def test_a_state_that_was_drawn_from_in_a_lost_step_keeps_its_level() -> None:
    engine = engine_of(few_answers(), limit=200)
    state = engine.begin()
    opened = engine.open(state, engine.start, 50)
    assert opened.slabs[0].index == 1
    with pytest.raises(QueryBudgetError):
        engine.open(opened, engine.start, 90)
    ended = engine.stopped(state, Status.BUDGET)  # the step began before both
    assert (ended.opened, ended.named) == (2, 2)
    fresh, following = engine.continued(ended, delta=0.05)
    assert fresh.open(following, engine.start, 10).slabs[0].index == 3


def test_an_attempt_to_certify_that_was_lost_keeps_its_level() -> None:
    engine = engine_of(few_answers(), limit=300)
    state = engine.open(engine.begin(), engine.start, 20)
    state = replace(state, upper=1.0)
    first = engine.look_level(state)
    with pytest.raises(QueryBudgetError):
        engine.verify(state, engine.policy_of(state))
    ended = engine.stopped(state, Status.BUDGET)
    assert ended.looks.count == 1
    assert engine.look_level(ended) == pytest.approx(first / 4)


def test_levels_of_all_attempts_add_up_to_half_of_what_confidence_leaves() -> None:
    engine = engine_of(few_answers(), confidence=0.9)
    state, total = engine.begin(), 0.0
    for count in range(5000):
        total += engine.look_level(replace(state, looks=replace(state.looks, count=count)))
    assert total == pytest.approx(0.05, rel=1e-3)
    assert engine.book.level + 0.05 == pytest.approx(0.1)


@pytest.mark.parametrize("kind", [GeneralEngine, TabularEngine])
def test_runs_that_go_on_from_one_another_share_what_is_spent(kind: Any) -> None:
    simulator = problems.make("random-tabular", outcomes=2, states=3, horizon=2)
    if kind is TabularEngine:
        simulator = problems.make("frozen-lake", discount=0.5)
    engine = engine_of(simulator, kind, iteration_limit=2)
    ended = drive(engine)
    seen: list[int] = [slab.index for slab in ended.slabs]
    for _ in range(2):
        sibling, state = engine.continued(ended, delta=0.05)
        state = sibling.open(state, engine.start, 5)
        seen.append(state.slabs[-1].index)
    assert len(set(seen)) == len(seen)


def test_rollouts_from_another_start_say_nothing_of_this_one() -> None:
    engine, ended = floored()
    _, state = engine.continued(ended, start=engine.start)
    assert state.batch is None
    assert math.isinf(state.spread_upper)
    _, same = engine.continued(ended, delta=0.05)
    assert same.batch is ended.batch
    assert same.beliefs is ended.beliefs


def floored() -> tuple[Any, Any]:
    """A run with a lower bound, by which parameters were left out."""
    simulator = problems.make("hidden-linear", dim=3, horizon=3, successors=3)
    engine = engine_of(simulator, iteration_limit=12)
    ended = drive(engine)
    ended = engine._floored(replace(ended, lower=ended.upper - 0.1))
    assert ended.floor == ended.lower
    return engine, ended


def test_what_was_left_out_at_one_start_is_believed_again_at_another() -> None:
    """The best policy from the next start may be worth less than the bound at this one."""
    engine, ended = floored()
    start = engine.objective
    poor = -0.5 * engine.resolved.norm * start / np.linalg.norm(start)
    assert ended.beliefs.cuts.excess(poor) > 0
    following, state = engine.continued(ended, start=engine.start)
    assert following.floor(state) == -math.inf
    assert following.emptied(state).status is Status.REJECTED
    cuts = state.beliefs.cuts
    assert not np.any(cuts.low > 0.2)
    for slab, old in zip(state.slabs, ended.slabs, strict=True):
        widest = following.book.with_radii(old, following.book.widest(old))
        np.testing.assert_array_equal(slab.radii, widest.radii)
    assert all(known.refines is None for known in state.beliefs.states)
    assert engine.emptied(ended).status is Status.CERTIFIED


def test_a_start_off_the_axes_is_not_planned_by_tables() -> None:
    simulator = problems.make("frozen-lake", discount=0.5)
    made = plan(simulator, delta=0.3, budget=Budget(queries=3_000))
    inside: Any = made
    engine, state = inside._engine, inside._state
    assert type(state).__name__ == "TabularState"
    again, following = engine.continued(state, delta=0.2)
    assert type(following) is type(state)
    again._tabular.objective = np.full(again.resolved.spec.dim, 0.1)
    assert type(again.continued(following, delta=0.1)[1]).__name__ == "GeneralState"


def test_a_rare_state_among_noisy_rewards_is_not_looked_for_in_tables() -> None:
    """One-hot features, and a rare state among more answers than can be counted."""

    def step(state: int, stage: int, action: int, rng: Any) -> tuple[float, int, bool]:
        rare = state == 0 and rng.random() < 0.01
        return float(rng.beta(2 + action, 2)), 2 if rare else 1 - min(state, 1), False

    spec = Spec(2, 3, None, 0.5, bound=3.0)
    simulator = from_functions(
        spec, lambda rng: 0, step, lambda state, stage: np.eye(3)[state].tolist()
    )
    made = plan(simulator, delta=0.2, budget=Budget(queries=100_000))
    few = plan(simulator, delta=0.2, budget=Budget(queries=made.queries.total // 3))
    assert few.status is Status.BUDGET
    assert math.isfinite(float(few.play()[0]))
    best = 2 * 3 / 5
    assert made.status in (Status.CERTIFIED, Status.BUDGET)
    assert made.certificate.upper is not None
    assert made.certificate.lower is not None
    assert made.certificate.lower <= best <= made.certificate.upper


def test_sharper_spreads_never_widen_a_slab() -> None:
    simulator = problems.make("hidden-linear", dim=3, horizon=3, successors=3)
    engine = engine_of(simulator, iteration_limit=6)
    state = drive(engine)
    widths: list[FloatArray] = [slab.radii for slab in state.slabs]
    after = engine.respread(state)
    assert all(np.all(new.radii <= old) for new, old in zip(after.slabs, widths, strict=True))
