"""The checker: valid proofs pass, false ones are told where, and nothing damaged gets through."""

from __future__ import annotations

import ast
import json
import math
import subprocess
import sys
import time
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import proof_reference as reference
import pytest
from corruptions import MOVES, Place, canonical, corrupted, get, places, put
from proof_reference import Proof, claimed, cut, problem, sealed, state, with_claims

from tensorplan import checker
from tensorplan.checker import Verdict, digest_of, verify_file, verify_text

BANK = reference.bank()
CORRUPTIONS = 40
"""Of each proof of the bank."""


def verdict_of(proof: object) -> Verdict:
    return verify_text(json.dumps(proof))


def reason(proof: Proof) -> str:
    """Why a proof is rejected, its digest being right."""
    verdict = verdict_of(sealed(proof))
    assert not verdict.accepted
    assert verdict.reason is not None
    return verdict.reason


def changed(name: str, *place: str | int, to: object) -> Proof:
    """A proof of the bank with one entry replaced."""
    proof = deepcopy(BANK[name])
    put(proof, place, to)
    return proof


def chosen(leaf: Proof) -> Proof:
    """A tree that splits a first state of one action, and the leaf."""
    return {"split": 0, "children": [leaf]}


# --- valid proofs --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BANK)
def test_valid_proofs_are_accepted(name: str) -> None:
    proof = BANK[name]
    verdict = verdict_of(proof)
    assert verdict.reason is None
    assert verdict.accepted
    assert reference.is_proof(proof)
    assert not reference.refuted(proof)
    assert verdict.kind == proof["claim"]["kind"]
    assert verdict.value == proof["claim"].get("value")
    assert verdict.claims == sum(map(len, proof["blocks"]))


def test_bank_has_every_kind_of_node_and_group() -> None:
    text = json.dumps(list(BANK.values()))
    for word in ("bound", "empty", "same", "split"):
        assert f'{{"{word}": ' in text
    for group in ("s", "c", "b", "d"):
        assert f'"{group}", ' in text
    slabs = [each["slabs"] for proof in BANK.values() for each in proof["states"]]
    assert any(len({slab["action"] for slab in listed}) < len(listed) for listed in slabs)


def test_verdict_counts_and_tells() -> None:
    verdict = verdict_of(BANK["cases"])
    assert (verdict.leaves, verdict.splits, verdict.claims) == (4, 2, 1)
    assert (verdict.point_value, verdict.point_tolerance) == (0.75, 1e-3)
    said = dict(verdict.lines())
    assert said["proved"] == "every allowed parameter predicts at most 0.75"
    assert said["size"] == "4 leaves, 2 splits, 1 derived claim"
    assert dict(verdict_of(BANK["empty 0"]).lines())["proved"] == "no parameter is allowed"


def test_claims_bounded_by_one_another_do_not_need_the_ball() -> None:
    """Without its claims the bound would be that of the ball, a million."""
    verdict = verdict_of(BANK["contraction"])
    assert (verdict.accepted, verdict.norm_used, verdict.norm_limit) == (True, False, None)
    assert "any norm" in dict(verdict.lines())["norm bound"]


def test_limit_of_the_norm_is_where_the_proof_ends() -> None:
    """theta <= 1/2 by its slab; half of <2, theta> is left to the ball, up to B = 3."""
    given = problem([2.0], 2.0, [state(1, (0, [0.0, 1.0], 0.5))])
    proof = claimed(given, chosen({"bound": ["s", 0, 0, 1.0]}), 3.5)
    verdict = verdict_of(proof)
    assert verdict.norm_used
    assert verdict.norm_limit == math.nextafter(3.0, 0.0)
    assert verdict_of(sealed(proof | {"norm": 3.0})).norm_limit == 3.0
    assert "exceeds 3.5" in reason(proof | {"norm": math.nextafter(3.0, 4.0)})


def test_limit_of_the_norm_is_also_that_of_the_claims_used() -> None:
    """theta_1 <= 1 by a claim that needs B <= 5; without the claim the leaf uses no ball."""
    given = problem([1.0, 0.0], 4.0, [state(1, (0, [0.0, 0.8, 0.0], 0.0))])
    claim = {"normal": [1.0, 0.0], "sign": 1, "value": 1.0, "state": 0}
    given = with_claims(given, [claim | {"cases": [["s", 0, 0, 1.0]]}])
    verdict = verdict_of(claimed(given, {"bound": ["d", 0, 1.0]}, 1.0))
    assert verdict.norm_limit == pytest.approx(5.0)
    unused = verdict_of(claimed(given, chosen({"bound": ["s", 0, 0, 1.25]}), 1e-9))
    assert unused.norm_limit is not None
    assert unused.norm_limit > 1e6


