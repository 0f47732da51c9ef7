"""`crosslayer evaluate --tasks`: the harness's own answers; where it is not installed, that it is said."""

import json
import shutil
from importlib.util import find_spec

import pytest

import icl
from experiments.commands.harness import likelihoods
from icl.models.scoring import score
from tests.experiments.cli.answers import outcome, prepare_text, refused, train

HARNESS = find_spec("lm_eval") is not None
CHOICE = """task: {name}
dataset_path: json
dataset_kwargs:
  data_files: {data}
test_split: train
output_type: {kind}
doc_to_text: "{{{{question}}}}"
{rest}
"""
REST = {
    "multiple_choice": 'doc_to_choice: "{{choices}}"\ndoc_to_target: "{{label}}"\nmetric_list:\n  - metric: acc\n'
    "  - metric: acc_norm",
    "loglikelihood_rolling": 'doc_to_target: "{{question}}"\nmetric_list:\n  - metric: word_perplexity\n'
    "  - metric: bits_per_byte",
    "generate_until": 'doc_to_target: "{{choices[0]}}"\ngeneration_kwargs:\n  until: ["\\n"]\n  max_gen_toks: 6\n'
    "metric_list:\n  - metric: exact_match",
}

SHORT = ["--steps", "20", "--context", "32", "--batch", "4", "--learning-rate", "0.01"]


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A training, and tasks of three kinds beside it."""
    folder = tmp_path_factory.mktemp("tasks")
    train(folder / "run", *prepare_text(folder), *SHORT)
    questions = [
        {"question": f"{a} and {b} make", "choices": [f" {a + b}", f" {a * b}", " text"], "label": a % 3}
        for a in range(4)
        for b in range(5)
    ]
    (folder / "tasks").mkdir()
    data = folder / "questions.jsonl"
    data.write_text("\n".join(map(json.dumps, questions)))
    for kind, rest in REST.items():
        text = CHOICE.format(name=f"tiny_{kind}", data=data, kind=kind, rest=rest)
        (folder / "tasks" / f"{kind}.yaml").write_text(text)
    return folder


@pytest.mark.skipif(HARNESS, reason="lm-eval is installed")
def test_a_missing_harness_is_one_line(work, tmp_path):
    refused(["evaluate", f"{work}/run", "--tasks", "arc_easy", "--out", str(tmp_path)], "pip install -e '.[eval]'")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--fewshot", "1"], "--fewshot is for --tasks"),
        (["--tasks-from", "x"], "--tasks-from is for --tasks"),
        (["--tasks", ","], "name one or more"),
        (["--tasks", "x", "--tokens", "64"], "--tokens is for losses"),
        (["--tasks", "x", "--text", "stdlib"], "--text is for losses"),
    ],
)
def test_bad_input_is_one_line(work, tmp_path, options, says):
    refused(["evaluate", str(work / "run"), *options, "--out", str(tmp_path)], says)
    assert not list(tmp_path.iterdir())


def test_a_continuation_without_a_token_is_certain_and_ends_nothing(work, capsys):
    model, prefix = icl.load(work / "run"), 7
    pairs = [([1, 2], [3, 4]), ([1, 2], []), ([], [5]), ([], [])]
    found = likelihoods(model, pairs, prefix)
    expected = score(model, [([1, 2], [3, 4]), ([prefix], [5])])
    assert found[1] == found[3] == (0.0, True)
    assert [found[0], found[2]] == [(one.log_likelihood, one.greedy) for one in expected]
    assert capsys.readouterr().err == "crosslayer: 2 of 4 continuations hold no token and count as certain\n"
    assert likelihoods(model, pairs[:1], prefix) == found[:1]
    assert likelihoods(model, pairs[1:2], prefix) == [(0.0, True)]


@pytest.mark.skipif(not HARNESS, reason="the extra eval is not installed")
@pytest.mark.filterwarnings("ignore")
def test_the_harness_finds_what_it_finds_of_the_same_model_in_transformers(work, tmp_path):
    pytest.importorskip("transformers")
    from lm_eval.evaluator import simple_evaluate
    from lm_eval.models.huggingface import HFLM
    from lm_eval.tasks import TaskManager

    names = [f"tiny_{kind}" for kind in REST]
    line = ["evaluate", str(work / "run"), "--tasks", ",".join(names), "--tasks-from", str(work / "tasks")]
    line += ["--device", "cpu", "--json", "--out", str(tmp_path)]
    status, out, errors = outcome(line)
    assert status == 0, errors
    found = json.loads(out)["runs"][0]["results"]
    assert outcome(["export", str(work / "run"), "--out", str(tmp_path / "hf")])[0] == 0
    theirs = HFLM(pretrained=str(tmp_path / "hf"), device="cpu", dtype="float32", batch_size=4)
    tasks = TaskManager(include_path=str(work / "tasks"))
    expected = simple_evaluate(model=theirs, tasks=names, task_manager=tasks, bootstrap_iters=0)["results"]
    for name in names:
        numbers = {key: x for key, x in found[name].items() if isinstance(x, float)}
        assert numbers
        for key, x in numbers.items():
            assert x == pytest.approx(expected[name][key], rel=1e-4), (name, key)
    assert json.loads(outcome(line)[1])["runs"][0]["results"] == found


@pytest.mark.skipif(not HARNESS, reason="the extra eval is not installed")
@pytest.mark.filterwarnings("ignore")
def test_unknown_tasks_are_one_line(work, tmp_path):
    status, out, errors = outcome(["evaluate", str(work / "run"), "--tasks", "no_such", "--out", str(tmp_path)])
    assert (status, out) == (2, "")
    assert "the harness knows no task 'no_such'" in errors.splitlines()[-1]


DAMAGE = {
    "output_type: loglikelihood_rolling": ("output_type: foo", ""),
    "max_gen_toks: 6": ("max_gen_toks: abc", ""),
    'doc_to_text: "{{question}}"': ('doc_to_text: "{{question"', ""),
    "doc_to_choice": ('doc_to_choice: "{{[question * 40, question]}}"\n# ', "longer than the context of 32"),
    "task: tiny_multiple_choice": ("task: [", "cannot read its file"),
}


@pytest.mark.skipif(not HARNESS, reason="the extra eval is not installed")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("before", DAMAGE)
def test_damaged_tasks_are_one_line_and_leave_nothing(work, tmp_path, before):
    after, says = DAMAGE[before]
    shutil.copytree(work / "tasks", tmp_path / "tasks")
    path = next(p for p in sorted((tmp_path / "tasks").iterdir()) if before in p.read_text())
    path.write_text(path.read_text().replace(before, after, 1))
    line = ["evaluate", str(work / "run"), "--tasks", f"tiny_{path.stem}", "--tasks-from", str(tmp_path / "tasks")]
    status, out, errors = outcome([*line, "--device", "cpu", "--out", str(tmp_path / "out")])
    assert (status, out) == (2, ""), errors
    assert errors.splitlines()[-1].startswith("crosslayer: ")
    assert says in errors.splitlines()[-1], errors
    assert not list((tmp_path / "out").glob("tasks/*/summary.json"))


@pytest.mark.skipif(not HARNESS, reason="the extra eval is not installed")
@pytest.mark.filterwarnings("ignore")
def test_a_task_that_was_changed_is_asked_again(work, tmp_path):
    shutil.copytree(work / "tasks", tmp_path / "tasks")
    line = ["evaluate", str(work / "run"), "--tasks", "tiny_multiple_choice", "--tasks-from", str(tmp_path / "tasks")]
    line += ["--device", "cpu", "--json", "--out", str(tmp_path / "out")]
    first = json.loads(outcome(line)[1])
    path = tmp_path / "tasks" / "multiple_choice.yaml"
    path.write_text(path.read_text().replace('"{{label}}"', '"{{2 - label}}"'))
    second = json.loads(outcome(line)[1])
    assert first["folder"] != second["folder"]
    assert first["runs"][0]["results"] != second["runs"][0]["results"]
