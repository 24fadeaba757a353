"""The registry, the settings, and what every family of problems must keep."""

import inspect
from typing import Literal

import numpy as np
import pytest

from tensorplan import problems
from tensorplan.access import Access
from tensorplan.errors import SettingError
from tensorplan.problem import Simulator, allowed_actions
from tensorplan.problems.settings import settings_of
from tensorplan.records import FloatArray, Phase
from tensorplan.testing import check_simulator

REQUIRED = {
    "aggregated",
    "asset-selling",
    "bermudan-put",
    "combination-lock",
    "counterexample",
    "deep-sea",
    "frozen-lake",
    "gambler",
    "hidden-linear",
    "lower-bound",
    "random-tabular",
    "river-swim",
}
VARIANTS: list[tuple[str, dict[str, object]]] = [
    *[(name, {}) for name in problems.names()],
    ("aggregated", {"stochastic": True, "actions": 3}),
    ("asset-selling", {"at": ".6/.8", "offers": 3}),
    ("asset-selling", {"levels": 16, "thresholds": 2, "offers": 4}),
    ("bermudan-put", {"features": "payoff", "dates": 4, "spot": 44.0}),
    ("bermudan-put", {"features": "payoff-and-time", "volatility": 0.4, "dates": 3}),
    ("combination-lock", {"actions": 5, "length": 7}),
    ("deep-sea", {"features": "one-hot", "size": 6, "seed": 3}),
    ("frozen-lake", {"horizon": 6, "map": "SFF/HFG"}),
    ("frozen-lake", {"slippery": False, "ends": "learned"}),
    ("gambler", {"stakes": "any", "horizon": 5, "goal": 7}),
    ("gambler", {"features": "unit-bets", "win": 0.6}),
    ("gambler", {"stakes": "unit"}),
    ("hidden-linear", {"successors": 3, "weights": "unequal", "dim": 2, "actions": 3}),
    ("hidden-linear", {"successors": 2, "rewards": "bernoulli", "gap": 1.0, "horizon": 7}),
    ("random-tabular", {"outcomes": 4, "realizable": "suboptimal"}),
    ("random-tabular", {"realizable": "none", "states": 7}),
    ("river-swim", {"horizon": 8, "states": 3}),
]
every_variant = pytest.mark.parametrize(
    ("name", "settings"), VARIANTS, ids=[f"{name}-{settings}" for name, settings in VARIANTS]
)


def rollouts(
    simulator: Simulator, seed: int, count: int = 300
) -> list[tuple[FloatArray, FloatArray]]:
    """Features and rewards, stage by stage, of ``count`` uniformly random episodes."""
    access, rng = Access(simulator, seed=seed), np.random.default_rng(seed)
    handle = access.take(access.start(), [0] * count)
    seen: list[tuple[FloatArray, FloatArray]] = []
    horizon = simulator.spec.horizon
    for time in range(horizon or 10):
        stage = 1 if horizon is None else time + 1
        chances = rng.random((handle.size, simulator.spec.actions))
        actions = np.where(access.allowed(handle), chances, -1.0).argmax(axis=1)
        access.measure(handle, stage, 2, phase=Phase.CHECK, key=(time,))
        moved = access.advance(handle, stage, actions, phase=Phase.FORWARD, key=(time,))
        seen.append((access.features(handle), moved.rewards))
        handle = access.take(moved.states, np.flatnonzero(~moved.terminated))
        if handle.size == 0:
            break
    return seen


@every_variant
def test_contract_holds_on_random_episodes(name: str, settings: dict[str, object]):
    # Access checks shapes, norms, reward ranges and promises of every answer.
    simulator = problems.make(name, **settings)
    seen = rollouts(simulator, seed=1)
    assert max(np.linalg.norm(features, axis=1).max() for features, _ in seen) <= 1 + 1e-12
    if simulator.spec.horizon is not None:
        assert len(seen) == simulator.spec.horizon or simulator.spec.may_terminate


@every_variant
def test_simulators_conform(name: str, settings: dict[str, object]):
    check_simulator(problems.make(name, **settings)).raise_if_broken()


