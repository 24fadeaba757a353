"""The search, compiled by Numba: the same functions, with loops in place of NumPy calls.

Compiling takes less than a minute once, which is announced; the result is cached on disk. Numba's
cache knows the file of the function that was compiled and none of those that it calls, so the
digest of them all is part of the key.
"""

from __future__ import annotations

import hashlib
import importlib
import logging
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from tensorplan.oracle import arrays, node, primitives, tree
from tensorplan.oracle.tree import Runner, make_run

_UNCOUNTED = {"_nrt": False}
"""NOTE: nothing is allocated in compiled code. With reference counts on, every call counts each of
dozens of arrays up and down, which took four fifths of the time."""

_PART = {**_UNCOUNTED, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
"""For functions that only compiled code calls."""

_ASSOCIATIVE = {"reassoc", "contract", "nsz"}
"""What sums may do so that they vectorise; not where a bound is evaluated."""

_INNER = frozenset(
    (
        *("adopt_row", "drop_row", "enter_row", "excess_of", "first_to_leave"),
        *("free_slope", "keep_positive", "move", "weigh"),
    )
)
"""Functions of the inner loop. NOTE: a call hands over every array of its records by value, which
costs as much as these functions do; copied into their callers they are 1.3 times faster."""


def _sources() -> str:
    """Digest of the files that are compiled together."""
    modules: tuple[ModuleType, ...] = (arrays, primitives, node, tree)
    texts = (Path(str(module.__file__)).read_bytes() for module in modules)
    return hashlib.sha256(b"".join(texts)).hexdigest()


def _functions(module: ModuleType) -> list[FunctionType]:
    """The functions that a module defines."""
    return [
        value
        for value in vars(module).values()
        if isinstance(value, FunctionType) and value.__module__ == module.__name__
    ]


def _substitute(
    plain: Callable[..., object], loops: Callable[..., object], options: Mapping[str, object]
) -> None:
    """Have compiled code call the loops where plain code calls the NumPy function."""
    extending: Any = importlib.import_module("numba.extending")

    def pick(*_: object) -> Callable[..., object]:
        return loops

    extending.overload(plain, jit_options=dict(options), strict=False)(pick)


@cache
def prepare() -> None:
    """Tell Numba once what may be called from compiled code."""
    extending: Any = importlib.import_module("numba.extending")
    for plain, loops in primitives.LOOPS.items():
        exact = plain is primitives.dual_bound
        fast = {} if exact else {"fastmath": _ASSOCIATIVE}
        _substitute(plain, loops, {**_PART, **fast, "forceinline": True})
    for function in (*_functions(node), *_functions(tree)):
        inner = function.__name__ in _INNER
        extending.register_jitable(**_PART, fastmath=_ASSOCIATIVE, forceinline=inner)(function)


@cache
def compiled_run() -> Runner:
    """:func:`~tensorplan.oracle.tree.run_tree`, compiled."""
    numba: Any = importlib.import_module("numba")
    prepare()
    _announce_compilation()
    run = make_run(_sources())
    try:
        compiled: Runner = numba.njit(cache=True, nogil=True, **_UNCOUNTED)(run)
    except RuntimeError:  # nowhere to keep a cache
        compiled = numba.njit(nogil=True, **_UNCOUNTED)(run)
    return compiled


def _announce_compilation() -> None:
    """Have it said, when a compilation begins, what the wait is for."""
    event: Any = importlib.import_module("numba.core.event")
    said = False

    def on_start(_: object, started: object) -> None:
        nonlocal said
        if not said and "make_run" in str(vars(started)):
            said = True
            logging.getLogger("tensorplan").warning(
                "The search has become long: compiling it, once (it is cached); about 45 seconds."
            )

    def on_end(*_: object) -> None:
        pass

    methods = {"on_start": on_start, "on_end": on_end}
    event.register("numba:compile", type("Announcer", (event.Listener,), methods)())
