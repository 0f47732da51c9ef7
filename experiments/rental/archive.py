"""The archive of a rental: what its commands have changed below a results folder, in few files that travel.

A piece is a tar file of its own, compressed, at most PIECE bytes large, and names in DESCRIPTION what its files were
before; so a piece is whole whenever it is fetched, whatever became of the others.  Results go into the first pieces,
models and checkpoints into what room is left.  Merging takes over what nobody else has changed, joins the lines of
trainings, and refuses the rest before anything is written.
"""

from __future__ import annotations

import hashlib
import io
import json
import lzma
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from experiments.store.folders import METRICS, Json, UserError
from icl.files import opened, write_atomically

PIECE, PIECES = 16 * 2**20, 8  # bytes, and how many of them
DESCRIPTION = "rental.json"
BASE = "base.json"  # of what was there, beside the pieces' work
SUFFIX = ".tar.xz"
ROOM = 64 * 2**10  # bytes of a piece that are left to headers
ABSENT = ""  # in place of a digest: there was no such file when the rental began
LOCKS = (".lock",)
BIG = ("state.safetensors", "weights.safetensors")

Digests = dict[str, list[str]]  # by path, what a file was: the newest last


@dataclass(frozen=True)
class Change:
    """A file that a rental has changed.

    Args:
        path: Below the results folder, with slashes.
        content: What it holds now.
        before: Digests of what it held before, by which a merge knows that nobody else has changed it.
    """

    path: str
    content: bytes
    before: tuple[str, ...]

    @property
    def digest(self) -> str:
        return digest(self.content)


@dataclass
class Merged:
    """The outcome of a merge: files taken over, files that were there already, and lines that were joined."""

    taken: list[str] = field(default_factory=list)
    there: list[str] = field(default_factory=list)
    lines: dict[str, int] = field(default_factory=dict)


def digest(content: bytes) -> str:
    """Return the name of a file's content."""
    return hashlib.sha256(content).hexdigest()


def note_base(out: Path, work: Path) -> Digests:
    """Return what files were below `out` before the rental, and at each of its commands; this one is added.

    Args:
        out: The results folder.
        work: The rental's own folder, below it, where this is kept between commands.
    """
    path = work / BASE
    known: Digests = {}
    began = path.exists()
    if began:
        try:
            known = opened(path.read_bytes())[0]["files"]
        except (ValueError, KeyError) as error:
            raise UserError(f"{path} is damaged; delete it: changes count from then on") from error
    for name, content in files(out):
        now = digest(content)
        if now not in known.setdefault(name, [ABSENT] if began else []):
            known[name].append(now)
    work.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps({"files": known}))
    return known


def note_sent(work: Path, base: Digests, found: Iterable[Change]) -> None:
    """Add versions that have been archived to the base: a later archive may meet them at home."""
    for change in found:
        versions = base.setdefault(change.path, [ABSENT])
        if change.digest not in versions:
            versions.append(change.digest)
    write_atomically(work / BASE, json.dumps({"files": base}))


def changes(out: Path, base: Digests) -> list[Change]:
    """Return the files below `out` that differ from what was there before the rental, those that tell most first."""
    found = []
    for name, content in files(out):
        before, now = base.get(name, ()), digest(content)
        if not before or now != before[0]:
            found.append(Change(name, content, tuple(version for version in before if version != now)))
    return sorted(found, key=lambda change: (_rank(change.path), len(change.content), change.path))


def _rank(path: str) -> int:
    """Return how early a file is packed: results, then models, then what a training goes on from."""
    if "unfinished-" in path:
        return 2
    return int(path.endswith(BIG))


