"""The verdicts of the axes follow their rules; a smoke run leaves everything that is judged."""

from dataclasses import replace

import numpy as np
import pytest

from experiments.across.axes.experiment import PLAIN, ROTARY
from experiments.across.axes.points import ITSELF, arm, points
from experiments.across.axes.reading import Results, Where
from experiments.store.folders import RunFolder, Slot

from .made_up import CONFIG, EXPERIMENT, as_the_toy, measured, predicted, verdicts

JUDGED = ("sign/", "size/", "none/", "pool/")


def test_models_that_do_as_the_toy_agree_on_every_axis():
    prediction = predicted()
    found = verdicts(prediction, measured(prediction))
    judged = {name: verdict for name, verdict in found.items() if name.startswith(JUDGED)}
    assert {name.split("/")[2] for name in judged} == {trained.name for trained in CONFIG.trained}
    unknown = {f"pool/{rung}/pool of 2/vanilla/2/as trained" for rung in ("3", "6")}
    assert {name for name, verdict in judged.items() if verdict == "undecided"} == unknown
    assert {verdict for name, verdict in judged.items() if name not in unknown} == {"agrees"}
    assert all(verdict == "pass" for name, verdict in found.items() if name.startswith("bayes/"))
    assert {c.claim for c in EXPERIMENT.compare(prediction, measured(prediction))} == set(EXPERIMENT.claims)


def test_long_prompts_turn_the_order_round_where_attention_takes_sums():
    config = replace(CONFIG, trained=(PLAIN, replace(ROTARY, rungs=(), widths=())))
    prediction = predicted(config)
    results = Results(prediction, measured(prediction, config))
    gaps = {rung: results.toy_gap(Where(rung, "plain, rotary", 2, "16 pairs"), "skipv1") for rung in ("3", "6")}
    assert gaps["3"] < 0 < gaps["6"]
    positive = [at for at in results.places() if at.trained == "plain" and at.test != ITSELF]
    assert all(results.toy_gap(at, "skipv1") > 0 for at in positive)


def test_a_gap_turned_round_contradicts_and_one_of_another_size_does():
    prediction = predicted()

    def turned(about, point):
        return 0.6 - as_the_toy(about, point)

    def halved(about, point):
        toy = about["toy"][point.rung.key]["vanilla"][str(point.width)]
        return as_the_toy(about, point) if toy is None else toy + 0.5 * (as_the_toy(about, point) - toy)

    for share, sign in ((turned, "contradicts"), (halved, "agrees")):
        found = verdicts(prediction, measured(prediction, share=share))
        assert found["sign/3/plain/skipv1/2/noise 0.5"] == sign
        assert found["size/3/plain/skipv1/2/noise 0.5"] == "contradicts"


def test_noise_and_trainings_that_go_on_decide_nothing():
    prediction = predicted()
    for options in ({"noise": 3.0}, {"doubling": 0.05}):
        found = verdicts(prediction, measured(prediction, **options))
        assert {v for name, v in found.items() if name.startswith("sign/")} == {"inconclusive"}
    marked = EXPERIMENT.compare(prediction, measured(prediction, doubling=0.05))
    assert all("(not converged)" in c.group for c in marked if c.id.startswith(JUDGED))


def test_models_that_learn_nothing_are_not_compared():
    prediction = predicted()
    found = verdicts(prediction, measured(prediction, share=lambda *_: 0.0))
    judged = {v for name, v in found.items() if name.startswith(JUDGED) and "pool of 2/vanilla" not in name}
    assert judged == {"inconclusive"}


