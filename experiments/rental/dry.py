"""A rental without a GPU: its commands on this machine with tiny models, every part killed once, the archives merged.

A part's minutes pass sixty times as fast, so an hour's rental takes a minute, and every process gets START seconds
besides, at most, as it takes its time to start whatever the clock says.  A slow machine gets more commands: parts are
judged by what they leave, and the rental fails where commands leave nothing.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from experiments.rental import archive
from experiments.rental.packed_text import SUFFIX, pack, unpacked
from experiments.rental.parts import OTHERS, TINY, Part, Setup, parts
from experiments.rental.sitting import PROGRAM, ROOT, WORK, Clock, Sitting
from experiments.store.folders import UserError

SCALE, START = 1 / 60, 300.0
OWN = 31 / 30  # times what a process gets besides is what a part has, so that its own minutes, scaled, fit too
COMMANDS = 2  # at least, of which the first has half of the parts
MOST_COMMANDS, FRUITLESS = 9, 2  # and that leave nothing, in a row; the later one has twice the time
TEXT = ROOT / "theory" / "plans"  # whose source is the text
VOCAB = 512


def dry(out: Path, pieces: Path, say: Callable[[str], None]) -> bool:
    """Go through a rental; return whether no part failed, all are done, and what came home is what was there.

    Args:
        out: A results folder.
        pieces: The folder for the archives.
        say: Where lines go.
    """
    out.mkdir(parents=True, exist_ok=True)
    setup = Setup(out, "cpu", TINY, str(packed_text(out / ".text")))
    every = [part for part in parts(setup) if part.name != OTHERS]
    before = _copy(out)
    try:
        whole = commands(every, out, pieces, say)
        came = _came_home(sorted(pieces.rglob(f"*{archive.SUFFIX}")), before, out, say)
        return whole and came
    finally:
        shutil.rmtree(before, ignore_errors=True)


def commands(
    every: Sequence[Part],
    out: Path,
    pieces: Path,
    say: Callable[[str], None],
    *,
    start: float = START,
    program: Sequence[str] = PROGRAM,
) -> bool:
    """Give one command of a rental after the other until all parts are done; return whether they are.

    Args:
        every: The parts, of which the first command has half.
        out: The results folder.
        pieces: The folder for the archives, one below it per command.
        say: Where lines go.
        start: Seconds that every process gets besides its minutes.
        program: What takes the parts' commands.
    """
    fruitless, whole = 0, True
    for number in range(1, MOST_COMMANDS + 1):
        some = every[: len(every) * min(number, COMMANDS) // COMMANDS]
        seconds = start * 2**fruitless
        clock = Clock(minutes=len(some) * seconds * OWN / 60, scale=SCALE, start=seconds)
        say(f"command {number}: {', '.join(part.name for part in some)}")
        there = _left_behind(out)
        folder = pieces / f"command-{number}"
        sitting = Sitting(some, out, folder, clock, interrupt=True, say=say, program=program)
        whole &= sitting.go_on()
        fruitless = 0 if _left_behind(out) != there else fruitless + 1
        if number >= COMMANDS and (all(part.done() for part in every) or not whole or fruitless >= FRUITLESS):
            break
    left = [part.name for part in every if not part.done()]
    if left:
        say(f"not done after {number} commands: {', '.join(left)}")
    return whole and not left


def _left_behind(out: Path) -> dict[str, str]:
    """Return digests of what parts have left, by path; the rental's own notes and logs are no part's."""
    return {name: archive.digest(content) for name, content in archive.files(out) if Path(name).parent != Path(WORK)}


def packed_text(place: Path) -> Path:
    """Return a folder of prepared text that has been packed and unpacked, as if it had travelled."""
    from icl.data.preparing import prepare

    prepared, file = place / "prepared", place / f"source{SUFFIX}"
    prepare(str(TEXT), prepared, vocab=VOCAB)
    if not file.exists():
        pack(prepared, file)
    return unpacked(file, place / "unpacked")


def _copy(out: Path) -> Path:
    """Return a copy of a results folder, as it is at home."""
    copy = Path(tempfile.mkdtemp()) / "results"
    shutil.copytree(out, copy, ignore=lambda folder, names: [name for name in names if name.startswith(".")])
    return copy


def _came_home(pieces: Sequence[Path], home: Path, out: Path, say: Callable[[str], None]) -> bool:
    """Merge the archives at home, and return whether all that was there has come, and a change at home is refused."""
    archive.merge(pieces, home)
    there, here = (dict(archive.files(place)) for place in (out, home))
    lost = [name for name in there if there[name] != here.get(name)]
    say(f"home: {len(here)} files, {len(lost)} of the rental's {len(there)} are not there or differ {lost[:3]}")
    archive.merge(pieces, home)  # which changes nothing
    changed = next(name for name in sorted(here) if name.endswith("measurement.json"))
    (home / changed).write_bytes(b"{}")
    try:
        archive.merge(pieces, home)
    except UserError as error:
        say(f"a file that was changed at home is refused: {error}")
        return not lost
    return False
