"""A stack trains each of its decoders as the training loop trains it alone, at every length, and resumes like it."""

from dataclasses import replace

import pytest
import torch

from icl.models.decoder import Decoder
from icl.prompts import RegressionTask
from icl.recipe import Recipe
from icl.stacks import training
from icl.stacks.decoder import StackedDecoder
from icl.stacks.training import AdamW, Feed, stretches, train
from icl.training import loop
from icl.training.objectives import Batch, PromptTask, blind_loss
from theory.errors import BadInput
from theory.plans.architecture import Architecture, Vectors
from theory.plans.names import resolve

CONFIG = Architecture(d_model=4, n_layers=2, n_heads=2, d_ff=8, context=7, stem=Vectors(2), positions="bias")
MEMBERS = [(v, s, r) for v in ("vanilla", "skipv1", "resformer-learned") for s, r in ((0, 3e-3), (1, 1e-2))]
LATE = Recipe(steps=40, batch=8, learning_rate=1.0, warmup=0.1, decay="late", weight_decay=0.1, log_every=8, clip=0.5)
ROUNDING = 100 * torch.finfo(torch.float32).eps


def task(scored="last"):
    return PromptTask(RegressionTask(2, 3, 0.1), 128, 64, scored)


def lengths(*steps):
    return [replace(LATE, steps=s, warmup=4 / s) for s in steps]


def models(members=MEMBERS):
    return [Decoder(CONFIG, resolve(v, CONFIG.shape), seed=s, std=0.5) for v, s, _ in members]


def trained(recipes, of="last", members=MEMBERS, **options):
    """What is logged; the last item is the stack."""
    steps = train(models(members), task(of), recipes, [s for _, s, _ in members], [r for *_, r in members], **options)
    logged = []
    while True:
        try:
            logged.append(next(steps))
        except StopIteration as end:
            return [*logged, end.value]


def ends(logged, recipe=0):
    (found,) = [x.held_out for x in logged[:-1] if x.held_out and x.recipe == recipe]
    return found


def alone(member, recipe, of="last"):
    _, seed, rate = member
    model = models([member])[0]
    *_, last = loop.train(model, task(of), replace(recipe, learning_rate=rate), seed)
    return model, last.held_out


@pytest.mark.parametrize("of", ["last", "all"])
@pytest.mark.parametrize("decay", ["late", "cosine"])
@pytest.mark.long
def test_every_member_ends_where_it_would_have_ended_alone(of, decay):
    recipe = replace(LATE, decay=decay)
    logged = trained([recipe], of)
    for i, member in enumerate(MEMBERS):
        model, held_out = alone(member, recipe, of)
        assert ends(logged)[i].loss == pytest.approx(held_out.loss, rel=ROUNDING)
        assert ends(logged)[i].stderr == pytest.approx(held_out.stderr, rel=10 * ROUNDING)
        weights = logged[-1].weights(i)
        for name, parameter in model.named_parameters():
            # Adam divides gradients by their size, so a tiny one is known to fewer digits than a weight
            torch.testing.assert_close(weights[name], parameter.detach(), rtol=0, atol=1e-4)


@pytest.mark.long
def test_lengths_share_their_beginning_and_end_as_alone():
    recipes = lengths(20, 40, 80)
    logged = trained(recipes)
    for place, recipe in enumerate(recipes):
        for i in (0, 3, 5):
            assert ends(logged, place)[i].loss == pytest.approx(alone(MEMBERS[i], recipe)[1].loss, rel=ROUNDING)
    assert logged[-2].done == 16 + 4 + 16 + 8 + 48


def test_what_is_shared_is_trained_once():
    found = [(s.recipe, s.first, s.last, s.ends) for s in stretches(lengths(20, 40))]
    assert found == [(0, 0, 16, False), (0, 16, 20, True), (1, 16, 40, True)]
    uneven = [replace(recipe, log_every=5) for recipe in lengths(20, 40)]
    assert [(s.first, s.last) for s in stretches(uneven)] == [(0, 15), (15, 20), (15, 40)]
    rare = [replace(recipe, log_every=20) for recipe in lengths(20, 40)]
    assert stretches(rare)[0].last == 16
    for wrong in (lengths(40, 20), lengths(20, 20), [replace(LATE, steps=20), replace(LATE, steps=40)]):
        with pytest.raises(BadInput, match="several lengths"):
            stretches(wrong)


