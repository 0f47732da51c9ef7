"""Ledger entries on orders: what keys of layer 1 are worth, what the share of skip heads does not change, and which of
the papers' orderings the toy explains."""

from __future__ import annotations

from fractions import Fraction

from experiments.claims import orderings_checks as check
from experiments.claims import plans_checks as plans
from experiments.claims import skipv1_theorem_checks as theorem
from experiments.claims.ledger import Claim, Evidence
from experiments.claims.skipv1_theorem import OURS, W0_ZERO
from theory.plans.heads import ORDINARY, SKIP

CLAIMS = (
    Claim(
        id="toy.raw-keys",
        paper=OURS,
        place="theory/toy/raw_keys.py; bears on ResFormer (002), section 3.5 (Fig. 4), 4.3 (Fig. 7) and 4.8 (Fig. 16), and "
        "SkipV1Former (003), appendix C.5",
        statement="Keys from layer 1 under values of layer 2 are worth one number of W* a head: H heads explain "
        "rho min(H, a d) of the signal, and, for a >= 1, no weights attain it.  Beside keys of layer 2 they add "
        "rho min(H, a^2) to MHA's rho a (d - a), if H > 2 a - d or a = d.",
        assumes=W0_ZERO + "; every head has an output matrix of its own; no raw value has a copied key",
        verdict="verified",
        correction="",
        evidence=(
            Evidence(
                "numeric",
                "shared keys: the map from S_yx to P, realigned, has rank min(H, a d) for random weights; exact",
                check.realigned_rank_is,
                states=lambda heads, a, d: min(heads, a * d),
                control=lambda heads, a, d: a * d,
                wrong="a d, as if one head were enough, as it is for raw values",
            ),
            Evidence(
                "numeric",
                "shared keys: explicit weights have that loss but for a stated excess; rational, d = 1..3",
                check.shared_keys_approach,
                states=2,
                control=1,
                wrong="an excess that falls like 1 / beta",
            ),
            Evidence(
                "symbolic",
                "shared keys: for their odd part, no W make the even part vanish; exact, random projections, d = 1..3",
                check.shared_keys_attain_nowhere,
                states=True,
                control=False,
                wrong="the even part forgotten",
            ),
            Evidence(
                "numeric",
                "residual keys: where MHA's numbers are blind, the realigned map has rank min(H, a^2); exact",
                check.residual_rank_is,
                states=lambda heads, a: min(heads, a * a),
                control=lambda heads, a: min(2 * heads, a * a),
                wrong="two for a head, as if its two keys counted",
            ),
            Evidence(
                "numeric",
                "residual keys: the excess of explicit weights falls like s^2; exact numbers, d = 2 and 3",
                check.residual_keys_approach,
                states=0,
                control=1,
                wrong="one number more",
            ),
            Evidence(
                "numeric",
                "exact minimisation with one to three heads ends on the closed forms and not below, d = 3",
                check.minimiser_finds_raw_keys,
                states=1.0,
                control=1.02,
                wrong="explained signal 2 % larger",
            ),
        ),
        experiments=("toy-orderings",),
    ),
    Claim(
        id="toy.head-ratio",
        paper=OURS,
        place="theory/skipv1/gap.py; bears on SkipV1Former (003), section 6.5 (Fig. 9a) and appendix B.2 (Table 7)",
        statement="Any mixture of at least one ordinary and at least one skip head has the minimum of half and half, "
        "at finite weights; skip heads alone come as near to it as one likes.  So the toy does not explain why one "
        "half is the best share of skip heads, or why all of them (SVFormer) are worse than none.",
        assumes=W0_ZERO,
        verdict="verified",
        correction="",
        evidence=(
            Evidence(
                "numeric",
                "explicit weights of mixtures of three and four heads have just that loss; rational, d = 3, all ranks",
                check.mixtures_attain,
                states=lambda skip, heads: Fraction(1),
                control=lambda skip, heads: Fraction(2 * min(skip, heads - skip), heads),
                wrong="a signal that is largest at one half",
            ),
            Evidence(
                "numeric",
                "no mixture goes below it: rank a d; exact",
                theorem.map_rank_is,
                states=((ORDINARY, SKIP, SKIP), lambda a, d: a * d),
                control=((ORDINARY, SKIP, SKIP), lambda a, d: d * d),
                wrong="rank d^2, as if the second skip head added something",
            ),
            Evidence(
                "symbolic",
                "skip heads alone do not attain it",
                plans.svformer_attains_nowhere,
                states=True,
                control=False,
                wrong="the even part forgotten",
            ),
        ),
        experiments=("toy-orderings",),
    ),
    Claim(
        id="toy.orderings",
        paper=OURS,
        place="ResFormer (002), sections 3.5 and 4.2 to 4.8; SkipV1Former (003), section 6 and appendices B and C",
        statement="Of 38 pairs of variants that one of the two papers puts in order, the two-layer toy orders 24, and "
        "20 of them as the paper does.  It contradicts them on SVFormer and on sharing every second layer's values, "
        "which it takes for better than vanilla, and on SkipV1-YOCO, which it takes for worse.  On SkipV0, SkipV2, "
        "SkipKV1, residual queries and keys, shared queries, and the share of skip heads it says nothing.  Without the "
        "gains of SkipV1Former and ResFormer over vanilla, which it was made to explain, it agrees on 10 of 14, which "
        "is no more than chance may give (p = 0.21).",
        assumes="the toy at two layers and at the width of the papers' models; differences from a hundredth of the "
        "signal on count; of the papers: what they print, and the sign of what their texts say of plots; that it is of "
        "the variants that their texts describe.  SkipV1Former's code has another CLA and another YOCO "
        "(experiments.paper_losses, CODE): at two layers that CLA is the text's, and that YOCO is vanilla, which would "
        "turn one of the toy's ties, SkipV1Former and YOCO-V, into the paper's order",
        verdict="verified",
        correction="",
        evidence=(
            Evidence(
                "numeric",
                "counts of pairs in the same and in the opposite order, and of ties",
                check.order_counts,
                states=(20, 4, 14),
                control=(24, 0, 14),
                wrong="no pair in the opposite order",
            ),
            Evidence(
                "numeric",
                "the same counts without the gains over vanilla that the toy was made to explain",
                check.rest_counts,
                states=(10, 4, 14),
                control=(20, 4, 14),
                wrong="as many as with them",
            ),
            Evidence(
                "numeric",
                "against vanilla, the variants on which the papers contradict the toy, and those that it ties",
                check.against_vanilla,
                states=(
                    {"svformer", "cla-v", "skipv1-yoco"},
                    {"skipv0", "skipv2", "skipkv1", "residual-queries", "residual-keys", "shared-queries"},
                ),
                control=(set(), {"skipv0", "skipv2", "skipkv1", "residual-queries", "residual-keys", "shared-queries"}),
                wrong="no contradiction",
            ),
            Evidence(
                "numeric",
                "levels dealt out at random within each paper agree as well or better with probability 0.012: 20,000 "
                "permutations, within 4 standard errors",
                check.chance_of_order,
                states=0.012,
                control=0.05,
                wrong="one in twenty",
            ),
        ),
        experiments=("toy-orderings",),
    ),
)
