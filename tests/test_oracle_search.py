"""Our own search: enumeration, sets that change, limits, the size of the tree, symmetries."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle_reference import (
    KINDS,
    Instance,
    best_in_slabs,
    random_instance_with_cuts,
    violation,
)
from oracle_sets import (
    SURE,
    believed,
    best_in_all_epochs,
    box,
    random_story,
    searched,
    state,
    unit,
    verdict_of,
)

from families import chain, generic, layered
from instances import Instance as Process
from loop import CLEAN, Rules, iterate
from tensorplan.errors import SettingError
from tensorplan.hypotheses import CriticalState, Cuts, Hypotheses
from tensorplan.oracle.arrays import CLOSED, EXPANSIONS, FREE, HEAP, NODES, Tree
from tensorplan.oracle.base import Optimum, OracleStatus
from tensorplan.oracle.growth import Growth, make_tree, rekey
from tensorplan.oracle.kernels import Kernels
from tensorplan.oracle.rows import RowTable
from tensorplan.oracle.slabs import SlabOracle
from tensorplan.oracle.tree import pop, push
from tensorplan.records import FloatArray

SOUND = 1e-9  # relative: how far a bound may be below the maximum
AGREEMENT = 1e-6  # relative: how far values may be apart
OUTSIDE = 3e-9  # relative: how far a parameter may be outside of its set
CHUNK = 100

OPTIMAL, EMPTY, LIMIT = OracleStatus.OPTIMAL, OracleStatus.EMPTY, OracleStatus.LIMIT


def check_best(answer: Optimum, objective: FloatArray, beliefs: Hypotheses, note: object) -> None:
    """An answer that is not cut short, against enumeration of its own set."""
    size, thick = unit(objective, beliefs), searched(beliefs)
    true = best_in_slabs(objective, beliefs, tolerance=SURE).value
    least = best_in_slabs(objective, thick, tolerance=SURE).value
    most = best_in_slabs(objective, thick, widen=1e-9).value
    if answer.status is EMPTY:
        assert true == least == -np.inf, note
        assert answer.value == answer.upper == -np.inf, note
        assert not answer.theta.any(), note
        return
    assert answer.status is OPTIMAL, note
    assert answer.upper >= true - SOUND * size, note
    assert answer.upper <= most + AGREEMENT * size, note
    assert least - AGREEMENT * size <= answer.value <= most + AGREEMENT * size, note
    assert answer.value == float(objective @ answer.theta) <= answer.upper, note
    assert violation(answer.theta, thick) <= OUTSIDE, note


# --- enumeration ---------------------------------------------------------------------------------


@pytest.mark.parametrize("start", range(0, 2000, CHUNK))
def test_search_agrees_with_enumeration(start: int) -> None:
    """As the set was learnt, with an oracle that is kept; and each stage with a new one."""
    for seed in range(start, start + CHUNK):
        instance = random_instance_with_cuts(seed)
        kept = SlabOracle()
        for stage, beliefs in enumerate(instance.sets):
            for oracle in (kept, SlabOracle()):
                note = (seed, instance.kind, stage, oracle is kept)
                answer = oracle.maximise(instance.objective, beliefs)
                check_best(answer, instance.objective, beliefs, note)
                verdict = verdict_of(oracle)
                assert verdict.accepted, (note, verdict.reason)


@pytest.mark.parametrize("start", range(0, 300, CHUNK))
def test_sets_that_change_anyhow(start: int) -> None:
    """Whatever refinement does, bounds hold for what all epochs keep, and thetas are allowed."""
    for seed in range(start, start + CHUNK):
        story, kept = random_story(seed), SlabOracle()
        for stage, beliefs in enumerate(story.sets):
            wide = searched(beliefs)
            for objective in story.objectives:
                note, size = (seed, stage), unit(objective, beliefs)
                check_best(SlabOracle().maximise(objective, beliefs), objective, beliefs, note)
                answer = kept.maximise(objective, beliefs)
                true = best_in_all_epochs(objective, beliefs)
                most = best_in_slabs(objective, wide, widen=1e-8).value
                verdict = verdict_of(kept)
                assert verdict.accepted, (note, verdict.reason)
                assert answer.upper >= true - SOUND * size, note
                assert answer.upper <= most + AGREEMENT * size, note
                if answer.status is not EMPTY:
                    assert answer.status is OPTIMAL, note
                    assert violation(answer.theta, wide) <= OUTSIDE, note


def test_state_that_repeats_what_was_refined_away_is_not_forgotten() -> None:
    """Rows that an earlier state had once say nothing of what it says now."""
    twice = state([[-0.5, 1.0, 0.0]], [0.1]), state([[-0.5, 1.0, 0.0]], [0.1])
    moved = state([[-0.3, 1.0, 0.5]], [0.09])
    objective = np.array([1.0, 0.0])
    together = believed(*twice)
    apart = believed(twice[0])
    stories = (
        (together, together.refined(0, moved)),
        (apart, apart.refined(0, moved), apart.refined(0, moved).with_state(twice[1])),
    )
    for sets in stories:
        kept = SlabOracle()
        for beliefs in sets[:-1]:
            kept.maximise(objective, beliefs)
        check_best(kept.maximise(objective, sets[-1]), objective, sets[-1], None)


def test_bound_does_not_rise_over_time() -> None:
    for seed in range(600):
        instance = random_instance_with_cuts(seed)
        size = unit(instance.objective, instance.beliefs)
        for limit in (1, 3, 10_000):
            kept, last = SlabOracle(limit), np.inf
            for beliefs in instance.sets:
                upper = kept.maximise(instance.objective, beliefs).upper
                assert upper <= last + SOUND * size, (seed, limit)
                last = upper


def test_bound_does_not_rise_where_rows_move() -> None:
    """What was proved of the earlier epochs stays true, so the answer claims no more."""
    for seed in range(100):
        story, kept, last = random_story(seed), SlabOracle(), np.inf
        for beliefs in story.sets:
            upper = kept.maximise(story.objectives[0], beliefs).upper
            assert upper <= last + SOUND * unit(story.objectives[0], beliefs), seed
            last = upper


# --- special sets --------------------------------------------------------------------------------

E1 = np.array([1.0, 0.0])
SPECIAL: dict[str, tuple[Hypotheses, float]] = {
    "no state": (Hypotheses(2, 2.5, 0.0), 2.5),
    "void by a zero row": (believed(state([[0.0, 0.0, 0.0], [-0.5, 1.0, 0.0]])), 1.0),
    "void by its radius": (believed(state([[-0.5, 1.0, 0.0]], [1.6])), 1.0),
    "one side void": (believed(state([[-0.5, 1.0, 0.0]], [0.6])), 1.0),
    "dead action": (believed(state([[-0.5, 1.0, 0.0], [-1.5, 1.0, 0.0]], [0.1, 0.1])), 0.6),
    "dead by a zero row": (believed(state([[1.0, 0.0, 0.0], [-0.5, 1.0, 0.0]])), 0.5),
    "all dead": (believed(state([[-1.5, 1.0, 0.0], [1.0, 0.0, 0.0]])), -np.inf),
    "identical actions": (believed(state([[-0.5, 1.0, 0.0]] * 3, [0.1, 0.2, 0.1])), 0.7),
    "opposite actions": (believed(state([[-0.5, 1.0, 0.0], [0.5, -1.0, 0.0]], [0.1, 0.2])), 0.7),
    "repeated states": (believed(*[state([[-0.5, 1.0, 0.0], [-0.2, 1.0, 0.0]])] * 3), 0.5),
    "repeated, thinner": (
        believed(state([[-0.5, 1.0, 0.0]], [0.2]), state([[-0.5, 1.0, 0.0]], [0.1])),
        0.6,
    ),
    "repeated, wider": (
        believed(state([[-0.5, 1.0, 0.0]], [0.1]), state([[-0.5, 1.0, 0.0]], [0.2])),
        0.6,
    ),
    "contradiction": (believed(state([[-0.5, 1.0, 0.0]]), state([[-0.4, 1.0, 0.0]])), -np.inf),
    "one action each": (
        believed(state([[-0.5, 1.0, 0.0]], [0.1]), state([[-0.1, 1.0, 1.0]], [0.05])),
        0.6,
    ),
    "v* alone": (
        believed(state([[-0.5, 1.0, 0.0], [-0.2, 1.0, 0.0]], [0.1, 0.05]), bellman=True),
        0.25,
    ),
    "cuts alone": (Hypotheses(2, 1.0, 0.0, cuts=box(2, -0.1, 0.3)), 0.3),
    "cuts that contradict": (
        Hypotheses(
            2, 1.0, 0.0, cuts=Cuts(np.eye(2)[[0, 0]], np.array([0.3, -1]), np.array([1, 0.2]))
        ),
        -np.inf,
    ),
    "cut beyond the ball": (
        Hypotheses(2, 1.0, 0.0, cuts=Cuts(np.eye(2)[:1], np.array([1.1]), np.array([np.inf]))),
        -np.inf,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SPECIAL)
def test_special_sets(name: str) -> None:
    beliefs, expected = SPECIAL[name]
    oracle = SlabOracle()
    answer = oracle.maximise(E1, beliefs)
    assert (answer.status is EMPTY) == (expected == -np.inf)
    assert answer.value == pytest.approx(expected, abs=1e-8)
    verdict = verdict_of(oracle)
    assert verdict.accepted, verdict.reason


@pytest.mark.parametrize("name", SPECIAL)
def test_nothing_asked_for(name: str) -> None:
    """c = 0: any parameter will do, but there has to be one."""
    beliefs, expected = SPECIAL[name]
    oracle = SlabOracle()
    answer = oracle.maximise(np.zeros(2), beliefs)
    assert answer.status is (EMPTY if expected == -np.inf else OPTIMAL)
    if answer.status is OPTIMAL:
        assert answer.value == answer.upper == 0.0
        assert violation(answer.theta, searched(beliefs)) <= OUTSIDE
    assert verdict_of(oracle).accepted


def test_one_dimension_and_one_action() -> None:
    for radius, sign in itertools.product((0.0, 0.1), (1.0, -1.0)):
        beliefs = believed(state([[-0.5, 2.0]], [radius]))
        answer = SlabOracle().maximise(np.array([sign]), beliefs)
        expected = 0.25 * sign + radius / 2
        assert answer.value == pytest.approx(expected, abs=1e-8)


def test_twins_that_come_apart() -> None:
    """Splits made while two actions were one lack a child as soon as they are two."""
    rows = [[-0.5, 1.0, 0.0], [-0.5, 1.0, 0.0], [0.5, 1.0, 0.0]]
    first = believed(state(rows, [0.1, 0.1, 0.1]), state([[-0.1, 0.0, 1.0], [0.3, 0.0, 1.0]]))
    sharper = [
        state([[-0.45, 1.0, 0.0], [-0.55, 1.0, 0.0], [0.5, 1.0, 0.0]], [0.01, 0.02, 0.1]),
        state(rows, [0.02, 0.01, 0.1]),
        state(rows, [0.01, 0.02, 0.1]),
        state([[-0.5, 1.0, 0.0], [-0.45, 1.0, 0.3], [0.5, 1.0, 0.0]], [0.05, 0.01, 0.01]),
    ]
    for later in sharper:
        for objective in (E1, np.array([0.3, 1.0]), np.array([-1.0, 0.2])):
            kept = SlabOracle()
            kept.maximise(objective, first)
            second = first.refined(0, later)
            answer = kept.maximise(objective, second)
            check_best(answer, objective, second, later.rows)
            assert verdict_of(kept).accepted
            third = second.refined(0, replace(later, radii=np.full(3, 1e-3)))
            check_best(kept.maximise(objective, third), objective, third, later.rows)


def test_void_and_repeated_states_that_are_refined() -> None:
    void = state([[-0.5, 1.0, 0.0], [-0.5, 0.0, 1.0]], [1.6, 0.1])
    plain = state([[-0.5, 1.0, 0.0], [0.1, 1.0, 1.0]], [0.1, 0.1])
    beliefs = believed(void, plain, replace(plain))
    kept = SlabOracle()
    for index, radius in ((0, 0.05), (2, 0.05), (1, 0.01), (2, 1e-3), (0, 1e-3)):
        thinner = replace(beliefs.states[index], radii=np.full(2, radius))
        beliefs = beliefs.refined(index, thinner)
        for objective in (E1, -E1, np.array([0.3, 1.0])):
            answer = kept.maximise(objective, beliefs)
            check_best(answer, objective, beliefs, (index, radius))
            assert verdict_of(kept).accepted


def test_set_stays_empty() -> None:
    beliefs = believed(state([[-1.5, 1.0, 0.0], [-1.2, 1.0, 0.0]]))
    kept = SlabOracle()
    for _ in range(3):
        for objective in (E1, -E1, np.zeros(2)):
            assert kept.maximise(objective, beliefs).status is EMPTY
            assert verdict_of(kept).accepted
        beliefs = beliefs.with_state(state([[0.0, 1.0, 1.0]])).with_cuts(box(2, -1.0, 1.0))


# --- what is kept --------------------------------------------------------------------------------


def test_other_objectives_over_the_same_data() -> None:
    """More objectives than trees are kept, each asked at every stage."""
    for seed in range(0, 160, 3):
        instance = random_instance_with_cuts(seed)
        rng = np.random.default_rng(seed)
        objectives = rng.normal(size=(10, len(instance.objective)))
        kept = SlabOracle()
        for beliefs in instance.sets:
            for objective in objectives:
                answer = kept.maximise(objective, beliefs)
                check_best(answer, objective, beliefs, seed)
                again = SlabOracle().maximise(objective, beliefs)
                assert answer.status is again.status, seed
                if again.status is OPTIMAL:
                    apart = abs(answer.value - again.value)
                    assert apart <= 2 * AGREEMENT * unit(objective, beliefs), seed


def test_what_was_done_is_not_done_again() -> None:
    instance = layered(4, 2, 0)
    beliefs = instance.one_shot(12)
    kept = SlabOracle(kernels="plain")
    first = kept.maximise(instance.objective, beliefs)
    again = kept.maximise(instance.objective, beliefs)
    assert first.nodes > 10
    assert (again.nodes, again.expansions) == (0, 0)
    assert again.value == first.value
    kept.maximise(-instance.objective, beliefs)
    assert kept.maximise(instance.objective, beliefs).nodes == 0
    cut = beliefs.with_cuts(Cuts(instance.features[:1], np.zeros(1), np.full(1, 12.0)))
    assert kept.maximise(instance.objective, cut).nodes < first.nodes


def test_sets_that_are_not_related_are_not_mixed_up() -> None:
    """Equal data are not the same set: only what refines a state has replaced it."""
    oracle = SlabOracle()
    seeds = [seed for seed in range(96) if len(random_instance_with_cuts(seed).objective) == 2]
    for first, second in itertools.pairwise(seeds):
        for seed in (first, second, first):
            instance = random_instance_with_cuts(seed)
            for beliefs in instance.sets[::-1]:
                answer = oracle.maximise(instance.objective, beliefs)
                check_best(answer, instance.objective, beliefs, (first, second))
                assert verdict_of(oracle).accepted


def test_only_what_refines_a_state_replaces_it() -> None:
    """A set with other states, one of which looks like a refinement, is another set."""
    wide, thin = state([[-0.5, 1.0, 0.0]], [0.1]), state([[-0.2, 1.0, 0.0]], [0.1])
    oracle = SlabOracle()
    assert oracle.maximise(E1, believed(wide)).value == pytest.approx(0.6)
    assert oracle.maximise(E1, believed(thin)).value == pytest.approx(0.3)
    assert oracle.maximise(E1, believed(wide)).value == pytest.approx(0.6)
    assert oracle.maximise(E1, believed(wide, norm=0.5)).value == pytest.approx(0.5)
    assert oracle.maximise(E1, believed(wide, thin)).status is EMPTY
    assert oracle.maximise(E1, believed(wide)).value == pytest.approx(0.6)


# --- limits --------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_answer_within_a_node_limit(limit: int) -> None:
    seen: set[OracleStatus] = set()
    for seed in range(320):
        instance = random_instance_with_cuts(seed)
        oracle = SlabOracle(limit)
        for beliefs in instance.sets:
            answer = oracle.maximise(instance.objective, beliefs)
            check_limited(oracle, answer, instance.objective, beliefs, seed)
            seen.add(answer.status)
    assert seen == set(OracleStatus)


def check_limited(
    oracle: SlabOracle, answer: Optimum, objective: FloatArray, beliefs: Hypotheses, note: object
) -> None:
    size = unit(objective, beliefs)
    true = best_in_slabs(objective, beliefs, tolerance=SURE).value
    assert answer.upper >= true - SOUND * size, note
    assert answer.upper <= size * (1 + 1e-12), note
    if answer.value > answer.upper:
        assert violation(answer.theta, searched(beliefs)) > OUTSIDE, note
    assert np.linalg.norm(answer.theta) <= beliefs.norm * (1 + 1e-9), note
    assert verdict_of(oracle).accepted, note
    if answer.status is LIMIT:
        assert answer.value == float(objective @ answer.theta), note


def hard() -> tuple[FloatArray, Hypotheses]:
    """A search of a few hundred nodes."""
    instance = layered(5, 3, 1)
    return instance.objective, instance.one_shot(15)


def test_limits_and_going_on() -> None:
    objective, beliefs = hard()
    whole = SlabOracle(kernels="plain").maximise(objective, beliefs)
    assert whole.status is OPTIMAL
    step, last = SlabOracle(20, kernels="plain"), math.inf
    answers: list[Optimum] = []
    while not answers or answers[-1].status is LIMIT:
        answers.append(step.maximise(objective, beliefs))
        assert whole.value <= answers[-1].upper <= last
        last = answers[-1].upper
        assert verdict_of(step).accepted
    assert len(answers) > 5
    assert answers[-1].value == pytest.approx(whole.value, abs=1e-6)
    most = beliefs.states[0].rows.shape[0] * 20
    assert all(answer.nodes <= 20 + most for answer in answers)


def test_no_time() -> None:
    objective, beliefs = hard()
    oracle = SlabOracle(time_limit=0.0, kernels="plain")
    answer = oracle.maximise(objective, beliefs)
    assert answer.status is LIMIT
    assert answer.upper >= SlabOracle(kernels="plain").maximise(objective, beliefs).value
    assert verdict_of(oracle).accepted


def test_gap() -> None:
    objective, beliefs = hard()
    size = unit(objective, beliefs)
    exact = SlabOracle(gap=0.0, kernels="plain").maximise(objective, beliefs)
    nodes = math.inf
    for gap in (1e-9, 1e-4, 1e-2, 1e-1, 1.0):
        oracle = SlabOracle(gap=gap, kernels="plain")
        answer = oracle.maximise(objective, beliefs)
        if gap >= 1e-4:
            assert answer.status is OPTIMAL
        assert answer.upper - answer.value <= gap * size + 1e-9
        assert answer.value - 1e-8 <= exact.upper <= answer.upper + 1e-9
        assert answer.nodes <= nodes
        nodes = answer.nodes
        assert verdict_of(oracle).accepted


def test_settings_that_mean_nothing() -> None:
    for wrong in (
        lambda: SlabOracle(0),
        lambda: SlabOracle(gap=-1e-9),
        lambda: SlabOracle(gap=math.nan),
        lambda: SlabOracle(kernels="fast"),
        lambda: SlabOracle().proof(),
        lambda: SlabOracle().norm_limit(),
    ):
        with pytest.raises(SettingError):
            wrong()


# --- the tree ------------------------------------------------------------------------------------

SHAPES = ((1, 2), (2, 2), (3, 2), (4, 2), (5, 2), (3, 3), (4, 3), (2, 4), (1, 6))


FAMILIES: dict[str, Callable[[int, int, int], Process]] = {
    "layered": layered,
    "generic": generic,
    "chain": chain,
}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("dim", "actions"), SHAPES)
def test_expansions_of_exact_data(family: str, dim: int, actions: int) -> None:
    """Without cuts at most sum of A^k, k <= d, over all iterations (theory B3)."""
    for seed in range(4):
        instance = FAMILIES[family](dim, actions, seed)
        rules = Rules(adversarial=seed % 2 == 0)
        run = iterate(instance, SlabOracle(kernels="plain"), instance.beliefs(), rules)
        assert run.outcome == CLEAN, seed
        assert run.expansions <= sum(actions**k for k in range(dim + 1)), seed
        assert run.iterations <= dim + 2, seed
        assert run.value == pytest.approx(instance.value, abs=1e-6), seed


class Grower:
    """A search by hand, whose tree can be looked at.

    Args:
        objective: c [d].
        beliefs: the first set.
    """

    def __init__(self, objective: FloatArray, beliefs: Hypotheses) -> None:
        self.table = RowTable(beliefs)
        self.growth = Growth(objective / np.linalg.norm(objective), self.table)
        self.kernels = Kernels("plain")

    def run(self, solves: int) -> float:
        outcome = self.growth.run(self.kernels, gap=1e-7, solves=solves, deadline=math.inf)
        check_tree(self.growth.tree)
        return outcome.upper


def check_tree(tree: Tree) -> None:
    """Every slot is free or an open leaf, every leaf open or closed, and the heap is one."""
    counts = tree.counts
    free, opened = tree.free[: counts[FREE]].tolist(), tree.entry[: counts[HEAP]].tolist()
    assert sorted(free + opened) == list(range(len(tree.free)))
    for slot in opened:
        assert tree.slot[tree.node[slot]] == slot
    nodes = int(counts[NODES])
    assert np.count_nonzero(tree.slot[:nodes] >= 0) == len(opened)
    inner = set(tree.parent[1:nodes].tolist())
    closed = set(tree.closed_node[: counts[CLOSED]].tolist())
    leaves = set(range(nodes)) - inner
    assert leaves == closed | {int(tree.node[slot]) for slot in opened}
    assert len(closed) == counts[CLOSED]
    assert len(inner - {-1}) == counts[EXPANSIONS]
    assert np.all(tree.parent[1:nodes] < np.arange(1, nodes))
    keys = tree.key[: counts[HEAP]]
    above = (np.arange(1, len(keys)) - 1) // 2
    assert np.all(keys[above] >= keys[1:])


@pytest.mark.parametrize("radius", [0.0, 1e-3])
@pytest.mark.parametrize("cuts", [0, 30])
def test_no_slot_is_lost_or_used_twice(radius: float, cuts: int) -> None:
    """A long run in small pieces, with states, cuts and refinements on the way."""
    instance = layered(6, 3, 5)
    order = np.random.default_rng(5).permutation(instance.size)
    beliefs = instance.beliefs(radius, order[:3])
    grower = Grower(instance.objective, beliefs)
    last = math.inf
    for turn in range(30):
        for solves in (1, 10, 40):
            upper = grower.run(solves)
            assert upper <= last
            last = upper
        if turn % 3 == 0 and turn < cuts:
            beliefs = beliefs.with_cuts(instance.cuts(order[100 + turn : 103 + turn]))
        elif turn % 3 == 1 and radius:
            old = beliefs.states[turn % len(beliefs.states)]
            sharper = replace(old, radii=0.5 * beliefs.radii(old))
            beliefs = beliefs.refined(turn % len(beliefs.states), sharper)
        elif turn < 24:
            beliefs = beliefs.with_state(instance.state(int(order[10 + turn])))
        assert grower.table.update(beliefs)
    assert grower.growth.expansions > 100
    assert last * instance.norm * np.linalg.norm(instance.objective) >= instance.value - 1e-9


@given(st.lists(st.none() | st.floats(-1, 1) | st.sampled_from([-math.inf, 0.5]), max_size=60))
def test_heap_gives_the_largest_first(steps: list[float | None]) -> None:
    """Numbers are pushed, None pops; ties come in any order, but each entry once."""
    tree = make_tree(1, len(steps) + 1)
    inside: dict[int, float] = {}
    for slot, key in enumerate(steps):
        if key is not None:
            push(tree, slot, key)
            inside[slot] = key
        elif inside:
            largest = max(inside.values())
            assert inside.pop(pop(tree)) == largest
        assert tree.counts[HEAP] == len(inside)
        keys = tree.key[: len(inside)]
        above = (np.arange(1, len(keys)) - 1) // 2
        assert np.all(keys[above] >= keys[1:])
        pairs = zip(tree.entry[: len(inside)].tolist(), keys.tolist(), strict=True)
        assert dict(pairs) == inside


# --- symmetries ----------------------------------------------------------------------------------


def turned(instance: Instance, matrix: FloatArray) -> Instance:
    """All features in other coordinates: phi becomes M phi, with M orthogonal."""

    def state(old: CriticalState) -> CriticalState:
        rows = np.column_stack([old.rows[:, 0], old.rows[:, 1:] @ matrix.T])
        features = None if old.features is None else matrix @ old.features
        return replace(old, rows=rows, features=features)

    def cuts(old: Cuts) -> Cuts:
        return replace(old, normals=old.normals @ matrix.T) if len(old) else old

    return mapped(instance, state, cuts, matrix @ instance.objective)


def shuffled(instance: Instance, seed: int) -> Instance:
    """Actions of each state and the states in another order."""
    rng = np.random.default_rng(seed)

    def state(old: CriticalState) -> CriticalState:
        order = rng.permutation(len(old.rows))
        radii = None if old.radii is None else old.radii[order]
        return replace(old, rows=old.rows[order], radii=radii)

    def cuts(old: Cuts) -> Cuts:
        order = rng.permutation(len(old))
        return Cuts(old.normals[order], old.low[order], old.high[order]) if len(old) else old

    mixed = mapped(instance, state, cuts, instance.objective)
    last = mixed.beliefs
    order: list[int] = rng.permutation(len(last.states)).tolist()
    return replace(mixed, sets=(replace(last, states=tuple(last.states[i] for i in order)),))


def stretched(instance: Instance, factor: float) -> Instance:
    """Rewards and B in other units: theta becomes factor theta."""

    def state(old: CriticalState) -> CriticalState:
        rows = old.rows.copy()
        rows[:, 0] *= factor
        return replace(old, rows=rows, radii=None if old.radii is None else factor * old.radii)

    def cuts(old: Cuts) -> Cuts:
        return replace(old, low=factor * old.low, high=factor * old.high)

    larger = mapped(instance, state, cuts, instance.objective)
    last = larger.beliefs
    width = factor * last.half_width
    wide = replace(last, norm=factor * last.norm, root=factor * last.root, slab_width=width)
    return replace(larger, sets=(wide,))


def mapped(
    instance: Instance,
    state: Callable[[CriticalState], CriticalState],
    cuts: Callable[[Cuts], Cuts],
    objective: FloatArray,
) -> Instance:
    """The last set of an instance with its states and cuts replaced, as if learnt at once."""
    last = instance.beliefs
    states = tuple(replace(state(old), refines=None) for old in last.states)
    return replace(
        instance, objective=objective, sets=(replace(last, states=states, cuts=cuts(last.cuts)),)
    )


def thick(instance: Instance) -> Instance | None:
    """Its last set with slabs of at least 1e-3; None if the ball all but touches it even so."""
    last = instance.beliefs
    states = (replace(s, radii=np.maximum(last.radii(s), 1e-3)) for s in last.states)
    beliefs = replace(last, states=tuple(states))
    low, high = (
        best_in_slabs(instance.objective, beliefs, widen=widen).value for widen in (-1e-9, 1e-9)
    )
    if high > low + 1e-7 * unit(instance.objective, beliefs):
        return None
    return replace(instance, sets=(beliefs,))


@pytest.mark.parametrize("kind", range(len(KINDS)), ids=KINDS)
def test_symmetries(kind: int) -> None:
    compared = 0
    for seed in range(kind, 24 * len(KINDS), len(KINDS)):
        instance = thick(random_instance_with_cuts(seed))
        if instance is None:
            continue
        compared += 1
        rng = np.random.default_rng(seed)
        dim = len(instance.objective)
        matrix = np.linalg.qr(rng.normal(size=(dim, dim)))[0]
        size = unit(instance.objective, instance.beliefs)
        value = value_of(instance)
        for other, factor in (
            (turned(instance, matrix), 1.0),
            (shuffled(instance, seed), 1.0),
            (stretched(instance, 1e-2), 1e-2),
            (stretched(instance, 8.0), 8.0),
            (stretched(instance, 1e3), 1e3),
        ):
            found = value_of(other) / factor
            assert (found == value) or abs(found - value) <= 1e-7 * size, (seed, factor)
    assert compared >= (0 if KINDS[kind] == "tangent" else 5)


def value_of(instance: Instance) -> float:
    oracle = SlabOracle(gap=1e-9)
    answer = oracle.maximise(instance.objective, instance.beliefs)
    assert answer.status is not LIMIT
    return answer.value


def test_order_of_leaves_puts_those_laid_aside_back() -> None:
    tree = make_tree(1, 4)
    tree.bound[:4] = [0.25, 0.75, 0.5, 0.75]
    tree.depth[:4] = [0, 1, 1, 2]
    for slot in range(4):
        tree.node[slot] = slot
        push(tree, slot, -math.inf)
    rekey(tree, 1e-9)
    assert [pop(tree) for _ in range(4)] == [3, 1, 2, 0]
