"""`crosslayer probe` of trainings and of published weights: what layers do, measured, kept and drawn; bad input."""

import json
import math
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

import icl
from experiments.cli import main
from experiments.commands import probing, subjects
from experiments.commands.layer_figures import PANELS
from experiments.drawing import style
from experiments.store.folders import UserError
from experiments.training.by_layer import Sample
from experiments.training.layer_probes import FAMILIES
from tests.experiments.cli.answers import outcome, prepare_text, refused, train
from tests.icl.data.small import write_tokenizer
from tests.icl.published.llama import CONFIG, published_from, state_dict, write
from theory.plans.written import to_json
from theory.resformer import measures

TOKENS = 16  # a sequence of text
LAYERS = 4
TEXT = ["--context", str(TOKENS), "--batch", "2", "--steps", "4", "--log-every", "2", "--learning-rate", "0.01"]
PROMPTS = ["--data", "regression:d=2,n=3,sigma=0.1", "--steps", "2", "--log-every", "2", "--batch", "2"]
PLAN = (
    "from theory.plans.plan import plan, v\n\n\ndef mine(shape):\n    return plan(shape, values=lambda n, h: v(1, h))\n"
)
BIG = CONFIG | {"vocab_size": 320, "max_position_embeddings": 40, "tie_word_embeddings": True}


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """Trainings of a text, of prompts and of a user's own plan, and published weights, by name."""
    folder = tmp_path_factory.mktemp("probe")
    (folder / "plan.py").write_text(PLAN)
    text = [*prepare_text(folder), *TEXT]
    for name, variant in (("vanilla", "vanilla"), ("resformer", "resformer"), ("mine", f"{folder}/plan.py:mine")):
        train(folder / name, *text, variant=variant)
    train(folder / "regression", *PROMPTS)
    train(folder / "one head", *text, "--heads", "1")
    for name in ("with", "without"):
        write(folder / name, BIG, state_dict(BIG, dtype=torch.float32), shards=2)
    write_tokenizer(folder / "with", ("<s>",))
    return folder


@pytest.fixture(autouse=True)
def undrawn(request, monkeypatch):
    """Figures are seen to by one test, which wants them fine, and take most of the time."""
    if "fine_figures" not in request.fixturenames:
        monkeypatch.setattr("experiments.commands.layer_figures.draw", lambda *_: None)


@pytest.fixture
def probed(work, tmp_path, capsys):
    """What the command prints for folders by name; as JSON what it says."""

    def run(*names, options=(), words=False):
        capsys.readouterr()
        command = ["probe", *(str(work / name) for name in names), "--device", "cpu", "--out", str(tmp_path)]
        assert main([*command, *([] if words else ["--json"]), *options]) == 0
        out = capsys.readouterr().out
        return out if words else json.loads(out)

    return run


@pytest.mark.long
@pytest.mark.usefixtures("fine_figures")
def test_every_family_of_two_runs(work, probed, tmp_path, monkeypatch):
    """Numbers by layer, a figure each; what can be said of them without measuring holds."""
    in_dots = style.save_as

    def in_lines(fig, path):
        """But for one: dots take long."""
        if path.stem == "lens" or path.suffix == ".svg":
            in_dots(fig, path)

    monkeypatch.setattr(style, "save_as", in_lines)
    record = probed("vanilla", "resformer")
    (folder,) = (tmp_path / "probe").iterdir()
    assert record["folder"] == str(folder)
    assert list(record["families"]) == list(FAMILIES) == list(PANELS)
    assert {path.stem for path in folder.glob("*.svg")} == {*FAMILIES, "norms-2"}
    assert (folder / "lens.png").stat().st_size
    assert [run["name"] for run in record["runs"]] == ["vanilla", "resformer"]
    kept = json.loads((folder / "summary.json").read_text())
    assert {**record, "sha256": kept["sha256"]} == {**kept, "folder": str(folder)}
    assert record["runs"][0]["sequences"] * TOKENS == record["runs"][0]["tokens"]
    for place, name in enumerate(("vanilla", "resformer")):
        found = {family: results[place] for family, results in record["families"].items()}
        trained = json.loads((work / name / "summary.json").read_text())
        losses = found["lens"]["loss"]["mean"]
        assert losses[-1] == pytest.approx(trained["loss"], rel=1e-5)  # all that is held out, and it is fp32
        assert len(losses) == len(found["lens"]["previous"]) == len(found["similarity"]["similarity"]["mean"]) == 5
        assert found["entropy"]["uniform"] == pytest.approx(
            measures.entropy(measures.uniform_causal_importance(TOKENS)), rel=1e-12
        )
        assert all(0 < e < math.log(TOKENS) for e in found["entropy"]["entropy"]["mean"])
        assert np.allclose(np.sum(found["importance"]["by_position"]["mean"], axis=1), 1, atol=1e-6)
        assert [row[0] for row in found["importance"]["by_position"]["mean"]] == found["importance"]["first"]["mean"]
        assert np.array(found["spectrum"]["eigenvalues"]["mean"]).shape == (LAYERS, 16)
        assert np.array(found["heads"]["matrix"]["mean"]).shape == (LAYERS, 2, 2)
        assert all(-1 <= cosine <= 1 for cosine in found["heads"]["cosine"]["mean"])
        assert all(norm > 0 for norm in found["gradients"]["gradient"]["mean"])
        assert all(0 < share < 1 for share in found["induction"]["best_induction"]["mean"])
        assert found["entropy"]["attending"] == [1, 2, 3, 4]


