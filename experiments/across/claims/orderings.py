"""Claims on orders: the share of skip heads, and the toy's explanation of the papers' orderings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from fractions import Fraction
from functools import cache

import numpy as np

from experiments.across.claims.value_maps import svformer_attains_nowhere
from experiments.across.orderings.experiment import EXPERIMENT, PAPERS_WIDTH
from experiments.across.orderings.papers import difference, explained_gain, pairs_by_paper, toy_levels
from experiments.across.printed import reported
from experiments.ledger.claim import Claim
from experiments.skipv1.claims.gap import map_rank_is
from experiments.skipv1.claims.setting import W0_ZERO
from experiments.store.folders import Json
from experiments.toys.unjudged import OF_VALUE_MAPS
from experiments.training.printed import BASELINE
from experiments.verdicts.orders import agreement
from theory.plans.heads import ORDINARY, SKIP
from theory.plans.mix import total
from theory.plans.names import resolve
from theory.plans.plan import Shape, learned_parameters
from theory.plans.variants import of_the_papers, ours
from theory.skipv1 import gap as skipv1
from theory.skipv1.gap_weights import skipv1_weights
from theory.skipv1.paper import PAPER
from theory.toy.exact import RATIONAL_TASKS, exact_loss, loss_at_entries
from theory.toy.population import Weights
from theory.toy.value_maps import needs_free_weights

PERMUTATIONS = 20_000

HEAD_RATIO = Claim(
    "toy.head-ratio",
    PAPER.ours,
    place="theory/skipv1/gap.py; bears on SkipV1Former, section 6.5 (Fig. 9a) and appendix B.2 (Table 7)",
    statement="Any mixture of at least one ordinary and at least one skip head has the minimum of half and half, "
    "at finite weights; skip heads alone come as near to it as one likes.  So the toy does not explain why one "
    "half is the best share of skip heads, or why all of them (SVFormer) are worse than none.",
    assumes=W0_ZERO,
    verdict="verified",
    proof=skipv1,
    uses=("skipv1.mha-infimum", "skipv1.skipv1-minimum", "toy.svformer-infimum"),
)


@HEAD_RATIO.check(
    "explicit weights of mixtures of three and four heads have exactly that loss; rational, d = 3, all ranks",
    states=lambda skip, heads: Fraction(1),
    control=lambda skip, heads: Fraction(2 * min(skip, heads - skip), heads),
    wrong="a signal that is largest at one half",
    kind="exact",
)
def mixtures_attain(share: Callable[[int, int], Fraction]) -> bool:
    """Compare `share` of SkipV1Former's signal, for `skip` of `heads` heads; all but one head of a kind are silent."""
    d, n, sigma = RATIONAL_TASKS[2]
    for a in range(1, d + 1):
        two = skipv1_weights(d, n, sigma, a)
        for skip, heads in ((1, 3), (2, 3), (1, 4), (3, 4)):
            kinds = (ORDINARY, *(SKIP,) * skip, *(ORDINARY,) * (heads - skip - 1))
            silent = np.zeros((heads - 2, d, d), dtype=object)
            w, k = np.concatenate([two.w, silent]), np.concatenate([two.k, silent[:, :, :a]])
            least = loss_at_entries(d, n, sigma, share(skip, heads) * a * d)
            if exact_loss(kinds, d, n, sigma).value(Weights(two.a, two.b, w, k)) != least:
                return False
    return True


HEAD_RATIO.check(
    "no mixture goes below it: rank a d; exact",
    states=((ORDINARY, SKIP, SKIP), lambda a, d: a * d),
    control=((ORDINARY, SKIP, SKIP), lambda a, d: d * d),
    wrong="rank d^2, as if the second skip head added something",
    kind="exact",
)(map_rank_is)

HEAD_RATIO.check(
    "skip heads alone do not attain it", states=True, control=False, wrong="the even part forgotten", kind="exact"
)(svformer_attains_nowhere)


