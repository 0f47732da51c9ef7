"""One step: its gradients, clip and optimiser; and the held-out loss."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from icl.recipe import Recipe
from icl.training.loop import evaluate, take_step, train
from icl.training.optimiser import adamw, build_optimiser, set_rate
from tests.icl.training.small import CONTEXT, READER, RECIPE, REGRESSOR, model_of, prompts, text, weights_of

LINEAR = {"learning_rate": 1e4, "eps": 1e6, "warmup": 0.0, "floor": 1.0}  # Adam's first step is then -0.01 gradients


def gradients_of_a_step(**options):
    """What a first step is made of, by parameter; and its loss and gradient norm."""
    model = model_of(REGRESSOR, "attnres")
    start = weights_of(model)
    recipe = Recipe(**{"steps": 10, "batch": 8, **LINEAR, **options})
    found = take_step(model, prompts(), recipe, adamw(model, recipe), 0, 0, torch.device("cpu"))
    return {name: (start[name] - p.detach()) / 0.01 for name, p in model.named_parameters()}, found.tolist()


@pytest.mark.parametrize("parts", [2, 8])
def test_parts_of_a_batch_make_the_step_of_the_whole(parts):
    whole, said = gradients_of_a_step(clip=0.0)
    ours, also = gradients_of_a_step(clip=0.0, accumulate=parts)
    assert also == pytest.approx(said, rel=1e-5)
    norm = sum(float(x.square().sum()) for x in whole.values()) ** 0.5
    assert norm == pytest.approx(said[1], rel=1e-3)
    for name, x in whole.items():
        torch.testing.assert_close(ours[name], x, rtol=1e-3, atol=1e-4 * norm)


@pytest.mark.parametrize("share", [0.01, 0.5, 2.0])
def test_gradients_are_clipped_by_their_norm_together(share):
    """What is reported is the norm before."""
    free, (loss, norm) = gradients_of_a_step(clip=0.0)
    clipped, said = gradients_of_a_step(clip=share * norm)
    assert said == [loss, norm]
    for name, x in free.items():
        torch.testing.assert_close(clipped[name], min(share, 1.0) * x, rtol=1e-3, atol=1e-4 * norm)


def test_the_step_is_adamw_s():
    """Against torch's own, not fused, in a plain loop over parameters and steps."""
    recipe = replace(RECIPE, clip=0.05, accumulate=1, steps=6, evaluate_every=0)
    ours, plain = model_of(REGRESSOR, "skipv1"), model_of(REGRESSOR, "skipv1")
    list(train(ours, prompts(), recipe, 2))
    kinds = {True: [], False: []}
    for p in plain.parameters():
        kinds[p.dim() > 1].append(p)
    groups = [{"params": kinds[True], "weight_decay": 0.1}, {"params": kinds[False], "weight_decay": 0.0}]
    adam = torch.optim.AdamW(groups, betas=recipe.betas, eps=recipe.eps, foreach=False, fused=False)
    for step in range(recipe.steps):
        batch = prompts().batch(2, step, recipe.batch)
        loss = (plain(batch.inputs)[:, ::2] - batch.targets).square().sum(-1).mean()
        adam.zero_grad()
        loss.backward()
        assert float(nn.utils.clip_grad_norm_(plain.parameters(), recipe.clip)) > recipe.clip
        for group in adam.param_groups:
            group["lr"] = recipe.rate(step)
        adam.step()
    for name, p in plain.named_parameters():
        torch.testing.assert_close(dict(ours.named_parameters())[name], p, rtol=1e-4, atol=1e-6)


EXEMPT = {
    "vanilla": (),
    "skipv1": (),
    "resformer-learned": ("learned.",),
    "denseformer": ("depth.weights.",),
    "attnres": ("depth.query", "depth.gain"),
    "attnres-static": ("depth.logits.",),
    "attnres-input-query": ("depth.query", "depth.gain", "depth.matrix"),
}


@pytest.mark.parametrize("variant", EXEMPT)
@pytest.mark.parametrize("positions", ["rope", "learned", "bias"])
def test_only_matrices_and_embeddings_decay(variant, positions):
    """With gradients of zero, a step is decay and nothing else."""
    biases, scores = positions == "learned", ".attention.position_bias.scores"
    config = replace(READER, bias=biases, qkv_bias=biases, norm="layer" if biases else "rms", positions=positions)
    model = model_of(config, variant)
    with torch.no_grad():
        for p in model.parameters():
            p.fill_(1.0)
            p.grad = torch.zeros_like(p)
    optimiser = adamw(model, replace(RECIPE, weight_decay=0.5, learning_rate=0.5))
    named = dict(model.named_parameters())
    grouped = [p for group in optimiser.param_groups for p in group["params"]]
    assert sorted(map(id, grouped)) == sorted(map(id, named.values()))
    optimiser.step()
    kept = {name for name, p in named.items() if bool((p == 1).all())}
    exempt = {name for name, p in named.items() if name.startswith(EXEMPT[variant] or "?") or p.dim() == 1}
    assert kept == exempt | {name for name in named if name.endswith(scores)}
    assert any(name.endswith(scores) for name in named) == (positions == "bias")
    assert all(bool((p == 0.75).all()) for name, p in named.items() if name not in kept)
    assert all(any(name.startswith(prefix) for name in kept) for prefix in EXEMPT[variant])
    assert "stem.embedding.weight" not in kept


