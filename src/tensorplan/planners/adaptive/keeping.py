"""Policies as plain data, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorplan.errors import SettingError
from tensorplan.local import LocalAccess
from tensorplan.planners.adaptive.acting import GreedyPolicy as AskingPolicy
from tensorplan.planners.adaptive.engine import ExecutedPolicy
from tensorplan.planners.adaptive.policy import GreedyPolicy
from tensorplan.planners.adaptive.records import Policy
from tensorplan.planners.adaptive.settings import Resolved
from tensorplan.planners.adaptive.tabular import TablePolicy

Numbers = Mapping[str, npt.NDArray[Any]]


def kept_policy(policy: Policy) -> tuple[str, dict[str, npt.NDArray[Any]]]:
    """The kind of a policy, and the arrays that it consists of."""
    if isinstance(policy, AskingPolicy):
        return "ask", {"policy_theta": policy.theta, "order": policy.order}
    followed = policy.followed if isinstance(policy, ExecutedPolicy) else policy
    if isinstance(followed, TablePolicy):
        return "table", {"table": followed.table}
    if isinstance(followed, GreedyPolicy):
        numbers = np.array([followed.draws, followed.scale], np.float64)
        return "test", {"policy_theta": followed.theta, "draws_and_scale": numbers}
    raise SettingError(
        f"a policy of type {type(policy).__name__}",
        "only the planner's own policies have a form in files",
        "Keep theta and act by a rule of your own.",
    )


def policy_from(kind: str, numbers: Numbers, access: LocalAccess, resolved: Resolved) -> Policy:
    """The policy of a kind with its arrays."""
    if kind == "ask":
        return AskingPolicy(access, resolved, numbers["policy_theta"], numbers["order"])
    if kind == "table":
        return ExecutedPolicy(access, TablePolicy(numbers["table"]))
    draws, scale = numbers["draws_and_scale"].tolist()
    return ExecutedPolicy(access, GreedyPolicy(numbers["policy_theta"], int(draws), scale))
