"""Prepared text as one file that travels to a rented machine.

Tokens are compressed as they are, two bytes each: a search for repeats does not find them where they are shifted by
bits.  On RFCs with a vocabulary of 512 a token takes 3.8 bits, against 6.5 if nine bits per token are compressed; that
is 1.8 bits per character.  So a token of a vocabulary of 4,096, of three or four characters, takes about seven, and 40
million of them 35 MB; `pack` says what it is, and refuses what cannot travel.
"""

from __future__ import annotations

import lzma
import shutil
import tarfile
from pathlib import Path
from typing import Any

from experiments.store.folders import UserError, cache
from icl.data.shards import Manifest, open_data, read_manifest
from icl.files import new_folder

SUFFIX = ".tokens"
MOST = 60 * 2**20  # bytes that can be uploaded beside the tree
# Positions and literals two bytes apart, as tokens are.
FILTERS: list[dict[str, Any]] = [{"id": lzma.FILTER_LZMA2, "preset": 6, "lc": 2, "lp": 1, "pb": 1}]


def pack(folder: Path, path: Path) -> int:
    """Write a folder of prepared text as one file, and return its bytes.

    Raises:
        UserError: if it is larger than MOST, or there is something already.
    """
    manifest = open_data(folder).manifest
    if path.exists():
        raise UserError(f"{path} is there already; nothing is written over")
    part = path.with_name(path.name + ".part")
    try:
        with lzma.open(part, "wb", filters=FILTERS) as file, tarfile.open(fileobj=file, mode="w|") as tar:
            for name in sorted(x.name for x in folder.iterdir() if x.is_file() and not x.name.startswith(".")):
                tar.add(folder / name, arcname=name, filter=_plain)
        size = part.stat().st_size
        if size > MOST:
            tokens = manifest.splits["train"].tokens
            fits = int(0.95 * tokens * MOST / size)
            raise UserError(
                f"{folder} would take {size / 2**20:.0f} MiB, and {MOST // 2**20} can travel; prepare it again with "
                f"--max-tokens {fits}"
            )
        part.rename(path)
    finally:
        part.unlink(missing_ok=True)
    return size


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Leave out who owns a file, and when it was written: equal text makes equal bytes."""
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    return entry


def unpacked(path: Path, place: Path | None = None) -> Path:
    """Return the folder of packed text, unpacked on first use; every byte of it is checked.

    Args:
        path: The file, or a folder, which is returned as it is.
        place: Where the folder goes, by default the user's cache.
    """
    if path.is_dir():
        return path
    folder = (place or cache() / "packed") / path.name.removesuffix(SUFFIX)
    if folder.exists() and _same(folder, path):
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        with new_folder(folder) as part:
            with lzma.open(path) as file, tarfile.open(fileobj=file, mode="r|") as tar:
                tar.extractall(part, filter="data")
            open_data(part)
    except (OSError, EOFError, tarfile.TarError, lzma.LZMAError) as error:
        raise UserError(f"{path} is no packed text, or damaged; see `crosslayer rental pack --help`") from error
    return folder


def _same(folder: Path, path: Path) -> bool:
    """Return whether a folder holds the text of this file, by the manifest, which stands first but for shards."""
    try:
        with lzma.open(path) as file, tarfile.open(fileobj=file, mode="r|") as tar:
            for entry in tar:
                if entry.name == "manifest.json":
                    content = tar.extractfile(entry)
                    return content is not None and content.read() == (folder / entry.name).read_bytes()
    except (OSError, EOFError, tarfile.TarError, lzma.LZMAError):
        pass
    return False


def about(path: Path) -> Manifest:
    """Return the manifest of packed text or of a folder."""
    return read_manifest(unpacked(path))
