"""`crosslayer train --init`, `data prepare --tokenizer`: models that are there are trained on, by their tokenizer."""

import json
import shutil
from unittest import mock

import pytest
import torch

import icl
from experiments.cli import main
from experiments.commands import single
from experiments.training.arms import Initial
from icl.data.shards import open_data, read_manifest
from tests.experiments.cli.answers import outcome, prepare_text, refused, train
from tests.icl.data.small import write_tokenizer
from tests.icl.published.llama import CONFIG, state_dict, write

BIG = CONFIG | {"vocab_size": 320, "max_position_embeddings": 40, "eos_token_id": 1}
SHORT = ["--context", "16", "--batch", "2", "--log-every", "2", "--learning-rate", "0.01", "--device", "cpu"]

SIZES = ["--width", "16", "--layers", "3", "--heads", "4"]
GPT2 = ["--preset", "dva-a", "--variant", "vanilla", *SIZES]  # positions are learnt


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """Text, a training on it, what it is converted to, and a model of others, imported."""
    folder = tmp_path_factory.mktemp("training-on")
    write(folder / "published", BIG, state_dict(BIG, dtype=torch.float32), 2)
    write_tokenizer(folder / "published", ("<s>",))
    train(folder / "vanilla", *SIZES, *prepare_text(folder), "--steps", "4", *SHORT, preset="dva-a")
    train(folder / "prompts", "--data", "regression:d=2,n=3,sigma=0.1", "--steps", "2", *SHORT[2:])
    for line in (
        ["data", "prepare", "{work}/corpus", "--out", "{work}/other", "--vocab", "290"],
        ["convert", "{work}/vanilla", "--variant", "skipv1", "--out", "{work}/skipv1"],
        ["import", "{work}/published", "--out", "{work}/imported"],
        ["data", "prepare", "{work}/corpus", "--out", "{work}/theirs", "--tokenizer", "{work}/imported"],
    ):
        assert main([part.format(work=folder) for part in line]) == 0
    return folder


def trained(work, folder, out, *options, data="text"):
    with mock.patch("experiments.commands.training_figure.draw"):
        line = ["train", "--init", str(folder), "--data", str(work / data), *SHORT, *options, "--out", str(out)]
        status, found, errors = outcome([*line, "--json"])
    assert status == 0, errors
    return json.loads(found)


@pytest.mark.long
def test_it_begins_with_the_weights_that_are_there(work, tmp_path):
    """At a rate of nothing it ends with them too, under the plan that they were converted to, and keeps its context."""
    found = trained(work, work / "skipv1", tmp_path, "--steps", "2", "--learning-rate", "1e-30", "--context", "8")
    begun, ended = icl.load(work / "skipv1"), icl.load(found["folder"])
    assert begun.plan == ended.plan
    assert begun.config.context == ended.config.context == 16
    assert found["tokens"] == 2 * 2 * 8
    asked = json.loads(outcome(["evaluate", found["folder"], "--device", "cpu", "--json", "--out", str(tmp_path)])[1])
    assert len(asked["runs"][0]["by_position"]["mean"]) == 8
    tokens = torch.randint(290, (2, 8), generator=torch.Generator().manual_seed(0))
    assert torch.equal(begun(tokens), ended(tokens))
    assert found["name"] == "vanilla as skipv1"
    assert "how" not in found["arm"]["initial"]
    assert len(dict(ended.named_parameters())["positions"]) == 16


def test_it_learns_and_is_not_repeated(work, tmp_path):
    first = trained(work, work / "vanilla", tmp_path, "--steps", "40", "--learning-rate", "0.003")
    summary = json.loads((work / "vanilla" / "summary.json").read_text())
    assert first["loss"] < summary["loss"]
    assert first["curve"][0][1] < summary["curve"][0][1]
    assert first == trained(work, work / "vanilla", tmp_path, "--steps", "40", "--learning-rate", "0.003")
    assert first["folder"].rpartition("/")[2].startswith("vanilla-")


