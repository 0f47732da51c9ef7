"""Printed losses of ResFormer's paper."""

from __future__ import annotations

from collections.abc import Iterator

from experiments.training.printed import BASELINE, Reported, over_sizes, signs_in_text
from theory.resformer.paper import PAPER

RESFORMER = f"{PAPER.name} (002)"


def printed() -> Iterator[Reported]:
    at_82m, ablations = "82M, 20B tokens of SlimPajama", "20B tokens of SlimPajama"
    rows = {"82M": (2.7389, 2.7117), "180M": (2.5015, 2.4692), "468M": (2.2806, 2.2537)}
    rows = {f"{size}, 20B tokens of SlimPajama": pair for size, pair in rows.items()}
    yield from over_sizes(RESFORMER, "appendix A.6, Table 5, average", rows, "resformer")
    better, worse = -1, 1
    yield from signs_in_text(
        RESFORMER,
        "section 4.2, Fig. 1 (left)",
        at_82m,
        {
            ("resformer", "neutreno"): better,
            ("resformer", "denseformer"): better,
            ("resformer-neutreno", "resformer"): better,
        },
    )
    yield from signs_in_text(
        RESFORMER,
        "section 4.2, Fig. 6: better than vanilla whatever lambda, best at 2",
        ablations,
        {("resformer-constant", BASELINE): better, ("resformer-constant", "resformer-constant:weight=1"): better},
    )
    yield from signs_in_text(
        RESFORMER,
        "section 4.3, Fig. 7: of values only, the residual has a positive effect",
        ablations,
        {("residual-queries", BASELINE): worse, ("residual-keys", BASELINE): worse},
    )
    yield from signs_in_text(
        RESFORMER,
        "section 4.3, Fig. 8: identity mapping is poor, the current attention's final loss below the gold one's",
        ablations,
        {("identity-mapping", "resformer"): worse, ("cross-layer", "resformer"): worse},
    )
    yield from signs_in_text(
        RESFORMER,
        "section 4.3, Fig. 9: the first layer's values, not the nearest's or all",
        ablations,
        {("resformer-previous", "resformer"): worse, ("resformer-all", "resformer"): worse},
    )
    yield from signs_in_text(
        RESFORMER,
        "section 3.5, Fig. 4: sharing values has less negative impact than sharing keys",
        ablations,
        {("cla-v", BASELINE): worse, ("cla-k", BASELINE): worse, ("cla-v", "cla-k"): better},
    )
    yield from signs_in_text(
        RESFORMER,
        "section 4.6, Fig. 14: surpassed by vanilla in the end, at length 2,048",
        ablations,
        {("svformer", BASELINE): worse},
    )
    yield from signs_in_text(
        RESFORMER, "section 4.6, Fig. 13 (left), at length 64,000", ablations, {("svformer", "cla"): better}
    )
    yield from signs_in_text(
        RESFORMER,
        "section 4.8, Fig. 16: significantly impacts performance, as in Fig. 4",
        ablations,
        {("shared-queries", BASELINE): worse, ("shared-keys", BASELINE): worse},
    )
