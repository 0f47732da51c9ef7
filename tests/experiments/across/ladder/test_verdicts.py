"""The ladder's verdicts on made-up measurements; and a whole run, but for its training."""

import json
from dataclasses import replace

import pytest

from experiments.across.ladder.points import arm, key, parts, points
from experiments.across.ladder.rungs import INGREDIENTS, ROTARY
from experiments.drawing.style import drawing
from experiments.store.folders import RunFolder
from experiments.training import stacks
from experiments.training.comparing import comparing
from experiments.training.tuning import APART, TUNING_SEED

from .made_up import CONFIG, EXPERIMENT, RUNGS, as_the_toy, judged, measured, predicted, verdicts

TASK = CONFIG.tasks[0].key


def test_a_ladder_that_is_the_toy_throughout():
    prediction = predicted()
    found = verdicts(prediction, measured(prediction))
    assert {found[f"{rule}/{rung}/{TASK}/skipv1/2"] for rung in RUNGS for rule in ("sign", "size")} == {"agrees"}
    assert {found[f"none/{rung}/{TASK}/skipv0/{m}"] for rung in RUNGS for m in (2, 3, 4)} == {"agrees"}
    assert {found[f"worth/{rung}/{TASK}/skipv1/3"] for rung in RUNGS} == {"agrees"}
    assert {found[f"worth/{rung}/{TASK}/skipv0/3"] for rung in RUNGS} == {"agrees"}
    assert judged(found, "order/") == {"agrees"}
    assert judged(found, "ingredient/") == {"agrees"}
    assert judged(found, "bayes/") == {"pass"}
    assert not {"fail", "contradicts"} & {v for name, v in found.items() if not name.startswith("proved/")}
    # The toy is not what is proved of a trained first layer, which explains more than the assumed copy.
    assert found[f"proved/2/{TASK}/vanilla/2"] == found[f"proved/3/{TASK}/vanilla/2"] == "contradicts"
    assert found[f"proved/2/{TASK}/skipv1/2"] == "agrees"


def test_some_rungs_alone():
    """What is added between theory and the first of them has no name."""
    config = replace(CONFIG, only=("4", "5", "6"), orders=())
    prediction = predicted(config)
    assert list(prediction["rungs"]) == list(config.only)
    assert prediction["tasks"][TASK]["proved"] == {}
    measurement = measured(prediction, config)
    found = verdicts(prediction, measurement)
    assert {name.split("/")[1] for name in found if name.startswith("sign/")} == set(config.only)
    effects = {name.split("/")[1] for name in found if name.startswith("ingredient/")}
    assert effects == {"4 to 5", "5 to 6"}
    with drawing():
        assert EXPERIMENT.draw(prediction, measurement)
    with pytest.raises(ValueError, match="there is no rung 7 on this ladder"):
        replace(config, only=("6", "7"))


def test_gaps_that_turn_contradict():
    def turned(prediction, point):
        share = prediction["tasks"][point.task.key]["share"]["vanilla"][str(point.width)]
        return 2 * share - as_the_toy(prediction, point) if point.rung.key == "5" else as_the_toy(prediction, point)

    prediction = predicted()
    found = verdicts(prediction, measured(prediction, share=turned))
    assert found[f"sign/5/{TASK}/skipv1/2"] == found[f"size/5/{TASK}/skipv1/2"] == "contradicts"
    assert found[f"sign/4/{TASK}/skipv1/2"] == "agrees"
    assert found[f"order/5/{TASK}"] == "contradicts"
    assert found[f"ingredient/4 to 5/{TASK}/skipv1"] == found[f"ingredient/5 to 6/{TASK}/skipv1"] == "contradicts"
    assert found[f"worth/5/{TASK}/skipv1/3"] == "contradicts"


def test_a_gap_where_the_toy_has_none_contradicts():
    def more(prediction, point):
        return as_the_toy(prediction, point) + 0.2 * (point.variant == "skipv0")

    prediction = predicted()
    found = verdicts(prediction, measured(prediction, share=more))
    assert judged(found, f"none/3/{TASK}/skipv0") == {"contradicts"}
    assert found[f"worth/3/{TASK}/skipv0/2"] == "contradicts"


@pytest.mark.parametrize("what", [{"doubling": 0.05}, {"share": lambda *_: 0.0}])
def test_what_has_not_converged_or_learns_nothing_decides_nothing(what):
    prediction = predicted()
    found = verdicts(prediction, measured(prediction, **what))
    decided = judged(found, "sign/") | judged(found, "size/") | judged(found, "none/") | judged(found, "worth/")
    assert decided == {"inconclusive"}
    assert judged(found, "order/") == {"inconclusive"}


def test_noise_decides_next_to_nothing():
    prediction = predicted()
    found = verdicts(prediction, measured(prediction, noise=0.7))
    of_gaps = [v for name, v in found.items() if name.startswith(("sign/", "size/", "none/"))]
    assert sum(v != "inconclusive" for v in of_gaps) <= 0.05 * len(of_gaps)


