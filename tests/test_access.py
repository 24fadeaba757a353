"""What a planner may touch: handles, the two queries, the meter, the random streams."""

import gc
from typing import Any

import numpy as np
import pytest
from scipy import stats

from tensorplan.access import CHUNK_ROWS, Access
from tensorplan.errors import AccessError, QueryBudgetError, SimulatorError
from tensorplan.finite import TableSimulator, from_table
from tensorplan.local import Handle
from tensorplan.meter import QueryMeter
from tensorplan.problem import AllowedFunction, FeatureFunction, StepFunction, from_functions
from tensorplan.records import FloatArray, Phase, Spec, Step
from tensorplan.testing import CountingSimulator, RecordingSimulator

# 0 and 1 are noisy, action 1 of state 1 is missing, state 2 is the end.
TABLE: Any = [
    [[(0.5, 0, 0.0, False), (0.25, 1, 0.5, False), (0.25, 2, 1.0, True)], [(1.0, 1, 0.25, False)]],
    [[(0.6, 0, 0.0, False), (0.4, 1, 1.0, False)], []],
    [[], []],
]
FEATURES = np.array([[0.6, 0.0], [0.0, 0.8], [0.5, 0.5]])


def noisy(horizon: int | None = 4, discount: float = 1.0, **options: Any) -> TableSimulator:
    return from_table(TABLE, FEATURES, Spec(2, 2, horizon, discount), **options)


def access_to(simulator: Any = None, seed: int = 7, **limits: int) -> Access:
    return Access(simulator or noisy(), seed=seed, meter=QueryMeter(**limits))


def measure(access: Access, handle: Handle, draws: int = 3, *key: int) -> Any:
    return access.measure(handle, handle.stage, draws, phase=Phase.TEST, key=key or (0,))


def advance(access: Access, handle: Handle, actions: Any, *key: int) -> Any:
    chosen = np.asarray(actions)
    return access.advance(handle, handle.stage, chosen, phase=Phase.FORWARD, key=key or (0,))


def pool(access: Access, rows: int) -> Handle:
    """A handle of many start states."""
    return access.take(access.start(), np.zeros(rows, np.int64))


class TestHandles:
    def test_forged_and_foreign_handles_are_refused(self):
        access, other = access_to(), access_to()
        for handle in (Handle(1, 1), other.start()):
            asks = (
                lambda handle=handle: measure(access, handle),
                lambda handle=handle: advance(access, handle, [0]),
                lambda handle=handle: access.features(handle),
                lambda handle=handle: access.allowed(handle),
                lambda handle=handle: access.reveal(handle),
                lambda handle=handle: access.take(handle, [0]),
            )
            for ask in asks:
                with pytest.raises(AccessError, match="only handles that this access"):
                    ask()
        assert access.meter.total == 0

    def test_a_handle_is_queried_at_its_own_stage(self):
        access = access_to()
        handle = access.start()
        with pytest.raises(AccessError, match=r"stage 2 for a handle of stage 1.*stage=1"):
            access.measure(handle, 2, 1, phase=Phase.TEST, key=(0,))
        with pytest.raises(AccessError, match="stages run from 1 to 4"):
            access.measure(handle, 5, 1, phase=Phase.TEST, key=(0,))
        assert advance(access, handle, [1]).states.stage == 2

    def test_ended_states_have_no_successors(self):
        access = access_to()
        ended = advance(access, pool(access, 40), [0] * 40)
        gone = np.flatnonzero(ended.terminated)
        assert 0 < len(gone) < 40
        with pytest.raises(AccessError, match=f"state {gone[0]} of the handle.*has ended"):
            measure(access, ended.states)
        alive = access.take(ended.states, np.flatnonzero(~ended.terminated))
        assert measure(access, alive).rewards.shape == (len(alive), 2)

    def test_nothing_comes_after_the_last_stage(self):
        access = access_to(noisy(horizon=1))
        over = advance(access, access.start(), [1])
        assert over.terminated.all()
        assert not access.features(over.states).any()
        with pytest.raises(AccessError, match="stages run from 1 to 1"):
            measure(access, over.states)

    @pytest.mark.parametrize(
        "rows", [[2], [-1], np.array([True, False]), [0.5]], ids=["2", "-1", "mask", "0.5"]
    )
    def test_take_knows_its_rows(self, rows: Any):
        access = access_to()
        handle = pool(access, 2)
        with pytest.raises(AccessError, match="whole numbers from 0 to 1"):
            access.take(handle, rows)

    def test_take_keeps_states_features_and_ends(self):
        access = access_to()
        step = advance(access, pool(access, 30), [0] * 30)
        rows = [29, 3, 3, 0]
        part = access.take(step.states, rows)
        assert (len(part), part.stage) == (4, 2)
        np.testing.assert_array_equal(access.reveal(part), access.reveal(step.states)[rows])
        np.testing.assert_array_equal(access.features(part), access.features(step.states)[rows])

    def test_an_empty_handle_cannot_be_queried(self):
        access = access_to()
        nothing = access.take(access.start(), [])
        assert access.allowed(nothing).shape == (0, 2)
        for ask in (lambda: measure(access, nothing), lambda: advance(access, nothing, [])):
            with pytest.raises(AccessError, match="at least one state"):
                ask()

    def test_admitted_states_can_be_queried(self):
        access = access_to()
        handle = access.admit(np.array([1, 0]), 3)
        assert measure(access, handle).measured.tolist() == [[True, False], [True, True]]
        with pytest.raises(AccessError, match="stage 5"):
            access.admit(np.array([1]), 5)

    def test_what_is_handed_out_is_a_copy(self):
        access = access_to()
        handle = access.start()
        measure(access, handle).features[:] = 9.0
        access.features(handle)[:] = 9.0
        np.testing.assert_array_equal(access.features(handle), FEATURES[:1])

    def test_dropped_handles_free_their_states(self):
        access = access_to(noisy(horizon=None, discount=0.9))
        handle = access.start()
        for move in range(300):
            step = advance(access, pool(access, 10), [0] * 10, move)
            alive = np.flatnonzero(~step.terminated)
            handle = access.take(step.states, alive[:1]) if len(alive) else access.start()
            del step
            gc.collect(0)
            assert access.live_states <= 12
        del handle
        gc.collect()
        assert access.live_states == 0


