"""The optimistic choice: maximise a linear function over what is still believable."""

from typing import Literal

from tensorplan.errors import SettingError
from tensorplan.oracle.base import Optimum, Oracle, OracleStatus
from tensorplan.oracle.scip import ScipOracle
from tensorplan.oracle.slabs import SlabOracle

OracleName = Literal["slabs", "product"]


def make_oracle(name: str) -> Oracle:
    """The oracle of a name."""
    if name == "slabs":
        return SlabOracle()
    if name == "product":
        return ScipOracle("product")
    raise SettingError(f"oracle={name!r}", "there is no such oracle", "Use 'slabs' or 'product'.")


__all__ = [
    "Optimum",
    "Oracle",
    "OracleName",
    "OracleStatus",
    "ScipOracle",
    "SlabOracle",
    "make_oracle",
]
