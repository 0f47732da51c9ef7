"""Claims on inference, sections 6.3 and 6.4: the size of the cache, and the time of a token."""

from __future__ import annotations

from experiments.ledger.claim import Claim
from experiments.toys.unjudged import OF_CACHES
from theory.plans import decoding
from theory.plans.accounting import (
    cache,
    depth_sources,
    flops,
    norm_parameters,
    parameters,
    projections,
    total_parameters,
)
from theory.plans.architecture import Architecture
from theory.plans.decoding import numbers_of_a_step, reads
from theory.plans.depth import Depth
from theory.plans.names import model
from theory.plans.plan import built
from theory.skipv1.paper import PAPER

TABLE_2_CACHE = Claim(
    "skipv1.table-2-cache",
    PAPER.name,
    place="section 6.4, Table 2, KV bytes per token (the caption says GPT2-355M, the text LLaMA-350M)",
    statement="SkipV1Former takes the cache from 98,304 to 74,752 bytes a token with grouped queries (-24.0 %) "
    "and from 13,824 to 7,680 with a latent (-44.4 %).",
    assumes="bf16, as in training; 24 layers, 16 heads of 64; two query heads a key/value head, as the text says; "
    "latent of 256 and a rotary key of 32",
    verdict="corrected",
    correction="With grouped queries it is 49,152 and 37,376: the printed pair is that of ungrouped heads (or of "
    "four bytes a number; the shares agree).  With a latent, 7,680 leaves out the second half of layer 1's, which "
    "every later layer reads: 7,936 bytes, -42.6 %.",
    proof=cache,
    unjudged=OF_CACHES,
)


@TABLE_2_CACHE.check(
    "grouped queries, by the accounting",
    states=("+gqa", 49_152, 37_376),
    control=("+gqa", 98_304, 74_752),
    wrong="the printed pair",
    kind="exact",
)
def table_2_bytes(version: tuple[str, int, int]) -> bool:
    """Compare LLaMA-350M's cache, two bytes per number, vanilla and SkipV1Former, by head kind (empty: ungrouped)."""
    kind, before, after = version
    sizes = [cache(*model("llama-350m", name + kind)).total * 2 for name in ("vanilla", "skipv1")]
    return sizes == [before, after]