def test_one_arm_short_of_its_end_spoils_its_own_comparisons_alone():
    prediction = predicted()
    measurement = measured(prediction)
    few, many = map(str, CONFIG.lengths[-2:])
    losses = measurement["losses"][f"4/{TASK}/skipv1/2"]
    losses[few] = [x + 0.5 for x in losses[many]]
    found = verdicts(prediction, measurement)
    assert found[f"sign/4/{TASK}/skipv1/2"] == found[f"ingredient/4 to 5/{TASK}/skipv1"] == "inconclusive"
    assert found[f"sign/4/{TASK}/resformer/2"] == found[f"sign/4/{TASK}/skipv1/3"] == "agrees"
    groups = {c.id: c.group for c in EXPERIMENT.compare(prediction, measurement)}
    assert groups[f"sign/4/{TASK}/skipv1/2"] == f"rung 4: skipv1 (not converged) against vanilla, width 2, {TASK}"


def test_a_training_that_diverged_decides_nothing():
    prediction = predicted()
    measurement = measured(prediction)
    for losses in measurement["losses"][f"4/{TASK}/skipv1/2"].values():
        losses[0] = None
    measurement["stderr"][f"4/{TASK}/skipv1/2"][0] = None
    checks = EXPERIMENT.compare(prediction, measurement)
    found = {c.id: c.verdict for c in checks}
    assert found[f"sign/4/{TASK}/skipv1/2"] == found[f"worth/4/{TASK}/skipv1/2"] == "inconclusive"
    assert found[f"sign/4/{TASK}/resformer/2"] == "agrees"
    json.dumps([c.to_json() for c in checks])
    with drawing():
        assert EXPERIMENT.draw(prediction, measurement)


def test_a_model_better_than_bayes_is_a_defect():
    prediction = predicted()
    leak = measured(prediction, share=lambda p, point: 1.2 if point.rung.key == "6" else as_the_toy(p, point))
    found = verdicts(prediction, leak)
    assert found[f"bayes/6/{TASK}"] == "fail"
    assert found[f"bayes/5/{TASK}"] == found[f"bayes/feed-forward/{TASK}"] == "pass"


def test_the_figure_has_a_line_for_each_variant_and_theory_s():
    prediction = predicted()
    with drawing():
        figure = EXPERIMENT.draw(prediction, measured(prediction))
    assert len(figure.axes) == 4
    assert all(axis.get_xlabel() and axis.get_ylabel() for axis in figure.axes)
    shown = {text.get_text() for text in figure.legends[0].get_texts()}
    assert {"vanilla", *prediction["variants"], "Bayes ridge"} <= shown