@pytest.mark.long
def test_lines_of_the_log_hold_the_steps_that_they_hold_alone():
    recipes = [replace(recipe, log_every=5) for recipe in lengths(20, 40)]
    logged = trained(recipes)[:-1]
    for place, recipe in enumerate(recipes):
        model = models(MEMBERS[:1])[0]
        rate = MEMBERS[0][2]
        each = [line.loss for line in loop.train(model, task(), replace(recipe, learning_rate=rate), MEMBERS[0][1])]
        mine = [line.losses[0] for line in logged if line.recipe == place or (line.shared and line.recipe < place)]
        assert mine == pytest.approx(each, rel=10 * ROUNDING)


def test_a_gradient_whose_norm_overflows_is_no_small_step():
    """Clipped by a norm of inf it would be zero, and the training would go on as if nothing had been."""
    stack = StackedDecoder(models())
    gradient = torch.ones_like(stack.flat)
    gradient[1] = 1e20
    AdamW(stack, LATE, torch.full((len(stack.flat),), 1e-2)).step(slice(None), gradient, 1, 1.0)
    assert stack.flat.isnan().any(1).nonzero().flatten().tolist() == [1]


def test_who_else_is_in_the_stack_does_not_matter():
    with_others, few = trained([LATE]), trained([LATE], members=MEMBERS[3:5])
    for mine, theirs in zip(ends(few), ends(with_others)[3:5], strict=True):
        assert mine.loss == pytest.approx(theirs.loss, rel=ROUNDING)


@pytest.mark.long
def test_a_member_that_diverges_takes_nobody_with_it():
    wild = [("vanilla", 0, 1e-2), ("vanilla", 0, 1e6), ("skipv1", 1, 1e-2)]
    found = ends(trained([LATE], members=wild))
    assert str(found[1]).startswith("training diverged by step")
    for i in (0, 2):
        assert found[i].loss == pytest.approx(alone(wild[i], LATE)[1].loss, rel=ROUNDING)


@pytest.mark.parametrize("since", [1, 25])  # before and after the middle of the only logged steps
def test_what_explodes_in_the_first_logged_steps_has_diverged(since, monkeypatch):
    batches, held_out, blind = Feed.batches, PromptTask.held_out, blind_loss(task(), CONFIG.stem)

    def larger(self, step, size):
        inputs, targets = batches(self, step, size)
        return inputs, targets * (30 if step >= since else 1)

    monkeypatch.setattr(Feed, "batches", larger)
    monkeypatch.setattr(PromptTask, "held_out", lambda self: (Batch(x.inputs, 30 * x.targets) for x in held_out(self)))
    monkeypatch.setattr(training, "blind_loss", lambda *_: blind)
    (last, _) = trained([replace(LATE, log_every=40)])
    assert all(str(end).startswith("training diverged") for end in last.held_out)


def test_a_step_that_costs_much_is_no_divergence(monkeypatch):
    honest = Feed.batches

    def spiked(self, step, size):
        inputs, targets = honest(self, step, size)
        return inputs, targets * (100 if step == 20 else 1)

    monkeypatch.setattr(Feed, "batches", spiked)
    logged = trained([LATE])
    assert max(logged[2].losses) > 100 * max(logged[0].losses)
    assert not [end for end in ends(logged) if isinstance(end, str)]


