"""Which functions a search runs on: plain ones at once, compiled ones when it is long.

The switch is by the work that was done, not by time and not by what happens to be cached, so a
run is the same on every machine that has the same versions.
"""

from __future__ import annotations

import os

from tensorplan.errors import SettingError
from tensorplan.oracle.arrays import LOOKS, SOLVES, Problem, Tree
from tensorplan.oracle.tree import Runner, Search, run_tree

COMPILE_AFTER, USUAL_DIM = 4000, 10
"""Node solves and looks before the compiler is called, about a second of the plain functions in
this dimension; in larger ones each counts for more."""

PLAIN_CHUNK, COMPILED_CHUNK = 100, 20_000
"""Node solves between looks at the clock."""

_MODES = ("auto", "plain", "compiled")


class Kernels:
    """Runs searches, and counts how much was done.

    Args:
        mode: "auto", "plain" or "compiled".
    """

    def __init__(self, mode: str = "auto") -> None:
        if mode not in _MODES:
            raise SettingError(f"kernels={mode!r}", f"it must be one of {_MODES}", "Choose one.")
        self.mode = mode
        self._done = 0.0

    @property
    def compiled(self) -> bool:
        """Whether the next piece of work runs compiled."""
        if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
            return False
        return self.mode == "compiled" or (self.mode == "auto" and self._done >= COMPILE_AFTER)

    @property
    def chunk(self) -> int:
        """Node solves that the next piece of work may take."""
        return COMPILED_CHUNK if self.compiled else PLAIN_CHUNK

    def run(self, problem: Problem, tree: Tree, search: Search) -> int:
        """Go on with a search; why it returned (see :mod:`tensorplan.oracle.tree`)."""
        runner = _load_compiled() if self.compiled else run_tree
        before = _work(tree)
        reason = runner(problem, tree, search)
        self._done += (_work(tree) - before) * max(1.0, (len(problem.objective) / USUAL_DIM) ** 2)
        return int(reason)


def _work(tree: Tree) -> int:
    """Node solves and looks so far."""
    return int(tree.counts[SOLVES] + tree.counts[LOOKS])


def _load_compiled() -> Runner:
    """The compiled search; Numba is imported when it is needed."""
    from tensorplan.oracle.compiled import compiled_run

    return compiled_run()
