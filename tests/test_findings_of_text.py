"""Numbers of the campaign of text trainings on the page of findings are those that were measured."""

import re
from statistics import fmean, stdev

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
    "width 32, rate 0.004, initial weights 0.02": "0.11M, half the rate",
}
SMALL, LARGE, SLOW = MODELS
SPANS = ("2.5 to 5", "5 to 8")
WHO = {"toy": "the toy", "recall": "recall, with 24 seeds"}
TOY_ALONE, RECALL_ALONE = "toy/vanilla/shared-keys", "recall/svformer/skipv1"


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
            checks = [judged[f"{name}/{span}/{pair}"] for pair in pairs]
            first, second, *others = (signed(check.measured, check.half_width) for check in checks)
            third = signed(*checks[0].controls[0])
            assert f"| {' | '.join([called, span, first, second, third, *others])} |" in FINDINGS


def test_how_often_skips_train_faster_is_what_the_readme_says():
    verdicts = [c.verdict for c in compared("text-induction") if c.id.endswith(("svformer/vanilla", "skipv1/vanilla"))]
    sentence = f"lie below vanilla's in {verdicts.count('agrees')} of {len(verdicts)} comparisons"
    assert sentence in (ROOT / "README.md").read_text()


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


def test_spreads_of_the_campaign_s_seeds():
    groups = stored("text-induction/measurement.json")["groups"]
    spreads = [stdev(groups[name]["loss"][arm]["5.0"]) for arm in ("vanilla", "svformer") for name in (SMALL, SLOW)]
    sentence = "is {:.2f} nats at 0.008 and {:.2f} at 0.004; SVFormer's is {:.2f} and {:.2f}."
    assert sentence.format(*spreads) in FINDINGS


def test_where_the_campaign_s_gains_peak():
    peaks = {c.id: c for c in compared("text-induction") if "/peak/" in c.id}
    agreeing = peaks.pop(f"{SLOW}/peak/svformer")
    assert agreeing.verdict == "agrees"
    assert f"SVFormer's agrees, {agreeing.measured:.2f} ± {agreeing.half_width:.2f} doublings of tokens" in FINDINGS
    assert [c.verdict for c in peaks.values()] == ["inconclusive"] * 5
    probed = stored("text-induction/measurement.json")["groups"][SLOW]["probed"]["vanilla"]["10.0"]
    assert f"a rise of {fmean(one['induction'] for one in probed):.3f} is no induction" in FINDINGS


def test_numbers_of_predicted_orders():
    judged = {c.id: c for c in compared("text-predicted")}
    for who, called in WHO.items():
        numbers = re.fullmatch(
            r"of (\d+) pairs that .* orders, text orders (\d+) as predicted, (\d+) the other way, "
            r"and leaves (\d+) open; exact permutation p = ([\d.]+), at best \5",
            judged[f"order/{who}"].statement,
        )
        assert numbers is not None
        assert f"| {called} | {' | '.join(numbers.groups())} |" in FINDINGS
        assert judged[f"order/{who}"].verdict == "inconclusive"
    signs = {c.id.partition(": ")[0::2]: c for c in judged.values() if ": " in c.id}
    both = {
        f"{who}/{arm}/{other}" for who in WHO for arm in ("svformer", "skipv1") for other in ("vanilla", "shared-keys")
    }
    open_ = {(SMALL, f"2.5 to 5/{pair}") for pair in both if "skipv1" in pair}
    own = {f"2.5 to 5/{RECALL_ALONE}", f"5 to 8/{RECALL_ALONE}", f"5 to 8/{TOY_ALONE}"}
    every = {(name, f"{span}/{pair}") for name in MODELS for span in SPANS for pair in both}
    assert {key for key, c in signs.items() if c.verdict == "agrees"} == every - open_ | {(SLOW, pair) for pair in own}
    assert {c.verdict for c in signs.values()} == {"agrees", "inconclusive"}
    places = stored("text-predicted/prediction.json")["places"]
    assert f"all {sum(len(place['pairs']) for place in places.values())} differences" in FINDINGS

    def late(name, pair):
        check = signs[name, f"5 to 8/{pair}"]
        return signed(check.measured, check.half_width, digits=3)

    keys, skips = late(SLOW, TOY_ALONE), late(SLOW, RECALL_ALONE)
    assert f"vanilla minus shared keys is {keys}, and SVFormer minus SkipV1Former {skips}." in FINDINGS
    first, large, slow = (late(name, "toy/skipv1/vanilla") for name in MODELS)
    assert (
        f"SkipV1Former minus vanilla, {first} between 5 and 8 tokens per parameter at 0.11M and rate 0.008" in FINDINGS
    )
    assert f"At 0.22M it is {large}, and at half the rate {slow}." in FINDINGS


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
        total = one.trained + one.left
        assert trained + left <= total  # what a question above asked for, too, was not left here, and is trained now
        assert one is not now[0] or trained + left == total
        assert one.seconds / 3600 < 1.3 * hours  # the price of a step is measured anew with every training
