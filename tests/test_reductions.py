"""The reductions: what they promise, checked on finite processes that can be solved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from tensorplan.access import Access
from tensorplan.adapters.conditions import Condition
from tensorplan.adapters.discounted import Truncated, truncation_horizon
from tensorplan.adapters.inaccurate import Inaccurate
from tensorplan.adapters.levelled import END, Levelled, Levels
from tensorplan.errors import AccessError, SettingError, SimulatorError
from tensorplan.exact.values import evaluate
from tensorplan.finite import FiniteProcess, TableSimulator
from tensorplan.plan import Plan, plan
from tensorplan.problem import Codec, Simulator, SupportsAllowed, SupportsPacking, from_functions
from tensorplan.records import FloatArray, IntArray, Phase, Spec, States, Step
from tensorplan.testing import CountingSimulator, RecordingSimulator
from tensorplan.theory import Errata

STATES, ACTIONS, DIM, HORIZON = 6, 3, 2, 4
SEEDS = range(5)


def random_process(
    seed: int, *, outcomes: int = 1, horizon: int | None = HORIZON, **promises: Any
) -> FiniteProcess:
    """Random dynamics with a masked action and, if the Spec lets them, ends of episodes."""
    rng = np.random.default_rng(seed)
    spec = Spec(ACTIONS, DIM, horizon, deterministic=outcomes == 1, **promises)
    shape = (STATES, ACTIONS, outcomes)
    weights = rng.dirichlet(np.ones(outcomes), size=shape[:2])
    features = rng.standard_normal((horizon or 1, STATES, DIM))
    allowed = np.ones(shape[:2], np.bool_)
    allowed[1, 0] = allowed[3, 2] = False
    return FiniteProcess(
        spec=spec,
        probabilities=weights,
        successors=rng.integers(STATES, size=shape),
        rewards=rng.uniform(*spec.reward_range, size=shape),
        terminated=(rng.random(shape) < 0.15) & spec.may_terminate,
        feature_table=features / np.linalg.norm(features, axis=2, keepdims=True),
        start_probabilities=np.eye(STATES)[0],
        allowed=allowed,
    )


def random_policy(process: FiniteProcess, stages: int, seed: int) -> FloatArray:
    """Probabilities of the available actions: [stages, S, A]."""
    drawn = np.random.default_rng(seed).random((stages, STATES, ACTIONS))
    weights = np.where(process.allowed, drawn, 0.0)
    weights /= weights.sum(axis=2, keepdims=True)
    return weights


def level_states(levels: Levels, level: int) -> States:
    """The states (s, level) for all s of a table: [S]."""
    start = levels.start(np.random.default_rng(0))
    states = np.zeros(STATES, start.dtype)
    states["state"], states["level"] = np.arange(STATES), level
    return states


def asked_values(levels: Levels, policy: FloatArray) -> FloatArray:
    """Values [H + 1, S] of M', from nothing but answers of a deterministic simulator."""
    horizon, rng = len(policy), np.random.default_rng(0)
    values = np.zeros((horizon + 1, STATES))
    for h in range(horizon, 0, -1):
        for action in range(ACTIONS):
            step = levels.step(level_states(levels, h), h, np.full(STATES, action), rng)
            over = step.terminated | (step.states["level"] == END)
            assert np.all(over | (step.states["level"] == h + 1))
            rest = np.where(over, 0.0, values[h][step.states["state"]])
            values[h - 1] += policy[h - 1, :, action] * (step.rewards + rest)
    return values


def by_name(conditions: tuple[Condition, ...]) -> dict[str, bool]:
    return {condition.name: condition.holds for condition in conditions}


def failing(conditions: tuple[Condition, ...]) -> set[str]:
    return {condition.name for condition in conditions if not condition.holds}


# Inaccurate