class TestActions:
    @pytest.mark.parametrize("action", [-1, 2, 99])
    def test_out_of_range(self, action: int):
        access = access_to()
        with pytest.raises(AccessError, match=f"action {action}: actions run from 0 to 1"):
            advance(access, pool(access, 2), [0, action])

    @pytest.mark.parametrize("actions", [[0], [0, 0, 0], 0, [[0, 0]]])
    def test_one_for_each_state(self, actions: Any):
        access = access_to()
        with pytest.raises(AccessError, match="one action is needed for each of 2 states"):
            advance(access, pool(access, 2), actions)

    def test_masked(self):
        access = access_to(noisy(start=1))
        handle = access.start()
        with pytest.raises(AccessError, match=r"action 1 at stage 1.*masked"):
            advance(access, handle, [1])
        result = measure(access, handle, 50)
        assert result.measured.tolist() == [[True, False]]
        assert not result.rows[0, 1].any()
        assert access.meter.total == 50

    def test_masks_of_ended_states_are_not_asked_for(self):
        access = access_to()
        step = advance(access, pool(access, 40), [0] * 40)
        masks = access.allowed(step.states)
        assert masks[step.terminated].all()
        states = access.reveal(step.states)
        assert masks[states == 1].tolist() == [[True, False]] * int(np.sum(states == 1))


ONE = Spec(1, 1, 3)


def stay(state: Any, stage: int, action: int, rng: np.random.Generator) -> Any:
    return 0.5, state, False


def half(state: Any, stage: int) -> Any:
    return [0.5]


def broken_by(
    step: StepFunction = stay,
    features: FeatureFunction = half,
    allowed: AllowedFunction | None = None,
    spec: Spec = ONE,
) -> Access:
    """Access to a simulator that stays where it is, with some parts exchanged."""
    return access_to(from_functions(spec, lambda rng: 0, step, features, allowed=allowed))


