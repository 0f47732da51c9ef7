"""Mean squares of outputs and reads over initial weights, exactly.

A decoder as `icl.models.initial` fills it: all matrices and embeddings independent and normal with deviation std, those
that write to the stream (attention's output, the feed-forward's down) with tau = std, or std / sqrt(2 L) for L layers
if outputs are scaled, as GPT-2's; gains 1, biases and queries over depth 0.  Norms before sublayers have eps = 0, so
they return u with ||u||^2 = d.  One token stands alone (T = 1), so that attention returns its value.  Then
    embedding       E ||v_0||^2 = d std^2, and as much again for learned positions;
    attention       v = sum_h O_h V_h u:  d tau^2 E sum_h ||V_h u||^2 = d tau^2 H w std^2 d, H heads of width w;
    feed-forward    d tau^2 f E[g^2], g what an inner number is: with z ~ N(0, std^2 d),
                    GELU: E[gelu(z)^2];  gated: E[silu(z)^2] std^2 d, as gate and up are independent.
    Proof.  u depends on weights of earlier sublayers only, whatever came out of these; so V u and its kin are normal
given u, of covariance std^2 ||u||^2 I = std^2 d I, and the last matrix multiplies what it gets by E ||O m||^2 =
d tau^2 ||m||^2.  As it has mean 0 given all that came before, <v_i, v_j> has mean 0 for i != j.             QED
With more tokens attention returns a convex combination of values, whose mean square is at most that: an upper bound.

So E ||h_l||^2 = sum_i A_li^2 E ||v_i||^2, A being `theory.attnres.coefficients.start_matrix`.  With r = E ||v_i||^2 /
E ||v_0||^2 on average over sublayers, PreNorm's stream has grown by sqrt(1 + r M) after all M of them.  If outputs are
scaled, r falls as 1 / M, and the stream at the last read is as large in a deep network as in a shallow one: *at such
initial weights PreNorm does not grow with the number of layers*, and Full AttnRes falls as 1 / (M + 1).  How much it
grows within a network depends on d std: the attentions together put out d^2 std^2 / 2 of the embedding's square (H w =
d), at std 0.02 a twentieth for d = 16 and 52 times as much for d = 512.
"""

from __future__ import annotations

from math import sqrt

from theory.attnres.coefficients import start_matrix
from theory.attnres.typical import attention_square, feed_forward_square
from theory.errors import BadInput
from theory.plans.architecture import Architecture, Tokens
from theory.plans.plan import Plan


def initial_outputs(config: Architecture, plan: Plan, std: float = 0.02, *, scale_outputs: bool = True) -> list[float]:
    """Return E ||v_i||^2 of the embedding and every sublayer's output, one token alone, eps = 0.

    std, scale_outputs as a decoder takes them.  Raises BadInput for a model without tokens or without norms before its
    sublayers, with a latent, and for a plan that changes values.
    """
    if config.sublayer_norm == "none" or not isinstance(config.stem, Tokens) or config.latent is not None:
        raise BadInput("sizes at initial weights are worked out for tokens, with norms and without a latent")
    if config.score != "softmax" or config.copy_rank is not None or not _ordinary(plan):
        raise BadInput("sizes at initial weights are worked out for softmax attention over a layer's own values")
    d, written = config.d_model, std / sqrt(2 * config.n_layers) if scale_outputs else std
    layer = [attention_square(d, config.n_heads, config.width, std=std, written=written, share=1.0)]
    if config.has_feed_forward(plan):
        layer.append(
            feed_forward_square(d, config.d_ff, std, written=written, kind="swiglu" if config.gated else "gelu")
        )
    return [d * std**2 * (1 + (config.positions == "learned")), *layer * config.n_layers]


def initial_reads(config: Architecture, plan: Plan, std: float = 0.02, *, scale_outputs: bool = True) -> list[float]:
    """Return E ||h_l||^2 of every read, the last one too; arguments as in `initial_outputs`."""
    outputs = initial_outputs(config, plan, std, scale_outputs=scale_outputs)
    return [
        sum(float(a) ** 2 * size for a, size in zip(row, outputs, strict=False)) for row in start_matrix(config, plan)
    ]


def _ordinary(plan: Plan) -> bool:
    """Return whether every head reads its own values alone."""
    from theory.plans.mix import v

    heads = [(plan.head(n, h), v(n, h)) for n, h in plan.shape.cells()]
    return plan.dynamic == "no" and all(head.values == (own,) and not head.beside.terms for head, own in heads)
