"""What `ladder-text` trains: one kind of model at several widths, each on so many tokens a parameter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from experiments.training.campaign import BASELINE, Tuning
from experiments.training.comparing import Asked
from icl.recipe import Recipe
from theory.errors import BadInput
from theory.plans.accounting import total_parameters
from theory.plans.architecture import Architecture, Tokens
from theory.plans.names import resolve
from theory.plans.presets import resized

LINES = 8  # of the log between two held-out evaluations, which are also where a training can stop
TRANSFER = 0.25  # the peak rate falls as this power of the parameters


@dataclass(frozen=True, kw_only=True)
class Config:
    """architecture         the narrowest; the others have as many heads, and layers in proportion to their width
    tokens_a_parameter   of vanilla, up to less than a step; all variants of a width read the same tokens
    recipe               steps, the lines of its log and its learning rate (where there is a grid) are not read
    tuned_widths         of so many, from the narrowest on, every variant's rate is tuned; beyond, the rate is that of
                         the widest of these, lower by the parameters to the power TRANSFER
    evaluations          on held-out text, evenly over a training, the last at its end
    """

    architecture: Architecture
    widths: tuple[int, ...]
    tokens_a_parameter: float
    variants: tuple[str, ...]
    data: str
    vocab: int
    recipe: Recipe
    tuning: Tuning
    tuned_widths: int
    evaluations: int
    held_out_windows: int
    own: tuple[Asked, ...] = ()

    def __post_init__(self) -> None:
        first = self.architecture.d_model
        if list(self.widths) != sorted(set(self.widths)) or self.widths[:1] != (first,):
            raise BadInput(f"widths must rise from the architecture's, {first}, got {self.widths}")
        for width in self.widths:
            if width * self.architecture.n_layers % first:
                raise BadInput(f"a width of {width} has no whole number of layers in proportion")
        if not 1 <= self.tuned_widths <= len(self.widths):
            raise BadInput(f"tuned_widths must be from 1 to {len(self.widths)}, got {self.tuned_widths}")

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


def transferred(rates: Mapping[str, float], tuned: int, parameters: int) -> dict[str, float]:
    """The rates that were best at `tuned` parameters of vanilla, for another size."""
    factor = (tuned / parameters) ** TRANSFER
    return {name: float(f"{rate * factor:.4g}") for name, rate in rates.items()}


def cell(variant: str, width: int | str) -> str:
    """How results name a variant at a width."""
    return f"{variant}/{width}"
