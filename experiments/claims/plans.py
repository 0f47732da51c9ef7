"""Ledger entries on plans: what the toy says of every value map, and what the papers count or print wrongly."""

from __future__ import annotations

from fractions import Fraction

import sympy

from experiments.claims import plans_checks as check
from experiments.claims import skipv1_theorem_checks as theorem
from experiments.claims.ledger import Claim, Evidence
from experiments.claims.skipv1_theorem import OURS, W0_ZERO
from experiments.claims.skipv1_theorem import PAPER as SKIPV1
from theory.plans.heads import ORDINARY, SKIP, Head

RESFORMER = "ResFormer (002)"
DVA = "Dynamic Value Attention (004)"
RAW_BOTH = Head(copied=0, raw=1, key_copied=0, key_raw=1)

CLAIMS = (
    Claim(
        id="toy.value-maps",
        paper=OURS,
        place="theory/toy/value_maps.py; bears on the orderings of ResFormer (002), sections 4.2, 4.3 and 4.8, and "
        "SkipV1Former (003), section 6.5 and appendix C.5",
        statement="A two-layer plan's toy explains rho a d of the signal if some value from layer 1 meets a key of "
        "layer 2 (SkipV1Former, ResFormer, SVFormer); rho a (d - a) if none does, no value of layer 2 meets a key of "
        "layer 1, and one meets a key of layer 2 (MHA, SkipV0, true cross-layer attention, SkipKV1Former); nothing if "
        "values of layer 1 meet keys of layer 1 alone (sharing both, as CLA does).  Terms beside the attention "
        "(NeuTRENO) change none of these.",
        assumes=W0_ZERO + "; every head has an output matrix of its own; no weights that cancel each other",
        verdict="verified",
        correction="",
        evidence=(
            Evidence(
                "numeric",
                "a raw value with a copied key: the map from S_yx to P has rank a d, and no more; exact, d = 1..3",
                theorem.map_rank_is,
                states=((SKIP,), lambda a, d: a * d),
                control=((SKIP,), lambda a, d: a * (d - a)),
                wrong="rank a (d - a)",
            ),
            Evidence(
                "numeric",
                "true cross-layer attention: a raw value with a raw key beside MHA leaves its rank as it is; exact",
                theorem.map_rank_is,
                states=((ORDINARY, RAW_BOTH), lambda a, d: a * (d - a)),
                control=((ORDINARY, RAW_BOTH), lambda a, d: a * d),
                wrong="rank a d, as if cross-layer attention brought the raw labels back",
            ),
            Evidence(
                "numeric",
                "a raw value with a raw key sees nothing of S_yx; exact",
                theorem.map_rank_is,
                states=((RAW_BOTH,), lambda a, d: 0),
                control=((RAW_BOTH,), lambda a, d: a * (d - a)),
                wrong="rank a (d - a)",
            ),
            Evidence(
                "numeric",
                "terms beside the attention: exact losses of explicit weights stay above MHA's infimum and approach it",
                check.beside_changes_nothing,
                states=10**7,
                control=1,
                wrong="weights that are not rescaled",
            ),
            Evidence(
                "numeric",
                "exact minimisation of eight named plans ends on the closed forms and not below, d = 4, ranks 1 and 3",
                check.minimiser_finds_value_maps,
                states=1.0,
                control=1.02,
                wrong="explained signal 2 % larger",
            ),
        ),
    ),
    Claim(
        id="toy.resformer-head",
        paper=OURS,
        place="theory/toy/value_maps.py; ResFormer (002), Eqn. (7)",
        statement="One ResFormer head attains SkipV1Former's minimum at every rank, at finite weights.",
        assumes=W0_ZERO + "; layers 1 and 2 have value projections of their own",
        verdict="verified",
        correction="",
        evidence=(
            Evidence(
                "numeric",
                "explicit weights have exactly that loss; rational arithmetic, d = 1..4, all ranks",
                check.one_resformer_head_attains,
                states=lambda kept: Fraction(1, 2) if kept else Fraction(1),
                control=lambda kept: Fraction(0),
                wrong="the copied half silent, so that the even part stays",
            ),
            Evidence(
                "numeric",
                "nothing goes below it: ordinary and skip heads together have a map of rank a d at most; exact",
                theorem.map_rank_is,
                states=((ORDINARY, SKIP), lambda a, d: a * d),
                control=((ORDINARY, SKIP), lambda a, d: a * (d - a)),
                wrong="rank a (d - a)",
            ),
        ),
    ),
    Claim(
        id="toy.svformer-infimum",
        paper=OURS,
        place="theory/toy/value_maps.py; ResFormer (002), Eqn. (10)",
        statement="SVFormer, all values from layer 1, comes as near to SkipV1Former's minimum as one likes, with an "
        "excess of lambda^2 a n (n + d + 1) / beta^2 at ||A|| ~ beta; it does not attain it for a >= 1.",
        assumes=W0_ZERO,
        verdict="verified",
        correction="",
        evidence=(
            Evidence(
                "numeric",
                "the excess of explicit weights, exactly; rational arithmetic, d = 1..4, all ranks",
                check.svformer_excess,
                states=2,
                control=1,
                wrong="falling like 1 / beta",
            ),
            Evidence(
                "numeric",
                "nothing goes below it: rank a d; exact",
                theorem.map_rank_is,
                states=((SKIP,), lambda a, d: a * d),
                control=((SKIP,), lambda a, d: d * d),
                wrong="rank d^2",
            ),
            Evidence(
                "symbolic",
                "no weights attain it: the equations for a vanishing even part and a full odd part have no solution",
                check.svformer_attains_nowhere,
                states=True,
                control=False,
                wrong="the even part forgotten",
            ),
        ),
    ),
    Claim(
        id="skipv1.table-2-cache",
        paper=SKIPV1,
        place="section 6.4, Table 2, KV bytes per token (the caption says GPT2-355M, the text LLaMA-350M)",
        statement="SkipV1Former takes the cache from 98,304 to 74,752 bytes a token with grouped queries (-24.0 %) "
        "and from 13,824 to 7,680 with a latent (-44.4 %).",
        assumes="bf16, as in training; 24 layers, 16 heads of 64; two query heads a key/value head, as the text says; "
        "latent of 256 and a rotary key of 32",
        verdict="corrected",
        correction="With grouped queries it is 49,152 and 37,376: the printed pair is that of ungrouped heads (or of "
        "four bytes a number; the shares agree).  With a latent, 7,680 leaves out the second half of layer 1's, which "
        "every later layer reads: 7,936 bytes, -42.6 %.",
        evidence=(
            Evidence(
                "numeric",
                "grouped queries, by the accounting",
                check.table_2_bytes,
                states=("+gqa", 49_152, 37_376),
                control=("+gqa", 98_304, 74_752),
                wrong="the printed pair",
            ),
            Evidence(
                "numeric",
                "the printed pair is the ungrouped one, by hand: 24 layers of 1,024 keys and values",
                check.table_2_by_hand,
                states=(1024, 1024, 98_304, 74_752),
                control=(512, 512, 98_304, 74_752),
                wrong="with eight key/value heads",
            ),
            Evidence(
                "numeric",
                "a latent, by the accounting",
                check.table_2_bytes,
                states=("+mla", 13_824, 7_936),
                control=("+mla", 13_824, 7_680),
                wrong="the printed 7,680",
            ),
            Evidence(
                "numeric",
                "a latent, by hand: a rotary key of 32 and 256 numbers",
                check.table_2_by_hand,
                states=(32, 256, 13_824, 7_936),
                control=(32, 256, 13_824, 7_680),
                wrong="the printed 7,680",
            ),
        ),
    ),
    Claim(
        id="dva.table-1",
        paper=DVA,
        place="section 4, Table 1, total number of parameters",
        statement="Model a has 162,419,712 parameters and model b 112,800,768.",
        assumes="model b's block is five d x d matrices without bias and one LayerNorm, no output projection, and the "
        "head is not tied; the paper does not say so",
        verdict="verified",
        correction="",
        evidence=(
            Evidence(
                "numeric",
                "model a as a GPT-2 with biases outside queries, keys and values, by the accounting",
                check.dva_parameters,
                states=("dva-a", "vanilla", 162_419_712),
                control=("dva-a", "dva-attention", 162_419_712),
                wrong="with dynamic values beside the feed-forward",
            ),
            Evidence(
                "numeric",
                "model b by the accounting",
                check.dva_parameters,
                states=("dva-b", "dva", 112_800_768),
                control=("dva-b", "vanilla", 112_800_768),
                wrong="a vanilla block",
            ),
            Evidence(
                "numeric",
                "model b from its parts, counted by hand: five matrices and one norm a layer",
                check.dva_by_hand,
                states=(5, 0, 1, 112_800_768),
                control=(6, 1, 1, 112_800_768),
                wrong="with an output projection",
            ),
            Evidence(
                "numeric",
                "model a by hand: twelve matrices' worth, the biases of output, up and down, two norms",
                check.dva_by_hand,
                states=(12, 6, 2, 162_419_712),
                control=(12, 9, 2, 162_419_712),
                wrong="with biases of queries, keys and values",
            ),
        ),
    ),
    Claim(
        id="resformer.neutreno-eqn8",
        paper=RESFORMER,
        place="section 3.4, Eqn. (8)",
        statement="NeuTRENO is U_n = (A_n - lambda J) V_n + lambda V_1 with J a matrix of ones.",
        assumes="causal attention",
        verdict="corrected",
        correction="J is the identity: lambda (V_1 - V_n) is added token by token.  With ones, every token would lose "
        "the sum of all tokens' values, later ones too.",
        evidence=(
            Evidence(
                "symbolic",
                "what is added vanishes where V_n = V_1",
                check.neutreno_vanishes_on_equal_values,
                states=sympy.eye,
                control=sympy.ones,
                wrong="J of ones, as printed",
            ),
            Evidence(
                "symbolic",
                "no token's output depends on later tokens",
                check.neutreno_is_causal,
                states=sympy.eye,
                control=sympy.ones,
                wrong="J of ones, as printed",
            ),
        ),
    ),
)
