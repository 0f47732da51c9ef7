"""Hold the toy's order of variants against the papers': comparison by comparison, and as a whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from experiments.resformer.printed import RESFORMER
from experiments.skipv1.printed import SKIPV1
from experiments.store.folders import Json
from experiments.training.printed import BASELINE, Reported
from experiments.verdicts.checks import Expectation
from experiments.verdicts.intervals import t_interval
from experiments.verdicts.orders import Agreement, Pairs, agreement, convolved, null_balances, tail, widest_by_chance

ORDERINGS = "toy.orderings"
LEVEL = 0.05
ORDERED = (RESFORMER, SKIPV1)  # the papers that compare several variants which the toy covers


def difference(prediction: Json, variant: str, against: str) -> float | None:
    """Return the share of the signal that `against` explains beyond `variant`.

    It is negative where the variant is the better learner, 0 for a tie, None where the toy has nothing to say of one.
    """
    order = prediction["order"]
    shares = order["shares"].get(variant), order["shares"].get(against)
    if None in shares:
        return None
    gap = shares[1] - shares[0]
    return gap if abs(gap) >= order["tie"] else 0.0


def expectations(prediction: Json, measurement: Json) -> Iterator[Expectation]:
    """Yield one for every comparison of which the toy has something to say.  Control: a model against itself."""
    yield from (e for r in measurement["papers"] if (e := expectation(prediction, Reported(**r))))
    yield from accuracies(prediction, measurement)


def expectation(prediction: Json, reported: Reported) -> Expectation | None:
    """Return that of one comparison; None where the toy, or the paper, says nothing."""
    variant, against = reported.variant, reported.against
    gap = difference(prediction, variant, against)
    if gap is None or not reported.sign:
        return None
    toy = {-1: "explains more", 0: "explains as much", 1: "explains less"}[(gap > 0) - (gap < 0)]
    if reported.nats is None:
        paper = f"{'better' if reported.sign < 0 else 'not better'}, no number"
        measured, quantity = float(reported.sign), "sign of the loss's difference, by the paper's words"
    else:
        paper, measured = f"{reported.nats:+.4g} nats", reported.nats
        quantity = "loss minus the other's, nats per token"
    place = f"{reported.place}; {reported.size}"
    return Expectation(
        id=f"paper/{variant}/{against}/{reported.paper}, {reported.place}, {reported.size}",
        group=f"{variant} against {against}",
        claim=ORDERINGS,
        statement=f"the toy {toy}; the paper: {paper} ({place}){remark(reported.note)}",
        rule="sign",
        predicted=gap,
        measured=measured,
        stderr=0.0,
        tolerance=reported.half_width,
        controls=((0.0, reported.half_width),),
        quantity=quantity,
    )


def remark(note: str) -> str:
    return f"; but {note}" if note else ""


def accuracies(prediction: Json, measurement: Json) -> Iterator[Expectation]:
    """Yield zero-shot accuracies lost against vanilla: the mean over four sizes, family-wise over the variants."""
    by_variant = measurement["accuracies"]
    gaps = {name: difference(prediction, name, BASELINE) for name in by_variant if name != BASELINE}
    known = {name: gap for name, gap in gaps.items() if gap is not None}
    notes = measurement.get("notes", {})  # older measurements have none
    for name, gap in known.items():
        lost = [base - value for base, value in zip(by_variant[BASELINE], by_variant[name], strict=True)]
        interval = t_interval(lost, len(known))
        yield Expectation(
            id=f"accuracy/{name}",
            group="zero-shot accuracy of GPT2, lost against vanilla (%)",
            claim=ORDERINGS,
            statement=f"{name}: SkipV1Former, appendix C.3, Tables 8 to 11, over four sizes"
            + remark(notes.get(name, "")),
            rule="sign",
            predicted=gap,
            measured=interval.mean,
            stderr=interval.stderr,
            tolerance=interval.half_width,
            controls=((0.0, interval.half_width),),
            quantity="points of accuracy lost against vanilla",
        )


def pairs_by_paper(prediction: Json, measurement: Json) -> dict[str, list[tuple[str, str]]]:
    """Return each paper's pairs (better, worse) of covered variants, each once; none that sizes contradict."""
    pairs: dict[str, list[tuple[str, str]]] = {paper: [] for paper in ORDERED}
    for r in (Reported(**r) for r in measurement["papers"]):
        if r.paper in pairs and r.differs and difference(prediction, r.variant, r.against) is not None:
            pairs[r.paper].append((r.variant, r.against) if r.sign < 0 else (r.against, r.variant))
    return {
        paper: [(a, b) for a, b in dict.fromkeys(listed) if (b, a) not in listed] for paper, listed in pairs.items()
    }


