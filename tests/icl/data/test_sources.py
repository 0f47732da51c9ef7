"""Where text comes from: folders, files, compressed ones, lines of JSON, the hub."""

import bz2
import gzip
import json
import lzma
import os
import re
import sys
import types
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from icl.data import sources
from icl.data.preparing import prepare
from icl.data.sources import Document, describe, documents, left_out
from tests.crashes import flip
from tests.icl.data.small import texts_of
from theory.errors import BadInput


def test_the_standard_library_is_there_without_its_tests():
    found = [document.name for document in documents("stdlib")]
    assert found == sorted(found, key=lambda name: Path(name).parts)
    assert {"json/decoder.py", "ast.py"} <= set(found)
    assert not any(set(Path(name).parts) & {"test", "tests", "idle_test", "site-packages"} for name in found)
    assert "Python 3" in describe("stdlib")


def test_a_folder_is_read_in_order_without_hidden_empty_and_binary_files(tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / ".git").mkdir()
    files = {"b/two.md": b"two", "a.txt": b"one\r\n", ".hidden": b"no", ".git/x": b"no", "empty.txt": b""}
    binary = {"image.png": b"\x89PNG\0...", "packed.gz": gzip.compress(b"\0" * 9)}
    for name, content in {**files, **binary, "c.txt": b"caf\xc3\xa9", "late": b"x" * 4096 + b"\0"}.items():
        (tmp_path / name).write_bytes(content)
    found = list(documents(str(tmp_path)))
    assert [d.text for d in found] == ["one\r\n", "two", "café", "x" * 4096 + "\0"]
    assert found[0] == Document(str(tmp_path / "a.txt"), "one\r\n")
    assert describe(str(tmp_path)) == (
        "a folder of 5 files; 2 left out as no text: image.png (it holds a NUL byte near its beginning), packed.gz (it "
        "holds a NUL byte near its beginning)"
    )


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
@pytest.mark.parametrize("endian", ["le", "be"])
def test_a_mark_at_the_beginning_tells_the_encoding(tmp_path, encoding, endian):
    text, rows = "Grüße,\n\u0a0a \N{PARTY POPPER}\n", ["one", "\u0a0a\n"]
    name = "utf-8" if encoding == "utf-8-sig" else f"{encoding}-{endian}"
    (tmp_path / "a.txt").write_bytes(("\ufeff" + text).encode(name))
    lines = "\n".join(json.dumps({"text": row}, ensure_ascii=False) for row in rows)
    (tmp_path / "b.jsonl").write_bytes(("\ufeff" + lines).encode(name))
    (tmp_path / "c.txt.gz").write_bytes(gzip.compress(("\ufeff" + text).encode(name)))
    assert texts_of(tmp_path) == [text, *rows, text]
    assert texts_of(tmp_path / "a.txt") == [text]
    assert describe(str(tmp_path)) == "a folder of 3 files"


def test_a_marked_file_that_is_cut_short_is_named(tmp_path):
    (tmp_path / "a.txt").write_bytes("\ufeffword".encode("utf-16-le")[:-1])
    with pytest.raises(BadInput, match=r"a\.txt is not utf-16-le: .*--encoding"):
        texts_of(tmp_path)