@pytest.mark.parametrize(
    "variant", ["denseformer", "attnres", "attnres-block", "attnres-static", "attnres-input-query"]
)
def test_a_depth_rule_has_a_learning_rate_of_its_own(variant):
    """At a quarter of the rate Adam's first step is a quarter as long; every parameter is in one group."""
    model, other = (model_of(READER, variant) for _ in range(2))
    recipe = replace(RECIPE, warmup=0.0, start=1.0, clip=0.0, eps=1e-30, weight_decay=0.0)
    for each, of in ((model, replace(recipe, depth_rate=0.25)), (other, recipe)):
        take_step(each, text(), of, optimiser := adamw(each, of), 0, 0, torch.device("cpu"))
        grouped = [p for group in optimiser.param_groups for p in group["params"]]
        assert sorted(map(id, grouped)) == sorted(map(id, each.parameters()))
    start = dict(model_of(READER, variant).named_parameters())
    for (name, slow), fast in zip(model.named_parameters(), other.parameters(), strict=True):
        if name.startswith("depth."):
            torch.testing.assert_close(4 * (slow - start[name]), fast - start[name], rtol=1e-4, atol=1e-6)
        else:
            torch.testing.assert_close(slow, fast, rtol=0, atol=0)
    assert any(name.startswith("depth.") and (p != start[name]).any() for name, p in other.named_parameters())


@pytest.mark.parametrize("variant", ["dva", "attnres-input-query", "resformer-learned"])
def test_muon_takes_matrices_of_layers_alone(variant):
    """Its first step is nearly orthogonal, in size AdamW's: a fifth of the rate.  All else takes AdamW's."""
    model, other = (model_of(READER, variant) for _ in range(2))
    recipe = replace(RECIPE, warmup=0.0, start=1.0, clip=0.0, eps=1e-30, weight_decay=0.0, optimiser="muon")
    start = {name: p.detach().clone() for name, p in model.named_parameters()}
    for each, of in ((model, recipe), (other, replace(recipe, optimiser="adamw"))):
        take_step(each, text(), of, build_optimiser(each, of), 0, 0, torch.device("cpu"))
    by_muon = set()
    for (name, p), q in zip(model.named_parameters(), other.parameters(), strict=True):
        if torch.equal(p, q):
            continue
        by_muon.add(name)
        moved = (p - start[name]).detach()
        largest = torch.linalg.svdvals(moved.double())[0] / recipe.rate(0)
        assert 0.65 < largest / (0.2 * max(p.shape) ** 0.5) < 1.25, name  # Newton and Schulz, five steps
    layers = {name for name, p in model.named_parameters() if name.startswith("layers.") and p.ndim == 2}
    still = {name for name in layers if torch.equal(dict(model.named_parameters())[name], start[name])}
    assert by_muon == layers - still
    assert len(by_muon) > len(layers) / 2


@pytest.mark.parametrize("variant", ["attnres", "denseformer"])
def test_a_depth_rule_has_a_weight_decay_of_its_own(variant):
    """Without gradients a step is the decay alone, by `depth_rate` of the learning rate."""
    model = model_of(READER, variant)
    recipe = replace(RECIPE, weight_decay=0.0, depth_decay=0.5, depth_rate=0.5)
    optimiser = adamw(model, recipe)
    for p in model.parameters():
        p.data.fill_(1)
        p.grad = torch.zeros_like(p)
    set_rate(optimiser, 0.4)
    optimiser.step()
    for name, p in model.named_parameters():
        torch.testing.assert_close(p.data, torch.full_like(p, 0.9 if name.startswith("depth.") else 1.0))


def test_the_held_out_loss_is_a_mean_with_its_error():
    model, task = model_of(replace(REGRESSOR, dropout=0.5)), prompts()
    found = evaluate(model, task, RECIPE)
    assert model.training
    model.eval()
    with torch.no_grad():
        each = torch.cat([(model(b.inputs)[:, ::2] - b.targets).square().sum(-1) for b in task.held_out()]).double()
    np.testing.assert_allclose(found.loss, each.mean(0))
    np.testing.assert_allclose(found.stderr, each.std(0) / 8)
    single = evaluate(model_of(READER), text(held_out_windows=1), RECIPE)
    assert single.stderr == (0.0,) * CONTEXT