@pytest.mark.parametrize("name", [name for name in BANK if not name.startswith("hull")])
def test_proof_stays_one_up_to_the_limit_of_the_norm(name: str) -> None:
    verdict = verdict_of(BANK[name])
    limit = 1e300 if verdict.norm_limit is None else verdict.norm_limit
    assert limit >= BANK[name]["norm"]
    farthest = changed(name, "norm", to=limit)
    assert verdict_of(sealed(farthest)).accepted
    assert reference.is_proof(farthest)
    if verdict.norm_limit is not None:
        beyond = changed(name, "norm", to=limit * (1 + 1e-12))
        assert not reference.is_proof(beyond)


def test_problem_without_states_is_one_leaf() -> None:
    verdict = verdict_of(claimed(problem([3.0, 4.0], 2.0), {"bound": []}, 10.0))
    assert (verdict.accepted, verdict.norm_limit, verdict.leaves) == (True, 2.0, 1)
    just_below = claimed(problem([3.0, 4.0], 2.0), {"bound": []}, math.nextafter(10.0, 0.0))
    assert reason(just_below).startswith("tree.bound: the bound that it proves exceeds")


@pytest.mark.parametrize("scale", [5e-324, 2.0**-1000, 1e-30, 1.0, 1e30, 2.0**1000])
def test_exponents_may_be_anything(scale: float) -> None:
    """x <= scale on one side of everything, exactly; the next double below is refused."""
    given = problem([scale], 1e308, [state(1, (0, [-0.0, scale], scale))])
    proof = claimed(given, chosen({"bound": ["s", 0, 0, 1.0]}), scale)
    verdict = verdict_of(proof)
    assert (verdict.accepted, verdict.norm_used) == (True, False)
    assert not verdict_of(claimed(given, proof["tree"], math.nextafter(scale, 0.0))).accepted
    tiny = chosen({"bound": ["s", 0, 0, 1.0, "s", 0, 0, 5e-324]})
    assert not verdict_of(claimed(given, tiny, scale)).accepted


def test_integers_are_numbers_where_a_double_holds_them() -> None:
    given = problem([1], 2, [state(1, (0, [0, 1], 1))], [cut([2**60], None, 2**61)])
    assert verdict_of(claimed(given, chosen({"bound": ["s", 0, 0, 1]}), 1)).accepted
    given["cuts"][0]["high"] = 2**61 + 1
    assert reason(claimed(given, chosen({"bound": ["s", 0, 0, 1]}), 1)).startswith("cuts[0].high: ")


def test_tree_and_file_may_be_deeper_than_the_stack() -> None:
    """The claim fails at the bottom of the tree only, and the place is told in full."""
    depth = 3000
    states = [state(2, (0, [0.0, 1.0], 0.5), (1, [0.0, 1.0], 0.25)) for _ in range(depth)]
    text = json.dumps(problem([1.0], 2.0, states))
    node = f'{{"bound":["s",{depth - 1},0,1.0]}}'
    for i in reversed(range(depth)):
        node = f'{{"children":[{node},{{"same":0}}],"split":{i}}}'

    def whole(value: float) -> str:
        rest = f',"tree":{node},"claim":{{"kind":"upper","value":{value}}},"point":null'
        body = checker._load(f"{text[:-1]}{rest}}}")  # pyright: ignore[reportPrivateUsage]
        assert isinstance(body, dict)
        return f'{text[:-1]}{rest},"digest":"{digest_of(body)}"}}'  # pyright: ignore[reportUnknownArgumentType]

    verdict = verify_text(whole(0.5))
    assert (verdict.accepted, verdict.leaves, verdict.splits) == (True, depth + 1, depth)
    wrong = verify_text(whole(0.4))
    assert wrong.reason is not None
    assert wrong.reason.startswith("tree" + ".children[0]" * depth + ".bound: ")
    good = whole(0.5)
    for bad in (good[:-9], good + "]", good.replace("}", "", 1), good.replace('"s"', '"@1"')):
        assert not verify_text(bad).accepted
    for bad in ("[" * 10**5, "[" * 10**5 + "]" * 10**5, '{"a":' * 10**5, "]" * 10**5):
        assert not verify_text(bad).accepted


