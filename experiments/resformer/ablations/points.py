"""Which decoders are trained, which of them are compared, and what the paper and the toy say of each pair."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from experiments.resformer.printed import RESFORMER as PAPER
from experiments.resformer.printed import printed
from experiments.training.arms import start_at_width
from experiments.training.campaign import BASELINE, TWIN
from experiments.training.printed import Reported, signs_in_text
from experiments.training.tuning import Tuning
from icl.recipe import Recipe
from theory.errors import BadInput
from theory.plans.architecture import Architecture
from theory.plans.heads import toy_heads
from theory.plans.names import resolve
from theory.plans.plan import Shape

LOSS, WEIGHT, WHAT, SOURCE = "resformer.loss", "resformer.fig-6", "resformer.fig-7", "resformer.fig-9"
SHARED, ENDS, RENEWED = "resformer.values-or-keys", "resformer.fig-14", "resformer.fig-17"
TOY = "resformer.what-is-carried"

RESFORMER, SVFORMER, ANCHORS = "resformer", "svformer", "svformer-2-anchors"
QUERIES, KEYS, ALL_QUERIES, ALL_KEYS = "residual-queries", "residual-keys", "shared-queries", "shared-keys"
PREVIOUS, ALL = "resformer-previous", "resformer-all"
ONE, TWO, LEARNED, SPARSE = "lambda=1", "lambda=2", "resformer-learned", "resformer-sparse"
TIE = 0.01  # of the signal, as in `toy-orderings`: toys that differ by less are a tie


def arms(layers: int) -> dict[str, str]:
    """The variants by name.  The second anchor stands in the middle: Fig. 17 does not say where its own stand."""
    alike = (BASELINE, RESFORMER, QUERIES, KEYS, SVFORMER, ALL_QUERIES, ALL_KEYS, PREVIOUS, ALL, LEARNED, SPARSE)
    return {
        **{name: name for name in alike},
        ONE: "resformer-constant:weight=1",
        TWO: "resformer-constant",
        ANCHORS: f"svformer:anchors=(1,{layers // 2 + 1})",
    }


PROBED = (RESFORMER, ONE, TWO, LEARNED)  # of them, how much of what is attended to is layer 1's

# What the toy orders by what is carried over: values, or something else in their place.
IN_THE_TOY = (
    (RESFORMER, BASELINE),
    (SVFORMER, BASELINE),
    (RESFORMER, QUERIES),
    (RESFORMER, KEYS),
    (SVFORMER, ALL_QUERIES),
    (SVFORMER, ALL_KEYS),
    (ALL_KEYS, BASELINE),
)
CLAIMS = {
    LOSS: {(RESFORMER, BASELINE)},
    WEIGHT: {(ONE, BASELINE), (TWO, BASELINE), (TWO, ONE)},
    WHAT: {(QUERIES, BASELINE), (KEYS, BASELINE)},
    SOURCE: {(PREVIOUS, RESFORMER), (ALL, RESFORMER)},
    SHARED: {(ALL_QUERIES, BASELINE), (ALL_KEYS, BASELINE)},
    ENDS: {(SVFORMER, BASELINE)},
    RENEWED: {(ANCHORS, SVFORMER)},
}
SHOWN = (
    (LEARNED, RESFORMER),
    *((name, BASELINE) for name in (PREVIOUS, ALL, ANCHORS, LEARNED, SPARSE, TWIN)),
)


@dataclass(frozen=True, kw_only=True)
class Config:
    """std: of initial matrices; 512 is the width of the paper's 82M model."""

    architecture: Architecture
    data: str
    vocab: int
    recipe: Recipe
    tuning: Tuning
    held_out_windows: int = 64

    @property
    def std(self) -> float:
        return start_at_width(self.architecture.d_model)


@dataclass(frozen=True)
class Compared:
    """A prediction for the loss of `arm` less that of `against`: its sign, whose it is, and where it stands.

    nats    the difference, where the paper prints one
    """

    by: str
    arm: str
    against: str
    sign: int
    place: str
    claim: str
    nats: float | None = None


def by_the_paper(layers: int) -> list[Compared]:
    """What is printed of these arms, each pair once; of several sizes the first, which is the smallest."""
    name_of = {variant: name for name, variant in arms(layers).items()}
    found: dict[tuple[str, str], Compared] = {}
    for r in (*printed(), *_further(layers)):
        pair = name_of.get(r.variant, ""), name_of.get(r.against, "")
        claims = [claim for claim, pairs in CLAIMS.items() if pair in pairs]
        if claims and pair not in found:
            found[pair] = Compared("paper", *pair, r.sign, r.place, claims[0], r.nats)
    return list(found.values())


def _further(layers: int) -> Iterator[Reported]:
    """Of variants that have no name of their own, or another at each depth."""
    size, better = "20B tokens of SlimPajama", -1
    yield from signs_in_text(
        PAPER,
        "section 4.2, Fig. 6: better than vanilla whatever lambda",
        size,
        {(arms(layers)[ONE], BASELINE): better},
    )
    yield from signs_in_text(
        PAPER, "section 4.8, Fig. 17: more anchors, better", size, {(arms(layers)[ANCHORS], SVFORMER): better}
    )


def toy_shares(architecture: Architecture) -> dict[str, float | None]:
    """For each arm, entries of W* that its two-layer toy explains in units of rho, over all; None: it is not covered.

    With the model's number of heads, on a task as wide as the model, so that values have to be compressed, as
    `toy-orderings` does: the toy says nothing of a task that is narrower by half.
    """
    from theory.toy.width import most_entries_at_width

    d, shape = architecture.d_model, Shape(2, architecture.kv_heads)
    shares: dict[str, float | None] = {}
    for name, variant in arms(architecture.n_layers).items():
        try:
            entries = most_entries_at_width(toy_heads(resolve(variant, shape)), d, d)
        except BadInput:  # it is for more layers than the toy has
            entries = None
        shares[name] = None if entries is None else entries / d**2
    return shares


def by_the_toy(shares: dict[str, float | None]) -> list[Compared]:
    """The pairs that the toy puts in order."""
    found = []
    for arm, against in IN_THE_TOY:
        mine, theirs = shares[arm], shares[against]
        if mine is not None and theirs is not None and abs(mine - theirs) >= TIE:
            sign = -1 if mine > theirs else 1
            found.append(Compared("toy", arm, against, sign, "theory.toy.width, at two layers", TOY))
    return found
