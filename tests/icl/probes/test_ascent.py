"""Ascents on inputs against functions whose largest output is known."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from icl.probes.ascent import ascend
from theory.errors import BadInput

seeds = st.integers(0, 2**16)


def matrix(rows, columns, seed):
    return torch.randn(rows, columns, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@given(st.integers(1, 5), st.integers(1, 5), st.sampled_from([0.1, 3.0]), seeds)
def test_a_matrix_s_largest_output_is_its_norm(rows, columns, radius, seed):
    """Never more, and most of it at least; and the norms are those of the inputs that come with them."""
    m = matrix(rows, columns, seed)
    made = ascend(lambda u: u @ m.T, columns, radius, starts=10, steps=60)
    norm = radius * float(torch.linalg.matrix_norm(m, ord=2))
    assert 0.99 * norm <= made.largest <= norm * (1 + 1e-12)
    torch.testing.assert_close(made.inputs.norm(dim=-1), torch.full((10,), radius, dtype=torch.float64))
    torch.testing.assert_close((made.inputs @ m.T).norm(dim=-1), made.found)
    assert (made.found >= made.starts).all()
    assert made.typical == pytest.approx(made.starts.square().mean().sqrt().item())


def test_where_full_steps_lose_it_still_climbs():
    """1 + cos(20 u_1) u_2, bumpy and not convex: found next to 2."""
    made = ascend(lambda u: 1 + torch.cos(20 * u[:, :1]) * u[:, 1:], 2, 1.0, starts=30, steps=80)
    assert 1.99 < made.largest <= 2


def test_a_start_of_one_s_own_is_tried():
    """A narrow peak that no random start finds."""

    def peak(u):
        return torch.exp(-1e4 * (u - torch.tensor([0.6, 0.8])).square().sum(-1, keepdim=True))

    assert ascend(peak, 2, 1.0, starts=1, steps=0, seed=1).largest < 0.5
    own = ascend(peak, 2, 1.0, starts=1, steps=0, seed=1, others=torch.tensor([[3.0, 4.0]]))
    assert own.largest == pytest.approx(1)
    assert len(own.starts) == 1
    assert len(own.found) == 2


def test_where_there_is_no_gradient_it_stays():
    made = ascend(lambda u: 0 * u + 2, 4, 1.0, starts=3, steps=3)
    assert made.found.tolist() == made.starts.tolist() == [4.0] * 3


@pytest.mark.parametrize(
    "call",
    [
        lambda: ascend(lambda u: u, 0, 1.0),
        lambda: ascend(lambda u: u, 2, 0.0),
        lambda: ascend(lambda u: u, 2, 1.0, starts=0),
        lambda: ascend(lambda u: u, 2, 1.0, steps=-1),
        lambda: ascend(lambda u: u * math.nan, 2, 1.0),
    ],
)
def test_bad_input(call):
    with pytest.raises(BadInput):
        call()
