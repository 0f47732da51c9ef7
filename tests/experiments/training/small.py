"""An arm that trains in no time, and what is compared of its record."""

import json
from dataclasses import replace

from experiments.store.desk import OutOfTime
from experiments.training.arms import Arm, PromptSource
from icl.data import preparing
from icl.recipe import Recipe
from theory.plans.architecture import Architecture, Vectors
from theory.plans.plan import plan, v

RECIPE = Recipe(steps=6, batch=4, learning_rate=0.01, log_every=2, evaluate_every=4)
PROMPTS = Arm(
    architecture=Architecture(d_model=8, n_layers=2, n_heads=2, d_ff=16, context=7, stem=Vectors(2)),
    variant="vanilla",
    source=PromptSource(2, 3, 0.1, 64),
    recipe=RECIPE,
    seed=0,
)
CLOCK = ("tokens_per_second", "mfu", "seconds")  # what of a record depends on it
EDITED = ("commit", "source")  # what changes if somebody edits the code while a test runs
PLAN = plan(PROMPTS.architecture.shape, values=lambda n, h: v(n, h) + 0.5 * v(1, h) if n > 1 else v(n, h))
HERE = f"{__name__}:size"


def prepared_sums(factory, *, files, sums, vocab):
    """A folder of prepared text: so many files, of so many sums or up to four more."""
    folder = factory.mktemp("text")
    for i in range(files):
        (folder / f"{i:02}.txt").write_text("".join(f"{i} times {j} is {i * j}. " for j in range(i % 5 + sums)))
    prepared = factory.mktemp("prepared") / "data"
    preparing.prepare(str(folder), prepared, vocab=vocab, held_out=0.3)
    return prepared


def size(model, _, device):
    """A probe of one's own."""
    return {"entries": sum(float(p.detach().abs().sum()) for p in model.parameters()), "device": device}


def timeless(record):
    return {k: v for k, v in record.items() if k not in (*CLOCK, *EDITED)}


def finite(record):
    """The record, as it is read back from a file that may hold no NaN."""
    return json.loads(json.dumps(record, allow_nan=False))


def with_rate(arm, rate, **options):
    return replace(arm, recipe=replace(arm.recipe, learning_rate=rate, **options))


def out_of_time(after):
    """An `on_log` that stops at the given number of reports."""
    seen = []

    def log(logged):
        seen.append(logged.step)
        if len(seen) == after:
            raise OutOfTime

    return log


OTHERS = {
    "rate": with_rate(PROMPTS, 0.02),
    "seed": replace(PROMPTS, seed=1),
    "variant": replace(PROMPTS, variant="resformer"),
    "source": replace(PROMPTS, source=PromptSource(2, 3, 0.2, 64)),
    "held out": replace(PROMPTS, source=PromptSource(2, 3, 0.1, 128)),
    "twin": replace(PROMPTS, twin=True),
    "std": replace(PROMPTS, std=0.1),
    "outputs": replace(PROMPTS, recipe=replace(PROMPTS.recipe, scale_outputs=False)),
}
