"""Numbers of the campaign of text trainings on the page of findings are those that were measured."""

import re
from statistics import fmean

import pytest

from experiments import catalogue
from experiments.campaign.question import Question
from experiments.campaign.standing import standings
from experiments.store.folders import Slot
from experiments.verdicts.intervals import t_interval
from tests.findings import FINDINGS, PAGE, ROOT, between, compared, signed, stored

MODELS = {  # groups of text-induction that are trained, as the page calls them
    "width 32, rate 0.008, initial weights 0.02": "0.11M",
    "width 48, rate 0.008, initial weights 0.02": "0.22M",
}
SMALL, LARGE, *_ = MODELS
SPANS = ("2.5 to 5", "5 to 8")


def told_of(check):
    return f"{signed(check.measured)} ± {check.half_width:.2f}"


def test_numbers_of_the_campaign_s_first_answer():
    measurement = stored("text-induction/measurement.json")
    assert list(measurement["groups"]) == list(MODELS)
    assert len(measurement["left_out"]) == 4 - len(MODELS)
    judged = {c.id: c for c in compared("text-induction")}
    for name, called in MODELS.items():
        group = measurement["groups"][name]
        assert group["seeds"] == 12
        assert called.startswith(f"{group['parameters']['vanilla'] / 1e6:.2f}M")
        for span in SPANS:
            pairs = ("svformer/vanilla", "skipv1/vanilla", "svformer/skipv1", "skipv1/shared-keys")
            first, second, *others = (judged[f"{name}/{span}/{pair}"] for pair in pairs)
            ((mean, half_width), *_) = first.controls
            third = f"{signed(mean)} ± {half_width:.2f}"
            cells = [called, span, told_of(first), told_of(second), third, *map(told_of, others)]
            assert f"| {' | '.join(cells)} |" in FINDINGS


def test_numbers_of_the_campaign_s_sizes():
    judged = {c.id: c for c in compared("text-induction")}
    less = {
        span: [c for name, c in judged.items() if name.startswith(f"{LARGE}/{span}/") and name.endswith(SMALL)]
        for span in SPANS
    }
    assert [c.verdict for c in less[SPANS[0]]] == ["inconclusive", "inconclusive"]
    assert [c.verdict for c in less[SPANS[1]]] == ["agrees", "inconclusive"]
    svformer, skipv1 = (f"{c.measured:.2f} ± {c.half_width:.2f} smaller" for c in less[SPANS[1]])
    assert f"it is {svformer} at 0.22M" in FINDINGS
    assert f"That of SkipV1Former, {skipv1}," in FINDINGS


def test_numbers_of_the_campaign_s_heads():
    groups = stored("text-induction/measurement.json")["groups"]
    best = [fmean(one["induction"] for one in groups[name]["probed"]["vanilla"]["10.0"]) for name in MODELS]
    assert f"at most {max(best):.3f} more attention than uniform attention does." in FINDINGS
    for name, called in MODELS.items():
        probed = groups[name]["probed"]
        arms = ("svformer", "skipv1", "vanilla", "twin", "shared-keys")
        previous = [between(t_interval([one["previous"] for one in probed[arm]["2.5"]])) for arm in arms]
        assert f"| {called} | {' | '.join(previous)} |" in FINDINGS


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
        f"{SMALL}: 2.5 to 5/{who}/skipv1/{other}" for who in ("toy", "recall") for other in ("vanilla", "shared-keys")
    }
    every = {
        f"{size}: {span}/{who}/{pair}"
        for size in (SMALL, LARGE)
        for span in SPANS
        for who in ("toy", "recall")
        for pair in pairs
    }
    assert agree == every - open_
    places = stored("text-predicted/prediction.json")["places"]
    assert f"all {sum(len(place['pairs']) for place in places.values())} differences" in FINDINGS

    def found(name):
        return [judged[f"{size}: 5 to 8/{name}"] for size in (SMALL, LARGE)]

    close = [
        f"{c.measured:.3f} ± {c.half_width:.3f}".replace("-", "\N{MINUS SIGN}") for c in found("toy/skipv1/vanilla")
    ]
    told = "SkipV1Former minus vanilla, {} between 5 and 8 tokens per parameter at 0.11M, only just"
    assert told.format(close[0]) in FINDINGS
    assert f"At 0.22M it is {close[1]}." in FINDINGS
    ends = [
        f"{signed(c.measured)} ± {c.half_width:.2f}"
        for name in ("recall/svformer/skipv1", "toy/vanilla/shared-keys")
        for c in found(name)
    ]
    told = "SkipV1Former is {} at 0.11M and {} at 0.22M, and vanilla minus shared keys {} and {}."
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
