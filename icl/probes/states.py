"""Measures of a layer's input: its size, and its similarity from token to token.

Each function takes states, (batch, T, d_model), as `icl.probes.recording.observed` shows them to `state`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from theory.errors import BadInput


def state_norms(states: Tensor) -> Tensor:
    """Return ||h|| of every token, in float64: (batch, T)."""
    return torch.linalg.vector_norm(states, dim=-1, dtype=torch.float64)


def token_similarity(states: Tensor) -> Tensor:
    """Return the mean cosine of two different tokens' states: (batch,).  ResFormer, appendix A.1, Eqn. (13).

    (|sum_i u_i|^2 - T) / (T (T - 1)), u_i = h_i / |h_i|, in time T d.  Raises BadInput for fewer than two tokens, and
    for a state of length zero.
    """
    lengths = state_norms(states)
    tokens = states.shape[1]
    if tokens < 2 or not bool((lengths > 0).all()):
        raise BadInput("a similarity needs two tokens or more, none of length zero")
    summed = (states.double() / lengths[..., None]).sum(dim=1)
    return (summed.square().sum(dim=-1) - tokens) / (tokens * (tokens - 1))