def test_pools_are_placed_between_ridge_and_the_posterior_mean():
    prediction = predicted()
    at = Where("6", "pool of 8", 2)
    about = prediction["trained"]["pool of 8"]["tests"][ITSELF]
    for place in (0.0, 0.5, 1.0):
        want = about["ridge"] + place * (about["bayes"] - about["ridge"])
        measurement = measured(prediction, share=lambda *_, want=want: want, noise=1e-4)
        assert Results(prediction, measurement).between(at, "skipv1").mean == pytest.approx(place, abs=0.01)
    found = {c.id: c for c in EXPERIMENT.compare(prediction, measurement)}
    assert found["pool/6/pool of 8/skipv1/2/as trained"].verdict == "contradicts"  # a step loses more than ridge
    assert "the posterior mean (1) is 1.00 +- 0.00" in found["pool/6/pool of 8/skipv1/2/as trained"].statement
    assert found["pool/6/pool of 2/skipv1/2/as trained"].verdict == "agrees"
    half = found["pool/6/pool of 2/vanilla/2/as trained"]  # it sees part of what the step sees
    assert "nothing is predicted of vanilla against ridge; its place" in half.statement


def test_steps_cross_ridge_as_pools_grow():
    tests = {name: about["tests"][ITSELF] for name, about in predicted()["trained"].items() if "pool" in name}
    won = [about["step"] - about["ridge"] for about in sorted(tests.values(), key=lambda about: about["pool"])]
    assert won[0] > 0.05 > -0.05 > won[1] > won[2]
    for about in tests.values():
        assert max(about["ridge"], about["step"]) <= about["bayes"] + 4 * about["bayes_stderr"]


def test_better_than_bayes_is_a_defect_and_a_diverged_seed_is_none():
    prediction = predicted()
    found = verdicts(prediction, measured(prediction, share=lambda about, point: about["bayes"] + 0.2))
    assert {v for name, v in found.items() if name.startswith("bayes/")} == {"fail"}
    measurement = measured(prediction)
    for name, losses in measurement["losses"]["6/plain/skipv1/2"].items():
        losses[0] = measurement["stderr"]["6/plain/skipv1/2"][name][0] = None
    found = verdicts(prediction, measurement)
    assert found["sign/6/plain/skipv1/2/as trained"] == "inconclusive"
    assert found["sign/6/plain/svformer/2/as trained"] == "agrees"
    assert EXPERIMENT.draw(prediction, measurement)


def test_arms_ask_for_their_tests_and_read_them():
    for point in points(CONFIG):
        made = arm(point, CONFIG, 0, CONFIG.lengths[-1])
        assert len(made.elsewhere) == len(point.trained.tests)
        longest = max(source.n for source in (made.source, *made.elsewhere))
        assert made.architecture.positions == ("rope" if point.trained.rotary else "bias")
        assert point.trained.rotary or 2 * longest + 1 <= made.architecture.context
        assert made.twin == (point.variant == "twin")
        rising = [arm(point, CONFIG, 0, steps).recipe for steps in CONFIG.lengths]
        assert len({round(recipe.warmup * recipe.steps) for recipe in rising}) == 1
        assert made.source.sigma == (0.5 if point.trained.law.pool else 0.1)


def test_a_run_measures_what_is_judged(tmp_path):
    smoke = EXPERIMENT.profiles["smoke"].config
    config = replace(smoke, trained=smoke.trained[:2], rungs=("3",))
    measurement = EXPERIMENT.measure(config, 2, RunFolder(tmp_path, Slot(jobs=1)))
    prediction = predicted(config)
    results = Results(prediction, measurement)
    assert set(measurement["losses"]) == {point.key for point in points(config)}
    for at in results.places():
        assert np.isfinite(results.shares(at, "skipv1")).all()
        power = measurement["power"][at.trained][at.test]
        assert power == pytest.approx(prediction["trained"][at.trained]["tests"][at.test]["zero_loss"], rel=0.3)
    own = Where("3", "plain", 2)
    assert measurement["by_length"]["3/plain/skipv1/2"]["20"] == measurement["losses"]["3/plain/skipv1/2"][ITSELF]
    assert results.shares(own, "skipv1") != results.shares(replace(own, test="noise 0.5"), "skipv1")
