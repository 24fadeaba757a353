"""Ranges from propagation: against a plain iteration, linear programs, and enumeration."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from oracle_reference import bellman_as_cuts, best_in_slabs, random_instance_with_cuts
from oracle_sets import (
    SURE,
    believed,
    growing,
    random_tabular,
    searched,
    state,
    unit,
    verdict_of,
    with_features,
)
from scipy.optimize import linprog

from families import chain, layered
from tensorplan.hypotheses import CriticalState, Cuts, Hypotheses
from tensorplan.oracle.base import OracleStatus
from tensorplan.oracle.propagation import ROOM, WORTH
from tensorplan.oracle.slabs import SlabOracle
from tensorplan.records import FloatArray

INSIDE = 3e-9  # relative to the ball: how far a range may leave out an allowed value
SAME = 1e-7  # relative to the ball: how far ranges may be from those of the reference
AGREEMENT = 1e-6

Range = tuple[float, float]


def ranges(beliefs: Hypotheses, oracle: SlabOracle | None = None, rounds: int = 1) -> FloatArray:
    oracle = oracle or SlabOracle(kernels="plain")
    return oracle.tighten(beliefs, rounds)


def features_of(old: CriticalState) -> FloatArray:
    assert old.features is not None
    return old.features


def check_holds(beliefs: Hypotheses, found: FloatArray, note: object) -> None:
    """Each range holds the least and the largest value that an allowed parameter gives."""
    for old, (low, high) in zip(beliefs.states, found, strict=True):
        features = features_of(old)
        size = unit(features, beliefs)
        most = best_in_slabs(features, beliefs, tolerance=SURE).value
        least = -best_in_slabs(-features, beliefs, tolerance=SURE).value
        assert high >= most - INSIDE * size, note
        assert low <= least + INSIDE * size, note


# --- plain references ----------------------------------------------------------------------------


class PlainBox:
    """One range per entry of theta, in a loop over states, actions and entries.

    Entries without a range are left to the ball together, but for those that are set ``apart``.

    Args:
        beliefs: the set.
    """

    def __init__(self, beliefs: Hypotheses) -> None:
        self.beliefs = searched(beliefs)
        self.ranges: dict[int, Range] = {}
        self.apart: set[int] = set()
        for normal, low, high in zip(*self._cuts(), strict=True):
            if np.count_nonzero(normal) != 1:
                continue
            axis = int(np.flatnonzero(normal)[0])
            ends = sorted((low / normal[axis], high / normal[axis]))
            self._take(axis, *ends)

    def _cuts(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The range cuts, and what v* alone obeys."""
        cuts = bellman_as_cuts(self.beliefs).cuts
        return cuts.normals, cuts.low, cuts.high

    def _take(self, axis: int, low: float, high: float) -> None:
        norm = self.beliefs.norm
        known = self.ranges.get(axis, (-norm, norm))
        merged = max(low, known[0]), min(high, known[1])
        if merged != (-norm, norm):
            self.ranges[axis] = merged

    def most(self, terms: FloatArray) -> float:
        """Largest value of <terms, theta> in the box, other entries in the ball, or in the ball."""
        total, rest = 0.0, 0.0
        for axis, term in enumerate(terms.tolist()):
            low, high = self.ranges.get(axis, (-math.inf, math.inf))
            end = high if term > 0 else low
            if abs(end) < self.beliefs.norm:
                total += term * end
            elif axis in self.apart:
                total += abs(term) * self.beliefs.norm
            else:
                rest += term**2
        all_by_ball = self.beliefs.norm * float(np.linalg.norm(terms))
        return min(total + self.beliefs.norm * math.sqrt(rest), all_by_ball)

    def by_action(self, old: CriticalState) -> list[Range]:
        """What each action of a state says of its entry."""
        features = features_of(old)
        axis = int(np.flatnonzero(features)[0])
        factor = float(features[axis])
        found: list[Range] = []
        for row, radius in zip(old.rows, self.beliefs.radii(old).tolist(), strict=True):
            mean = row[1:] + features
            high = (row[0] + self.most(mean) + radius) / factor
            low = (row[0] - self.most(-mean) - radius) / factor
            found.append((low, high))
        return found

    def implied(self, old: CriticalState) -> Range:
        """What a state says of its entry: any action may be the consistent one."""
        each = self.by_action(old)
        norm, radii = self.beliefs.norm, self.beliefs.radii(old)
        open_rows = [
            abs(row[0]) - radius <= norm * float(np.linalg.norm(row[1:]))
            for row, radius in zip(old.rows, radii.tolist(), strict=True)
        ]
        live = [bounds for bounds, is_open in zip(each, open_rows, strict=True) if is_open]
        low = min((low for low, _ in live), default=-norm)
        high = max((high for _, high in live), default=norm)
        if self.beliefs.bellman:
            low = max(low for low, _ in each)
        return low, high

    def sweep(self, states: list[CriticalState]) -> None:
        """Narrow the entries of some states, all by what was known before."""
        found = [(int(np.flatnonzero(features_of(old))[0]), self.implied(old)) for old in states]
        for axis, (low, high) in found:
            self._take(axis, low, high)

    def widths(self) -> FloatArray:
        norm = self.beliefs.norm
        ends = [self.ranges.get(axis, (-norm, norm)) for axis in range(self.beliefs.dim)]
        return np.array([high - low for low, high in ends])

    def worthy_sweep(self, states: list[CriticalState]) -> None:
        """A sweep that counts only if some range loses a thousandth of its width."""
        before, widths = dict(self.ranges), self.widths()
        self.sweep(states)
        room = 2 * ROOM * self.beliefs.norm
        if not np.any(widths - self.widths() > WORTH * widths + room):
            self.ranges = before


