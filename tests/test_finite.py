"""Tables: draws have the frequencies, expectations the closed forms, bad tables are refused."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tensorplan.access import Access
from tensorplan.errors import SettingError
from tensorplan.finite import TableSimulator, from_table
from tensorplan.records import Phase, Spec
from tensorplan.testing import check_simulator

# Two states and an end. Action 1 of state 1 is missing; the lists have unequal lengths.
TABLE: Any = [
    [
        [(0.2, 0, 0.0, False), (0.0, 1, 1.0, False), (0.5, 1, 0.5, False), (0.3, 2, 1.0, True)],
        [(1.0, 1, 0.25, False)],
    ],
    [[(0.6, 0, 0.0, False), (0.4, 2, 1.0, True)], []],
    [[], []],
]
SPEC = Spec(actions=2, dim=3, horizon=3)


def simulator(**options: Any) -> TableSimulator:
    return from_table(TABLE, np.eye(3), SPEC, **options)


class TestDraws:
    def test_frequencies_by_chi_square(self):
        """Fails a correct simulator with probability 1e-6 over the choice of the seed."""
        sim, draws = simulator(), 50_000
        step = sim.step(np.zeros(draws, np.int64), 1, np.zeros(draws, np.int64), rng(1))
        counts = [np.sum((step.states == s) & (step.rewards == r)) for s, r in [
            (0, 0.0), (1, 0.5), (2, 1.0)]]  # fmt: skip
        assert sum(counts) == draws
        assert stats.chisquare(counts, draws * np.array([0.2, 0.5, 0.3])).pvalue > 1e-6
        np.testing.assert_array_equal(step.terminated, step.states == 2)

    def test_mixed_batches_look_up_their_own_rows(self):
        states, actions = np.array([0, 1, 0, 1] * 5000), np.array([1, 0, 0, 0] * 5000)
        step = simulator().step(states, 1, actions, rng(2))
        sure = (states == 0) & (actions == 1)
        assert set(step.states[sure]) == {1}
        assert set(step.rewards[sure]) == {0.25}
        ended = step.terminated[states == 1].mean()
        assert abs(ended - 0.4) < 5 * np.sqrt(0.24 / 10_000)  # 5 sigma

    def test_outcomes_share_the_unit_interval_in_their_order(self):
        """Bounds at 0.2 and 0.7; the outcome of probability 0 in between is never drawn."""
        uniform = [0.0, below(0.2), 0.2, below(0.7), 0.7, below(1.0)]
        step = simulator().step(np.zeros(6, int), 1, np.zeros(6, int), Scripted(*uniform))
        assert step.states.tolist() == [0, 0, 1, 1, 2, 2]
        assert step.rewards.tolist() == [0, 0, 0.5, 0.5, 1, 1]

    @pytest.mark.parametrize("parts", [3, 7, 10, 49])
    def test_rounded_sums_never_fall_into_the_padding(self, parts: int):
        """Ten times 0.1 adds up to just below 1; the largest draw must hit the last outcome."""
        cells = [[(1 / parts, s, 0.5, False) for s in range(parts)]]
        padded = [cells, *[[[(1.0 / 50, 0, 0.0, False)] * 50]] * (parts - 1)]
        sim = from_table(padded, np.eye(parts), Spec(1, parts, 2))
        last = Scripted(below(1.0))
        step = sim.step(np.zeros(4, np.int64), 1, np.zeros(4, np.int64), last)
        assert set(step.states) == {parts - 1}
        assert set(step.rewards) == {0.5}

    def test_a_table_with_one_outcome_each_uses_no_randomness(self):
        sim = from_table(
            [[[(1.0, 0, 0.5, False)]]], np.ones((1, 1)), Spec(1, 1, 1, deterministic=True)
        )
        generator = rng(0)
        sim.step(np.zeros(9, np.int64), 1, np.zeros(9, np.int64), generator)
        assert generator.random() == rng(0).random()
        check_simulator(sim).raise_if_broken()

    def test_keeps_the_contract(self):
        check_simulator(simulator()).raise_if_broken()


class Scripted(np.random.Generator):
    """A generator whose uniform numbers are given."""

    def __init__(self, *uniform: float) -> None:
        super().__init__(np.random.PCG64(0))
        self.script = np.array(uniform)

    def random(self, size: Any = None, *args: Any, **kwargs: Any) -> Any:
        return np.resize(self.script, size)


def below(number: float) -> float:
    return float(np.nextafter(number, 0.0))


def rng(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


class TestMasksAndStarts:
    def test_empty_lists_are_masked(self):
        masks = simulator().allowed(np.array([1, 0, 2]), 1)
        assert masks.tolist() == [[True, False], [True, True], [False, False]]

    def test_start_state(self):
        assert simulator(start=1).start(rng(0)).tolist() == [1]
        assert simulator(start=np.int64(1)).start(rng(0)).tolist() == [1]

    def test_start_distribution_by_chi_square(self):
        """Fails a correct simulator with probability 1e-6 over the choice of the seed."""
        sim, generator = simulator(start=[0.0, 0.25, 0.75]), rng(3)
        starts = np.array([sim.start(generator)[0] for _ in range(8000)])
        counts = np.bincount(starts, minlength=3)
        assert counts[0] == 0
        assert stats.chisquare(counts[1:], [2000, 6000]).pvalue > 1e-6

    def test_starts_with_zeros_at_both_ends(self):
        sim = simulator(start=[0.0, 1.0, 0.0])
        assert sim.start(Scripted(below(1.0))).tolist() == [1]
        assert sim.start(Scripted(0.0)).tolist() == [1]
        assert {int(sim.start(rng(seed))[0]) for seed in range(20)} == {1}

    def test_starts_whose_sum_rounds_to_below_one(self):
        table = [[[(1.0, 0, 0.0, False)]]] * 10
        sim = from_table(table, np.zeros((10, 1)), Spec(1, 1, 1), start=[0.1] * 10)
        assert sum([0.1] * 10) == below(1.0)
        assert sim.start(Scripted(below(1.0))).tolist() == [9]


class TestExpectations:
    def test_mean_rewards(self):
        expected = [[0.25 + 0.3, 0.25], [0.4, 0.0], [0.0, 0.0]]
        np.testing.assert_allclose(simulator().process.mean_rewards(), expected)

    def test_expect_counts_the_end_as_zero(self):
        values = np.array([1.0, 10.0, 1000.0])
        expected = np.array([[0.2 + 5.0, 10.0], [0.6, 0.0], [0.0, 0.0]])
        process = simulator().process
        np.testing.assert_allclose(process.expect(values), expected)
        both = process.expect(np.stack([values, -2 * values], axis=1))
        np.testing.assert_allclose(both, np.stack([expected, -2 * expected], axis=2))

    def test_features_by_stage_and_by_function(self):
        by_stage = np.stack([np.eye(3) / h for h in (1, 2, 3)])
        sim = from_table(TABLE, by_stage, SPEC)
        same = from_table(TABLE, lambda s, h: np.eye(3)[s] / h, SPEC)
        for stage in (1, 2, 3):
            rows = sim.features(np.array([2, 0]), stage)
            np.testing.assert_array_equal(rows, by_stage[stage - 1][[2, 0]])
            np.testing.assert_array_equal(same.features(np.array([2, 0]), stage), rows)
        plain = simulator()
        np.testing.assert_array_equal(
            plain.features(np.arange(3), 3), plain.features(np.arange(3), 1)
        )

    def test_other_features_for_the_same_process(self):
        other = simulator().process.with_features(np.full((1, 3, 5), 0.1), bound=2.0)
        assert (other.spec.dim, other.spec.bound) == (5, 2.0)
        np.testing.assert_array_equal(other.mean_rewards(), simulator().process.mean_rewards())


def cell(*outcomes: Any) -> Any:
    return [[list(outcomes)]]


NAN = float("nan")


BAD: list[tuple[Any, dict[str, Any], str]] = [
    (cell((0.5, 0, 0, False)), {}, "state 0, action 0 sum to 0.5"),
    (cell((1.5, 0, 0, False), (-0.5, 0, 0, False)), {}, "smallest probability -0.5"),
    (cell((NAN, 0, 0, False)), {}, "state 0, action 0 sum to nan"),
    (cell((1.0, 1, 0, False)), {}, "successor 1.*0 to 0"),
    (cell((1.0, -1, 0, False)), {}, "successor -1"),
    (cell((1.0, 0, 0, False), (0.0, 7, 0, False)), {}, "successor 7"),
    (cell((1.0, 0, 0, False)), {"start": 1}, "start=1"),
    (cell((1.0, 0, 0, False)), {"start": -1}, "start=-1"),
    (cell((1.0, 0, 0, False)), {"start": [0.5]}, "start probabilities that sum to 0.5"),
    (cell((1.0, 0, 0, False)), {"start": [NAN]}, "start probabilities that sum to nan"),
    (cell((1.0, 0, 0, False)) * 2, {"start": [2.0, -1.0]}, "smallest probability -1"),
    (cell((1.0, 0, 0, False)), {"start": [0.5, 0.5]}, "start_probabilities of shape"),
    ([[[(1.0, 0, 0, False)]] * 2], {}, "2 actions of state 0.*each of the 1 actions"),
    ([[]], {}, "0 actions of state 0"),
    ([], {}, "a table without states"),
    ({}, {}, "a table without states"),
    ({"a": cell((1.0, 0, 0, False))[0]}, {}, r"\{'a': .*in place of states.*keys 0, 1, 2"),
    ([{"up": [(1.0, 0, 0, False)]}], {}, r"\{'up': .*in place of actions"),
    ([3], {}, "3 in place of actions"),
    ([[3]], {}, "3 in place of outcomes of action 0"),
    ([[[3]]], {}, "outcome 3 of state 0, action 0"),
    (cell((1.0, 0, 0)), {}, r"outcome \(1.0, 0, 0\) of state 0"),
    (cell((1.0, 0.7, 0, False)), {}, "outcome .* of state 0, action 0.*as a whole number"),
    (cell((1.0, NAN, 0, False)), {}, "outcome .* of state 0"),
    (cell((1.0, 0, 0, 0.5)), {}, "outcome .* of state 0"),
    ([[[(1.0, "0", 0, False)]]], {}, "outcome .* of state 0"),
    ([[[(None, 0, 0, False)]]], {}, "outcome .* of state 0"),
    ([[[(1.0, (0, 1), 0, False)]]], {}, "outcome .* of state 0"),
    (cell((1.0, 0, 0, False)), {"start": 0.5}, "start=0.5"),
    (cell((1.0, 0, 0, False)), {"start": "a"}, "start=a"),
    (cell((1.0, 0, 0, False)), {"start": ["a"]}, r"start=\['a'\]: probabilities are numbers"),
]


def test_numbers_of_any_kind_and_mappings_make_a_table():
    rows: Any = {
        0: {1: [], 0: [(np.float64(1.0), np.int8(1), 0.5, np.False_)]},
        1: {0: np.array([[0.5, 0.0, 0.25, 1.0], [0.5, 1.0, 0.75, 0.0]]), 1: []},
    }
    start: Any = np.int64(1)
    process = from_table(rows, np.eye(2), Spec(2, 2, 3), start=start).process
    assert process.successors[:, 0].tolist() == [[1, 0], [0, 1]]
    assert process.terminated[1, 0].tolist() == [True, False]
    assert process.allowed.tolist() == [[True, False]] * 2
    assert process.start_probabilities.tolist() == [0.0, 1.0]


@pytest.mark.parametrize(("table", "options", "message"), BAD)
def test_bad_tables_are_refused(table: Any, options: dict[str, Any], message: str):
    with pytest.raises(SettingError, match=message):
        from_table(table, np.full((len(table), 1), 0.5), Spec(1, 1, 2), **options)


@pytest.mark.parametrize("shape", [(1, 2), (2, 1), (3, 1, 1), (1,)])
def test_misshapen_features_are_refused(shape: tuple[int, ...]):
    with pytest.raises(SettingError, match=r"features of shape.*\(1 or 2, 1, 1\)"):
        from_table(cell((1.0, 0, 0, False)), np.zeros(shape), Spec(1, 1, 2))


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(1, 4), st.integers(1, 3))
def test_means_of_a_deterministic_table_are_exact_rows(
    seed: int, states: int, actions: int, draws: int
):
    """Whatever the table, a measured mean is the row that the table says."""
    luck = rng(seed)
    table = [
        [[(1.0, int(luck.integers(states)), float(luck.random()), luck.random() < 0.3)]
         for _ in range(actions)] for _ in range(states)]  # fmt: skip
    features = luck.uniform(-0.5, 0.5, (states, 2))
    spec = Spec(actions, 2, None, discount=0.9, deterministic=True)
    sim = from_table(table, features, spec, start=int(luck.integers(states)))
    access = Access(sim, seed=seed)
    handle = access.start()
    state = int(access.reveal(handle)[0])
    rows = access.measure(handle, 1, draws, phase=Phase.TEST, key=(0,)).rows[0]
    process = sim.process
    following = process.expect(process.features_at(1))[state]
    np.testing.assert_allclose(rows[:, 0], process.mean_rewards()[state], rtol=1e-14)
    np.testing.assert_allclose(rows[:, 1:], 0.9 * following - features[state], atol=1e-14)
