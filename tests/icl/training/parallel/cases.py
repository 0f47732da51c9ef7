"""Trainings that one process and two go through alike: of every kind of plan, at odd sizes."""

from dataclasses import dataclass, field, replace

from icl.recipe import Recipe
from icl.training.loop import train
from icl.training.objectives import Batch, PromptTask
from tests.icl.training.small import READER, REGRESSOR, model_of, prompts, text
from theory.plans.architecture import Latent, Tokens

RECIPE = Recipe(steps=4, batch=6, learning_rate=0.01, weight_decay=0.1, clip=0.5, log_every=2, evaluate_every=2)
PLAIN = replace(READER, dropout=0.0)
ODD = replace(PLAIN, n_layers=3, n_heads=3, d_model=12, d_ff=15, stem=Tokens(23))
GPT2 = replace(PLAIN, norm="layer", positions="learned", gated=False, bias=True, qkv_bias=True)


@dataclass(frozen=True)
class Case:
    """double: in float64, where what is left of a difference is one of programs."""

    config: object = PLAIN
    variant: str = "vanilla"
    task: object = text
    recipe: Recipe = RECIPE
    double: bool = True
    options: dict = field(default_factory=dict)

    def model(self, seed=1):
        model = model_of(self.config, self.variant, seed)
        return model.double() if self.double else model

    def run(self, model, **options):
        """What of its reports does not depend on the clock."""
        return [report(x) for x in train(model, self.task(**self.options), self.recipe, 3, **options)]


def report(logged):
    held_out = logged.held_out
    return [logged.step, logged.loss, logged.gradient_norm, *((*held_out.loss, *held_out.stderr) if held_out else ())]


def spread(**options):
    """Held-out text in batches that two processes cannot take in equal turns."""
    return text(held_out_windows=5, held_out_batch=2, **options)


def doubles(**options):
    task = prompts(**options)
    batch, held_out = task.batch, task.held_out
    task.batch = lambda *asked: _double(batch(*asked))
    task.held_out = lambda: map(_double, held_out())
    return task


def _double(batch):
    return Batch(batch.inputs.double(), batch.targets.double())


class Poisoned(PromptTask):
    """From step 2 on the targets of its last row are no numbers: the last process alone sees them."""

    def batch(self, seed, step, size, rows=slice(None)):
        whole = super().batch(seed, step, size)
        if step >= 2:
            whole.targets[-1] = float("nan")
        return whole.rows(rows)


CASES = {
    "vanilla, tied": Case(),
    "vanilla, a batch of 2": Case(recipe=replace(RECIPE, batch=2)),
    "odd sizes, untied, in 3 parts": Case(ODD, recipe=replace(RECIPE, accumulate=3)),
    "held out in unequal turns": Case(ODD, "skipv1", spread),
    "skipv1, grouped": Case(replace(PLAIN, n_heads=4, n_kv_heads=2), "skipv1"),
    "svformer, latent": Case(replace(PLAIN, latent=Latent(8, 2)), "svformer"),
    "attnres": Case(ODD, "attnres"),
    "attnres-block, its own rate": Case(ODD, "attnres-block", recipe=replace(RECIPE, depth_rate=0.3, depth_decay=0.1)),
    "attnres-static": Case(variant="attnres-static"),
    "attnres-input-query": Case(variant="attnres-input-query"),
    "denseformer, learned mixing": Case(ODD, "resformer-learned+denseformer"),
    "dva, biases, learned positions": Case(GPT2, "dva"),
    "cross-layer, biases of scores": Case(replace(PLAIN, positions="bias"), "cross-layer"),
    "prompts": Case(replace(REGRESSOR, n_layers=2), "skipv1+attnres-block", doubles),
    "float32": Case(
        variant="skipv1+attnres", double=False, recipe=replace(RECIPE, steps=12, log_every=4, evaluate_every=4)
    ),
    "bf16": Case(variant="resformer-learned", double=False, recipe=replace(RECIPE, precision="bf16")),
}
RESUMED = replace(CASES["attnres"], recipe=replace(RECIPE, steps=8))
