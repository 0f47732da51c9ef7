"""The verdicts of `toy-orderings`: exact minima against closed forms, and the toy's order against the papers'."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from experiments.across.orderings.points import ORDERINGS
from experiments.resformer.printed import RESFORMER
from experiments.skipv1.printed import SKIPV1
from experiments.store.folders import Json
from experiments.toys.checks import EXACT_SLACK, ROUNDING, SIGNAL, ClosedForm, exact_check
from experiments.training.campaign import BASELINE
from experiments.training.printed import Reported
from experiments.verdicts.checks import Check, Expectation
from experiments.verdicts.intervals import t_interval
from experiments.verdicts.orders import Agreement, Pairs, agreement, convolved, null_balances, tail, widest_by_chance

EXACT = "the exact minimum explains what the closed form says, and not more"
BETWEEN = "the exact minimum explains no less and no more than the theorem leaves possible"
SAID, PRINTED = "sign of the loss's difference, by the paper's words", "loss less the other's, nats a token"
LEVEL = 0.05
ORDERED = (RESFORMER, SKIPV1)  # the papers that compare several variants which the toy covers


def exact_checks(prediction: Json, measurement: Json) -> Iterator[Check]:
    """Every toy at every size and rank; another toy's closed form at the same place is one more control."""
    for kind in ("exact", "mixtures"):
        points = prediction[kind]
        for key, point in points.items():
            explained, rho = measurement[kind][key]["explained"], point["rho"]
            group = f"{'exact minimum' if kind == 'exact' else 'mixture'}, {point['toy']}"
            if point["least"] < point["most"]:
                yield _between(f"{kind}/{key}", group, point, explained)
                continue
            closed = ClosedForm(point["claim"], rho * point["most"], rho)
            check = exact_check(f"{kind}/{key}", group, EXACT, closed, explained, point["zero_loss"])
            place = (point["size"], point["rank"])
            others = {p["most"] for p in prediction["exact"].values() if (p["size"], p["rank"]) == place}
            others -= {point["most"]}
            nearest = sorted(others, key=lambda entries: abs(entries - point["most"]))[:1]
            yield replace(check, controls=(*check.controls, *(rho * entries for entries in nearest)))


def _between(name: str, group: str, point: Json, explained: float) -> Check:
    """One entry of W* is open: from the lower bound, give or take the exact slack, to the upper one."""
    low, high, one = point["least"] * point["rho"], point["most"] * point["rho"], point["rho"]
    return Check(
        id=name,
        group=f"{group}, one entry open",
        claim=point["claim"],
        statement=BETWEEN,
        predicted=high,
        measured=explained,
        stderr=0.0,
        tolerance=high - low + EXACT_SLACK * high,
        controls=(low - one, high + (high - low) + one),
        above=ROUNDING * point["zero_loss"],
        slack=high - low + EXACT_SLACK * high,
        quantity=SIGNAL,
    )


def difference(prediction: Json, variant: str, against: str) -> float | None:
    """The share of the signal that `against` explains beyond `variant`, so negative where the variant is the better
    learner; 0 for a tie, None where the toy has nothing to say of one of them."""
    order = prediction["order"]
    shares = order["shares"].get(variant), order["shares"].get(against)
    if None in shares:
        return None
    gap = shares[1] - shares[0]
    return gap if abs(gap) >= order["tie"] else 0.0


def expectations(prediction: Json, measurement: Json) -> Iterator[Expectation]:
    """One for every comparison of which the toy has something to say.  Control: a model against itself."""
    yield from (e for r in measurement["papers"] if (e := expectation(prediction, Reported(**r))))
    yield from _accuracies(prediction, measurement)


def expectation(prediction: Json, r: Reported) -> Expectation | None:
    """Of one comparison; None where the toy, or the paper, says nothing."""
    gap = difference(prediction, r.variant, r.against)
    if gap is None or not r.sign:
        return None
    return Expectation(
        id=f"paper/{r.variant}/{r.against}/{r.paper}, {r.place}, {r.size}",
        group=f"{r.variant} against {r.against}",
        claim=ORDERINGS,
        statement=_sentence(gap, r),
        rule="sign",
        predicted=gap,
        measured=float(r.sign) if r.nats is None else r.nats,
        stderr=0.0,
        tolerance=r.half_width,
        controls=((0.0, r.half_width),),
        quantity=SAID if r.nats is None else PRINTED,
    )


def _sentence(said: float, r: Reported) -> str:
    toy = {-1: "explains more", 0: "explains as much", 1: "explains less"}[(said > 0) - (said < 0)]
    paper = f"{r.nats:+.4g} nats" if r.nats is not None else ("better" if r.sign < 0 else "not better") + ", no number"
    return f"the toy {toy}; the paper: {paper} ({r.place}; {r.size}){_remark(r.note)}"


