"""`crosslayer evaluate`: held-out losses are those of the training, by position, in bits; bad input is one line."""

import json
import math
from unittest import mock

import pytest
import torch

import icl
import theory
from experiments.cli import main
from experiments.commands import evaluation
from experiments.commands.evaluation_figure import first_position, stretches
from icl.data.tokenizers import saved_tokenizer
from icl.training.objectives import Batch, GivenTokens
from tests.experiments.cli.answers import outcome, prepare_text, refused, train
from tests.icl.data.small import write_tokenizer
from tests.icl.published.llama import CONFIG, state_dict, write

BIG = CONFIG | {"vocab_size": 320, "max_position_embeddings": 40}
SHORT = ["--batch", "4", "--steps", "20", "--log-every", "10"]
PROMPTS = "regression:d=2,n=3,sigma=0.1"


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    folder = tmp_path_factory.mktemp("evaluate")
    text = prepare_text(folder)
    for variant in ("vanilla", "skipv1"):
        train(folder / variant, *text, *SHORT, "--context", "16", "--learning-rate", "0.01", variant=variant)
    for name, data in (("regression", PROMPTS), ("last", f"{PROMPTS},scored=last")):
        train(folder / name, "--data", data, *SHORT)
    write(folder / "published", BIG, state_dict(BIG, dtype=torch.float32))
    write_tokenizer(folder / "published")
    return folder


@pytest.fixture
def evaluated(work, tmp_path):
    def run(*names, options=()):
        line = ["evaluate", *(str(work / name) for name in names), "--device", "cpu", "--out", str(tmp_path)]
        status, out, errors = outcome([*line, "--json", *options])
        assert status == 0, errors
        return json.loads(out)

    return run


@pytest.mark.long
def test_on_all_that_a_training_holds_out_losses_are_its_own(work, evaluated):
    record = evaluated("vanilla", "skipv1", options=["--tokens", "100000"])
    for found, name in zip(record["runs"], ("vanilla", "skipv1"), strict=True):
        own = json.loads((work / name / "summary.json").read_text())
        assert found["loss"]["mean"] == pytest.approx(own["loss"], rel=1e-5)
        assert len(found["by_position"]["mean"]) == 16
        assert sum(found["by_position"]["mean"]) / 16 == pytest.approx(found["loss"]["mean"], rel=1e-9)
    assert (record["kind"], record["regression"]) == ("evaluation", False)


def test_numbers_are_those_of_whole_passes(work, evaluated):
    """Of the last and the second of sixteen positions, and of bytes as the text has them."""
    (found,) = evaluated("skipv1", options=["--tokens", "64"])["runs"]
    model, folder = icl.load(work / "skipv1"), work / "text"
    from icl.data.shards import open_data
    from icl.training.objectives import TextTask

    batch = next(TextTask(open_data(folder), 16, 4, 4).held_out())
    with torch.no_grad():
        scores = model(batch.inputs).log_softmax(-1)
    losses = -scores.gather(-1, batch.targets[..., None])[..., 0].double()
    assert found["loss"]["mean"] == pytest.approx(float(losses.mean()), rel=1e-5)
    assert found["loss"]["stderr"] == pytest.approx(float(losses.mean(-1).std() / 2), rel=1e-5)
    score = (losses[:, -1] - losses[:, 1]).mean()
    assert found["in_context"]["mean"] == pytest.approx(float(score), rel=1e-5, abs=1e-6)
    text = [open_data(folder).tokenizer().decode(row) for row in batch.targets.tolist()]
    bits = float(losses.sum()) / math.log(2) / sum(len(part.encode()) for part in text)
    assert evaluation.bits_a_byte(found) == pytest.approx(bits, rel=1e-5)


