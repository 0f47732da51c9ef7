"""Text to tokens and back, exactly; what is damaged is refused.

And sequences by the tokenizer beside published weights: what it puts in front, where they go on, what is refused."""

import base64
import json
import random
from dataclasses import replace

import numpy as np
import pytest
import tokenizers as tokenizers_library
from hypothesis import example, given
from hypothesis import strategies as st

from icl.data import tokenizers
from icl.data.published import Part, PublishedTokenizer, _characters, random_sequences, sequences
from icl.data.sources import documents
from icl.data.tokenizers import END, from_ranks, load_tokenizer, train_bpe
from tests.icl.data.small import SPECIAL, write_tokenizer
from theory.errors import BadInput

TEXTS = st.lists(st.one_of(st.text(), st.sampled_from(SPECIAL)), max_size=8).map("".join)


@pytest.fixture(scope="module", params=["bpe", "ranks"])
def tokenizer(request, ranks):
    if request.param == "ranks":
        return from_ranks(ranks)
    return train_bpe(["the cat in the hat", "things that sing", *SPECIAL] * 5, 280)


@given(text=TEXTS)
@example("a" + END + "<|endoftext|>" + "\r\n \n\x00\N{PARTY POPPER}")
def test_every_text_comes_back_and_none_becomes_the_end(tokenizer, text):
    (ids,) = tokenizer.encode([text])
    assert tokenizer.decode(ids) == text
    assert all(0 <= i < tokenizer.vocab and i != tokenizer.end for i in ids)
    assert tokenizer.decode(np.array([*ids, tokenizer.end])).startswith(text)


def test_long_words_are_cut_and_no_others(monkeypatch):
    """What merges are learned from is the same text; of words up to the longest, uncut."""
    letters = "".join(random.Random(0).choices("ACGT", k=1000))
    words = tokenizers_library.pre_tokenizers.ByteLevel(add_prefix_space=False)
    text = f"before {letters}, x{'=' * 600}y {{'a':'{letters[:200]}'}}" + " " * 300 + "after " + "ab," * 400
    pieces = list(tokenizers._short_words(text, words))
    assert "".join(pieces) == text
    assert len(pieces) == 1 + 3 + 2 + 1
    assert max(last - first for piece in pieces for _, (first, last) in words.pre_tokenize_str(piece)) <= 256
    short = ["the cat in the hat", "ab," * 400, letters[:256], *SPECIAL] * 5
    assert [piece for text in short for piece in tokenizers._short_words(text, words)] == short
    uncut = train_bpe(short, 300).digest
    monkeypatch.setattr(tokenizers, "_short_words", lambda text, _: [text])
    assert train_bpe(short, 300).digest == uncut


def test_a_long_word_comes_back(tokenizer):
    text = "".join(random.Random(0).choices("ACGT", k=300_000))
    assert tokenizer.decode(tokenizer.encode([text, "the"])[0]) == text


def test_a_tokenizer_of_one_long_word():
    trained = train_bpe(["".join(random.Random(0).choices("ACGT", k=20_000))], 300)
    assert trained.vocab == 300
    assert len(trained.encode(["ACGTACGTACGT"])[0]) < 8


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


def test_names_of_special_tokens_become_tokens_on_request(tokenizer):
    """What is read after that is read as text again."""
    name = tokenizer.decode([tokenizer.end])
    (one,), text = tokenizer.encode(["one"]), f"one{name}one"
    assert tokenizer.encode_special([text]) == [[*one, tokenizer.end, *one]]
    assert tokenizer.end not in tokenizer.encode([text])[0]


# --- tokenizers beside published weights -----------------------------------------------------------------------------

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


@given(st.integers(0, 90), st.integers(1, 90))
def test_parts_in_tokens_follow_one_another(folder, start, more):
    tokenizer = PublishedTokenizer(write_tokenizer(folder))
    ids = whole(tokenizer, text_of(folder))
    found = sequences(tokenizer, text_of(folder), 3, 10**6, 10**6, part=Part(start, start + more))
    expected = ids[start : start + more]
    assert len(found) == max(0, len(expected) - 1) // 2
    assert found[:, :-1].ravel().tolist() == expected[: 2 * len(found)]


@given(st.floats(0, 1), st.floats(0, 1))
def test_parts_in_shares_share_no_character(folder, one, other):
    """Texts of two parts that meet, one behind the other, are the whole text."""
    tokenizer = PublishedTokenizer(write_tokenizer(folder))
    middle, end = sorted((one, other))
    bounds = [(0.0, middle), (middle, end), (end, 1.0)]
    parts = [Part(a, b) for a, b in bounds if a < b]
    texts = ["".join(_characters(text_of(folder), part)) for part in parts]
    assert "".join(texts) == "".join(d.text for d in documents(text_of(folder)))
    found = sequences(tokenizer, text_of(folder), 3, 10**6, 10**6, part=parts[0])
    (ids,) = tokenizer.encode([texts[0]]) if texts[0] else ([],)
    assert len(found) <= max(0, len(ids) - 1)  # documents are cut at tokens of their own


@pytest.mark.parametrize(
    ("bounds", "says"),
    [
        ((0.5, 0.2), "ends behind its beginning"),
        ((3, 3), "ends behind its beginning"),
        ((0.5, 100), "two shares as its bounds"),
        ((1.5, None), "a share from 0 to 1"),
        ((-1, None), "tokens from 0"),
    ],
)
def test_parts_that_make_no_sense(bounds, says):
    with pytest.raises(BadInput, match=says):
        Part(*bounds)
    assert str(Part()) == ""
    assert str(Part(0.25, 0.5)) == "from 0.25 to 0.5"
    assert str(Part(stop=100)) == "to 100"


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
    marks = {"pad_to_multiple_of": None, "pad_id": 0, "pad_type_id": 0, "pad_token": "<s>"}
    content["padding"] = {"strategy": {"Fixed": 64}, "direction": "Left", **marks}
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


def test_what_no_published_tokenizer_is(tmp_path):
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
