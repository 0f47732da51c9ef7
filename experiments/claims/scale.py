"""Ledger entries that the full-size experiments rest on: the toy over the embedding width, and what AttnRes bounds."""

from __future__ import annotations

from experiments.claims import scale_checks as check
from experiments.claims.ledger import Claim, Evidence
from experiments.claims.skipv1_theorem import OURS, W0_ZERO

ATTNRES = "Attention Residuals (001)"
BLOCK = "attnres-block:blocks=2"

CLAIMS = (
    Claim(
        id="toy.width",
        paper=OURS,
        place="theory/toy/width.py; bears on SkipV1Former (003), sections 4 and 5",
        statement="If tokens hold m >= d numbers, MHA's toy explains rho floor(m/2) ceil(m/2) of the signal, and all "
        "of rho d^2 from m = 2d on: what SkipV1Former wins there is nothing.",
        assumes=W0_ZERO + "; u_t = (A x_t ; B y_t) with a + b = m rows; the best division of m",
        verdict="verified",
        correction="",
        evidence=(
            Evidence(
                "numeric",
                "P's odd part depends on B S_yx A^T: min(a, d) min(b, d) numbers; rank of that map, all a, b <= 5",
                check.odd_part_has_rank,
                states=lambda a, b, d: min(a, d) * min(b, d),
                control=lambda a, b, d: min(a, d) * max(d - a, 0),
                wrong="min(a, d) (d - a), as if B had d - a rows at every width",
            ),
            Evidence(
                "numeric",
                "explicit weights of one head explain that much, within 4 standard errors over 100,000 prompts",
                check.construction_explains,
                states=0,
                control=1,
                wrong="one entry of W* more",
            ),
        ),
        experiments=("skipv1-end-to-end", "scale-icl"),
    ),
    Claim(
        id="attnres.bounded",
        paper=ATTNRES,
        place="summary: output magnitudes remain bounded across depth",
        statement="With a norm before every sublayer, what Full AttnRes reads is never larger than the largest bound "
        "C_i that a sublayer's weights put on its output, or the embedding, whatever the depth; what Block reads, than "
        "S times that for blocks of S sublayers; PreNorm's stream can be as large as the sum of all.",
        assumes="one-headed softmax over depth; softmax attention over a layer's own values; no biases",
        verdict="corrected",
        correction="Bounded by what and when has to be said: a fixed number of blocks is bounded by L/N max C_i, which "
        "grows with depth like PreNorm; without the norms before sublayers there is no bound; with several heads over "
        "depth the largest source is no bound; and there is no lower bound, as sources can cancel.",
        evidence=(
            Evidence(
                "numeric",
                "outputs that are aligned, with all weight on the largest source, attain the bounds at 2 to 16 layers",
                check.aligned_outputs_attain,
                states={"attnres": lambda n: 1, BLOCK: lambda n: n / 2, "vanilla": lambda n: n + 1},
                control={"attnres": lambda n: 1, BLOCK: lambda n: 1, "vanilla": lambda n: n + 1},
                wrong="Block is bounded by the largest output, as Full is",
            ),
            Evidence(
                "numeric",
                "random decoders with weights of every size keep below the bounds at every read, float64",
                check.decoders_stay_below,
                states=1.0,
                control=0.25,
                wrong="a bound that takes the length of a normed vector, sqrt(16), for 1",
            ),
        ),
        experiments=("scale-magnitude",),
    ),
)