OTHERS = {
    "paper": (b"%PDF-1.4\n1 0 obj << /Type /Catalog >> endobj\n", "a PDF"),
    "book.txt": (b"PK\x03\x04words", "a zip archive"),
    "text": (gzip.compress(b"words"), r"compressed by gzip, and its name does not end in \.gz"),
    "text.zstd": (zstandard.compress(b"words"), r"compressed by zstd"),
    "text.xz": (lzma.compress(b"words"), "compressed by xz"),
    "text.bz2": (bz2.compress(b"words"), "compressed by bzip2"),
    "paper.pdf.gz": (gzip.compress(b"%PDF-1.4\n"), "a PDF"),
    "photo": (b"\xff\xd8\xff\xe0", "an image"),
    "bytes": (bytes(range(1, 32)) * 9, "control characters"),
    "wide": ("no mark, but words".encode("utf-16-le"), "a NUL byte"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_no_text_is_refused_alone_and_named_in_a_folder(tmp_path, name):
    content, reason = OTHERS[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BadInput, match=rf"{name} is no text: it .*{reason}"):
        texts_of(tmp_path / name)
    (tmp_path / "z.txt").write_text("words\tand \x1b[1mcolour\x1b[0m\f")
    assert texts_of(tmp_path) == ["words\tand \x1b[1mcolour\x1b[0m\f"]
    assert re.match(rf"a folder of 1 files; 1 left out as no text: {name} \(it .*{reason}", describe(str(tmp_path)))


def test_of_many_files_that_are_left_out_the_first_are_named(tmp_path):
    for number in range(5):
        (tmp_path / f"{number}").write_bytes(b"%PDF-")
    assert left_out(str(tmp_path)) == {str(number): "it is a PDF" for number in range(5)}
    assert describe(str(tmp_path)) == (
        "a folder of 0 files; 5 left out as no text: 0 (it is a PDF), 1 (it is a PDF), 2 (it is a PDF), ..."
    )
    with pytest.raises(BadInput, match="holds no text; 5 left out as no text: 0"):
        prepare(str(tmp_path), tmp_path.parent / "data")


@pytest.mark.parametrize("source", ["", "  ", "/no/such/place", "hf:", "hf:a:b:c:d"])
def test_sources_that_make_no_sense(source):
    with pytest.raises(BadInput):
        list(documents(source))


@given(st.lists(st.text(max_size=60).map(str.encode), min_size=1, max_size=4))
def test_compressed_files_hold_what_plain_ones_hold(tmp_path_factory, parts):
    """Also of more than one member or frame."""
    folder, whole = tmp_path_factory.mktemp("z"), b"text" * 1024 + b"".join(parts)
    pieces = [b"text" * 1024, *parts]
    (folder / "a.txt").write_bytes(whole)
    (folder / "b.txt.gz").write_bytes(b"".join(gzip.compress(piece) for piece in pieces))
    (folder / "c.txt.zst").write_bytes(b"".join(zstandard.compress(piece) for piece in pieces))
    assert texts_of(folder) == [whole.decode()] * 3


@pytest.mark.parametrize("compress", [gzip.compress, zstandard.compress])
def test_every_truncation_of_a_compressed_file_is_seen(tmp_path, compress):
    whole = compress(b"some words, some more words " * 3) + compress(b"the second part")
    first = len(compress(b"some words, some more words " * 3))
    path = tmp_path / ("x.gz" if compress is gzip.compress else "x.zst")
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        if length == first:  # a whole file of one part
            assert texts_of(path)
            continue
        with pytest.raises(BadInput, match=rf"{path.name} is damaged or incomplete"):
            texts_of(path)


def test_a_changed_byte_in_a_gzip_file_is_seen(tmp_path):
    (tmp_path / "x.gz").write_bytes(gzip.compress(os.urandom(200).hex().encode()))
    flip(tmp_path / "x.gz")
    with pytest.raises(BadInput, match=r"x\.gz is damaged"):
        texts_of(tmp_path)


@pytest.mark.parametrize(
    ("suffix", "compress"), [("", bytes), (".gz", gzip.compress), (".zst", zstandard.compress)], ids=["", "gz", "zst"]
)
def test_json_lines(tmp_path, monkeypatch, suffix, compress):
    monkeypatch.setattr(sources, "CHUNK", 7)  # lines then straddle what is read at once
    rows = ["one", "", 'two\n"lines"', "\N{PARTY POPPER}"]
    lines = "\ufeff" + "\n".join(json.dumps({"text": text, "id": 1}) for text in rows) + '\n\n{"text": "\\ud800x"}'
    path = tmp_path / f"rows.jsonl{suffix}"
    path.write_bytes(compress(lines.encode()))
    found = list(documents(str(path)))
    assert [d.text for d in found] == ["one", 'two\n"lines"', "\N{PARTY POPPER}", "\ufffdx"]
    assert [d.name.rpartition(":")[2] for d in found] == ["1", "3", "4", "6"]


@pytest.mark.parametrize("line", ["{", "[]", '"text"', '{"text": 3}', '{"words": "x"}', '{"text": null}'])
def test_a_line_without_a_text_is_named(tmp_path, line):
    (tmp_path / "rows.jsonl").write_text('{"text": "fine"}\n' + line)
    with pytest.raises(BadInput, match=r"rows\.jsonl, line 2"):
        texts_of(tmp_path)


@pytest.fixture
def hub(monkeypatch):
    """A stand-in for `datasets` that knows the dataset me/set."""
    module = types.ModuleType("datasets")
    module.asked = []
    module.rows = [{"id": 0, "title": "first", "text": "a"}, {"id": 1, "title": "second", "text": None}]

    def load_dataset(name, config, split, streaming):
        module.asked.append((name, config, split, streaming))
        if name != "me/set":
            raise FileNotFoundError(f"no dataset {name}\nand much more")
        return iter(module.rows)

    module.load_dataset = load_dataset
    monkeypatch.setitem(sys.modules, "datasets", module)
    return module


def test_a_hub_dataset(hub):
    assert texts_of("hf:me/set") == ["a"]
    hub.rows = [{"id": 0, "title": "first"}, {"id": 1, "title": "second"}]
    assert texts_of("hf:me/set:part") == texts_of("hf:me/set::test") == ["first", "second"]
    assert hub.asked == [
        ("me/set", None, "train", True), ("me/set", "part", "train", True), ("me/set", None, "test", True)
    ]  # fmt: skip


@pytest.mark.parametrize("rows", [[{"id": 1}], [{"text": ["a", "list"]}]])
def test_a_hub_dataset_without_text(hub, rows):
    hub.rows = rows
    with pytest.raises(BadInput, match=r"no column of strings|holds no strings"):
        texts_of("hf:me/set")


def test_a_hub_that_fails(hub):
    with pytest.raises(BadInput, match=r"cannot read hf:other: no dataset other$"):
        texts_of("hf:other")
    assert hub.asked == [("other", None, "train", True)]


def test_missing_packages_are_named(monkeypatch, tmp_path):
    (tmp_path / "x.zst").write_bytes(zstandard.compress(b"x"))
    for name in ("datasets", "zstandard"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(BadInput, match=r"pip install -e '\.\[hub\]'"):
        texts_of("hf:me/set")
    with pytest.raises(BadInput, match="pip install zstandard"):
        texts_of(tmp_path)