@every_variant
def test_same_seed_same_process(name: str, settings: dict[str, object]):
    first = rollouts(problems.make(name, **settings), seed=2, count=20)
    again = rollouts(problems.make(name, **settings), seed=2, count=20)
    for (features, rewards), (same_features, same_rewards) in zip(first, again, strict=True):
        np.testing.assert_array_equal(features, same_features)
        np.testing.assert_array_equal(rewards, same_rewards)


@pytest.mark.parametrize("name", [n for n in problems.names() if "seed" in problems.defaults(n)])
def test_other_seed_other_process(name: str):
    seen = [rollouts(problems.make(name, seed=seed), seed=0, count=50) for seed in (3, 4)]
    same = [
        np.array_equal(first[0], second[0]) and np.array_equal(first[1], second[1])
        for first, second in zip(*seen, strict=True)
    ]
    assert not all(same)


@every_variant
def test_promised_determinism(name: str, settings: dict[str, object]):
    simulator = problems.make(name, **settings)
    rng = np.random.default_rng(0)
    start = simulator.start(rng)
    varies: list[bool] = []
    for action in np.flatnonzero(allowed_actions(simulator, start, 1)[0]):
        step = simulator.step(np.repeat(start, 200, axis=0), 1, np.full(200, action), rng)
        parts = (step.states, step.rewards)
        varies.append(any(len(np.unique(part, axis=0)) > 1 for part in parts))
    assert any(varies) != simulator.spec.deterministic


@pytest.mark.parametrize("name", problems.names())
def test_family_explains_itself(name: str):
    family = problems.family(name)
    assert family.name == name
    assert family.summary.endswith(".")
    assert min(len(family.features), len(family.realizable)) > 20
    assert len(inspect.getdoc(family.build) or "") > 60
    assert settings_of(family.build).keys() == problems.defaults(name).keys()


def test_names_are_sorted_and_complete():
    assert list(problems.names()) == sorted(problems.names())
    assert set(problems.names()) >= REQUIRED


@pytest.mark.parametrize("name", problems.names())
def test_reference_is_within_the_range_of_values(name: str):
    reference = problems.reference(name)
    assert reference is not None
    spec = problems.make(name).spec
    if spec.horizon is not None:
        low, high = spec.reward_range
        assert spec.horizon * min(low, 0) <= reference <= spec.horizon * high


# Settings.


def test_unknown_problem_offers_the_nearest():
    with pytest.raises(SettingError, match=r"Did you mean 'deep-sea'") as caught:
        problems.make("deepsea")
    assert "deepsea" in caught.value.value
    with pytest.raises(SettingError, match=r"Choose among aggregated, "):
        problems.make("xyzzy")


def test_unknown_setting_offers_the_nearest():
    with pytest.raises(SettingError, match=r"Did you mean 'size'"):
        problems.make("deep-sea", sise=3)
    with pytest.raises(SettingError, match=r"it has no settings"):
        problems.reference("counterexample", size=3)
    with pytest.raises(SettingError, match=r"Did you mean 'horizon'"):
        problems.parse("hidden-linear", {"horizons": "3"})


def test_texts_become_values():
    assert problems.parse("deep-sea", {"size": " 20", "seed": "none"}) == {"size": 20, "seed": None}
    assert problems.parse("deep-sea", {"features": "one-hot", "seed": "7"})["seed"] == 7
    assert problems.parse("hidden-linear", {"gap": "1e-1"}) == {"gap": 0.1}
    for text, value in (("true", True), ("No", False), ("1", True), ("0", False)):
        assert problems.parse("aggregated", {"stochastic": text}) == {"stochastic": value}


