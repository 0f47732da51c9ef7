"""Compute-optimal language models: sizes and rates follow their rules, and verdicts follow what was put in."""

import json
import math
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments import catalogue
from experiments.across.text.experiment import _arms
from experiments.across.text.papers import printed_worth
from experiments.across.text.points import Config
from experiments.across.text.profiles import PROFILES
from experiments.across.text.toy import toy
from experiments.across.text.verdicts import told
from experiments.drawing.style import drawing
from experiments.store.folders import RunFolder, Unfinished, UserError
from experiments.training import campaign, tuning
from experiments.training import text as text_data
from experiments.training.arms import TextSource
from experiments.training.by_width import in_one_epoch, with_width
from experiments.training.campaign import BASELINE, TWIN
from experiments.training.of_widths import worth_of
from experiments.training.optimal import TRANSFER, transferred
from experiments.training.text import Text
from experiments.verdicts.crossings import crossing
from theory.errors import BadInput

EXPERIMENT = catalogue.experiment("ladder-text")
LONG: Config = PROFILES["long"].config
SEEDS = 3
NOISE = (0.004, -0.001, -0.003)
SLOPE = 0.3  # nats by which vanilla's loss falls as its parameters grow e times


@pytest.mark.parametrize("name", PROFILES)
def test_sizes_grow_by_one_rule_and_read_so_many_tokens_a_parameter(name):
    config = PROFILES[name].config
    for width in config.widths:
        sizes, recipe = config.sizes(width, config.vocab), config.trained(width, config.vocab)
        assert (sizes.d_model, sizes.n_heads) == (width, config.architecture.n_heads)
        assert sizes.n_layers * config.architecture.d_model == width * config.architecture.n_layers
        wanted = config.tokens_a_parameter * config.parameters(width, config.vocab)
        assert abs(config.tokens(recipe.steps) - wanted) <= config.tokens(1) / 2
        assert recipe.evaluate_every % recipe.log_every == 0
        assert abs(recipe.steps / recipe.evaluate_every / config.evaluations - 1) < 0.3


def test_the_long_ladder_goes_from_three_tenths_of_a_million_to_three_million_at_twenty_tokens_a_parameter():
    sizes = [LONG.parameters(width, LONG.vocab) for width in LONG.widths]
    assert min(sizes, key=lambda n: abs(n - 0.3e6)) == pytest.approx(0.3e6, rel=0.15)
    assert sizes[-1] == pytest.approx(3e6, rel=0.15)
    assert LONG.tokens_a_parameter == 20
    assert PROFILES["long"].grows
    assert len(LONG.tuning.grid) >= 5
    assert LONG.tuning.share == 1


@given(st.floats(1e-4, 1e-1), st.integers(1, 10**9), st.integers(1, 10**9))
def test_rates_fall_with_the_parameters(rate, tuned, other):
    found = transferred({"a": rate}, tuned, other)["a"]
    assert found == pytest.approx(rate * (tuned / other) ** TRANSFER, rel=1e-3)
    assert transferred({"a": rate}, tuned, tuned)["a"] == pytest.approx(rate, rel=1e-3)


@pytest.mark.parametrize(
    "change",
    [
        {"widths": ()},
        {"widths": (64, 32)},
        {"widths": (32, 50, 64)},
        {"tuned": ()},
        {"tuned": (128,)},
        {"evaluations": 4},
    ],
)
def test_sizes_that_make_no_sense(change):
    with pytest.raises(BadInput):
        replace(LONG, **change)


def test_rates_come_from_the_next_narrower_width_that_was_tuned():
    config = replace(LONG, tuned=(48, 112))
    assert [config.tuned_for(width) for width in config.widths] == [48, 48, 48, 48, 112, 112]


def test_tables_of_several_widths():
    one = {"tuned": True, "losses": {"a": {"0.1": 2.0}}, "best": {"a": 0.1}}
    both = with_width(with_width({}, one, 16), one, 32)
    assert both["best"] == {"a/16": 0.1, "a/32": 0.1}
    assert set(both["losses"]) == {"a/16", "a/32"}