class TestGuards:
    @pytest.mark.parametrize(
        ("reward", "message"),
        [
            (float("nan"), "reward nan at stage 1: rewards must be finite"),
            (float("inf"), "reward inf at stage 1: rewards must be finite"),
            (1.01, r"reward 1.01 at stage 1.*\(0, 1\)"),
            (-0.5, "reward -0.5 at stage 1"),
        ],
    )
    def test_rewards(self, reward: float, message: str):
        access = broken_by(step=lambda state, stage, action, rng: (reward, state, False))
        handle = access.start()
        with pytest.raises(SimulatorError, match=message):
            measure(access, handle)
        with pytest.raises(SimulatorError, match=message):
            advance(access, handle, [0])

    def test_rounding_of_a_reward_is_forgiven(self):
        access = broken_by(step=lambda state, stage, action, rng: (1 + 1e-12, state, False))
        assert measure(access, access.start()).rewards == pytest.approx(1)

    @pytest.mark.parametrize(
        ("row", "message"),
        [
            ([0.5, 0.5], r"features of shape \(1, 2\)"),
            ([float("nan")], "features must be finite"),
            ([1e200], "norm"),
            ([1.001], r"norm 1.001 at stage 1.*Divide the feature map by 1.001"),
        ],
    )
    def test_features(self, row: list[float], message: str):
        with pytest.raises(SimulatorError, match=message):
            broken_by(features=lambda state, stage: row).start()
        access = broken_by(features=lambda state, stage: row if stage == 2 else [0.5])
        handle = access.start()
        with pytest.raises(SimulatorError, match=message.replace("stage 1", "stage 2")):
            measure(access, handle, 1)

    @pytest.mark.parametrize("mask", [[False], [True, True]])
    def test_masks(self, mask: list[bool]):
        access = broken_by(allowed=lambda state, stage: mask)
        with pytest.raises(SimulatorError, match="action mask"):
            access.allowed(access.start())

    def test_termination_promise(self):
        access = broken_by(
            spec=Spec(1, 1, 3, may_terminate=False),
            step=lambda state, stage, action, rng: (0.5, state, True),
        )
        with pytest.raises(SimulatorError, match=r"ended at stage 1.*may_terminate"):
            measure(access, access.start())

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"states": np.zeros(3)}, "dtype float64.*the start, which is int64"),
            ({"states": np.zeros(2, np.int64)}, "3 queries need 3 of each"),
            ({"rewards": np.zeros((3, 1))}, "3 queries need 3 of each"),
            ({"terminated": np.zeros(3)}, "dtype float64.*truth values"),
        ],
    )
    def test_shapes_and_dtypes(self, change: dict[str, Any], message: str):
        answer: dict[str, Any] = {
            "rewards": np.zeros(3),
            "states": np.zeros(3, np.int64),
            "terminated": np.zeros(3, np.bool_),
        }

        class Bent(TableSimulator):
            def step(self, *args: Any, **kwargs: Any) -> Step:
                return Step(**(answer | change))

        access = access_to(Bent(noisy().process))
        with pytest.raises(SimulatorError, match=message):
            advance(access, pool(access, 3), [0] * 3)

    def test_a_start_is_a_batch_of_one(self):
        class Twins(TableSimulator):
            def start(self, rng: np.random.Generator) -> Any:
                return np.zeros(2, np.int64)

        with pytest.raises(SimulatorError, match=r"start\(\) gave 2 states"):
            access_to(Twins(noisy().process)).start()


class TestMeter:
    def test_agrees_with_the_simulator(self):
        sim = CountingSimulator(noisy())
        access = access_to(sim)
        spent: list[int] = []
        for episode in range(3):
            access.new_episode()
            before = sim.queries
            handle = pool(access, 4)
            for key in range(episode + 1):
                measure(access, handle, 5, key)
            advance(access, handle, [1] * 4)
            spent.append(sim.queries - before)
        counts = access.meter.read()
        assert counts.total == sim.queries == sum(spent)
        assert counts.by_phase["test"] == 6 * 4 * 2 * 5
        assert counts.by_phase["forward"] == 12
        assert sum(counts.by_phase.values()) == counts.total
        assert counts.per_episode == max(spent) == counts.per_call

    def test_calls_are_counted_apart(self):
        meter = QueryMeter()
        for call, queries in enumerate([5, 9, 2]):
            if call:
                meter.new_call()
            meter.charge(Phase.ACT, queries)
        assert (meter.read().per_call, meter.read().per_episode) == (9, 16)
        meter.new_episode()
        meter.charge(Phase.ACT, 10)
        assert (meter.read().per_call, meter.read().per_episode, meter.total) == (10, 16, 26)

    def test_budget_in_all_is_checked_before_asking(self):
        sim = CountingSimulator(noisy())
        access = access_to(sim, limit=10)
        handle = access.start()
        measure(access, handle, 5, 0)
        with pytest.raises(QueryBudgetError, match="11 queries in all: the budget in all is 10"):
            advance(access, handle, [0])
        assert sim.queries == access.meter.total == 10

    def test_budget_per_call(self):
        access = access_to(limit_per_call=6)
        handle = access.start()
        measure(access, handle, 3, 0)
        with pytest.raises(QueryBudgetError, match="in one call"):
            measure(access, handle, 1, 1)
        access.meter.new_call()
        measure(access, handle, 3, 1)
        assert access.meter.total == 12

    def test_refused_queries_cost_nothing(self):
        sim = CountingSimulator(noisy())
        access = access_to(sim)
        handle = access.start()
        measure(access, handle)
        with pytest.raises(AccessError):
            measure(access, handle)
        with pytest.raises(AccessError):
            advance(access, handle, [5])
        with pytest.raises(AccessError, match="draws=0"):
            measure(access, handle, 0, 1)
        assert access.meter.total == sim.queries == 6


