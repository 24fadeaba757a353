"""FrozenLake: cross slippery ice to the goal without falling into a hole."""

from __future__ import annotations

from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from tensorplan.errors import SettingError
from tensorplan.finite import FiniteProcess
from tensorplan.problems.base import Family, LinearTable
from tensorplan.problems.one_hot import clock, optimal_value, with_one_hot, without_features
from tensorplan.records import IntArray, Spec

MAPS: Final = {
    "4x4": "SFFF/FHFH/FFFH/HFFG",
    "8x8": "SFFFFFFF/FFFFFFFF/FFFHFFFF/FFFFFHFF/FFFHFFFF/FHHFFFHF/FHFFHFHF/FFFHFFFG",
}
"""The maps of Gymnasium, by name: S start, F ice, H hole, G goal."""
DISCOUNT: Final = 0.9
"""Discount where neither a discount nor a horizon is given."""

_MOVES: Final = np.array([[0, -1], [1, 0], [0, 1], [-1, 0]])  # left, down, right, up
_SLIPS: Final = np.array([-1, 0, 1])  # quarter turns of the direction that is meant
_TILES: Final = "SFHG"

Ends = Literal["known", "learned"]
_Tiles = npt.NDArray[np.str_]


def build(
    *,
    map: str = "4x4",
    slippery: bool = True,
    ends: Ends = "known",
    discount: float | None = None,
    horizon: int | None = None,
) -> LinearTable:
    """FrozenLake of Gymnasium's toy-text problems.

    Actions are 0 left, 1 down, 2 right, 3 up. On slippery ice a move goes in the direction that
    is meant, or in one of the two across it, each with probability 1/3; a move off the map stays.
    Entering the goal pays 1, and the goal and the holes end the episode. The features have a
    parameter for each tile (and each stage, with a horizon), so that the value of every policy
    that does not look at the past is exactly linear, and a planner can promise v*. They share
    nothing between tiles: what is needed is to measure the tiles that matter, and no others.

    Args:
        map: "4x4", "8x8", or rows of S, F, H and G joined by "/", with one S.
        slippery: whether moves may slip; otherwise the process is deterministic.
        ends: "known" ends the episode in holes and at the goal; with "learned" it goes on there
            without a reward, and a planner has to find out that nothing more is to be had.
        discount: gamma, .9 if there is no horizon either.
        horizon: H, instead of a discount.
    """
    tiles = _read(MAPS.get(map, map), map)
    time = clock(horizon, discount, default=DISCOUNT)
    spec = Spec(
        actions=len(_MOVES),
        dim=1,
        horizon=time.horizon,
        discount=time.discount,
        deterministic=not slippery,
        may_terminate=ends == "known",
    )
    return with_one_hot(_process(spec, tiles))


def _read(rows: str, given: str) -> _Tiles:
    """The tiles of a map: [rows, columns]."""
    lines = rows.split("/")
    if len({len(line) for line in lines}) > 1 or set("".join(lines)) - set(_TILES):
        raise SettingError(
            f"map={given!r}",
            "a map is a name, or rows of equal length made of S, F, H and G, joined by '/'",
            f"The maps with a name are {', '.join(MAPS)}; one of your own is 'SFF/FHF/FFG'.",
        )
    if rows.count("S") != 1 or "G" not in rows:
        raise SettingError(
            f"map={given!r}",
            "a map has exactly one start S, and a goal G",
            "Mark where episodes start, and what they are after.",
        )
    return np.array([list(line) for line in lines])


def _process(spec: Spec, tiles: _Tiles) -> FiniteProcess:
    kinds = tiles.ravel()
    over, goal = np.isin(kinds, ["H", "G"]), kinds == "G"
    slips = _SLIPS[_SLIPS == 0] if spec.deterministic else _SLIPS
    landing = _landing(tiles)[:, (np.arange(spec.actions)[:, None] + slips) % spec.actions]
    here = np.arange(len(kinds))[:, None, None]
    successors = np.where(over[:, None, None], here, landing)
    entered = successors != here
    return FiniteProcess(
        spec=spec,
        probabilities=np.full(successors.shape, 1 / len(slips)),
        successors=successors,
        rewards=np.where(entered & goal[successors], 1.0, 0.0),
        terminated=over[successors] & spec.may_terminate,
        feature_table=without_features(len(kinds)),
        start_probabilities=np.where(kinds == "S", 1.0, 0.0),
    )


def _landing(tiles: _Tiles) -> IntArray:
    """The tile that a move in each direction leads to: [S, 4]."""
    places = np.indices(tiles.shape).reshape(2, -1).T
    last = np.array(tiles.shape) - 1
    landed = np.clip(places[:, None] + _MOVES, 0, last)
    return landed[..., 0] * tiles.shape[1] + landed[..., 1]


def _reference(**settings: Any) -> float:
    return optimal_value(build(**settings).process)


FAMILY = Family(
    name="frozen-lake",
    summary="Cross slippery ice to the goal; a hole on the way ends it all.",
    features="one-hot over tiles (d = tiles) with a discount, over (stage, tile) (d = H tiles) "
    "with a horizon",
    realizable="the value of every memoryless policy, v* among them, is exactly linear. The "
    "features give nothing away, and share nothing between tiles.",
    build=build,
    reference=_reference,
)
