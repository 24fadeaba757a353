"""Proofs of the search: accepted by the checker, about the right set, and hard to falsify."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import proof_reference as reference
import pytest
from corruptions import MOVES, Corruption, canonical, corrupted, get, numbers, pick, put
from oracle_reference import KINDS, best_in_slabs, random_instance, random_instance_with_cuts
from oracle_sets import (
    SURE,
    believed,
    growing,
    random_story,
    random_tabular,
    state,
    unit,
    verdict_of,
    with_features,
)
from proof_reference import Proof, sealed

from families import chain, generic, grid, layered
from tensorplan.checker import verify_text
from tensorplan.errors import SettingError
from tensorplan.hypotheses import Cuts, Hypotheses, rounding_slack
from tensorplan.oracle.base import Optimum, OracleStatus
from tensorplan.oracle.slabs import SlabOracle
from tensorplan.records import FloatArray

OPTIMAL, EMPTY, LIMIT = OracleStatus.OPTIMAL, OracleStatus.EMPTY, OracleStatus.LIMIT
E1 = np.array([1.0, 0.0])
AGREEMENT = 1e-6  # relative: the gap that the search accepts

# --- answers and their proofs --------------------------------------------------------------------


def check_proof(
    oracle: SlabOracle,
    answer: Optimum,
    objective: FloatArray,
    told: Sequence[Hypotheses],
    note: object,
) -> int:
    """The proof is one, of the answer, and about the set as it was told; how many claims it has."""
    proof: Any = oracle.proof()
    verdict = verify_text(json.dumps(proof))
    assert verdict.accepted, (note, verdict.reason)
    assert verdict.kind == ("empty" if answer.status is EMPTY else "upper"), note
    assert verdict.value == (None if answer.status is EMPTY else answer.upper), note
    assert proof["objective"] == objective.tolist(), note
    assert proof["norm"] == told[-1].norm, note
    assert proof["bellman"] == told[-1].bellman, note
    assert proof["cuts"] == listed_cuts(told[-1]), note
    assert proof["states"] == listed_states(told), note
    if proof["point"] is not None:
        assert proof["point"]["theta"] == answer.theta.tolist(), note
        assert proof["point"]["value"] == answer.value, note
    elif answer.status is OPTIMAL:
        assert any(state.refines is not None for state in told[-1].states), note
    if answer.status is EMPTY:
        assert oracle.norm_limit() >= told[-1].norm, note
    return verdict.claims


def listed_cuts(beliefs: Hypotheses) -> list[Proof]:
    cuts = beliefs.cuts
    return [
        {
            "normal": normal.tolist(),
            "low": float(low) if np.isfinite(low) else None,
            "high": float(high) if np.isfinite(high) else None,
        }
        for normal, low, high in zip(cuts.normals, cuts.low, cuts.high, strict=True)
    ]


def listed_states(told: Sequence[Hypotheses]) -> list[Proof]:
    """The states with the slabs of every epoch that the oracle was told of."""
    beliefs, listed = told[-1], list[Proof]()
    for index in range(len(beliefs.states)):
        seen = [each.states[index] for each in told if index < len(each.states)]
        states = list({id(state): state for state in seen}.values())
        slabs = [
            {"action": action, "row": row.tolist(), "radius": max(float(radius), least)}
            for state in states
            for least in [rounding_slack(beliefs.norm)]
            for action, (row, radius) in enumerate(
                zip(state.rows, beliefs.radii(state), strict=True)
            )
        ]
        listed.append({"stage": states[0].stage, "actions": len(states[0].rows), "slabs": slabs})
    return listed


def follow(
    objective: FloatArray, sets: Sequence[Hypotheses], seed: int, note: object
) -> tuple[set[OracleStatus], int]:
    """An oracle is told of a set as it grows; ranges are tightened now and then.

    Returns:
        (how its answers ended, claims in its last proof)
    """
    rng = np.random.default_rng([seed, 40])
    oracle = SlabOracle(int(rng.choice([1, 3, 10_000], p=[0.2, 0.2, 0.6])), kernels="plain")
    seen: set[OracleStatus] = set()
    last, claims = math.inf, 0
    for stage, beliefs in enumerate(sets):
        if rng.random() < 0.5:
            oracle.tighten(beliefs, int(rng.integers(1, 3)))
        answer = oracle.maximise(objective, beliefs)
        place = (note, seed, stage)
        claims = check_proof(oracle, answer, objective, sets[: stage + 1], place)
        assert answer.upper <= last + 1e-9 * unit(objective, beliefs), place
        last = answer.upper
        seen.add(answer.status)
        if rng.random() < 0.3:  # claims that are found afterwards go into the proof as well
            oracle.tighten(beliefs)
            assert verdict_of(oracle).accepted, place
    return seen, claims


@pytest.mark.parametrize("kind", range(len(KINDS)), ids=KINDS)
def test_sets_of_every_kind(kind: int) -> None:
    claims = 0
    for seed in range(kind, 12 * len(KINDS), len(KINDS)):
        instance = random_instance_with_cuts(seed)
        sets = with_features([*growing(instance.sets[0])[:-1], *instance.sets], seed)
        claims += follow(instance.objective, sets, seed, KINDS[kind])[1]
    assert claims > 0


def test_rows_of_all_sizes_and_exact_data() -> None:
    seen: set[OracleStatus] = set()
    claims = 0
    for seed in range(200):
        objective, beliefs = random_instance(seed)
        found, count = follow(objective, with_features(growing(beliefs), seed), seed, "sizes")
        seen, claims = seen | found, claims + count
    assert seen == set(OracleStatus)
    assert claims > 200


def test_refinements_that_lie_anywhere() -> None:
    for seed in range(150):
        story = random_story(seed)
        follow(story.objectives[0], with_features(story.sets, seed), seed, "story")


def test_tabular_sets() -> None:
    claims = 0
    for seed in range(150):
        beliefs = random_tabular(seed).beliefs
        rng = np.random.default_rng(seed)
        claims += follow(rng.normal(size=beliefs.dim), growing(beliefs), seed, "tabular")[1]
    assert claims > 300


def test_proofs_of_longer_searches() -> None:
    """Hundreds of leaves, with a limit that cuts the search short again and again."""
    for instance, cuts in (
        (layered(5, 3, 1), 0),
        (layered(5, 3, 2), 30),
        (generic(6, 3, 3), 0),
        (chain(8, 3, 4), 8),
        (grid(3), 0),
    ):
        states = min(15, instance.size)
        for radius in (0.0, 1e-3):
            beliefs = instance.one_shot(states, cuts, radius=radius)
            oracle = SlabOracle(40, kernels="plain")
            answers: list[Optimum] = []
            while not answers or answers[-1].status is LIMIT:
                answers.append(oracle.maximise(instance.objective, beliefs))
                check_proof(oracle, answers[-1], instance.objective, [beliefs], instance.name)
            whole = SlabOracle(kernels="plain").maximise(instance.objective, beliefs)
            size = unit(instance.objective, beliefs)
            assert all(each.upper >= whole.value for each in answers), instance.name
            assert abs(answers[-1].upper - whole.upper) <= AGREEMENT * size, instance.name


def test_a_set_that_is_another_one_altogether_has_a_proof_of_its_own() -> None:
    oracle = SlabOracle(kernels="plain")
    for seed in range(60):
        objective, beliefs = random_instance(seed)
        answer = oracle.maximise(objective, beliefs)
        check_proof(oracle, answer, objective, [beliefs], seed)


def test_an_answer_that_the_set_has_outgrown_is_not_proved() -> None:
    """Once twins have come apart, the splits of the earlier answer lack a child."""
    twins = state([[-0.5, 1.0, 0.0], [-0.5, 1.0, 0.0], [0.5, 1.0, 0.0]], [0.1, 0.1, 0.1])
    other = state([[-0.1, 0.0, 1.0], [0.3, 0.0, 1.0]], [0.01, 0.01])
    apart = state([[-0.45, 1.0, 0.0], [-0.55, 1.0, 0.0], [0.5, 1.0, 0.0]], [0.01, 0.02, 0.1])
    oracle, first = SlabOracle(kernels="plain"), believed(twins, other)
    oracle.maximise(np.array([1.0, 0.5]), first)
    second = first.refined(0, apart)
    oracle.tighten(second)
    with pytest.raises(SettingError, match="nothing has been asked of this set yet"):
        oracle.proof()
    answer = oracle.maximise(E1, second)
    check_proof(oracle, answer, E1, [first, second], "apart")


# --- corrupted proofs ----------------------------------------------------------------------------

CORRUPTIONS = 63
"""Of each proof."""


def ulp(proof: Proof, rng: np.random.Generator) -> None:
    """A number moves to the next double."""
    places = [place for place in numbers(proof) if type(get(proof, place)) is float]
    place = pick(rng, places)
    put(proof, place, float(np.nextafter(get(proof, place), rng.choice([-np.inf, np.inf]))))


def swap_multipliers(proof: Proof, rng: np.random.Generator) -> None:
    """Two multipliers of a list change places."""
    spots = [
        place
        for place in numbers(proof)
        if place[0] in ("tree", "blocks") and type(get(proof, place)) is float
    ]
    lists = sorted({place[:-1] for place in spots}, key=str)
    if not lists:
        return
    chosen = pick(rng, lists)
    own = [place for place in spots if place[:-1] == chosen]
    first, second = pick(rng, own), pick(rng, own)
    one, two = get(proof, first), get(proof, second)
    put(proof, first, two)
    put(proof, second, one)


def drop_child(proof: Proof, rng: np.random.Generator) -> None:
    """A split loses a child, or its first child takes all places."""
    lists = _lists(proof["tree"])
    if not lists:
        return
    children = lists[int(rng.integers(len(lists)))]
    if rng.integers(2):
        del children[int(rng.integers(len(children)))]
    else:
        children[:] = [deepcopy(children[0]) for _ in children]


def _lists(node: Proof) -> list[list[Proof]]:
    """The children of all splits."""
    own: list[Proof] = node.get("children", [])
    return [own, *(each for child in own for each in _lists(child))] if own else []


def remove_slab(proof: Proof, rng: np.random.Generator) -> None:
    if proof["states"]:
        slabs = proof["states"][int(rng.integers(len(proof["states"])))]["slabs"]
        del slabs[int(rng.integers(len(slabs)))]


def claim_less(proof: Proof, rng: np.random.Generator) -> None:
    """The claim goes below what the file's own point predicts."""
    if proof["point"] is not None:
        room = 10.0 ** rng.uniform(-4, 0)
        proof["claim"]["value"] = min(proof["claim"]["value"], proof["point"]["value"]) - room