def test_which_weights_they_are_names_the_training_and_not_their_place(work, tmp_path):
    (tmp_path / "elsewhere").symlink_to(work / "vanilla")
    places = work / "vanilla", tmp_path / "elsewhere"
    keys = [trained(work, place, tmp_path, "--steps", "2")["key"] for place in places]
    assert keys[0] == keys[1]
    assert trained(work, work / "skipv1", tmp_path, "--steps", "2")["key"] != keys[0]
    options = {"data": str(work / "text"), "steps": 2, "context": 16, "batch": 2, "device": "cpu", "out": tmp_path}
    assert single.train(init=work / "vanilla", **options).record["key"] != keys[0]  # it logs at other steps
    assert Initial("a", "b") != Initial("a", "c")


def test_a_model_of_others_goes_on_by_its_own_tokenizer(work, tmp_path):
    data = open_data(work / "theirs")
    manifest = data.manifest
    assert manifest.tokenizer.kind == "published"
    assert manifest.tokenizer.end == 1
    assert (work / "theirs" / "tokenizer.json").read_bytes() == (work / "imported" / "tokenizer.json").read_bytes()
    tokens, begins = data.tokens("train")[:].tolist(), data.tokenizer().start
    assert begins
    assert tokens[: len(begins)] == list(begins)
    assert tokens.count(1) >= manifest.splits["train"].documents
    found = trained(work, work / "imported", tmp_path, "--steps", "2", data="theirs")
    assert outcome(["generate", found["folder"], "--prompt", "text", "--tokens", "3", "--device", "cpu"])[0] == 0
    assert outcome(["export", found["folder"], "--out", str(tmp_path / "hf")])[0] == 0
    assert json.loads((tmp_path / "hf" / "generation_config.json").read_text())["eos_token_id"] == 1


def test_a_new_model_on_such_text_is_a_folder_like_any_other(work, tmp_path):
    folder = train(tmp_path / "new", "--data", str(work / "theirs"), "--steps", "2", *SHORT)
    assert outcome(["generate", str(folder), "--prompt", "text", "--tokens", "3", "--device", "cpu"])[0] == 0
    again = ["data", "prepare", str(work / "corpus"), "--out", str(tmp_path / "again"), "--tokenizer", str(folder)]
    assert outcome(again)[0] == 0
    assert read_manifest(tmp_path / "again").digest == read_manifest(work / "theirs").digest
    trained(work, folder, tmp_path / "on", "--steps", "2", data="theirs")


def test_how_a_text_ends_is_part_of_what_it_is(work, tmp_path):
    """The same tokenizer.json, with another token that ends texts: other text, and not that model's."""
    shutil.copytree(work / "imported", tmp_path / "other")
    (tmp_path / "other" / "generation_config.json").write_text('{"eos_token_id": 0}')
    line = ["data", "prepare", str(work / "corpus"), "--tokenizer", str(tmp_path / "other"), "--out"]
    assert "already holds other data" in outcome([*line, str(work / "theirs")])[2]
    status, _, errors = outcome(
        ["train", "--init", str(tmp_path / "other"), "--data", str(work / "theirs"), "--steps", "2", *SHORT]
    )
    assert status == 2
    assert "another tokenizer" in errors.splitlines()[-1]


def test_what_is_carried_on_began_as_the_other_did(work, tmp_path):
    first = trained(work, work / "vanilla", tmp_path, "--steps", "2")
    longer = ["--steps", "4", "--resume-from", first["folder"]]
    trained(work, work / "vanilla", tmp_path, *longer)
    data = ["--data", str(work / "text"), *longer, *SHORT, "--out", str(tmp_path)]
    for begun in (["--init", str(work / "skipv1")], GPT2):
        status, _, errors = outcome(["train", *begun, *data])
        assert status == 2
        assert "--init" in errors.splitlines()[-1]