@cache
def _prediction_and_figures() -> tuple[Json, Json]:
    """Return the toy's prediction and the papers' figures, without any minimisation."""
    prediction = EXPERIMENT.predict(EXPERIMENT.profiles["smoke"].config)
    return prediction, {"papers": [asdict(r) for r in reported()]}


def _quarter(d: int, _heads: int) -> int:
    return d**2 // 4


def _all(d: int, _heads: int) -> int:
    return d**2


def _one_a_head(_d: int, heads: int) -> int:
    return heads


def _nothing(_d: int, _heads: int) -> int:
    return 0


ENTRIES: Mapping[str, Callable[[int, int], int]] = {
    **dict.fromkeys(("vanilla", "identity-mapping", "neutreno", "residual-queries", "shared-queries"), _quarter),
    **dict.fromkeys(("cross-layer", "skipv2", "skipv0", "skipkv1"), _quarter),
    **dict.fromkeys(("resformer", "resformer-constant", "resformer-learned", "resformer-sparse"), _all),
    **dict.fromkeys(("resformer-previous", "resformer-all", "resformer-neutreno", "svformer", "cla-v", "yoco-v"), _all),
    **dict.fromkeys(("skipv1", "skipv1-pooling", "skipv1-dynamic", "skipv1-odd-even", "skipv1-resformer"), _all),
    **dict.fromkeys(("cla-k", "shared-keys", "yoco-k"), _one_a_head),
    "residual-keys": lambda d, heads: d**2 // 4 + heads,
    "skipv1-yoco": lambda _d, heads: heads // 2,
    **dict.fromkeys(("cla", "yoco"), _nothing),
}
SAME_TOY = "another plan of a toy that explains as much"
NO_TOY = "a plan that the toy does not cover"

ORDERINGS = Claim(
    "toy.orderings",
    PAPER.ours,
    place="ResFormer, sections 3.5 and 4.2 to 4.8; SkipV1Former, section 6 and appendices B and C",
    statement="Of 38 pairs of variants that one of the two papers puts in order, the two-layer toy orders 24, and "
    "20 of them as the paper does.  It contradicts them on SVFormer and on sharing every second layer's values, "
    "which it takes for better than vanilla, and on SkipV1-YOCO, which it takes for worse.  On SkipV0, SkipV2, "
    "SkipKV1, residual queries and keys, shared queries, and the share of skip heads it says nothing.  Without the "
    "gains of SkipV1Former and ResFormer over vanilla, which it was made to explain, it agrees on 10 of 14, which "
    "is no more than chance may give (p = 0.21).",
    assumes="the toy at two layers and at the width of the papers' models; differences from a hundredth of the "
    "signal on count; of the papers: what they print, and the sign of what their texts say of plots",
    verdict="verified",
    uses=("toy.value-maps", "toy.raw-keys", "toy.head-ratio", "toy.width"),
    unjudged={
        **OF_VALUE_MAPS,
        **{variant.make: SAME_TOY if name in ENTRIES else NO_TOY for name, variant in ours().items()},
        total: SAME_TOY,
        ours: "their names, by which variants are asked for",
        of_the_papers: "their names, by which variants are asked for",
        learned_parameters: "none of these papers' weights is as wide as a head",
        needs_free_weights: "which entry a point of the experiment belongs to",
    },
)


@ORDERINGS.check(
    "what the toy explains of each variant that it covers, at the papers' width and number of heads, in entries of W*",
    states=12,
    control=6,
    wrong="half as many keys of layer 1 that read",
    kind="exact",
)
def explained_at_size(heads: int) -> bool:
    """Compare the toy's shares with `ENTRIES`, which list every covered variant, and check the shapes of all plans."""
    width, shares = PAPERS_WIDTH, _prediction_and_figures()[0]["order"]["shares"]
    known = {name: Fraction(entries(width, heads), width**2) for name, entries in ENTRIES.items()}
    if {name: shares[name] for name in of_the_papers() if name in shares} != {
        n: float(share) for n, share in known.items()
    }:
        return False
    return all(resolve(name, shape).shape == shape for name in of_the_papers() for shape in (Shape(2, 2), Shape(2, 12)))