def test_deep_and_flat_readers_and_writers_agree() -> None:
    for proof in BANK.values():
        text = json.dumps(proof, indent=1)
        deep = checker._load_deep(text)  # pyright: ignore[reportPrivateUsage]
        assert deep == proof
    for depth in (1, 400, 5000):
        entries = '{"b":-1.5e-07,"a":[true,null,"x"]}', '{"a":[true,null,"x"],"b":-1.5e-07}'
        text, ordered = ("[" * depth + entry + ",{}" + "]" * depth for entry in entries)
        content = checker._load(text)  # pyright: ignore[reportPrivateUsage]
        assert checker._canonical(content) == ordered  # pyright: ignore[reportPrivateUsage]


# --- broken rules --------------------------------------------------------------------------------


CASES = "cases"
NODE: Place = ("tree", "children", 0)
LEAF: Place = (*NODE, "children", 0, "bound")
RULES: list[tuple[str, Place, object, str]] = [
    (CASES, ("schema",), "tensorplan-proof/2", "schema: must be 'tensorplan-proof/1', not "),
    (CASES, ("extra",), 1, "file: has a key that does not belong there: "),
    (CASES, ("objective",), [], "objective: must have at least one entry"),
    (CASES, ("objective",), [1.0, 0.0], "states[0].slabs[0].row: must have 3 entries, not 2"),
    (CASES, ("objective", 0), True, "objective[0]: must be a number that a double holds, not true"),
    (CASES, ("objective", 0), "1.0", "objective[0]: must be a number"),
    (CASES, ("norm",), -4.0, "norm: must be at least 0, not -4.0"),
    (CASES, ("norm",), None, "norm: must be a number"),
    (CASES, ("norm",), 2**53 + 1, "norm: must be a number that a double holds"),
    (CASES, ("norm",), 10**400, "norm: must be a number that a double holds"),
    (CASES, ("bellman",), 0, "bellman: must be true or false, not 0"),
    (CASES, ("states", 0, "stage"), 1.0, "states[0].stage: must be an integer"),
    (CASES, ("states", 0, "stage"), True, "states[0].stage: must be an integer"),
    (CASES, ("states", 0, "actions"), 4, "states[0].slabs: there is none for action 3"),
    (CASES, ("states", 0, "actions"), 2, "states[0].slabs[2].action: must be an integer from 0 to"),
    (CASES, ("states", 1, "slabs", 0, "action"), -1, "states[1].slabs[0].action: must be"),
    (CASES, ("states", 1, "slabs", 0, "radius"), -0.5, "states[1].slabs[0].radius: must be at"),
    (CASES, ("states", 1, "slabs", 0, "row"), [1.0], "states[1].slabs[0].row: must have 2 entries"),
    (CASES, ("cuts", 0, "high"), "3", "cuts[0].high: must be a number"),
    (CASES, ("cuts", 0, "normal"), [1.0, 2.0], "cuts[0].normal: must have 1 entries, not 2"),
    (CASES, ("claim",), {"kind": "upper"}, "claim.kind: must be 'empty' here"),
    (CASES, ("claim",), {"kind": "empty", "value": 0.0}, "claim.kind: must be 'upper' here"),
    (CASES, ("claim", "more"), 0, "claim: has a key that does not belong there"),
    (CASES, ("claim", "value"), 0.7499999999999999, "tree.children[0].children[0].bound: the boun"),
    (CASES, ("states", 1, "slabs", 0, "radius"), 0.7500000000000001, "tree.children[0].children[0"),
    (CASES, ("states", 1, "slabs", 0, "row", 0), -1e-16, "tree.children[0].children[0].bound: the"),
    (CASES, LEAF, ["s", 1, 0, 1.0, "s", 1, 0], "tree.children[0].children[0].bound[4]: no group"),
    (CASES, LEAF, ["t", 1, 0, 1.0], "tree.children[0].children[0].bound[0]: no group begins with"),
    (CASES, LEAF, [["s"], 1, 0, 1.0], "tree.children[0].children[0].bound[0]: no group begins"),
    (CASES, LEAF, [[]], "tree.children[0].children[0].bound[0]: no group begins with an array"),
    (CASES, LEAF, ["s", 2, 0, 1.0], "tree.children[0].children[0].bound[1]: must be an integer"),
    (CASES, LEAF, ["s", 1, 3, 1.0], "tree.children[0].children[0].bound[2]: must be an integer"),
    (CASES, LEAF, ["s", True, 0, 1.0], "tree.children[0].children[0].bound[1]: must be an int"),
    (CASES, LEAF, ["s", -1, 0, 1.0], "tree.children[0].children[0].bound[1]: must be an integer"),
    (CASES, LEAF, ["s", 1, 0, True], "tree.children[0].children[0].bound[3]: must be a number"),
    (CASES, LEAF, ["s", 1, 2, 1.0], "tree.children[0].children[0].bound[0]: action 1 of state 1"),
    (CASES, LEAF, ["b", 1, 0, 1.0], "tree.children[0].children[0].bound[0]: there are no Bellman"),
    (CASES, LEAF, ["c", 2, 1.0], "tree.children[0].children[0].bound[1]: must be an integer from"),
    (CASES, LEAF, ["c", 1, 1.0], "tree.children[0].children[0].bound[2]: cut 1 has no upper limit"),
    (CASES, LEAF, ["c", 0, -1.0], "tree.children[0].children[0].bound[2]: cut 0 has no lower"),
    (CASES, LEAF, ["d", 0, -1.0], "tree.children[0].children[0].bound[2]: must be at least 0"),
    (CASES, LEAF, ["d", 1, 1.0], "tree.children[0].children[0].bound[1]: must be an integer from"),
    (CASES, LEAF, {}, "tree.children[0].children[0].bound: must be an array, not an object"),
    (CASES, (*NODE, "split"), 0, "tree.children[0].split: state 0 is split already, further up"),
    (CASES, (*NODE, "split"), 2, "tree.children[0].split: must be an integer from 0 to 1"),
    (CASES, (*NODE, "split"), 1.0, "tree.children[0].split: must be an integer from 0 to 1"),
    (CASES, (*NODE, "note"), "", "tree.children[0]: has a key that does not belong there"),
    (CASES, (*NODE, "children"), [], "tree.children[0].children: there must be 2, one per action"),
    (CASES, NODE, {}, "tree.children[0]: lacks the key 'empty'"),
    (CASES, NODE, [], "tree.children[0]: must be an object, not an array"),
    (CASES, NODE, {"bound": [], "empty": []}, "tree.children[0]: has a key that does not belong"),
    (CASES, NODE, {"same": 2}, "tree.children[0].same: action 2 is itself covered by another one"),
    (CASES, NODE, {"same": 0}, "tree.children[0].same: action 0 is itself covered by another one"),
    (CASES, NODE, {"same": 3}, "tree.children[0].same: must be an integer from 0 to 2"),
    (CASES, NODE, {"same": 1}, "tree.children[0].same: the slabs of action 0 do not imply those o"),
    (CASES, ("tree",), {"same": 0}, "tree: 'same' is for a child beside its sibling only"),
    (CASES, ("tree",), None, "tree: must be an object, not null"),
    (CASES, ("tree", "children", 1, "empty"), ["c", 0, 1.0], "tree.children[1].empty: does not"),
    (CASES, ("states", 0, "slabs", 2, "radius"), 0.51, "blocks[0][0].cases[2].same: the slabs of"),
    (CASES, ("blocks", 0, 0, "sign"), 0, "blocks[0][0].sign: must be 1 or -1, not 0"),
    (CASES, ("blocks", 0, 0, "sign"), 1.0, "blocks[0][0].sign: must be an integer"),
    (CASES, ("blocks", 0, 0, "state"), 2, "blocks[0][0].state: must be an integer from 0 to 1"),
    (CASES, ("blocks", 0, 0, "state"), None, "blocks[0][0].cases: there must be 1, not 3"),
    (CASES, ("blocks", 0, 0, "state"), 1, "blocks[0][0].cases: there must be 2, not 3"),
    (CASES, ("blocks", 0, 0, "value"), 1.4999, "blocks[0][0].cases[0]: the bound that it proves"),
    (CASES, ("blocks", 0, 0, "normal"), [], "blocks[0][0].normal: must have 1 entries, not 0"),
    (CASES, ("blocks", 0, 0, "cases", 0), ["s", 1, 0, 1.0], "blocks[0][0].cases[0][0]: action 0 o"),
    (CASES, ("blocks", 0, 0, "cases", 1), ["s", 0, 0, 1.0], "blocks[0][0].cases[1][0]: action 0 o"),
    (CASES, ("blocks", 0, 0, "cases", 0), {"same": 2}, "blocks[0][0].cases[0].same: action 2 is i"),
    (CASES, ("blocks", 0, 0, "cases", 0), {"bound": []}, "blocks[0][0].cases[0]: lacks the key 'e"),
    (CASES, ("blocks", 0, 0, "cases", 1, "empty"), [], "blocks[0][0].cases[1].empty: does not pro"),
    (CASES, ("blocks", 0), {}, "blocks[0]: must be an array, not an object"),
    (CASES, ("point", "theta", 0), 0.76, "point.value: is not what theta predicts"),
    (CASES, ("point", "value"), 0.752, "point.value: is not what theta predicts"),
    (CASES, ("point", "tolerance"), -1e-3, "point.tolerance: must be at least 0"),
    (CASES, ("point",), {"theta": [0.25], "value": 0.25, "tolerance": 0.2}, "point.theta: is in t"),
    (CASES, ("point",), {"theta": [5.0], "value": 5.0, "tolerance": 0.9}, "point.theta: its norm"),
    (CASES, ("point",), {"theta": [3.5], "value": 3.5, "tolerance": 0.4}, "point.theta: breaks cu"),
    (CASES, ("point",), {"theta": [], "value": 0.0, "tolerance": 0.0}, "point.theta: must have 1"),
    (CASES, ("cuts", 1, "low"), 1.51, "point.theta: breaks cut 1 by more than the tolerance"),
    ("empty 0", ("point",), {"theta": [0.0], "value": 0.0, "tolerance": 9.0}, "point"),
    ("empty 0", ("tree",), {"bound": []}, "tree.bound: every leaf must be 'empty'"),
    ("contraction", ("blocks", 0, 0, "cases", 0, 6), 0.49, "blocks[0][0].cases[0]: the bound that"),
    ("contraction", ("blocks", 0, 2, "cases", 0, 3), -1.0, "blocks[0][2].cases[0]: the bound that"),
    ("contraction", ("tree", "bound", 2), 0.99, "tree.bound: the bound that it proves exceeds 2.0"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "place", "value", "expected"), RULES)