def tells(beliefs: Hypotheses, old: CriticalState) -> bool:
    """Whether no action is consistent with the whole ball."""
    reach = beliefs.norm * np.linalg.norm(old.rows[:, 1:], axis=1) + np.abs(old.rows[:, 0])
    return not bool(np.any(reach <= beliefs.radii(old)))


def by_stages(beliefs: Hypotheses) -> PlainBox:
    """One sweep of each stage, from the last to the first."""
    plain = PlainBox(beliefs)
    live = [old for old in plain.beliefs.states if tells(plain.beliefs, old)]
    for stage in sorted({old.stage for old in live}, reverse=True):
        plain.worthy_sweep([old for old in live if old.stage == stage])
    return plain


def by_sweeps(beliefs: Hypotheses, sweeps: int = 1000) -> PlainBox:
    """Sweeps of all states: one with the ball as a whole, then until nothing changes."""
    plain = PlainBox(beliefs)
    live = [old for old in plain.beliefs.states if tells(plain.beliefs, old)]
    plain.worthy_sweep(live)
    plain.apart = {int(np.flatnonzero(features_of(old))[0]) for old in live}
    for _ in range(sweeps):
        widths = plain.widths()
        plain.sweep(live)
        if np.all(plain.widths() > widths - 1e-11 * beliefs.norm) or np.any(plain.widths() < 0):
            break
    return plain


def contracts(beliefs: Hypotheses) -> bool:
    """Whether every value rests on others by less than its own weight."""
    sums = [
        float(np.abs(old.rows[:, 1:] + features_of(old)).sum(axis=1).max() / features_of(old).max())
        for old in beliefs.states
    ]
    return max(sums) < 1 - 1e-9


def least_and_most(beliefs: Hypotheses, along: FloatArray) -> Range:
    """Ends of <along, theta> by a linear program for each choice of actions, without the ball.

    Optima outside of the ball are left out, so that what remains is allowed.
    """
    values: list[float] = []
    for choice in itertools.product(*(range(len(old.rows)) for old in beliefs.states)):
        rows = [beliefs.cuts.normals, -beliefs.cuts.normals]
        right = [beliefs.cuts.high, -beliefs.cuts.low]
        for old, action in zip(beliefs.states, choice, strict=True):
            row, radius = old.rows[action], beliefs.radii(old)[action]
            rows += [row[None, 1:], -row[None, 1:]]
            right += [np.array([radius - row[0]]), np.array([radius + row[0]])]
            if beliefs.bellman:
                rows.append(old.rows[:, 1:])
                right.append(beliefs.radii(old) - old.rows[:, 0])
        limits = np.concatenate(right)
        matrix = np.concatenate([each for each in rows if each.size])
        kept = np.isfinite(limits)
        span = (-beliefs.norm, beliefs.norm)
        for sign in (1, -1):
            solved = linprog(-sign * along, matrix[kept], limits[kept], bounds=span)
            if solved.x is None:
                continue
            theta = np.asarray(solved.x, dtype=np.float64)
            if float(np.linalg.norm(theta)) <= beliefs.norm:
                values.append(float(along @ theta))
    return min(values, default=math.inf), max(values, default=-math.inf)


# --- boxes ---------------------------------------------------------------------------------------


