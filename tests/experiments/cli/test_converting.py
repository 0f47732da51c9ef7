"""`crosslayer convert` and `advise` on text: refits, first losses, plans as files, and what is refused."""

import json

import pytest
import torch

import icl
from experiments.commands import advising, converting
from experiments.commands.subjects import Choices
from experiments.training.by_layer import Sample
from experiments.training.model_folders import model_folder
from tests.experiments.cli.answers import outcome, prepare_text, refused, train
from tests.icl.data.small import write_tokenizer
from tests.icl.published.llama import CONFIG, state_dict, write
from theory.plans.names import resolve
from theory.plans.written import from_json, to_json

BIG = CONFIG | {"vocab_size": 320, "max_position_embeddings": 40, "eos_token_id": 1}
TEXT = ["--context", "16", "--batch", "2", "--steps", "30", "--log-every", "30", "--learning-rate", "0.01"]


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """Published weights with a tokenizer, a training on text and one on regression, and a text."""
    folder = tmp_path_factory.mktemp("converting")
    tensors = state_dict(BIG, dtype=torch.float32)
    write(folder / "published", BIG, tensors, 2)
    write_tokenizer(folder / "published", ("<s>",))
    train(folder / "trained", *prepare_text(folder), *TEXT)
    train(folder / "regression", "--data", "regression:d=2,n=3,sigma=0.1", *TEXT[2:])
    (folder / "book.txt").write_text("one two three four five six seven eight nine ten " * 200)
    return folder


def text(work, *more):
    return ["--text", str(work / "book.txt"), "--context", "12", *more]


def convert(work, out, *more, name="published", variant="skipv1"):
    line = ["convert", str(work / name), "--variant", variant, "--out", str(out), *more]
    status, printed, errors = outcome(line)
    assert status == 0, errors
    return printed


@pytest.mark.long
def test_with_text_what_reads_converted_heads_is_refitted(work, tmp_path):
    printed = convert(work, tmp_path / "run", *text(work))
    lines = printed.splitlines()
    assert " published as skipv1, fit: " in lines[0]
    assert "refitted 2 output projections on " in lines[2]
    assert lines[3].strip().startswith("first loss ")
    assert f"uniform guessing {torch.tensor(320.0).log():.4f}" in lines[3]
    about = json.loads((tmp_path / "run" / "config.json").read_text())
    assert about["imported"] == {"from": str(work / "published"), "type": "converted, fit"}
    assert [one["layer"] for one in about["refit"]["layers"]] == [2, 3]
    assert all(one["fitted"] <= min(one["raw"], one["left_out"]) for one in about["refit"]["layers"])
    first = about["first_loss"]
    assert first["change"] == pytest.approx(first["after"] - first["before"], abs=1e-9)
    model = icl.load(tmp_path / "run")
    assert model.plan == resolve("skipv1", model.config.shape)
    raw = icl.convert(model_folder(work / "published").model("cpu"), "skipv1", "first")
    changed = [n for (n, p), q in zip(model.named_parameters(), raw.parameters(), strict=True) if not torch.equal(p, q)]
    assert changed == ["layers.1.attention.output.weight", "layers.2.attention.output.weight"]


@pytest.mark.long
def test_a_training_is_refitted_on_its_own_text_and_judged_on_what_it_holds_out(work, tmp_path):
    done = {}
    for how in ("fit", "first"):
        done[how] = converting.convert(work / "trained", tmp_path / how, variant="skipv1", how=how)
    assert done["fit"].fit_tokens > 0
    assert done["first"].fit_tokens == 0
    assert done["fit"].first.before == done["first"].first.before
    assert done["fit"].first.data.startswith("text in ")
    trained = json.loads((work / "trained" / "summary.json").read_text())
    assert done["fit"].first.before == pytest.approx(trained["loss"], rel=1e-4)
    assert done["fit"].first.after < done["first"].first.after


def test_every_way_says_its_first_loss_and_whether_it_is_worse_than_guessing(work, tmp_path, monkeypatch):
    printed = convert(work, tmp_path / "a", "--how", "mean", *text(work))
    assert "first loss " in printed
    assert "refitted" not in printed
    monkeypatch.setattr(converting.FirstLoss, "worse_than_guessing", True)
    printed = convert(work, tmp_path / "b", "--how", "mean", *text(work))
    assert printed.startswith("made published as skipv1, mean: ")
    assert "worse than uniform guessing" in printed


def test_without_text_the_old_default_stays_and_says_what_a_refit_needs(work, tmp_path):
    printed = convert(work, tmp_path / "a")
    assert "--how fit with --text FILE would refit what reads the converted heads, on 32,768 tokens" in printed
    assert "would refit" not in convert(work, tmp_path / "b", "--how", "mean")
    expected = icl.convert(model_folder(work / "published").model("cpu"), "skipv1", "mean")
    found = icl.load(tmp_path / "a")
    assert all(torch.equal(p, q) for p, q in zip(found.parameters(), expected.parameters(), strict=True))


@pytest.mark.long
def test_parts_of_one_text_calibrate_and_judge(work, tmp_path):
    convert(work, tmp_path / "run", *text(work, "--to", "0.5"))
    numbers = []
    for part in (["--from", "0.5"], ["--to", "1/2"], []):
        out = ["--out", str(tmp_path / "out"), "--device", "cpu", "--json", "--tokens", "240"]
        status, printed, errors = outcome(["evaluate", str(tmp_path / "run"), *text(work), *part, *out])
        assert status == 0, errors
        numbers.append(json.loads(printed)["runs"][0])
    assert numbers[0]["data"].endswith("book.txt from 0.5")
    assert numbers[1]["data"].endswith("book.txt to 0.5")
    assert numbers[0]["asked"] != numbers[1]["asked"] == numbers[2]["asked"]


