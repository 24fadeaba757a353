"""Proof files of tiny problems, and a slow second opinion on any proof file.

The multipliers of a leaf come from the theorem of the alternative: where the inequalities of the
leaf and <c, theta> >= u hold nowhere in the ball, the point of least norm that satisfies them is
outside the ball or does not exist, and its multipliers are the proof. Non-negative least squares
find them, after Lawson and Hanson.

The second opinion is written without regard to the checker: fractions, recursion, and each
inequality spelled out as <normal, theta> <= limit. It takes the types of a file on trust. A third
one, in floating point, looks for a parameter that refutes what the file claims.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import nnls

from tensorplan.records import FloatArray

Proof = dict[str, Any]
Group = tuple[Any, ...]

TOLERANCE = 1e-6


class Inequality(NamedTuple):
    """<normal, theta> <= limit, how a multiplier list names it, and the sign that it uses there."""

    name: Group
    normal: list[float]
    limit: float
    sign: int = 1


# --- making files --------------------------------------------------------------------------------


def sealed(proof: Proof) -> Proof:
    """The same with the digest that belongs to it."""
    rest = {key: value for key, value in proof.items() if key != "digest"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    return rest | {"digest": hashlib.sha256(text.encode()).hexdigest()}


def state(actions: int, *slabs: tuple[int, Sequence[float], float], stage: int = 1) -> Proof:
    """A state; a slab is an action, a row and a radius."""
    listed = [{"action": a, "row": list(row), "radius": radius} for a, row, radius in slabs]
    return {"stage": stage, "actions": actions, "slabs": listed}


def cut(normal: Sequence[float], low: float | None, high: float | None) -> Proof:
    return {"normal": list(normal), "low": low, "high": high}


def problem(
    objective: Sequence[float],
    norm: float,
    states: Sequence[Proof] = (),
    cuts: Sequence[Proof] = (),
    *,
    bellman: bool = False,
) -> Proof:
    """A file without its proof."""
    return {
        "schema": "tensorplan-proof/1",
        "objective": list(objective),
        "norm": norm,
        "states": list(states),
        "cuts": list(cuts),
        "bellman": bellman,
        "blocks": [],
    }


def with_claims(given: Proof, *blocks: list[Proof]) -> Proof:
    return given | {"blocks": [*given["blocks"], *blocks]}


def claimed(given: Proof, tree: Proof, value: float | None, point: Proof | None = None) -> Proof:
    """A whole file, of a tree made by hand."""
    kind = {"kind": "empty"} if value is None else {"kind": "upper", "value": value}
    return sealed(given | {"tree": tree, "claim": kind, "point": point})


def solved(given: Proof) -> Proof:
    """A whole file: the smallest value that can be proved, a tree, and a point."""
    if (tree := grow(given, None)) is not None:
        return claimed(given, tree, None)
    objective = np.array(given["objective"])
    high = given["norm"] * float(np.linalg.norm(objective)) + TOLERANCE
    low, point = -high, None
    while high - low > TOLERANCE / 8:
        middle = (low + high) / 2
        found = refutation(given, objective, middle)
        low, high = (low, middle) if found is None else (middle, high)
        point = point if found is None else found
    value = high + TOLERANCE
    tree = grow(given, value)
    assert tree is not None
    if point is not None:
        predicted = float(objective @ point)
        point = {"theta": point.tolist(), "value": predicted, "tolerance": TOLERANCE}
    return claimed(given, tree, value, point)


def derived(given: Proof, normal: Sequence[float], sign: int, split: int | None) -> Proof:
    """A claim, as tight as the slabs of one state and earlier claims can prove it."""
    along = sign * np.array(normal)
    high = given["norm"] * float(np.linalg.norm(along)) + TOLERANCE
    low = -high
    while high - low > TOLERANCE:
        middle = (low + high) / 2
        proved = _cases(given, along, middle, split)
        low, high = (low, middle) if proved else (middle, high)
    value = high + TOLERANCE
    cases = _cases(given, along, value, split)
    return {"normal": list(normal), "sign": sign, "value": value, "state": split, "cases": cases}


def _cases(given: Proof, along: FloatArray, value: float, split: int | None) -> list[Any]:
    cases: list[Any] = []
    for chosen in _choices(given, split):
        leaf = _leaf(given, chosen, along, value)
        if leaf is None:
            return []
        cases.append(leaf.get("bound", leaf))
    return cases


def _choices(given: Proof, split: int | None) -> list[dict[int, int]]:
    """What is chosen in each case of a claim."""
    if split is None:
        return [{}]
    return [{split: a} for a in range(_actions(given, split))]


def grow(given: Proof, value: float | None, chosen: dict[int, int] | None = None) -> Proof | None:
    """A tree that splits the states in their order, each leaf closed as soon as it can be."""
    chosen = chosen or {}
    leaf = _leaf(given, chosen, np.array(given["objective"]), value)
    if leaf is not None or len(chosen) == len(given["states"]):
        return leaf
    split = len(chosen)
    children: list[Proof] = []
    for b in range(_actions(given, split)):
        wider = [a for a in range(b) if _implies(given, split, b, a) and "same" not in children[a]]
        child = {"same": wider[0]} if wider else grow(given, value, chosen | {split: b})
        if child is None:
            return None
        children.append(child)
    return {"split": split, "children": children}


def _leaf(
    given: Proof, chosen: dict[int, int], objective: FloatArray, value: float | None
) -> Proof | None:
    rows = inequalities(given, chosen)
    weights, _ = least_norm(rows, given["norm"], len(objective))
    if weights is not None:
        return {"empty": _listed(rows, weights)}
    if value is None:
        return None
    goal = Inequality((), (-objective).tolist(), -value)
    weights, _ = least_norm([*rows, goal], given["norm"], len(objective))
    if weights is None:
        return None
    return {"bound": _listed(rows, weights[:-1] / weights[-1])}


def _listed(rows: Sequence[Inequality], weights: FloatArray) -> list[Any]:
    pairs = zip(rows, weights.tolist(), strict=True)
    return [entry for row, y in pairs if y for entry in (*row.name, row.sign * y)]


def _actions(given: Proof, split: int) -> int:
    return given["states"][split]["actions"]


def _implies(given: Proof, split: int, b: int, a: int) -> bool:
    slabs = given["states"][split]["slabs"]
    tight = [slab for slab in slabs if slab["action"] == b]
    return all(
        any(slab["row"] == wide["row"] and slab["radius"] <= wide["radius"] for slab in tight)
        for wide in slabs
        if wide["action"] == a
    )


# --- floating point ------------------------------------------------------------------------------


def inequalities(given: Proof, chosen: dict[int, int], *, claims: bool = True) -> list[Inequality]:
    """What may be used where actions of some states are chosen."""
    found: list[Inequality] = []
    for i, each in enumerate(given["states"]):
        for j, slab in enumerate(each["slabs"]):
            (r, *x), w = slab["row"], slab["radius"]
            if chosen.get(i) == slab["action"]:
                found.append(Inequality(("s", i, j), x, w - r))
                found.append(Inequality(("s", i, j), [-entry for entry in x], w + r, -1))
            if given["bellman"]:
                found.append(Inequality(("b", i, j), x, w - r))
    for j, each in enumerate(given["cuts"]):
        if each["high"] is not None:
            found.append(Inequality(("c", j), each["normal"], each["high"]))
        if each["low"] is not None:
            flipped = [-entry for entry in each["normal"]]
            found.append(Inequality(("c", j), flipped, -each["low"], -1))
    for n, each in enumerate(claim for block in given["blocks"] for claim in block if claims):
        normal = [each["sign"] * entry for entry in each["normal"]]
        found.append(Inequality(("d", n), normal, each["value"]))
    return found


def least_norm(
    rows: Sequence[Inequality], norm: float, dim: int
) -> tuple[FloatArray | None, FloatArray | None]:
    """Multipliers that prove that no point of the ball satisfies the rows, or a point that does."""
    if not rows:
        return None, np.zeros(dim)
    normals = np.array([row.normal for row in rows])
    limits = np.array([row.limit for row in rows])
    target = np.zeros(dim + 1)
    target[-1] = 1
    with np.errstate(all="ignore"):
        weights, _ = nnls(np.vstack([-normals.T, -limits]), target)
        pull = normals.T @ weights
        height = float(limits @ weights)
        if norm * float(np.linalg.norm(pull)) + height < 0 and height < -1e-9:
            return weights, None
        point = -pull / (1 + height) if 1 + height else pull
        inside = bool(np.all(normals @ point <= limits + 1e-9 * (1 + np.abs(limits))))
    return None, point if inside and float(np.linalg.norm(point)) <= norm else None


def refutation(given: Proof, along: FloatArray, value: float | None) -> FloatArray | None:
    """An allowed parameter with <along, theta> >= value, if one is found."""
    choices = itertools.product(*(range(each["actions"]) for each in given["states"]))
    for choice in choices:
        rows = inequalities(given, dict(enumerate(choice)), claims=False)
        if value is not None:
            rows.append(Inequality((), (-along).tolist(), -value))
        _, point = least_norm(rows, given["norm"], len(along))
        if point is not None:
            return point
    return None


def refuted(proof: Proof) -> bool:
    """Whether some parameter shows that the claim of a file, or a derived one, is plainly false."""
    claims = [claim for block in proof["blocks"] for claim in block]
    said = [(np.array(each["normal"]) * each["sign"], each["value"]) for each in claims]
    if proof["claim"]["kind"] == "upper":
        said.append((np.array(proof["objective"]), proof["claim"]["value"]))
    elif refutation(proof, np.zeros(len(proof["objective"])), None) is not None:
        return True
    margin = [TOLERANCE * (1 + abs(value)) for _, value in said]
    return any(
        refutation(proof, along, value + more) is not None
        for (along, value), more in zip(said, margin, strict=True)
    )


# --- fractions -----------------------------------------------------------------------------------


def is_proof(proof: Proof) -> bool:
    """Whether a file, its digest apart, is a proof."""
    try:
        _Opinion(proof).give()
    except (LookupError, TypeError, ValueError, AssertionError, OverflowError):
        return False
    return True


def _exact(numbers: Iterable[float]) -> list[Fraction]:
    return [Fraction(number) for number in numbers]


def _dot(left: Sequence[Fraction], right: Sequence[Fraction]) -> Fraction:
    return sum((a * b for a, b in zip(left, right, strict=True)), Fraction(0))


class _Opinion:
    """Judges a file; whatever is wrong raises."""

    def __init__(self, proof: Proof) -> None:
        self.proof = proof
        self.objective = _exact(proof["objective"])
        self.norm = Fraction(proof["norm"])
        self.claims = [claim for block in proof["blocks"] for claim in block]

    def give(self) -> None:
        for each in self.proof["states"]:
            assert each["stage"] >= 0
            assert {slab["action"] for slab in each["slabs"]} == set(range(each["actions"]))
            assert all(slab["radius"] >= 0 for slab in each["slabs"])
            assert all(len(slab["row"]) == 1 + len(self.objective) for slab in each["slabs"])
        assert self.norm >= 0
        known = 0
        for block in self.proof["blocks"]:
            own = range(known, known + len(block))
            for claim in block:
                self.claim(claim, own)
            known = own.stop
        kind = self.proof["claim"]["kind"]
        assert kind in ("upper", "empty")
        value = Fraction(self.proof["claim"]["value"]) if kind == "upper" else None
        self.node(self.proof["tree"], {}, value)
        if self.proof["point"] is not None:
            assert value is not None
            self.point(self.proof["point"])

    def claim(self, claim: Proof, own: range) -> None:
        assert claim["sign"] in (1, -1)
        along = [claim["sign"] * entry for entry in _exact(claim["normal"])]
        split = claim["state"]
        assert split is None or split >= 0
        choices = _choices(self.proof, split)
        cases: list[Any] = claim["cases"]
        for a, (chosen, case) in enumerate(zip(choices, cases, strict=True)):
            if "same" in case:
                assert split is not None
                self.same(split, a, case["same"], cases)
            elif "empty" in case:
                self.void(case["empty"], chosen, own.start)
            else:
                self.below(along, Fraction(claim["value"]), case, chosen, own.stop)
                groups = _split(case)
                total = sum(Fraction(g[-1]) for g in groups if g[0] == "d" and g[1] in own)
                assert total < 1

    def node(self, node: Proof, chosen: dict[int, int], value: Fraction | None) -> None:
        if "split" in node:
            split = node["split"]
            assert split not in chosen
            assert len(node["children"]) == self.actions(split)
            for a, child in enumerate(node["children"]):
                if "same" in child:
                    self.same(split, a, child["same"], node["children"])
                else:
                    self.node(child, chosen | {split: a}, value)
        elif "bound" in node:
            assert value is not None
            self.below(self.objective, value, node["bound"], chosen, len(self.claims))
        else:
            self.void(node["empty"], chosen, len(self.claims))

    def below(
        self,
        along: list[Fraction],
        value: Fraction,
        listed: list[Any],
        chosen: dict[int, int],
        known: int,
    ) -> None:
        rest, beta = self.left_over(along, listed, chosen, known)
        assert value - beta >= 0
        assert self.norm**2 * _dot(rest, rest) <= (value - beta) ** 2

    def void(self, listed: list[Any], chosen: dict[int, int], known: int) -> None:
        zero = [Fraction(0)] * len(self.objective)
        rest, beta = self.left_over(zero, listed, chosen, known)
        assert beta < 0
        assert self.norm**2 * _dot(rest, rest) < beta**2

    def left_over(
        self, along: list[Fraction], listed: list[Any], chosen: dict[int, int], known: int
    ) -> tuple[list[Fraction], Fraction]:
        beta = Fraction(0)
        for group in _split(listed):
            y = Fraction(group[-1])
            normal, limit = self.used(group, y, chosen, known)
            along = [a - y * x for a, x in zip(along, normal, strict=True)]
            beta += y * limit
        return along, beta

    def used(
        self, group: list[Any], y: Fraction, chosen: dict[int, int], known: int
    ) -> tuple[list[Fraction], Fraction]:
        """The normal and the limit of an inequality that a multiplier uses."""
        letter, index = group[0], group[1]
        assert index >= 0
        assert group[-2] >= 0
        if letter == "c":
            each = self.proof["cuts"][index]
            limit = each["high"] if y > 0 else each["low"]
            assert limit is not None or y == 0
            return _exact(each["normal"]), Fraction(limit or 0)
        if letter == "d":
            assert index < known
            assert y >= 0
            each = self.claims[index]
            normal = [each["sign"] * entry for entry in _exact(each["normal"])]
            return normal, Fraction(each["value"])
        slab = self.proof["states"][index]["slabs"][group[2]]
        r, *x = _exact(slab["row"])
        if letter == "b":
            assert self.proof["bellman"]
            assert y >= 0
        else:
            assert letter == "s"
            assert chosen[index] == slab["action"]
        w = Fraction(slab["radius"])
        return x, w - r if y >= 0 else -w - r

    def same(self, split: int, b: int, a: int, siblings: list[Any]) -> None:
        assert 0 <= a < len(siblings)
        assert "same" not in siblings[a]
        assert _implies(self.proof, split, b, a)

    def actions(self, split: int) -> int:
        assert split >= 0
        return _actions(self.proof, split)

    def point(self, point: Proof) -> None:
        theta, within = _exact(point["theta"]), Fraction(point["tolerance"])
        assert within >= 0
        assert _dot(theta, theta) <= (self.norm + within) ** 2
        assert abs(_dot(theta, self.objective) - Fraction(point["value"])) <= within
        for each in self.proof["cuts"]:
            value = _dot(theta, _exact(each["normal"]))
            assert each["low"] is None or value >= Fraction(each["low"]) - within
            assert each["high"] is None or value <= Fraction(each["high"]) + within
        for each in self.proof["states"]:
            errors = [_dot([Fraction(1), *theta], _exact(slab["row"])) for slab in each["slabs"]]
            outside = [
                abs(error) - Fraction(slab["radius"]) > within
                for slab, error in zip(each["slabs"], errors, strict=True)
            ]
            broken = {
                slab["action"] for slab, out in zip(each["slabs"], outside, strict=True) if out
            }
            assert len(broken) < each["actions"]
            if self.proof["bellman"]:
                for slab, error in zip(each["slabs"], errors, strict=True):
                    assert error - Fraction(slab["radius"]) <= within


def _split(listed: list[Any]) -> list[list[Any]]:
    """Groups of a multiplier list."""
    groups: list[list[Any]] = []
    rest = listed
    while rest:
        width = {"s": 4, "b": 4, "c": 3, "d": 3}[rest[0]]
        assert len(rest) >= width
        groups.append(rest[:width])
        rest = rest[width:]
    return groups


# --- a bank of proofs ----------------------------------------------------------------------------


def random_problem(seed: int) -> Proof:
    """A tiny problem that leaves some parameter, with refinements and copies among its actions."""
    rng = np.random.default_rng(seed)
    dim, count = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    norm = float(rng.uniform(1, 3))
    truth = rng.normal(size=dim)
    truth *= rng.uniform(0.1, 1) * norm / float(np.linalg.norm(truth))
    bellman = bool(rng.integers(2))
    states: list[Proof] = []
    for _ in range(count):
        actions = int(rng.integers(1, 4))
        right = int(rng.integers(actions))
        slabs: list[tuple[int, list[float], float]] = []
        for a in range(actions):
            x = rng.normal(size=dim)
            error = 0.0 if a == right else -abs(rng.normal()) if bellman else rng.normal()
            radius = float(rng.uniform(0.01, 0.3))
            slabs.append((a, [error - float(x @ truth), *x.tolist()], radius))
            if rng.integers(3) == 0:  # measured again
                again = [slabs[-1][1][0] + radius / 9, *x.tolist()]
                slabs.append((a, again, radius / 2))
        if rng.integers(2) and actions > 1:  # another action that does the same
            copies = [(actions, row, radius / 2) for a, row, radius in slabs if a == right]
            slabs, actions = slabs + copies, actions + 1
        states.append(state(actions, *slabs))
    cuts: list[Proof] = []
    for _ in range(int(rng.integers(3))):
        normal = rng.normal(size=dim)
        value, side = float(normal @ truth), int(rng.integers(3))
        low, high = value - rng.uniform(0, 0.5), value + rng.uniform(0, 0.5)
        cuts.append(cut(normal.tolist(), low if side != 1 else None, high if side != 2 else None))
    return problem(rng.normal(size=dim).tolist(), norm, states, cuts, bellman=bellman)


def empty_problem(seed: int) -> Proof:
    """A tiny problem that leaves no parameter, by its ball or by its slabs."""
    given = random_problem(seed)
    if seed % 2:
        return given | {"norm": 1e-3, "cuts": [cut([1.0] * len(given["objective"]), 2.0, None)]}
    dim = len(given["objective"])
    opposed = [
        state(2, (0, [value, *[1.0] * dim], 0.25), (1, [value, *[1.0] * dim], 0.125))
        for value in (1.0, -1.0)
    ]
    return given | {"states": [*opposed, *given["states"]][:3]}


def hull_proof(seed: int) -> Proof:
    """A proof whose leaves use derived claims, some of them derived from others."""
    given = random_problem(seed)
    dim = len(given["objective"])
    sides = itertools.product(np.eye(dim).tolist(), (1, -1))
    first = [derived(given, normal, sign, 0) for normal, sign in sides]
    given = with_claims(given, first)
    last = len(given["states"]) - 1
    given = with_claims(given, [derived(given, [1.0] * dim, 1, last)], [])
    return solved(with_claims(given, [derived(given, given["objective"], 1, None)]))


def contraction_proof() -> Proof:
    """Values of two states that are bounded by one another; the ball is far away and not used.

    theta = (v, v'), v = 1/4 + v'/2 up to 1/4, and v' = 1/4 + v/2 or v' = 1/2, up to 1/4: both are
    at most 1, and at least 0.
    """
    states = [
        state(1, (0, [0.25, -1.0, 0.5], 0.25)),
        state(2, (0, [0.25, 0.5, -1.0], 0.25), (1, [0.5, 0.0, -1.0], 0.25)),
    ]
    given = problem([1.0, 1.0], 1e6, states)
    block = [
        _claim([1.0, 0.0], 1, 1.0, 0, [["s", 0, 0, -1.0, "d", 1, 0.5]]),
        _claim([0.0, 1.0], 1, 1.0, 1, [["s", 1, 0, -1.0, "d", 0, 0.5], ["s", 1, 1, -1.0]]),
        _claim([1.0, 0.0], -1, 0.0, 0, [["s", 0, 0, 1.0, "d", 3, 0.5]]),
        _claim([0.0, 1.0], -1, 0.0, 1, [["s", 1, 0, 1.0, "d", 2, 0.5], ["s", 1, 1, 1.0]]),
    ]
    tree = {"bound": ["d", 0, 1.0, "d", 1, 1.0]}
    point = {"theta": [1.0, 1.0], "value": 2.0, "tolerance": 0.0}
    return claimed(with_claims(given, block), tree, 2.0, point)


def cases_proof() -> Proof:
    """By hand: a claim with a `same` and an `empty` case, and a tree with both."""
    states = [
        state(3, (0, [-1.0, 1.0], 0.5), (1, [-9.0, 1.0], 0.5), (2, [-1.0, 1.0], 0.25), stage=2),
        state(2, (0, [0.0, 1.0], 0.75), (0, [0.0, 2.0], 2.5), (1, [-7.0, 1.0], 0.5)),
    ]
    given = problem([1.0], 4.0, states, [cut([1.0], None, 3.0), cut([2.0], -8.0, None)])
    nothing = {"empty": ["s", 0, 1, -1.0, "c", 0, 1.0]}
    claim = _claim([1.0], 1, 1.5, 0, [["s", 0, 0, 1.0], nothing, {"same": 0}])
    high = {"empty": ["s", 1, 2, -1.0, "d", 0, 1.0]}
    near = {"split": 1, "children": [{"bound": ["s", 1, 0, 1.0]}, high]}
    tree = {"split": 0, "children": [near, nothing, {"same": 0}]}
    point = {"theta": [0.75], "value": 0.75, "tolerance": 1e-3}
    return claimed(with_claims(given, [claim]), tree, 0.75, point)


def _claim(
    normal: list[float], sign: int, value: float, split: int | None, cases: list[Any]
) -> Proof:
    return {"normal": normal, "sign": sign, "value": value, "state": split, "cases": cases}


def bank() -> dict[str, Proof]:
    """Valid proofs of all kinds."""
    proofs = {"contraction": contraction_proof(), "cases": cases_proof()}
    proofs |= {f"random {seed}": solved(random_problem(seed)) for seed in range(30)}
    proofs |= {f"empty {seed}": solved(empty_problem(seed)) for seed in range(6)}
    proofs |= {f"hull {seed}": hull_proof(seed) for seed in range(6)}
    return json.loads(json.dumps(proofs))  # nothing in two places is the same object