OWN: list[Corruption] = [ulp, swap_multipliers, drop_child, remove_slab, claim_less]


@cache
def real_proofs() -> dict[str, Proof]:
    """Proofs that the search has written, small enough for the second opinion."""
    found: dict[str, Proof] = {}

    def ask(name: str, objective: FloatArray, *sets: Hypotheses, limit: int = 10_000) -> None:
        oracle = SlabOracle(limit, kernels="plain")
        for beliefs in sets:
            if name.startswith("hull"):
                oracle.tighten(beliefs)
            oracle.maximise(objective, beliefs)
        found[name] = json.loads(json.dumps(oracle.proof()))
        assert verify_text(json.dumps(found[name])).accepted

    mixed = layered(3, 3, 1)
    ask("layered", mixed.objective, mixed.one_shot(5, radius=1e-3))
    ask("exact", mixed.objective, mixed.one_shot(5))
    ask("cut", mixed.objective, mixed.one_shot(4, 6, radius=1e-2))
    ask("limit", mixed.objective, mixed.one_shot(5, radius=1e-3), limit=2)
    ask("hull", mixed.objective, mixed.one_shot(4, 4, radius=1e-2))
    steps = chain(4, 3, 1)
    ask("stages", steps.objective, *growing(steps.one_shot(4, 4, radius=1e-2)))
    square = grid(2, ceiling=0.0)
    ask("grid", square.objective, square.one_shot(3, 3, radius=1e-2))
    for seed in range(3):
        tabular = random_tabular(4 * seed + 1, far=True)
        ask(f"discounted {seed}", np.ones(tabular.beliefs.dim), *growing(tabular.beliefs))
    beyond = Cuts(mixed.objective[None], np.array([mixed.value + 0.1]), np.array([np.inf]))
    ask("empty", mixed.objective, mixed.one_shot(5, radius=1e-3).with_cuts(beyond))
    for kind in ("bellman", "refined", "duplicated", "scaled", "masked"):
        for seed in range(KINDS.index(kind), 100 * len(KINDS), len(KINDS)):
            instance = random_instance_with_cuts(seed)
            if len(instance.beliefs.states) > 1 and len(instance.objective) > 1:
                ask(f"hull of {kind}", instance.objective, *with_features(instance.sets, seed))
                if "split" in found[f"hull of {kind}"]["tree"]:
                    break
    return found