@pytest.mark.parametrize(
    "states",
    [
        np.arange(40),
        np.arange(40) / 7,
        np.arange(120, dtype=np.int8).reshape(40, 3),
        np.arange(240, dtype=np.float32).reshape(40, 2, 3),
        np.array([f"state-{i}" for i in range(40)]),
        np.array([(i, i / 3) for i in range(40)], dtype=[("a", np.int16), ("b", np.float64)]),
        np.unpackbits(np.arange(40, dtype=np.uint8)[:, None], axis=1).astype(np.bool_),
    ],
    ids=lambda states: str(states.dtype),
)
def test_bias_is_one_number_per_state_and_action(states: States) -> None:
    simulator = Inaccurate(TableSimulator(random_process(0)), 0.1, seed=3)
    actions = np.arange(40) % ACTIONS
    bias = simulator.bias(states, actions)
    order = np.random.default_rng(1).permutation(40)
    np.testing.assert_array_equal(simulator.bias(states[order], actions[order]), bias[order])
    np.testing.assert_array_equal(simulator.bias(states[7:8], actions[7:8]), bias[7:8])
    assert np.all(np.abs(bias) <= 0.1)
    assert len(np.unique(bias)) == 40
    assert not np.any(bias == simulator.bias(states, (actions + 1) % ACTIONS))


def test_bias_is_spread_evenly_and_depends_on_the_seed() -> None:
    table = TableSimulator(random_process(0))
    states, actions = np.arange(20_000), np.zeros(20_000, np.int64)
    first = Inaccurate(table, 1.0, seed=1).bias(states, actions)
    second = Inaccurate(table, 1.0, seed=2).bias(states, actions)
    # 5 standard errors: of the mean sqrt(1/3n) = .0041, of a correlation 1/sqrt(n) = .0071.
    assert abs(first.mean()) < 0.021
    assert abs(first.var() - 1 / 3) < 0.011
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.036
    assert abs(np.corrcoef(first[1:], first[:-1])[0, 1]) < 0.036


def test_negative_zero_is_zero() -> None:
    simulator = Inaccurate(TableSimulator(random_process(0)), 0.1)
    bias = simulator.bias(np.array([0.0, -0.0]), np.zeros(2, np.int64))
    assert bias[0] == bias[1]


def test_returned_rewards_are_biased_clipped_and_within_lambda() -> None:
    accuracy, draws = 0.3, 4000
    process = random_process(1, outcomes=3)
    exact, biased = TableSimulator(process), Inaccurate(TableSimulator(process), accuracy)
    states = np.tile(np.repeat(np.arange(STATES), ACTIONS), draws)
    actions = np.tile(np.arange(ACTIONS), STATES * draws)
    truth = exact.step(states, 1, actions, np.random.default_rng(5))
    seen = biased.step(states, 1, actions, np.random.default_rng(5))
    np.testing.assert_array_equal(seen.states, truth.states)
    shifted = truth.rewards + biased.bias(states, actions)
    np.testing.assert_array_equal(seen.rewards, np.clip(shifted, 0, 1))
    assert shifted.min() < 0
    assert shifted.max() > 1
    errors = seen.rewards.reshape(draws, STATES, ACTIONS).mean(axis=0) - process.mean_rewards()
    assert np.all(np.abs(errors) <= accuracy + 5 / np.sqrt(4 * draws))
    assert np.abs(errors).max() > 0.2


def test_inaccuracies_add_up_and_masks_pass() -> None:
    process = random_process(2, inaccuracy=0.05)
    simulator = Inaccurate(TableSimulator(process), 0.1)
    assert simulator.spec == replace(process.spec, inaccuracy=0.05 + 0.1)
    assert isinstance(simulator, SupportsAllowed)
    np.testing.assert_array_equal(simulator.allowed(np.arange(STATES), 1), process.allowed)
    with pytest.raises(SettingError, match=r"accuracy=-0\.1"):
        Inaccurate(simulator, -0.1)


def counter(promise: Spec) -> Simulator:
    """A process on objects: a dictionary that counts, up to the last of its stages."""
    return from_functions(
        promise,
        start=lambda rng: {"count": 0},
        step=lambda state, stage, action, rng: (
            stage / 4,
            {"count": state["count"] + action},
            False,
        ),
        features=lambda state, stage: [1 / (1 + state["count"]), 0.0],
    )