def test_a_size_that_needs_more_than_an_epoch_is_left_out(capsys):
    config = PROFILES["smoke"].config
    read = Text(TextSource("anywhere", "digest"), "stdlib", config.vocab, 5_610_754)
    more = replace(config, tokens_a_parameter=200)
    widths, left_out = in_one_epoch(more, read)
    assert widths == [16]
    assert "width 24 needs 9,182,464 tokens" in left_out["24"]
    assert "--data names more text" in capsys.readouterr().err
    with pytest.raises(UserError, match="too little text: width 16 needs"):
        in_one_epoch(replace(config, tokens_a_parameter=1000), read)


def test_what_printed_losses_make_of_variants():
    """SkipV1Former, Fig. 5a: 3.504 at 60M, where the baseline has 3.549, and 3.229 at 130M."""
    found = printed_worth("skipv1")
    assert found[6e7] == pytest.approx((130 / 60) ** ((3.549 - 3.504) / (3.549 - 3.229)))
    assert 3e9 not in found  # there is no larger baseline
    assert all(
        1 < factor < 1.3 for name in ("skipv1", "resformer", "attnres") for factor in printed_worth(name).values()
    )
    assert printed_worth("svformer") == {}  # words, and no numbers


def test_the_toy_s_worth_in_width():
    assert toy("skipv1") == toy("resformer") == toy("svformer") == {"sign": -1, "width": {"narrow": 2.0, "wide": 1.0}}
    assert toy("skipv0") == {"sign": 0, "width": {"narrow": 1.0, "wide": 1.0}}
    assert toy("attnres") is toy(None) is None