def _remark(note: str) -> str:
    return f"; but {note}" if note else ""


def _accuracies(prediction: Json, measurement: Json) -> Iterator[Expectation]:
    """Zero-shot accuracy, in points lost against vanilla: the mean over four sizes, family-wise over the variants."""
    accuracies = measurement["accuracies"]
    variants = {name: difference(prediction, name, BASELINE) for name in accuracies if name != BASELINE}
    gaps = {name: gap for name, gap in variants.items() if gap is not None}
    notes = measurement.get("notes", {})  # older measurements have none
    for name, gap in gaps.items():
        lost = [base - value for base, value in zip(accuracies[BASELINE], accuracies[name], strict=True)]
        interval = t_interval(lost, len(gaps))
        yield Expectation(
            id=f"accuracy/{name}",
            group="zero-shot accuracy of GPT2, lost against vanilla (%)",
            claim=ORDERINGS,
            statement=f"{name}: SkipV1Former, appendix C.3, Tables 8 to 11, over four sizes"
            + _remark(notes.get(name, "")),
            rule="sign",
            predicted=gap,
            measured=interval.mean,
            stderr=interval.stderr,
            tolerance=interval.half_width,
            controls=((0.0, interval.half_width),),
            quantity="points of accuracy lost against vanilla",
        )


def pairs_of(prediction: Json, measurement: Json) -> dict[str, list[tuple[str, str]]]:
    """Of each paper, the pairs (better, worse) of covered variants, each once; none that sizes contradict."""
    pairs: dict[str, list[tuple[str, str]]] = {paper: [] for paper in ORDERED}
    for r in (Reported(**r) for r in measurement["papers"]):
        if r.paper in pairs and r.differs and difference(prediction, r.variant, r.against) is not None:
            pairs[r.paper].append((r.variant, r.against) if r.sign < 0 else (r.against, r.variant))
    return {
        paper: [(a, b) for a, b in dict.fromkeys(listed) if (b, a) not in listed] for paper, listed in pairs.items()
    }


def levels_of(prediction: Json) -> dict[str, int]:
    """Of covered variants, by their toy: 0 for those that explain most; shares nearer than the tie are one level."""
    shares = {name: share for name, share in prediction["order"]["shares"].items() if share is not None}
    levels: dict[str, int] = {}
    level, before = 0, None
    for name, share in sorted(shares.items(), key=lambda item: -item[1]):
        level += before is not None and before - share >= prediction["order"]["tie"]
        levels[name], before = level, share
    return levels


def order_expectations(prediction: Json, measurement: Json) -> Iterator[Expectation]:
    """Concordant less discordant pairs, of each paper and of both, beside the exact permutation distribution.

    And of both without the gains that the toy was made to explain: SkipV1Former's and ResFormer's over vanilla.
    """
    levels, by_paper = levels_of(prediction), pairs_of(prediction, measurement)
    for paper, pairs in by_paper.items():
        yield _order_expectation(paper, levels, [pairs])
    yield _order_expectation("both papers", levels, list(by_paper.values()))
    others = [[pair for pair in pairs if not made_for(levels, *pair)] for pairs in by_paper.values()]
    yield _order_expectation("both papers, less the gains it was made for", levels, others)


def made_for(levels: Mapping[str, int], better: str, worse: str) -> bool:
    """Whether a pair is a gain over vanilla, of a version of SkipV1Former or ResFormer, that the toy has too."""
    return worse == BASELINE and better.startswith(("skipv1", "resformer")) and levels[better] < levels[worse]


def _order_expectation(label: str, levels: Mapping[str, int], papers: Sequence[Pairs]) -> Expectation:
    """Its interval is what chance gives: 95 % of permutations of the toy's levels within each paper lie inside."""
    pairs = [pair for of_paper in papers for pair in of_paper]
    null = convolved(null_balances(levels, of_paper) for of_paper in papers)
    result = agreement(levels, pairs)
    widest = float(widest_by_chance(null, LEVEL))
    return Expectation(
        id=f"order/{label}",
        group=f"order of pairs, {label}",
        claim=ORDERINGS,
        statement=_order_sentence(result, levels, pairs, tail(null, result.balance)),
        rule="sign",
        predicted=1.0,
        measured=float(result.balance),
        stderr=sum(p * balance**2 for balance, p in null.items()) ** 0.5,
        tolerance=widest,
        controls=((0.0, widest),),  # a toy that tells no pair apart
        quantity="pairs in the toy's order, less those against it",
    )


def _order_sentence(result: Agreement, levels: Mapping[str, int], pairs: Pairs, p: float) -> str:
    """The share, with its range if any one variant but the baseline is left out, and the permutation p-value."""
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
