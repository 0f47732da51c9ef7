"""Claims on SkipV1Former's cache: the bytes that its Table 2 prints."""

from __future__ import annotations

from experiments.ledger.claim import Claim
from experiments.toys.unjudged import OF_CACHES
from theory.plans.accounting import cache
from theory.plans.names import model
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
    """LLaMA-350M's cache at two bytes a number, as vanilla and as SkipV1Former, with a head kind (empty: ungrouped)."""
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
    """24 layers at two bytes: keys everywhere, all values in layer 1, half of them in the 23 others."""
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
