"""The launch of several processes, as torchrun or another launcher describes it in the environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from icl.recipe import Recipe
from theory.errors import BadInput

PATIENCE = timedelta(hours=2)  # with a process that prepares text or measures, before it is taken for dead
NAMES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


@dataclass(frozen=True)
class Launch:
    """The place of this process.  rank: among `count` processes; local: among those on its machine."""

    rank: int
    count: int
    local: int

    def check(self, gpus: int) -> None:
        """Raise BadInput, or end quietly in another process than the first, where torch lacks what it needs.

        gpus: of this machine, that are to be used; 0: none
        """
        from torch import distributed

        if not (distributed.is_available() and distributed.is_gloo_available()):
            self.refuse("this torch is built without gloo, which processes speak over")
        if gpus and not distributed.is_nccl_available():
            self.refuse("this torch is built without NCCL, which GPUs speak over")
        if gpus and self.local >= gpus:
            raise BadInput(f"process {self.local} of this machine has no GPU of its own: there are {gpus}")

    def refuse(self, message: str) -> None:
        """Raise BadInput in the first process; the others, to whom the same happens, end quietly."""
        if self.rank:
            raise SystemExit(2)
        raise BadInput(message)


def check_shares(recipe: Recipe, count: int) -> None:
    """Raise BadInput for a recipe that `count` processes cannot share: its batch, in its parts, equally."""
    if count > 1 and recipe.optimiser == "muon":
        raise BadInput("Muon needs whole matrices, of which each of several processes has a part: train in one")
    if recipe.batch % (count * recipe.accumulate):
        parts = f" in {recipe.accumulate} parts" if recipe.accumulate > 1 else ""
        raise BadInput(f"{count} processes cannot share a batch of {recipe.batch} sequences{parts} equally")


def launched(environment: Mapping[str, str]) -> Launch | None:
    """Return the launch that the environment describes, or None for one process alone.

    Raises BadInput for an environment of several processes that is incomplete.
    """
    if environment.get("WORLD_SIZE", "1") in ("", "1"):
        return None
    missing = [name for name in NAMES if not environment.get(name)]
    if missing:
        *others, last = missing
        names = f"{', '.join(others)} and {last} are" if others else f"{last} is"
        raise BadInput(
            f"WORLD_SIZE={environment['WORLD_SIZE']} asks for several processes, and {names} not set; start them with "
            "torchrun"
        )
    try:
        rank, count = int(environment["RANK"]), int(environment["WORLD_SIZE"])
        local = int(environment.get("LOCAL_RANK", 0))
        int(environment["MASTER_PORT"])
    except ValueError as error:
        raise BadInput(f"RANK, WORLD_SIZE, LOCAL_RANK and MASTER_PORT are whole numbers: {error}") from None
    if not 0 <= rank < count or local < 0:
        raise BadInput(f"RANK={rank} is none of {count} processes")
    return Launch(rank, count, local)