def test_object_states_need_a_bias_function() -> None:
    spec = Spec(2, 2, 3)
    rng, actions = np.random.default_rng(0), np.array([1])
    plain = Inaccurate(counter(spec), 0.1)
    with pytest.raises(SettingError, match="Pass bias="):
        plain.step(plain.start(rng), 1, actions, rng)

    def bias(states: States, actions: IntArray) -> FloatArray:
        return np.array([0.1 if state["count"] else -0.1 for state in states])

    simulator = Inaccurate(counter(spec), 0.1, bias=bias)
    step = simulator.step(simulator.start(rng), 1, actions, rng)
    assert step.rewards[0] == 0.25 - 0.1
    assert simulator.step(step.states, 2, actions, rng).rewards[0] == 0.5 + 0.1
    with pytest.raises(SettingError, match=r"within 0\.05"):
        Inaccurate(counter(spec), 0.05, bias=bias).step(step.states, 2, actions, rng)


def test_a_broken_reward_is_not_hidden_by_clipping() -> None:
    process = random_process(0)
    broken = TableSimulator(replace(process, rewards=process.rewards + 1))
    with pytest.raises(SimulatorError, match="reward_range"):
        Inaccurate(broken, 0.1).step(
            np.arange(STATES), 1, np.ones(STATES, np.int64), np.random.default_rng(0)
        )


def test_conditions_of_the_main_theorem() -> None:
    simulator = TableSimulator(random_process(0, bound=2.0))
    assert failing(Inaccurate(simulator, 1e-30).conditions(0.5)) == set()
    conditions = Inaccurate(simulator, 1e-3).conditions(0.5)
    assert failing(conditions) == {"inaccuracy"}
    assert [str(each.value) for each in conditions[:2]] == ["0.0", "1.0"]  # not "-0.0"
    assert failing(Inaccurate(simulator, 1e-3).conditions(HORIZON)) == {"delta, below the horizon"}
    wide = replace(simulator.process.spec, reward_range=(-1.0, 2.0), misspecification=0.1)
    other = TableSimulator(replace(simulator.process, spec=wide))
    assert failing(Inaccurate(other, 0.0).conditions(0.5)) == {
        "rewards below 0",
        "rewards",
        "misspecification",
    }
    with pytest.raises(SettingError, match="norm="):
        Inaccurate(TableSimulator(random_process(0)), 0.1).conditions(0.5)


# Levelled


@pytest.mark.parametrize("seed", SEEDS)
def test_levels_keep_the_values_of_every_policy(seed: int) -> None:
    process = random_process(seed)
    policy = random_policy(process, HORIZON, seed)
    expected = evaluate(process, policy).values
    assert np.all(expected[-2] > 0)  # the boundary reward of A22 is there to be missed
    np.testing.assert_allclose(
        asked_values(Levelled(TableSimulator(process)), policy), expected, atol=1e-12
    )


def test_levels_keep_the_law_of_trajectories() -> None:
    process = random_process(3, outcomes=3)
    inner = TableSimulator(process)
    outer = Levelled(inner)
    plain, levelled = Access(inner, seed=9), Access(outer, seed=9)
    for episode in range(20):
        here, there = plain.start(), levelled.start()
        for stage in range(1, HORIZON + 1):
            a = plain.measure(here, stage, 7, phase=Phase.TEST, key=(episode,))
            b = levelled.measure(there, stage, 7, phase=Phase.TEST, key=(episode,))
            np.testing.assert_array_equal(a.rows, b.rows)
            np.testing.assert_array_equal(a.measured, b.measured)
            assert levelled.reveal(there)["level"] == stage
            assert levelled.reveal(there)["state"] == plain.reveal(here)
            action = np.flatnonzero(a.measured[0])[:1]
            one = plain.advance(here, stage, action, phase=Phase.FORWARD, key=(episode,))
            two = levelled.advance(there, stage, action, phase=Phase.FORWARD, key=(episode,))
            assert one.rewards == two.rewards
            assert one.terminated == two.terminated
            here, there = one.states, two.states
            if one.terminated[0]:
                break