@pytest.mark.long
def test_models_are_compared_sequence_by_sequence(work, evaluated):
    """Where they are asked about the same tokens; two that answer alike differ by nothing, however hard the text."""
    first, same, other = evaluated("vanilla", "vanilla", "skipv1")["runs"]
    assert "less_first" not in first
    assert same["less_first"] == {"mean": 0.0, "stderr": 0.0}
    apart = [a - b for a, b in zip(other["by_sequence"], first["by_sequence"], strict=True)]
    mean = sum(apart) / len(apart)
    assert len(apart) == other["sequences"]
    assert mean == pytest.approx(other["loss"]["mean"] - first["loss"]["mean"], abs=1e-12)
    spread = sum((x - mean) ** 2 for x in apart) / (len(apart) - 1) / len(apart)
    assert other["less_first"]["mean"] == pytest.approx(mean, rel=1e-12)
    assert other["less_first"]["stderr"] == pytest.approx(spread**0.5, rel=1e-12)
    assert other["less_first"]["stderr"] < other["loss"]["stderr"]
    one, two = evaluated("vanilla", "published", options=["--text", str(work / "corpus"), "--context", "16"])["runs"]
    assert "less_first" not in two  # other tokens of the same text
    assert one["asked"] != two["asked"]


@pytest.mark.usefixtures("fine_figures")
@pytest.mark.long
def test_words(work, tmp_path):
    line = ["evaluate", str(work / "vanilla"), str(work / "skipv1"), "--device", "cpu", "--out", str(tmp_path)]
    status, out, _ = outcome(line)
    assert status == 0
    assert out.count("nats per token, perplexity ") == out.count(" bits per byte") == 2
    assert out.count("  minus vanilla's, sequence by sequence: ") == 1
    (folder,) = (tmp_path / "evaluate").iterdir()
    assert {p.name for p in folder.iterdir()} >= {"figure.png", "figure.svg", "summary.json"}
    before = (folder / "summary.json").stat().st_mtime_ns
    with mock.patch("experiments.commands.evaluation.losses", side_effect=AssertionError):
        assert outcome(line)[1] == out  # what is there is kept
    assert (folder / "summary.json").stat().st_mtime_ns >= before


@pytest.mark.long
def test_words_on_prompts(work, evaluated, tmp_path):
    """The loss after all pairs, which `predict` is about, is told from the mean, and stands where `train` has it."""
    for name, answers in (("regression", 4), ("last", 1)):
        line = ["evaluate", str(work / name), "--device", "cpu", "--out", str(tmp_path), "--tokens", "100000"]
        status, out, _ = outcome(line)
        assert status == 0
        (found,) = evaluated(name, options=["--tokens", "100000"])["runs"]
        last = found["by_position"]["mean"][-1]
        own = json.loads((work / name / "summary.json").read_text())["held_out"]["loss"]
        assert len(own) == len(found["by_position"]["mean"]) == answers
        assert last == pytest.approx(own[-1], rel=1e-5)
        assert f"held-out loss {last:.4f} +- " in out
        assert "after n = 3 pairs" in out
        assert ("the mean over the answers after 0 to 3 pairs" in out) == (answers > 1)
        assert ("minus the second tenth" in out) == (answers > 1) == (found["in_context"] is not None)
        assert first_position(found) == 4 - answers
        assert stretches(found["by_position"], first=first_position(found))[0][-1] == 3


@pytest.mark.parametrize(("count", "told"), [(1, False), (2, False), (3, True), (40, True)])
def test_no_learning_is_told_of_positions_that_are_the_same(count, told):
    class Of:
        tokens = count

        def losses(self, answer, targets):
            return answer - targets

    batch = Batch(torch.rand(4, count), torch.zeros(4, count))
    found = evaluation.losses(lambda inputs: inputs, Of(), [batch])
    assert (found["in_context"] is not None) == told


