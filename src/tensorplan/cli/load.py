"""Problems by name: a registered one, or a factory of the user's own."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, Final, cast

from tensorplan import problems
from tensorplan.cli.command import nearest
from tensorplan.errors import SettingError
from tensorplan.problem import Simulator
from tensorplan.problems.settings import Value, known, settings_of
from tensorplan.records import Spec

_WORDS: Final[dict[str, Value]] = {"true": True, "false": False, "none": None}
_METHODS: Final = ("start", "step", "features")


@dataclass(frozen=True)
class Loaded:
    """A problem that can be planned in.

    Attributes:
        name: as given.
        settings: all of a registered problem's, or those that a factory was called with.
        simulator: the problem.
        reference: its optimal value at the start, where it is known.
    """

    name: str
    settings: dict[str, Value]
    simulator: Simulator
    reference: float | None = None


def load(name: str, texts: Mapping[str, str]) -> Loaded:
    """A problem by its name.

    Args:
        name: of a registered problem, or ``module:factory`` or ``path.py:factory``.
        texts: settings, as given with ``--set``.
    """
    if ":" in name:
        return _user_problem(name, texts)
    if name.endswith(".py"):
        raise _refusal(
            name, "a file needs the name of its factory", f"Write {name}:FACTORY for FACTORY()."
        )
    settings = problems.parse(name, texts)
    return Loaded(
        name,
        problems.defaults(name) | settings,
        problems.make(name, **settings),
        problems.reference(name, **settings),
    )


def _user_problem(name: str, texts: Mapping[str, str]) -> Loaded:
    origin, _, attribute = name.rpartition(":")
    module = _from_file(name, origin) if origin.endswith(".py") else _from_module(name, origin)
    factory = _factory(name, module, attribute)
    settings = _read(name, factory, texts)
    return Loaded(name, settings, _simulator(name, factory(**settings)))


def _from_module(name: str, origin: str) -> ModuleType:
    if not all(part.isidentifier() for part in origin.split(".")):
        raise _refusal(
            name,
            "it is neither module:factory nor path.py:factory",
            "Write package.module:factory, or the path of a file that ends in .py.",
        )
    _allow_imports_from(Path.cwd())
    try:
        return import_module(origin)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if missing != origin and not origin.startswith(f"{missing}."):
            raise  # an import inside the module: the traceback shows where
        raise _refusal(
            name,
            f"there is no module {missing!r}",
            "Install it, run from the directory that holds it, or write path.py:factory.",
        ) from None


def _from_file(name: str, origin: str) -> ModuleType:
    path = Path(origin).resolve()
    spec = spec_from_file_location(f"_tensorplan_problem_{path.stem}", path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise _refusal(name, f"there is no file {origin}", "Check the path before the colon.")
    _allow_imports_from(path.parent)
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look for their annotations
    spec.loader.exec_module(module)
    return module


def _allow_imports_from(folder: Path) -> None:
    """Let a problem import its neighbours, as a script can."""
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _factory(name: str, module: ModuleType, attribute: str) -> Callable[..., object]:
    factory: object = getattr(module, attribute, None)
    if callable(factory):
        return factory
    if factory is not None:
        raise _refusal(
            name,
            f"{attribute} is a {type(factory).__name__}, not a factory",
            f"Write a function that returns it: def make(): return {attribute}.",
        )
    functions = [key for key, each in vars(module).items() if callable(each)]
    hint = nearest(attribute, functions).strip() or "Name a function that returns a simulator."
    raise _refusal(name, f"the module has no {attribute!r}", hint)


def _read(name: str, factory: Callable[..., Any], texts: Mapping[str, str]) -> dict[str, Value]:
    """Settings for a factory: by its annotations where they can be read, by their look if not."""
    try:
        settings = settings_of(factory)
    except (TypeError, NameError, ValueError):
        values = {key: _guess(text) for key, text in texts.items()}
    else:
        known(texts, settings, name)
        values = {key: settings[key].read(text) for key, text in texts.items()}
    try:
        signature = inspect.signature(factory)
    except ValueError:
        raise _refusal(
            name, "its factory does not say what it takes", "Wrap it in a function of your own."
        ) from None
    try:
        signature.bind(**values)
    except TypeError as error:
        raise _refusal(
            name, f"its factory cannot be called: {error}", f"It takes {signature}: use --set."
        ) from None
    return values


def _guess(text: str) -> Value:
    """A number, true, false or none if it looks like one; else the text itself."""
    if text.strip().lower() in _WORDS:
        return _WORDS[text.strip().lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _simulator(name: str, made: object) -> Simulator:
    lacking = [method for method in _METHODS if not callable(getattr(made, method, None))]
    if not isinstance(getattr(made, "spec", None), Spec):
        lacking.insert(0, "spec")
    if lacking:
        raise _refusal(
            name,
            f"its factory returned a {type(made).__name__}, which is no simulator: it lacks "
            f"{', '.join(lacking)}",
            "Return what tensorplan.from_functions or from_table makes, or an object with a "
            "Spec as spec and the methods start, step and features.",
        )
    return cast("Simulator", made)


def _refusal(name: str, rule: str, way_out: str) -> SettingError:
    return SettingError(f"problem {name!r}", rule, way_out)
