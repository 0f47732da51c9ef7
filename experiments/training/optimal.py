"""Compute-optimal trainings: one kind of model at several widths, each on so many tokens a parameter of real text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from experiments.training.campaign import BASELINE
from experiments.training.tuning import Tuning
from icl.recipe import Recipe
from theory.errors import BadInput
from theory.plans.accounting import total_parameters
from theory.plans.architecture import Architecture, Tokens
from theory.plans.names import resolve
from theory.plans.presets import resized

LINES = 8  # of the log, at which a training can stop, from one held-out evaluation to the next
TRANSFER = 0.25  # the peak rate falls with the parameters to this power


@dataclass(frozen=True, kw_only=True)
class Optimal:
    """architecture         at one width; at others it has as many heads, and layers in proportion to the width
    tokens_a_parameter   of vanilla, up to less than a step; all variants of a width read the same tokens
    recipe               steps, the lines of its log and, where there is a grid, its learning rate are not read
    tuned                widths at which every variant's rate is tuned; at others it is that of the next narrower of
                         these, or of the narrowest, scaled by the parameters to the power -TRANSFER
    evaluations          on held-out text, evenly over a training, the last at its end; five at least, of which means
                         over three are taken
    """

    architecture: Architecture
    widths: tuple[int, ...]
    tokens_a_parameter: float
    data: str
    vocab: int
    recipe: Recipe
    tuning: Tuning
    tuned: tuple[int, ...]
    evaluations: int
    held_out_windows: int

    def __post_init__(self) -> None:
        base = self.architecture
        if not self.widths or list(self.widths) != sorted(set(self.widths)):
            raise BadInput(f"widths must rise, got {self.widths}")
        for width in self.widths:
            if width < 1 or width * base.n_layers % base.d_model:
                raise BadInput(f"a width of {width} has no whole number of layers in proportion")
        if self.evaluations < 5:
            raise BadInput(f"there must be five evaluations or more, got {self.evaluations}")
        if not self.tuned or not set(self.tuned) <= set(self.widths):
            raise BadInput(f"rates are tuned at one or more of the widths {self.widths}, got {self.tuned}")

    def tuned_for(self, width: int) -> int:
        """The width whose rates are used at another."""
        return max((at for at in self.tuned if at <= width), default=min(self.tuned))

    def sizes(self, width: int, vocab: int) -> Architecture:
        base = self.architecture
        wider = resized(base, width=width, layers=width * base.n_layers // base.d_model, heads=base.n_heads)
        return replace(wider, stem=Tokens(vocab))

    def parameters(self, width: int, vocab: int) -> int:
        """Of vanilla, embeddings included."""
        sizes = self.sizes(width, vocab)
        return total_parameters(sizes, resolve(BASELINE, sizes.shape))

    def tokens(self, steps: int) -> int:
        """That so many steps read."""
        return steps * self.recipe.batch * self.architecture.context

    def trained(self, width: int, vocab: int) -> Recipe:
        """The recipe at a width, but for its learning rate."""
        steps = round(self.tokens_a_parameter * self.parameters(width, vocab) / self.tokens(1))
        log_every = max(1, steps // (LINES * self.evaluations))
        every = log_every * max(1, round(steps / self.evaluations / log_every))
        return replace(self.recipe, steps=max(1, steps), log_every=log_every, evaluate_every=every)

    def tuning_in_words(self) -> str:
        """What a prediction says of learning rates."""
        said = self.tuning.described(each="variant")
        if not self.tuning.grid:
            return said
        return (
            f"{said}, at width {', '.join(map(str, self.tuned))}; at others the rates found there, times the "
            f"parameters' ratio to the power -{TRANSFER:g}: the best rate falls with compute to the power 1/8 "
            "(DeepSeek LLM, 2024, section 3.1), and compute is as the parameters' square"
        )


def transferred(rates: Mapping[str, float], tuned: int, parameters: int) -> dict[str, float]:
    """The rates that were best for `tuned` parameters of vanilla, for another number of them."""
    factor = (tuned / parameters) ** TRANSFER
    return {name: float(f"{rate * factor:.4g}") for name, rate in rates.items()}


def cell(variant: str, width: int | str) -> str:
    """How results name a variant at a width."""
    return f"{variant}/{width}"