def test_what_was_trained_on_regression_says_so_wherever_it_is_asked_about_text(work, tmp_path):
    (tmp_path / "short.txt").write_text("some words\n" * 50)
    lines = (
        ["evaluate", str(work / "regression"), "--text", str(tmp_path / "short.txt")],
        ["probe", str(work / "regression"), "--text", "stdlib"],
        ["generate", str(work / "regression")],
    )
    for line in lines:
        line += [] if line[0] == "generate" else ["--out", str(tmp_path)]
        assert refused(line, "") == f"crosslayer: {work / 'regression'} was trained on regression: it has no text\n"


@pytest.mark.long
def test_of_regression_and_of_others(work, evaluated, tmp_path):
    (found,) = evaluated("regression")["runs"]
    assert len(found["by_position"]["mean"]) == 4
    assert "bytes_a_token" not in found
    (found,) = evaluated("published", options=["--text", str(work / "corpus"), "--tokens", "200"])["runs"]
    assert found["data"] == f"the text of {work / 'corpus'}"
    assert found["bytes_a_token"] >= 1
    assert main(["import", str(work / "published"), "--out", str(tmp_path / "run")]) == 0
    options = ["--text", str(work / "corpus"), "--tokens", "200", "--out", str(tmp_path / "out"), "--json"]
    imported = outcome(["evaluate", str(tmp_path / "run"), *options])
    (again,) = json.loads(imported[1])["runs"]
    assert again["loss"] == found["loss"]
    (work / "published" / "tokenizer.json").rename(work / "published" / "hidden")
    try:
        (found,) = evaluated("published", options=["--tokens", "200"])["runs"]
        assert found["bytes_a_token"] is None
        assert evaluation.bits_a_byte(found) is None
    finally:
        (work / "published" / "hidden").rename(work / "published" / "tokenizer.json")


@pytest.mark.long
def test_trainings_and_others_are_asked_about_one_text(work, evaluated):
    """By their own tokenizers; bits a byte can be compared, and cut characters cost nothing."""
    runs = evaluated("vanilla", "published", options=["--text", str(work / "corpus"), "--context", "16"])["runs"]
    assert {run["data"] for run in runs} == {f"the text of {work / 'corpus'}"}
    own = saved_tokenizer(work / "vanilla")
    (ids,) = own.encode(["\u65e5\u672c words"])
    assert own.spelt([*ids, own.end], 0) == len("\u65e5\u672c words".encode())
    assert sum(own.spelt([i], 0) for i in ids) == own.spelt(ids, 0)


def test_a_model_that_learns_within_a_sequence_has_a_negative_score():
    falling = torch.linspace(3, 1, 40).expand(5, 40)
    assert evaluation.in_context(falling).mean() < -1
    assert evaluation.in_context(torch.ones(5, 40)).abs().max() == 0
    early, late = torch.zeros(1, 40), torch.zeros(1, 40)
    early[:, 4:8], late[:, 36:] = 1, 1
    assert (float(evaluation.in_context(early)), float(evaluation.in_context(late))) == (-1, 1)
    assert float(evaluation.in_context(torch.tensor([[5.0, 3.0]]))) == 0  # of two positions, one is both


def test_stretches_of_positions_hold_every_position_once():
    assert stretches({"mean": [5.0, 4.0, 3.0], "stderr": [0.1] * 3}, first=0)[0].tolist() == [0, 1, 2]
    for count in (1, 2, 3, 40, 500):
        x, mean, _ = stretches({"mean": list(range(count)), "stderr": [0.1] * count})
        assert x[0] == 1
        assert (x - 1 == mean).all()
        assert len(x) <= 40


@pytest.mark.parametrize(
    ("names", "options", "says"),
    [
        (["nowhere"], [], "no such folder"),
        (["corpus"], [], "no training's folder"),
        (["vanilla", "regression"], [], "share no axes"),
        (["vanilla"], ["--tokens", "16"], "two sequences or more"),
        (["vanilla", "published"], [], "cannot stand side by side; say --text for all"),
        (["vanilla"], ["--variant", "skipv1"], "--variant is for published weights"),
        (["regression"], ["--context", "4"], "--context is for text"),
        (["published"], ["--context", "41"], "more than the 40 tokens"),
    ],
)
def test_bad_input_is_one_line(work, names, options, says, tmp_path):
    refused(["evaluate", *(str(work / n) for n in names), *options, "--out", str(tmp_path)], says)