def test_broken_rules_are_told(name: str, place: Place, value: object, expected: str) -> None:
    proof = changed(name, *place, to=value)
    assert reason(proof).startswith(expected)
    unsealed = verdict_of(proof).reason
    assert unsealed is not None
    assert unsealed.startswith(("digest: ", "schema: ", "file: has a key"))


OTHER_TYPES: list[Any] = ["x", True, None, {}, [], 0.5, {"a": 1}]


@pytest.mark.parametrize("name", ["cases", "contraction", "empty 0"])
def test_every_key_is_needed_and_every_type_checked(name: str) -> None:
    """Nothing can be left out, and nothing can be of another type."""
    found = 0
    for place in places(BANK[name]):
        if place[0] == "digest":
            continue
        for other in OTHER_TYPES:
            proof = changed(name, *place, to=other)
            if type(other) is type(get(BANK[name], place)) or may_be(place, other):
                continue
            reason(proof)
            found += 1
        proof = deepcopy(BANK[name])
        inner = get(proof, place[:-1])
        if isinstance(inner, dict):
            del inner[place[-1]]
            assert "lacks the key" in reason(proof) or place == ("claim", "value")
            found += 1
    assert found > 300


def may_be(place: Place, other: object) -> bool:
    """Whether the type alone is no fault there: limits may be there or not, for example."""
    if other is None:
        return place[-1] in ("low", "high", "point", "state")
    return other == 0.5 and place[-1] in ("low", "high")