@pytest.mark.long
def test_resformer_s_values_are_those_it_attends_over(probed):
    """Same initial weights and, in layer 1, nearly the same values; after it, half of two: smaller ones."""
    record = probed("vanilla", "resformer", options=["--what", "norms"])
    ours, theirs = (result["value_others"]["mean"] for result in record["families"]["norms"])
    assert ours[0] == pytest.approx(theirs[0], rel=0.2)
    assert all(a > b for a, b in zip(ours[1:], theirs[1:], strict=True))


def test_what_is_there_is_not_measured_again(probed, tmp_path, monkeypatch):
    record = probed("vanilla", options=["--what", "entropy,norms"])
    assert list(record["families"]) == ["entropy", "norms"]
    lines = (tmp_path / "probe").glob("*/metrics.jsonl")
    before = next(iter(lines)).read_text()
    for family in ("entropy", "norms"):
        monkeypatch.setitem(FAMILIES, family, replace(FAMILIES[family], measure=None))  # it would not be measured
    monkeypatch.setattr("experiments.commands.probing.families", lambda *_: ["norms", "entropy", "similarity"])
    again = probed("vanilla", options=["--what", "norms,entropy,similarity"])
    assert list(again["families"]) == ["norms", "entropy", "similarity"]
    assert again["families"]["norms"] == record["families"]["norms"]
    (after,) = (path.read_text() for path in (tmp_path / "probe").glob("*/metrics.jsonl"))
    assert after.startswith(before)
    assert after.count("\n") == 3
    assert again["runs"] == record["runs"]


def test_of_prompts(probed, work):
    """In squared units; the lens at the end is the held-out loss; a single batch has no probe, and no panel for it."""
    (lens,) = probed("regression", options=["--tokens", str(10**7), "--what", "lens"])["families"]["lens"]
    trained = json.loads((work / "regression" / "summary.json").read_text())
    assert lens["loss"]["mean"][-1] == pytest.approx(trained["loss"], rel=1e-5)
    out = probed("regression", options=["--what", "lens", "--tokens", "99"], words=True)
    assert "14 sequences, 98 tokens" in out
    assert "lens: logit lens" in out
    assert "held-out" not in out


def test_by_default_all_that_can_be_asked_is(work):
    for names, left_out in (
        (["vanilla", "mine"], []),
        (["regression"], ["induction"]),
        (["vanilla", "one head"], ["heads"]),
    ):
        found = probing.families([subjects.subject(work / name) for name in names], None)
        assert found == [name for name in FAMILIES if name not in left_out]


@pytest.mark.long
def test_published_weights_are_measured_as_a_run_s(work, probed, tmp_path):
    """A run's weights, saved as LLaMA's are, give the same numbers on the run's text; and the run's on theirs."""
    folder, run, corpus = tmp_path / "llama", work / "resformer", str(work / "corpus")
    published_from(icl.load(run), folder)
    shutil.copy(work / "text" / "tokenizer.json", folder)
    sample, few = Sample(10 * TOKENS, 5), ["--tokens", str(10 * TOKENS), "--batch", "5"]
    theirs = subjects.subject(folder, subjects.Choices(sample, variant="resformer", text=corpus))
    of_run = probed("resformer", options=few)
    of_folder = probed(folder, options=[*few, "--variant", "resformer", "--text", corpus])
    for record, model, one in (
        (of_run, icl.load_published(folder, variant="resformer"), subjects.subject(run)),
        (of_folder, icl.load(run), theirs),
    ):
        task = one.task()
        batches = sample.batches(task, "cpu")
        assert record["runs"][0]["sequences"] == sum(len(batch.inputs) for batch in batches) == 10
        assert list(record["families"]) == list(FAMILIES)
        for name, (result,) in record["families"].items():
            assert FAMILIES[name].measure(model, task, batches) == result