@pytest.mark.parametrize("seed", SEEDS)
def test_misspecification_moves_into_the_rewards(seed: int) -> None:
    """With r + z the linear function is a value, up to stage H (proof of thm:misspecification)."""
    process = random_process(seed, inaccuracy=0.01)
    rng = np.random.default_rng(seed)
    chosen = np.array([[rng.choice(np.flatnonzero(row)) for row in process.allowed]] * HORIZON)
    policy = np.eye(ACTIONS)[chosen]
    theta = rng.standard_normal(DIM)
    linear = np.zeros((HORIZON + 1, STATES))
    linear[:-1] = process.feature_table @ theta
    eta = float(np.abs(evaluate(process, policy).values - linear).max())
    spec = replace(process.spec, misspecification=eta)
    levelled = Levelled(TableSimulator(replace(process, spec=spec)))
    low, high = levelled.spec.reward_range
    for h in range(HORIZON):
        following = process.expect(linear[h + 1])
        means = process.mean_rewards()
        shift = linear[h] - (policy[h] * (means + following)).sum(axis=1)
        rewards = means + shift[:, None]
        assert np.abs(shift).max() <= levelled.spec.inaccuracy - 0.01 + 1e-12
        assert np.all((rewards >= low - 1e-12) & (rewards <= high + 1e-12))
        step = levelled.step(level_states(levelled, h + 1), h + 1, chosen[h], rng)
        rest = np.where(step.terminated, 0.0, linear[h + 1][step.states["state"]])
        np.testing.assert_allclose(linear[h], step.rewards + shift + rest, atol=1e-12)
    assert levelled.spec.misspecification == 0
    assert levelled.spec.inaccuracy == pytest.approx(0.01 + 2 * eta)


def test_the_end_is_absorbing_and_gives_nothing() -> None:
    levelled = Levelled(TableSimulator(random_process(0, may_terminate=False)))
    rng, actions = np.random.default_rng(0), np.ones(STATES, np.int64)
    last = levelled.step(level_states(levelled, HORIZON), HORIZON, actions, rng)
    assert np.all(last.rewards > 0)
    assert not np.any(last.terminated)  # after stage H there is nothing left to end
    assert np.all(last.states == np.zeros_like(last.states))
    again = levelled.step(last.states, 2, actions, rng)
    assert np.all(again.rewards == 0)
    assert np.all(again.terminated)
    assert np.all(again.states == last.states)
    assert np.all(levelled.features(last.states, HORIZON) == 0)
    assert np.all(levelled.allowed(last.states, HORIZON))


def test_off_stage_queries_go_by_the_level_for_what_follows() -> None:
    process = random_process(0, may_terminate=False)
    levelled = Levelled(TableSimulator(process))
    rng, actions = np.random.default_rng(0), np.ones(STATES, np.int64)
    early = levelled.step(level_states(levelled, HORIZON), 2, actions, rng)
    assert np.all(early.states["level"] == END)
    states = level_states(levelled, 2)
    assert np.all(levelled.step(states, 1, actions, rng).states["level"] == 3)
    np.testing.assert_array_equal(levelled.features(states, 3), process.features_at(3))


def test_levels_carry_objects_masks_and_array_states() -> None:
    spec = Spec(2, 2, 3, may_terminate=False)
    access = Access(Levelled(counter(spec)), seed=0)
    here = access.start()
    for stage in range(1, 4):
        assert access.features(here)[0, 0] == 1 / stage
        step = access.advance(here, stage, np.array([1]), phase=Phase.ACT, key=())
        assert step.rewards[0] == stage / 4
        here = step.states
    with pytest.raises(AccessError, match="stage 4"):
        access.advance(here, 4, np.array([1]), phase=Phase.ACT, key=())
    nested = Levelled(Levelled(TableSimulator(random_process(0))))
    states = nested.start(np.random.default_rng(0))
    assert states["state"]["level"] == states["level"] == 1
    assert nested.allowed(states, 1).tolist() == random_process(0).allowed[:1].tolist()


