"""What the paper and theory say before anything is trained."""

from __future__ import annotations

from experiments.attnres.compute.points import CHOICES, Config
from experiments.attnres.printed import FITS, HALF_UNIT, LOSSES
from experiments.store.folders import Json
from theory.attnres.compute import over_rounding, worth_of_losses
from theory.attnres.initial import initial_reads
from theory.attnres.zero_query import norm_change
from theory.plans.names import resolve

RULES = {"Block": 1, "Full": 2}  # places in the paper's rows of losses


def printed_factors() -> Json:
    """By rule and size: the factor in compute by printed losses and the baseline's slope, and what rounding leaves."""
    slope = FITS[0].exponent
    return {
        rule: {
            size: [
                worth_of_losses(losses[0], losses[at], slope),
                *over_rounding(
                    lambda base, other: worth_of_losses(base, other, slope), (losses[0], losses[at]), (HALF_UNIT,) * 2
                ),
            ]
            for size, losses in LOSSES.items()
        }
        for rule, at in RULES.items()
    }


def shrunk(config: Config, width: int, vocab: int) -> Json:
    """By choice: the share of its length that the last norm's output loses to eps at the start (`zero_query`)."""
    found: Json = {}
    for name in config.choices:
        choice = CHOICES[name]
        sizes = choice.sized(config.sizes(width, vocab))
        read = initial_reads(sizes, resolve(choice.variant, sizes.shape), choice.std(width))[-1]
        found[name] = norm_change(read / sizes.d_model, 0.0, sizes.norm_eps)
    return found
