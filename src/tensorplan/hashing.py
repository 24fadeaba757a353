"""Random numbers as a function of keys, for processes with more states than can be stored."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from tensorplan.records import FloatArray

KeyArray = npt.NDArray[np.uint64]

_INCREMENT: Final = np.uint64(0x9E3779B97F4A7C15)
_FIRST: Final = np.uint64(0xBF58476D1CE4E5B9)
_SECOND: Final = np.uint64(0x94D049BB133111EB)


def mixed(keys: KeyArray) -> KeyArray:
    """The finaliser of SplitMix64 (Steele, Lea and Flood 2014): a bijection of 64 bits."""
    keys = keys + _INCREMENT
    keys = (keys ^ (keys >> np.uint64(30))) * _FIRST
    keys = (keys ^ (keys >> np.uint64(27))) * _SECOND
    return keys ^ (keys >> np.uint64(31))


def hashed(keys: KeyArray, *words: int | npt.NDArray[np.integer]) -> KeyArray:
    """A fresh key for each key and words, in order.

    Args:
        keys: [n] or more axes; not a scalar, on which NumPy would warn of overflow.
        *words: non-negative numbers, or arrays of them that broadcast with the keys.
    """
    for word in words:
        keys = mixed(keys ^ mixed(np.atleast_1d(np.asarray(word)).astype(np.uint64)))
    return keys


def uniform(keys: KeyArray) -> FloatArray:
    """Uniform numbers strictly between 0 and 1, never exactly a half."""
    # NOTE: with 53 bits the largest would round to 1.
    return ((keys >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