class TestStreams:
    def test_a_key_is_good_for_one_query(self):
        access = access_to()
        handle = access.start()
        measure(access, handle)
        with pytest.raises(AccessError, match=r"key \(0,\) of phase 'test' at stage 1.*counter"):
            measure(access, handle)
        access.measure(handle, 1, 3, phase=Phase.REFINE, key=(0,))
        measure(access, handle, 3, 0, 0)
        access.new_episode()
        measure(access, access.start())

    @pytest.mark.parametrize("word", [-1, 2**32])
    def test_keys_that_would_coincide_are_refused(self, word: int):
        access = access_to()
        with pytest.raises(AccessError, match="keys are whole numbers"):
            measure(access, access.start(), 1, word)

    def test_same_seed_same_answer_bit_for_bit(self):
        def run(seed: int) -> tuple[bytes, ...]:
            access = access_to(seed=seed)
            handle = pool(access, 20)
            first = measure(access, handle, 7)
            step = advance(access, handle, [0] * 20)
            return (
                first.rows.tobytes(),
                step.rewards.tobytes(),
                access.reveal(step.states).tobytes(),
            )

        assert run(3) == run(3)
        assert all(a != b for a, b in zip(run(3), run(4), strict=True))

    def test_every_part_of_the_name_matters(self):
        access = access_to()
        answers: list[bytes] = []
        for episode in range(2):
            handle = access.admit(np.zeros(30, np.int64), 1)
            later = access.admit(np.zeros(30, np.int64), 2)
            for where in (handle, later):
                for phase in (Phase.TEST, Phase.REFINE):
                    for key in ((0,), (1,), (0, 0), (0, 1), (1, 0)):
                        m = access.measure(where, where.stage, 3, phase=phase, key=key)
                        answers.append(m.rewards.tobytes())
            assert len(set(answers)) == len(answers) == 20 * (episode + 1)
            access.new_episode()

    def test_an_answer_does_not_depend_on_other_questions(self):
        alone, busy = access_to(), access_to()
        expected = measure(alone, pool(alone, 5), 4, 9).rows
        handle = pool(busy, 5)
        for key in range(5):
            measure(busy, handle, 2 + key, key)
            advance(busy, handle, [0] * 5, key)
        busy.features(handle)
        np.testing.assert_array_equal(measure(busy, handle, 4, 9).rows, expected)

    def test_the_start_belongs_to_the_episode(self):
        spread = from_table([[[(1.0, s, 0, False)]] for s in range(99)], np.eye(99) / 2,
                            Spec(1, 99, 3), start=[1 / 99] * 99)  # fmt: skip
        access = access_to(spread)
        starts: list[int] = []
        for _ in range(10):
            first, again = (int(access.reveal(access.start())[0]) for _ in range(2))
            assert first == again
            starts.append(first)
            access.new_episode()
        assert len(set(starts)) > 5

    def test_advance_draws_afresh(self):
        """A walk must not follow the very draws that passed a test."""
        access = access_to()
        handle = pool(access, 400)
        tested: FloatArray = access.measure(handle, 1, 1, phase=Phase.TEST, key=(0,)).rewards[:, 0]
        walked: FloatArray = advance(access, handle, [0] * 400).rewards
        # Independent draws agree with probability 0.5^2 + 2 * 0.25^2 = 0.375; 5 sigma are 0.12.
        assert abs(np.count_nonzero(tested == walked) / 400 - 0.375) < 0.12