@dataclass(frozen=True)
class Offer:
    """A state of a user's own type."""

    worth: float


BY_WORTH = Codec(encode=lambda offer: offer.worth, decode=lambda row: Offer(float(row)))
OFFERS = (0.3, 0.8, 0.2, 0.9)


def seller(codec: Codec | None, horizon: int | None = 4) -> Simulator:
    """Action 1 takes the offer: the best one is the last. Discounted, any state is alike."""

    def step(offer: Offer, stage: int, action: int, rng: object) -> tuple[float, Offer, bool]:
        return offer.worth * action, Offer(OFFERS[stage % 4]), action == 1

    def features(offer: Offer, stage: int) -> list[float]:
        return [max(offer.worth, *OFFERS[stage:], 0.0) / 2, 0.5]

    discount = 1.0 if horizon else 0.5
    spec = Spec(2, 2, horizon, discount=discount, bound=3.0, deterministic=True)
    return from_functions(spec, lambda rng: Offer(0.3), step, features, codec=codec)


def unbiased(simulator: Simulator) -> Inaccurate:
    return Inaccurate(simulator, 0.0, bias=lambda states, actions: np.zeros(len(states)))


class TestStatesOfOnesOwn:
    """A simulator around another one takes states as the inner one's user writes them."""

    @pytest.mark.parametrize("codec", [None, BY_WORTH], ids=["objects", "codec"])
    @pytest.mark.parametrize("wrap", [unbiased, CountingSimulator, RecordingSimulator])
    def test_as_they_are(self, wrap: Callable[[Simulator], Simulator], codec: Codec | None) -> None:
        made = plan(wrap(seller(codec)), delta=0.05, start=Offer(0.3))
        assert self.choices(made, lambda offer, stage: offer) == [0, 0, 0, 1]

    @pytest.mark.parametrize("codec", [None, BY_WORTH], ids=["objects", "codec"])
    def test_with_their_level(self, codec: Codec | None) -> None:
        made = plan(Levelled(seller(codec)), delta=0.05, start=(Offer(0.3), 1))
        assert self.choices(made, lambda offer, stage: (offer, stage)) == [0, 0, 0, 1]
        wrong: tuple[Any, ...] = (Offer(0.3), (Offer(0.3),), (Offer(0.3), 1.5), (Offer(0.3), 1, 1))
        for state in wrong:
            with pytest.raises(AccessError, match=r"a pair \(state, level\)"):
                made.action(state, 1)

    @pytest.mark.parametrize("codec", [None, BY_WORTH], ids=["objects", "codec"])
    def test_of_a_reduction_of_a_reduction(self, codec: Codec | None) -> None:
        cut = unbiased(Truncated(seller(codec, None), 3))
        assert cut.pack([(Offer(0.3), 1)]) == cut.start(np.random.default_rng(0))
        nested = Levelled(Levelled(seller(codec)))
        assert isinstance(nested, SupportsPacking)
        packed = nested.pack([((Offer(0.5), 1), 2)])
        assert packed.dtype == nested.start(np.random.default_rng(0)).dtype
        np.testing.assert_array_equal(
            nested.features(packed, 1), seller(None).features(objects(Offer(0.5)), 1)
        )

    @pytest.mark.parametrize("wrap", [unbiased, CountingSimulator, Levelled])
    def test_a_table_has_none(self, wrap: Callable[[Simulator], Simulator]) -> None:
        assert not isinstance(wrap(TableSimulator(random_process(0))), SupportsPacking)

    @staticmethod
    def choices(made: Plan, written: Callable[[Offer, int], object]) -> list[int]:
        return [made.action(written(Offer(OFFERS[h - 1]), h), h) for h in range(1, 5)]


def objects(*states: object) -> States:
    """States in an array of objects."""
    array = np.empty(len(states), object)
    array[:] = states
    return array


