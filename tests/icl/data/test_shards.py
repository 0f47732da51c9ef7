"""Shards of a data set: what stands in them, and no damage that goes unseen."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from icl.data.preparing import prepare
from icl.data.shards import open_data
from icl.data.tokenizers import from_ranks
from tests.icl.data.small import SMALL, open_data_of, split_texts, texts_of, write_ranks
from theory.errors import BadInput


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


def test_the_digest_covers_the_tokenizer_and_every_shard(prepared):
    manifest = open_data(prepared).manifest
    changed = [replace(manifest, tokenizer=replace(manifest.tokenizer, digest="0"))]
    for index, shard in enumerate(manifest.shards):
        others = manifest.shards[:index], manifest.shards[index + 1 :]
        changed.append(replace(manifest, shards=(*others[0], replace(shard, sha256="0"), *others[1])))
    digests = {manifest.digest, *(other.digest for other in changed)}
    assert len(digests) == len(changed) + 1 > 20
    assert replace(manifest, about="", request=replace(manifest.request, source="elsewhere")).digest == manifest.digest


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


def test_processes_that_open_it_together_check_every_shard_between_them(prepared):
    """One alone sees what is wrong with a shard of its own, whichever that is."""
    shards = [shard.name for shard in open_data(prepared).manifest.shards]
    assert len(shards) > 3
    for number, name in enumerate(shards[:4]):
        content = (prepared / name).read_bytes()
        (prepared / name).write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        for rank in range(3):
            if number % 3 == rank:
                with pytest.raises(BadInput, match=name):
                    open_data(prepared, rank, 3)
            else:
                assert open_data(prepared, rank, 3).tokens("train")[:].size
        (prepared / name).write_bytes(content)


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


def test_a_manifest_names_its_encoding_only_where_it_is_another(prepared):
    """So that folders from before there was a choice read as they did."""
    assert "encoding" not in json.loads((prepared / "manifest.json").read_text())["request"]


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


def test_an_unknown_split(prepared):
    with pytest.raises(BadInput, match="train and held_out"):
        open_data(prepared).tokens("test")


def test_importing_loads_nothing_heavy():
    code = (
        "import sys; from icl.data import shards, sources, tokenizers, windows;"
        "print({'torch', 'tokenizers', 'tiktoken', 'zstandard', 'datasets'} & set(sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "set()\n"
