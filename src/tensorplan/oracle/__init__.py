"""The optimistic choice: maximise a linear function over what is still believable."""

from tensorplan.oracle.base import Optimum, Oracle, OracleStatus
from tensorplan.oracle.scip import ScipOracle
from tensorplan.oracle.slabs import SlabOracle

__all__ = ["Optimum", "Oracle", "OracleStatus", "ScipOracle", "SlabOracle"]
