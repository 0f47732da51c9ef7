"""`crosslayer generate`: text from a training's folder and from published weights; bad input is one line, status 2."""

import json
import shutil
from types import SimpleNamespace

import pytest
import torch

import icl
from experiments.cli.generate import in_words
from experiments.commands import generation
from experiments.commands.generation import Speed, Written
from experiments.training import memory
from experiments.training.model_folders import model_folder
from icl.data.tokenizers import saved_tokenizer
from tests.experiments.cli.answers import outcome, prepare_text, refused, train
from tests.icl.data.small import write_tokenizer
from tests.icl.published.llama import CONFIG, state_dict, write

BIG = CONFIG | {"vocab_size": 320, "max_position_embeddings": 40, "tie_word_embeddings": True}
SHORT = ["--batch", "4", "--steps", "30", "--log-every", "10", "--learning-rate", "0.01"]


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """Folders: of a training on text, `run`, and on regression; of published weights."""
    folder = tmp_path_factory.mktemp("generate")
    train(folder / "run", *prepare_text(folder), "--context", "32", *SHORT, variant="skipv1")
    train(folder / "regression", "--data", "regression:d=2,n=3,sigma=0.1", *SHORT, variant="skipv1")
    write(folder / "published", BIG, state_dict(BIG, dtype=torch.float32))
    write_tokenizer(folder / "published", ("<s>",))
    return folder


@pytest.fixture
def written(work):
    def run(*options, of="run"):
        status, out, errors = outcome(["generate", str(work / of), "--device", "cpu", *options])
        assert status == 0, errors
        return out

    return run


@pytest.mark.long
def test_the_likeliest_text_is_that_of_whole_passes(work, written):
    """By the tokenizer that the training left beside its weights."""
    model, tokenizer = icl.load(work / "run"), saved_tokenizer(work / "run")
    (tokens,) = tokenizer.encode(["text 7,"])
    read = len(tokens)
    for _ in range(8):
        tokens.append(int(model(torch.tensor([tokens]))[0, -1].argmax()))
    assert written("--prompt", "text 7,", "--tokens", "8", "--temperature", "0") == tokenizer.decode(tokens) + "\n"
    (one,) = json.loads(written("--prompt", "text 7,", "--tokens", "8", "--temperature", "0", "--json"))["texts"]
    assert (one["tokens"], one["read"], one["ended"]) == (tokens[read:], read, "length")


def test_a_seed_decides_and_a_stream_ends_with_the_same_text(written):
    options = ["--prompt", "text", "--tokens", "20"]
    first = written(*options)
    assert written(*options) == written(*options, "--stream") == first
    assert written(*options, "--seed", "1") != first
    assert written(*options, "--prompt", "some").startswith(first + "-" * 20 + "\nsome")


def test_special_tokens_are_read_as_such_on_request(work, written):
    """By default their names are text; a prompt that begins as every text does is not begun twice."""

    def read(prompt, *options, of="run"):
        (one,) = json.loads(written("--prompt", prompt, "--tokens", "1", "--json", *options, of=of))["texts"]
        return one["ids"]

    text, end = read("text"), saved_tokenizer(work / "run").end
    assert read("text<|end|>text", "--special-tokens") == [*text, end, *text]
    assert end not in read("text<|end|>text")
    assert read("text", "--special-tokens") == text
    one, (start,) = read("one", of="published"), read("", of="published")
    assert one[0] == start
    assert read("<s>one", "--special-tokens", of="published") == read("one", "--special-tokens", of="published") == one
    assert read("one<s>one", "--special-tokens", of="published") == [*one, *one]
    assert read("<s>one", of="published").count(start) == 1
    assert read("<s>one", of="published") != one
    assert read("<s>one", of="published") == read("<s>one", of="published")  # nothing stays switched on


def test_a_text_that_stops_it_is_left_out_of_it(written):
    whole = written("--prompt", "text", "--tokens", "30")
    mark = whole[10:13]
    found = written("--prompt", "text", "--tokens", "30", "--stop", mark, "--stop", "\0nowhere")
    assert found == whole[: whole.index(mark, 4)] + "\n"
    assert written("--prompt", "text", "--tokens", "30", "--stop", mark, "--stream") == found


def test_published_weights_begin_as_their_tokenizer_begins(work, written):
    (one,) = json.loads(written("--tokens", "3", "--json", of="published"))["texts"]
    assert (one["read"], len(one["tokens"])) == (1, 3)
    (one,) = json.loads(written("--tokens", "3", "--prompt", "one", "--json", of="published"))["texts"]
    assert one["read"] > 1
    config = work / "published" / "config.json"
    before = config.read_text()
    (one,) = json.loads(written("--temperature", "0", "--tokens", "2", "--json", of="published"))["texts"]
    likeliest = one["tokens"]
    try:
        config.write_text(json.dumps(json.loads(before) | {"eos_token_id": likeliest[:1]}))
        (one,) = json.loads(written("--temperature", "0", "--json", of="published"))["texts"]
        assert (one["tokens"], one["text"], one["ended"]) == (likeliest[:1], "", "end of text")
        config.write_text(json.dumps(json.loads(before) | {"eos_token_id": "x"}))
        assert outcome(["generate", str(work / "published")])[0] == 2
    finally:
        config.write_text(before)


