"""Checks a proof file in exact arithmetic, trusting nothing of the program that wrote it.

``docs/proof-format.md`` says what a proof file states and when it is a proof. This module decides
whether it is one. It imports nothing of the package and needs the standard library only, so a copy
of this one file is enough to check a proof anywhere::

    python checker.py proof.json

Every number of a file is a double, that is an integer divided by a power of two. The data are
brought to one common power of two and the multipliers of a leaf to another, so that a leaf is
checked by multiplying and adding integers; nothing is ever rounded.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from operator import mul
from pathlib import Path
from typing import Any, Final, NoReturn, cast

__all__ = ["SCHEMA", "Verdict", "digest_of", "main", "verify_file", "verify_text"]

SCHEMA: Final = "tensorplan-proof/1"

ACCEPTED, REJECTED, UNREADABLE = 0, 1, 2
"""Exit codes."""

_WIDTHS: Final = {"s": 4, "c": 3, "b": 4, "d": 3}
"""Entries of a group of a multiplier list, by the letter that it begins with."""

_NO_CHOICE: Final = -1
_SHOWN: Final = 40
"""Most characters of a wrong value that a message repeats."""

_EXTRA_BITS: Final = 64
"""Binary digits behind the point of a square root; for messages only."""

Row = tuple[int, ...]
"""A normal and the limit of its inequality, [d + 1], as integers at the common scale."""


@dataclass(frozen=True)
class Verdict:
    """What a check found.

    Attributes:
        accepted: whether the file is a proof of what it claims.
        reason: where and why it is not, such as ``tree.children[2].bound: ...``; else None.
        kind: ``"upper"`` or ``"empty"``, the kind of the claim that is proved; None if none is.
        value: the upper bound that is proved, if that is the claim.
        norm: B, bound on the norm of allowed parameters.
        norm_used: whether the proof uses B at all; if not, its claim holds for every B.
        norm_limit: the claim holds for every norm bound up to this, which is at least B; None if it
            holds for every one.
        point_value: what the point of the file predicts, if it has one,
        point_tolerance: and how far it may be from what is allowed.
        leaves: leaves of the tree, those that are covered by a sibling included.
        splits: inner nodes of the tree.
        claims: derived claims.
    """

    accepted: bool
    reason: str | None = None
    kind: str | None = None
    value: float | None = None
    norm: float | None = None
    norm_used: bool | None = None
    norm_limit: float | None = None
    point_value: float | None = None
    point_tolerance: float | None = None
    leaves: int = 0
    splits: int = 0
    claims: int = 0

    def lines(self) -> list[tuple[str, str]]:
        """The verdict in words: labels and sentences."""
        if not self.accepted:
            return [("verdict", "rejected"), ("reason", str(self.reason))]
        proved = "no parameter is allowed"
        if self.kind == "upper":
            proved = f"every allowed parameter predicts at most {self.value!r}"
        ball = "not used: the claim holds for parameters of any norm"
        if self.norm_used:
            ball = f"used: the claim holds for norms of at most {self.norm_limit!r}"
        lines = [("verdict", "accepted"), ("proved", proved), ("norm bound", ball)]
        if self.point_value is not None:
            within = f"a parameter that is allowed within {self.point_tolerance!r}"
            lines.append(("point", f"{within} predicts {self.point_value!r}"))
        counted = ((self.leaves, "leaf", "leaves"), (self.splits, "split", "splits"))
        counts = [_counted(*each) for each in counted]
        counts.append(_counted(self.claims, "derived claim", "derived claims"))
        return [*lines, ("size", ", ".join(counts))]


def verify_file(path: str | Path) -> Verdict:
    """Check a proof file.

    Args:
        path: of the file.

    Returns:
        The verdict, also if the file holds no proof at all.

    Raises:
        OSError: if the file cannot be read.
    """
    content = Path(path).read_bytes()
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        return Verdict(accepted=False, reason=f"file: byte {error.start} is not UTF-8 text")
    return verify_text(text)


def verify_text(text: str) -> Verdict:
    """Check the text of a proof file; whatever the text is, nothing is raised."""
    try:
        return _verify(_load(text))
    except _Wrong as wrong:
        return Verdict(accepted=False, reason=f"{wrong.place or 'file'}: {wrong.what}")


def digest_of(proof: Mapping[str, object]) -> str:
    """The digest that belongs to a proof.

    Args:
        proof: the proof as JSON has it; a digest that it may hold already does not count.

    Returns:
        SHA-256 of its canonical text, in hexadecimal.
    """
    rest = {key: value for key, value in proof.items() if key != "digest"}
    return hashlib.sha256(_canonical(rest).encode("ascii")).hexdigest()


def main(argv: Sequence[str] | None = None) -> int:
    """Check the file named on the command line and print the verdict.

    Args:
        argv: the arguments after the program's name; by default those of the process.

    Returns:
        0 for a proof, 1 for a false or damaged one, 2 for a file that cannot be read.
    """
    parser = argparse.ArgumentParser(description="Check a proof file in exact arithmetic.")
    parser.add_argument("file", metavar="FILE")
    try:
        verdict = verify_file(parser.parse_args(argv).file)
    except OSError as error:
        print(f"error: {error}", file=sys.stderr)
        return UNREADABLE
    for label, words in verdict.lines():
        print(f"{label}: {words}")
    return ACCEPTED if verdict.accepted else REJECTED


class _Wrong(Exception):
    """Something is wrong with a proof.

    Args:
        place: where, as a path from the root of the file.
        what: what is wrong there.
    """

    def __init__(self, place: str, what: str) -> None:
        super().__init__(place, what)
        self.place = place
        self.what = what

    def inside(self, place: str) -> _Wrong:
        """The same, seen from further out."""
        return _Wrong(place + self.place, self.what)


# --- the whole -----------------------------------------------------------------------------------


def _verify(content: object) -> Verdict:
    keys = ("schema", "objective", "norm", "states", "cuts", "bellman", "blocks", "tree")
    proof = _object(content, "", (*keys, "claim", "point", "digest"))
    if proof["schema"] != SCHEMA:
        raise _Wrong("schema", f"must be {SCHEMA!r}, not {_shown(proof['schema'])}")
    if proof["digest"] != digest_of(proof):
        raise _Wrong("digest", "is not that of the rest: the file was changed or cut")
    data = _read_data(proof)
    blocks = _read_blocks(proof["blocks"], data)
    value = _read_claim_value(proof["claim"])
    point = None if proof["point"] is None else _read_point(proof["point"], data)
    if point is not None:
        if value is None:
            raise _Wrong("point", "must be null where the claim is that no parameter is allowed")
        _check_point(point, data)
    check = _Check(data, blocks, value)
    check.check_claims()
    check.check_tree(proof["tree"])
    limit = min((check.limit, *(check.claim_limits[n] for n in check.used)))
    return Verdict(
        accepted=True,
        kind="empty" if value is None else "upper",
        value=value,
        norm=data.norm,
        norm_used=limit < math.inf,
        norm_limit=limit if limit < math.inf else None,
        point_value=None if point is None else point.value,
        point_tolerance=None if point is None else point.tolerance,
        leaves=check.leaves,
        splits=check.splits,
        claims=len(check.claims),
    )


# --- schema and types ----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Slab:
    """|r + <x, theta>| <= radius where ``action`` is chosen; row is (r, x)."""

    action: int
    row: tuple[float, ...]
    radius: float


@dataclass(frozen=True)
class _State:
    """A disjunction over actions."""

    actions: int
    slabs: list[_Slab]


@dataclass(frozen=True)
class _Cut:
    """low <= <normal, theta> <= high; None for a limit that is absent."""

    normal: tuple[float, ...]
    low: float | None
    high: float | None


@dataclass(frozen=True)
class _Data:
    """What parameters are allowed, and the objective."""

    objective: tuple[float, ...]
    norm: float
    states: list[_State]
    cuts: list[_Cut]
    bellman: bool


@dataclass(frozen=True)
class _Claim:
    """sign <normal, theta> <= value for every allowed theta; one case per action of the state."""

    normal: tuple[float, ...]
    sign: int
    value: float
    state: int | None
    cases: list[Any]
    place: str


@dataclass(frozen=True)
class _Point:
    """A parameter that is allowed within the tolerance."""

    theta: tuple[float, ...]
    value: float
    tolerance: float


def _read_data(proof: dict[str, Any]) -> _Data:
    objective = _vector(proof["objective"], "objective")
    if not objective:
        raise _Wrong("objective", "must have at least one entry")
    dim = len(objective)
    states = _array(proof["states"], "states")
    cuts = _array(proof["cuts"], "cuts")
    return _Data(
        objective,
        _number(proof["norm"], "norm", least=0.0),
        [_read_state(state, f"states[{i}]", dim) for i, state in enumerate(states)],
        [_read_cut(cut, f"cuts[{j}]", dim) for j, cut in enumerate(cuts)],
        _flag(proof["bellman"], "bellman"),
    )


def _read_state(content: object, place: str, dim: int) -> _State:
    state = _object(content, place, ("stage", "actions", "slabs"))
    _integer(state["stage"], f"{place}.stage", 0)
    actions = _integer(state["actions"], f"{place}.actions", 1)
    slabs: list[_Slab] = []
    for j, each in enumerate(_array(state["slabs"], f"{place}.slabs")):
        where = f"{place}.slabs[{j}]"
        slab = _object(each, where, ("action", "row", "radius"))
        action = _integer(slab["action"], f"{where}.action", 0, actions - 1)
        row = _vector(slab["row"], f"{where}.row", dim + 1)
        slabs.append(_Slab(action, row, _number(slab["radius"], f"{where}.radius", least=0.0)))
    measured = {slab.action for slab in slabs}
    if len(measured) < actions:
        lacking = next(a for a in range(actions) if a not in measured)
        raise _Wrong(f"{place}.slabs", f"there is none for action {lacking}")
    return _State(actions, slabs)


def _read_cut(content: object, place: str, dim: int) -> _Cut:
    cut = _object(content, place, ("normal", "low", "high"))
    low, high = (
        None if cut[side] is None else _number(cut[side], f"{place}.{side}")
        for side in ("low", "high")
    )
    return _Cut(_vector(cut["normal"], f"{place}.normal", dim), low, high)


def _read_blocks(content: object, data: _Data) -> list[list[_Claim]]:
    return [
        [
            _read_claim(claim, f"blocks[{b}][{n}]", data)
            for n, claim in enumerate(_array(block, f"blocks[{b}]"))
        ]
        for b, block in enumerate(_array(content, "blocks"))
    ]


def _read_claim(content: object, place: str, data: _Data) -> _Claim:
    claim = _object(content, place, ("normal", "sign", "value", "state", "cases"))
    sign = _integer(claim["sign"], f"{place}.sign", -1, 1)
    if sign == 0:
        raise _Wrong(f"{place}.sign", "must be 1 or -1, not 0")
    state, cases = claim["state"], _array(claim["cases"], f"{place}.cases")
    needed = 1
    if state is not None:
        state = _integer(state, f"{place}.state", 0, len(data.states) - 1)
        needed = data.states[state].actions
    if len(cases) != needed:
        raise _Wrong(f"{place}.cases", f"there must be {needed}, not {len(cases)}")
    return _Claim(
        _vector(claim["normal"], f"{place}.normal", len(data.objective)),
        sign,
        _number(claim["value"], f"{place}.value"),
        state,
        cases,
        place,
    )


def _read_claim_value(content: object) -> float | None:
    """The claimed upper bound; None if the claim is that no parameter is allowed."""
    claim = _object(content, "claim", ("kind", "value") if _has(content, "value") else ("kind",))
    kind = "upper" if "value" in claim else "empty"
    if claim["kind"] != kind:
        raise _Wrong("claim.kind", f"must be {kind!r} here, not {_shown(claim['kind'])}")
    return _number(claim["value"], "claim.value") if "value" in claim else None


def _read_point(content: object, data: _Data) -> _Point:
    point = _object(content, "point", ("theta", "value", "tolerance"))
    return _Point(
        _vector(point["theta"], "point.theta", len(data.objective)),
        _number(point["value"], "point.value"),
        _number(point["tolerance"], "point.tolerance", least=0.0),
    )


def _object(value: object, place: str, keys: Sequence[str]) -> dict[str, Any]:
    """An object with exactly these keys."""
    if type(value) is not dict:
        raise _Wrong(place, f"must be an object, not {_shown(value)}")
    found = cast("dict[str, Any]", value)
    for key in keys:
        if key not in found:
            raise _Wrong(place, f"lacks the key {key!r}")
    for key in found:
        if key not in keys:
            raise _Wrong(place, f"has a key that does not belong there: {_shown(key)}")
    return found


def _has(value: object, key: str) -> bool:
    return isinstance(value, dict) and key in value


def _array(value: object, place: str) -> list[Any]:
    if type(value) is not list:
        raise _Wrong(place, f"must be an array, not {_shown(value)}")
    return cast("list[Any]", value)


def _vector(value: object, place: str, length: int | None = None) -> tuple[float, ...]:
    entries = _array(value, place)
    if length is not None and len(entries) != length:
        raise _Wrong(place, f"must have {length} entries, not {len(entries)}")
    return tuple(_number(entry, f"{place}[{n}]") for n, entry in enumerate(entries))


def _number(value: object, place: str, least: float = -math.inf) -> float:
    """A number that a double holds exactly."""
    if type(value) is float and math.isfinite(value):
        number = value
    elif type(value) is int and _is_double(value):
        number = float(value)
    else:
        raise _Wrong(place, f"must be a number that a double holds, not {_shown(value)}")
    if number < least:
        raise _Wrong(place, f"must be at least {least:g}, not {number!r}")
    return number


def _is_double(value: int) -> bool:
    try:
        return int(float(value)) == value
    except OverflowError:
        return False


def _integer(value: object, place: str, low: int, high: int | None = None) -> int:
    if type(value) is not int or value < low or (high is not None and value > high):
        rule = f"of at least {low}" if high is None else f"from {low} to {high}"
        raise _Wrong(place, f"must be an integer {rule}, not {_shown(value)}")
    return value


def _flag(value: object, place: str) -> bool:
    if type(value) is not bool:
        raise _Wrong(place, f"must be true or false, not {_shown(value)}")
    return value


def _shown(value: object) -> str:
    """A value in a few characters, whatever it is."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "an array"
    text = json.dumps(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def _counted(count: int, one: str, several: str) -> str:
    return f"{count:,} {one if count == 1 else several}"


# --- exact arithmetic ----------------------------------------------------------------------------


class _Scale:
    """A power of two whose multiples are all of some doubles.

    Args:
        values: the doubles.
    """

    def __init__(self, values: Iterable[float]) -> None:
        self.bits = max((_binary(value)[1] for value in values), default=0)

    def __call__(self, value: float) -> int:
        """How many multiples of ``2**-bits`` a value is."""
        numerator, bits = _binary(value)
        return numerator << (self.bits - bits)

    def row(self, values: Iterable[float]) -> Row:
        """The same for several values."""
        return tuple(self(value) for value in values)


def _binary(value: float) -> tuple[int, int]:
    """(n, k) with value = n / 2**k."""
    numerator, denominator = value.as_integer_ratio()
    return numerator, denominator.bit_length() - 1


def _near(numerator: int, bits: int) -> float:
    """About numerator / 2**bits, for messages."""
    try:
        return numerator / (1 << bits)
    except OverflowError:
        return math.inf if numerator > 0 else -math.inf


def _data_values(data: _Data) -> Iterable[float]:
    yield from data.objective
    for state in data.states:
        for slab in state.slabs:
            yield from slab.row
            yield slab.radius
    for cut in data.cuts:
        yield from cut.normal
        yield from (limit for limit in (cut.low, cut.high) if limit is not None)


def _check_point(point: _Point, data: _Data) -> None:
    """The point is allowed, and predicts its value, within its tolerance."""
    scale = _Scale(_data_values(data))
    own = _Scale((*point.theta, point.value, point.tolerance, data.norm))
    theta, tolerance = own.row(point.theta), own(point.tolerance)
    if sum(map(mul, theta, theta)) > (own(data.norm) + tolerance) ** 2:
        raise _Wrong("point.theta", "its norm exceeds the bound by more than the tolerance")
    slack = tolerance << scale.bits

    def predicted(normal: Iterable[float]) -> int:
        return sum(map(mul, theta, scale.row(normal)))

    def limit(value: float) -> int:
        return scale(value) << own.bits

    if abs(predicted(data.objective) - (own(point.value) << scale.bits)) > slack:
        raise _Wrong("point.value", "is not what theta predicts, within the tolerance")
    for j, cut in enumerate(data.cuts):
        value = predicted(cut.normal)
        low_holds = cut.low is None or value >= limit(cut.low) - slack
        if not (low_holds and (cut.high is None or value <= limit(cut.high) + slack)):
            raise _Wrong("point.theta", f"breaks cut {j} by more than the tolerance")
    for i, state in enumerate(data.states):
        held = [True] * state.actions
        for j, slab in enumerate(state.slabs):
            error = limit(slab.row[0]) + predicted(slab.row[1:])
            widest = limit(slab.radius) + slack
            if data.bellman and error > widest:
                broken = f"breaks the Bellman inequality of slab {j} of state {i}"
                raise _Wrong("point.theta", f"{broken} by more than the tolerance")
            held[slab.action] &= abs(error) <= widest
        if not any(held):
            raise _Wrong("point.theta", f"is in the slabs of no action of state {i}")


# --- the proof -----------------------------------------------------------------------------------


@dataclass
class _Use:
    """What a list of multipliers rests on.

    Attributes:
        claims: the derived claims that it uses.
        own: multipliers of claims of the block that is being proved.
        limit: largest bound on the norm that it is seen to hold for; inf if it uses none.
    """

    claims: set[int] = field(default_factory=set[int])
    own: list[float] = field(default_factory=list[float])
    limit: float = math.inf


class _Check:
    """A check under way.

    Args:
        data: what is allowed.
        blocks: derived claims.
        value: the claimed upper bound, or None for the claim that nothing is allowed.
    """

    def __init__(self, data: _Data, blocks: list[list[_Claim]], value: float | None) -> None:
        self.data = data
        self.blocks = blocks
        self.claims = [claim for block in blocks for claim in block]
        claimed = [number for claim in self.claims for number in (*claim.normal, claim.value)]
        bound = () if value is None else (value,)
        self.scale = scale = _Scale((*_data_values(data), *claimed, *bound))
        self.norm, self.norm_bits = _binary(data.norm)
        self.upper, self.lower = self._slab_rows()
        self.cut_upper = [self._cut_row(cut.normal, cut.high) for cut in data.cuts]
        self.cut_lower = [self._cut_row(cut.normal, cut.low) for cut in data.cuts]
        self.claim_rows = [
            scale.row((*(claim.sign * x for x in claim.normal), claim.value))
            for claim in self.claims
        ]
        self.claim_limits = [math.inf] * len(self.claims)
        self.goal = None if value is None else scale.row((*data.objective, value))
        self.nothing = (0,) * (len(data.objective) + 1)
        self.known = 0
        self.chosen = [_NO_CHOICE] * len(data.states)
        self.used: set[int] = set()
        self.limit = math.inf
        self.leaves = self.splits = 0

    def _slab_rows(self) -> tuple[list[list[Row]], list[list[Row]]]:
        """Both inequalities of every slab: <x, theta> <= w - r and <x, theta> >= -w - r."""
        upper: list[list[Row]] = []
        lower: list[list[Row]] = []
        for state in self.data.states:
            rows = [(self.scale.row(slab.row), self.scale(slab.radius)) for slab in state.slabs]
            upper.append([(*row[1:], radius - row[0]) for row, radius in rows])
            lower.append([(*row[1:], -radius - row[0]) for row, radius in rows])
        return upper, lower

    def _cut_row(self, normal: tuple[float, ...], limit: float | None) -> Row | None:
        return None if limit is None else self.scale.row((*normal, limit))

    # Derived claims.

    def check_claims(self) -> None:
        """Every derived claim follows from the data, earlier blocks and its own block."""
        for block in self.blocks:
            first, self.known = self.known, self.known + len(block)
            uses = [self._check_claim(n, first) for n in range(first, self.known)]
            changed = True
            while changed:  # a claim holds as far as those that it uses
                changed = False
                for n, use in enumerate(uses, first):
                    limit = min((use.limit, *(self.claim_limits[m] for m in use.claims)))
                    changed |= limit < self.claim_limits[n]
                    self.claim_limits[n] = limit

    def _check_claim(self, n: int, first: int) -> _Use:
        """One claim; ``first`` is where its block begins."""
        claim = self.claims[n]
        whole = _Use()
        for a, case in enumerate(claim.cases):
            if claim.state is not None:
                self.chosen[claim.state] = a
            try:
                use = self._check_case(n, a, case, first)
            except _Wrong as wrong:
                raise wrong.inside(f"{claim.place}.cases[{a}]") from None
            whole.claims |= use.claims
            whole.limit = min(whole.limit, use.limit)
        if claim.state is not None:
            self.chosen[claim.state] = _NO_CHOICE
        return whole

    def _check_case(self, n: int, a: int, case: object, first: int) -> _Use:
        if type(case) is list:
            use = self._prove(self.claim_rows[n], cast("list[Any]", case), first)
            if sum(map(Fraction, use.own), Fraction(0)) >= 1:
                raise _Wrong("", "multipliers of claims of its own block must add up to below 1")
            return use
        claim = self.claims[n]
        if _has(case, "same"):
            if claim.state is None:
                raise _Wrong("", "'same' needs the claim to have a state")
            self._check_same(claim.state, a, case, claim.cases)
            return _Use()
        groups = _object(case, "", ("empty",))["empty"]
        try:
            # NOTE: multipliers of a proof that nothing is left can be scaled at will, so that they
            # add up to below 1 says nothing: claims of the block itself would prove themselves.
            return self._prove_empty(_array(groups, ""), first, before=first)
        except _Wrong as wrong:
            raise wrong.inside(".empty") from None

    # The tree.

    def check_tree(self, root: object) -> None:
        """Every split covers all actions, and every leaf is proved."""
        trail: list[int] = []  # states that are split above the node
        path: list[int] = []  # and the actions chosen there
        waiting: list[tuple[object, int, int, int]] = [(root, 0, _NO_CHOICE, _NO_CHOICE)]
        while waiting:
            node, depth, state, action = waiting.pop()
            while len(trail) >= max(depth, 1):
                self.chosen[trail.pop()] = _NO_CHOICE
                path.pop()
            if depth:
                trail.append(state)
                path.append(action)
                self.chosen[state] = action
            try:
                children = self._check_node(node)
            except _Wrong as wrong:
                raise wrong.inside("tree" + "".join(f".children[{a}]" for a in path)) from None
            waiting += [(child, depth + 1, split, a) for split, a, child in reversed(children)]

    def _check_node(self, node: object) -> list[tuple[int, int, object]]:
        """Check one node; returns the children to be checked: state, action, node."""
        if _has(node, "split"):
            return self._check_split(node)
        if _has(node, "bound"):
            groups = _object(node, "", ("bound",))["bound"]
            self._check_leaf(_array(groups, ".bound"), ".bound", self.goal)
            return []
        if _has(node, "same"):
            raise _Wrong("", "'same' is for a child beside its sibling only")
        groups = _object(node, "", ("empty",))["empty"]
        self._check_leaf(_array(groups, ".empty"), ".empty", None)
        return []

    def _check_split(self, node: object) -> list[tuple[int, int, object]]:
        entries = _object(node, "", ("split", "children"))
        state = _integer(entries["split"], ".split", 0, len(self.chosen) - 1)
        if self.chosen[state] != _NO_CHOICE:
            raise _Wrong(".split", f"state {state} is split already, further up")
        children = _array(entries["children"], ".children")
        actions = self.data.states[state].actions
        if len(children) != actions:
            raise _Wrong(".children", f"there must be {actions}, one per action of state {state}")
        self.splits += 1
        further: list[tuple[int, int, object]] = []
        for a, child in enumerate(children):
            if _has(child, "same"):
                try:
                    self._check_same(state, a, child, children)
                except _Wrong as wrong:
                    raise wrong.inside(f".children[{a}]") from None
                self.leaves += 1
            else:
                further.append((state, a, child))
        return further

    def _check_same(self, state: int, b: int, node: object, siblings: list[Any]) -> None:
        """The sibling of action a covers action b: wherever b's slabs hold, a's do."""
        a = _integer(_object(node, "", ("same",))["same"], ".same", 0, len(siblings) - 1)
        if _has(siblings[a], "same"):
            raise _Wrong(".same", f"action {a} is itself covered by another one")
        slabs = self.data.states[state].slabs
        own = [slab for slab in slabs if slab.action == b]
        for wide in (slab for slab in slabs if slab.action == a):
            if not any(slab.row == wide.row and slab.radius <= wide.radius for slab in own):
                raise _Wrong(".same", f"the slabs of action {b} do not imply those of action {a}")

    def _check_leaf(self, groups: list[Any], place: str, goal: Row | None) -> None:
        """A leaf; the goal is None if nothing must be left."""
        if goal is None and place == ".bound":
            raise _Wrong(place, "every leaf must be 'empty' where no parameter is to be allowed")
        try:
            if goal is None:
                use = self._prove_empty(groups, self.known, before=self.known)
            else:
                use = self._prove(goal, groups, self.known)
        except _Wrong as wrong:
            raise wrong.inside(place) from None
        self.leaves += 1
        self.limit = min(self.limit, use.limit)
        self.used |= use.claims

    # Multipliers.

    def _prove(self, goal: Row, groups: list[Any], first: int) -> _Use:
        """The multipliers prove <c, theta> <= u, where the goal is (c, u)."""
        use, slack, square, bits = self._weigh(goal, groups, first, self.known)
        if slack < 0 or self._longer(square, slack):
            excess = _near(*self._excess(slack, square, bits))
            value = _near(goal[-1], self.scale.bits)
            raise _Wrong("", f"the bound that it proves exceeds {value!r} by {excess:.3g}")
        return use

    def _prove_empty(self, groups: list[Any], first: int, *, before: int) -> _Use:
        """The multipliers prove 0 < 0; claims before a number may be used."""
        use, slack, square, bits = self._weigh(self.nothing, groups, first, before)
        if slack <= 0 or not self._shorter(square, slack):
            bound = _near(*self._excess(slack, square, bits))
            raise _Wrong("", f"does not prove that nothing is left: its bound on 0 is {bound:.3g}")
        return use

    def _weigh(
        self, goal: Row, groups: list[Any], first: int, before: int
    ) -> tuple[_Use, int, int, int]:
        """What multipliers leave of a goal (c, u).

        Args:
            goal: (c, u) at the common scale.
            groups: the multiplier list.
            first: claims from here on belong to the block that is being proved.
            before: claims from here on may not be used.

        Returns:
            What they rest on, u - beta and ||v||^2, with v and u - beta in multiples of 2**-bits,
            and these bits.
        """
        use = _Use()
        rows, weights = self._gather(groups, use, first, before)
        scale = _Scale(weights)
        factors = scale.row(weights)
        rest = [entry << scale.bits for entry in goal]
        if rows:
            taken = (sum(map(mul, factors, column)) for column in zip(*rows, strict=True))
            rest = [entry - part for entry, part in zip(rest, taken, strict=True)]
        slack = rest.pop()
        square = sum(map(mul, rest, rest))
        use.limit = self._norm_limit(slack, square)
        return use, slack, square, self.scale.bits + scale.bits

    def _longer(self, square: int, slack: int) -> bool:
        """Whether B ||v|| > slack, for a slack of at least 0."""
        return self.norm**2 * square > slack**2 << 2 * self.norm_bits

    def _shorter(self, square: int, slack: int) -> bool:
        """Whether B ||v|| < slack, for a positive slack."""
        return self.norm**2 * square < slack**2 << 2 * self.norm_bits

    def _norm_limit(self, slack: int, square: int) -> float:
        """The bound on the norm, or a larger B with B ||v|| < slack; inf if there is no end."""
        if not square:
            return math.inf
        limit = _near(math.isqrt((max(slack, 0) ** 2 << 2 * _EXTRA_BITS) // square), _EXTRA_BITS)
        return max(self.data.norm, math.nextafter(limit, 0.0))

    def _excess(self, slack: int, square: int, bits: int) -> tuple[int, int]:
        """About B ||v|| - slack, for messages."""
        finer = bits + self.norm_bits + _EXTRA_BITS
        length = math.isqrt(self.norm**2 * square << 2 * _EXTRA_BITS)
        return length - (slack << self.norm_bits + _EXTRA_BITS), finer

    def _gather(
        self, groups: list[Any], use: _Use, first: int, before: int
    ) -> tuple[list[Row], list[float]]:
        """Rows and multipliers of a list, those that are 0 left out."""
        rows: list[Row] = []
        weights: list[float] = []
        at = 0
        while at < len(groups):
            letter = groups[at]
            width = _WIDTHS.get(letter, 0) if type(letter) is str else 0
            end = at + width
            if not width or end > len(groups):
                raise _Wrong(f"[{at}]", f"no group begins with {_shown(letter)} and ends in time")
            weight = groups[end - 1]
            if type(weight) is not float or not math.isfinite(weight):
                weight = _number(weight, f"[{end - 1}]")
            if letter == "s":
                row = self._slab(groups, at, weight)
            elif letter == "c":
                row = self._cut(groups, at, weight)
            elif letter == "b":
                row = self._bellman(groups, at, weight)
            else:
                row = self._derived(groups, at, weight, before)
                if weight:
                    use.claims.add(groups[at + 1])
                if groups[at + 1] >= first:
                    use.own.append(weight)
            if weight:
                rows.append(row)
                weights.append(weight)
            at = end
        return rows, weights

    def _slab(self, groups: list[Any], at: int, weight: float) -> Row:
        i, j = self._slab_index(groups, at)
        action = self.data.states[i].slabs[j].action
        if self.chosen[i] != action:
            raise _Wrong(f"[{at}]", f"action {action} of state {i} is not chosen here")
        return (self.upper if weight > 0 else self.lower)[i][j]

    def _bellman(self, groups: list[Any], at: int, weight: float) -> Row:
        if not self.data.bellman:
            raise _Wrong(f"[{at}]", "there are no Bellman inequalities in this problem")
        i, j = self._slab_index(groups, at)
        if weight < 0:
            raise _Wrong(f"[{at + 3}]", f"must be at least 0, not {weight!r}")
        return self.upper[i][j]

    def _slab_index(self, groups: list[Any], at: int) -> tuple[int, int]:
        i = groups[at + 1]
        if type(i) is not int or not 0 <= i < len(self.upper):
            i = _integer(i, f"[{at + 1}]", 0, len(self.upper) - 1)
        j = groups[at + 2]
        if type(j) is not int or not 0 <= j < len(self.upper[i]):
            j = _integer(j, f"[{at + 2}]", 0, len(self.upper[i]) - 1)
        return i, j

    def _cut(self, groups: list[Any], at: int, weight: float) -> Row:
        j = _integer(groups[at + 1], f"[{at + 1}]", 0, len(self.cut_upper) - 1)
        if not weight:
            return self.nothing
        row = (self.cut_upper if weight > 0 else self.cut_lower)[j]
        if row is None:
            side = "upper" if weight > 0 else "lower"
            raise _Wrong(f"[{at + 2}]", f"cut {j} has no {side} limit")
        return row

    def _derived(self, groups: list[Any], at: int, weight: float, before: int) -> Row:
        n = _integer(groups[at + 1], f"[{at + 1}]", 0, len(self.claims) - 1)
        if n >= before:
            raise _Wrong(f"[{at + 1}]", f"only claims before {before} may be used here, not {n}")
        if weight < 0:
            raise _Wrong(f"[{at + 2}]", f"must be at least 0, not {weight!r}")
        return self.claim_rows[n]


# --- JSON ----------------------------------------------------------------------------------------


def _load(text: str) -> object:
    """JSON, strictly: no repeated keys, no NaN."""
    try:
        return _load_flat(text)
    except RecursionError:
        return _load_deep(text)


def _load_flat(text: str) -> object:
    try:
        return _DECODER.decode(text)
    except ValueError as error:
        raise _Wrong("", f"is not JSON: {error}") from None


def _load_deep(text: str) -> object:
    """JSON nested more deeply than the standard reader goes.

    Containers are read from the inside out: one that is complete leaves a numbered mark in the
    text of the one around it. The strings of a proof need none of the characters of a mark.
    """
    if "@" in text or "\\" in text:
        raise _Wrong("", "is nested deeply and has strings that no proof has")
    done: list[object] = []
    waiting: list[list[str]] = [[]]
    for piece in re.split(r"([\[\]{}])", text):
        if piece in ("[", "{"):
            waiting.append([piece])
        elif piece in ("]", "}"):
            complete = _filled(_load_flat("".join((*waiting.pop(), piece))), done)
            if not waiting:
                raise _Wrong("", "is not JSON: a bracket is closed that was not opened")
            waiting[-1].append(f'"@{len(done)}"')
            done.append(complete)
        else:
            waiting[-1].append(piece)
    if len(waiting) > 1:
        raise _Wrong("", "is not JSON: a bracket is not closed")
    return _filled([_load_flat("".join(waiting[0]))], done)[0]


def _filled(value: Any, done: list[object]) -> Any:  # noqa: ANN401 (any JSON value)
    """A container with the marks among its entries replaced by what they stand for."""

    def filled(entry: object) -> object:
        return done[int(entry[1:])] if type(entry) is str and entry[:1] == "@" else entry

    if type(value) is dict:
        return {key: filled(entry) for key, entry in cast("dict[str, object]", value).items()}
    return [filled(entry) for entry in value]


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise _Wrong("", f"has the key {_shown(twice)} twice in one object")
    return found


def _no_constant(name: str) -> NoReturn:
    raise _Wrong("", f"has the number {name}, which JSON does not have")


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant)


def _canonical(value: object) -> str:
    """The text that the digest is of."""
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"))
    except RecursionError:
        pass
    parts: list[str] = []
    waiting: list[tuple[bool, Any]] = [(False, value)]  # whether it is text already
    while waiting:
        is_text, item = waiting.pop()
        if is_text:
            parts.append(item)
        elif type(item) is dict:
            waiting.append((True, "}"))
            entries = sorted(cast("dict[str, object]", item).items(), key=lambda entry: entry[0])
            for n, (key, entry) in reversed([*enumerate(entries)]):
                comma = "," if n else ""
                waiting += [(False, entry), (True, f"{comma}{json.dumps(key)}:")]
            waiting.append((True, "{"))
        elif type(item) is list:
            waiting.append((True, "]"))
            for n, entry in reversed([*enumerate(cast("list[object]", item))]):
                waiting += [(False, entry), (True, "," if n else "")]
            waiting.append((True, "["))
        else:
            parts.append(json.dumps(item))
    return "".join(parts)


if __name__ == "__main__":
    sys.exit(main())