def test_boxes_hold_every_allowed_value() -> None:
    for seed in range(240):
        tabular = random_tabular(seed)
        for beliefs in growing(tabular.beliefs)[1:]:
            found = ranges(beliefs)
            check_holds(beliefs, found, seed)
            for old, (low, high) in zip(beliefs.states, found, strict=True):
                value = float(features_of(old) @ tabular.hidden)
                assert low - 1e-9 <= value <= high + 1e-9, seed


def test_boxes_hold_what_linear_programs_find() -> None:
    """In up to four dimensions, and a ball that is far away from most optima."""
    checked = 0
    for seed in range(60):
        beliefs = random_tabular(seed, most=4, far=True).beliefs
        oracle = SlabOracle(kernels="plain")
        for old, (low, high) in zip(beliefs.states, ranges(beliefs, oracle), strict=True):
            features = features_of(old)
            size = unit(features, beliefs)
            least, most = least_and_most(beliefs, features)
            checked += least <= most
            assert low <= least + 1e-7 * size, seed
            assert high >= most - 1e-7 * size, seed
    assert checked > 60


@pytest.mark.parametrize("far", [False, True])
def test_boxes_are_those_of_the_plain_sweeps(far: bool) -> None:
    """Staged sets exactly; contractions to their fixpoint, or to a thousandth of their widths."""
    staged = contracted = 0
    for seed in range(240):
        beliefs = random_tabular(seed, far=far).beliefs
        norm = beliefs.norm
        several = len({old.stage for old in beliefs.states if tells(searched(beliefs), old)}) > 1
        if not several and not contracts(beliefs):
            continue
        found = ranges(beliefs)
        plain = by_stages(beliefs) if several else by_sweeps(beliefs)
        if any(low > high for low, high in plain.ranges.values()):
            continue  # nothing is left, and ranges say what they like
        staged, contracted = staged + several, contracted + (not several)
        for old, (low, high) in zip(beliefs.states, found, strict=True):
            features = features_of(old)
            axis, factor = int(np.argmax(features)), float(features.max())
            expected = plain.ranges.get(axis, (-norm, norm))
            width = 0.0 if several else WORTH * (expected[1] - expected[0])
            room = factor * (SAME * norm + 2 * width)
            assert low <= factor * expected[0] + room, seed
            assert high >= factor * expected[1] - room, seed
            assert low >= factor * expected[0] - room, seed
            assert high <= factor * expected[1] + room, seed
    assert staged > 20
    assert contracted > 20


def test_a_chain_is_solved_by_one_sweep() -> None:
    """Where every value of v* has been measured, its ranges are as thin as the radii add up to."""
    for seed in range(4):
        instance = chain(8, 3, seed)
        for radius, bellman in ((0.0, True), (1e-3, True), (1e-3, False)):
            beliefs = replace(instance.beliefs(radius, range(8)), bellman=bellman)
            found = ranges(beliefs)
            value = instance.features[:8] @ instance.theta
            assert np.all(found[:, 0] <= value + 1e-9)
            assert np.all(found[:, 1] >= value - 1e-9)
            if bellman:
                assert np.all(found[:, 1] - found[:, 0] <= 2 * 8 * radius + 1e-6)
                oracle = SlabOracle(kernels="plain")
                answer = oracle.maximise(instance.objective, beliefs)
                assert answer.value == pytest.approx(instance.value, abs=8 * radius + 1e-6)
                assert verdict_of(oracle).accepted


def test_discounted_values_are_bounded_without_the_ball() -> None:
    """v = r + gamma v: the fixpoint says (r ± w) / (1 - gamma), and no norm is needed for it."""
    gamma, reward, radius = 0.9, 0.3, 0.01
    beliefs = believed(state([[reward, gamma - 1]], [radius], [1.0]), norm=1e4)
    oracle = SlabOracle(kernels="plain")
    low, high = ranges(beliefs, oracle)[0]
    assert low == pytest.approx((reward - radius) / (1 - gamma), abs=1e-3)
    assert high == pytest.approx((reward + radius) / (1 - gamma), abs=1e-3)
    both = believed(
        state([[0.25, -1.0, 0.5]], [0.25], [1.0, 0.0]),
        state([[0.25, 0.5, -1.0], [0.5, 0.0, -1.0]], [0.25, 0.25], [0.0, 1.0]),
        norm=1e3,
    )
    oracle = SlabOracle(kernels="plain")
    assert ranges(both, oracle) == pytest.approx(np.array([[0.0, 1.0], [0.0, 1.0]]), abs=1e-4)
    answer = oracle.maximise(np.ones(2), both)
    assert answer.upper == pytest.approx(2.0, abs=1e-4)
    assert oracle.norm_limit() > 1e6
    assert verdict_of(oracle).accepted


