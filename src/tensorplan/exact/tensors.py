"""Failed tests as polynomials: the symmetric tensors of theory B1 and their independence.

<X, M_theta> = prod_a (r_a + <g_a, theta>) is a polynomial in theta of degree at most A. It
vanishes at every later parameter of a run with exact data and not at its own, so that the
polynomials of the failures are linearly independent: there are at most C(d + A, A) of them.
"""

from __future__ import annotations

from itertools import combinations_with_replacement

import numpy as np

from tensorplan.exact.records import RecordedRun
from tensorplan.records import FloatArray, IntArray

_INDEPENDENT = 1e-10
"""Singular value of the normalised tensors, relative to the largest, that counts as not 0."""


def symmetric_tensor(rows: FloatArray, degree: int) -> FloatArray:
    """Coefficients of prod_a <row_a, (x_0, ..., x_d)> on the monomials of a degree.

    Args:
        rows: [k, d + 1] with k <= degree; missing factors are x_0, which is 1 at (1, theta).
        degree: A.

    Returns:
        [C(d + A, A)], in the order of ``combinations_with_replacement(range(d + 1), A)``.
    """
    coefficients = np.ones(1)
    constant = np.eye(rows.shape[1])[0]
    for power in range(degree):
        row = rows[power] if power < len(rows) else constant
        targets = _raised(rows.shape[1], power)
        product = np.zeros(int(targets.max()) + 1)
        np.add.at(product, targets, coefficients[:, None] * row)
        coefficients = product
    return coefficients


def tensor_rank(run: RecordedRun) -> int:
    """Dimension of the span of the failures' symmetric tensors."""
    failures = run.failures
    if not failures:
        return 0
    degree = max(len(test.rows) for test in failures)
    table = np.stack([symmetric_tensor(test.rows, degree) for test in failures])
    sizes = np.linalg.norm(table, axis=1, keepdims=True)
    singular = np.linalg.svd(table / np.where(sizes > 0, sizes, 1.0), compute_uv=False)
    return int((singular > _INDEPENDENT * max(float(singular[0]), _INDEPENDENT)).sum())


def independent_tensors(run: RecordedRun) -> bool:
    """Whether the failures' symmetric tensors are linearly independent, as exact data make them."""
    return tensor_rank(run) == len(run.failures)


def _raised(variables: int, power: int) -> IntArray:
    """Index of each monomial of a degree times each variable, one degree up: [n, variables]."""
    lower = list(combinations_with_replacement(range(variables), power))
    upper = combinations_with_replacement(range(variables), power + 1)
    place = {monomial: index for index, monomial in enumerate(upper)}
    return np.array(
        [[place[tuple(sorted((*low, extra)))] for extra in range(variables)] for low in lower]
    )
