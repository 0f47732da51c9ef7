"""What the campaign asks first: whether value skips shorten the way to induction on text."""

from __future__ import annotations

from experiments.ledger.claim import Claim
from theory.resformer.paper import PAPER

INDUCTION = Claim(
    "text.induction",
    PAPER.ours,
    place="experiments/across/questions/induction.py; bears on ResFormer, section 4.6, and SkipV1Former, section 5",
    statement="On text, value skips shorten the way to induction: the gain of SVFormer and of SkipV1Former over "
    "vanilla at equal learning rates peaks while vanilla's heads learn induction, SVFormer's is the larger, and shared "
    "keys do not gain.",
    assumes="decoders of six layers with 0.1 and 0.2 million parameters, on up to ten tokens of technical English per "
    "parameter",
    verdict="open",
)