def test_the_ball_bounds_the_entries_together_where_nothing_else_does() -> None:
    """Bounding them one by one can be looser, and must not undo what was found before."""
    mean = np.array([0.0, 0.63, 0.27])
    rows = [[0.1, *(mean - [0.0, 1.0, 0.0])]]
    beliefs = believed(state(rows, [0.01], [0.0, 1.0, 0.0]))
    oracle = SlabOracle(kernels="plain")
    together = 0.1 + 0.01 + float(np.linalg.norm(mean))
    assert ranges(beliefs, oracle)[0, 1] <= together + 1e-8
    oracle.maximise(np.array([0.0, 1.0, 0.0]), beliefs)
    assert verdict_of(oracle).accepted


def test_states_that_say_nothing_may_have_any_features() -> None:
    """Their ranges are read off the box where they can be, and are the ball's otherwise."""
    tells_one = state([[0.2, -1.0, 0.0]], [0.01], [1.0, 0.0])
    for features, expected in (
        ([-1.0, 0.0], (-0.21, -0.19)),
        ([2.0, 0.0], (0.38, 0.42)),
        ([0.8, 0.6], (-1.0, 1.0)),
        ([0.0, 0.0], (0.0, 0.0)),
        (None, (-1.0, 1.0)),
    ):
        void = state([[0.0, 1.0, 0.0]], [5.0], features)
        found = ranges(believed(tells_one, void))
        assert found[0] == pytest.approx((0.19, 0.21), abs=1e-7)
        assert found[1] == pytest.approx(expected, abs=1e-7)


def test_empty_and_contradicting_boxes() -> None:
    twice = state([[0.2, -1.0]], [0.01], [1.0]), state([[0.4, -1.0]], [0.01], [1.0])
    gamma = state([[0.2, -0.5]], [0.01], [1.0]), state([[0.4, -0.5]], [0.01], [1.0])
    for states in (twice, gamma):
        oracle = SlabOracle(kernels="plain")
        beliefs = believed(*states, norm=2.0)
        ranges(beliefs, oracle)
        assert oracle.maximise(np.ones(1), beliefs).status is OracleStatus.EMPTY
        assert verdict_of(oracle).accepted


# --- answers -------------------------------------------------------------------------------------


def check_answer(
    oracle: SlabOracle, objective: FloatArray, beliefs: Hypotheses, note: object
) -> None:
    answer, size = oracle.maximise(objective, beliefs), unit(objective, beliefs)
    true = best_in_slabs(objective, beliefs, tolerance=SURE).value
    most = best_in_slabs(objective, searched(beliefs), widen=1e-9).value
    assert verdict_of(oracle).accepted, (note, verdict_of(oracle).reason)
    if answer.status is OracleStatus.EMPTY:
        assert true == -np.inf, note
        return
    assert answer.status is OracleStatus.OPTIMAL, note
    assert answer.upper >= true - 1e-9 * size, note
    assert answer.upper <= most + AGREEMENT * size, note


def test_answers_with_boxes_agree_with_enumeration() -> None:
    for seed in range(300):
        beliefs = random_tabular(seed).beliefs
        rng = np.random.default_rng([seed, 33])
        objective, oracle = rng.normal(size=beliefs.dim), SlabOracle(kernels="plain")
        for stage in growing(beliefs):
            check_answer(oracle, objective, stage, seed)


def test_answers_with_hulls_agree_with_enumeration() -> None:
    for seed in range(160):
        instance = random_instance_with_cuts(seed)
        oracle = SlabOracle(kernels="plain")
        for beliefs in with_features([instance.beliefs], 2 * seed + 1):
            oracle.tighten(beliefs, 2)
            check_answer(oracle, instance.objective, beliefs, seed)


# --- sets that shrink ----------------------------------------------------------------------------


def test_ranges_only_narrow() -> None:
    """A kept oracle is told of states, cuts and refinements, along axes or not."""
    for seed in range(120):
        tabular = random_tabular(seed)
        sets = growing(tabular.beliefs)[1:]
        last = sets[-1]
        old = last.states[0]
        finer = replace(old, radii=0.5 * last.radii(old))
        sets.append(last.refined(0, finer))
        middle = tabular.hidden[None]
        cut = Cuts(np.eye(last.dim)[:1], middle[:, 0] - 0.1, middle[:, 0] + 0.1)
        sets.append(sets[-1].with_cuts(cut))
        for story in (sets, with_features(sets, 2 * seed + 1)):
            oracle = SlabOracle(kernels="plain")
            before = np.zeros((0, 2))
            for beliefs in story:
                found = ranges(beliefs, oracle)
                check_narrower(beliefs, before, found, seed)
                before = found


