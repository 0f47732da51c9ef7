"""Papers' expectations of their own variants in full-size experiments, each under a ledger entry of its own.

They stand as EXPECTATIONS in a module `expectations` of the paper's room in `experiments`, or of its installed package.
They are looked up by the variant's name, with options as the paper writes them: whatever else a user types is another
model, of which the paper says nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Literal

from experiments.store.folders import Json
from theory.errors import BadInput
from theory.plans import names
from theory.plans.papers import Room, guarded, rooms
from theory.plans.variants import VARIANTS

Measure = Literal["loss", "signal"]


@dataclass(frozen=True, kw_only=True)
class PaperExpectation:
    """The outcome that a paper expects for one of its variants, against vanilla.

    Attributes:
        variant: The paper's variant, as a user names it, with options if any.
        measure: "loss", the held-out loss of language models, or "signal", the share of the signal that models of
            regression prompts explain.
        better: Whether it ends better than vanilla (a lower loss, a larger share) or worse.
        claim: The ledger entry on which the outcome bears.
        place: Where the paper says so.
        nats: The difference of the losses in nats per token, negative where the variant's is lower; None: no size is
            expected.
    """

    variant: str
    measure: Measure
    better: bool
    claim: str
    place: str
    nats: float | None = None

    def __post_init__(self) -> None:
        if self.measure not in ("loss", "signal"):
            raise BadInput(f"measure must be 'loss' or 'signal', got {self.measure!r}")
        if self.nats is not None and (self.measure != "loss" or not self.nats or (self.nats < 0) != self.better):
            raise BadInput(f"nats must be of a loss, negative exactly for a better variant, got {self.nats!r}")


def expectations_of(variant: str) -> tuple[PaperExpectation, ...]:
    """Return what the paper of a named variant expects of it; nothing for files and variants that are joined."""
    name, options = names.parsed(variant)
    if name not in VARIANTS:
        return ()
    entry = VARIANTS[name]
    room = next((room for room in rooms() if room.holds(entry.make.__module__)), None)
    stated = guarded(room, lambda: _stated(room)) if room else None
    written = f"{entry.name}:{options}" if options else entry.name
    return tuple(expectation for expectation in stated or () if expectation.variant == written)


def _stated(room: Room) -> tuple[PaperExpectation, ...]:
    package = room.package if room.foreign else f"experiments.{room.name}"
    module = f"{package}.expectations"
    if not (find_spec(package) and find_spec(module)):
        return ()
    stated = getattr(import_module(module), "EXPECTATIONS", None)
    if not isinstance(stated, tuple) or not all(isinstance(one, PaperExpectation) for one in stated):
        raise BadInput(f"{module} must hold EXPECTATIONS, a tuple of `PaperExpectation`")
    return stated


def in_prediction(by_variant: dict[str, Sequence[PaperExpectation]]) -> Json:
    """Return what a prediction stores of expectations, nothing if there are none: `expected_by_paper` reads it."""
    stated = {name: [asdict(one) for one in expectations] for name, expectations in by_variant.items() if expectations}
    claims = dict.fromkeys(one["claim"] for expectations in stated.values() for one in expectations)
    return {"expected": stated, "claims": list(claims)} if stated else {}


def expected_by_paper(prediction: Json, variant: str, measure: Measure) -> Json | None:
    """Return the stored expectation of a variant, as the fields of a `PaperExpectation`; None if there is none."""
    stated: list[Json] = prediction.get("expected", {}).get(variant, [])
    return next((one for one in stated if one["measure"] == measure), None)