@pytest.mark.parametrize("text", ["", "{", "null", "[]", "3", "{}", "\ufeff{}", "nul", "{}{}"])
def test_what_is_no_proof_at_all_is_rejected(text: str) -> None:
    assert not verify_text(text).accepted


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "9" * 5000, "01"])
def test_numbers_that_json_or_doubles_do_not_have(number: str) -> None:
    text = json.dumps(BANK["cases"])
    assert '"norm": 4.0' in text
    wrong = verify_text(text.replace('"norm": 4.0', f'"norm": {number}'))
    assert not wrong.accepted
    proof = changed("cases", "norm", to=math.inf)
    assert reason(proof).startswith("file: has the number Infinity")
    overflow = sealed(proof)
    text = json.dumps(overflow).replace("Infinity", "1e999")
    assert str(verify_text(text).reason).startswith("norm: must be a number that a double holds")


def test_repeated_keys_are_rejected() -> None:
    text = json.dumps(BANK["cases"])
    twice = text.replace('"norm": 4.0', '"norm": 5.0, "norm": 4.0')
    assert verify_text(twice).reason == 'file: has the key "norm" twice in one object'


def test_order_of_keys_and_white_space_are_free() -> None:
    proof = dict(reversed([*BANK["cases"].items()]))
    assert verify_text(f"\n {json.dumps(proof, indent=3)}\n").accepted