def test_shorter_sequences_of_the_same_text(probed):
    """The same tokens, twice as many sequences; of eight tokens, attention is spread over eight at most."""
    whole, halves = (probed("vanilla", options=["--what", "entropy", *more]) for more in ([], ["--context", "8"]))
    assert halves["runs"][0]["sequences"] == 2 * whole["runs"][0]["sequences"]
    assert halves["runs"][0]["tokens"] == whole["runs"][0]["tokens"]
    (of_whole,), (of_halves,) = (record["families"]["entropy"] for record in (whole, halves))
    assert of_halves["uniform"] < of_whole["uniform"]
    assert max(of_halves["entropy"]["mean"]) < math.log(8) < max(of_whole["entropy"]["mean"])


def test_a_plan_of_one_s_own(probed):
    """Layer 1's values everywhere: as large in every layer."""
    (norms,) = probed("mine", options=["--what", "norms"])["families"]["norms"]
    assert len({round(norm, 12) for norm in norms["value_others"]["mean"]}) == 1


def test_what_a_layer_does_not_project_is_not_shown(probed):
    """Every layer of vanilla projects values; of our own plan, the first alone."""
    (mine,) = probed("mine", options=["--what", "spectrum"])["families"]["spectrum"]
    assert [value is None for value in mine["own"]["mean"]] == [False, True, True, True]
    assert mine["own"]["mean"][0] == pytest.approx(mine["largest"]["mean"][3], rel=1e-12)
    lines = probed("vanilla", "mine", options=["--what", "spectrum"], words=True).splitlines()
    (start,) = (number for number, line in enumerate(lines) if "of what the layer projects" in line)
    assert [line.split().count("-") for line in lines[start + 2 : start + 4]] == [0, 3]


def test_runs_of_one_name_are_told_apart(probed):
    one, other = probed("vanilla", "vanilla", options=["--what", "similarity"], words=True).splitlines()[-3:-1]
    assert one.split("(1)") != [one]
    assert one.replace("(1)", "(2)") == other


def test_text_that_has_moved(work, probed, tmp_path):
    (work / "text").rename(work / "moved")
    try:
        line = ["probe", str(work / "vanilla"), "--what", "entropy", "--out", str(tmp_path)]
        assert "say --data FOLDER" in outcome(line)[2]
        found = probed("vanilla", options=["--what", "entropy", "--data", str(work / "moved")])
        assert list(found["families"]) == ["entropy"]
    finally:
        (work / "moved").rename(work / "text")


