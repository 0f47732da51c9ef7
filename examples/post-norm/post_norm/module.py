"""The rule in PyTorch: the state is the stream, (batch, T, d)."""

import torch
from torch import Tensor, nn
from torch.nn.functional import rms_norm


class PostNormDepth(nn.Module):
    def __init__(self, eps: float, sublayers: int, d: int) -> None:
        super().__init__()
        self.eps, self.gain = eps, nn.Parameter(torch.empty(sublayers, d))

    def start(self, embedded: Tensor) -> Tensor:
        return embedded

    def read(self, sublayer: int, state: Tensor) -> Tensor:  # noqa: ARG002
        return state

    def write(self, sublayer: int, state: Tensor, out: Tensor) -> Tensor:
        return rms_norm(state + out, out.shape[-1:], self.gain[sublayer], self.eps)
