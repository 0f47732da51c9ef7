"""The claims ledger: what the papers say, what is true, and the checks that establish it.

Entries live in one file a subject; `LEDGER` holds them all, in order, by id.
"""

from __future__ import annotations

from experiments.claims import orderings, plans, scale, skipv1_proof, skipv1_theorem
from experiments.claims.ledger import Claim

LEDGER: dict[str, Claim] = {
    claim.id: claim
    for claim in (
        *skipv1_theorem.CLAIMS,
        *skipv1_proof.CLAIMS,
        *plans.CLAIMS,
        *orderings.CLAIMS,
        *scale.CLAIMS,
    )
}
