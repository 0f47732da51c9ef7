"""The claims ledger: what the papers say, what is true, and the checks that establish it.

Entries live in one file a subject; `LEDGER` holds them all, in order, by id.  `appendix` goes through SkipV1Former's
appendix A line by line and names the entries that judge each line.
"""

from __future__ import annotations

from experiments.claims import (
    deep,
    extensions,
    orderings,
    plans,
    positions,
    scale,
    skipv1_discussion,
    skipv1_last_steps,
    skipv1_lemma12,
    skipv1_lemma34,
    skipv1_model,
    skipv1_proof,
    skipv1_setting,
    skipv1_theorem,
    skipv1_w0,
)
from experiments.claims.ledger import Claim

SUBJECTS = (
    skipv1_theorem,
    skipv1_w0,
    skipv1_setting,
    skipv1_model,
    skipv1_proof,
    skipv1_lemma12,
    skipv1_lemma34,
    skipv1_last_steps,
    skipv1_discussion,
    extensions,
    positions,
    plans,
    orderings,
    deep,
    scale,
)
LEDGER: dict[str, Claim] = {claim.id: claim for subject in SUBJECTS for claim in subject.CLAIMS}
