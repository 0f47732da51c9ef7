"""Text by the tokenizer beside published weights: what it puts in front, where sequences go on, what is refused."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from icl.data.published import PublishedTokenizer, random_sequences, sequences
from icl.data.sources import documents
from tests.icl.data.tokenizer import write_tokenizer
from theory.errors import BadInput

WORDS = "one two three four five six seven eight nine ten\n\n"


def text_of(folder, copies=4):
    (folder / "text").mkdir(exist_ok=True)
    for number in range(copies):
        (folder / "text" / f"{number}.txt").write_text(WORDS * (number + 1))
    return str(folder / "text")


def whole(tokenizer, source):
    return [i for document in documents(source) for ids in tokenizer.encode([document.text]) for i in ids]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("published")


@given(st.integers(3, 40), st.integers(1, 50), st.sampled_from([(), ("<s>",), ("<s>", "</s>")]))
def test_sequences_go_on_where_the_one_before_ended(folder, length, count, start):
    """Every token of the text is predicted once and read once, in order, up to an end shorter than a sequence."""
    tokenizer = PublishedTokenizer(write_tokenizer(folder, start))
    ids, step = whole(tokenizer, text_of(folder)), length - len(start) - 1
    if step < 1:
        with pytest.raises(BadInput, match=f"{length - 1} tokens hold no text behind the {len(start)}"):
            sequences(tokenizer, text_of(folder), length, count, 10**6)
        return
    found = sequences(tokenizer, text_of(folder), length, count, 10**6)
    assert len(found) == min(count, (len(ids) - 1) // step)
    assert found.shape == (len(found), length)
    assert found.dtype == np.int64
    assert {tuple(row[: len(start)]) for row in found} <= {tokenizer.start}
    assert len(tokenizer.start) == len(start)
    rest = found[:, len(start) :]
    assert rest[:, :-1].ravel().tolist() == ids[: len(found) * step]
    assert rest[:, 1:].ravel().tolist() == ids[1 : len(found) * step + 1]


def test_no_more_is_read_than_is_needed(folder, monkeypatch):
    read = []

    def counted(source):
        for document in documents(source):
            read.append(document.name)
            yield document

    monkeypatch.setattr("icl.data.published.documents", counted)
    tokenizer = PublishedTokenizer(write_tokenizer(folder))
    sequences(tokenizer, text_of(folder, copies=50), 5, 2, 10**6)
    assert len(read) < 50


def test_marks_in_a_text_are_text_and_what_the_file_says_of_cutting_and_filling_is_nothing(folder):
    path = write_tokenizer(folder, ("<s>",), ("</s>",)) / "tokenizer.json"
    content = json.loads(path.read_text())
    content["truncation"] = {"direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0}
    content["padding"] = {
        "strategy": {"Fixed": 64},
        "direction": "Left",
        "pad_to_multiple_of": None,
        "pad_id": 0,
        "pad_type_id": 0,
        "pad_token": "<s>",
    }
    path.write_text(json.dumps(content))
    tokenizer = PublishedTokenizer(folder)
    (ids,) = tokenizer.encode(["<s> and so on, at length"])
    assert len(tokenizer.start) == 1
    assert tokenizer.start[0] not in ids
    assert 10 < len(ids) < 64


def test_random_tokens_are_all_equally_likely():
    found = random_sequences(50, 2000, 5)
    counts = np.bincount(found.ravel(), minlength=5)
    assert found.shape == (2000, 50)
    assert np.abs(counts - 20_000).max() < 5 * (100_000 * 0.2 * 0.8) ** 0.5
    assert np.array_equal(found, random_sequences(50, 2000, 5))
    with pytest.raises(BadInput, match="of memory"):
        random_sequences(10**6, 10**12, 5)


def test_what_makes_no_sense_is_refused(tmp_path):
    with pytest.raises(BadInput, match=r"holds no tokenizer\.json"):
        PublishedTokenizer(tmp_path)
    for content in (b"{", b"[]", b"\xff\xfe"):
        (tmp_path / "tokenizer.json").write_bytes(content)
        with pytest.raises(BadInput, match="is no tokenizer") as stop:
            PublishedTokenizer(tmp_path)
        assert "\n" not in str(stop.value)
    tokenizer = PublishedTokenizer(write_tokenizer(tmp_path, ("<s>",)))
    known = max(*whole(tokenizer, text_of(tmp_path)), *tokenizer.start) + 1
    assert len(sequences(tokenizer, text_of(tmp_path), 5, 9, known)) == 9
    with pytest.raises(BadInput, match=f"makes a token {known - 1}, and the model knows {known - 1}"):
        sequences(tokenizer, text_of(tmp_path), 5, 9, known - 1)
    with pytest.raises(BadInput, match="no file or folder"):
        sequences(tokenizer, str(tmp_path / "nowhere"), 5, 9, known)