def test_damaged_weights_leave_nothing(work, tmp_path):
    shutil.copytree(work / "vanilla", tmp_path / "bad")
    (tmp_path / "bad" / "model.safetensors").write_bytes(b"nothing")
    line = ["train", "--init", str(tmp_path / "bad"), "--data", str(work / "text"), "--steps", "2", *SHORT]
    status, out, errors = outcome([*line, "--out", str(tmp_path / "out")])
    assert (status, out) == (2, "")
    assert "is damaged" in errors.splitlines()[-1]
    assert not (tmp_path / "out").exists()


def test_a_tokenizer_of_ours_makes_the_same_text_again(work, tmp_path):
    line = ["data", "prepare", str(work / "corpus"), "--out", str(tmp_path / "again"), "--tokenizer"]
    assert outcome([*line, str(work / "vanilla")])[0] == 0
    assert read_manifest(tmp_path / "again").digest == read_manifest(work / "text").digest


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (["--preset", "llama-2m", "--init", "{work}/vanilla"], "say either --preset, for a new model, or --init"),
        ([], "say either --preset"),
        (["--init", "{work}/vanilla", "--variant", "skipv1"], "crosslayer convert"),
        (["--init", "{work}/vanilla", "--width", "32"], "--width is for new models"),
        (["--init", "{work}/vanilla", "--layers", "0"], "layers"),
        (["--init", "{work}/nowhere"], "no such folder"),
        (["--init", "{work}/corpus"], "no training's folder"),
        (["--init", "{work}/published"], "crosslayer import"),
        (["--init", "{work}/vanilla", "--data", "{work}/other"], "another tokenizer, bpe-290, than"),
        (["--init", "{work}/imported"], "crosslayer data prepare SOURCE --tokenizer"),
        (["--init", "{work}/vanilla", "--context", "17"], "more than the context of 16"),
        (["--init", "{work}/vanilla", "--data", "regression:d=2,n=3,sigma=0.1"], "reads tokens"),
        (["--init", "{work}/prompts"], "reads vectors of 2"),
        (["--init", "{work}/prompts", "--data", "regression:d=3,n=3,sigma=0.1"], "reads vectors of 2"),
    ],
)
def test_bad_input_is_one_line(work, tmp_path, line, says):
    words = [part.format(work=work) for part in line]
    data = [] if "--data" in words else ["--data", str(work / "text")]
    context = [] if "--context" in words or any("regression" in word for word in words) else ["--context", "16"]
    status, out, errors = outcome(
        ["train", *words, *data, *context, "--steps", "2", "--device", "cpu", "--out", str(tmp_path)]
    )
    assert (status, out) == (2, "")
    assert says in errors.splitlines()[-1], errors
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--tokenizer", "{work}/corpus"], "holds no tokenizer"),
        (["--tokenizer", "{work}/nowhere"], "holds no tokenizer"),
        (["--tokenizer", "{work}/silent"], "does not say which token ends a text"),
        (["--tokenizer", "{work}/beyond"], "token 70000 ends a text, and the tokenizer has"),
        (["--tokenizer", "{work}/negative"], "eos_token_id is no token"),
        (["--tokenizer", "{work}/truth"], "eos_token_id is no token"),
        (["--tokenizer", "{work}/vanilla", "--ranks", "{work}/x"], "one of them decides"),
    ],
)
def test_bad_tokenizers_are_one_line(work, tmp_path, options, says):
    for name, end in {"silent": None, "beyond": 70_000, "negative": -1, "truth": True}.items():
        (work / name).mkdir(exist_ok=True)
        write_tokenizer(work / name, ("<s>",))
        (work / name / "generation_config.json").write_text(json.dumps({"eos_token_id": end}))
    line = ["data", "prepare", str(work / "corpus"), "--out", str(tmp_path / "x")]
    refused([*line, *(part.format(work=work) for part in options)], says)
    assert not list(tmp_path.iterdir())
