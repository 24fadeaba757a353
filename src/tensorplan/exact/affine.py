"""Affine sets inside a ball: where equations of temporal differences confine a parameter."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tensorplan.records import FloatArray


@dataclass(frozen=True)
class AffineSet:
    """The solutions of a consistent system of linear equations.

    Attributes:
        point: [d], the solution of least norm.
        basis: [d, k], orthonormal directions in which the set extends, orthogonal to the point.
    """

    point: FloatArray
    basis: FloatArray

    @staticmethod
    def whole(dim: int) -> AffineSet:
        """All of R^d."""
        return AffineSet(np.zeros(dim), np.eye(dim))

    def with_equation(self, gradient: FloatArray, constant: float) -> AffineSet:
        """Add <gradient, theta> + constant = 0, for a gradient that is not constant on the set."""
        along = self.basis.T @ gradient
        gap = float(gradient @ self.point) + constant
        point = self.point - self.basis @ along * (gap / float(along @ along))
        turned = np.linalg.qr(along[:, None], mode="complete")[0]
        return AffineSet(point, self.basis @ turned[:, 1:])

    def upper(self, objective: FloatArray, bound: float) -> float:
        """Largest <objective, theta> over the set within the ball of radius ``bound``."""
        slope = float(np.linalg.norm(self.basis.T @ objective))
        slack = float(np.linalg.norm(objective)) * 1e-9
        room = bound**2 - float(self.point @ self.point)
        if slope <= slack or room <= 0:
            return float(objective @ self.point)
        return float(objective @ self.point) + math.sqrt(room) * slope