def test_digest_is_that_of_the_format() -> None:
    for proof in BANK.values():
        assert digest_of(proof) == proof["digest"]
        assert digest_of({key: proof[key] for key in proof if key != "digest"}) == proof["digest"]
    assert verdict_of(BANK["cases"] | {"digest": BANK["cases"]["digest"].upper()}).reason == (
        "digest: is not that of the rest: the file was changed or cut"
    )


# --- unsound reasoning ---------------------------------------------------------------------------


def false_claim(cases: list[Any], value: float = -1.0) -> Proof:
    """theta <= -1, which is false of theta in [-2, 2], from whatever the cases say."""
    claim = {"normal": [1.0], "sign": 1, "value": value, "state": None, "cases": cases}
    return claimed(with_claims(problem([1.0], 2.0), [claim]), {"bound": ["d", 0, 1.0]}, value)


def test_claim_cannot_prove_itself() -> None:
    assert "must add up to below 1" in reason(false_claim([["d", 0, 1.0]]))
    assert "must add up to below 1" in reason(false_claim([["d", 0, 0.5, "d", 0, 0.5]]))
    assert "exceeds -1.0" in reason(false_claim([["d", 0, math.nextafter(1.0, 0.0)]]))


def test_claim_cannot_prove_itself_by_an_empty_case() -> None:
    """From theta <= -3 it follows that nothing is left, with multipliers as small as you like."""
    proof = false_claim([{"empty": ["d", 0, 1e-9]}], -3.0)
    assert reason(proof) == (
        "blocks[0][0].cases[0].empty[1]: only claims before 0 may be used here, not 0"
    )
    assert not reference.is_proof(proof)
    assert reference.refuted(proof)


def test_claims_of_later_blocks_cannot_be_used() -> None:
    proof = deepcopy(BANK["contraction"])
    block = proof["blocks"][0]
    proof["blocks"] = [block[:1], block[1:]]
    assert reason(proof).startswith("blocks[0][0].cases[0][5]: only claims before 1 may be used")
    proof["blocks"] = [[], block, []]
    assert verdict_of(sealed(proof)).accepted


def test_slab_is_in_force_in_its_own_branch_only() -> None:
    """What was chosen on one branch, or in a claim, is forgotten on the next."""
    states = [state(2, (0, [0.0, 1.0], 0.5), (1, [0.0, 1.0], 0.5)) for _ in range(2)]
    deep = {"split": 1, "children": [{"bound": ["s", 1, 0, 1.0]}, {"bound": ["s", 1, 1, 1.0]}]}
    for borrowed in (["s", 1, 1, 1.0], ["s", 1, 0, 1.0], ["s", 0, 0, 1.0]):
        tree = {"split": 0, "children": [deep, {"bound": borrowed}]}
        assert reason(claimed(problem([1.0], 2.0, states), tree, 0.5)).startswith(
            "tree.children[1].bound[0]: action"
        )
    claim = {"normal": [1.0], "sign": 1, "value": 0.5, "state": 0}
    cases = [["s", 0, 0, 1.0], ["s", 0, 1, 1.0]]
    given = with_claims(problem([1.0], 2.0, states), [claim | {"cases": cases}])
    assert reason(claimed(given, {"bound": ["s", 0, 1, 1.0]}, 0.5)).startswith("tree.bound[0]: ")


