"""Claims that lead to ResFormer: what cross-layer attention does with poor layers, and what attention maps."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from experiments.ledger.claim import Claim
from experiments.toys.unjudged import OF_VALUES
from theory.plans import mix
from theory.plans.names import resolve
from theory.plans.plan import Shape
from theory.plans.variants import VARIANTS
from theory.prompts.moments import Array
from theory.resformer import blocks
from theory.resformer.paper import PAPER

ROUNDING = 1e3 * np.finfo(float).eps
ANY_MEAN = "which values are mixed makes no difference, if their weights sum to one"

LOW_QUALITY = Claim(
    "resformer.low-quality",
    PAPER.name,
    place="section 3.1, before Eqn. (2)",
    statement="A layer whose keys match the query poorly gets little weight in cross-layer attention, which limits the "
    "harm that it does.",
    assumes="poorly: its scores lie below the own layer's",
    verdict="corrected",
    correction="True of Eqn. (2): scores that are lower by Delta leave it 1 / (1 + e^Delta).  Lost in Eqns. (3) to "
    "(5) and (7), which the paper derives from it: with layer n's keys an earlier layer has the weight of layer n, "
    "whatever its quality.",
    proof=blocks.gates,
    uses=("resformer.gate", "resformer.eqns-3-5"),
)


@LOW_QUALITY.check(
    "the share of an earlier layer whose scores are lower by 0, 1 and 10",
    states=lambda delta: 1 / (1 + np.exp(delta)),
    control=lambda _delta: 0.5,
    wrong="a half, as in the block form",
    kind="float64",
)
def poor_layers_get_little(share: Callable[[float], float]) -> bool:
    own = np.random.default_rng(1).standard_normal((3, 5))
    return all(
        np.abs(blocks.gates([own, own - delta])[1] - share(delta)).max() < ROUNDING for delta in (0.0, 1.0, 10.0)
    )


@LOW_QUALITY.check(
    "how far the output follows values of the earlier layer that are off by 1 everywhere, its scores lower by 10: by "
    "Eqn. (2), and by its block form",
    states={"cross": 1 / (1 + np.exp(10)), "block": 0.5},
    control={"cross": 1 / (1 + np.exp(10)), "block": 1 / (1 + np.exp(10))},
    wrong="as little in the block form",
    kind="float64",
)
def block_form_follows_poor_values(moved: Mapping[str, float]) -> bool:
    rng = np.random.default_rng(2)
    own, (values, earlier) = rng.standard_normal((3, 5)), rng.standard_normal((2, 5, 4))

    def output(name: str, poor: Array) -> Array:
        if name == "cross":
            return blocks.cross_layer_attention([own, own - 10], [values, poor])
        return blocks.block_attention(own, [values, poor])

    return all(
        np.abs(output(name, earlier + 1) - output(name, earlier) - by).max() < ROUNDING for name, by in moved.items()
    )


EMBEDDING_SPACE = Claim(
    "resformer.embedding-space",
    PAPER.name,
    place="section 3.2, after Eqn. (5)",
    statement="Eqn. (3) projects historical values into the current layer's embedding space, with the current layer's "
    "attention as the matrix.",
    assumes="one head; A_n acts on tokens, from the left",
    verdict="corrected",
    correction="It mixes tokens and leaves the embedding space alone: rows of A_n V_m are means of rows of V_m, in the "
    "same coordinates, so in V_m's row space and within its range entry by entry.  What layer n makes of those "
    "coordinates is its output projection, which has to read V_n and V_m alike.",
    proof=blocks.attention,
    unjudged={**OF_VALUES, mix.v: ANY_MEAN, mix.total: ANY_MEAN, VARIANTS["resformer-all"].make: ANY_MEAN},
)


@EMBEDDING_SPACE.check(
    "values of a 2-dimensional row space in 5 coordinates, 20 draws: the rank of values and output together",
    states=2,
    control=3,
    wrong="a new direction",
    kind="float64",
)
def row_space_stays(rank: int) -> bool:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        values = rng.standard_normal((6, 2)) @ rng.standard_normal((2, 5))
        out = blocks.attention(3 * rng.standard_normal((6, 6)), values)
        if np.linalg.matrix_rank(np.concatenate([values, out])) != rank:
            return False
    return True


@EMBEDDING_SPACE.check(
    "outputs within the least and the largest entry of the values, times what their weights in Eqns. (5) and (6) sum "
    "to",
    states={"resformer-all": 1.0, "identity-mapping": 2.0},
    control={"resformer-all": 1.0, "identity-mapping": 1.0},
    wrong="Eqn. (6) too",
    kind="float64",
)
def outputs_are_means(sums: Mapping[str, float]) -> bool:
    """Values that are 1 in one coordinate and between 1/2 and 1 in the others, in every layer; layer 3 of the plan."""
    rng = np.random.default_rng(4)
    values = {n: np.c_[np.ones(6), rng.uniform(0.5, 1, (6, 3))] for n in (1, 2, 3)}
    for name, total in sums.items():
        head = resolve(name, Shape(3, 1)).head(3, 1)
        attended, beside = (
            sum(t.start * values[t.source.layer] for t in m.terms) for m in (head.values[0], head.beside)
        )
        out = blocks.attention(rng.standard_normal((6, 6)), np.asarray(attended)) + beside
        if np.abs(out[:, 0] - total).max() > ROUNDING or out.min() < total / 2 or out.max() > total + ROUNDING:
            return False
    return True