@pytest.mark.parametrize(
    ("runs", "options", "message"),
    [
        (["vanilla"], ["--what", "entropy,entropie"], "unknown probe 'entropie'; did you mean entropy"),
        (["vanilla"], ["--what", ""], "unknown probe ''"),
        (["vanilla"], ["--tokens", "31"], "two sequences or more"),
        (["vanilla"], ["--tokens", "0"], "--tokens must be at least 1"),
        (["vanilla"], ["--batch", "x"], "--batch must be a whole number"),
        (["vanilla"], ["--device", "tpu"], "--device must be"),
        (["regression"], ["--what", "entropy,induction"], "induction needs a model that reads tokens"),
        (["regression"], ["--data", "nowhere"], "was trained on regression"),
        (["regression"], ["--context", "4"], "--context is for text"),
        (["vanilla"], ["--context", "17"], "--context 17 is more than the 16 tokens of"),
        (["vanilla"], ["--context", "1"], "--context must be at least 2"),
        (["regression"], ["--text", "stdlib"], "was trained on regression: it has no text"),
        (["vanilla"], ["--variant", "resformer"], "--variant is for published weights"),
        (["vanilla", "regression"], [], "they share no axes"),
        (["one head"], ["--what", "heads"], "compares heads, of which there is one"),
        (["nowhere"], [], "no such folder"),
        (["empty"], [], "is no training's folder"),
        (["unfinished"], [], "is not finished"),
        (["weightless"], [], "its weights are missing"),
        (["damaged"], ["--what", "entropy"], "is damaged"),
        (["foreign"], [], "is damaged; train it again"),
        (["unnamed"], [], "was trained under a plan that no name stands for"),
        (["planless"], ["--what", "entropy"], "holds no plan.json"),
        (["other"], ["--what", "entropy"], "is another plan than the one that was trained"),
    ],
)
def test_bad_input_is_one_line(runs, options, message, work, tmp_path):
    names = ("unfinished", "weightless", "damaged", "foreign", "unnamed", "planless", "other")
    copies = {name: tmp_path / name for name in names}
    (tmp_path / "empty").mkdir()
    for name, copy in copies.items():
        shutil.copytree(work / ("mine" if name in ("planless", "other") else "vanilla"), copy)
    (copies["unfinished"] / "summary.json").unlink()
    (copies["weightless"] / "model.safetensors").unlink()
    (copies["damaged"] / "model.safetensors").write_bytes(b"nothing")
    (copies["planless"] / "plan.json").unlink()  # as of before plans were written down
    (copies["other"] / "plan.json").write_text(json.dumps(to_json(icl.load(work / "vanilla").plan)))
    (copies["foreign"] / "config.json").unlink()  # as of before there were digests
    (copies["foreign"] / "summary.json").write_text('{"arm": {}}')
    (copies["unnamed"] / "config.json").unlink()
    record = json.loads((copies["unnamed"] / "summary.json").read_text())
    unnamed = {**record, "arm": {**record["arm"], "variant": "plan-012345", "plan": "Plan(...)"}}
    (copies["unnamed"] / "summary.json").write_text(json.dumps({k: v for k, v in unnamed.items() if k != "sha256"}))
    places = [str(work / name if (work / name).exists() else tmp_path / name) for name in runs]
    refused(["probe", *places, "--out", str(tmp_path / "out"), *options], message)


# Published weights: which text, what is said of it, and what is refused.

FEW, SIMILARITY = ["--tokens", "200"], ["--what", "similarity"]


def test_its_own_tokenizer_decides_what_is_read(work, probed):
    """Text behind a mark, the same in every sequence: what enters layer 1 there has one norm.  By default stdlib."""
    record = probed("with", options=["--text", str(work / "corpus"), *FEW])
    assert list(record["families"]) == list(FAMILIES)
    (about,) = record["runs"]
    assert (about["name"], about["seed"], about["sequences"], about["tokens"]) == ("with", None, 5, 200)
    assert about["data"] == f"the text of {work / 'corpus'}"
    assert about["folder"] == str(work / "with")
    norms = record["families"]["norms"][0]["state_by_position"]
    mark = float(state_dict(BIG)["model.embed_tokens.weight"][0].norm())
    assert norms["mean"][0][0] == pytest.approx(mark, rel=1e-6)
    assert norms["stderr"][0][0] < 1e-6 < norms["stderr"][0][1]
    assert "200 tokens of the text of stdlib; " in probed("with", options=[*SIMILARITY, *FEW], words=True)


def test_without_a_tokenizer_tokens_are_random(probed):
    options = [*SIMILARITY, *FEW]
    assert "5 sequences, 200 tokens of text drawn at random; " in probed("without", options=options, words=True)
    out = probed("with", "without", options=[*options, "--text", "random", "--context", "10"], words=True)
    lines = out.splitlines()
    assert [line.split(":")[1].startswith(" 20 sequences, 200 tokens") for line in lines[:2]] == [True, True]
    assert lines[-3].split()[1:] == lines[-2].split()[1:]  # the same weights


def test_what_is_kept_is_that_of_the_same_question(work, probed, tmp_path):
    """Another text, context, variant or theta is another folder; the same question finds what is there."""
    (work / "more").mkdir()
    (work / "more" / "text").write_text("another text " * 100)
    what = [*SIMILARITY, *FEW, "--text", str(work / "corpus")]
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
    one = subjects.subject(work / "with", subjects.Choices(text="random"))
    monkeypatch.setattr("theory.machine.memory", lambda: 10_000)
    with pytest.raises(UserError, match="of memory for its weights alone"):
        one.model_folder.model("cpu")


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
def test_bad_input_on_published_weights_is_one_line(names, options, message, work, tmp_path):
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