def files(out: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the files below a folder that are worth carrying, by path; what vanishes meanwhile is left out."""
    newest = _newest_checkpoints(out)
    for path in sorted(out.rglob("*")):
        parts = path.relative_to(out).parts
        if path.suffix == ".part" or path.name in LOCKS or any(part.startswith(".") for part in parts):
            continue
        if path.name == BASE or path.name.endswith(SUFFIX):
            continue
        if any(part.startswith("checkpoint-") for part in parts) and path.parent not in newest:
            continue
        try:
            if path.is_symlink() or not path.is_file():
                continue
            content = path.read_bytes()
        except OSError:
            continue
        if path.name == METRICS:  # a line may be written this moment
            content = content[: content.rfind(b"\n") + 1]
        yield PurePosixPath(*parts).as_posix(), content


def _newest_checkpoints(out: Path) -> set[Path]:
    by_training: dict[Path, Path] = {}
    for path in sorted(out.rglob("checkpoint-*")):
        if path.is_dir() and path.suffix != ".part":
            by_training[path.parent] = path
    return set(by_training.values())


def write(folder: Path, name: str, found: Sequence[Change], about: Json) -> list[str]:
    """Write the changes into pieces NAME-0.tar.xz, ..., each at once, and return the paths of what did not fit.

    Args:
        folder: Where the pieces go, which need no folder of their own.
        name: Of the archive.
        found: What is packed, the most important first.
        about: What is said of the rental in every piece.
    """
    folder.mkdir(parents=True, exist_ok=True)
    pieces, left = _shared_out(found)
    for number in range(PIECES):
        path = folder / f"{name}-{number}{SUFFIX}"
        if number < len(pieces):
            write_atomically(path, _packed(pieces[number], {**about, "left_out": left}))
        else:
            path.unlink(missing_ok=True)
    return left


def _shared_out(found: Sequence[Change]) -> tuple[list[list[Change]], list[str]]:
    """Return the pieces, first come first served by compressed size, and the paths of what did not fit.

    A checkpoint goes whole or not at all: its files stand or fall together.
    """
    pieces: list[list[Change]] = []
    room: list[int] = []
    left: list[str] = []
    for group in _together(found):
        need = sum(len(lzma.compress(change.content, preset=1)) + 1024 for change in group)
        place = next((i for i, free in enumerate(room) if need <= free), None)
        if place is None and need <= PIECE - ROOM and len(pieces) < PIECES:
            pieces.append([])
            room.append(PIECE - ROOM)
            place = len(pieces) - 1
        if place is None:
            left += [change.path for change in group]
            continue
        pieces[place] += group
        room[place] -= need
    return pieces, left


def _together(found: Sequence[Change]) -> list[list[Change]]:
    groups: dict[str, list[Change]] = {}
    for change in found:
        folder = change.path.rpartition("/")[0]
        whole = folder if folder.rpartition("/")[2].startswith("checkpoint-") else change.path
        groups.setdefault(whole, []).append(change)
    return list(groups.values())


def _packed(piece: Sequence[Change], about: Json) -> bytes:
    described = {**about, "files": {x.path: {"sha256": x.digest, "before": list(x.before)} for x in piece}}
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:xz", preset=1) as tar:
        for path, content in [(DESCRIPTION, json.dumps(described).encode()), *((x.path, x.content) for x in piece)]:
            entry = tarfile.TarInfo(path)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def read(paths: Iterable[Path]) -> list[Change]:
    """Return the files of some pieces.  Raises UserError for a piece that is damaged, or holds what it must not."""
    found = []
    for path in paths:
        try:
            whole = io.BytesIO(lzma.decompress(path.read_bytes()))
            with tarfile.open(fileobj=whole) as tar:
                held = {entry.name: tar.extractfile(entry) for entry in tar.getmembers() if entry.isfile()}
                contents = {name: file.read() for name, file in held.items() if file is not None}
            described = json.loads(contents.pop(DESCRIPTION))["files"]
            if described.keys() != contents.keys():
                raise ValueError("files are missing")
            for name, content in contents.items():
                if digest(content) != described[name]["sha256"] or not _is_below(name):
                    raise ValueError(name)
                found.append(Change(name, content, tuple(described[name]["before"])))
        except (OSError, EOFError, ValueError, KeyError, TypeError, tarfile.TarError, lzma.LZMAError) as error:
            raise UserError(f"{path} is no piece of a rental, or damaged; fetch it again") from error
    return found


def _is_below(name: str) -> bool:
    path = PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts and "\\" not in name


def merge(paths: Sequence[Path], out: Path) -> Merged:
    """Take the files of some pieces over into a results folder.

    Lines of metrics.jsonl are joined: what one side alone has is kept.  Any other file is taken over where there is
    none, or one that the rental began from.

    Raises:
        UserError: before anything is written, if something else is there, or two lines of one training differ.
    """
    done, writes = Merged(), dict[str, bytes]()
    for change in _newest(read(sorted(paths, key=lambda path: path.name))):
        path = out / change.path
        there = path.read_bytes() if path.is_file() else None
        if change.path in writes:
            there = writes[change.path]
        if there == change.content:
            done.there.append(change.path)
        elif there is None or digest(there) in change.before:
            writes[change.path] = change.content
            done.taken.append(change.path)
        elif path.name == METRICS:
            joined, added = _joined(there, change)
            done.lines[change.path] = added
            if added:
                writes[change.path] = joined
        else:
            raise UserError(
                f"{path} is there and differs, and is not what the rental began from; move one of them away"
            )
    for name, content in writes.items():
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        write_atomically(out / name, content)
    return done


def _newest(found: Sequence[Change]) -> list[Change]:
    """Return the changes but for those of which a later piece has a later version."""
    kept: list[Change] = []
    replaced: set[tuple[str, str]] = set()
    for change in reversed(found):
        if (change.path, change.digest) not in replaced:
            kept.append(change)
        replaced |= {(change.path, version) for version in change.before}
    return kept[::-1]


def _joined(there: bytes, change: Change) -> tuple[bytes, int]:
    """Return the lines of both, those that are there first, and how many were added."""
    lines = [line for line in there.split(b"\n") if line]
    known = {_key(line): line for line in lines}
    added = []
    for line in (line for line in change.content.split(b"\n") if line):
        key = _key(line)
        if key not in known:
            added.append(line)
        elif known[key] != line:
            raise UserError(f"{change.path}: the training {key[1]} is there already, with other numbers; move one away")
    return b"".join(line + b"\n" for line in [*lines, *added]), len(added)


def _key(line: bytes) -> tuple[str, str]:
    """Return what a line is of: its kind and its key, or its digest where it has none."""
    try:
        content = json.loads(line)
        return str(content["kind"]), str(content.get("key") or digest(line))
    except (ValueError, KeyError, TypeError, AttributeError):
        return "", digest(line)
