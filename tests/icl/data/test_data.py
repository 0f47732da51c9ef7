"""Text to tokens to windows: exact round trips, no text on both sides of the split, and no damage that goes unseen."""

import base64
import fcntl
import gzip
import json
import os
import subprocess
import sys
import types
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import zstandard
from hypothesis import example, given, settings
from hypothesis import strategies as st

from icl.data import preparing, sources
from icl.data.preparing import prepare
from icl.data.shards import Tokens, open_data
from icl.data.sources import Document, describe, documents
from icl.data.tokenizers import END, from_ranks, load_tokenizer, train_bpe
from icl.data.windows import Windows
from theory.errors import BadInput

SPECIAL = (END, "<|endoftext|>", "<|end", "|>")
TEXTS = st.lists(st.one_of(st.text(), st.sampled_from(SPECIAL)), max_size=8).map("".join)
SMALL = {"vocab": 300, "held_out": 0.3, "shard_bytes": 100}
MERGES = (b"th", b"the", b" t", b"in", b"ing", "é".encode())


def texts_of(source):
    return [document.text for document in documents(str(source))]


def write_ranks(path, tokens):
    path.write_bytes(b"".join(b"%s %d\n" % (base64.b64encode(token), rank) for rank, token in enumerate(tokens)))
    return path


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    path = tmp_path_factory.mktemp("ranks") / "tiny.tiktoken"
    return write_ranks(path, [*(bytes([byte]) for byte in range(256)), *MERGES])