def test_bellman_inequalities_hold_on_their_upper_side_only() -> None:
    states = [state(2, (0, [0.0, 1.0], 0.5), (1, [0.0, -1.0], 0.5))]
    given = problem([1.0], 2.0, states, bellman=True)
    assert verdict_of(claimed(given, {"bound": ["b", 0, 0, 1.0]}, 0.5)).accepted
    wrong = reason(claimed(given, {"bound": ["b", 0, 1, -1.0]}, 0.5))
    assert wrong == "tree.bound[3]: must be at least 0, not -1.0"


def test_refinement_counts_with_both_of_its_slabs() -> None:
    """An action has two slabs, which meet in [0.25, 0.5] only; `same` needs both of them."""
    twice = [(0, [0.0, 1.0], 0.5), (0, [-1.0, 1.0], 0.75)]
    given = problem([-1.0], 2.0, [state(2, *twice, (1, [-1.0, 1.0], 0.75))])
    tree = {"split": 0, "children": [{"bound": ["s", 0, 1, -1.0]}, {"same": 0}]}
    assert "do not imply" in reason(claimed(given, tree, -0.25))
    tree["children"] = [{"same": 1}, {"bound": ["s", 0, 2, -1.0]}]
    assert verdict_of(claimed(given, tree, -0.25)).accepted
    point = {"theta": [0.6], "value": -0.6, "tolerance": 0.0}
    assert verdict_of(claimed(given, tree, -0.25, point)).accepted
    given["states"][0]["slabs"][2]["row"] = [9.0, 1.0]
    assert "is in the slabs of no action" in reason(claimed(given, tree, -0.25, point))


def test_numbers_beyond_any_float_are_weighed() -> None:
    """A claim so weak that the norm it holds for is no float, and one that fails by as much."""
    for value, sign in ((1e308, 1), (-1e308, -1)):
        claim: Proof = {"normal": [5e-324], "sign": 1, "value": value, "state": None, "cases": [[]]}
        given = with_claims(problem([1.0], 2.0), [claim])
        verdict = verdict_of(claimed(given, {"bound": []}, 2.0))
        assert verdict.accepted == (sign > 0), verdict.reason


# --- random corruptions --------------------------------------------------------------------------


def test_corruptions_are_rejected() -> None:
    """1,760 files that were changed after they were sealed."""
    count = 0
    for name, proof in corrupted(BANK.values(), CORRUPTIONS, MOVES, 20):
        verdict = verdict_of(proof)
        assert not verdict.accepted, name
        assert verdict.reason
        count += 1
    assert count == CORRUPTIONS * len(BANK) == 1760


@pytest.mark.parametrize("name", [name for name in BANK if BANK[name]["point"] is not None])
def test_claims_below_what_some_parameter_predicts_are_rejected(name: str) -> None:
    """The judges of the next test tell false from true: here is a parameter that refutes it."""
    false = changed(name, "claim", "value", to=BANK[name]["claim"]["value"] - 1e-4)
    assert "exceeds" in reason(false)
    assert not reference.is_proof(false)
    assert reference.refuted(false)


def test_corruptions_with_a_right_digest_are_rejected_unless_what_they_say_is_true() -> None:
    """The same files sealed again: the mathematics alone must tell, and two opinions agree."""
    accepted = 0
    for name, proof in corrupted(BANK.values(), CORRUPTIONS, MOVES, 20):
        verdict = verdict_of(sealed(proof))
        if verdict.accepted:
            accepted += 1
            assert reference.is_proof(proof), name
            assert not reference.refuted(proof), name
        elif name in ("sharpen", "nudge", "widen", "graft"):
            assert not reference.is_proof(proof), (name, verdict.reason)
    assert 200 < accepted < 900  # many changes are harmless, most are not


def test_corrupted_text_is_rejected() -> None:
    """Truncated files, and files with a character changed, lost or added."""
    rng = np.random.default_rng(21)
    count = 0
    for proof in BANK.values():
        text = json.dumps(proof)
        for _ in range(25):
            at = int(rng.integers(len(text)))
            letter = chr(int(rng.integers(32, 127)))
            for other in (
                text[:at],
                text[:at] + letter + text[at + 1 :],
                text[:at] + text[at + 1 :],
                text[:at] + letter + text[at:],
            ):
                if not reads_as(other, proof):
                    assert not verify_text(other).accepted
                    count += 1
    assert count > 4000


def reads_as(text: str, proof: Proof) -> bool:
    """Whether a text is the same file: white space may differ, or a digest's width of a number."""
    try:
        return canonical(json.loads(text)) == canonical(proof)
    except ValueError:
        return False


