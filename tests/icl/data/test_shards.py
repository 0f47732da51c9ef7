"""Shards of a data set: what stands in them, no damage that goes unseen, and windows in the order of a seed."""

import json
import subprocess
import sys
from dataclasses import replace
from functools import reduce
from operator import getitem
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icl.data.preparing import prepare
from icl.data.shards import Tokens, Windows, open_data
from icl.data.tokenizers import from_ranks
from tests.crashes import flip
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
        flip(prepared / name, 1)
        for rank in range(3):
            if number % 3 == rank:
                with pytest.raises(BadInput, match=name):
                    open_data(prepared, rank, 3)
            else:
                assert open_data(prepared, rank, 3).tokens("train")[:].size
        flip(prepared / name, 1)


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
    *outer, last = path
    reduce(getitem, outer, content)[last] = value
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


@pytest.mark.long
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
        "import sys; from icl.data import shards, sources, tokenizers;"
        "print({'torch', 'tokenizers', 'tiktoken', 'zstandard', 'datasets'} & set(sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "set()\n"


# --- windows ---------------------------------------------------------------------------------------------------------


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
    starts = np.concatenate([windows.batch(step, size)[:, 0] for step in range(-(-3 * count // size))])[: 3 * count]
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
    tokens = np.arange(200)
    fresh = [Windows(tokens, 7, 3).batch(step, 5) for step in range(12)]
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


@pytest.mark.parametrize(("context", "seed"), [(0, 0), (2, -1), (9, 0)])
def test_windows_that_make_no_sense(context, seed):
    with pytest.raises(BadInput):
        Windows(np.arange(9), context, seed)


@pytest.mark.parametrize("ask", [lambda w: w.batch(-1, 1), lambda w: w.batch(0, 0), lambda w: w.in_order(0)])
def test_what_windows_cannot_give(ask):
    with pytest.raises(BadInput):
        ask(Windows(np.arange(9), 2, 0))
