"""Where text comes from: the running Python's standard library, files and folders, Hugging Face datasets."""

from __future__ import annotations

import gzip
import json
import platform
import re
import sysconfig
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from theory.errors import BadInput

NO_PART_OF_STDLIB = {"site-packages", "dist-packages", "test", "tests", "idle_test", "__pycache__"}
HEAD = 4096  # bytes of a file in which a NUL says that it is no text
CHUNK = 2**20
PIECES = 200  # that a long text alone is cut into, so that a twentieth of them is never none
LEAST_PIECE = 1024  # characters
REACH = 4  # how many least pieces a better place to cut may be away
ENDS = tuple(re.compile(end) for end in (r"\n\n|\r\n\r\n|\r\r", r"\r\n|\n|\r", r"\s"))  # of paragraphs, lines, words
UTF8 = "utf-8"
EXTRAS = {"datasets": "'crosslayer[hub]'", "lm_eval": "'crosslayer[eval]'"}


@dataclass(frozen=True)
class Document:
    """A text and a name for messages: a path, a line of a file or a row of a dataset."""

    name: str
    text: str


def documents(source: str, encoding: str = UTF8) -> Iterator[Document]:
    """The documents of `source` that are more than white space, in the same order every time.

    `stdlib`: the .py files of the running Python's standard library, without its tests.  `hf:NAME[:CONFIG[:SPLIT]]`: a
    Hugging Face dataset, streamed; its column "text", or else its first column of strings; SPLIT is "train" if left
    out.  Anything else is a path (`./stdlib` for one of that name): a file, cut into pieces at paragraphs (or lines, or
    words, where it has none), or all files below a folder, but for hidden ones and those with a NUL byte in their first
    4096.  .gz and .zst are decompressed; .jsonl, compressed or not, gives a document a line, its "text".

    encoding    of files, one of Python's
    Raises BadInput, some of it only when the documents are drawn: nothing there, a damaged file, bytes that are not of
    the encoding, a line without a text, a missing package.
    """
    known = _is_ascii_in(encoding)
    if not source.strip():
        raise BadInput("the source of the text is empty; give stdlib, a file, a folder or hf:NAME")
    if source == "stdlib":
        stream = _stdlib()
    elif source.startswith("hf:"):
        stream = _hub(source)
    else:
        stream = _path(Path(source), encoding, skip_binary=known)
    return (Document(d.name, _without_surrogates(d.text)) for d in stream if d.text.strip())


def describe(source: str) -> str:
    """What a source was when it was read, in a few words: the version of Python, the number of files."""
    if source == "stdlib":
        return f"the standard library of Python {platform.python_version()}"
    if source.startswith("hf:"):
        return "a dataset from the Hugging Face hub"
    path = Path(source)
    return f"a folder of {sum(1 for _ in _files(path))} files" if path.is_dir() else "a file"


def characters_about(source: str) -> int | None:
    """The bytes of all files of a source, about as many as its characters; None where that is not known, as of
    compressed files and of the hub."""
    if source.startswith("hf:"):
        return None
    path = Path(source)
    if source == "stdlib":
        files = list(_stdlib_files())
    elif path.is_dir():
        files = list(_files(path))
    else:
        files = [path]
    if any(file.suffix.lower() in {".gz", ".zst"} for file in files):
        return None
    return sum(file.stat().st_size for file in files)


def package(name: str) -> Any:
    """An optional package, imported when it is needed.  Raises BadInput that says how to install it."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise BadInput(f"this needs the package {name}: pip install {EXTRAS.get(name, name)}") from error


def _without_surrogates(text: str) -> str:
    """JSON can spell halves of surrogate pairs, which no encoding takes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _stdlib() -> Iterator[Document]:
    root = Path(sysconfig.get_path("stdlib"))
    for path in _stdlib_files():
        yield Document(path.relative_to(root).as_posix(), b"".join(_chunks(path)).decode(errors="replace"))


def _stdlib_files() -> Iterator[Path]:
    root = Path(sysconfig.get_path("stdlib"))
    for path in sorted(root.rglob("*.py")):
        if NO_PART_OF_STDLIB.isdisjoint(path.relative_to(root).parts) and path.is_file():
            yield path


def _is_ascii_in(encoding: str) -> bool:
    """Whether ASCII is itself in an encoding, so that a NUL byte is no text.  Raises BadInput for what is none."""
    try:
        return "a".encode(encoding) == b"a"
    except (LookupError, ValueError):
        raise BadInput(f"unknown encoding {encoding!r}; give one that Python knows, such as latin-1") from None


def _path(path: Path, encoding: str, *, skip_binary: bool) -> Iterator[Document]:
    if path.is_dir():
        files = (file for file in _files(path) if not (skip_binary and _binary(file)))
        return (document for file in files for document in _file(file, encoding))
    if not path.exists():
        raise BadInput(f"there is no file or folder {path}; other sources are stdlib and hf:NAME")
    if not path.is_file():
        raise BadInput(f"{path} is no plain file, and text is read more than once; save it in one first")
    if skip_binary and _binary(path):
        raise BadInput(f"{path} is no text: it holds a NUL byte near its beginning")
    return (piece for document in _file(path, encoding) for piece in _pieces(document))


