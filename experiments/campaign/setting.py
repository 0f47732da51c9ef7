"""The campaign's one recipe: text, sizes, schedule, and the lengths at which a training's numbers are taken.

A training is a trunk at a constant learning rate, with a cool-down at each of its lengths
(`experiments.training.trunks`).  Lengths are in tokens per parameter of vanilla, embeddings included, so that all
variants of a width read the same tokens.  They double, so that all are whole numbers of lines of the log.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Literal

from experiments.training.arms import START, Arm, TextSource
from experiments.training.probes import STANDARD
from icl.recipe import Recipe
from theory.errors import BadInput
from theory.plans.accounting import total_parameters
from theory.plans.architecture import Architecture, Tokens
from theory.plans.names import resolve
from theory.plans.plan import Plan
from theory.plans.presets import resized

VANILLA = "vanilla"
LINES = 5  # of the log, up to the shortest length; its cool-down is the last of them
WARM = 1  # lines over which the rate rises
FAN_IN = 0.0  # for a deviation of initial matrices: one over the root of the width


@dataclass(frozen=True)
class Corpus:
    """Prepared text that a campaign reads.

    Args:
        name: what it is, for a message to somebody who has to prepare it.
        digest: of its manifest, so that a finished training is known without the text; empty: whatever is given.
        tokens: to train on.
    """

    name: str
    digest: str
    tokens: int
    vocab: int


RFC = Corpus(
    name="RFC 7000 to 7999 as text, from rfc-editor.org (`crosslayer data prepare FOLDER --vocab 512 --out data/rfc`)",
    digest="419474c3883a5e34f7d113e444552e6ec0a5ba0f5c15b6dd4656243aa101dc8c",
    tokens=24_832_524,
    vocab=512,
)


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """The trainings from which an arm's own learning rate is read, see `rates`.

    Args:
        rates: rising, three or more if an error of the best is wanted, each as many times the one before.
        width: of the models.
        until: tokens per parameter of the longest training, whose held-out loss decides.
        seeds: of each rate.
    """

    rates: tuple[float, ...] = (2e-3, 4e-3, 8e-3, 16e-3)
    width: int = 32
    until: float = 10.0
    seeds: int = 4


@dataclass(frozen=True, kw_only=True)
class Setting:
    """The recipe that all trainings of a campaign share.

    Args:
        architecture: at one width; at another the heads are as many, and feed-forward layers as wide in proportion.
        corpus: what is read.
        lengths: tokens per parameter, each twice the one before.
        recipe: but for its steps, rate, warm-up and logging.
        held_out_windows: of text, for the loss at each length.
        sweep: how an arm's own learning rate is found.
    """

    architecture: Architecture
    corpus: Corpus = RFC
    lengths: tuple[float, ...] = (0.625, 1.25, 2.5, 5.0, 10.0, 20.0)
    recipe: Recipe
    held_out_windows: int = 256
    probes: tuple[str, ...] = (STANDARD,)
    sweep: Sweep = Sweep()

    def __post_init__(self) -> None:
        if any(long != 2 * short for short, long in pairwise(self.lengths)):
            raise BadInput(f"each length must be twice the one before, got {self.lengths}")

    def sizes(self, width: int) -> Architecture:
        """Return the architecture at a width."""
        return _sizes(self.architecture, self.corpus.vocab, width)

    def parameters(self, width: int) -> int:
        """Return vanilla's number of parameters at a width, embeddings included."""
        return _parameters(self.sizes(width))

    def steps(self, width: int, length: float) -> int:
        """Return the steps of a training of so many tokens per parameter, to within half a line of the shortest."""
        step = self.recipe.batch * self.architecture.context * LINES
        line = max(1, round(self.lengths[0] * self.parameters(width) / step))
        return line * LINES * 2 ** self.lengths.index(length)

    def tokens(self, width: int, length: float) -> int:
        """Return how many tokens such a training reads."""
        return self.steps(width, length) * self.recipe.batch * self.architecture.context

    def schedule(self, width: int, length: float, rate: float) -> Recipe:
        """Return the recipe of a training of so many tokens per parameter."""
        first, steps = self.steps(width, self.lengths[0]), self.steps(width, length)
        return replace(
            self.recipe,
            steps=steps,
            learning_rate=rate,
            warmup=WARM * first / LINES / steps,
            log_every=first // LINES,
        )

    def arms(self, cell: Cell, seed: int, folder: str = "") -> dict[float, Arm]:
        """Return the trainings of a cell with a seed, by length.

        Args:
            cell: which model at which rate.
            seed: of the data's order and of the initial weights.
            folder: where the text lies; what is trained already is known without it.
        """
        sizes = cell.sizes or self.sizes(cell.width)
        arm = Arm(
            architecture=sizes,
            variant=cell.variant,
            source=TextSource(folder, self.corpus.digest, self.held_out_windows),
            recipe=self.recipe,
            seed=seed,
            std=cell.std or sizes.d_model**-0.5,
            twin=cell.twin,
            probes=self.probes,
            label=cell.label,
        )
        return {at: replace(arm, recipe=recipe) for at, recipe in _recipes(self, cell).items()}


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A model as a question asks for it, at every seed.

    Args:
        variant: by name, or as a plan.
        width: of the model.
        rate: the learning rate at its peak.
        sizes: in place of the setting's at this width; None: those.
        depth_rate: what parameters that weigh outputs over depth have of it.
        std: deviation of initial matrices; FAN_IN: one over the root of the width.
        twin: 0, or the number of other initial weights on the same data.
        until: the longest training asked for, in tokens per parameter.
        label: what it is called, where its plan has no name.
        optimiser: see `icl.recipe.Recipe`.
    """

    variant: str | Plan
    width: int
    rate: float
    sizes: Architecture | None = None
    depth_rate: float = 1.0
    std: float = START
    twin: int = 0
    until: float = 20.0
    label: str = ""
    optimiser: Literal["adamw", "muon"] = "adamw"


@lru_cache(maxsize=1024)
def _recipes(setting: Setting, cell: Cell) -> dict[float, Recipe]:
    """Return the recipes of a cell's trainings by length, which every seed asks for."""
    lengths = [length for length in setting.lengths if length <= cell.until]
    recipes = {at: setting.schedule(cell.width, at, cell.rate) for at in lengths}
    return {at: replace(x, depth_rate=cell.depth_rate, optimiser=cell.optimiser) for at, x in recipes.items()}


@lru_cache(maxsize=64)
def _sizes(base: Architecture, vocab: int, width: int) -> Architecture:
    """Return an architecture at another width, which every training asks for."""
    wider = resized(base, width=width, layers=base.n_layers, heads=base.n_heads)
    return replace(wider, stem=Tokens(vocab))


@lru_cache(maxsize=64)
def _parameters(sizes: Architecture) -> int:
    """Return vanilla's parameters, which every training's schedule asks for."""
    return total_parameters(sizes, resolve(VANILLA, sizes.shape))
