"""Which of several restarts is trained, what is kept of the others, and what counts when time is up."""

from dataclasses import dataclass, replace
from functools import partial

import pytest

from experiments.store.folders import RunFolder, Unfinished
from experiments.training import stacks
from experiments.training.arms import Arm, PromptSource
from experiments.training.restarts import NONE, Comparison, Restarts, trained
from experiments.training.tuning import APART, TUNING_SEED, Tuning
from icl.recipe import Recipe
from theory.plans.architecture import Architecture, Vectors

SIZES = Architecture(d_model=2, n_layers=2, n_heads=1, d_ff=0, context=7, stem=Vectors(2), head_dim=2, norm="none")
RECIPE = Recipe(steps=100, batch=4, learning_rate=0.01, decay="late", warmup=0.1, log_every=10)
SOME, UNTUNED = Restarts(count=3, steps=40), Tuning()


@dataclass(frozen=True)
class Model:
    variant: str

    @property
    def key(self):
        return self.variant

    @property
    def tuned_as(self):
        return Model("vanilla") if self.variant == "resformer" else self


MODELS = (Model("vanilla"), Model("skipv1"))


def make(model, seed, steps, rate, recipe=RECIPE):
    source = PromptSource(2, 3, 0.1, 64, scored="last")
    made = replace(recipe.of_length(steps), learning_rate=rate or recipe.learning_rate)
    return Arm(architecture=SIZES, variant=model.variant, source=source, recipe=made, seed=seed, elsewhere=(source,))


def comparison(restarts=SOME, tuning=UNTUNED, models=MODELS, **options):
    about = {"lengths": lambda _: (50, 100), "restarts": lambda _: restarts, "converged": lambda *_: False, **options}
    return Comparison(models=models, make=make, tuning=tuning, **about)


def made_up(arms, *_, seen=None, training=lambda arm: -arm.seed, held_out=lambda arm: arm.seed, ends=lambda _: True):
    """Records by a rule; those of arms that do not end in time are lacking, and None is a training that diverged."""
    records = {}
    for arm in filter(ends, arms):
        loss, end = training(arm), held_out(arm)
        diverged = "training diverged" if loss is None else None
        records[arm] = {
            "curve": [[1, 0.0], [arm.recipe.steps, loss]],
            "held_out": None if diverged else {"loss": [9.0, end], "stderr": [0.1, 0.2]},
            "loss": None if diverged else end,
            "diverged": diverged,
            "seconds": 1.0,
        }
        if seen is not None:
            seen.append(arm)
    return records


@pytest.fixture
def run(tmp_path):
    return RunFolder(tmp_path)


def by(monkeypatch, **rules):
    monkeypatch.setattr(stacks, "train_stacked", partial(made_up, **rules))


def test_the_best_by_training_loss_is_trained(monkeypatch, run):
    seen = []
    by(monkeypatch, seen=seen)
    found = trained(comparison(), 2, run, "made up")
    assert [arm.seed for arm in seen if arm.recipe.steps == 100] == [2 * APART, 2 * APART, 2 * APART + 1, 2 * APART + 1]
    assert {arm.seed for arm in seen if arm.recipe.steps == 40} == {s + APART * r for s in (0, 1) for r in (0, 1, 2)}
    tried = [[0, APART, 2 * APART], [1, APART + 1, 2 * APART + 1]]
    assert found.alone() == {"vanilla": tried, "skipv1": tried}
    assert found.last(MODELS[0], 100, "loss") == [2 * APART, 2 * APART + 1]
    assert found.about["seeds"] == 2
    assert found.about["provenance"]["trainings"] == 2 * 2 * (2 + 3)