@pytest.fixture(scope="module", params=["bpe", "ranks"])
def tokenizer(request, ranks):
    if request.param == "ranks":
        return from_ranks(ranks)
    return train_bpe(["the cat in the hat", "things that sing", *SPECIAL] * 5, 280)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Forty files of some lines each, one text twice, some characters of more than one byte."""
    folder = tmp_path_factory.mktemp("corpus")
    for number in range(40):
        text = f"# File {number}\n" + "".join(f"line {i} of {number}: café {END}\n" for i in range(number % 7 + 1))
        (folder / f"{number:02}.txt").write_text(text)
    (folder / "copy.txt").write_bytes((folder / "03.txt").read_bytes())
    return folder


@pytest.fixture
def prepared(corpus, tmp_path):
    prepare(str(corpus), tmp_path / "data", **SMALL)
    return tmp_path / "data"


def split_texts(data, split):
    """The documents of a split, from its tokens alone."""
    tokenizer, found, ids = data.tokenizer(), [], []
    for token in data.tokens(split)[:].tolist():
        if token == tokenizer.end:
            found.append(tokenizer.decode(ids))
            ids = []
        else:
            ids.append(token)
    assert not ids  # the last document has its end too
    return found


# Sources.


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
    assert describe(str(tmp_path)) == "a folder of 7 files"


def test_one_file_that_is_binary_is_refused(tmp_path):
    (tmp_path / "x").write_bytes(b"\0")
    with pytest.raises(BadInput, match="no text"):
        texts_of(tmp_path / "x")


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
    content = bytearray(gzip.compress(os.urandom(200).hex().encode()))
    content[len(content) // 2] ^= 1
    (tmp_path / "x.gz").write_bytes(content)
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
    with pytest.raises(BadInput, match=r"pip install 'crosslayer\[hub\]'"):
        texts_of("hf:me/set")
    with pytest.raises(BadInput, match="pip install zstandard"):
        texts_of(tmp_path)


# Tokenizers.


@given(text=TEXTS)
@example("a" + END + "<|endoftext|>" + "\r\n \n\x00\N{PARTY POPPER}")
def test_every_text_comes_back_and_none_becomes_the_end(tokenizer, text):
    (ids,) = tokenizer.encode([text])
    assert tokenizer.decode(ids) == text
    assert all(0 <= i < tokenizer.vocab and i != tokenizer.end for i in ids)
    assert tokenizer.decode(np.array([*ids, tokenizer.end])).startswith(text)


def test_merges_are_used(tokenizer):
    assert len(tokenizer.encode(["the"])[0]) < 3
    assert tokenizer.encode([]) == []
    assert "\ufffd" in tokenizer.decode(tokenizer.encode(["\N{PARTY POPPER}"])[0][:-1])


def test_a_saved_tokenizer_is_the_same(tokenizer, tmp_path):
    tokenizer.save(tmp_path)
    loaded = load_tokenizer(tmp_path, tokenizer.info)
    text = f"the thing {END}"
    assert loaded.info == tokenizer.info
    assert loaded.encode([text]) == tokenizer.encode([text])
    path = tmp_path / tokenizer.file
    path.write_bytes(path.read_bytes() + b" ")
    with pytest.raises(BadInput, match="damaged"):
        load_tokenizer(tmp_path, tokenizer.info)
    path.unlink()
    with pytest.raises(BadInput, match="damaged"):
        load_tokenizer(tmp_path, tokenizer.info)


@pytest.mark.parametrize("change", [{"end": 1}, {"vocab": 9}, {"name": "gpt2"}, {"kind": "words"}])
def test_a_tokenizer_that_is_not_the_one_described(tokenizer, tmp_path, change):
    tokenizer.save(tmp_path)
    with pytest.raises(BadInput, match=r"not the one|unknown kind"):
        load_tokenizer(tmp_path, replace(tokenizer.info, **change))


def test_training_is_deterministic_and_depends_on_the_text():
    texts = ["some words and others", "words again"] * 3
    assert train_bpe(texts, 270).digest == train_bpe(iter(texts), 270).digest
    assert train_bpe(texts, 270).digest != train_bpe(["some words and others"] * 3, 270).digest
    assert train_bpe([], 257).vocab == train_bpe(["ab"], 300).vocab == 257  # pairs seen once are not merged


@pytest.mark.parametrize("vocab", [256, 0, -1, 300.0, True])
def test_a_vocab_smaller_than_the_bytes(vocab):
    with pytest.raises(BadInput, match="vocab"):
        train_bpe(["x"], vocab)


def test_ranks_end_after_the_last_rank(ranks):
    tokenizer = from_ranks(ranks)
    assert (tokenizer.name, tokenizer.vocab, tokenizer.end) == ("ranks-263", 263, 262)
    assert tokenizer.encode(["thé the"]) == [[256, 261, ord(" "), 257]]  # "th" goes before " t"


def damaged_ranks():
    lines = [b"%s %d" % (base64.b64encode(bytes([byte])), byte) for byte in range(256)]
    yield pytest.param([], id="empty")
    yield pytest.param(lines[:-1], id="short")
    yield pytest.param([*lines, lines[0]], id="twice")
    yield pytest.param([*lines, b"YWI= 300"], id="gap")
    yield pytest.param([*lines, b"YWI= 255"], id="rank twice")
    yield pytest.param([*lines, b"YWI=", b"YWI= 256"], id="no rank")
    yield pytest.param([*lines, b"YW 256"], id="no padding")
    yield pytest.param([*lines, b"Y*WI= 256"], id="no base64")
    yield pytest.param([*lines, b"YWI= x"], id="no number")


@pytest.mark.parametrize("lines", list(damaged_ranks()))
def test_damaged_ranks(tmp_path, lines):
    (tmp_path / "r.tiktoken").write_bytes(b"\n".join(lines))
    with pytest.raises(BadInput, match=r"r\.tiktoken"):
        from_ranks(tmp_path / "r.tiktoken")


def test_no_ranks_there(tmp_path):
    with pytest.raises(BadInput, match="cannot read"):
        from_ranks(tmp_path / "r.tiktoken")


# Shards.


def test_documents_come_back_from_the_shards_split_by_their_text(prepared, corpus):
    data = open_data(prepared)
    train, held_out = split_texts(data, "train"), split_texts(data, "held_out")
    assert sorted(train + held_out) == sorted(texts_of(corpus))
    assert not set(train) & set(held_out)
    assert train == [text for text in texts_of(corpus) if text in train]  # in the source's order
    for split, texts in (("train", train), ("held_out", held_out)):
        found = data.manifest.splits[split]
        assert (found.documents, found.characters) == (len(texts), sum(map(len, texts)))
        assert (found.bytes, found.tokens) == (sum(len(t.encode()) for t in texts), len(data.tokens(split)))
    assert len([s for s in data.manifest.shards if s.split == "train"]) > 3
    assert all(shard.bytes == 100 == 2 * shard.tokens for shard in data.manifest.shards[:3])
    assert not (prepared.parent / "data.part").exists()


def test_the_share_that_is_held_out(tmp_path):
    (tmp_path / "x.jsonl").write_text("".join(json.dumps({"text": f"document {i}"}) + "\n" for i in range(2000)))
    found = prepare(str(tmp_path / "x.jsonl"), tmp_path / "data", vocab=257).splits
    assert 60 <= found["held_out"].documents <= 140  # 100 with a standard deviation of 10
    assert found["train"].documents + found["held_out"].documents == 2000


def test_the_tokenizer_sees_training_documents_only_and_no_more_than_the_sample(corpus, tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(preparing, "train_bpe", lambda texts, vocab: seen.extend(texts) or train_bpe(texts, vocab))
    prepare(str(corpus), tmp_path / "data", sample_bytes=500, **SMALL)
    train = "".join(split_texts(open_data(tmp_path / "data"), "train"))
    assert train.startswith("".join(seen))
    assert 497 <= sum(len(text.encode()) for text in seen) <= 500


def test_equal_requests_give_equal_data(corpus, tmp_path, monkeypatch):
    first = prepare(str(corpus), tmp_path / "one", **SMALL)
    monkeypatch.setattr(preparing, "BATCH_CHARACTERS", 1)
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    for path in corpus.iterdir():
        (moved / path.name).write_bytes(path.read_bytes())
    second = prepare(str(moved), tmp_path / "two", **SMALL)
    assert first.digest == second.digest
    assert first.name == f"{corpus.name}-{first.tokenizer.name}-{first.digest[:8]}"
    (moved / "00.txt").write_text("something else")
    assert prepare(str(moved), tmp_path / "three", **SMALL).digest != first.digest


def test_the_digest_covers_the_tokenizer_and_every_shard(prepared):
    manifest = open_data(prepared).manifest
    changed = [replace(manifest, tokenizer=replace(manifest.tokenizer, digest="0"))]
    for index, shard in enumerate(manifest.shards):
        others = manifest.shards[:index], manifest.shards[index + 1 :]
        changed.append(replace(manifest, shards=(*others[0], replace(shard, sha256="0"), *others[1])))
    digests = {manifest.digest, *(other.digest for other in changed)}
    assert len(digests) == len(changed) + 1 > 20
    assert replace(manifest, about="", request=replace(manifest.request, source="elsewhere")).digest == manifest.digest


def test_prepared_data_are_left_alone(prepared, corpus, monkeypatch):
    before = {path: path.stat().st_mtime_ns for path in prepared.iterdir()}
    monkeypatch.setattr(preparing, "documents", None)
    assert prepare(str(corpus), prepared, **SMALL) == open_data(prepared).manifest
    assert before == {path: path.stat().st_mtime_ns for path in prepared.iterdir()}


@pytest.mark.parametrize(
    "other", [{"vocab": 301}, {"held_out": 0.31}, {"max_tokens": 9}, {"sample_bytes": 99}, "ranks"]
)
def test_another_request_does_not_overwrite(prepared, corpus, ranks, other):
    request = SMALL | ({"ranks": ranks} if other == "ranks" else other)
    with pytest.raises(BadInput, match="already holds other data"):
        prepare(str(corpus), prepared, **request)
    with pytest.raises(BadInput, match="already holds other data"):
        prepare(str(corpus / "03.txt"), prepared, **SMALL)
    open_data(prepared)


def test_foreign_files_are_not_overwritten(corpus, tmp_path):
    (tmp_path / "file").write_text("mine")
    for folder in (tmp_path, tmp_path / "file"):
        with pytest.raises(BadInput, match="already holds other data"):
            prepare(str(corpus), folder, **SMALL)
    with pytest.raises(BadInput, match="cannot write"):
        prepare(str(corpus), tmp_path / "file" / "below", **SMALL)
    (tmp_path / "empty").mkdir()
    assert prepare(str(corpus), tmp_path / "empty", **SMALL) == open_data(tmp_path / "empty").manifest


def test_what_a_killed_run_left_is_removed(corpus, tmp_path, prepared):
    part = tmp_path / "again.part"
    part.mkdir()
    for name in ("train-00000.bin", "train-99999.bin", "manifest.json"):
        (part / name).write_bytes(b"left over")
    with pytest.raises(BadInput, match="no prepared data"):
        open_data(tmp_path / "again")
    prepare(str(corpus), tmp_path / "again", **SMALL)
    assert open_data(tmp_path / "again").manifest == open_data(prepared).manifest
    assert not (tmp_path / "again" / "train-99999.bin").exists()
    assert not part.exists()


def test_a_run_that_fails_leaves_nothing(corpus, tmp_path):
    def stop(done, _note):
        if done > 200:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepare(str(corpus), tmp_path / "data", on_progress=stop, **SMALL)
    assert not list(tmp_path.iterdir())


def test_two_processes_do_not_write_one_folder(corpus, tmp_path):
    part = tmp_path / "data.part"
    part.mkdir()
    (part / "train-00000.bin").write_bytes(b"of the other")
    handle = os.open(part, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    with pytest.raises(BadInput, match="another process"):
        prepare(str(corpus), tmp_path / "data", **SMALL)
    assert (part / "train-00000.bin").read_bytes() == b"of the other"
    os.close(handle)
    prepare(str(corpus), tmp_path / "data", **SMALL)


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    "harm", [lambda path: path.write_bytes(path.read_bytes()[:-2]), flip, Path.unlink], ids=["cut", "flip", "gone"]
)
@pytest.mark.parametrize("name", ["train-00001.bin", "held_out-00000.bin", "tokenizer.json", "manifest.json"])
def test_damage_is_seen(prepared, corpus, name, harm):
    open_data(prepared)
    harm(prepared / name)
    with pytest.raises(BadInput, match=name):
        open_data(prepared)
    with pytest.raises(BadInput, match=f"{name}|already holds other data"):
        prepare(str(corpus), prepared, **SMALL)


def change(content, path, value):
    *outer, last = path
    for key in outer:
        content = content[key]
    content[last] = value


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["format"], 2),
        (["digest"], "0"),
        (["request", "more"], 1),
        (["shards"], []),
        (["shards"], None),
        (["shards", 0, "tokens"], 49),
        (["shards", 0, "sha256"], "0" * 64),
        (["splits", "train", "characters"], 1),
        (["about"], "something else"),
        (["checksum"], "0" * 64),
        (["splits", "held_out"], None),
        (["tokenizer", "end"], 7),
    ],
)
def test_a_manifest_that_was_changed_is_refused(prepared, path, value):
    content = json.loads((prepared / "manifest.json").read_text())
    change(content, path, value)
    (prepared / "manifest.json").write_text(json.dumps(content))
    with pytest.raises(BadInput, match=r"manifest\.json"):
        open_data(prepared)


def test_max_tokens_ends_at_a_document(corpus, tmp_path):
    whole = open_data_of(corpus, tmp_path / "whole")
    train, held_out = split_texts(whole, "train"), split_texts(whole, "held_out")
    cut = open_data_of(corpus, tmp_path / "cut", max_tokens=700)
    found = cut.manifest.splits["train"]
    assert 600 < found.tokens <= 700
    assert split_texts(cut, "train") == train[: found.documents]
    assert split_texts(cut, "held_out") == held_out[: cut.manifest.splits["held_out"].documents]
    order = texts_of(corpus)
    assert order.index(split_texts(cut, "held_out")[-1]) < order.index(train[found.documents])
    exact = open_data_of(corpus, tmp_path / "exact", max_tokens=found.tokens)
    assert exact.manifest.splits == cut.manifest.splits
    less = open_data_of(corpus, tmp_path / "less", max_tokens=found.tokens - 1)
    assert less.manifest.splits["train"].documents == found.documents - 1


def open_data_of(source, folder, **changes):
    prepare(str(source), folder, **SMALL | changes)
    return open_data(folder)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"vocab": 256}, "vocab"),
        ({"held_out": 0}, "held_out"),
        ({"held_out": 1.0}, "held_out"),
        ({"held_out": float("nan")}, "held_out"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": 3}, "too small to split.* within 3 training tokens .* a larger --max-tokens"),
        ({"sample_bytes": 0}, "sample_bytes"),
        (
            {"held_out": 1e-9},
            "too small to split: of its 41 documents none is for the split held_out; give more .*larger --held-out",
        ),
        (
            {"held_out": 1 - 1e-9},
            "too small to split: of its 41 documents none is for the split train; give more .*smaller --held-out",
        ),
    ],
)
def test_impossible_requests(corpus, tmp_path, changes, message):
    with pytest.raises(BadInput, match=message):
        prepare(str(corpus), tmp_path / "data", **SMALL | changes)
    assert not list(tmp_path.iterdir())


def test_a_source_without_text(tmp_path):
    (tmp_path / "nothing").mkdir()
    with pytest.raises(BadInput, match="nothing holds no text"):
        prepare(str(tmp_path / "nothing"), tmp_path / "data")
    (tmp_path / "blank.txt").write_text(" \n\t\n" * 10**5)
    with pytest.raises(BadInput, match=r"blank\.txt holds no text"):
        prepare(str(tmp_path / "blank.txt"), tmp_path / "data")


def test_what_is_no_plain_file_is_refused_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BadInput, match="pipe is no plain file"):
        texts_of(tmp_path / "pipe")


@pytest.mark.parametrize("inside", [".", "data", "a/b"])
def test_data_do_not_go_among_their_own_texts(corpus, inside):
    with pytest.raises(BadInput, match="whose files are the text; choose another --out"):
        prepare(str(corpus), corpus / inside, **SMALL)
    assert not (corpus / "a").exists()


def test_a_source_too_small_to_split_is_refused_before_a_tokenizer_is_trained(tmp_path, monkeypatch):
    monkeypatch.setattr(preparing, "train_bpe", lambda *_: pytest.fail("trained"))
    (tmp_path / "one.jsonl").write_text('{"text": "one"}')
    with pytest.raises(BadInput, match=r"of its 1 documents none is for the split held_out; .* larger --held-out"):
        prepare(str(tmp_path / "one.jsonl"), tmp_path / "data")


@pytest.mark.parametrize("vocab", [2**20 + 1, 99999999999])
def test_a_vocab_that_no_tokenizer_has_is_refused_at_once(corpus, tmp_path, vocab):
    with pytest.raises(BadInput, match=f"vocab must be a whole number from 257 to 1048576, got {vocab}"):
        prepare(str(corpus), tmp_path / "data", vocab=vocab)


def test_bytes_of_another_encoding_are_named_not_replaced(tmp_path):
    for number in range(30):
        (tmp_path / f"{number:02}.txt").write_bytes(f"{number} caf\xe9".encode("latin-1"))
    with pytest.raises(
        BadInput, match=r"00\.txt is not utf-8: byte 0xe9 at 5; give its encoding, as in --encoding latin-1"
    ):
        prepare(str(tmp_path), tmp_path.parent / "data", **SMALL)
    data = open_data_of(tmp_path, tmp_path.parent / "latin", encoding="latin-1")
    assert sorted(split_texts(data, "train") + split_texts(data, "held_out")) == sorted(f"{n} café" for n in range(30))
    assert open_data(tmp_path.parent / "latin").manifest.request.encoding == "latin-1"
    with pytest.raises(BadInput, match="already holds other data"):
        open_data_of(tmp_path, tmp_path.parent / "latin", encoding="cp1252")
    (tmp_path / "x.jsonl").write_bytes(b'{"text": "fine"}\n{"text": "caf\xe9"}\n')
    with pytest.raises(BadInput, match=r"x\.jsonl, line 2, is not utf-8: byte 0xe9 at 13"):
        texts_of(tmp_path / "x.jsonl")
    (tmp_path / "wide.txt").write_text("wide", encoding="utf-16")
    assert [d.text for d in documents(str(tmp_path / "wide.txt"), "utf-16")] == ["wide"]


@pytest.mark.parametrize("encoding", ["", "nothing", "rot13", "hex", "a\0b"])
def test_an_unknown_encoding(tmp_path, encoding):
    with pytest.raises(BadInput, match="unknown encoding"):
        documents(str(tmp_path), encoding)


def test_a_manifest_names_its_encoding_only_where_it_is_another(prepared):
    """So that folders from before there was a choice read as they did."""
    assert "encoding" not in json.loads((prepared / "manifest.json").read_text())["request"]


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_paragraphs_end_as_the_file_s_lines_do(tmp_path, newline):
    text = (f"{'word ' * 60}{newline}" * 4 + newline) * 188
    (tmp_path / "novel.txt").write_bytes(text.encode())
    found = texts_of(tmp_path / "novel.txt")
    assert "".join(found) == text
    assert len(found) == 188
    assert all(piece.endswith(2 * newline) for piece in found)


@pytest.mark.parametrize("piece", ["word " * 99 + "\n", "word ", "x"])
def test_a_text_without_paragraphs_is_cut_at_lines_or_words(tmp_path, piece):
    text = piece * (200_000 // len(piece))
    (tmp_path / "long.txt").write_text(text)
    found = texts_of(tmp_path / "long.txt")
    assert "".join(found) == text
    assert 100 <= len(found) <= 201
    assert all(end.endswith(piece[-1]) for end in found)


def test_prepared_with_ranks(corpus, tmp_path, ranks):
    data = open_data_of(corpus, tmp_path / "data", ranks=ranks)
    assert data.manifest.request.vocab is None
    assert data.manifest.tokenizer == from_ranks(ranks).info
    assert sorted(split_texts(data, "train") + split_texts(data, "held_out")) == sorted(texts_of(corpus))


def test_many_ids_take_four_bytes(corpus, tmp_path):
    pairs = [bytes([a, b]) for a in range(256) for b in range(256)]
    pairs.sort(key=lambda pair: pair[0] == ord("l"))
    path = write_ranks(tmp_path / "wide.tiktoken", [*(bytes([byte]) for byte in range(256)), *pairs])
    data = open_data_of(corpus, tmp_path / "data", ranks=path)
    assert data.manifest.dtype == "<u4"
    assert data.tokens("train")[:].max() == data.tokenizer().end == 65792
    assert sorted(split_texts(data, "train") + split_texts(data, "held_out")) == sorted(texts_of(corpus))
    shard = data.manifest.shards[0]
    assert (tmp_path / "data" / shard.name).read_bytes() == data.tokens("train")[: shard.tokens].tobytes()


def test_progress_counts_training_tokens(corpus, tmp_path):
    calls = []
    manifest = prepare(str(corpus), tmp_path / "data", on_progress=lambda *call: calls.append(call), **SMALL)
    assert calls[0] == (0, "training the tokenizer")
    assert calls[-1] == (manifest.splits["train"].tokens, "41 documents")
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)


def test_an_unknown_split(prepared):
    with pytest.raises(BadInput, match="train and held_out"):
        open_data(prepared).tokens("test")


def test_importing_loads_nothing_heavy():
    code = (
        "import sys; from icl.data import shards, sources, tokenizers, windows;"
        "print({'torch', 'tokenizers', 'tiktoken', 'zstandard', 'datasets'} & set(sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "set()\n"


# Windows.


@st.composite
def cut_arrays(draw):
    """An array and the same one in pieces, some of them possibly empty."""
    length = draw(st.integers(1, 80))
    cuts = sorted(draw(st.lists(st.integers(0, length), max_size=6)))
    whole = np.random.default_rng(length).integers(0, 2**16, length).astype("<u2")
    return whole, Tokens(np.split(whole, cuts))


@given(cut_arrays(), st.integers(-90, 90), st.integers(-90, 90))
def test_slices_over_shards_are_those_of_one_array(arrays, start, stop):
    whole, tokens = arrays
    assert len(tokens) == len(whole)
    found = tokens[start:stop]
    np.testing.assert_array_equal(found, whole[start:stop])
    assert found.dtype == whole.dtype
    np.testing.assert_array_equal(tokens[:], whole)


@given(cut_arrays(), st.integers(1, 9), st.integers(1, 7), st.integers(0, 20), st.integers(0, 2**32))
def test_windows_over_shards_are_those_of_one_array(arrays, context, size, step, seed):
    whole, tokens = arrays
    if len(whole) <= context:
        for array in arrays:
            with pytest.raises(BadInput, match="tokens"):
                Windows(array, context, seed)
        return
    one, other = Windows(whole, context, seed), Windows(tokens, context, seed)
    batch = one.batch(step, size)
    assert batch.shape == (size, context + 1)
    assert batch.dtype == np.int64
    np.testing.assert_array_equal(batch, other.batch(step, size))
    np.testing.assert_array_equal(one.in_order(), other.in_order())


@given(st.integers(2, 60), st.integers(1, 9), st.integers(1, 7), st.integers(0, 9))
def test_every_epoch_visits_every_window_once(length, context, size, seed):
    if length <= context:
        return
    windows = Windows(np.arange(length), context, seed)
    count = windows.count
    steps = -(-3 * count // size)
    starts = np.concatenate([windows.batch(step, size)[:, 0] for step in range(steps)])[: 3 * count]
    for epoch in starts.reshape(3, count):
        assert sorted(epoch.tolist()) == [index * context for index in range(count)]
    predicted = windows.in_order()[:, 1:].ravel()
    np.testing.assert_array_equal(predicted, np.arange(1, windows.tokens_an_epoch + 1))
    assert length - 1 - windows.tokens_an_epoch < context
    assert windows.epochs(count, 3) == 3
    assert windows.epochs(0, size) == 0


@settings(max_examples=10)
@given(st.permutations(range(12)))
def test_a_batch_depends_on_seed_and_step_alone(order):
    tokens, fresh = np.arange(200), {}
    for step in range(12):
        fresh[step] = Windows(tokens, 7, 3).batch(step, 5)
    windows = Windows(tokens, 7, 3)
    for step in order:
        np.testing.assert_array_equal(windows.batch(step, 5), fresh[step])


def test_orders_differ_between_epochs_and_seeds():
    tokens = np.arange(1001)
    orders = [Windows(tokens, 10, seed).batch(epoch, 100)[:, 0].tolist() for seed in (0, 1) for epoch in (0, 1)]
    assert len({tuple(order) for order in orders}) == 4
    assert not any(order == sorted(order) for order in orders)


def test_windows_in_order_can_be_limited():
    windows = Windows(np.arange(10), 3, 0)
    np.testing.assert_array_equal(windows.in_order(2), [[0, 1, 2, 3], [3, 4, 5, 6]])
    assert len(windows.in_order(99)) == windows.count == 3


@pytest.mark.parametrize("ask", [
    lambda: Windows(np.arange(9), 0, 0), lambda: Windows(np.arange(9), 2, -1), lambda: Windows(np.arange(9), 9, 0),
    lambda: Windows(np.arange(9), 2, 0).batch(-1, 1), lambda: Windows(np.arange(9), 2, 0).batch(0, 0),
    lambda: Windows(np.arange(9), 2, 0).in_order(0),
])  # fmt: skip
def test_windows_that_make_no_sense(ask):
    with pytest.raises(BadInput):
        ask()
