"""The claims ledger: what the papers say, what is true, and the checks that establish it.

Entries live in one file a subject; `LEDGER` holds them all, in order, by id.  `appendix` goes through SkipV1Former's
appendix A line by line and names the entries that judge each line.
"""

from __future__ import annotations

from experiments.claims import (
    plans,
    scale,
    skipv1_discussion,
    skipv1_last_steps,
    skipv1_lemma12,
    skipv1_lemma34,
    skipv1_model,
    skipv1_proof,
    skipv1_setting,
    skipv1_theorem,
)
from experiments.claims.ledger import Claim

LEDGER: dict[str, Claim] = {
    claim.id: claim
    for claim in (
        *skipv1_theorem.CLAIMS,
        *skipv1_setting.CLAIMS,
        *skipv1_model.CLAIMS,
        *skipv1_proof.CLAIMS,
        *skipv1_lemma12.CLAIMS,
        *skipv1_lemma34.CLAIMS,
        *skipv1_last_steps.CLAIMS,
        *skipv1_discussion.CLAIMS,
        *plans.CLAIMS,
        *scale.CLAIMS,
    )
}
