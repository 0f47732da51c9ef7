"""What the papers say of final losses against vanilla's, as far as it can be held against small models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from experiments.across.printed import report
from experiments.skipv1.printed import note_of
from experiments.store.folders import Json
from experiments.training.expectations import expected_by_paper


@dataclass(frozen=True)
class PaperNumber:
    """What a paper says of the final loss against vanilla's: better (-1), worse (1) or nothing beyond chance; in nats,
    where it gives numbers, at the size that it gives them for."""

    sign: int | None
    nats: float | None
    place: str


NO_PAPER = PaperNumber(None, None, "")


def _paper_number(variant: str, place: str, size: str) -> PaperNumber:
    """From the one comparison with vanilla in `experiments.across.printed` whose place and size begin so."""
    r = report(variant, place, size)
    where = ", ".join(filter(None, (r.paper.split(" (")[0], r.place, r.size, r.note)))
    return PaperNumber(r.sign if r.differs else None, r.nats, where)


PAPERS = {
    "resformer": _paper_number("resformer", "appendix A.6", "82M"),
    "skipv1": _paper_number("skipv1", "section 6.2", "LLaMA-60M"),
    "svformer": _paper_number("svformer", "section 4.6", ""),
    "skipv0": _paper_number("skipv0", "section 6.5", ""),
    "attnres": _paper_number("attnres", "paper, ablation", "436M"),
    "attnres-block": _paper_number("attnres-block", "paper, ablation", "436M"),
    "denseformer": _paper_number("denseformer", "paper, ablation", "436M"),
    "cla-v": _paper_number("cla-v", "section 3.5", ""),
    "yoco-v": PaperNumber(
        None, None, f"SkipV1Former, section 6.1, Fig. 4: worse than SkipV1Former; but {note_of('yoco-v')}"
    ),
}


def of_paper(numbers: Mapping[str, PaperNumber], own: Json, variant: str) -> Json:
    """Return what a variant's paper says of its final loss, as the fields of a `PaperNumber`.

    Args:
        numbers: By variant, what our papers print.
        own: What a prediction holds of a user's variants, with the expectations of their papers.
        variant: The variant's name.

    Returns:
        The fields, and for an expectation of the paper's own the ledger entry on which it bears, `claim`.
    """
    stated = expected_by_paper(own, variant, "loss")
    if stated is None:
        return asdict(numbers.get(variant, NO_PAPER))
    sign = -1 if stated["better"] else 1
    return {**asdict(PaperNumber(sign, stated["nats"], stated["place"])), "claim": stated["claim"]}