def changes() -> list[tuple[str, Proof]]:
    """The corruptions: of each proof every way of change in turn."""
    return list(corrupted(real_proofs().values(), CORRUPTIONS, [*OWN, *MOVES], 50))


def test_corrupted_proofs_are_rejected() -> None:
    """More than 1,000 single changes, none of which gets through."""
    count = 0
    for name, proof in changes():
        assert not verify_text(json.dumps(proof)).accepted, name
        count += 1
    assert count == CORRUPTIONS * len(real_proofs()) >= 1000


def test_corrupted_proofs_that_are_sealed_again_are_rejected_unless_they_are_true() -> None:
    """Without the digest the mathematics has to tell; two other opinions say what is true."""
    accepted = 0
    for name, proof in changes():
        verdict = verify_text(json.dumps(sealed(proof)))
        if verdict.accepted:
            accepted += 1
            assert name != "claim_less", name
            assert reference.is_proof(proof), name
            assert not reference.refuted(proof), name
        elif name in ("ulp", "nudge", "sharpen", "swap_multipliers", "drop_child", "claim_less"):
            assert not reference.is_proof(proof), (name, verdict.reason)
    assert 100 < accepted < CORRUPTIONS * len(real_proofs()) / 2


def test_truncated_text_is_rejected() -> None:
    rng = np.random.default_rng(51)
    for proof in real_proofs().values():
        text = json.dumps(proof)
        for end in rng.integers(len(text), size=20).tolist():
            assert not verify_text(text[:end]).accepted
        assert canonical(json.loads(text)) == canonical(proof)


