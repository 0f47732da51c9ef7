"""Every variant made of streams as its source writes it: several streams as one tensor, earlier results as another.

Weights are named as the decoder names them; how a source's matrices lie in them is said here alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from icl.testing import Stack, rms


def gelu(x: Tensor) -> Tensor:
    """Hendrycks and Gimpel's GELU, exact."""
    return x * (1 + torch.erf(x / math.sqrt(2))) / 2


# --- Hyper-Connections, arXiv 2409.19606 ----------------------------------------------------------------------------

Matrices = tuple[Tensor, Tensor, Tensor]  # A_m (n, ...), A_r (n, n, ...), B (n, ...), as in the paper


def hyper(stack: Stack, streams: int, matrices: Callable[[int, Tensor], Matrices], mixing: bool = True) -> Tensor:
    """H^0 = (h^0, ..., h^0); h_0 = A_m^T H; H <- B^T T(h_0)^T + A_r^T H; the rows of the last H are summed.

    mixing   False for the fault of codes that compute A_r and leave the streams as they are
    """
    H = stack.embedding.expand(streams, *stack.embedding.shape)
    for k, f in enumerate(stack.sublayers):
        A_m, A_r, B = (m.expand(*m.shape[: m.dim() - 2], *H.shape[1:3]) for m in matrices(k, H))
        out = f(torch.einsum("ibt,ibtd->btd", A_m, H))
        mixed = torch.einsum("ijbt,ibtd->jbtd", A_r, H)
        H = torch.einsum("jbt,btd->jbtd", B, out) + (mixed if mixing else H + 0 * mixed)
    return H.sum(0)


def hyper_static(stack: Stack, streams: int = 4, mixing: bool = True) -> Tensor:
    """Section 2.1: the matrices are learned."""

    def matrices(k: int, _: Tensor) -> Matrices:
        w = stack.w[f"depth.weights.step_{k}"][..., None, None]
        mixed = w[streams:].unflatten(0, (streams, streams + 1))
        return w[:streams], mixed[:, :streams].transpose(0, 1), mixed[:, streams]

    return hyper(stack, streams, matrices, mixing)


def hyper_dynamic(stack: Stack, streams: int = 4, mixing: bool = True) -> Tensor:
    """Section 2.2: B(H) = s_b tanh(norm(H) W_b)^T + B, A(H) = s_a tanh(norm(H) W_a) + A for A_m and A_r."""

    def matrices(k: int, H: Tensor) -> Matrices:
        W, static = stack.w[f"depth.map.step_{k}"], stack.w[f"depth.offsets.step_{k}"]
        s_a, s_b = stack.w[f"depth.weights.step_{k}"]
        moved = torch.tanh(torch.einsum("ibtd,od->iobt", rms(H, stack.eps), W))
        A = s_a * moved[:, :-1] + static[:-streams].view(streams, streams + 1)[..., None, None]
        return A[:, 0], A[:, 1:], s_b * moved[:, -1] + static[-streams:, None, None]

    return hyper(stack, streams, matrices, mixing)


# --- mHC, arXiv 2512.24880 ------------------------------------------------------------------------------------------


def sinkhorn(logits: Tensor, rounds: int) -> Tensor:
    """M = exp(logits), then rounds of T_r(T_c(M)), columns first, over the first two dimensions."""
    M = logits.exp()
    for _ in range(rounds):
        M = M / M.sum(0, keepdim=True)
        M = M / M.sum(1, keepdim=True)
    return M


def mhc(stack: Stack, streams: int = 4, rounds: int = 20, mixing: bool = True, **_: float) -> Tensor:
    """x <- H_res x + H_post^T F(H_pre x), the three made from all streams, normed side by side."""
    n, X = streams, stack.embedding.expand(streams, *stack.embedding.shape)
    for k, f in enumerate(stack.sublayers):
        phi, b = stack.w[f"depth.map.step_{k}"], stack.w[f"depth.offsets.step_{k}"][:, None, None]
        normed = rms(torch.cat(list(X), -1), stack.eps)
        pre, post, res = torch.einsum("btd,od->obt", normed, phi).split([n, n, n * n])
        a_pre, a_post, a_res = stack.w[f"depth.weights.step_{k}"]
        H_pre = 1 / (1 + (-(a_pre * pre + b[:n])).exp())
        H_post = 2 / (1 + (-(a_post * post + b[n : 2 * n])).exp())
        H_res = sinkhorn((a_res * res + b[2 * n :]).unflatten(0, (n, n)), rounds)
        out = f(torch.einsum("ibt,ibtd->btd", H_pre, X))
        mixed = torch.einsum("ijbt,jbtd->ibtd", H_res, X)
        X = torch.einsum("ibt,btd->ibtd", H_post, out) + (mixed if mixing else X + 0 * mixed)
    return X.sum(0)


# --- the field ------------------------------------------------------------------------------------------------------


def residual_lambdas(stack: Stack) -> Tensor:
    """nanochat: x = resid_lambdas[i] * x + x0_lambdas[i] * x0 before every block."""
    x = stack.embedding
    for i, layer in enumerate(stack.layers):
        scale, share = stack.w[f"depth.weights.step_{2 * i}"]
        x = scale * x + share * stack.embedding
        for f in layer:
            x = x + f(x)
    return x


