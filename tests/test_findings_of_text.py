"""Numbers of the campaign of text trainings on the page of findings are those that were measured."""

import re
from statistics import fmean

import pytest

from experiments import catalogue
from experiments.campaign.question import Question
from experiments.campaign.standing import standings
from experiments.store.folders import Slot
from experiments.verdicts.intervals import t_interval
from tests.findings import ARMS, FINDINGS, PAGE, ROOT, between, compared, signed, stored

SIZES = [f"width {width}, rate 0.008, initial weights 0.02" for width in (32, 48)]
SPANS = ("2.5 to 5", "5 to 8")


def test_numbers_of_the_campaign_s_first_answer():
    measurement = stored("text-induction/measurement.json")
    groups = measurement["groups"]
    assert list(groups) == SIZES
    assert [group["seeds"] for group in groups.values()] == [12, 12]
    assert len(measurement["left_out"]) == 2
    sizes = [f"{group['parameters']['vanilla'] / 1e6:.2f}M: 2.5 to 5 | 5 to 8" for group in groups.values()]
    assert f"| tokens per parameter | {' | '.join(sizes)} |" in FINDINGS
    judged = {c.id: c for c in compared("text-induction")}
    names = {**ARMS, "vanilla": "vanilla", "shared-keys": "shared keys"}
    for pair in ("svformer/vanilla", "skipv1/vanilla", "svformer/skipv1", "skipv1/shared-keys"):
        checks = [judged[f"{size}/{span}/{pair}"] for size in SIZES for span in SPANS]
        told = " | ".join(f"{signed(c.measured)} ± {c.half_width:.2f}" for c in checks)
        assert f"| {' minus '.join(names[arm] for arm in pair.split('/'))} | {told} |" in FINDINGS
    controls = (judged[f"{size}/{span}/svformer/vanilla"].controls[0] for size in SIZES for span in SPANS)
    third = [f"{signed(mean)} ± {half_width:.2f}" for mean, half_width in controls]
    told = "a third differs from them by {} and {} at width 32, by {} and {} at width 48."
    assert told.format(*third) in FINDINGS
    less = {
        span: [c for name, c in judged.items() if name.startswith(f"{SIZES[1]}/{span}/") and name.endswith(SIZES[0])]
        for span in SPANS
    }
    assert [c.verdict for c in less[SPANS[0]]] == ["inconclusive", "inconclusive"]
    assert [c.verdict for c in less[SPANS[1]]] == ["agrees", "inconclusive"]
    svformer, skipv1 = (f"{c.measured:.2f} ± {c.half_width:.2f} smaller" for c in less[SPANS[1]])
    assert f"it is {svformer} at width 48" in FINDINGS
    assert f"That of SkipV1Former, {skipv1}," in FINDINGS


def test_numbers_of_the_campaign_s_heads():
    groups = stored("text-induction/measurement.json")["groups"]
    best = [fmean(one["induction"] for one in groups[size]["probed"]["vanilla"]["10.0"]) for size in SIZES]
    told = "{:.3f} more attention than uniform attention does at width 32, and {:.3f} more at width 48."
    assert told.format(*best) in FINDINGS
    for size in SIZES:
        probed = groups[size]["probed"]
        arms = ("svformer", "skipv1", "vanilla", "twin", "shared-keys")
        previous = [between(t_interval([one["previous"] for one in probed[arm]["2.5"]])) for arm in arms]
        assert f"| {size[6:8]} | {' | '.join(previous)} |" in FINDINGS


def test_numbers_of_predicted_orders():
    judged = {c.id: c for c in compared("text-predicted")}
    for who, called in (("toy", "the toy"), ("recall", "recall, with 24 seeds")):
        numbers = re.fullmatch(
            r"of (\d+) pairs that .* orders, text orders (\d+) as predicted, (\d+) the other way, "
            r"and leaves (\d+) open; exact permutation p = ([\d.]+), at best \5",
            judged[f"order/{who}"].statement,
        )
        assert numbers is not None
        assert f"| {called} | {' | '.join(numbers.groups())} |" in FINDINGS
        assert judged[f"order/{who}"].verdict == "inconclusive"
    agree = {c.id for c in judged.values() if c.rule == "sign" and c.verdict == "agrees"}
    pairs = {f"{arm}/{other}" for arm in ("svformer", "skipv1") for other in ("vanilla", "shared-keys")}
    open_ = {
        f"{SIZES[0]}: 2.5 to 5/{who}/skipv1/{other}"
        for who in ("toy", "recall")
        for other in ("vanilla", "shared-keys")
    }
    every = {
        f"{size}: {span}/{who}/{pair}"
        for size in SIZES
        for span in SPANS
        for who in ("toy", "recall")
        for pair in pairs
    }
    assert agree == every - open_
    places = stored("text-predicted/prediction.json")["places"]
    assert f"all {sum(len(place['pairs']) for place in places.values())} differences" in FINDINGS

    def found(name):
        return [judged[f"{size}: 5 to 8/{name}"] for size in SIZES]

    close = [
        f"{c.measured:.3f} ± {c.half_width:.3f}".replace("-", "\N{MINUS SIGN}") for c in found("toy/skipv1/vanilla")
    ]
    told = "SkipV1Former minus vanilla, {} between 5 and 8 tokens per parameter at width 32, only just"
    assert told.format(close[0]) in FINDINGS
    assert f"At width 48 it is {close[1]}." in FINDINGS
    ends = [
        f"{signed(c.measured)} ± {c.half_width:.2f}"
        for name in ("recall/svformer/skipv1", "toy/vanilla/shared-keys")
        for c in found(name)
    ]
    told = "SkipV1Former is {} at width 32 and {} at width 48, and vanilla minus shared keys {} and {}."
    assert told.format(*ends) in FINDINGS


@pytest.mark.long
def test_what_is_left_of_the_campaign():
    """Trainings that were added since then leave less."""
    told = re.findall(r"\| `(text-[a-z-]+)`: .* \| (\d+) \| (\d+) \| (\d+) \|", PAGE)
    rows = {name: [int(x) for x in numbers] for name, *numbers in told}
    experiments = map(catalogue.experiment, catalogue.names("scale"))
    questions = [one for one in experiments if isinstance(one, Question)]
    now = standings(sorted(questions, key=lambda one: one.order), ROOT / "nowhere", Slot())
    needed = {one.question.name: one for one in now if one.left}
    assert set(needed) <= set(rows)
    assert f"some {sum(hours for _, _, hours in rows.values())} hours of one core" in FINDINGS
    for name, one in needed.items():
        trained, left, hours = rows[name]
        assert trained <= one.trained
        assert left >= one.left
        assert one.seconds / 3600 < 1.3 * hours  # the price of a step is measured anew with every training