def trained(arms, *_):
    """Records of trainings that nobody ran: wider ones are better, longer ones a little, one rate is best, and the
    second restart."""
    found = {}
    for one in arms:
        restart, seed = divmod(one.seed, APART)
        better = -0.1 * (restart % (TUNING_SEED // APART) == 1)
        loss = 4 / one.architecture.d_model + abs(one.recipe.learning_rate - 0.03) + 1 / one.recipe.steps + better
        loss += 0.01 * seed
        held_out = {"loss": [loss], "stderr": [0.01]}
        curve = [[one.recipe.steps, loss]]
        found[one] = {"loss": loss, "held_out": held_out, "diverged": None, "seconds": 1.0, "curve": curve}
    return found


def test_a_run_from_prediction_to_figure(tmp_path, monkeypatch):
    monkeypatch.setattr(stacks, "train_stacked", trained)
    measurement = EXPERIMENT.measure(CONFIG, 3, RunFolder(tmp_path))
    assert set(measurement["losses"]) == {p.key for p in points(CONFIG)}
    assert set(measurement["tuning"]["best"].values()) == {0.03}
    losses = measurement["losses"][f"6/{TASK}/skipv1/2"]
    last = CONFIG.lengths[-1]
    assert losses[str(last)] == pytest.approx([1.9 + 1 / last + 0.01 * s for s in range(3)])
    tried = measurement["restarts"][f"6/{TASK}/skipv1/2"]
    assert [[round(x, 2) for x in of_seed] for of_seed in tried] == [
        [round(2 + 0.01 * s - 0.1 * (r == 1), 2) for r in range(4)] for s in range(3)
    ]
    assert 0.9 < measurement["power"][TASK] / predicted()["tasks"][TASK]["zero_loss"] < 1.1
    assert losses[str(CONFIG.lengths[0])][0] > losses[str(CONFIG.lengths[-1])][0]
    json.dumps(measurement, allow_nan=False)
    prediction = predicted()
    checks = EXPERIMENT.compare(prediction, measurement)
    assert {check.claim for check in checks} <= set(EXPERIMENT.claims)
    assert all(check.quantity for check in checks)
    assert len({check.id for check in checks}) == len(checks)
    with drawing():
        assert EXPERIMENT.draw(prediction, measurement)


def test_a_user_s_own_variant_against_vanilla(tmp_path, monkeypatch):
    """By name and from a file, on every rung; the file's plan has a place in the toy."""
    monkeypatch.setattr(stacks, "train_stacked", trained)
    path = tmp_path / "mine.py"
    path.write_text(
        "from theory.plans.plan import plan, v\n\n\n"
        "def mine(shape):\n    return plan(shape, values=lambda n, h: v(1, h))\n"
    )
    made = comparing(EXPERIMENT, "smoke", [f"{path}:mine", "skipv1"])
    config = made.profiles["smoke"].config
    prediction = made.predict(config)
    assert prediction["variants"] == prediction["own"] == ["mine.py:mine", "skipv1"]
    assert prediction["tasks"][config.tasks[0].key]["share"]["mine.py:mine"]["2"] > 0.5
    measurement = made.measure(config, 2, RunFolder(tmp_path / "run"))
    ids = {check.id for check in made.compare(prediction, measurement)}
    assert f"sign/6/{config.tasks[0].key}/mine.py:mine/2" in ids
    assert not any(name.startswith("own/") for name in ids)  # better than vanilla is what nobody has predicted


def test_lengths_share_their_beginning():
    """What is trained for longer has the same rates until the shorter one decays, so that a trunk can be shared."""
    few, many = CONFIG.lengths[-2:]
    point = next(p for p in points(CONFIG) if p.rung.key == "4")
    short, long = (arm(point, CONFIG, 0, steps).recipe for steps in (few, many))
    assert [short.rate(i) for i in range(short.begins_to_fall())] == pytest.approx(
        [long.rate(i) for i in range(short.begins_to_fall())]
    )
    assert long.rate(short.begins_to_fall() + 1) > short.rate(short.begins_to_fall() + 1)


def test_rotary_positions_under_linear_scores_explain_nothing():
    config = replace(CONFIG, orders=(("residual", ROTARY), (*INGREDIENTS, ROTARY)))
    prediction = predicted(config)
    name = f"nothing/3+rotary/{TASK}/svformer/2"

    def nothing_there(prediction, point):
        return 0.0 if point.rung.key == "3+rotary" else as_the_toy(prediction, point)

    def unlearned(prediction, point):
        return -0.1 if point.rung.key == "3+rotary" else as_the_toy(prediction, point)

    assert prediction["tasks"][TASK]["nothing"] == [f"3+rotary/{TASK}/{v}/2" for v in ("vanilla", "svformer")]
    for share in (nothing_there, unlearned):
        assert verdicts(prediction, measured(prediction, config, share=share))[name] == "pass"
    assert verdicts(prediction, measured(prediction, config))[name] == "fail"


def test_some_variants_alone_are_compared_between_the_widths():
    config = replace(CONFIG, between=("svformer",))
    trained = {(p.rung.key, p.variant) for p in points(config) if p.width == 3}
    assert trained == {(r, v) for r in "23456" for v in ("vanilla", "svformer", "twin")}
    prediction = predicted(config)
    found = verdicts(prediction, measured(prediction, config))
    at_3 = {name for name in found if name.startswith(("sign/", "none/", "worth/")) and name.endswith("/3")}
    assert at_3 == {f"{rule}/{r}/{TASK}/svformer/3" for rule in ("sign", "worth") for r in "23456"}
    assert {found[name] for name in at_3} == {"agrees"}


def test_a_ladder_may_begin_between_d_and_2d():
    config = replace(CONFIG, widths=(1.5,), wider=(), orders=(), only=tuple("3456"))
    assert {p.width for p in points(config)} == {3}
    prediction = predicted(config)
    found = EXPERIMENT.compare(prediction, measured(prediction, config))
    verdict = {check.id: check.verdict for check in found}
    assert {verdict[f"sign/{r}/{TASK}/svformer/3"] for r in "3456"} == {"agrees"}
    effects = [check for check in found if check.id.startswith("ingredient/") and check.id.endswith("/svformer")]
    assert effects
    assert all("at width 3 " in check.statement for check in effects)
    assert any(check.group == "rung 3: order of the variants at width 3" for check in found)
    EXPERIMENT.draw(prediction, measured(prediction, config))


def test_a_user_s_variant_may_have_folders_in_its_name():
    assert parts(key("2", TASK, "mine/plans.py:best", 3)) == ("2", TASK, "mine/plans.py:best", 3)


@pytest.mark.parametrize("wrong", [{"widths": (1.5,)}, {"variants": ("vanilla", "skipv1")}])
def test_a_ladder_of_which_nothing_could_be_said(wrong):
    with pytest.raises(ValueError, match=r"width d|held against"):
        replace(CONFIG, **wrong)


def test_one_width_of_vanilla_can_be_drawn():
    config = replace(CONFIG, widths=(1.0,), wider=(), orders=())
    prediction = predicted(config)
    with drawing():
        EXPERIMENT.draw(prediction, measured(prediction, config))