def unet_skips(stack: Stack) -> Tensor:
    """modded-nanogpt: the first half pushes its results; each layer of the second half adds what it pops, weighed."""
    x, pushed, half = stack.embedding, [], len(stack.layers) // 2
    for i, layer in enumerate(stack.layers):
        if i >= len(stack.layers) - half:
            x = x + stack.w[f"depth.weights.step_{2 * i}"][0] * pushed.pop()
        for f in layer:
            x = x + f(x)
        if i < half:
            pushed.append(x)
    return x


def dynamic_dense(stack: Stack, step: int, results: list[Tensor], ways: int) -> list[Tensor]:
    """MUDDFormer: A = GELU(RMSNorm(X_i) W_1) W_2 + a, one sum of X_0 .. X_i for every way."""
    inner = gelu(torch.einsum("btd,od->bto", rms(results[-1], stack.eps), stack.w[f"depth.hidden.step_{step}"]))
    A = torch.einsum("bti,oi->bto", inner, stack.w[f"depth.map.step_{step}"]) + stack.w[f"depth.offsets.step_{step}"]
    return list(torch.einsum("btcl,lbtd->cbtd", A.unflatten(-1, (ways, -1)), torch.stack(results)))


def mudd(stack: Stack) -> Tensor:
    """MUDDFormer: X' = MHA(X^Q, X^K, X^V) + X^R, X_i = FFN(X') + X'; the head reads one more sum."""
    results = [stack.embedding]
    for i, (attend, feed_forward) in enumerate(stack.layers):
        query, key, value, residual = dynamic_dense(stack, 2 * i, results, 4) if i else results * 4
        x = attend(query, key, value) + residual
        results.append(feed_forward(x) + x)
    return dynamic_dense(stack, 2 * len(stack.layers), results, 1)[0]


def generalised(stack: Stack, step: int, outputs: list[Tensor], sums: int) -> list[Tensor]:
    """DeepCrossAttention, GRN-v3: g(x) = (G * (b + 1 relu(w^T G))) 1, with b (d, t) and w (d)."""
    G = torch.stack(outputs, -1)
    b = stack.w[f"depth.wide.step_{step}"].unflatten(0, (sums, -1)).mT
    w = stack.w[f"depth.map.step_{step}"]
    return [(G * (b[s] + torch.einsum("btdj,d->btj", G, w[s]).clamp(min=0)[..., None, :])).sum(-1) for s in range(sums)]


def deepcrossattention(stack: Stack, last: int = 0, first: int = 1, between: int = 1) -> Tensor:
    """DeepCrossAttention: three sums of all outputs for an attention, whose residual is its queries' sum.

    last    with it, k-DCA: the first outputs and the last k are read by themselves, the others as their sum
    """

    def read(outputs: list[Tensor]) -> list[Tensor]:
        if not last or len(outputs) <= first + last:
            return outputs
        pooled = [sum(outputs[first:-last])] if between else []
        return [*outputs[:first], *pooled, *outputs[-last:]]

    outputs = [stack.embedding]
    for i, (attend, feed_forward) in enumerate(stack.layers):
        query, key, value = generalised(stack, 2 * i, read(outputs), 3)
        attended = attend(query, key, value)
        outputs.append(attended + feed_forward(attended + query))
    return generalised(stack, 2 * len(stack.layers), read(outputs), 1)[0]


def delta_attnres(stack: Stack) -> Tensor:
    """Delta Attention Residuals: h~ = h + sum_i softmax_i(w^T RMSNorm(v_i)) v_i, v_0 = h_0, and h <- h + f(h~).

    The norm's gain is in w.  Before the first output there is nothing to attend over.
    """
    h, deltas = stack.embedding, [stack.embedding]
    for k, f in enumerate(stack.sublayers):
        read = h
        if k:
            V = torch.stack(deltas)
            logits = torch.einsum("d,nbtd->nbt", stack.w[f"depth.map.step_{k}"][0], rms(V, stack.eps))
            shares = logits.exp() / logits.exp().sum(0)
            read = h + torch.einsum("nbt,nbtd->btd", shares, V)
        deltas.append(f(read))
        h = h + deltas[-1]
    return h


def denseformer_sparse(stack: Stack, dilation: int = 4, period: int = 5) -> Tensor:
    """DenseFormer, k x p: Y_i = sum over j <= i, j = i mod k, of alpha_ij X_j, where p divides i, else X_i."""
    results, y = [stack.embedding], stack.embedding
    for i, layer in enumerate(stack.layers, 1):
        for f in layer:
            y = y + f(y)
        results.append(y)
        if i % period == 0:
            alpha = stack.w[f"depth.weights.step_{2 * i - 1}"]
            y = sum(a * x for a, x in zip(alpha, results[i % dilation :: dilation], strict=True))
    return y


STREAMS: dict[str, Callable[..., Tensor]] = {
    "hyper-connections": hyper_dynamic,
    "hyper-connections-static": hyper_static,
    "mhc": mhc,
    "residual-lambdas": residual_lambdas,
    "unet-skips": unet_skips,
    "mudd": mudd,
    "deepcrossattention": deepcrossattention,
    "delta-attnres": delta_attnres,
    "denseformer-sparse": denseformer_sparse,
}
