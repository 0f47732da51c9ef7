"""The claims ledger: what the papers say, what is true, and the checks that establish it.

Entries live in one file a subject; `LEDGER` holds them all, in order, by id.
"""

from __future__ import annotations

from experiments.claims import extensions, plans, scale, skipv1_proof, skipv1_theorem
from experiments.claims.ledger import Claim

SUBJECTS = (skipv1_theorem, skipv1_proof, extensions, plans, scale)

LEDGER: dict[str, Claim] = {claim.id: claim for subject in SUBJECTS for claim in subject.CLAIMS}
