"""Claims on Dynamic Value Attention's parameter counts."""

from __future__ import annotations

from experiments.ledger.claim import Claim
from experiments.toys.unjudged import OF_PARAMETERS
from theory.dva.paper import PAPER
from theory.plans.accounting import parameters, total_parameters
from theory.plans.names import model

TABLE_1 = Claim(
    "dva.table-1",
    PAPER.name,
    place="section 4, Table 1, total number of parameters",
    statement="Model a has 162,419,712 parameters and model b 112,800,768.",
    assumes="model b's block is five d x d matrices without bias and one LayerNorm, no output projection, and the "
    "head is not tied; the paper does not say so",
    verdict="verified",
    proof=parameters,
    unjudged=OF_PARAMETERS,
)


@TABLE_1.check(
    "model b by the accounting",
    states=("dva-b", "dva", 112_800_768),
    control=("dva-b", "vanilla", 112_800_768),
    wrong="a vanilla block",
    kind="exact",
)
@TABLE_1.check(
    "model a as a GPT-2 with biases outside queries, keys and values, by the accounting",
    states=("dva-a", "vanilla", 162_419_712),
    control=("dva-a", "dva-attention", 162_419_712),
    wrong="with dynamic values beside the feed-forward",
    kind="exact",
)
def dva_parameters(version: tuple[str, str, int]) -> bool:
    """A preset as a variant has so many parameters."""
    preset, variant, total = version
    return total_parameters(*model(preset, variant)) == total


@TABLE_1.check(
    "model a by hand: twelve matrices' worth, the biases of output, up and down, two norms",
    states=(12, 6, 2, 162_419_712),
    control=(12, 9, 2, 162_419_712),
    wrong="with biases of queries, keys and values",
    kind="exact",
)
@TABLE_1.check(
    "model b from its parts, counted by hand: five matrices and one norm a layer",
    states=(5, 0, 1, 112_800_768),
    control=(6, 1, 1, 112_800_768),
    wrong="with an output projection",
    kind="exact",
)
def dva_by_hand(version: tuple[int, int, int, int]) -> bool:
    """Table 1 from its parts: two embeddings, positions, twelve layers of d x d matrices, biases, norms; a norm."""
    matrices, biases, norms, total = version
    d, vocab, layers, context = 768, 50_257, 12, 256
    layer = matrices * d * d + biases * d + norms * 2 * d
    return 2 * vocab * d + context * d + layers * layer + 2 * d == total