@pytest.mark.long
def test_recall_is_trained_and_evaluated_in_nats_a_query(work, tmp_path):
    line = ["train", "--preset", "llama-2m", "--width", "16", "--layers", "2", "--heads", "2", "--batch", "32"]
    line += ["--data", "recall:pairs=2,keys=3,values=4", "--steps", "60", "--learning-rate", "0.02"]
    status, out, errors = outcome([*line, "--device", "cpu", "--out", str(tmp_path)])
    assert status == 0, errors
    assert "nats per query; 0.6931 guess among the 2 values there, 1.3863 among all\n" in out
    (folder,) = (tmp_path / "train").iterdir()
    assert (folder / "figure.png").is_file()
    loss = json.loads((folder / "summary.json").read_text())["loss"]
    assert loss < 1
    status, out, errors = outcome(["evaluate", str(folder), "--device", "cpu", "--out", str(tmp_path)])
    assert status == 0, errors
    assert f"held-out loss {loss:.4f}" in out
    assert "nats per query, perplexity" in out
    assert "tokens of recall of 2 pairs" in out
    apart = f"{folder} was trained on recall and {work / 'regression'} on regression: they share no axes"
    refused(["evaluate", str(folder), str(work / "regression"), "--out", str(tmp_path)], apart)
    refused(["generate", str(folder), "--prompt", "a"], f"crosslayer: {folder} was trained on recall: it has no text\n")


@pytest.mark.long
def test_prompts_show_what_the_toys_say(work, tmp_path):
    train(tmp_path / "skipv1", "--data", PROMPTS, *SHORT, variant="skipv1")
    line = ["evaluate", str(work / "regression"), str(tmp_path / "skipv1"), "--device", "cpu", "--out", str(tmp_path)]
    status, out, errors = outcome(line)
    assert status == 0, errors
    difference = (theory.predict(v, d=2, n=3, sigma=0.1, rank=a).loss for v, a in (("skipv1", 2), ("vanilla", 1)))
    assert f"; of their toys: {next(difference) - next(difference):+.4f}\n" in out
    assert out.count("predicting zero") == 2
    record = json.loads(outcome([*line, "--json"])[1])
    first, other = record["runs"]
    last = [run["by_position"]["mean"][-1] for run in (other, first)]
    assert other["last_less_first"]["mean"] == pytest.approx(last[0] - last[1], rel=1e-6, abs=1e-9)


def test_losses_do_not_depend_on_how_many_scores_are_made_at_a_time(work, monkeypatch):
    model = icl.load(work / "vanilla")
    tokens = torch.randint(model.config.stem.vocab, (6, 17), generator=torch.Generator().manual_seed(0))
    task = GivenTokens(tokens.numpy())
    batches = [Batch(tokens[:, :-1], tokens[:, 1:])]
    whole = evaluation.losses(model, task, batches)
    with torch.no_grad():
        plain = torch.nn.functional.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
    assert whole["loss"]["mean"] == pytest.approx(float(plain), rel=1e-5)
    seen = []
    answer = type(model.stem).answer
    monkeypatch.setattr(type(model.stem), "answer", lambda stem, x: seen.append(x.shape[1]) or answer(stem, x))
    monkeypatch.setattr("experiments.training.by_layer.SCORES", 6 * model.config.stem.vocab * 5)
    parts = evaluation.losses(model, task, batches)
    assert seen == [5, 5, 5, 1]
    assert parts["by_sequence"] == pytest.approx(whole["by_sequence"], rel=1e-5)
    assert parts["by_sequence"] != pytest.approx(whole["by_sequence"][::-1], rel=1e-3)
