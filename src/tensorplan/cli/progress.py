"""Progress of a run, on standard error."""

from __future__ import annotations

from tensorplan.cli.output import note, number, short, watched
from tensorplan.plan import Watcher
from tensorplan.planners import adaptive
from tensorplan.planners.paper import Resolved
from tensorplan.records import IterationEvent


def announce(resolved: Resolved, *, exact_draws: bool) -> None:
    """Say what is about to be run, and how long it may take.

    Args:
        resolved: the run's numbers.
        exact_draws: whether the simulator is deterministic.
    """
    sizes = resolved.sizes
    note(
        f"planning over {resolved.horizon} stages with n1={short(sizes.rollouts)} "
        f"n2={short(sizes.test_draws)} n3={short(sizes.refine_draws)}, "
        f"at most {short(resolved.iterations)} iterations"
    )
    if resolved.settings.sizes is None and not exact_draws:
        note(
            f"these are the theorem's sizes: at most {short(resolved.constants.query_bound)} "
            "queries. With --sizes a run is short, and no theorem covers it; --budget-queries "
            "stops it anywhere."
        )
    elif not exact_draws and resolved.test_noise > resolved.tolerance:
        enough = (resolved.test_noise / resolved.tolerance) ** 2 * sizes.test_draws
        note(
            f"a test may be off by {short(resolved.test_noise)} (one standard deviation at most) "
            f"and lets {short(resolved.tolerance)} pass, so true parameters may fail; n2="
            f"{short(enough)} would bring the two together"
        )


def announce_adaptive(resolved: adaptive.Resolved) -> None:
    """Say what is about to be run."""
    horizon = resolved.spec.horizon
    over = "without end" if horizon is None else f"over {horizon} stages"
    note(
        f"planning {over} until the bounds are within {resolved.delta:g}, with ||theta|| <= "
        f"{short(resolved.norm)} and values within {short(resolved.eta)} of linear"
    )


def reporter() -> Watcher:
    """A line for each iteration at a terminal, for the 1st, 2nd, 4th, 8th, ... elsewhere."""
    every = watched()

    def watch(event: IterationEvent) -> None:
        if every or event.iteration.bit_count() == 1:
            note(_line(event))

    return watch


def _line(event: IterationEvent) -> str:
    outcome = (
        "no test failed"
        if event.failed is None
        else f"rollout {event.failed[0] + 1} failed at stage {event.failed[1]}"
    )
    return (
        f"iteration {event.iteration}: upper {number(event.upper)}, {outcome}, "
        f"{number(event.queries)} queries, {number(event.nodes)} nodes"
    )