def test_a_run_without_a_tokenizer_takes_that_of_its_text(work, written, tmp_path):
    shutil.copytree(work / "run", tmp_path / "old")
    (tmp_path / "old" / "tokenizer.json").unlink()
    options = ["--tokens", "5"]
    assert written(*options, of=tmp_path / "old") == written(*options)
    moved = tmp_path / "moved"
    shutil.copytree(work / "text", moved)
    (work / "text").rename(work / "hidden")
    try:
        assert "say --data" in outcome(["generate", str(tmp_path / "old")])[2]
        assert written(*options, "--data", str(moved), of=tmp_path / "old") == written(*options)
    finally:
        (work / "hidden").rename(work / "text")


def language(decode, ends=()):
    return generation.Language(SimpleNamespace(decode=decode), (), of_all=False, ends=frozenset(ends))


def test_halves_of_characters_wait_for_their_other_half():
    spoken = language(lambda ids: bytes(ids).decode(errors="replace"), ends=[0])
    one = Written("", [])
    shown = []
    for token in "aé€b".encode():
        generation._add(one, token, spoken, ())
        shown.append(one.text)
    assert shown == ["a", "a", "aé", "aé", "aé", "aé€", "aé€b"]
    generation._add(one, 0, spoken, ())
    assert (one.text, one.ended) == ("aé€b", "end of text")


def test_a_space_that_a_tokenizer_leaves_out_where_a_text_begins_is_there_within_it():
    """As those that prefix every text with a space do, and take the first one away."""
    spoken = language(lambda ids: " ".join("abcd"[i] for i in ids), ends=[9])
    one = Written("a", [0])
    generation._add(one, 1, spoken, ())
    assert one.prompt + one.text == "a b"


def test_what_may_be_the_beginning_of_a_stop_is_held_back():
    spoken = language(lambda ids: "".join(map(chr, ids)))
    one, shown = Written("", []), []
    for letter in "xababy":
        generation._add(one, ord(letter), spoken, ("abx", "abz"))
        shown.append(one.text)
    assert shown == ["x", "x", "x", "xab", "xab", "xababy"]


def test_what_a_window_does_not_keep_is_not_counted(work, monkeypatch):
    """With memory for what it keeps and no more, text is written; with a byte less it is refused, in one line."""
    folder, whole = work / "windowed", work / "published"
    shutil.copytree(whole, folder)
    config = json.loads((whole / "config.json").read_text()) | {"model_type": "mistral", "sliding_window": 4}
    (folder / "config.json").write_text(json.dumps(config))
    of = model_folder(folder).architecture
    each = 4 * 2 * of.n_layers * of.n_kv_heads * of.width
    options = ["--prompt", "one", "--tokens", "30", "--device", "cpu"]

    def there(count):
        of_memory = SimpleNamespace(available=lambda _: count, in_words=memory.in_words)
        monkeypatch.setattr(generation, "memory", of_memory)

    there(8 * each)
    assert outcome(["generate", str(folder), *options])[0] == 0
    refused(["generate", str(whole), *options], "of memory")
    there(8 * each - 1)
    assert outcome(["generate", str(folder), *options])[0] == 2


@pytest.mark.parametrize(
    ("of", "options", "says"),
    [
        ("nowhere", [], "no such folder"),
        ("corpus", [], "no training's folder"),
        ("regression", [], "has no text"),
        ("run", ["--variant", "skipv1"], "published weights"),
        ("run", ["--stop", ""], "everywhere"),
        ("run", ["--stream", "--json"], "--stream"),
        ("run", ["--stream", "--prompt", "a", "--prompt", "b"], "--stream"),
        ("run", ["--prompt", "text 1, " * 100], "no room in a context of 32"),
        ("run", ["--top-p", "2"], "top_p"),
        ("run", ["--top-k", "0"], "at least 1"),
        ("run", ["--tokens", "0"], "at least 1"),
        ("run", ["--temperature", "-1"], "negative"),
        ("published", ["--variant", "skipv1"], "_proj.weight"),
        ("published", ["--variant", "no-such"], "no-such"),
    ],
)
def test_bad_input_is_one_line(work, of, options, says):
    refused(["generate", str(work / of), *options], says)


def test_a_damaged_tokenizer_is_named(work, tmp_path):
    shutil.copytree(work / "run", tmp_path / "run")
    (tmp_path / "run" / "tokenizer.json").write_text("{")
    refused(["generate", str(tmp_path / "run")], "tokenizer.json is no tokenizer")
    assert model_folder(tmp_path / "run").name == "skipv1"


def test_speeds_are_plain_numbers():
    said = in_words(Speed(read=15, reading=123.4, steps=10, stepping=20.0, drawn=10), 1)
    assert said == "15 tokens read in 123 s; then 2,000 ms per step, 0 tokens per second"
    assert "1.2 s; then 0.11 ms" in in_words(Speed(read=15, reading=1.23, steps=10, stepping=0.0011, drawn=10), 1)
