"""Preparing a data set: no text on both sides of the split, nothing half-written, impossible requests."""

import fcntl
import json
import os
import shutil
import sys
import types

import pytest

from icl.data import preparing, tokenising
from icl.data.preparing import prepare
from icl.data.shards import open_data
from icl.data.sources import documents
from icl.data.tokenizers import BytePairs, train_bpe
from tests.crashes import crashes
from tests.icl.data.small import SMALL, open_data_of, split_texts, texts_of
from theory.errors import BadInput


def test_the_share_that_is_held_out(tmp_path):
    (tmp_path / "x.jsonl").write_text("".join(json.dumps({"text": f"document {i}"}) + "\n" for i in range(2000)))
    found = prepare(str(tmp_path / "x.jsonl"), tmp_path / "data", vocab=257).splits
    assert 60 <= found["held_out"].documents <= 140  # 100 with a standard deviation of 10
    assert found["train"].documents + found["held_out"].documents == 2000


def test_the_tokenizer_sees_training_documents_only_and_no_more_than_the_sample(corpus, tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(preparing, "train_bpe", lambda texts, *rest: seen.extend(texts) or train_bpe(texts, *rest))
    prepare(str(corpus), tmp_path / "data", sample_bytes=500, **SMALL)
    train = "".join(split_texts(open_data(tmp_path / "data"), "train"))
    assert train.startswith("".join(seen))
    assert 497 <= sum(len(text.encode()) for text in seen) <= 500


def test_equal_requests_give_equal_data(corpus, tmp_path, monkeypatch):
    first = prepare(str(corpus), tmp_path / "one", **SMALL)
    monkeypatch.setattr(tokenising, "BATCH_CHARACTERS", 1)
    moved = shutil.copytree(corpus, tmp_path / "elsewhere")
    second = prepare(str(moved), tmp_path / "two", **SMALL)
    assert first.digest == second.digest
    assert first.name == f"{corpus.name}-{first.tokenizer.name}-{first.digest[:8]}"
    (moved / "00.txt").write_text("something else")
    assert prepare(str(moved), tmp_path / "three", **SMALL).digest != first.digest


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


@pytest.mark.long
def test_a_run_that_is_gone_at_any_step_is_begun_again(corpus, tmp_path, prepared, monkeypatch):
    """Or gone on with, as it says how far it is after every few documents."""
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")  # its threads do not come along into a fork
    monkeypatch.setattr(tokenising, "BATCH_CHARACTERS", 2000)
    monkeypatch.setattr(tokenising, "SECONDS_BETWEEN_STATES", 0)
    expected, tried = open_data(prepared).manifest, 0
    few = SMALL | {"shard_bytes": 1000}

    def again(folder):
        return prepare(str(corpus), folder / "whole", **few)

    assert again(tmp_path).splits == expected.splits
    for folder in crashes(again, tmp_path / "crashed"):
        tried += 1
        assert again(folder) == open_data(tmp_path / "whole").manifest
        assert [path.name for path in folder.iterdir()] == ["whole"]
    assert tried > len(list((tmp_path / "whole").iterdir())) + 4


class Stop(Exception):
    pass


def stopped(kind, after):
    """Of what is told of, the first beyond so many tokens is the last."""

    def stop(done, _note, _share):
        if done > after:
            raise kind

    return stop


def test_a_run_that_fails_leaves_nothing(corpus, tmp_path):
    with pytest.raises(Stop):
        prepare(str(corpus), tmp_path / "data", on_progress=stopped(Stop, 200), **SMALL)
    assert not list(tmp_path.iterdir())


@pytest.fixture
def interrupted(corpus, tmp_path, monkeypatch):
    """A copy of the corpus, whose data in `cut` are half done, after several batches; and what is tokenised after."""
    monkeypatch.setattr(tokenising, "BATCH_CHARACTERS", 500)
    monkeypatch.setattr(tokenising, "SECONDS_BETWEEN_STATES", 0)
    text = shutil.copytree(corpus, tmp_path / "text")
    with pytest.raises(KeyboardInterrupt):
        prepare(str(text), tmp_path / "cut", on_progress=stopped(KeyboardInterrupt, 700), **SMALL)
    assert (tmp_path / "cut.part").is_dir()
    return text, tokenised_from_now_on(monkeypatch)


def tokenised_from_now_on(monkeypatch):
    encode, again = BytePairs.encode, []
    monkeypatch.setattr(BytePairs, "encode", lambda self, texts: again.extend(texts) or encode(self, texts))
    return again


def test_an_interrupted_run_goes_on(corpus, tmp_path, interrupted):
    """What was done is not done again: neither tokenised nor learnt from."""
    text, again = interrupted
    found = prepare(str(text), tmp_path / "cut", **SMALL)
    every = texts_of(text)
    assert 0 < len(again) < len(every)
    assert every[-len(again) :] == again
    assert found == open_data(tmp_path / "cut").manifest
    assert found.digest == prepare(str(corpus), tmp_path / "whole", **SMALL).digest
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cut", "text", "whole"]
    assert not (tmp_path / "cut" / tokenising.STATE).exists()


UNLIKE = {
    "a shard is shorter": lambda _, part: os.truncate(min(part.glob("train-*.bin")), 1),
    "a shard is gone": lambda _, part: min(part.glob("train-*.bin")).unlink(),
    "the tokenizer is another": lambda _, part: (part / "tokenizer.json").write_text("{}"),
    "the state is damaged": lambda _, part: (part / tokenising.STATE).write_text("{"),
    "the text is another": lambda text, _: (text / "00.txt").write_text("something else"),
    "there is less text": lambda text, _: [path.unlink() for path in sorted(text.iterdir())[:30]],
}


@pytest.mark.parametrize("change", UNLIKE)
def test_what_is_not_as_it_was_is_begun_again(change, tmp_path, interrupted):
    text, again = interrupted
    UNLIKE[change](text, tmp_path / "cut.part")
    found = prepare(str(text), tmp_path / "cut", **SMALL)
    assert again == texts_of(text)
    assert found == prepare(str(text), tmp_path / "afresh", **SMALL)


def test_a_hub_s_dataset_goes_on_in_its_order(tmp_path, monkeypatch):
    """Its rows are streamed again from the first on, and only those that are new are tokenised."""
    rows, streamed = [{"text": f"row {i} of many, and more"} for i in range(60)], []
    stream = lambda *_, **__: (streamed.append(i) or row for i, row in enumerate(rows))  # noqa: E731
    monkeypatch.setitem(sys.modules, "datasets", types.SimpleNamespace(load_dataset=stream))
    monkeypatch.setattr(tokenising, "BATCH_CHARACTERS", 100)
    monkeypatch.setattr(tokenising, "SECONDS_BETWEEN_STATES", 0)
    with pytest.raises(KeyboardInterrupt):
        prepare("hf:me/set", tmp_path / "cut", on_progress=stopped(KeyboardInterrupt, 100), **SMALL)
    streamed.clear()
    tokenised = tokenised_from_now_on(monkeypatch)
    found = prepare("hf:me/set", tmp_path / "cut", **SMALL)
    assert streamed == list(range(60))
    assert 0 < len(tokenised) < 60
    assert [row["text"] for row in rows[-len(tokenised) :]] == tokenised
    assert found == prepare("hf:me/set", tmp_path / "whole", **SMALL)


def test_another_request_begins_again(tmp_path, interrupted):
    text, again = interrupted
    prepare(str(text), tmp_path / "cut", **SMALL | {"held_out": 0.4})
    assert again == texts_of(text)


@pytest.mark.parametrize("batch", [1, 10**6])
def test_bytes_do_not_hang_on_the_number_of_threads(batch, corpus, tmp_path, prepared, monkeypatch):
    monkeypatch.setattr(tokenising, "BATCH_CHARACTERS", batch)
    for parallel in ("false", "true"):
        monkeypatch.setenv("TOKENIZERS_PARALLELISM", parallel)
        assert prepare(str(corpus), tmp_path / parallel, **SMALL).digest == open_data(prepared).manifest.digest


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


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"vocab": 256}, "vocab"),
        ({"vocab": 2**20 + 1}, "vocab must be a whole number from 257 to 1048576, got 1048577"),
        ({"vocab": 99999999999}, "vocab must be a whole number from 257 to 1048576, got 99999999999"),
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


def test_bytes_of_another_encoding_are_named_not_replaced(tmp_path):
    for number in range(30):
        (tmp_path / f"{number:02}.txt").write_bytes(f"{number} caf\xe9".encode("latin-1"))
    says = r"00\.txt is not utf-8: byte 0xe9 at 5; give its encoding, as in --encoding latin-1"
    with pytest.raises(BadInput, match=says):
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


def test_progress_counts_training_tokens(corpus, tmp_path):
    calls = []
    manifest = prepare(str(corpus), tmp_path / "data", on_progress=lambda *call: calls.append(call), **SMALL)
    assert calls[0] == (0, "training the tokenizer", 0.0)
    assert calls[-1] == (manifest.splits["train"].tokens, "41 documents", 1.0)
    assert [done for done, *_ in calls] == sorted(done for done, *_ in calls)
    shares = [share for done, _, share in calls if done]
    assert shares == sorted(shares)
    assert 0 < shares[0] < 0.5
