"""Adaptive TensorPlan: data as they are needed, and a certificate with every plan (theory C, F)."""

from tensorplan.planners.adaptive.claims import Proving, certify, depends_on_norm, labelled
from tensorplan.planners.adaptive.engines import (
    adaptive_settings,
    check_oracle,
    engine_for,
    fine_oracle,
    first_state,
    refit,
)
from tensorplan.planners.adaptive.keeping import kept_policy, policy_from
from tensorplan.planners.adaptive.misfit import Misfit, confidence_of, find_misfit, fit
from tensorplan.planners.adaptive.records import AdaptiveState, Engine, Policy, Trajectory
from tensorplan.planners.adaptive.settings import (
    FITTED,
    AdaptiveSettings,
    Resolved,
    Rival,
    resolve,
)

__all__ = [
    "FITTED",
    "AdaptiveSettings",
    "AdaptiveState",
    "Engine",
    "Misfit",
    "Policy",
    "Proving",
    "Resolved",
    "Rival",
    "Trajectory",
    "adaptive_settings",
    "certify",
    "check_oracle",
    "confidence_of",
    "depends_on_norm",
    "engine_for",
    "find_misfit",
    "fine_oracle",
    "first_state",
    "fit",
    "kept_policy",
    "labelled",
    "policy_from",
    "refit",
    "resolve",
]
