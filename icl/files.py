"""Files that are written whole, and JSON that tells whether it is as it was written.  Standard library only."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SEAL = "sha256"
DIGEST = re.compile("[0-9a-f]{64}")


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a file under a temporary name and rename it.  A failed write leaves nothing; the OSError names `path`."""
    temporary = path.with_name(path.name + ".part")
    try:
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)
        temporary.replace(path)
    except OSError as error:
        if temporary.is_file():
            temporary.unlink()
        error.filename = str(path)
        raise


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Make an OSError that names no file, such as that of an open one on a full disk, name this one."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Yield a folder to fill, which gets this name once it is whole; a folder that is not completed is removed.

    Raises FileExistsError if there is something of that name.
    """
    if folder.exists() or folder.is_symlink():
        raise FileExistsError(errno.EEXIST, "is there already; nothing is written over", str(folder))
    with naming(folder):
        part = Path(tempfile.mkdtemp(prefix=f".{folder.name[:100]}.", dir=folder.parent))
        try:
            yield part
            part.chmod(0o777 & ~_umask())
            part.rename(folder)
        except BaseException:
            shutil.rmtree(part, ignore_errors=True)
            raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def sealed(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON object with a digest of its values added last.  Raises ValueError for what is no JSON."""
    return {**content, SEAL: _digest(content)}


def opened(text: bytes) -> tuple[dict[str, Any], bool]:
    """Return the content of a JSON object, and whether it was sealed, which the oldest files are not.

    Raises ValueError for what is no object, or is not what was sealed.
    """
    try:
        content = json.loads(text.decode())
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(content, dict):
        raise ValueError("it is no JSON object")
    name, last = next(reversed(content.items()), ("", None))
    if SEAL not in content and not (isinstance(last, str) and DIGEST.fullmatch(last)):  # damage may lie in either
        return content, False
    del content[name]
    if last != _digest(content):
        raise ValueError("it is not what was written")
    return content, True


def _digest(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()
