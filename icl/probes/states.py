"""Measures of a layer's input: its size, its similarity from token to token, and what it says of the next token.

Each function takes states, (batch, T, d_model), as `icl.probes.recording.observed` shows them to `state`.  A state is
read by the model's head (logit lens) or by a fitted linear map (linear probe).
"""

from __future__ import annotations

import torch
from torch import Tensor

from icl.models.decoder import Decoder
from theory.errors import BadInput


def lens(model: Decoder, states: Tensor) -> Tensor:
    """Return the answer if the model ended here: (batch, T, d_model) through its last norm and head.

    For the input of the last norm, this is the model's answer.
    """
    # by `forward`, as a recorder may be watching the norm
    answer: Tensor = model.stem.answer(model.norm.forward(states))
    return answer


class LinearProbe:
    """Least squares from states to targets, with an intercept, from as many batches as there are; R^2 on others.

    Sums of products are kept in float64, (d + 1)^2 and (d + 1) k numbers, and no states.  Directions in which the
    states do not vary beyond rounding are left out.
    """

    def __init__(self) -> None:
        self._square: Tensor | None = None
        self._cross: Tensor | None = None
        self._map: Tensor | None = None

    def fit(self, states: Tensor, targets: Tensor) -> None:
        """Add one more batch of states (..., d) and of targets (..., k)."""
        x, y = _with_one(states), targets.flatten(0, -2).double()
        square, cross = x.mT @ x, x.mT @ y
        self._square = square if self._square is None else self._square + square
        self._cross = cross if self._cross is None else self._cross + cross
        self._map = None

    def map(self) -> Tensor:
        """Return the map, (d + 1, k), the last row being the intercept.  Raises BadInput before anything was fitted."""
        if self._square is None or self._cross is None:
            raise BadInput("a linear probe is fitted before it is asked")
        if self._map is not None:
            return self._map
        scale = self._square.diagonal().sqrt()
        scale = torch.where(scale > 0, scale, 1.0)  # units of the states do not decide what is rounding
        normal = torch.linalg.pinv(self._square / (scale[:, None] * scale), hermitian=True)
        self._map = (normal @ (self._cross / scale[:, None])) / scale[:, None]
        return self._map

    def residual(self, states: Tensor, targets: Tensor) -> tuple[float, float]:
        """Return sums of squares on held-out states and targets: what the map leaves, and what the mean leaves.

        The mean is that of the fitted targets.  Sums over batches add up; 1 - left / all is R^2, which is not positive,
        up to chance, for mere noise.
        """
        assert self._square is not None
        assert self._cross is not None
        y = targets.flatten(0, -2).double()
        mean = self._cross[-1] / self._square[-1, -1]
        left = y - _with_one(states) @ self.map()
        return float(left.square().sum()), float((y - mean).square().sum())


def _with_one(states: Tensor) -> Tensor:
    x = states.flatten(0, -2).double()
    return torch.cat([x, x.new_ones(len(x), 1)], dim=-1)


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