def measured(worths, crossing_at=None):
    """A prediction, and losses of vanilla that fall with the parameters and of variants that are worth so much."""
    config = replace(LONG, widths=(48, 64, 80), tuned=(48,))
    prediction = json.loads(json.dumps(EXPERIMENT.predict(config)))
    widths = {}
    names = (*config.variants, TWIN)
    for k, width in enumerate(config.widths):
        size = config.parameters(width, config.vocab)
        tokens = [config.tokens(config.trained(width, config.vocab).steps) * i // 20 for i in range(1, 21)]

        def loss(name, seed, size=size, k=k):
            own = 0.0 if name == BASELINE else 0.2 * NOISE[(seed + len(name) + k) % SEEDS]
            return 3 - SLOPE * math.log(size * worths.get(name, 1.0) / 1e5) + NOISE[seed] + own

        def curve(name, seed, tokens=tokens, size=size, loss=loss):
            if name == BASELINE or crossing_at is None:
                return [loss(name, seed) + 1e5 / t for t in tokens]
            late = loss(name, seed) - loss(BASELINE, seed)
            passed = [math.log(t / size / crossing_at) / math.log(20 / crossing_at) for t in tokens]
            return [loss(BASELINE, seed) + 1e5 / t + late * p for t, p in zip(tokens, passed, strict=True)]

        widths[str(width)] = {
            "seeds": SEEDS,
            "rates": dict.fromkeys(config.variants, 0.004),
            "parameters": dict.fromkeys(names, size),
            "tokens": tokens[-1],
            "loss": {name: [loss(name, seed) for seed in range(SEEDS)] for name in names},
            "evaluated": tokens,
            "held_out": {name: [curve(name, seed) for seed in range(SEEDS)] for name in names},
            "tuned_at": 48,
        }
    return prediction, {"seeds": SEEDS, "widths": widths, "tuning": {}}


def verdicts(prediction, measurement):
    return {check.id: check for check in EXPERIMENT.compare(prediction, measurement)}


def test_a_worth_that_was_put_in_is_found_and_the_twin_s_is_one():
    _, measurement = measured({"skipv1": 1.3, "svformer": 0.8})
    found = {name: worth_of(measurement, name, "64") for name in ("skipv1", "svformer", TWIN)}
    assert found["skipv1"].factor == pytest.approx(1.3, rel=0.01)
    assert found["skipv1"].holds(1.3)
    assert not found["skipv1"].holds(1.0)
    assert found["svformer"].holds(0.8)
    assert not found["svformer"].holds(1.0)
    assert found[TWIN].holds(1.0)
    assert not found[TWIN].holds(1.3)
    assert worth_of(measurement, "skipv1", "80").most == math.inf  # there is no larger vanilla
    assert worth_of(measurement, "svformer", "48").least == -math.inf
    for about in list(measurement["widths"])[1:]:
        del measurement["widths"][about]
    assert worth_of(measurement, "skipv1", "48") is None


def test_vanilla_alone_at_the_next_size_bounds_what_others_are_worth():
    _, measurement = measured({"skipv1": 1.3})
    known = worth_of(measurement, "skipv1", "64")
    ahead = measurement["widths"].pop("80")
    assert worth_of(measurement, "skipv1", "64").most == math.inf
    alone = {key: {BASELINE: ahead[key][BASELINE]} for key in ("parameters", "loss", "held_out")}
    measurement["ahead"] = {"80": {**ahead, **alone}}
    assert worth_of(measurement, "skipv1", "64") == known
    measurement["ahead"]["80"]["seeds"] = SEEDS - 1
    assert worth_of(measurement, "skipv1", "64").most == math.inf
    measurement["ahead"]["80"]["seeds"] = SEEDS
    fewer = {"loss": {name: losses[:2] for name, losses in ahead["loss"].items()}, "seeds": 2}
    measurement["widths"]["80"] = {**ahead, **fewer}  # of which two seeds of all are finished by now
    assert worth_of(measurement, "skipv1", "64") == known
    assert worth_of(measurement, "skipv1", "80").least > -math.inf


def test_verdicts_follow_what_was_put_in():
    as_printed = math.exp(sum(map(math.log, printed_worth("skipv1").values())) / len(printed_worth("skipv1")))
    right = verdicts(*measured({"skipv1": as_printed, "svformer": 0.8, "resformer": 1.1, "attnres": 1.13}, 5.0))
    for name in ("paper/skipv1/64", "toy/skipv1/64", "worth/skipv1/64", "paper/svformer/80", "early/svformer/64"):
        assert right[name].verdict == "agrees"
    assert right["worth/svformer/64"].verdict == "agrees"
    assert right["toy/svformer/64"].verdict == "contradicts"
    for name in ("paper/svformer/64", "paper/attnres/64"):
        (at,) = re.findall(r"from ([\d.]+) tokens a parameter on", right[name].statement)
        assert float(at) == pytest.approx(5, rel=0.03)  # curves are straight lines, and means of three points
    assert right["worth/skipv1/80"].verdict == "inconclusive"  # open above
    wrong = verdicts(*measured({"skipv1": 0.8, "svformer": 1.25}))
    for name in ("paper/skipv1/64", "worth/skipv1/64", "paper/svformer/64", "worth/svformer/64"):
        assert wrong[name].verdict == "contradicts"
    assert wrong["toy/svformer/64"].verdict == "agrees"
    none = verdicts(*measured({}))
    assert {none[name].verdict for name in none if name.startswith(("paper", "toy"))} == {"inconclusive"}
    assert none["worth/skipv1/64"].verdict == "contradicts"


def test_a_twin_that_differs_decides_nothing():
    prediction, measurement = measured({"skipv1": 1.17, TWIN: 1.17})
    found = verdicts(prediction, measurement)
    assert found["paper/skipv1/64"].verdict == found["worth/skipv1/64"].verdict == "inconclusive"


def test_what_diverged_decides_nothing_and_is_drawn():
    prediction, measurement = measured({"skipv1": 1.3}, 5.0)
    for about in measurement["widths"].values():
        about["loss"]["skipv1"][0] = about["held_out"]["skipv1"][0] = None
        about["loss"]["svformer"] = about["held_out"]["svformer"] = [None] * SEEDS
    found = verdicts(prediction, measurement)
    for name in ("paper/skipv1/64", "worth/skipv1/64", "early/svformer/64"):
        assert found[name].verdict == "inconclusive"
    with drawing():
        assert len(EXPERIMENT.draw(prediction, measurement).axes) == 4


def test_crossings_in_words():
    times = [math.exp(x) for x in range(6)]
    up, never, always = ([-2, -1, 0.5, 1, 1, 1], [-1] * 6, [1] * 6)
    assert told([crossing(times, up), crossing(times, up)], 1).startswith("from 5.8 tokens")
    words = told([crossing(times, curve) for curve in (up, never, always)], 1)
    assert words == "1 of 3 seeds cross for good, 1 are there from the first evaluations on"


def record():
    """Of any training."""
    about = dict.fromkeys(("tokens_per_second", "seconds", "epochs"), 1.0)
    evaluations = [[step, 3.0] for step in range(1, 6)]
    return {**about, "parameters": 1, "loss": 3.0, "diverged": None, "evaluations": evaluations}


def test_what_weighs_outputs_over_depth_learns_slower():
    config = PROFILES["smoke"].config
    read = Text(TextSource("anywhere", "digest"), "some text", config.vocab, 10**9)
    arms = _arms(config, read, config.sizes(16, config.vocab), config.trained(16, config.vocab), 0)
    assert {name: arm.recipe.depth_rate for name, arm in arms.items() if arm.recipe.depth_rate != 1} == {"attnres": 0.1}
    assert len(arms) == 4


@pytest.mark.parametrize(
    ("widest", "of_vanilla", "found", "ahead"),
    [(0, 0, [], []), (16, 16, ["16"], []), (16, 24, ["16"], ["24"]), (24, 24, ["16", "24"], [])],
)
def test_a_sitting_counts_the_sizes_of_which_two_seeds_are_finished(
    widest, of_vanilla, found, ahead, monkeypatch, tmp_path
):
    def train_all(arms, *_):
        widths = {arm: of_vanilla if arm.variant == BASELINE and not arm.twin else widest for arm in arms}
        return {arm: record() for arm, width in widths.items() if arm.architecture.d_model <= width}

    config = replace(PROFILES["smoke"].config, tuning=LONG.tuning)
    for asks in (campaign, tuning):
        monkeypatch.setattr(asks, "train_all", train_all)
    read = Text(TextSource("anywhere", "digest"), "some text", config.vocab, 10**9)
    monkeypatch.setattr(text_data, "text", lambda *_: read)
    if not found:
        with pytest.raises(Unfinished, match="width 16: 0 of 20 learning-rate trials"):
            EXPERIMENT.measure(config, 2, RunFolder(tmp_path))
        return
    measurement = EXPERIMENT.measure(config, 2, RunFolder(tmp_path))
    assert list(measurement["widths"]) == found
    assert list(measurement["ahead"]) == ahead
    assert all(set(about["loss"]) == {BASELINE} for about in measurement["ahead"].values())
    assert measurement["provenance"]["trainings"] == 2 * (len(found) * (len(config.variants) + 1) + len(ahead))
    assert {about["tuned_at"] for about in measurement["widths"].values()} == {16}
    assert set(measurement["tuning"]["best"]) == {f"{name}/16" for name in config.variants}
    for about in measurement["widths"].values():
        assert about["rates"][BASELINE] <= measurement["widths"]["16"]["rates"][BASELINE]


def test_curves_at_two_learning_rates_are_not_compared_before_the_last_step():
    prediction, measurement = measured({})[:2]
    for about in measurement["widths"].values():
        about["rates"]["svformer"] = 0.008
    early = [c for c in EXPERIMENT.compare(prediction, measurement) if c.id.startswith("early/")]
    assert {c.verdict for c in early} == {"inconclusive"}
    assert all("rates 0.008 and 0.004" in c.statement for c in early)
    ends = {c.id: c.statement for c in EXPERIMENT.compare(prediction, measurement) if c.id.startswith("paper/")}
    assert {"(rates 0.008 and 0.004)" in text for name, text in ends.items() if "svformer" in name} == {True}
    assert {"rates" in text for name, text in ends.items() if "skipv1" in name} == {False}


def test_curves_at_two_learning_rates_are_drawn_at_the_end_alone():
    prediction, measurement = measured({})[:2]
    with drawing():
        at_one = EXPERIMENT.draw(prediction, measurement).axes[2]
    for about in measurement["widths"].values():
        about["rates"]["svformer"] = 0.008
    with drawing():
        at_two = EXPERIMENT.draw(prediction, measurement).axes[2]
    assert "during training" in at_one.get_title(loc="left")
    assert "at the end" in at_two.get_title(loc="left")
    assert max(len(line.get_xdata()) for line in at_two.lines if line.get_label() != BASELINE) == 1
