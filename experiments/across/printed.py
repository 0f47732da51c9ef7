"""All comparisons of losses that are printed: the papers' own, and those of others."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec

from experiments.training.printed import BASELINE, Reported
from theory.plans.papers import rooms

NANOGPT = "modded-nanogpt"
NANOGPT_SEEDS = 0.004  # the larger of the standard deviations over seeds that are reported of modded-nanogpt


def _nanogpt() -> Iterator[Reported]:
    """Yield differences alone, one run each, with the noise of a difference of two runs that are not paired."""
    width = 1.96 * 2**0.5 * NANOGPT_SEEDS
    gains = {"66M": -0.07, "131M": -0.07, "262M": -0.04, "524M": -0.03, "1.7B": -0.012}
    for tokens, nats in gains.items():
        yield Reported(
            variant="resformer",
            against=BASELINE,
            paper=NANOGPT,
            place="ablation",
            size=f"124M, {tokens} tokens",
            sign=-1,
            nats=nats,
            half_width=width,
        )
    yield Reported(
        variant="resformer-learned",
        against=BASELINE,
        paper=NANOGPT,
        place="ablation",
        size="124M, 1.7B tokens",
        sign=-1,
        nats=-0.021,
        half_width=width,
    )


@cache
def reported() -> tuple[Reported, ...]:
    """Return all printed comparisons, by paper."""
    packages = [f"experiments.{room.name}" for room in rooms() if not room.foreign]
    modules = [f"{package}.printed" for package in packages if find_spec(package)]
    theirs = [r for module in modules if find_spec(module) for r in import_module(module).printed()]
    return (*theirs, *_nanogpt())


def report(variant: str, place: str, size: str) -> Reported:
    """Return the one comparison with vanilla whose place and size begin so.  Raises ValueError if there is not just
    one.
    """
    (found,) = (
        r
        for r in reported()
        if (r.variant, r.against) == (variant, BASELINE) and r.place.startswith(place) and r.size.startswith(size)
    )
    return found