# --- files and programs --------------------------------------------------------------------------


def test_files_are_read_and_errors_of_the_disk_are_errors(tmp_path: Path) -> None:
    path = tmp_path / "proof.json"
    path.write_text(json.dumps(BANK["cases"]), encoding="utf-8")
    assert verify_file(path) == verify_file(str(path)) == verdict_of(BANK["cases"])
    path.write_bytes(b'{"schema": "\xff"}')
    assert verify_file(path).reason == "file: byte 12 is not UTF-8 text"
    with pytest.raises(FileNotFoundError):
        verify_file(tmp_path / "absent.json")


def test_checker_alone_needs_the_standard_library_only(tmp_path: Path) -> None:
    source = Path(checker.__file__).read_text(encoding="utf-8")
    imported = {
        name.split(".")[0]
        for node in ast.walk(ast.parse(source))
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or "."]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert imported <= sys.stdlib_module_names
    copy = tmp_path / "copy.py"
    copy.write_text(source, encoding="utf-8")
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_text(json.dumps(BANK["cases"]), encoding="utf-8")
    bad.write_text(json.dumps(changed("cases", "norm", to=5.0)), encoding="utf-8")
    for path, code, begin in (
        (good, 0, "verdict: accepted\nproved: every allowed parameter predicts at most 0.75\n"),
        (bad, 1, "verdict: rejected\nreason: digest: "),
        (tmp_path / "absent.json", 2, ""),
    ):
        command = [sys.executable, "-I", "-S", str(copy), str(path)]
        ran = subprocess.run(command, check=False, capture_output=True, text=True)
        assert ran.returncode == code
        assert ran.stdout.startswith(begin)
        assert "Traceback" not in ran.stderr


# --- speed ---------------------------------------------------------------------------------------


def large_proof(leaves: int, dim: int, *, seed: int = 22) -> Proof:
    """A tree of that many leaves or some more, with multipliers at random and a bound that fits."""
    rng = np.random.default_rng(seed)
    actions, count, norm = 3, 40, 4.0
    rows = rng.normal(size=(count, actions, dim + 1))
    states = [
        state(actions, *((a, rows[i, a].tolist(), 1e-3) for a in range(actions)))
        for i in range(count)
    ]
    normals = rng.normal(size=(120, dim))
    cuts = [cut(normal.tolist(), -1.0, 1.0) for normal in normals]
    objective = rng.normal(size=dim)
    highest = 0.0

    def leaf(chosen: dict[int, int]) -> Proof:
        nonlocal highest
        listed: list[Any] = []
        rest, beta = objective.copy(), 0.0
        for j in rng.choice(len(cuts), 13 - min(len(chosen), 8), replace=False).tolist():
            y = float(rng.normal() / 5)
            listed += ["c", j, y]
            rest, beta = rest - y * normals[j], beta + abs(y)
        for i, a in [*chosen.items()][-8:]:
            y = float(rng.normal() / 5)
            listed += ["s", i, a, y]
            rest, beta = rest - y * rows[i, a, 1:], beta + 1e-3 * abs(y) - y * rows[i, a, 0]
        highest = max(highest, norm * float(np.linalg.norm(rest)) + beta)
        return {"bound": listed}

    root: Proof = {}
    open_nodes: list[tuple[Proof, dict[int, int]]] = [(root, {})]
    while len(open_nodes) < leaves:
        node, chosen = open_nodes.pop(int(rng.integers(len(open_nodes))))
        split = int(rng.choice([i for i in range(count) if i not in chosen]))
        node |= {"split": split, "children": [{} for _ in range(actions)]}
        open_nodes += [(child, chosen | {split: a}) for a, child in enumerate(node["children"])]
    for node, chosen in open_nodes:
        node |= leaf(chosen)
    return claimed(problem(objective.tolist(), norm, states, cuts), root, highest + 1e-9)


def test_ten_thousand_leaves_are_checked_in_under_a_minute() -> None:
    text = json.dumps(large_proof(10_000, 10))
    started = time.perf_counter()
    verdict = verify_text(text)
    seconds = time.perf_counter() - started
    assert verdict.accepted, verdict.reason
    assert verdict.leaves >= 10_000
    assert seconds < 60, f"{seconds:.1f} s"
