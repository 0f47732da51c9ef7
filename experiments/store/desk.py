"""The desk of a computation: its folder, the time that it may use, and somebody who hears of its progress."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

from experiments.store.folders import RunFolder, Slot

MARGIN = 1.1  # a computation is begun if this many times the longest one so far still fits


class OutOfTime(Exception):
    """The slot's time is up.  Raised by `Desk.report`: a computation saves what it has, and lets it through."""


class Desk(Protocol):
    @property
    def slot(self) -> Slot:
        """The machine time that may be used."""

    @property
    def folder(self) -> Path:
        """The folder that a computation resumes from: made on first use, kept after a kill, removed once it is done."""

    def show(self, done: float, note: str = "") -> None:
        """Show how much of the item's size is done, from where nothing can be saved."""

    def report(self, done: float, note: str = "") -> None:
        """Show how much of the item's size is done.  Raises OutOfTime."""


Tell = Callable[[str, float, str], None]  # of the item with this key: how much is done, and a note


@dataclass(frozen=True)
class LocalDesk:
    """A desk on the machine where the run's folder is."""

    key: str
    run: RunFolder
    tell: Tell

    @property
    def slot(self) -> Slot:
        return self.run.slot

    @property
    def folder(self) -> Path:
        folder = scratch(self.run, self.key)
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def show(self, done: float, note: str = "") -> None:
        self.tell(self.key, done, note)

    def report(self, done: float, note: str = "") -> None:
        self.show(done, note)
        if self.slot.seconds_left < 0:
            raise OutOfTime


def scratch(run: RunFolder, key: str) -> Path:
    """Return the folder of an item that is not done."""
    return run / f"unfinished-{quote(key, safe=' ')}"


class Pace:
    """A test of whether one more computation fits into the slot, if it takes as long as the longest so far."""

    def __init__(self, slot: Slot) -> None:
        self.slot, self.longest = slot, 0.0

    def fits(self) -> bool:
        return self.longest * MARGIN <= self.slot.seconds_left

    def took(self, seconds: float) -> None:
        self.longest = max(self.longest, seconds)
