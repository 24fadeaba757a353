"""Adaptive TensorPlan: data as they are needed, and a certificate with every plan (theory C, F)."""

from tensorplan.planners.adaptive.claims import Proving, certify, depends_on_norm
from tensorplan.planners.adaptive.engines import (
    adaptive_settings,
    check_oracle,
    engine_for,
    fine_oracle,
    refit,
)
from tensorplan.planners.adaptive.records import AdaptiveState, Engine, Policy, Trajectory
from tensorplan.planners.adaptive.settings import (
    AdaptiveSettings,
    Resolved,
    Rival,
    resolve,
)

__all__ = [
    "AdaptiveSettings",
    "AdaptiveState",
    "Engine",
    "Policy",
    "Proving",
    "Resolved",
    "Rival",
    "Trajectory",
    "adaptive_settings",
    "certify",
    "check_oracle",
    "depends_on_norm",
    "engine_for",
    "fine_oracle",
    "refit",
    "resolve",
]