@pytest.mark.parametrize("killed", [1, 3, 4, 5])
def test_a_killed_training_ends_with_the_same_numbers(tmp_path, killed):
    recipes = lengths(20, 40)
    whole = trained(recipes)
    steps = train(models(), task(), recipes, [s for _, s, _ in MEMBERS], [r for *_, r in MEMBERS], folder=tmp_path)
    for _ in range(killed):
        next(steps)
    with pytest.raises(StopIteration):
        steps.send(True)
    rest = trained(recipes, folder=tmp_path)
    assert rest[0].done > whole[killed - 1].done - 1
    assert [x.held_out for x in rest[:-1]] == [x.held_out for x in whole[killed:-1]]
    assert torch.equal(rest[-1].flat, whole[-1].flat)


@pytest.mark.parametrize("field", [{"accumulate": 2}, {"precision": "bf16"}, {"evaluate_every": 8}])
def test_settings_without_meaning(field):
    with pytest.raises(BadInput, match="no meaning for a stack"):
        next(train(models(), task(), [replace(LATE, **field)], [0] * 6, [1e-2] * 6))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own, of its inductor
def test_compiled_it_is_the_same():
    plain, compiled = trained([LATE]), trained([replace(LATE, compile=True)])
    for a, b in zip(ends(plain), ends(compiled), strict=True):
        assert a.loss == pytest.approx(b.loss, rel=ROUNDING)


LINEAR = replace(CONFIG, norm="none", score="linear", d_ff=0)
RUNGS = {
    "softmax": (LINEAR, replace(LINEAR, score="softmax")),
    "norms": (replace(LINEAR, score="softmax"), replace(LINEAR, score="softmax", norm="rms")),
    "feed-forward": (replace(CONFIG, d_ff=0), CONFIG),
}


def answers_of(stack):
    feed = Feed(task(), [0], stack.flat)
    inputs, targets = feed.laid(next(task().held_out()))
    same = [x.expand(len(stack.flat), *x.shape) for x in (inputs, targets)]
    return stack.losses(slice(None), stack.flat, *same, feed.read)


@pytest.mark.parametrize("ingredient", RUNGS)
def test_an_ingredient_turned_off_leaves_the_rung_before_and_turned_on_is_whole(ingredient):
    before, after = (
        [Decoder(config, resolve("skipv1", config.shape), seed=seed, std=0.5) for seed in (0, 1)]
        for config in RUNGS[ingredient]
    )
    with torch.no_grad():
        for old, new in zip(before, after, strict=True):
            weights = dict(old.named_parameters())
            for name, parameter in new.named_parameters():
                if name in weights:
                    parameter.copy_(weights[name])
    turning = StackedDecoder(after, turning=ingredient)
    turning.turn(0.0)
    assert torch.allclose(answers_of(turning), answers_of(StackedDecoder(before)), rtol=1e-4, atol=1e-5)
    turning.turn(1.0)
    whole = answers_of(StackedDecoder(after))
    assert torch.allclose(answers_of(turning), whole, rtol=1e-4, atol=1e-5)
    turning.turn(0.5)
    assert not torch.allclose(answers_of(turning), whole, rtol=1e-3)
    flat = turning.flat.clone().requires_grad_()
    turning.flat = flat
    (gradient,) = torch.autograd.grad(answers_of(turning).sum(), flat)
    place = turning.flat.shape[1] - 1  # nothing but how far it is turned on stands last, and that is not trained
    assert not gradient[:, place].any()
    assert gradient[:, :place].any()


def test_a_training_turns_an_ingredient_on_over_half_of_its_steps(monkeypatch):
    shares = []
    monkeypatch.setattr(StackedDecoder, "turn", lambda _, share: shares.append(share))
    trained(lengths(8, 16), turning="softmax")
    assert shares[:4] == [0.25, 0.5, 0.75, 1.0]
    assert set(shares[4:]) == {1.0}


def test_scores_are_those_of_the_loop():
    models_ = models(MEMBERS[:2])
    found = training.score(models_, task())
    for model, score in zip(models_, found, strict=True):
        end = loop.evaluate(model, task(), LATE)
        assert score.loss[-1] == pytest.approx(end.loss[-1], rel=ROUNDING)
        assert score.stderr[-1] == pytest.approx(end.stderr[-1], rel=1e-4)
