"""`crosslayer probe` of published weights: which text, what is said of it, and what is refused in one line."""

import json

import pytest
import torch

from experiments.cli import main
from experiments.commands import subjects
from experiments.training.layer_probes import FAMILIES
from tests.experiments.cli.answers import outcome, write_corpus
from tests.icl.data.tokenizer import write_tokenizer
from tests.icl.published.llama import CONFIG, state_dict, write

BIG = CONFIG | {"vocab_size": 320, "max_position_embeddings": 40, "tie_word_embeddings": True}


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """Folders of published weights by name, and one of text."""
    folder = tmp_path_factory.mktemp("published")
    write_corpus(folder / "corpus")
    weights = state_dict(BIG, dtype=torch.float32)
    for name in ("with", "without"):
        write(folder / name, BIG, weights, shards=2)
    write_tokenizer(folder / "with", ("<s>",))
    return folder


@pytest.fixture
def probed(work, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("experiments.commands.layer_figures.draw", lambda *_: None)

    def run(*names, options=()):
        capsys.readouterr()
        places = [str(work / name) for name in names]
        status = main(["probe", *places, "--device", "cpu", "--out", str(tmp_path), "--tokens", "200", *options])
        assert status == 0
        return capsys.readouterr().out

    return run


def test_its_own_tokenizer_decides_what_is_read(work, probed):
    """Text behind a mark, the same in every sequence: what enters layer 1 there has one norm.  By default stdlib."""
    options = ["--text", str(work / "corpus"), "--json"]
    record = json.loads(probed("with", options=options))
    assert list(record["families"]) == list(FAMILIES)
    (about,) = record["runs"]
    assert (about["name"], about["seed"], about["sequences"], about["tokens"]) == ("with", None, 5, 200)
    assert about["data"] == f"the text of {work / 'corpus'}"
    assert about["folder"] == str(work / "with")
    norms = record["families"]["norms"][0]["state_by_position"]
    mark = float(state_dict(BIG)["model.embed_tokens.weight"][0].norm())
    assert norms["mean"][0][0] == pytest.approx(mark, rel=1e-6)
    assert norms["stderr"][0][0] < 1e-6 < norms["stderr"][0][1]
    assert "200 tokens of the text of stdlib; " in probed("with", options=["--what", "similarity"])


def test_without_a_tokenizer_tokens_are_random(probed):
    assert "5 sequences, 200 tokens of text drawn at random; " in probed("without", options=["--what", "similarity"])
    out = probed("with", "without", options=["--what", "similarity", "--text", "random", "--context", "10"])
    lines = out.splitlines()
    assert [line.split(":")[1].startswith(" 20 sequences, 200 tokens") for line in lines[:2]] == [True, True]
    assert lines[-3].split()[1:] == lines[-2].split()[1:]  # the same weights


def test_what_is_kept_is_that_of_the_same_question(work, probed, tmp_path):
    """Another text, context, variant or theta is another folder; the same question finds what is there."""
    (work / "more").mkdir()
    (work / "more" / "text").write_text("another text " * 100)
    what = ["--what", "similarity", "--text", str(work / "corpus")]
    questions = [[], ["--text", "random"], ["--context", "20"], ["--text", str(work / "more")]]
    for more in questions:
        probed("with", options=[*what, *more])
    config = work / "with" / "config.json"
    before = config.read_text()
    config.write_text(before.replace("50.0", "51.0"))
    try:
        probed("with", options=what)
    finally:
        config.write_text(before)
    probed("with", options=[*what, "--variant", "resformer"])
    assert len(list((tmp_path / "probe").iterdir())) == len(questions) + 2
    probed("with", options=what)
    assert len(list((tmp_path / "probe").iterdir())) == len(questions) + 2


def test_weights_that_memory_cannot_hold_are_not_read(work, monkeypatch):
    one = subjects.subject(work / "with", subjects.Asked(text="random"))
    monkeypatch.setattr("theory.machine.memory", lambda: 10_000)
    with pytest.raises(subjects.UserError, match="of memory for its weights alone"):
        one.of.model("cpu")


@pytest.mark.parametrize(
    ("names", "options", "message"),
    [
        (["with"], ["--what", "entropie"], "unknown probe 'entropie'"),
        (["with"], ["--text", "nowhere"], "there is no file or folder nowhere"),
        (["with"], ["--text", ""], "the source of the text is empty"),
        (["without"], ["--text", "stdlib"], "holds no tokenizer.json"),
        (["with"], ["--context", "41"], "--context 41 is more than the 40 tokens of"),
        (["without"], ["--context", "2", "--tokens", "3"], "two sequences or more"),
        (["without"], ["--tokens", "79"], "1 of 40 tokens is what --tokens leaves"),
        (["with"], ["--text", "empty"], "all that"),
        (["without"], ["--data", "nowhere"], "--data is for the text of trainings"),
        (["with"], ["--variant", "resformers"], "unknown variant"),
        (["without"], ["--variant", "svformer"], "which is not of the model"),
        (["without"], ["--variant", "attnres"], "has no name in the layout"),
        (["with"], ["--variant", "nowhere.py:mine"], "no such file"),
        (["mamba"], [], "of type 'mamba'"),
        (["scaled"], [], "its rotary positions are scaled"),
        (["weightless"], [], "holds no model.safetensors"),
        (["small"], ["--text", "config.json"], "and the model knows 13"),
        (["damaged"], [], "is damaged"),
        (["config.json"], [], "no such folder"),
    ],
)
def test_bad_input_is_one_line(names, options, message, work, tmp_path):
    write(tmp_path / "mamba", BIG | {"model_type": "mamba"}, state_dict(BIG))
    write(tmp_path / "scaled", BIG | {"rope_scaling": {"rope_type": "yarn"}}, state_dict(BIG))
    write(tmp_path / "weightless", BIG, state_dict(BIG))
    write_tokenizer(write(tmp_path / "small", CONFIG, state_dict(CONFIG)))
    write(tmp_path / "damaged", BIG, state_dict(BIG))
    (tmp_path / "weightless" / "model.safetensors").unlink()
    (tmp_path / "damaged" / "model.safetensors").write_bytes(b"nothing")
    (tmp_path / "empty").mkdir()
    there = {"config.json": tmp_path / "small" / "config.json", "empty": tmp_path / "empty"}
    options = [str(there.get(option, option)) for option in options]
    places = [str(work / name if (work / name).exists() else tmp_path / name) for name in names]
    status, _, errors = outcome(["probe", *places, "--device", "cpu", "--out", str(tmp_path / "out"), *options])
    assert status == 2
    line = errors.strip().splitlines()[-1]
    assert line.startswith("crosslayer")
    assert message in line
    assert "Traceback" not in errors
    assert not (tmp_path / "out").exists()