def check_narrower(
    beliefs: Hypotheses, before: FloatArray, after: FloatArray, note: object
) -> None:
    for index, (low, high) in enumerate(before):
        room = 3 * ROOM * unit(features_of(beliefs.states[index]), beliefs)
        assert after[index, 0] >= low - room, note
        assert after[index, 1] <= high + room, note


# --- hulls ---------------------------------------------------------------------------------------


def split_range(beliefs: Hypotheses, index: int) -> Range:
    """Ends of phi . theta over the slabs of one state's actions, with the cuts and the ball."""
    old = beliefs.states[index]
    alone = replace(bellman_as_cuts(beliefs), states=(replace(old, refines=None),))
    features = features_of(old)
    high = best_in_slabs(features, alone).value
    low = -best_in_slabs(-features, alone).value
    return low, high


def test_hulls_are_those_of_single_splits() -> None:
    """One state with general features: the range is that of the best of its convex problems."""
    compared = 0
    for seed in range(400):
        instance = random_instance_with_cuts(seed)
        if not instance.beliefs.states or len(instance.objective) == 1:
            continue
        [dressed] = with_features([instance.beliefs], 2 * seed + 1)
        single = replace(dressed, states=(replace(dressed.states[0], refines=None),))
        beliefs, size = searched(single), unit(features_of(single.states[0]), single)
        low, high = split_range(beliefs, 0)
        wide = split_range(replace(beliefs, norm=beliefs.norm * (1 + 1e-8)), 0)
        if (
            not tells(beliefs, beliefs.states[0])
            or low > high
            or max(low - wide[0], wide[1] - high) > 1e-6 * size
        ):
            continue
        found = ranges(single, rounds=3)[0]
        compared += 1
        worth = 2 * size * WORTH
        assert found[0] - SAME * size <= low <= found[0] + worth, seed
        assert found[1] + SAME * size >= high >= found[1] - worth, seed
    assert compared > 150


def test_hulls_hold_every_allowed_value() -> None:
    for seed in range(120):
        instance = random_instance_with_cuts(seed)
        if len(instance.objective) == 1:
            continue
        for beliefs in with_features([instance.beliefs], 2 * seed + 1):
            for rounds in (1, 3):
                check_holds(beliefs, ranges(beliefs, rounds=rounds), seed)


def test_more_rounds_and_the_claims_of_other_states_narrow_hulls() -> None:
    instance = layered(3, 3, 3)
    beliefs = instance.one_shot(8, 10, radius=1e-2)
    oracle = SlabOracle(kernels="plain")
    first = ranges(beliefs, oracle)
    check = ranges(beliefs, oracle, rounds=5)
    check_narrower(beliefs, first, check, None)
    bare = np.array([split_range(beliefs, index) for index in range(len(beliefs.states))])
    sizes = np.array([unit(features_of(old), beliefs) for old in beliefs.states])
    worth = 2 * WORTH * sizes
    assert np.all(check[:, 0] >= bare[:, 0] - worth)
    assert np.all(check[:, 1] <= bare[:, 1] + worth)
    assert np.any(check[:, 1] < bare[:, 1] - worth)
    values = np.array([features_of(old) @ instance.theta for old in beliefs.states])
    assert np.all((check[:, 0] <= values) & (values <= check[:, 1]))
    with_claims, without = (
        oracle.maximise(instance.objective, beliefs),
        SlabOracle(kernels="plain").maximise(instance.objective, beliefs),
    )
    assert with_claims.upper == pytest.approx(without.upper, abs=1e-6)
    assert verdict_of(oracle).accepted
    assert verdict_of(oracle).claims > 0


def test_states_without_features_have_the_range_of_the_ball() -> None:
    bare = believed(state([[0.1, 1.0, 0.5]], [0.01]), norm=2.0)
    mixed = believed(
        state([[0.1, 1.0, 0.5]], [0.01]), state([[0.1, 1.0, 0.5]], [0.01], [0.6, 0.8]), norm=2.0
    )
    assert ranges(bare).tolist() == [[-2.0, 2.0]]
    assert ranges(mixed)[0].tolist() == [-2.0, 2.0]
    assert ranges(replace(bare, states=())).shape == (0, 2)
