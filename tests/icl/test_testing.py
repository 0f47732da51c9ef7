"""The helper that all identity tests lean on: it passes rounding and nothing else."""

import pytest
import torch

from icl.testing import check_identity

ONE = torch.linspace(1, 2, 12, dtype=torch.float64).view(3, 4)


def test_rounding_passes():
    check_identity(ONE, (ONE * 3.0) / 3.0)
    check_identity(ONE.sum(), ONE.T.sum(), terms=12)
    check_identity(torch.nn.Parameter(ONE), ONE)


@pytest.mark.parametrize(
    ("other", "says"),
    [
        (ONE * (1 + 1e-12), "differ by"),
        (ONE + torch.eye(3, 4, dtype=torch.float64) * 1e-12, "differ by"),
        (ONE[:2], "shapes differ"),
        (ONE.float(), "dtypes differ"),
        (ONE / 0, "not finite"),
    ],
)
def test_anything_else_does_not(other, says):
    with pytest.raises(AssertionError, match=says):
        check_identity(ONE, other)


def test_more_terms_allow_more():
    nearly = ONE * (1 + 1e-14)
    with pytest.raises(AssertionError):
        check_identity(ONE, nearly)
    check_identity(ONE, nearly, terms=100)
