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


def test_numbers_of_the_campaign_s_first_answer():
    measurement = stored("text-induction/measurement.json")
    ((name, group),) = measurement["groups"].items()
    assert name == "width 32, rate 0.008, initial weights 0.02"
    assert (group["seeds"], len(measurement["left_out"])) == (12, 3)
    judged = {c.id: c for c in compared("text-induction")}
    names = {**ARMS, "vanilla": "vanilla", "shared-keys": "shared keys"}
    for pair in ("svformer/vanilla", "skipv1/vanilla", "svformer/skipv1", "skipv1/shared-keys"):
        checks = [judged[f"{name}/{window}/{pair}"] for window in ("2.5 to 5", "5 to 8")]
        told = " | ".join(f"{signed(c.measured)} ± {c.half_width:.2f}" for c in checks)
        assert f"| {' minus '.join(names[arm] for arm in pair.split('/'))} | {told} |" in FINDINGS
    controls = (judged[f"{name}/{window}/svformer/vanilla"].controls[0] for window in ("2.5 to 5", "5 to 8"))
    third = " and ".join(f"{signed(mean)} ± {half_width:.2f}" for mean, half_width in controls)
    assert f"a third differs from them by {third}." in FINDINGS

    def mean(arm, score, length):
        return fmean(one[score] for one in group["probed"][arm][length])

    assert f"{mean('vanilla', 'induction', '10.0'):.3f} more attention" in FINDINGS
    arms = ("svformer", "skipv1", "vanilla", "twin", "shared-keys")
    previous = [between(t_interval([one["previous"] for one in group["probed"][arm]["2.5"]])) for arm in arms]
    told = "{} in SVFormer, {} in SkipV1Former, {} and {} in the two vanillas, and {} with shared keys"
    assert told.format(*previous) in FINDINGS


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
    early, late = (f"width 32, rate 0.008, initial weights 0.02: {window}" for window in ("2.5 to 5", "5 to 8"))
    agree = {c.id.split("/", 2)[2] for c in judged.values() if c.id.startswith((early, late)) and c.verdict == "agrees"}
    assert agree == {f"{arm}/{other}" for arm in ("svformer", "skipv1") for other in ("vanilla", "shared-keys")}
    places = stored("text-predicted/prediction.json")["places"]
    assert f"all {sum(len(place['pairs']) for place in places.values())} differences" in FINDINGS
    close, open_, keys = (
        judged[f"{late}/{name}"] for name in ("toy/skipv1/vanilla", "recall/svformer/skipv1", "toy/vanilla/shared-keys")
    )
    told = f"{close.measured:.3f} ± {close.half_width:.3f}".replace("-", "\N{MINUS SIGN}")
    assert f"SkipV1Former minus vanilla, {told} between 5 and 8" in FINDINGS
    ends = [f"{signed(c.measured)} ± {c.half_width:.2f}" for c in (open_, keys)]
    assert "SkipV1Former is {}, and vanilla minus shared keys {}.".format(*ends) in FINDINGS


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
        assert trained + left == one.trained + one.left
        assert trained <= one.trained
        assert one.seconds / 3600 < 1.3 * hours  # the price of a step is measured anew with every training