@ORDERINGS.check(
    "counts of pairs in the same and in the opposite order, and of ties",
    states=(20, 4, 14),
    control=(24, 0, 14),
    wrong="no pair in the opposite order",
    kind="exact",
)
def order_counts(counts: tuple[int, int, int]) -> bool:
    """Compare the counts over all pairs: same order, opposite order, ties."""
    return _counts(lambda *_: True) == counts


@ORDERINGS.check(
    "the same counts without the gains over vanilla that the toy was made to explain",
    states=(10, 4, 14),
    control=(20, 4, 14),
    wrong="as many as with them",
    kind="exact",
)
def rest_counts(counts: tuple[int, int, int]) -> bool:
    """Compare the counts over pairs that are not the gains over vanilla which the toy was made to explain."""
    return _counts(lambda levels, pair: not explained_gain(levels, *pair)) == counts


def _counts(counts: Callable[[Mapping[str, int], tuple[str, str]], bool]) -> tuple[int, int, int]:
    prediction, measurement = _prediction_and_figures()
    levels = toy_levels(prediction)
    pairs = [
        pair for paper in pairs_by_paper(prediction, measurement).values() for pair in paper if counts(levels, pair)
    ]
    toy = agreement(levels, pairs)
    return toy.concordant, toy.discordant, toy.tied


@ORDERINGS.check(
    "against vanilla, the variants on which the papers contradict the toy, and those that it ties",
    states=(
        {"svformer", "cla-v", "skipv1-yoco"},
        {"skipv0", "skipv2", "skipkv1", "residual-queries", "residual-keys", "shared-queries"},
    ),
    control=(set(), {"skipv0", "skipv2", "skipkv1", "residual-queries", "residual-keys", "shared-queries"}),
    wrong="no contradiction",
)
def against_vanilla(version: tuple[set[str], set[str]]) -> bool:
    """Compare variants whose sign against vanilla is not the toy's, and those for which the toy sees no difference."""
    prediction, _ = _prediction_and_figures()
    wrong, tied = set(), set()
    for r in reported():
        gap = difference(prediction, r.variant, BASELINE) if r.against == BASELINE and r.differs else None
        if gap == 0:
            tied.add(r.variant)
        elif gap is not None and gap * r.sign < 0:
            wrong.add(r.variant)
    return (wrong, tied) == version


@ORDERINGS.check(
    "levels dealt out at random within each paper agree as well or better with probability 0.012: 20,000 "
    "permutations, within 4 standard errors",
    states=0.012,
    control=0.05,
    wrong="one in twenty",
    kind="sampled",
)
def chance_of_order(p: float) -> bool:
    """Compare sampled permutations of levels within each paper with exact ones of `experiments.verdicts.orders`."""
    prediction, measurement = _prediction_and_figures()
    levels, rng = toy_levels(prediction), np.random.default_rng(3)
    balances, reference = np.zeros(PERMUTATIONS), 0
    for pairs in pairs_by_paper(prediction, measurement).values():
        names = sorted({name for pair in pairs for name in pair})
        place = {name: i for i, name in enumerate(names)}
        better, worse = np.array([[place[a], place[b]] for a, b in pairs]).T
        own = np.array([levels[name] for name in names])
        deals = rng.permuted(np.tile(own, (PERMUTATIONS, 1)), axis=1)
        balances += np.sign(deals[:, worse] - deals[:, better]).sum(axis=1)
        reference += int(np.sign(own[worse] - own[better]).sum())
    share = float((balances >= reference).mean())
    return abs(share - p) <= 4 * (p * (1 - p) / PERMUTATIONS) ** 0.5
