"""The optimistic choice: maximise a linear function over what is still believable."""

from collections.abc import Callable
from typing import Final, Literal

from tensorplan.errors import SettingError
from tensorplan.oracle.base import Optimum, Oracle, OracleStatus
from tensorplan.oracle.highs import HighsOracle
from tensorplan.oracle.scip import ScipOracle
from tensorplan.oracle.slabs import SlabOracle

OracleName = Literal["slabs", "product", "scip-slabs", "highs"]

ORACLES: Final[dict[OracleName, Callable[[], Oracle]]] = {
    "slabs": SlabOracle,
    "product": lambda: ScipOracle("product"),
    "scip-slabs": lambda: ScipOracle("slabs"),
    "highs": HighsOracle,
}
"""Our own search over unions of slabs; the paper's product form; slabs by SCIP and by HiGHS."""


def make_oracle(name: str) -> Oracle:
    """The oracle of a name."""
    for known, make in ORACLES.items():
        if name == known:
            return make()
    *others, last = (repr(known) for known in ORACLES)
    way_out = f"Use {', '.join(others)} or {last}."
    raise SettingError(f"oracle={name!r}", "there is no such oracle", way_out)


__all__ = [
    "ORACLES",
    "HighsOracle",
    "Optimum",
    "Oracle",
    "OracleName",
    "OracleStatus",
    "ScipOracle",
    "SlabOracle",
    "make_oracle",
]