def toy_levels(prediction: Json) -> dict[str, int]:
    """Return covered variants' levels in the toy: 0 for those that explain most; within a tie, the same level."""
    shares = {name: share for name, share in prediction["order"]["shares"].items() if share is not None}
    levels: dict[str, int] = {}
    level, before = 0, None
    for name, share in sorted(shares.items(), key=lambda item: -item[1]):
        level += before is not None and before - share >= prediction["order"]["tie"]
        levels[name], before = level, share
    return levels


def order_expectations(prediction: Json, measurement: Json) -> Iterator[Expectation]:
    """Yield concordant minus discordant pairs, for each paper and both, beside the exact permutation distribution.

    And for both without the gains that the toy was made to explain: SkipV1Former's and ResFormer's over vanilla.
    """
    levels, by_paper = toy_levels(prediction), pairs_by_paper(prediction, measurement)
    others = [[pair for pair in pairs if not explained_gain(levels, *pair)] for pairs in by_paper.values()]
    yield from (order_expectation(paper, levels, [pairs]) for paper, pairs in by_paper.items())
    yield order_expectation("both papers", levels, list(by_paper.values()))
    yield order_expectation("both papers, less the gains it was made for", levels, others)


def explained_gain(levels: Mapping[str, int], better: str, worse: str) -> bool:
    """Return whether a pair is a gain over vanilla, of SkipV1Former or ResFormer in any version, that the toy has."""
    return worse == BASELINE and better.startswith(("skipv1", "resformer")) and levels[better] < levels[worse]


def order_expectation(label: str, levels: Mapping[str, int], papers: Sequence[Pairs]) -> Expectation:
    """Return that of the order; inside its interval lie 95 % of permutations of the toy's levels within each paper."""
    pairs = [pair for paper in papers for pair in paper]
    null = convolved(null_balances(levels, paper) for paper in papers)
    result = agreement(levels, pairs)
    widest = float(widest_by_chance(null, LEVEL))
    return Expectation(
        id=f"order/{label}",
        group=f"order of pairs, {label}",
        claim=ORDERINGS,
        statement=order_statement(result, levels, pairs, p=tail(null, result.balance)),
        rule="sign",
        predicted=1.0,
        measured=float(result.balance),
        stderr=sum(p * balance**2 for balance, p in null.items()) ** 0.5,
        tolerance=widest,
        controls=((0.0, widest),),  # a toy that tells no pair apart
        quantity="pairs in the toy's order, minus those against it",
    )


def order_statement(result: Agreement, levels: Mapping[str, int], pairs: Pairs, p: float) -> str:
    """Return the share, with its range if any one variant but the baseline is left out, and the permutation p-value."""
    if result.share is None:
        return "the toy tells no pair apart"
    others = sorted({name for pair in pairs for name in pair} - {BASELINE})
    without = [agreement(levels, [pair for pair in pairs if name not in pair]).share for name in others]
    shares = [share for share in without if share is not None]
    return (
        f"{result.concordant} of {result.concordant + result.discordant} pairs stand in the toy's order: "
        f"{result.share:.2f}, from {min(shares):.2f} to {max(shares):.2f} without any one variant; {result.tied} more "
        f"pairs are ties of the toy; exact permutation p = {p:.2g}"
    )
