"""Attention over depth by flash-linear-attention's GPU kernel (fla.ops.attnres, the extra "gpu"), in place of ours.

It reads every source once for both its logit and its share of the sum, and again on the way back, and keeps two float32
numbers per source and token; but, unlike two phases, it does so at every read.  What is faster is for a benchmark to
say: `crosslayer bench depth` on a GPU.  Nothing else takes it.
"""

from __future__ import annotations

import importlib.util

import torch
from torch import Tensor

from icl.models.depth_attention import AttentionDepth
from theory.plans.depth import DepthAttention


def misfit(rule: DepthAttention) -> str | None:
    """Return the settings of a rule that the kernel does not support; None if it supports all."""
    does = {"score": "softmax", "query": "learned", "key_norm": True, "heads": 1}
    other = [f"{name} = {getattr(rule, name)}" for name, done in does.items() if getattr(rule, name) != done]
    return ", ".join(other) or None


def installed() -> bool:
    """Return whether the kernel can be imported and there is a GPU for it."""
    return torch.cuda.is_available() and importlib.util.find_spec("fla") is not None


class KernelDepth(AttentionDepth):
    """Attention over depth by the kernel, for rules without `misfit`.

    Sources come in one dtype, that of the newest: under autocast the embedding is rounded to it.  It computes in
    float32, whatever the dtype.  A compiled model calls it as it is.
    """

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def read(self, sublayer: int, state: tuple[Tensor, ...]) -> Tensor:
        from fla.ops.attnres import fused_attnres

        sources = [v.to(state[-1].dtype) for v in state]
        assert self.gain is not None
        read: Tensor = fused_attnres(self.query[sublayer], sources, self.gain[sublayer], rms_eps=self.eps)
        return read
