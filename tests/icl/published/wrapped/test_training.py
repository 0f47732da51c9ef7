"""Models under transformers' own training: checkpoints of activations, other vocabularies, Trainer, LoRA."""

from dataclasses import replace

import pytest
import torch

from icl.models.decoder import Decoder
from icl.models.projections import HeadLinear, MergeLinear
from icl.recipe import Recipe
from icl.training.loop import train
from tests.icl.published.wrapped.small import CONFIG, CONFIGS, close, decoder, every_plan, tokens, wrapped
from tests.icl.training.small import CONTEXT, VOCAB, text
from theory.plans.architecture import Tokens
from theory.plans.names import resolve

transformers = pytest.importorskip("transformers")


def recompute(model, **options):
    """Enable what transformers called gradient checkpointing before version 5.20."""
    newer = getattr(model, "activation_checkpointing_enable", None)
    (newer or model.gradient_checkpointing_enable)(**options)


def gradients(model):
    model.zero_grad()
    ids = tokens()
    loss = model(ids, labels=ids).loss
    loss.backward()
    return loss.detach(), {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def kept_bytes(model):
    """The bytes of what a forward pass keeps for the backward pass, beside parameters."""
    own, seen = {p.untyped_storage().data_ptr() for p in model.parameters()}, {}

    def pack(x):
        if x.untyped_storage().data_ptr() not in own:
            seen[x.untyped_storage().data_ptr()] = x.untyped_storage().nbytes()
        return x

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        out = model(tokens(), labels=tokens()).loss
    del out
    return sum(seen.values())


@every_plan
def test_activations_that_are_made_again_change_no_gradient(name):
    model = wrapped(decoder(name)).train()
    plain, before = gradients(model), kept_bytes(model)
    for options in ({}, {"every_n_layers": 2} if hasattr(model, "activation_checkpointing_enable") else {}):
        recompute(model, **options)
        loss, found = gradients(model)
        assert torch.equal(loss, plain[0])
        assert found.keys() == plain[1].keys()
        assert all(torch.equal(grad, plain[1][name]) for name, grad in found.items())
        assert model(tokens(), use_cache=True).past_key_values is None
    recompute(model)
    assert kept_bytes(model) < before
    assert all("forward" not in sublayer.__dict__ for sublayer in model.decoder.sublayers)
    assert model.eval()(tokens()).past_key_values is not None


def test_the_other_form_of_checkpoints_gives_the_same_gradients():
    model = wrapped(decoder("skipv1")).train()
    plain = gradients(model)[1]
    name = "activation_checkpointing_kwargs" if hasattr(model, "activation_checkpointing_enable") else None
    recompute(model, **{name or "gradient_checkpointing_kwargs": {"use_reentrant": True}})
    assert all(torch.equal(grad, plain[name]) for name, grad in gradients(model)[1].items())


@pytest.mark.parametrize("name", ["vanilla", "value-embeddings", "tied"])
@pytest.mark.parametrize("mean", [True, False])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_another_vocabulary(name, mean, tmp_path):
    tied = replace(CONFIG, stem=Tokens(CONFIG.stem.vocab, tied=True))
    built = decoder(name) if name != "tied" else Decoder(tied, resolve("skipv1", tied.shape), std=0.3).eval()
    model = wrapped(built)
    with torch.no_grad():
        before = model(tokens()).logits
        assert model.resize_token_embeddings(20, mean_resizing=mean) is model.get_input_embeddings()
        wider = model(tokens()).logits
        assert wider.shape[-1] == model.config.vocab_size == 20
        close(wider[..., :13], before)
        assert bool(model(torch.tensor([[15, 19]])).logits.isfinite().all())
        model.save_pretrained(tmp_path)
        close(type(model).from_pretrained(tmp_path)(tokens()).logits, wider)
        few = tokens() % 7
        expected = model(few).logits
        model.resize_token_embeddings(7)
        close(model(few).logits, expected[..., :7])
    assert model.decoder.config.stem == replace(built.config.stem, vocab=7)
    assert model.generate(few, max_new_tokens=2, do_sample=False).shape == (2, 14)


@pytest.mark.parametrize("name", ["skipv1", "attnres-block", "latent skipv1", "dva"])
@pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")
def test_lora_on_projections_trains_them_alone_and_is_merged(name, tmp_path):
    peft = pytest.importorskip("peft")
    base = wrapped(decoder(name))
    before = base(tokens()).logits.detach()
    there = {n.rpartition(".")[2] for n, m in base.named_modules() if isinstance(m, HeadLinear | MergeLinear)}
    assert {"query", "key", "value"} <= there
    torch.manual_seed(0)
    config = peft.LoraConfig(r=2, target_modules=sorted(there), task_type="CAUSAL_LM")
    model = peft.get_peft_model(base, config)
    close(model(input_ids=tokens()).logits, before)
    optimiser = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.3)
    losses = []
    for _ in range(4):
        loss = model(input_ids=tokens(), labels=tokens()).loss
        loss.backward()
        losses.append(float(loss.detach()))
        optimiser.step()
        optimiser.zero_grad()
    assert losses[-1] < losses[0]
    model.eval()
    with torch.no_grad():
        trained = model(input_ids=tokens()).logits
        cached = model.generate(input_ids=tokens(), max_new_tokens=6, do_sample=False)
        assert (trained - before).abs().max() > 1e-3
        model.save_pretrained(tmp_path)
        again = peft.PeftModel.from_pretrained(wrapped(decoder(name)), tmp_path)
        close(again(input_ids=tokens()).logits, trained)
        assert (
            cached.tolist()
            == model.generate(input_ids=tokens(), max_new_tokens=6, do_sample=False, use_cache=False).tolist()
        )
        merged = model.merge_and_unload()
        close(merged(tokens()).logits, trained)
        assert merged.generate(tokens(), max_new_tokens=6, do_sample=False).tolist() == cached.tolist()