@TABLE_2_CACHE.check(
    "the printed pair is the ungrouped one, by hand: 24 layers of 1,024 keys and values",
    states=(1024, 1024, 98_304, 74_752),
    control=(512, 512, 98_304, 74_752),
    wrong="with eight key/value heads",
    kind="exact",
)
def table_2_by_hand(version: tuple[int, int, int, int]) -> bool:
    """Count 24 layers at two bytes: keys everywhere, all values in layer 1, half of them in the 23 others."""
    key, value, before, after = version
    return (24 * (key + value) * 2, (24 * key + value + 23 * value // 2) * 2) == (before, after)


TABLE_2_CACHE.check(
    "a latent, by the accounting",
    states=("+mla", 13_824, 7_936),
    control=("+mla", 13_824, 7_680),
    wrong="the printed 7,680",
    kind="exact",
)(table_2_bytes)

TABLE_2_CACHE.check(
    "a latent, by hand: a rotary key of 32 and 256 numbers",
    states=(32, 256, 13_824, 7_936),
    control=(32, 256, 13_824, 7_680),
    wrong="the printed 7,680",
    kind="exact",
)(table_2_by_hand)


SIZES = ("llama-60m", "llama-130m", "llama-350m", "llama-1b", "llama-3b", "llama-7b")

MEMORY = Claim(
    "skipv1.inference-memory",
    PAPER.name,
    place="section 6.3, figure 6",
    statement="The cache is about 25 % smaller at every length and for models of 350M to 7B.",
    assumes="LLaMA, numbers of two bytes",
    verdict="verified",
    correction="The share is (L - 1) / (4 L) of L layers: 24.0 % of 24, 24.2 % of 32.  That the peak at 1B is 5.6 GB "
    "lower, which is printed beside it, nothing decides: as part of the cache that is 119 thousand tokens, all "
    "sequences together, and how many there were the paper does not say.",
    proof=decoding,
    unjudged=OF_CACHES,
)


@MEMORY.check(
    "parts of ten thousand that are saved at 350M, 1B, 3B and 7B, by the accounting, where MHA keeps a key and a value "
    "of every layer's width",
    states=(2396, 2396, 2422, 2422),
    control=(2500, 2500, 2500, 2500),
    wrong="layer 1 is not counted as it keeps all of its values",
    kind="exact",
)
def share_of_the_cache(parts: tuple[int, ...]) -> bool:
    found = []
    for name in SIZES[2:]:
        before, after = (cache(*model(name, variant)).total for variant in ("vanilla", "skipv1"))
        sizes, _ = model(name)
        if before != 2 * sizes.n_layers * sizes.d_model:
            return False
        found.append(round(10_000 * (before - after) / before))
    return tuple(found) == parts


@MEMORY.check(
    "thousands of tokens at which 24 layers of width 2,048 save 5.6 GB, by hand and by the accounting",
    states=(2, 119),
    control=(4, 119),
    wrong="four bytes a number",
    kind="exact",
)
def tokens_of_the_peak(version: tuple[int, int]) -> bool:
    size, thousands = version
    by_hand = size * 23 * 2048 // 2
    before, after = (cache(*model("llama-1b", variant)).total for variant in ("vanilla", "skipv1"))
    return by_hand == 2 * (before - after) and round(5.6e9 / by_hand / 1000) == thousands


SPEED = Claim(
    "skipv1.inference-speed",
    PAPER.name,
    place="section 6.3, figure 7",
    statement="Prefill is 5 to 8 ms faster for every 100 tokens, as W_V is halved; decoding is as fast to 2 %, with "
    "occasional gains, at 60M to 7B: consistent improvements.",
    assumes="LLaMA, one A6000, batches of 1 (prefill), 8 and 16",
    verdict="corrected",
    correction="Half of W_V cannot be the reason at every size: it is 0.18 GFLOP per 100 tokens at 60M, so that 5 ms "
    "would be 37 GFLOP/s, a thousandth of what the card does in float32 (38.7 TFLOP/s, NVIDIA's data sheet); at 7B it "
    "is 52 GFLOP, which may take as long.  Decoding as fast is all that is to be expected where memory traffic decides "
    "it, and no improvement: SkipV1Former keeps a quarter less of a token and reads as much, as all layers read layer "
    "1's values, so that where the cache dominates a step takes as long as MHA's, and what is saved is room alone.  "
    "What is less, by up to 3 %, is the weights that a step reads.",
    proof=decoding,
    unjudged={
        **OF_CACHES,
        **dict.fromkeys(
            (
                projections,
                parameters,
                total_parameters,
                norm_parameters,
                built,
                Architecture.sublayers,
                Architecture.has_feed_forward,
            ),
            "with grouped queries weights are nothing beside a billion tokens; without them they are counted by hand",
        ),
        flops: "the costs of other parts are other entries'",
        depth_sources: "no plan here reads over depth",
        Depth.flops: "no plan here reads over depth",
        cache: "one over another, which both may be larger",
    },
)


@SPEED.check(
    "FLOPs that the halved projections save per 100 tokens at 60M and 7B, in millions: by the accounting and by hand",
    states=(1, 183, 52_009),
    control=(2, 183, 52_009),
    wrong="all of W_V is saved",
    kind="exact",
)
def flops_of_the_values(version: tuple[int, int, int]) -> bool:
    halves, *millions = version
    for name, stated in zip((SIZES[0], SIZES[-1]), millions, strict=True):
        sizes = [model(name, variant) for variant in ("vanilla", "skipv1")]
        before, after = (flops(config, plan, 64) for config, plan in sizes)
        config = sizes[0][0]
        by_hand = 100 * (config.n_layers - 1) * config.d_model**2 * halves
        if 100 * (before - after) != by_hand or by_hand // 10**6 != stated:
            return False
    return True


@SPEED.check(
    "numbers that a step reads of every token before, SkipV1Former's in parts of a hundred of MHA's, at all six sizes",
    states=100,
    control=76,
    wrong="as many as are kept",
    kind="exact",
)
def numbers_that_are_read(parts: int) -> bool:
    of_all = []
    for name in SIZES:
        before, after = (reads(*model(name, variant)) for variant in ("vanilla", "skipv1"))
        sizes, _ = model(name)
        if before != 2 * sizes.n_layers * sizes.d_model:  # keys and values of every layer's width
            return False
        of_all.append(round(100 * after / before))
    return set(of_all) == {parts}


@SPEED.check(
    "all that a step reads after a billion tokens, where the cache dominates, over MHA's, in parts of a thousand: "
    "SkipV1Former, and grouped queries of two",
    states=(1000, 500),
    control=(760, 500),
    wrong="faster by what its smaller cache saves, as grouped queries are",
    kind="exact",
)
def where_the_cache_dominates(parts: tuple[int, ...]) -> bool:
    tokens, sides = 10**9, ("vanilla", "skipv1", "gqa:group=2")
    for name in SIZES:
        first, *others = (numbers_of_a_step(*model(name, variant), 1, tokens) for variant in sides)
        if tuple(round(1000 * other / first) for other in others) != parts:
            return False
        config, plan = model(name, "vanilla")
        if first - numbers_of_a_step(config, plan, 1, 1) != (tokens - 1) * 2 * config.n_layers * config.d_model:
            return False
    kept = [cache(*model("llama-350m", variant)).total for variant in sides[:2]]
    return round(1000 * kept[1] / kept[0]) == 760


@SPEED.check(
    "all that a step of 8 and 16 sequences reads after 1,024 tokens, weights too, over MHA's: least and most",
    states=(0.97, 1.0),
    control=(0.75, 0.97),
    wrong="as much less as is kept",
    kind="exact",
)
def all_that_is_read(range_: tuple[float, float]) -> bool:
    for name in SIZES:
        for batch in (8, 16):
            sides = [numbers_of_a_step(*model(name, variant), batch, 1024) for variant in ("vanilla", "skipv1")]
            if sides != _by_hand(name, batch, 1024):
                return False
            if not range_[0] <= sides[1] / sides[0] <= range_[1]:
                return False
    return True


def _by_hand(name: str, batch: int, tokens: int) -> list[int]:
    """Return how many numbers a step of LLaMA reads, as MHA and as SkipV1Former.

    They are weights, with one row per sequence of the table of embeddings; and for every token before, a key and a
    value of every head in every layer.
    """
    config, _ = model(name, "vanilla")
    d, layers, vocab = config.d_model, config.n_layers, getattr(config.stem, "vocab", 0)
    weights = layers * (4 * d * d + 3 * d * config.d_ff + 2 * d) + d + vocab * d
    whole = weights + batch * d + batch * tokens * 2 * layers * d
    return [whole, whole - (layers - 1) * d * d // 2]
