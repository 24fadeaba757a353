"""Random changes of a proof file, each of which a checker has to notice."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from typing import Any, cast

import numpy as np
from proof_reference import Proof

Place = tuple[str | int, ...]


def put(content: Any, place: Place, value: object) -> None:
    for key in place[:-1]:
        content = content[key]
    content[place[-1]] = value


def get(content: Any, place: Place) -> Any:
    for key in place:
        content = content[key]
    return content


def canonical(content: object) -> str:
    return json.dumps(content, sort_keys=True)


def places(content: object, place: Place = ()) -> Iterator[Place]:
    """Every place in a file, the whole left out."""
    entries: Any = ()
    if isinstance(content, dict):
        entries = cast("dict[str, object]", content).items()
    elif isinstance(content, list):
        entries = enumerate(cast("list[object]", content))
    for key, value in entries:
        yield (*place, key)
        yield from places(value, (*place, key))


def numbers(proof: Proof) -> list[Place]:
    """Places of all numbers, of indices too."""
    return [place for place in places(proof) if type(get(proof, place)) in (int, float)]


def containers(proof: Proof) -> list[Place]:
    """Places of all arrays that hold something."""
    found = ((place, get(proof, place)) for place in places(proof))
    return [place for place, inner in found if type(inner) is list and inner]


def nodes(proof: Proof) -> list[Place]:
    """Places of all nodes of the tree."""
    inner = [place for place in places(proof["tree"]) if place[-2:-1] == ("children",)]
    return [("tree",), *(("tree", *place) for place in inner)]


def pick(rng: np.random.Generator, among: list[Place]) -> Place:
    return among[int(rng.integers(len(among)))]


def nudge(proof: Proof, rng: np.random.Generator) -> None:
    """A number moves, by a relative 1e-12 or more."""
    place = pick(rng, numbers(proof))
    number = get(proof, place)
    if type(number) is int:
        put(proof, place, number + int(rng.choice([-2, -1, 1, 2])))
        return
    step = 10.0 ** rng.uniform(-12, 3) * rng.choice([-1, 1])
    put(proof, place, number * (1 + step) if number else step)


def sharpen(proof: Proof, rng: np.random.Generator) -> None:
    """The claim says more than before."""
    if "value" in proof["claim"]:
        proof["claim"]["value"] -= 10.0 ** rng.uniform(-9, 0)
    else:
        nudge(proof, rng)


def rewrite(proof: Proof, rng: np.random.Generator) -> None:
    """A number becomes another one altogether."""
    others = (0, 0.0, 1, -1, 1.0, -1.0, 1e300, 5e-324, -1e-300, 2.5, 10**30)
    put(proof, pick(rng, numbers(proof)), others[int(rng.integers(len(others)))])


def flip_sign(proof: Proof, rng: np.random.Generator) -> None:
    place = pick(rng, numbers(proof))
    put(proof, place, -get(proof, place))


def widen(proof: Proof, rng: np.random.Generator) -> None:
    """A radius, a limit of a cut or the norm changes."""
    keys = ("radius", "low", "high", "norm")
    place = pick(rng, [place for place in numbers(proof) if place[-1] in keys])
    put(proof, place, get(proof, place) * float(rng.choice([0.5, 0.999, 1.001, 2.0, 10.0])))


def drop(proof: Proof, rng: np.random.Generator) -> None:
    inner = get(proof, pick(rng, containers(proof)))
    del inner[int(rng.integers(len(inner)))]


def repeat(proof: Proof, rng: np.random.Generator) -> None:
    inner = get(proof, pick(rng, containers(proof)))
    at = int(rng.integers(len(inner)))
    inner.insert(at, deepcopy(inner[at]))


def reorder(proof: Proof, rng: np.random.Generator) -> None:
    inner = get(proof, pick(rng, containers(proof)))
    first, second = (int(rng.integers(len(inner))) for _ in range(2))
    inner[first], inner[second] = inner[second], inner[first]


def graft(proof: Proof, rng: np.random.Generator) -> None:
    """A node becomes another node of the tree, or says `same` or `empty`."""
    place, other = pick(rng, nodes(proof)), pick(rng, nodes(proof))
    made: list[Any] = [{"same": int(rng.integers(3))}, {"empty": []}, {"bound": []}]
    made.append(deepcopy(get(proof, other)))
    put(proof, place, made[int(rng.integers(len(made)))])


def swap_actions(proof: Proof, rng: np.random.Generator) -> None:
    """Two slabs exchange their actions, or their rows."""
    slabs = [slab for each in proof["states"] for slab in each["slabs"]]
    if not slabs:
        return
    key = ("action", "row", "radius")[int(rng.integers(3))]
    first, second = (slabs[int(rng.integers(len(slabs)))] for _ in range(2))
    first[key], second[key] = second[key], first[key]


def delete(proof: Proof, rng: np.random.Generator) -> None:
    keyed = [place for place in places(proof) if isinstance(place[-1], str)]
    place = pick(rng, keyed)
    del get(proof, place[:-1])[place[-1]]


def retype(proof: Proof, rng: np.random.Generator) -> None:
    others: list[Any] = [None, True, False, "", "s", [], {}, 1]
    put(proof, pick(rng, [*places(proof)]), others[int(rng.integers(len(others)))])


def restate(proof: Proof, rng: np.random.Generator) -> None:
    """The claim becomes one of the other kind, or the Bellman inequalities come or go."""
    if rng.integers(2):
        proof["bellman"] = not proof["bellman"]
    elif proof["claim"]["kind"] == "upper":
        proof["claim"], proof["point"] = {"kind": "empty"}, None
    else:
        proof["claim"] = {"kind": "upper", "value": float(rng.normal())}


Corruption = Callable[[Proof, np.random.Generator], None]
MOVES: list[Corruption] = [
    nudge, nudge, sharpen, rewrite, flip_sign, widen, drop, repeat, reorder, graft,
    swap_actions, delete, retype, restate,
]  # fmt: skip


def corrupted(
    proofs: Iterable[Proof], count: int, moves: Sequence[Corruption], seed: int
) -> Iterator[tuple[str, Proof]]:
    """Each proof changed at random, once each in ``count`` ways: the change's name and the file."""
    for which, proof in enumerate(proofs):
        rng = np.random.default_rng([seed, which])
        made = 0
        for number in itertools.count():
            if made == count:
                break
            move = moves[number % len(moves)]
            other = deepcopy(proof)
            move(other, rng)
            if canonical(other) != canonical(proof):
                made += 1
                yield move.__name__, other