@pytest.mark.parametrize("name", ["vanilla", "skipv1", "attnres-block"])
@pytest.mark.long
def test_trainer_has_the_losses_of_our_own_loop(name, tmp_path):
    pytest.importorskip("accelerate")
    sizes = replace(CONFIGS["vanilla"], context=CONTEXT + 1, stem=Tokens(VOCAB))
    ours = Decoder(sizes, resolve(name, sizes.shape), seed=0)
    theirs = wrapped(ours)
    recipe = Recipe(
        steps=12, batch=4, learning_rate=3e-3, warmup=0.0, floor=1.0, decay="late", log_every=1, scale_outputs=True
    )
    task = text()
    expected = [logged.loss for logged in train(ours, task, recipe, 0)]
    rows = []
    for step in range(recipe.steps):
        batch = task.batch(0, step, recipe.batch)
        rows += torch.cat([batch.inputs, batch.targets[:, -1:]], 1)
    losses = []

    class InOrder(transformers.Trainer):
        def _get_train_sampler(self, *_args, **_kwargs):
            return torch.utils.data.SequentialSampler(self.train_dataset)

        def compute_loss(self, *args, **kwargs):
            loss = super().compute_loss(*args, **kwargs)
            losses.append(float(loss.detach()))
            return loss

    settings = transformers.TrainingArguments(
        tmp_path / "run",
        max_steps=recipe.steps,
        per_device_train_batch_size=recipe.batch,
        learning_rate=recipe.learning_rate,
        lr_scheduler_type="constant",
        adam_beta2=0.95,
        max_grad_norm=1.0,
        weight_decay=0.0,
        use_cpu=True,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
    )
    data = [{"input_ids": row, "labels": row} for row in rows]
    InOrder(theirs, settings, train_dataset=data).train()
    assert losses == pytest.approx(expected, rel=1e-4)
    assert losses[-1] < losses[0]
