"""A reader of text and one of prompts that train in no time, what they read, and what is compared of them."""

import math
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from icl.data.preparing import prepare
from icl.data.shards import open_data
from icl.models.decoder import Decoder
from icl.prompts import RegressionTask
from icl.recipe import Recipe
from icl.training.objectives import Batch, PromptTask, TextTask
from theory.plans.architecture import Architecture, Tokens, Vectors
from theory.plans.names import resolve

VOCAB, CONTEXT = 23, 6
READER = Architecture(
    d_model=8, n_layers=2, n_heads=2, d_ff=16, context=CONTEXT, stem=Tokens(VOCAB, tied=True), dropout=0.1
)
REGRESSOR = Architecture(d_model=8, n_layers=1, n_heads=2, d_ff=16, context=7, stem=Vectors(2))
RECIPE = Recipe(steps=12, batch=4, learning_rate=0.01, weight_decay=0.1, accumulate=2, log_every=3, evaluate_every=6)
ALWAYS, AT_THE_END = 0.0, math.inf
COMPILED = pytest.mark.skipif(
    not (shutil.which("g++") or shutil.which("clang++")), reason="torch compiles with a C++ compiler, and there is none"
)


def model_of(config, variant="vanilla", seed=0):
    return Decoder(config, resolve(variant, config.shape), seed=seed)


def text(length=300, **options):
    """Text without a file: training tokens below VOCAB - 1, and held-out ones, of which each is VOCAB - 1 or 0."""
    place = np.arange(length)
    splits = {"train": (7 * place**2 + place) % (VOCAB - 1), "held_out": (VOCAB - 1) * (place[:60] % 5 // 3)}
    data = SimpleNamespace(tokens=splits.__getitem__, manifest=SimpleNamespace(digest=f"squares {length}"))
    return TextTask(data, CONTEXT, **options)


def prompts(d=2, n=3, **options):
    return PromptTask(RegressionTask(d, n, 0.1), **{"held_out_prompts": 64, "held_out_batch": 32, **options})


def scaled(by_step=lambda step: 1, by_place=lambda place: 1, **options):
    """Prompts whose targets are so many times as large, by step, and held out by the batch's place."""
    task = prompts(**options)
    batch, held_out = task.batch, task.held_out

    def times(one, factor):
        return Batch(one.inputs, factor * one.targets)

    task.batch = lambda seed, step, *rest: times(batch(seed, step, *rest), by_step(step))
    task.held_out = lambda: (times(one, by_place(place)) for place, one in enumerate(held_out()))
    return task


def rain(folder):
    """Thirty prepared texts, each longer than the one before."""
    (folder / "text").mkdir()
    for i in range(30):
        (folder / "text" / f"{i}.txt").write_text((i + 1) * "The rain in Spain stays mainly in the plain. ")
    prepare(str(folder / "text"), folder / "data", vocab=280, held_out=0.3)
    return open_data(folder / "data")


def numbers(logged):
    """What of a report does not depend on the clock."""
    return logged.step, logged.loss, logged.gradient_norm, logged.learning_rate, logged.held_out


def reader():
    return model_of(READER, "attnres")


def weights_of(model):
    return {name: p.detach().clone() for name, p in model.named_parameters()}


def assert_same_bits(ours, theirs):
    assert ours.keys() == theirs.keys()
    for name, x in ours.items():
        assert torch.equal(x, theirs[name]), name