def test_levels_do_not_hide_a_change_of_dtype_or_a_long_feature() -> None:
    def build(follow: object, length: float) -> Levelled:
        return Levelled(
            from_functions(
                Spec(1, 2, 3),
                start=lambda rng: 0,
                step=lambda state, stage, action, rng: (0.0, follow, False),
                features=lambda state, stage: [length, 0.0],
            )
        )

    rng, action = np.random.default_rng(0), np.zeros(1, np.int64)
    long = build(1, 1.5)
    with pytest.raises(SimulatorError, match="norm at most 1"):
        long.features(long.start(rng), 1)

    class Drifting(TableSimulator):
        def step(
            self, states: States, stage: int, actions: IntArray, rng: np.random.Generator
        ) -> Step:
            step = super().step(states, stage, actions, rng)
            return replace(step, states=step.states + 0.5)

    drifting = Levelled(Drifting(random_process(0)))
    with pytest.raises(SimulatorError, match="dtype"):
        drifting.step(drifting.start(rng), 1, action, rng)


def test_conditions_of_the_misspecification_theorem() -> None:
    fits = random_process(0, bound=2.0, misspecification=1e-30, inaccuracy=1e-30)
    assert failing(Levelled(TableSimulator(fits)).conditions(0.5)) == set()
    loose = random_process(0, misspecification=1e-3, inaccuracy=1e-3)
    conditions = Levelled(TableSimulator(loose)).conditions(0.5, norm=2.0)
    assert failing(conditions) == {"misspecification", "inaccuracy"}
    fading = random_process(0, discount=0.9, bound=2.0)
    assert failing(Levelled(TableSimulator(fading)).conditions(0.5)) == {"discounting, 1 - gamma"}
    with pytest.raises(SettingError, match="Truncated"):
        Levelled(TableSimulator(random_process(0, horizon=None, discount=0.9)))


# Truncated


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("reward_range", [(0.0, 1.0), (-2.0, 0.5), (0.5, 1.5)])
def test_truncation_is_close_to_the_discounted_values(
    seed: int, reward_range: tuple[float, float]
) -> None:
    """|v'_h((s, h)) - gamma^(h-1) v(s)| <= gamma^H/(1-gamma) (proof of thm:discounted)."""
    gamma, stages = 0.8, 7
    process = random_process(seed, horizon=None, discount=gamma, reward_range=reward_range)
    policy = random_policy(process, 1, seed)
    values = evaluate(process, policy).values[0]
    truncated = Truncated(TableSimulator(process), stages)
    cut = asked_values(truncated, np.repeat(policy, stages, axis=0))
    largest = max(map(abs, reward_range))
    assert float(truncated.truncation) == pytest.approx(gamma**stages / (1 - gamma) * largest)
    for h in range(1, stages + 1):
        gap = np.abs(cut[h - 1] - gamma ** (h - 1) * values)
        assert np.all(gap <= float(truncated.truncation) + 1e-12)


def test_truncation_bound_is_attained_thanks_to_the_boundary_reward() -> None:
    """With a reward of 1 for ever; a zero reward from level H, as printed, would exceed it."""
    gamma, stages = 0.8, 7
    process = random_process(0, horizon=None, discount=gamma, may_terminate=False)
    process = replace(process, rewards=np.ones_like(process.rewards))
    policy = random_policy(process, stages, 0)
    truncated = Truncated(TableSimulator(process), stages)
    gap = 1 / (1 - gamma) - asked_values(truncated, policy)[0]
    np.testing.assert_allclose(gap, float(truncated.truncation), rtol=1e-12)


