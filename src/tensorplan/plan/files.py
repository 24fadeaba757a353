"""Plans in files: a zip archive of words and of arrays, none of which is ever executed.

It is written aside and then renamed, so that a file is whole or not there.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt

from tensorplan.errors import SettingError

SCHEMA: Final = "tensorplan-plan/1"
"""Changes whenever the content does."""

_WORDS, _NUMBERS = "plan.json", "arrays.npz"

Arrays = dict[str, npt.NDArray[Any]]


def write_archive(path: str | Path, words: Mapping[str, Any], arrays: Arrays) -> None:
    """Write words and arrays of numbers under a name, in place of what is there."""
    target, numbers = Path(path), io.BytesIO()
    np.savez(numbers, **arrays)  # pyright: ignore[reportArgumentType]  # a flag of the same name
    text = json.dumps({"schema": SCHEMA, **words}, indent=2, allow_nan=False)
    aside = target.with_name(f"{target.name}.part")
    with zipfile.ZipFile(aside, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(_WORDS, text)
        archive.writestr(_NUMBERS, numbers.getvalue())
    os.replace(aside, target)


def read_archive(path: str | Path) -> tuple[dict[str, Any], Arrays]:
    """The words and arrays of a file."""
    try:
        with zipfile.ZipFile(path) as archive:
            content: object = json.loads(archive.read(_WORDS))
            numbers = io.BytesIO(archive.read(_NUMBERS))
    except FileNotFoundError:
        raise _refusal(path, "there is no such file", "Check the path.") from None
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise _refusal(path, f"it is no plan, or damaged ({error})", "Save it anew.") from None
    words = cast("dict[str, Any]", content) if isinstance(content, dict) else {}
    schema = words.get("schema")
    if schema != SCHEMA:
        rule = f"its schema is {schema!r}, and this version reads {SCHEMA!r} only"
        raise _refusal(path, rule, "Plan anew, or read it with the version that wrote it.")
    with np.load(numbers, allow_pickle=False) as found:
        return words, {name: found[name] for name in found.files}


def _refusal(path: str | Path, rule: str, way_out: str) -> SettingError:
    return SettingError(f"the plan in {path}", rule, way_out)