# --- what an answer owes to the norm bound -------------------------------------------------------


def thicker(beliefs: Hypotheses, norm: float) -> Hypotheses:
    """The last epoch with slabs that do not depend on B, and another B."""
    states = tuple(
        replace(old, radii=np.maximum(beliefs.radii(old), 1e-3), refines=None)
        for old in beliefs.states
    )
    return replace(beliefs, states=states, norm=norm)


def test_answers_hold_up_to_their_norm_limit() -> None:
    leaning = free = 0
    for seed in range(320):
        instance = random_instance_with_cuts(seed)
        objective, norm = instance.objective, instance.beliefs.norm
        [beliefs] = with_features([thicker(instance.beliefs, norm)], seed)
        oracle = SlabOracle(kernels="plain")
        answer = oracle.maximise(objective, beliefs)
        limit, size = oracle.norm_limit(), unit(objective, beliefs)
        proved = verdict_of(oracle).norm_limit or math.inf
        assert limit >= norm, seed
        assert limit >= min(proved, 1e6) * (1 - 1e-9), seed
        for share in (0.5, 0.999):
            larger = min(norm + share * (limit - norm), 20 * norm)
            again = SlabOracle(kernels="plain").maximise(objective, thicker(beliefs, larger))
            assert again.status is answer.status, seed
            if answer.status is OPTIMAL:
                room = 2 * AGREEMENT * size * larger / norm
                assert abs(again.upper - answer.upper) <= room, (seed, share)
        leaning += limit < 1.1 * norm
        free += limit > 100 * norm
        if answer.status is OPTIMAL and np.linalg.norm(objective):
            wider = best_in_slabs(objective, thicker(beliefs, 1.01 * norm), tolerance=SURE).value
            if wider > answer.upper + 1e-4 * size:
                assert limit < 1.01 * norm, seed
    assert leaning > 50
    assert free > 50


def test_norm_limit_of_answers_that_owe_nothing_to_the_ball() -> None:
    dead = believed(state([[0.01, 0.0, 0.0], [-0.05, 1.0, 0.0]], [1e-3, 1e-3]))
    pinned = believed(state([[-0.5, 1.0, 0.0]], [0.1]))
    outside = believed(state([[-1.5, 1.0, 0.0]], [0.1]))
    nothing = np.zeros(2)
    for beliefs, objective, low, high in (
        (dead, E1, 1e6, math.inf),
        (dead, nothing, math.inf, math.inf),
        (pinned, E1, 1e6, math.inf),
        (pinned, np.array([1.0, 1.0]), 1.0, 1.001),
        (outside, E1, 1.4 - 1e-6, 1.4),
        (outside, nothing, 1.4 - 1e-6, 1.4),
        (Hypotheses(2, 2.5, 0.0), E1, 2.5, 2.5),
        (Hypotheses(2, 2.5, 0.0), nothing, math.inf, math.inf),
    ):
        oracle = SlabOracle(kernels="plain")
        oracle.maximise(objective, beliefs)
        assert low <= oracle.norm_limit() <= high


def test_claims_that_no_leaf_uses_do_not_count() -> None:
    """A range that only the ball bounds says nothing of an answer that rests on a cut."""
    gamma = 0.5
    states = (
        state([[0.1, gamma - 1, 0.0]], [0.01], [1.0, 0.0]),
        state([[0.1, 0.0, -1.0], [0.1, 0.0, gamma - 1]], [0.01, 0.01], [0.0, 1.0]),
    )
    apart = believed(*states, norm=3.0)
    oracle = SlabOracle(kernels="plain")
    oracle.maximise(E1, apart)
    assert verdict_of(oracle).claims > 0
    assert oracle.norm_limit() > 1e3
