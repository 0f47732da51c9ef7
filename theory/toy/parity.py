"""Rotary positions under linear scores: nothing of in-context regression is learned, exactly.

Setting: a prompt x_1, y_1, ..., x_n, y_n, x read one vector per token, y = W* x + noise, where W* and the noise
together are, given all x, distributed as their negatives (so W0 = 0, and no finite pool of tasks); the answer is read
at the last token, x.

Theorem.  Let the scores be linear, positions rotary or absent, and let there be no biases, no feed-forward, no assumed
copy, no dynamic values and no weights over depth that look at the outputs.  Then the answer is the same for all y with
the opposite sign, whatever the weights, widths, heads, depth and plan, with RMSNorm, LayerNorm or no norm.  So
    E |y - answer|^2 = E |y|^2 + E |answer|^2 >= E |y|^2:
no such model does better than predicting zero.
Proof.  Turn the signs of all y, and call s_t = -1 for tokens of y and 1 for those of x.  Claim: every state at token t
is multiplied by s_t.  The read-in is linear and has no constant, so this holds of the embedding.  If it holds of a
sublayer's input it does of its norm, an odd function, and of queries, keys and values, which are linear in that token
alone, normed, rotated by the token's place, or mixed with those of other layers at the same token; and of what stands
beside a head, which is of that token too.  The score of t and i is multiplied by s_t s_i, the value at i by s_i, so
head and output by s_t s_i^2 = s_t, whichever i the mask lets t see.  Sums over depth with fixed weights keep it.  The
answer is read at a token of x: s = 1.  Prompts with W* and noise negated are as likely and have the opposite y at the
last token too, so that the mean of y given the answer and the inputs is zero.                                      QED

What is needed of it: a number added to a score, as learned biases for pairs of positions do, is not multiplied by
s_t s_i; a learned vector added to the embedding is a constant; a softmax is not odd in its scores, nor a feed-forward
in its input, nor are weights over depth, which look at outputs, even.  With any of these the answer sees the signs.
"""

from __future__ import annotations

from theory.plans.architecture import Architecture, Vectors
from theory.plans.depth import Chain, DepthAttention, DepthAverage, Residual
from theory.plans.plan import Plan
from theory.plans.streams import Streams


def keeps_signs(config: Architecture, plan: Plan) -> bool:
    """Return whether the theorem covers these models: then they explain nothing of prompts of its setting."""
    looks = isinstance(plan.depth, DepthAttention) and plan.depth.query != "static"
    if isinstance(plan.depth, Streams):
        looks = any(step.gates for step in plan.depth.steps)
    known = isinstance(plan.depth, Residual | Chain | DepthAverage | DepthAttention | Streams)
    constants = config.bias or config.qkv_bias or config.positions in ("bias", "learned")
    return (
        isinstance(config.stem, Vectors)
        and config.score == "linear"
        and config.copy_rank is None
        and plan.dynamic == "no"
        and known
        and not (constants or looks or config.has_feed_forward(plan))
    )