def test_truncated_answers_are_scaled_draws_of_stage_one() -> None:
    gamma = 0.7
    process = random_process(4, outcomes=3, horizon=None, discount=gamma)
    inner, truncated = TableSimulator(process), Truncated(TableSimulator(process), 5)
    actions = np.ones(STATES, np.int64)
    for level in range(1, 6):
        states = level_states(truncated, level)
        np.testing.assert_allclose(
            truncated.features(states, level), gamma ** (level - 1) * process.features_at(1)
        )
        cut = truncated.step(states, level, actions, np.random.default_rng(level))
        full = inner.step(np.arange(STATES), 1, actions, np.random.default_rng(level))
        np.testing.assert_allclose(cut.rewards, gamma ** (level - 1) * full.rewards)
        if level < 5:
            np.testing.assert_array_equal(cut.states["state"], full.states)
            np.testing.assert_array_equal(cut.terminated, full.terminated)


@pytest.mark.parametrize("reward_range", [(0.0, 1.0), (-2.0, -1.0), (0.5, 1.5)])
def test_truncated_spec_and_access(reward_range: tuple[float, float]) -> None:
    process = random_process(
        0, horizon=None, discount=0.5, bound=3.0, misspecification=0.1, reward_range=reward_range
    )
    truncated = Truncated(TableSimulator(process), 6)
    spec = truncated.spec
    assert (spec.horizon, spec.discount, spec.bound) == (6, 1.0, 3.0)
    assert spec.misspecification == pytest.approx(0.1 + 0.5**6 / 0.5 * max(map(abs, reward_range)))
    access = Access(truncated, seed=0)  # checks every reward against the range
    here, stage = access.start(), 0
    for stage in range(1, 7):
        access.measure(here, stage, 2, phase=Phase.TEST, key=())
        action = np.flatnonzero(access.allowed(here)[0])[:1]
        step = access.advance(here, stage, action, phase=Phase.FORWARD, key=())
        here = step.states
        if step.terminated[0]:
            break
    with pytest.raises(AccessError):
        access.measure(here, stage + 1, 1, phase=Phase.TEST, key=())
    if reward_range[0] >= 0:
        assert spec.reward_range == (0.5**5 * reward_range[0], reward_range[1])


def test_horizons_of_the_discounted_theorem() -> None:
    """The figures of A12 for gamma = .9, d = A = 2, B = 1, delta = .5."""
    spec = Spec(2, 2, None, discount=0.9, bound=1.0)
    assert truncation_horizon(spec, 0.5) == 374
    assert truncation_horizon(spec, 0.5, "direct") == 33
    printed = truncation_horizon(spec, 0.5, "printed")
    assert abs(printed - 3738) <= 1  # ten times as long: the spurious 1/(1-gamma)
    for wrong in (Spec(2, 2, 5, bound=1.0), Spec(2, 2, None, bound=1.0)):
        with pytest.raises(SettingError, match="only a discounted process"):
            truncation_horizon(wrong, 0.5)
    with pytest.raises(SettingError, match="only a discounted process"):
        Truncated(TableSimulator(random_process(0)), 5)


def test_conditions_of_the_discounted_theorem() -> None:
    process = random_process(0, horizon=None, discount=0.9, bound=1.0)
    simulator = TableSimulator(process)
    horizon = truncation_horizon(process.spec, 0.5)
    assert failing(Truncated(simulator, horizon).conditions(0.5)) == set()
    assert failing(Truncated(simulator, horizon - 1).conditions(0.5)) == {"truncation"}
    bent = replace(process.spec, misspecification=1e-3, inaccuracy=1e-3)
    other = Truncated(TableSimulator(replace(process, spec=bent)), horizon)
    assert failing(other.conditions(0.5)) == {"misspecification", "inaccuracy"}
    assert by_name(Truncated(simulator, 2).conditions(3.0)) == {
        "rewards below 0": True,
        "rewards": True,
        "delta, below the horizon": False,
    }


def test_conditions_depend_on_the_errata() -> None:
    spec = Spec(ACTIONS, DIM, HORIZON, bound=2.0)
    levelled = Levelled(TableSimulator(replace(random_process(0), spec=spec)))
    limits = [
        levelled.conditions(0.5, errata=errata)[-1].limit
        for errata in (Errata(), Errata(threshold=True))
    ]
    assert limits[0] < limits[1]  # A7 allows more