def test_the_held_out_loss_has_no_part_in_the_choice(monkeypatch, run):
    by(monkeypatch, training=lambda arm: abs(arm.seed // APART - 1), held_out=lambda arm: -arm.seed)
    found = trained(comparison(), 2, run, "made up")
    assert found.last(MODELS[1], 50, "loss") == [-APART, -APART - 1]


def test_one_that_diverged_is_not_chosen(monkeypatch, run):
    by(monkeypatch, training=lambda arm: None if arm.seed >= 2 * APART else -arm.seed)
    found = trained(comparison(), 2, run, "made up")
    assert found.last(MODELS[0], 100, "loss") == [APART, APART + 1]
    assert found.alone()["vanilla"][0] == [0, APART, None]
    assert found.about["diverged"] == []


def test_where_all_diverged_so_does_the_seed(monkeypatch, run):
    by(monkeypatch, training=lambda _: None)
    found = trained(comparison(), 2, run, "made up")
    assert found.last(MODELS[0], 100, "loss") == [None, None]
    assert len(found.about["diverged"]) == 2 * 2 * 2


def test_without_restarts_every_seed_is_trained(monkeypatch, run):
    by(monkeypatch)
    found = trained(comparison(NONE), 3, run, "made up")
    assert found.last(MODELS[0], 100, "loss") == [0, 1, 2]
    assert found.alone() == {}


def test_trials_are_held_out_where_they_were_trained_alone(monkeypatch, run):
    seen = []
    by(monkeypatch, seen=seen)
    tuning = Tuning(grid=(0.01, 0.02), share=0.5, seeds=2, restarts=3, widenings=0)
    trained(comparison(tuning=tuning), 2, run, "made up")
    assert {bool(arm.elsewhere) for arm in seen if arm.recipe.steps in (50, 100) and arm.seed < TUNING_SEED} == {True}
    trials = [arm for arm in seen if arm.seed >= TUNING_SEED]
    assert {arm.seed for arm in trials} == {TUNING_SEED + i + APART * r for i in (0, 1) for r in (0, 1, 2)}
    assert not any(arm.elsewhere for arm in trials)
    assert not any(arm.elsewhere for arm in seen if arm.recipe.steps == 40)


def test_trials_are_what_is_said_of_them(monkeypatch, run):
    """Rates and restarts alike; what is compared is not."""
    seen = []
    by(monkeypatch, seen=seen)
    few = PromptSource(2, 3, 0.1, 8, scored="last")
    options = {"tuning": Tuning(grid=(0.01, 0.02), share=0.4, widenings=0), "tried": lambda a: replace(a, source=few)}
    trained(comparison(**options), 2, run, "made up")
    assert {arm.recipe.steps for arm in seen if arm.source == few} == {40}
    assert {arm.recipe.steps for arm in seen if arm.source != few} == {50, 100}


def test_restarts_do_not_reach_the_seeds_that_rates_are_tuned_on():
    most = TUNING_SEED // APART
    assert Restarts(count=most, steps=1).count == most
    with pytest.raises(ValueError, match=f"at most {most} restarts, got {most + 1}"):
        Restarts(count=most + 1, steps=1)


def test_a_rate_is_as_good_as_the_best_of_its_restarts(monkeypatch, run):
    """At one rate a single restart is good, at the other all are middling: means would say the other."""

    def end(arm):
        lucky = arm.recipe.learning_rate == 0.01 and (arm.seed - TUNING_SEED) // APART == 1
        return 0.0 if lucky else 1.0 if arm.recipe.learning_rate == 0.02 else 2.0

    by(monkeypatch, held_out=end)
    tuning = Tuning(grid=(0.01, 0.02), share=0.5, seeds=2, restarts=3, widenings=0)
    found = trained(comparison(tuning=tuning), 2, run, "made up")
    assert found.tuning["best"] == {"vanilla": 0.01, "skipv1": 0.01}
    assert found.tuning["losses"]["vanilla"] == {"0.01": 0.0, "0.02": 1.0}


@pytest.mark.parametrize("late", [{"steps": 40}, {"steps": 100}])
def test_seeds_of_which_all_restarts_and_lengths_are_finished_count(monkeypatch, run, late):
    """What is late is of seed 2 alone, so that two seeds are whole."""
    by(monkeypatch, ends=lambda arm: not (arm.seed % APART == 2 and arm.recipe.steps == late["steps"]))
    found = trained(comparison(), 4, run, "made up")
    assert found.about["seeds"] == 2
    assert {len(x) for x in found.alone().values()} == {2}


def test_fewer_than_two_seeds_are_none(monkeypatch, run):
    by(monkeypatch, ends=lambda arm: arm.seed % APART < 1)
    with pytest.raises(Unfinished, match=r"restarts: 6 of 18 are finished"):
        trained(comparison(), 3, run, "made up")


TWO_FINISHED = replace(SOME, finished=2)


def overtaken(arm):
    """Training losses: the last restart leads after 40 steps, the one before it from 50 on; the first always trails."""
    restart = arm.seed // APART
    return -restart if arm.recipe.steps == 40 or restart == 0 else restart


def test_of_the_restarts_that_are_finished_the_best_is_trained(monkeypatch, run):
    seen = []
    by(monkeypatch, seen=seen, training=overtaken)
    found = trained(comparison(TWO_FINISHED), 2, run, "made up")
    assert found.last(MODELS[1], 100, "loss") == [APART, APART + 1]
    assert {arm.seed // APART for arm in seen if arm.recipe.steps == 100} == {1}
    assert {arm.seed // APART for arm in seen if not arm.elsewhere and arm.recipe.steps == 50} == {1, 2}
    assert found.alone()["skipv1"] == [[0, APART, 2 * APART], [1, APART + 1, 2 * APART + 1]]
    assert found.about["provenance"]["trainings"] == 2 * 2 * (2 + 2 + 3)


def test_without_more_finished_the_one_that_leads_early_is(monkeypatch, run):
    by(monkeypatch, training=overtaken)
    found = trained(comparison(SOME), 2, run, "made up")
    assert found.last(MODELS[1], 100, "loss") == [2 * APART, 2 * APART + 1]


def test_one_finished_that_diverges_is_not_chosen(monkeypatch, run):
    by(monkeypatch, training=lambda arm: None if arm.recipe.steps == 50 and arm.seed // APART == 2 else -arm.seed)
    found = trained(comparison(TWO_FINISHED), 2, run, "made up")
    assert found.last(MODELS[0], 100, "loss") == [APART, APART + 1]


def test_seeds_of_which_all_best_restarts_are_finished_count(monkeypatch, run):
    late = {2, 2 + APART, 2 + 2 * APART}
    by(monkeypatch, ends=lambda arm: arm.elsewhere or arm.recipe.steps == 40 or arm.seed not in late)
    found = trained(comparison(TWO_FINISHED), 4, run, "made up")
    assert found.about["seeds"] == 2
    by(monkeypatch, ends=lambda arm: arm.elsewhere or arm.recipe.steps == 40 or arm.seed % APART < 1)
    with pytest.raises(Unfinished, match=r"best restarts: 4 of 12 are finished"):
        trained(comparison(TWO_FINISHED), 3, run, "made up")


@pytest.mark.parametrize("finished", [0, 4])
def test_no_more_are_finished_than_there_are(finished):
    with pytest.raises(ValueError, match=f"of 3 restarts 1 to 3 are finished, got {finished}"):
        replace(SOME, finished=finished)


def test_restarts_are_the_beginning_of_what_is_trained():
    """With a late decay: the same rates until the shorter one falls."""
    short, long = (make(MODELS[0], 0, steps, None).recipe for steps in (40, 100))
    assert [short.rate(i) for i in range(short.begins_to_fall())] == [
        long.rate(i) for i in range(short.begins_to_fall())
    ]


@pytest.mark.parametrize("restarts", [NONE, SOME])
def test_in_words(restarts):
    assert ("3 random restarts" in restarts.described()) == (restarts is SOME)
    assert "the best 2 of these, trained to the shortest length" in TWO_FINISHED.described()


def settled_by(steps):
    """Losses fall with the steps, up to so many for each model."""
    return lambda arm: 1 / min(arm.recipe.steps, steps[arm.variant])


def test_what_has_not_converged_is_trained_twice_as_long_and_again(monkeypatch, run):
    seen = []
    by(monkeypatch, seen=seen, held_out=settled_by({"vanilla": 200, "skipv1": 50}))
    options = {"converged": lambda _, few, many: few == many, "doublings": 5, "alike": lambda m: m}
    found = trained(comparison(**options), 2, run, "made up")
    assert [found.lengths(m) for m in MODELS] == [[50, 100, 200, 400], [50, 100]]
    assert found.last(MODELS[0], 400, "loss") == found.last(MODELS[0], 200, "loss") == [1 / 200] * 2
    assert {arm.seed for arm in seen if arm.recipe.steps == 400} == {2 * APART, 2 * APART + 1}
    assert found.about["provenance"]["trainings"] == 2 * (3 + 4 + 3 + 2)


@pytest.mark.parametrize(("doublings", "longest"), [(0, 100), (1, 200), (3, 800)])
def test_only_so_often(monkeypatch, run, doublings, longest):
    by(monkeypatch)
    found = trained(comparison(NONE, doublings=doublings), 2, run, "made up")
    assert {found.lengths(m)[-1] for m in MODELS} == {longest}


def test_what_is_compared_is_trained_alike(monkeypatch, run):
    """As long, whichever of them has not converged."""
    models = (*MODELS, Model("resformer"))
    for slow in ("vanilla", "resformer"):
        by(monkeypatch)
        options = {"converged": lambda m, *_, slow=slow: m.variant != slow, "alike": lambda m: m.tuned_as}
        found = trained(comparison(NONE, models=models, doublings=1, **options), 2, run, "made up")
        assert [found.lengths(m)[-1] for m in models] == [200, 100, 200]
        together = comparison(NONE, models=models, doublings=1, converged=options["converged"])
        assert {trained(together, 2, run, "made up").lengths(m)[-1] for m in models} == {200}


def test_what_time_is_up_for_stays_as_it_is(monkeypatch, run):
    models = (*MODELS, Model("resformer"))
    late = {"steps": 200, "variant": "resformer", "seed": 1}
    by(
        monkeypatch,
        ends=lambda arm: (arm.recipe.steps, arm.variant, arm.seed) != tuple(late.values()),
    )
    found = trained(comparison(NONE, models=models, doublings=2, alike=lambda m: m.tuned_as), 2, run, "made up")
    assert [found.lengths(m) for m in models] == [[50, 100], [50, 100, 200, 400], [50, 100]]
    assert found.about["seeds"] == 2
