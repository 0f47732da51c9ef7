"""The question of values: whether reaching back for values, keys or queries lowers the loss at 20 tokens per parameter.

Decoders that differ in what later layers take from earlier ones (values, keys, queries), on the same text from the
same initial weights.  Each ends at its own learning rate; gains before that are shown at two rates common to all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from experiments.across.printed import NANOGPT, reported
from experiments.campaign.profiles import profiles
from experiments.campaign.question import Config
from experiments.campaign.setting import VANILLA
from experiments.campaign.signs import Pair, Signs, groups
from experiments.experiment.protocol import Experiment, Profile
from experiments.training.comparing import TOY as TOY_SHAPE
from experiments.training.comparing import OwnVariant
from theory.errors import BadInput
from theory.plans.heads import toy_heads
from theory.plans.names import resolve
from theory.plans.plan import Plan, Shape

SVFORMER, SKIPV1, RESFORMER, CLA, SHARED_KEYS = "svformer", "skipv1", "resformer", "cla-v", "shared-keys"
QUERIES, KEYS, TWICE, LEARNED = "residual-queries", "residual-keys", "resformer-constant", "resformer-learned"
ARMS = (RESFORMER, SVFORMER, SKIPV1, CLA, SHARED_KEYS, QUERIES, KEYS, TWICE, LEARNED)
TOY, LOSS, WEIGHT = "toy.value-maps", "resformer.loss", "resformer.fig-6"
CARRIED, KINDS, SHARED, ENDS = (
    "resformer.what-is-carried",
    "resformer.fig-7",
    "resformer.values-or-keys",
    "resformer.fig-14",
)
BY_ARM = {  # the ledger entry on which a printed comparison with vanilla bears
    RESFORMER: LOSS,
    SVFORMER: ENDS,
    TWICE: WEIGHT,
    QUERIES: KINDS,
    KEYS: KINDS,
    CLA: SHARED,
    SHARED_KEYS: SHARED,
}
TIE = 0.01  # of the signal: toys that differ by less are a tie, of which nothing is expected


class Values(Signs):
    """The question about what later layers take from layer 1."""

    name = "text-values"
    title = "Does reaching back for values, keys or queries lower the loss on text?"
    caption = (
        "(a) Held-out losses at 20 tokens per parameter, each arm at its own learning rate, after its name; crosses: "
        "printed. (b), (c) Training losses at one rate, against tokens per parameter. All minus the mean of two "
        "vanillas; a third vanilla is no effect. 95 % over paired seeds: (a) for all at once, (b), (c) point by point."
    )
    order = 3
    claims: tuple[str, ...] = (LOSS, ENDS, WEIGHT, KINDS, SHARED, TOY, CARRIED)
    profiles: Mapping[str, Profile] = profiles(
        groups(ARMS), seeds=8, seconds=70_000, detects="0.03 nats per token, for all differences at once"
    )
    words: Mapping[str, str] = {
        RESFORMER: "ResFormer",
        SVFORMER: "SVFormer",
        SKIPV1: "SkipV1Former",
        CLA: "CLA's values",
        SHARED_KEYS: "shared keys",
        QUERIES: "queries, half layer 1's",
        KEYS: "keys, half layer 1's",
        TWICE: "twice layer 1's values added",
        LEARNED: "ResFormer, learned weights",
    }
    drawn = (RESFORMER, SVFORMER, SKIPV1, CLA, SHARED_KEYS)
    printed = "printed, smallest size, one run each"
    assumes = (
        "of the papers: that a sign found at 60 to 82 million parameters and 20 billion tokens holds here; of the toy: "
        "all that it assumes, and that a better in-context learner is a better language model"
    )

    def pairs(self, config: Config) -> Sequence[Pair]:
        """Return the papers' signs, of several sizes the smallest's, and those of the toy."""
        return [*by_the_papers(), *by_the_toy(config.setting.architecture.kv_heads)]

    def of_own(self, own: Sequence[OwnVariant]) -> Sequence[Pair]:
        """Return the toy's sign of a user's variants, and of those that are a paper's that of the paper."""
        found = list(by_the_papers([variant.name for variant in own]))
        vanilla = share(resolve(VANILLA, TOY_SHAPE))
        for variant in own:
            mine = share(variant.toy) if variant.toy else None
            if mine is not None and vanilla is not None and abs(mine - vanilla) >= TIE:
                found.append(_of_the_toy(variant.name, VANILLA, TOY, better=mine > vanilla))
        return found


def by_the_papers(arms: Sequence[str] = ARMS) -> Iterator[Pair]:
    """Yield what is printed of arms against vanilla, beyond chance."""
    seen = set()
    for r in reported():
        if r.variant in arms and r.against == VANILLA and r.differs and r.variant not in seen and r.paper != NANOGPT:
            seen.add(r.variant)
            place = f"{r.paper.split(' (')[0]}, {r.place}, {r.size}"
            claim = BY_ARM.get(r.variant, TOY)
            yield Pair(by="paper", arm=r.variant, against=VANILLA, sign=r.sign, place=place, claim=claim, nats=r.nats)


def by_the_toy(heads: int) -> Iterator[Pair]:
    """Yield the order of the two-layer toy on a task as wide as the model, where it is no tie."""
    shares = {name: share(resolve(name, Shape(2, heads))) for name in (VANILLA, *ARMS)}
    pairs = [(arm, VANILLA, TOY) for arm in (RESFORMER, SVFORMER, SKIPV1, CLA, SHARED_KEYS, TWICE)]
    pairs += [(RESFORMER, QUERIES, CARRIED), (RESFORMER, KEYS, CARRIED), (SVFORMER, SHARED_KEYS, CARRIED)]
    for arm, against, claim in pairs:
        mine, theirs = shares[arm], shares[against]
        if mine is not None and theirs is not None and abs(mine - theirs) >= TIE:
            yield _of_the_toy(arm, against, claim, better=mine > theirs)


def _of_the_toy(arm: str, against: str, claim: str, better: bool) -> Pair:
    place = "the toy at two layers"
    return Pair(by="toy", arm=arm, against=against, sign=-1 if better else 1, place=place, claim=claim)


def share(plan: Plan, d: int = 8) -> float | None:
    """Return the share of a task of width d that a toy as wide explains of an endless prompt; None: not covered.

    Args:
        plan: of two layers.
        d: which makes no difference to an order.
    """
    from theory.toy.width import most_entries_at_width

    try:
        entries = most_entries_at_width(toy_heads(plan), d, d)
    except BadInput:
        return None
    return None if entries is None else entries / d**2


EXPERIMENT: Experiment = Values()