@pytest.mark.parametrize(
    ("name", "key", "text", "rule"),
    [
        ("deep-sea", "size", "2.5", "an integer"),
        ("deep-sea", "seed", "x", "an integer, or none"),
        ("deep-sea", "size", "none", "an integer"),
        ("deep-sea", "features", "compat", "'compact' or 'one-hot'"),
        ("hidden-linear", "gap", "wide", "a finite number"),
        ("hidden-linear", "gap", "nan", "a finite number"),
        ("aggregated", "stochastic", "maybe", "true or false"),
    ],
)
def test_unreadable_texts_are_refused(name: str, key: str, text: str, rule: str):
    with pytest.raises(SettingError) as caught:
        problems.parse(name, {key: text})
    assert caught.value.rule == f"{key} must be {rule}"
    assert text in caught.value.value
    assert repr(problems.defaults(name)[key]) in caught.value.way_out


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("deep-sea", {"size": "20"}),
        ("deep-sea", {"size": 2.0}),
        ("deep-sea", {"size": True}),
        ("deep-sea", {"size": None}),
        ("deep-sea", {"features": "tiles"}),
        ("aggregated", {"stochastic": 1}),
        ("hidden-linear", {"gap": float("inf")}),
    ],
)
def test_values_of_another_type_are_refused(name: str, settings: dict[str, object]):
    with pytest.raises(SettingError):
        problems.make(name, **settings)


def test_numpy_numbers_and_whole_gaps_are_accepted():
    assert problems.make("deep-sea", size=np.int64(4)).spec.horizon == 4
    assert problems.make("hidden-linear", gap=1).spec.dim == 4


def test_families_without_readable_settings_are_mistakes():
    def listed(*, sizes: list[int] = [3]) -> Simulator:  # noqa: B006 - only its signature is read
        raise NotImplementedError

    def bare(*, size: int) -> Simulator:
        raise NotImplementedError

    def chosen(*, sides: Literal[2, 4] | None = None) -> Simulator:
        raise NotImplementedError

    with pytest.raises(TypeError, match="unreadable annotation"):
        settings_of(listed)
    with pytest.raises(TypeError, match="no default"):
        settings_of(bare)
    sides = settings_of(chosen)["sides"]
    assert sides.read("4") == 4
    assert sides.check(None) is None
    with pytest.raises(SettingError, match="2 or 4, or none"):
        sides.read("3")


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("aggregated", {"members": 1}),
        ("aggregated", {"actions": 1}),
        ("aggregated", {"groups": 0}),
        ("asset-selling", {"offers": 0}),
        ("asset-selling", {"thresholds": 0}),
        ("asset-selling", {"at": "high"}),
        ("asset-selling", {"levels": 0}),
        ("bermudan-put", {"dates": 0}),
        ("bermudan-put", {"volatility": 0.0}),
        ("bermudan-put", {"rate": -0.01}),
        ("combination-lock", {"length": 0}),
        ("combination-lock", {"seed": -1}),
        ("deep-sea", {"size": 0}),
        ("deep-sea", {"size": 61, "features": "one-hot"}),
        ("deep-sea", {"seed": -1}),
        ("frozen-lake", {"map": "SFG/FF"}),
        ("frozen-lake", {"map": "SFX"}),
        ("frozen-lake", {"map": "SFS/FFG"}),
        ("frozen-lake", {"map": "SFF"}),
        ("frozen-lake", {"map": "4x5"}),
        ("frozen-lake", {"horizon": 0}),
        ("frozen-lake", {"horizon": 5, "discount": 0.5}),
        ("frozen-lake", {"discount": 1.0}),
        ("gambler", {"goal": 1}),
        ("gambler", {"win": 1.0}),
        ("gambler", {"start": 20}),
        ("gambler", {"features": "unit-bets", "horizon": 5}),
        ("hidden-linear", {"dim": 1}),
        ("hidden-linear", {"gap": 0.0}),
        ("hidden-linear", {"gap": 1.5}),
        ("hidden-linear", {"successors": 0}),
        ("random-tabular", {"dim": 1}),
        ("random-tabular", {"states": 1, "realizable": "none"}),
        ("random-tabular", {"actions": 1, "realizable": "suboptimal"}),
        ("random-tabular", {"outcomes": 0}),
        ("river-swim", {"states": 1}),
        ("river-swim", {"discount": 0.0}),
    ],
)
def test_settings_out_of_range_are_refused(name: str, settings: dict[str, object]):
    with pytest.raises(SettingError) as caught:
        problems.make(name, **settings)
    texts = [
        text for key, value in settings.items() for text in (f"{key}={value}", f"{key}={value!r}")
    ]
    assert any(text in caught.value.value for text in texts)
    assert caught.value.way_out
