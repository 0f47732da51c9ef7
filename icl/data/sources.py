"""Sources of text: the running Python's standard library, files and folders, Hugging Face datasets."""

from __future__ import annotations

import codecs
import gzip
import itertools
import json
import platform
import re
import sysconfig
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from theory.errors import BadInput

NO_PART_OF_STDLIB = {"site-packages", "dist-packages", "test", "tests", "idle_test", "__pycache__"}
UTF8 = "utf-8"
HEAD = 4096  # bytes of a file that say whether it is text
MARKS = (  # at the beginning of a file, the longest first: the encoding that they tell
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, UTF8),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
FORMATS = (  # that are no text, by how their files begin
    (b"%PDF-", "a PDF"),
    (b"PK\x03\x04", "a zip archive, such as a .docx or .epub"),
    (b"\x1f\x8b", "compressed by gzip, and its name does not end in .gz"),
    (b"\x28\xb5\x2f\xfd", "compressed by zstd, and its name does not end in .zst"),
    (b"\xfd7zXZ\x00", "compressed by xz"),
    (b"BZh91AY&SY", "compressed by bzip2"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"Rar!\x1a\x07", "a rar archive"),
    (b"\x89PNG\r\n\x1a\n", "an image (PNG)"),
    (b"\xff\xd8\xff", "an image (JPEG)"),
    (b"GIF8", "an image (GIF)"),
    (b"II*\x00", "an image (TIFF)"),
    (b"MM\x00*", "an image (TIFF)"),
    (b"RIFF", "a RIFF file: sound, an image or a video"),
    (b"OggS", "an Ogg file"),
    (b"ID3", "an MP3"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old Office document"),
    (b"\x7fELF", "a program"),
    (b"SQLite format 3\x00", "an SQLite database"),
    (b"PAR1", "a Parquet file"),
)
CONTROLS = bytes({*range(1, 8), *range(14, 27), *range(28, 32), 127})  # which text does not hold
MOST_CONTROLS = 0.02  # share of a file's first bytes
NAMED = 3  # files that are left out of a folder
CHUNK = 2**20
PIECES = 200  # that a long text alone is cut into, so that a twentieth of them is never none
LEAST_PIECE = 1024  # characters
REACH = 4  # how many least pieces a better place to cut may be away
ENDS = tuple(re.compile(end) for end in (r"\n\n|\r\n\r\n|\r\r", r"\r\n|\n|\r", r"\s"))  # of paragraphs, lines, words
EXTRAS = {"datasets": "-e '.[hub]'", "lm_eval": "-e '.[eval]'"}  # in a checkout: it is on no index


@dataclass(frozen=True)
class Document:
    """A text and a name for messages: a path, a line of a file or a row of a dataset."""

    name: str
    text: str


def documents(source: str, encoding: str = UTF8) -> Iterator[Document]:
    """Yield the documents of `source` that are more than white space, in the same order every time.

    `stdlib`: the .py files of the running Python's standard library, without its tests.  `hf:NAME[:CONFIG[:SPLIT]]`: a
    Hugging Face dataset, streamed; its column "text", or else its first column of strings; SPLIT is "train" if left
    out.  Anything else is a path (`./stdlib` for one of that name): a file, cut into pieces at paragraphs (or lines, or
    words, where it has none), or all files below a folder, but for hidden ones and those that `left_out` names.  .gz
    and .zst are decompressed; .jsonl, compressed or not, gives a document a line, its "text".

    encoding    of files, one of Python's; by default, one that begins with a mark of UTF-8, 16 or 32 is read as that
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
        stream = _path(Path(source), encoding, ascii_in=known)
    return (Document(d.name, _without_surrogates(d.text)) for d in stream if d.text.strip())


def describe(source: str, encoding: str = UTF8) -> str:
    """Describe in a few words what a source was when it was read: the version of Python, the number of files."""
    if source == "stdlib":
        return f"the standard library of Python {platform.python_version()}"
    if source.startswith("hf:"):
        return "a dataset from the Hugging Face hub"
    path = Path(source)
    if not path.is_dir():
        return "a file"
    others = left_out(source, encoding)
    return f"a folder of {sum(1 for _ in _files(path)) - len(others)} files{in_words(others)}"


def left_out(source: str, encoding: str = UTF8) -> dict[str, str]:
    """Return the files of a folder that are no text, by name below it, and why; none for any other source."""
    folder, known = Path(source), _is_ascii_in(encoding)
    if source == "stdlib" or source.startswith("hf:") or not folder.is_dir():
        return {}
    reasons = ((path.relative_to(folder).as_posix(), _why_no_text(path, ascii_in=known)) for path in _files(folder))
    return {name: reason for name, reason in reasons if reason}


def in_words(others: Mapping[str, str]) -> str:
    """Return how many files `left_out` found and the first of them, to be appended to a sentence; "" for none."""
    if not others:
        return ""
    names = ", ".join(f"{name} ({reason})" for name, reason in list(others.items())[:NAMED])
    return f"; {len(others)} left out as no text: {names}{', ...' if len(others) > NAMED else ''}"


def characters_about(source: str) -> int | None:
    """Return the bytes of all files of a source, about as many as its characters.

    None where that is not known, as for compressed files and the hub.
    """
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
    """Import an optional package and return it.  Raises BadInput that says how to install it."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise BadInput(f"this needs the package {name}: pip install {EXTRAS.get(name, name)}") from error


def _without_surrogates(text: str) -> str:
    """Remove halves of surrogate pairs, which JSON can spell and no encoding takes."""
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
    """Return whether an encoding contains ASCII, so that a NUL byte is no text.

    Raises BadInput for an unknown encoding.
    """
    try:
        return "a".encode(encoding) == b"a"
    except (LookupError, ValueError):
        raise BadInput(f"unknown encoding {encoding!r}; give one that Python knows, such as latin-1") from None


def _path(path: Path, encoding: str, *, ascii_in: bool) -> Iterator[Document]:
    if path.is_dir():
        files = (file for file in _files(path) if not _why_no_text(file, ascii_in=ascii_in))
        return (document for file in files for document in _file(file, encoding))
    if not path.exists():
        raise BadInput(f"there is no file or folder {path}; other sources are stdlib and hf:NAME")
    if not path.is_file():
        raise BadInput(f"{path} is no plain file, and text is read more than once; save it in one first")
    if reason := _why_no_text(path, ascii_in=ascii_in):
        raise BadInput(f"{path} is no text: {reason}")
    return (piece for document in _file(path, encoding) for piece in _pieces(document))


def _pieces(document: Document) -> Iterator[Document]:
    """Yield a long text alone, such as a novel, in pieces with natural ends, so that some can be held out."""
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
    """Return where a piece ends: the first end of a paragraph, else of a line, else of a word; else after `least`."""
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
    for number, line in enumerate(_text_lines(path, encoding), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line.removeprefix("\ufeff"))
        except (ValueError, RecursionError) as error:
            raise BadInput(f"{path}, line {number}, is not JSON: {error}") from error
        text = row.get("text") if isinstance(row, dict) else None
        if not isinstance(text, str):
            raise BadInput(f'{path}, line {number}, has no string named "text"')
        yield Document(f"{path}:{number}", text)


def _text_lines(path: Path, encoding: str) -> Iterator[str]:
    """Yield the lines of a text file.  Raises BadInput as `_decoded`."""
    chunks = _chunks(path)
    first = next(chunks, b"")
    chunks = itertools.chain([first], chunks)
    if _is_ascii_in(_marked(first, encoding)[1]):
        for number, line in enumerate(_lines(chunks), 1):
            yield _decoded(line, encoding, f"{path}, line {number},")
    else:  # where the byte of a line feed may be half of a character
        yield from _decoded(b"".join(chunks), encoding, str(path)).split("\n")


def _marked(content: bytes, encoding: str) -> tuple[bytes, str]:
    """Return a file's byte-order mark and the encoding that it shows, if no encoding other than UTF-8 was given."""
    if codecs.lookup(encoding).name == UTF8:
        for mark, name in MARKS:
            if content.startswith(mark):
                return mark, name
    return b"", encoding


def _decoded(content: bytes, encoding: str, what: str) -> str:
    """Decode the content.  Raises BadInput that names the first byte that is not of the encoding."""
    mark, encoding = _marked(content, encoding)
    content = content[len(mark) :]
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        byte = f"byte 0x{content[error.start]:02x} at {error.start}" if error.start < len(content) else "its end"
        raise BadInput(f"{what} is not {encoding}: {byte}; give its encoding, as in --encoding latin-1") from None
    except UnicodeError as error:
        raise BadInput(f"{what} is not {encoding}: {error}") from None


def _why_no_text(path: Path, *, ascii_in: bool) -> str | None:
    """Return what kind of file without text this is, None for one that may be text.

    ascii_in    whether it is in an encoding that ASCII is itself in, so that there are bytes which no text holds
    """
    head = b""
    for chunk in _chunks(path):
        head += chunk
        if len(head) >= HEAD:
            break
    head = head[:HEAD]
    for beginning, kind in FORMATS:
        if head.startswith(beginning):
            return f"it is {kind}"
    if not ascii_in or _marked(head, UTF8)[0]:
        return None
    if b"\0" in head:
        return "it holds a NUL byte near its beginning"
    controls = len(head) - len(head.translate(None, CONTROLS))
    return "it holds control characters near its beginning" if controls > MOST_CONTROLS * len(head) else None


def _lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        yield from whole
    yield rest


def _chunks(path: Path) -> Iterator[bytes]:
    """Yield the decompressed bytes of a file, in pieces.  Raises BadInput for a damaged or unreadable one."""
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
    """Yield the content of one frame after another.

    The library's own reader takes a frame that is cut short for whole.
    """
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
    """Return the column "text", or the first one whose value in the first row is a string."""
    names = ["text"] if "text" in row else [name for name, value in row.items() if isinstance(value, str)]
    if not names:
        raise BadInput(f"{source} has no column of strings; it has {', '.join(row)}")
    return names[0]
