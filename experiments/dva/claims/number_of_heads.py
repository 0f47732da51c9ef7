"""Claims on what limits the number of heads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from experiments.dva.claims.collapse import OF_A_LAYER
from experiments.ledger.claim import Claim
from experiments.toys.unjudged import OF_PARAMETERS
from theory.dva.paper import PAPER
from theory.plans.accounting import flops, total_parameters
from theory.plans.architecture import Architecture
from theory.plans.memory import activations, answered
from theory.plans.names import resolve
from theory.plans.presets import gpt2

LIMIT = Claim(
    "dva.number-of-heads",
    PAPER.name,
    place="abstract, section 2.2: complexity, or computation, restricts the number of heads",
    statement="The number of heads is limited by what heads cost.",
    assumes="the accounting's parameters, FLOPs and numbers that a training step keeps; GPT-2's blocks; softmaxes "
    "themselves are not among the FLOPs",
    verdict="corrected",
    correction="In a model of one width, as the paper's, parameters and FLOPs are the same for every number of "
    "heads.  Two things grow with it, in proportion: softmaxes, one a pair of tokens and head, and, where no fused "
    "kernel attends, the weights of pairs that are kept.  Only heads of a fixed width cost parameters and FLOPs "
    "each.  What is limited at one width is the width of a head, d / H, and with it the rank of its scores "
    "(dva.scores).",
    proof=flops,
    uses=("dva.scores",),
    unjudged={
        **OF_PARAMETERS,
        **OF_A_LAYER,
        **dict.fromkeys((activations, answered), "what is kept is told with fused kernels and without: a difference"),
    },
)
COUNTS = (1, 2, 3, 4, 6, 12)
VOCAB, CONTEXT, FAR = 64, 32, 16  # FAR: tokens that are attended to


def _model(heads: int, head_dim: int = 0, layers: int = 2, d: int = 24) -> Architecture:
    made = gpt2(d_model=d, n_heads=heads, n_layers=layers, vocab=VOCAB, context=CONTEXT, tied=False, qkv_bias=False)
    return replace(made, head_dim=head_dim)


def _by_hand(layers: int, d: int, wide: int) -> tuple[int, int]:
    """Parameters, and FLOPs of a token, of a GPT-2 whose heads are `wide` together."""
    matrices = layers * (4 * d * wide + 8 * d * d)
    parameters = matrices + (2 * VOCAB + CONTEXT) * d + layers * (6 * d + 4 * d) + 2 * d
    return parameters, 2 * (matrices + VOCAB * d) + layers * FAR * 4 * wide + 2 * d * (2 * layers + 1)


@LIMIT.check(
    "parameters and FLOPs by the accounting with 1 to 12 heads, as counted by hand from how wide they are together: "
    "in a model of width 24 as it divides its width, and of heads that are 8 wide",
    states=(lambda heads: 24, lambda heads: 8 * heads),
    control=(lambda heads: 24 * heads, lambda heads: 8 * heads),
    wrong="with their number in either",
    kind="exact",
)
def cost_of_heads(wide: tuple[Callable[[int], int], Callable[[int], int]]) -> bool:
    for heads in COUNTS:
        for layers in (1, 2):
            for head_dim, together in zip((0, 8), wide, strict=True):
                sizes = _model(heads, head_dim, layers)
                plan = resolve("vanilla", sizes.shape)
                found = total_parameters(sizes, plan), flops(sizes, plan, FAR)
                if found != _by_hand(layers, 24, together(heads)):
                    return False
    return True


@LIMIT.check(
    "numbers that a training step keeps of a token where no fused kernel attends, less those where one does: with "
    "dropout three for every token, head and layer",
    states=lambda heads: 3 * 2 * CONTEXT * heads,
    control=lambda heads: 3 * 2 * CONTEXT,
    wrong="whatever the number of heads",
    kind="exact",
)
def weights_of_pairs(count: Callable[[int], int]) -> bool:
    def kept(heads: int) -> int:
        sizes = replace(_model(heads), dropout=0.1)
        plan = resolve("vanilla", sizes.shape)
        return activations(sizes, plan) - activations(sizes, plan, fused=True)

    return all(kept(heads) == count(heads) for heads in COUNTS)
