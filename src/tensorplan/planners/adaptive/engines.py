"""Which engine plans: the one place where they are told apart."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from tensorplan.errors import SettingError
from tensorplan.local import Handle, LocalAccess
from tensorplan.oracle import Oracle, SlabOracle
from tensorplan.planners.adaptive.deterministic import DeterministicEngine
from tensorplan.planners.adaptive.engine import StochasticEngine
from tensorplan.planners.adaptive.explore import explored
from tensorplan.planners.adaptive.general import GeneralEngine
from tensorplan.planners.adaptive.records import AdaptiveState, Engine
from tensorplan.planners.adaptive.settings import AdaptiveSettings, Resolved
from tensorplan.planners.adaptive.state import State
from tensorplan.planners.adaptive.tabular import TabularEngine
from tensorplan.planners.names import check_names
from tensorplan.records import FloatArray

_GAP, _FINEST = 1e-6, 1e-10
"""Gap of the oracle, as a fraction of B ||phi(s0)||: at most, and at least."""

_SHARE = 0.25
"""Part of delta that the oracle's own gap may take."""

_NOISY_GAP, _NOISY_SHARE = 1e-3, 0.002
"""The same where data are noisy, and a finer answer would be one to another question."""


def adaptive_settings(delta: float, **settings: Any) -> AdaptiveSettings:
    """Settings by name; an unknown name is refused with the nearest ones."""
    check_names(settings, AdaptiveSettings, "the adaptive planner")
    return AdaptiveSettings(delta=delta, **settings)


def engine_for(
    access: LocalAccess, start: Handle, resolved: Resolved, oracle: Oracle, *, seed: int
) -> Engine:
    """The engine for a simulator.

    Args:
        access: local access to the simulator.
        start: a handle of the one start state.
        resolved: the run's numbers.
        oracle: chooses the optimistic parameter.
        seed: of what the planner itself draws.
    """
    if not resolved.spec.deterministic:
        own = own_search(oracle)
        kind = TabularEngine if is_tabular(access.features(start)[0]) else GeneralEngine
        # An engine is only ever given states that it has made.
        return cast("Engine", kind(access, start, resolved, own))
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_PLANNER,)))
    return DeterministicEngine(access, start, resolved, oracle, rng)


_PLANNER = 1 << 31
"""Sets the planner's own random numbers apart from those of the simulator."""


def first_state(engine: Engine, *, seed: int) -> AdaptiveState:
    """The state that a run begins with; random rollouts come first where they are asked for.

    Args:
        engine: of the run.
        seed: of what the planner itself draws.
    """
    state = engine.begin()
    own = cast("object", engine)
    if not engine.resolved.settings.explore or not isinstance(own, StochasticEngine):
        return state  # the deterministic engine walks at random in its first step
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_PLANNER,)))
    return explored(cast("StochasticEngine[Any]", own), cast("State", state), rng)


def own_search(oracle: Oracle) -> SlabOracle:
    """Our own search, which says more than an optimum; refuse any other."""
    if not isinstance(oracle, SlabOracle):
        raise SettingError(
            f"oracle={oracle.name!r} with planner='adaptive'",
            "a stochastic simulator needs an oracle that says what its bound leans on",
            "Use oracle='slabs', or planner='paper'.",
        )
    return oracle


def fine_oracle(resolved: Resolved, features: FloatArray) -> SlabOracle:
    """Our own search, with a gap that leaves most of delta to the planner.

    Args:
        resolved: the run's numbers.
        features: [d], of the start.
    """
    gap = _fitting_gap(resolved, features)
    if not resolved.spec.deterministic and is_tabular(features):
        # Propagation has said what there is to say before any search.
        return SlabOracle(TABULAR_NODES, gap=gap)
    return SlabOracle(gap=gap)


TABULAR_NODES = 50
"""Node solves of one question where features lie along the axes."""


def is_tabular(features: FloatArray) -> bool:
    """Whether features lie along an axis, as tabular ones do."""
    return len(features) > 1 and np.count_nonzero(features) == 1 and bool(features.max() > 0)


def refit(
    oracle: Oracle,
    earlier: tuple[Resolved, FloatArray],
    later: tuple[Resolved, FloatArray],
) -> None:
    """Give our own search the gap that a later question needs, unless somebody else chose it."""
    if isinstance(oracle, SlabOracle) and oracle.gap == _fitting_gap(*earlier):
        oracle.gap = _fitting_gap(*later)


def _fitting_gap(resolved: Resolved, features: FloatArray) -> float:
    scale = resolved.norm * float(np.linalg.norm(features))
    deterministic = resolved.spec.deterministic
    share, coarsest = (_SHARE, _GAP) if deterministic else (_NOISY_SHARE, _NOISY_GAP)
    gap = share * resolved.delta / scale if scale else coarsest
    return min(coarsest, max(_FINEST, gap))


def check_oracle(oracle: Oracle) -> None:
    """Refuse oracles to which what is small is zero."""
    if not oracle.proved:
        raise SettingError(
            f"oracle={oracle.name!r} with planner='adaptive'",
            "its answers hold within a solver's tolerances, which exceed those of exact tests",
            "Use oracle='slabs', or planner='paper'.",
        )