def _pieces(document: Document) -> Iterator[Document]:
    """A long text alone, such as a novel, in pieces that end as well as they can, so that some can be held out."""
    if not document.text.strip():
        return
    start, number = 0, 0
    least = max(LEAST_PIECE, len(document.text) // PIECES)
    while start < len(document.text):
        end = _end(document.text, start, least)
        number += 1
        name = document.name if end - start == len(document.text) else f"{document.name}#{number}"
        yield Document(name, document.text[start:end])
        start = end


def _end(text: str, start: int, least: int) -> int:
    """Where a piece ends: the first end of a paragraph, else of a line, else of a word; else after `least`."""
    for end in ENDS:
        if found := end.search(text, start + least, start + REACH * least):
            return found.end()
    return min(start + least, len(text))


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not any(part.startswith(".") for part in path.relative_to(folder).parts):
            yield path


def _file(path: Path, encoding: str) -> Iterator[Document]:
    name = path.name.lower()
    if not name.removesuffix(".gz").removesuffix(".zst").endswith(".jsonl"):
        yield Document(str(path), _decoded(b"".join(_chunks(path)), encoding, str(path)))
        return
    for number, line in enumerate(_lines(_chunks(path)), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(_decoded(line, encoding, f"{path}, line {number},").removeprefix("\ufeff"))
        except BadInput:
            raise
        except (ValueError, RecursionError) as error:
            raise BadInput(f"{path}, line {number}, is not JSON: {error}") from error
        text = row.get("text") if isinstance(row, dict) else None
        if not isinstance(text, str):
            raise BadInput(f'{path}, line {number}, has no string named "text"')
        yield Document(f"{path}:{number}", text)


def _decoded(content: bytes, encoding: str, what: str) -> str:
    """Raises BadInput that names the first byte that is not of the encoding."""
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        byte = f"byte 0x{content[error.start]:02x} at {error.start}" if error.start < len(content) else "its end"
        raise BadInput(f"{what} is not {encoding}: {byte}; give its encoding, as in --encoding latin-1") from None
    except UnicodeError as error:
        raise BadInput(f"{what} is not {encoding}: {error}") from None


def _binary(path: Path) -> bool:
    head = b""
    for chunk in _chunks(path):
        head += chunk
        if len(head) >= HEAD:
            break
    return b"\0" in head[:HEAD]


def _lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        yield from whole
    yield rest


def _chunks(path: Path) -> Iterator[bytes]:
    """The decompressed bytes of a file, in pieces.  Raises BadInput for one that is damaged or cannot be read."""
    kind = path.suffix.lower()
    damage: tuple[type[Exception], ...] = (EOFError, zlib.error, gzip.BadGzipFile)
    if kind == ".zst":
        zstandard = package("zstandard")
        damage = (EOFError, zstandard.ZstdError)
    try:
        if kind in {".gz", ".zst"} and path.stat().st_size == 0:
            raise EOFError("it is empty")
        with gzip.open(path) if kind == ".gz" else path.open("rb") as file:
            chunks = iter(lambda: file.read(CHUNK), b"")
            yield from _frames(zstandard, chunks) if kind == ".zst" else chunks
    except damage as error:
        raise BadInput(f"{path} is damaged or incomplete: {error}") from error
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror or error}") from error


def _frames(zstandard: Any, chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The content of one frame after another.  The library's own reader takes a frame that is cut short for whole."""
    frame = None
    for chunk in chunks:
        while chunk:
            if frame is None:
                frame = zstandard.ZstdDecompressor(max_window_size=2**31).decompressobj()
            yield frame.decompress(chunk)
            chunk, frame = (frame.unused_data, None) if frame.eof else (b"", frame)
    if frame is not None:
        raise EOFError("the last frame is cut short")


def _hub(source: str) -> Iterator[Document]:
    parts = source.removeprefix("hf:").split(":")
    if not parts[0] or len(parts) > 3:
        raise BadInput(f"a Hugging Face source looks like hf:NAME[:CONFIG[:SPLIT]], got {source!r}")
    return _rows(source, *parts)


def _rows(source: str, name: str, config: str = "", split: str = "") -> Iterator[Document]:
    datasets = package("datasets")
    column = None
    try:
        rows = datasets.load_dataset(name, config or None, split=split or "train", streaming=True)
        for number, row in enumerate(rows):
            column = column or _text_column(source, row)
            text = row.get(column)
            if not isinstance(text, str | None):
                raise BadInput(f"the column {column} of {source} holds no strings: row {number} has {str(text)[:40]}")
            yield Document(f"{source}#{number}", text or "")
    except BadInput:
        raise
    except Exception as error:  # of the network, of the hub or of the dataset: there is no common class
        reason = str(error).strip().partition("\n")[0]
        raise BadInput(f"cannot read {source}: {reason or type(error).__name__}") from error


def _text_column(source: str, row: dict[str, Any]) -> str:
    """The column "text", or the first one whose value in the first row is a string."""
    names = ["text"] if "text" in row else [name for name, value in row.items() if isinstance(value, str)]
    if not names:
        raise BadInput(f"{source} has no column of strings; it has {', '.join(row)}")
    return names[0]