ADVICE = ("--tokens", "360")


def test_advice_is_a_plan_that_convert_takes(work, tmp_path):
    plan, figure = tmp_path / "plan.json", tmp_path / "advice.svg"
    line = ["advise", str(work / "published"), *text(work, *ADVICE), "--share", "1/2", "--device", "cpu"]
    status, printed, errors = outcome([*line, "--out", str(plan), "--figure", str(figure)])
    assert status == 0, errors
    assert "converted: 2 of 4 heads" in printed
    assert "predicted first loss " in printed
    assert figure.stat().st_size
    content = json.loads(plan.read_text())
    chosen = from_json(content)
    assert [list(cell) for cell in content["advice"]["chosen"]]
    status, as_json, _ = outcome([*line, "--json"])
    assert json.loads(as_json) == content["advice"]
    scores = {(one["layer"], one["head"]): one["nats"] for one in content["advice"]["scores"]}
    assert len(scores) == 4
    assert all(score > 0 for score in scores.values())
    cached = content["advice"]["cache_bytes_per_token"]
    assert cached["after"] == cached["before"] * 10 // 12  # two of twelve heads of keys and values
    assert content["advice"]["cache_bytes_of_first_token"] == 2 * 2 * 4
    printed = convert(work, tmp_path / "run", *text(work), variant=str(plan))
    assert icl.load(tmp_path / "run").plan == chosen
    assert "first loss" in printed
    described = outcome(["describe", str(work / "published"), "--variant", str(plan), "--json"])
    assert json.loads(described[1])["cache_bytes_of_first_token"] == 16
    generated = outcome(["generate", str(tmp_path / "run"), "--prompt", "one", "--tokens", "3", "--device", "cpu"])
    assert generated[0] == 0
    assert outcome(["export", str(tmp_path / "run"), "--out", str(tmp_path / "hf")])[0] == 0
    assert json.loads((tmp_path / "hf" / "config.json").read_text())["plan"] == to_json(chosen)
    refused([*line, "--out", str(plan)], "is there already")


def test_advice_for_a_training_uses_its_own_tokenizer(work):
    advice = advising.advise(
        work / "trained",
        choices=Choices(Sample(240), text=str(work / "book.txt"), context=12),
        device="cpu",
    )
    assert advice.cost > 0
    assert advice.plan.shape == resolve("vanilla", advice.plan.shape).shape


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (["convert", "{work}/published", "--how", "fit"], "name a file, a folder or stdlib by --text"),
        (["convert", "{work}/published", "--tokens", "100"], "--tokens is for the text that --text names"),
        (["convert", "{work}/published", "--from", "0.5"], "--from is for the text that --text names"),
        (["convert", "{work}/regression", "--how", "fit"], "was trained on regression"),
        (["convert", "{work}/published", "--how", "svd", "--variant", "svformer"], "leave it out, or say --how fit"),
        (["convert", "{work}/published", "--how", "svd", "--variant", "resformer"], "leave it out, or say --how fit"),
        (["convert", "{work}/published", "--variant", "{work}/nowhere.json"], "No such file"),
        (["convert", "{work}/published", "--variant", "{work}/other.json"], "is for 2 layers of 2 value heads"),
        (["convert", "{work}/published", "--variant", "{work}/damaged.json"], "holds no plan"),
        (["convert", "{work}/published", "--variant", "{work}/other.json:a=1"], "has no options"),
        (
            ["convert", "{work}/published", "--how", "fit", "--variant", "attnres", "--text", "x"],
            "what heads attend over",
        ),
    ],
)
def test_bad_conversions_are_one_line(work, tmp_path, line, says):
    (work / "other.json").write_text(json.dumps(to_json(resolve("vanilla", resolve_shape(2, 2)))))
    (work / "damaged.json").write_text("{")
    line = [part.format(work=work) for part in line]
    line += [] if "--variant" in line else ["--variant", "skipv1"]
    if "x" in line:
        line[line.index("x")] = str(work / "book.txt")
    refused([*line, "--out", str(tmp_path / "x")], says)


def resolve_shape(layers, heads):
    from theory.plans.plan import Shape

    return Shape(layers, heads)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--share", "0"], "--share must be above 0"),
        (["--share", "x"], "must be a share"),
        (["--share", "0.01"], "leaves no head to convert among 4"),
        (["--out", "{tmp}/plan.txt"], "must end in .json"),
        (["--figure", "{tmp}/x.doc"], "--figure must end in"),
        (["--variant", "attnres"], "change values alone"),
        (["--from", "1.5"], "or a share from 0 to 1"),
        (["--from", "0.9", "--to", "0.1"], "ends behind its beginning"),
    ],
)
def test_bad_requests_for_advice_are_one_line(work, tmp_path, more, says):
    more = [part.format(tmp=tmp_path) for part in more]
    refused(["advise", str(work / "published"), *text(work), *more, "--device", "cpu"], says)


def test_parts_belong_to_texts(work):
    refused(["evaluate", str(work / "trained"), "--from", "0.5"], "the text that --text names")
    refused(["evaluate", str(work / "published"), "--text", "random", "--to", "0.5"], "drawn at random have no parts")
    refused(["evaluate", str(work / "published"), "--tasks", "arc_easy", "--from", "0.5"], "--from is for losses")
