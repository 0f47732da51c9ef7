"""Trainings for torchtitan's `--config`: small ones by name, and `training`, of which one's own are made."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

from torchtitan.components.checkpointer import CheckpointManager
from torchtitan.components.loss import CrossEntropyLoss
from torchtitan.components.metrics import MetricsProcessor
from torchtitan.components.optimizer import LRSchedulersContainer, OptimizersContainer, ParamGroupConfig
from torchtitan.config import ParallelismConfig, TrainingConfig
from torchtitan.protocols.model_spec import ModelSpec
from torchtitan.trainer import Trainer

from icl.data.shards import read_manifest
from icl.models.decoder import Decoder
from icl.training.optimiser import is_decayed
from icl.training.titan.data import PreparedText, PreparedTokenizer
from icl.training.titan.model import CrosslayerDecoder, Names, parallelize
from theory.plans.architecture import Architecture, Tokens
from theory.plans.names import model as named
from theory.plans.plan import Plan
from theory.plans.written import to_json

DATA = "CROSSLAYER_DATA"  # the variable that names the folder of prepared text for the small trainings
WRAPPED = r"\.(?:_checkpoint_wrapped_module\.|_orig_mod\.)?"
SMALL = Architecture(d_model=64, n_layers=4, n_heads=4, d_ff=128, context=64, stem=Tokens(1))


def model_registry(sizes: Architecture, variant: str | Plan = "vanilla", *, seed: int | None = None) -> ModelSpec:
    """Return a decoder and what torchtitan does with it.

    Args:
        sizes: The architecture.
        variant: A variant's name or a plan.
        seed: The seed of the initial weights; by default a number of torch's generator.
    """
    sizes, plan = named(sizes, variant) if isinstance(variant, str) else (sizes, variant)
    return ModelSpec(
        name="crosslayer",
        flavor=variant if isinstance(variant, str) else "plan",
        model=CrosslayerDecoder.Config(architecture=asdict(sizes), plan=to_json(plan), seed=seed),
        parallelize_fn=parallelize,
        pipelining_fn=None,
        post_optimizer_build_fn=None,
        state_dict_adapter=Names,
    )


def training(
    sizes: Architecture,
    variant: str | Plan,
    *,
    data: Path | str,
    steps: int,
    batch: int,
    learning_rate: float = 3e-4,
    weight_decay: float = 0.0,
    warmup: int = 0,
    seed: int = 0,
) -> Trainer.Config:
    """Return a training of a decoder on prepared text, in float32, which torchtitan's own options change.

    Args:
        sizes: The architecture; its vocabulary is the text's, whatever it says.
        variant: A variant's name or a plan.
        data: The folder that `crosslayer data prepare` has left.
        steps: Optimiser steps.
        batch: Texts per process and step, as long as the context.
        learning_rate: The peak rate.
        weight_decay: Of matrices and embeddings, as `icl.training.optimiser.is_decayed` tells them.
        warmup: Steps over which the rate rises; then it stays.
        seed: Of the initial weights and of the order of the text.
    """
    vocab = read_manifest(Path(data)).tokenizer.vocab
    sizes = replace(sizes, stem=Tokens(vocab, tied=isinstance(sizes.stem, Tokens) and sizes.stem.tied))
    spec = model_registry(sizes, variant, seed=seed)
    settings = {"lr": learning_rate, "betas": (0.9, 0.95), "eps": 1e-8}
    return Trainer.Config(
        model_spec=spec,
        hf_assets_path=str(data),
        loss=CrossEntropyLoss.Config(global_vocab_size=vocab),
        tokenizer=PreparedTokenizer.Config(folder=str(data)),
        dataloader=PreparedText.Config(folder=str(data), seed=seed),
        optimizer=OptimizersContainer.Config(param_groups=list(_groups(spec, settings, weight_decay))),
        lr_scheduler=LRSchedulersContainer.Config(warmup_steps=warmup, min_lr_factor=1.0),
        training=TrainingConfig(
            local_batch_size=batch,
            seq_len=sizes.context,
            steps=steps,
            mixed_precision_param="float32",
            disable_cuda_graphs=True,  # which texts a row holds is read on the host
        ),
        parallelism=ParallelismConfig(spmd_backend="partial_dtensor"),
        checkpoint=CheckpointManager.Config(interval=500),
        metrics=MetricsProcessor.Config(log_freq=1 if steps <= 100 else 10),
    )


def _groups(spec: ModelSpec, settings: dict[str, object], weight_decay: float) -> Iterator[ParamGroupConfig]:
    """Yield the groups of the optimizer: what is not decayed, by its names, and everything else."""
    model = Decoder(*spec.model.described(), device="meta")
    apart = {_pattern(name) for name, p in model.named_parameters() if not is_decayed(name, p)}
    if apart and weight_decay:
        pattern, options = f"^(?:{'|'.join(sorted(apart))})$", {**settings, "weight_decay": 0.0}
        yield ParamGroupConfig(pattern=pattern, optimizer_name="AdamW", optimizer_kwargs=options)
    options = {**settings, "weight_decay": weight_decay}
    yield ParamGroupConfig(pattern=".*", optimizer_name="AdamW", optimizer_kwargs=options)


def _pattern(name: str) -> str:
    """Return a pattern of a parameter's name in any layer, wrapped or not."""
    return re.sub(r"\d+", r"\\d+", WRAPPED.join(re.escape(part) for part in name.split(".")))


def _small(variant: str) -> Trainer.Config:
    return training(SMALL, variant, data=os.environ.get(DATA, "data"), steps=20, batch=8, learning_rate=3e-3)


def vanilla_small() -> Trainer.Config:
    """Return twenty steps of a small vanilla decoder."""
    return _small("vanilla")


def skipv1_small() -> Trainer.Config:
    """Return twenty steps of a small SkipV1Former."""
    return _small("skipv1")


def svformer_gqa_small() -> Trainer.Config:
    """Return twenty steps of a small SVFormer with grouped queries."""
    return _small("svformer+gqa")


def attnres_small() -> Trainer.Config:
    """Return twenty steps of a small decoder with attention over depth in blocks."""
    return _small("attnres-block")
