"""Which models are compared: the paper's two, those between them (`factors`), and GPT-2s as small as its own model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log
from typing import TYPE_CHECKING

from experiments.dva.against_gpt2.factors import (
    BARE,
    CELLS,
    DYNAMIC,
    HEAD,
    MODEL_B,
    UNPROJECTED,
    Cell,
    in_words,
    named,
)
from experiments.training.arms import Arm, TextSource
from experiments.training.campaign import BASELINE, TWIN
from experiments.training.tuning import Tuning
from theory.plans.accounting import flops, total_parameters
from theory.plans.architecture import Architecture, Tokens
from theory.plans.plan import Dynamic, Plan, plan

if TYPE_CHECKING:
    from icl.recipe import Recipe

LEARNING, TIME = "dva.table-2", "dva.time"
ONE_HEAD, FEED_FORWARD, GATES = "dva.one-head", "dva.no-feed-forward", "dva.gates"

GATE = "gate"
THIN, SHALLOW, FLOPS = "thin", "shallow", "flops"
MATCHED = {
    THIN: "model a, feed-forwards so narrow that it has as many parameters",
    SHALLOW: "model a, so few layers that it has as many parameters",
    FLOPS: "model a, feed-forwards so narrow that it takes as many FLOPs",
}
B_AT_A_S, A_AT_B_S = "b at a's rate", "a at b's rate"
AT_ANOTHER_S_RATE = {B_AT_A_S: (MODEL_B, BASELINE), A_AT_B_S: (BASELINE, MODEL_B)}  # whose model, and whose rate
TOLD = (BASELINE, MODEL_B, TWIN, *AT_ANOTHER_S_RATE)  # those of which the whole training is kept
WORDS = {
    **{name: in_words(cell) for name, cell in CELLS.items()},
    BASELINE: "model a: heads, feed-forward",
    MODEL_B: "model b: one dynamic head alone",
    GATE: "one head alone, with model b's gate",
    THIN: "model a, thin: b's parameters",
    SHALLOW: "model a, shallow: b's parameters",
    FLOPS: "model a, thin: b's FLOPs",
    TWIN: "model a, other weights",
    B_AT_A_S: "model b, at model a's learning rate",
    A_AT_B_S: "model a, at model b's learning rate",
}


@dataclass(frozen=True, kw_only=True)
class Epochs:
    """Trainings of both models that read a part of the text several times.

    tokens  of the training text; steps: of an epoch as many as it takes to read them once
    """

    tokens: int
    epochs: int
    batch: int


@dataclass(frozen=True, kw_only=True)
class Config:
    """architecture: of model a; evaluations: on held-out text, evenly over a training, the last at its end."""

    architecture: Architecture
    data: str
    vocab: int
    recipe: Recipe
    tuning: Tuning
    evaluations: int
    epochs: Epochs
    held_out_windows: int = 64

    def arms(self, source: TextSource, vocab: int, seed: int) -> dict[str, Arm]:
        """At the recipe's learning rate; twin is another model a."""
        every = max(1, self.recipe.steps // (self.evaluations * self.recipe.log_every)) * self.recipe.log_every
        recipe = replace(self.recipe, evaluate_every=every)
        return {
            name: Arm(
                architecture=sizes, variant=made, source=source, recipe=recipe, seed=seed, twin=name == TWIN, label=name
            )
            for name, (sizes, made) in self.models(vocab).items()
        }

    def read_again(self, source: TextSource, vocab: int, seed: int) -> dict[str, Arm]:
        """Models a and b, on a part of the text, at the recipe's learning rate."""
        part = replace(source, train_tokens=self.epochs.tokens + 1)
        an_epoch = self.epochs.tokens // (self.architecture.context * self.epochs.batch)
        recipe = replace(
            self.recipe,
            batch=self.epochs.batch,
            steps=an_epoch * self.epochs.epochs,
            log_every=max(1, an_epoch // 4),
            evaluate_every=2 * max(1, an_epoch // 4),
        )
        arms = self.arms(part, vocab, seed)
        return {f"again/{name}": replace(arms[name], recipe=recipe) for name in (BASELINE, MODEL_B)}

    def models(self, vocab: int) -> dict[str, tuple[Architecture, Plan]]:
        """By name, model a first."""
        base = replace(self.architecture, stem=Tokens(vocab))
        one = replace(base, n_heads=1)
        found = {name: (one if HEAD in cell else base, made_of(base, cell)) for name, cell in CELLS.items()}
        found[GATE] = one, plan(one.shape, dynamic="gate", feed_forward=False, output_projection=False)
        for name, sizes in matched(base, *found[MODEL_B]).items():
            found[name] = sizes, plan(sizes.shape)
        found[TWIN] = found[BASELINE]
        return found


def made_of(base: Architecture, cell: Cell) -> Plan:
    """Of model a's sizes, with these differences."""
    sizes = replace(base, n_heads=1) if HEAD in cell else base
    dynamic: Dynamic = "revised" if DYNAMIC in cell else "no"
    return plan(sizes.shape, dynamic=dynamic, feed_forward=BARE not in cell, output_projection=UNPROJECTED not in cell)


def matched(base: Architecture, sizes: Architecture, model_b: Plan) -> dict[str, Architecture]:
    """Model a's architecture with fewer layers or narrower feed-forwards, each nearest to model b in what it matches.

    Of numbers of layers the one is taken whose feed-forwards are nearest to model a's, as a factor.
    """
    parameters = total_parameters(sizes, model_b)
    shallow = [_narrowed(replace(base, n_layers=n), parameters, by_flops=False) for n in range(1, base.n_layers)]
    return {
        THIN: _narrowed(base, parameters, by_flops=False),
        SHALLOW: min(shallow or [base], key=lambda made: abs(log(made.d_ff / base.d_ff))),
        FLOPS: _narrowed(base, cost(sizes, model_b), by_flops=True),
    }


def _narrowed(sizes: Architecture, wanted: int, *, by_flops: bool) -> Architecture:
    """With the inner width, 1 at least, that comes nearest; both counts are linear in it."""

    def count(width: int) -> int:
        made = replace(sizes, d_ff=width)
        return cost(made, plan(made.shape)) if by_flops else total_parameters(made, plan(made.shape))

    each = count(2) - count(1)
    return replace(sizes, d_ff=max(1, 1 + round((wanted - count(1)) / each)))


def cost(sizes: Architecture, made: Plan) -> int:
    """FLOPs of a token's forward pass, the mean over a causal sequence."""
    return flops(sizes, made, (sizes.context + 1) // 2)


@dataclass(frozen=True)
class Compared:
    """The loss of `arm` less that of `against`.  sign: what the paper says or implies of it, 0: no lower, as what `arm`
    has beside is said to be redundant."""

    arm: str
    against: str
    sign: int
    claim: str
    place: str


ONE_ORDINARY, MANY_DYNAMIC = named(HEAD, BARE, UNPROJECTED), named(BARE, UNPROJECTED, DYNAMIC)
PAIRS = (
    Compared(MODEL_B, BASELINE, -1, LEARNING, "Table 2: 5.274 for 5.298 on validation text"),
    *(Compared(MODEL_B, name, -1, LEARNING, "section 5: better learning capability") for name in MATCHED),
    Compared(ONE_ORDINARY, MODEL_B, 1, ONE_HEAD, "sections 2.2 and 3: dynamic values are what a single head lacks"),
    Compared(HEAD, BASELINE, 1, ONE_HEAD, "section 2.2: several heads mitigate static values"),
    Compared(MANY_DYNAMIC, MODEL_B, 0, ONE_HEAD, "abstract: all heads but one are redundant"),
    Compared(
        named(HEAD, DYNAMIC),
        named(HEAD, BARE, DYNAMIC),
        0,
        FEED_FORWARD,
        "abstract: the feed-forward can be cut down entirely",
    ),
    Compared(BARE, MODEL_B, 1, FEED_FORWARD, "abstract: dynamic values are why the feed-forward can be cut down"),
    Compared(GATE, MODEL_B, 1, GATES, "section 6: gates are still limited"),
)