class TestMeasure:
    def test_equals_a_plain_loop_over_chunks(self):
        """Row by row in Python, with a generator for each chunk of the flattened queries."""
        sim, draws, states = noisy(), 613, np.array([0, 1, 0, 1, 0, 0, 1, 0, 0, 1])
        access = access_to(sim, seed=11)
        result = access.measure(access.admit(states, 2), 2, draws, phase=Phase.TEST, key=(3, 1))
        pairs = [(n, a) for n, s in enumerate(states) for a in range(2) if (s, a) != (1, 1)]
        queries = [pair for pair in pairs for _ in range(draws)]
        assert len(queries) > CHUNK_ROWS
        assert len(queries) % CHUNK_ROWS
        sums = np.zeros((len(states), 2, 3))
        for chunk in range(0, len(queries), CHUNK_ROWS):
            part = queries[chunk : chunk + CHUNK_ROWS]
            words = np.random.SeedSequence(11, spawn_key=(0, 1, 2, 3, 1, chunk // CHUNK_ROWS))
            uniform = np.random.Generator(np.random.PCG64(words)).random(len(part))
            for (n, a), u in zip(part, uniform, strict=True):
                _, following, reward, ended = outcome(TABLE[states[n]][a], u)
                sums[n, a] += [reward, *(FEATURES[following] * (not ended))]
        np.testing.assert_allclose(result.rewards, sums[:, :, 0] / draws, atol=1e-12)
        np.testing.assert_allclose(result.next_features, sums[:, :, 1:] / draws, atol=1e-12)
        assert access.meter.total == len(queries)

    def test_advance_across_chunks(self):
        access = access_to(seed=5)
        rows = CHUNK_ROWS + 17
        step = access.advance(
            pool(access, rows), 1, np.zeros(rows, np.int64), phase=Phase.FORWARD, key=(2,)
        )
        states = np.zeros(rows, np.int64)
        for chunk, part in enumerate((slice(0, CHUNK_ROWS), slice(CHUNK_ROWS, rows))):
            words = np.random.SeedSequence(5, spawn_key=(0, 3, 1, 2, chunk))
            luck = np.random.Generator(np.random.PCG64(words))
            drawn = noisy().step(states[part], 1, states[part], luck)
            np.testing.assert_array_equal(step.rewards[part], drawn.rewards)
            np.testing.assert_array_equal(step.terminated[part], drawn.terminated)
            np.testing.assert_array_equal(access.reveal(step.states)[part], drawn.states)

    def test_unbiased(self):
        """Fails a correct access with probability 1e-6 over the choice of the seed."""
        access = access_to()
        groups, draws = 2000, 8
        handle = pool(access, groups)
        sums = np.rint(measure(access, handle, draws).next_features[:, 0, 1] / 0.8 * draws)
        # Each sum counts the draws that went to state 1: Binomial(8, 1/4), independent rows.
        expected = groups * stats.binom(draws, 0.25).pmf(np.arange(6))
        observed = np.bincount(sums.astype(int), minlength=9)
        tail = groups - expected.sum()
        result = stats.chisquare([*observed[:6], observed[6:].sum()], [*expected, tail])
        assert result.pvalue > 1e-6

    def test_the_end_has_zero_features(self):
        ending = from_table([[[(0.5, 0, 0, False), (0.5, 1, 1, True)]], [[]]],
                            np.array([[0.5], [0.9]]), Spec(1, 1, 3))  # fmt: skip
        sim = RecordingSimulator(ending)
        access = access_to(sim)
        result = measure(access, access.start(), 1000)
        np.testing.assert_allclose(result.next_features[0, 0, 0], 0.5 * (1 - result.rewards[0, 0]))
        step = advance(access, pool(access, 50), [0] * 50)
        np.testing.assert_array_equal(access.features(step.states)[:, 0], 0.5 * ~step.terminated)
        asked = np.concatenate([call.states for call in sim.calls if call.method == "features"])
        assert set(asked) == {0}

    def test_the_stage_after_the_last_has_zero_features(self):
        sim = RecordingSimulator(noisy())
        access = access_to(sim)
        result = measure(access, access.admit(np.array([0, 1]), 4), 20)
        assert not result.next_features.any()
        np.testing.assert_array_equal(result.rows[0, 0, 1:], -FEATURES[0])
        assert {call.stage for call in sim.calls if call.method == "features"} == {4}

    def test_discounted_rows(self):
        sim = noisy(horizon=None, discount=0.75)
        access = access_to(sim)
        handle = access.start()
        result = measure(access, handle, 4)
        assert result.discount == 0.75
        np.testing.assert_allclose(
            result.rows[0, 1], [0.25, *(0.75 * FEATURES[1] - FEATURES[0])], rtol=1e-15
        )
        assert advance(access, handle, [1]).states.stage == 1
        with pytest.raises(AccessError, match="stages run from 1 to 1"):
            access.measure(handle, 2, 1, phase=Phase.TEST, key=(5,))

    def test_a_total_reward_problem_weighs_the_next_state_fully(self):
        access = access_to(noisy(horizon=None))
        rows = measure(access, access.start(), 4).rows
        np.testing.assert_allclose(rows[0, 1, 1:], FEATURES[1] - FEATURES[0], rtol=1e-15)


def outcome(cell: Any, uniform: float) -> Any:
    total = 0.0
    for entry in cell:
        total += entry[0]
        if uniform < total:
            return entry
    return cell[-1]
