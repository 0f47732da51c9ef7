"""The text that trainings read, what a user is told of it, and how long it was trained on."""

import json
import shutil
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from experiments import catalogue
from experiments.cli import main
from experiments.store.folders import UserError
from experiments.training import text as text_data
from experiments.training.text import in_words, tokens_per_parameter
from experiments.verdicts.checks import Expectation, detected
from icl.data import shards
from theory.plans.accounting import total_parameters
from theory.plans.architecture import Tokens
from theory.plans.names import resolve


def test_text_is_a_folder_or_the_standard_library(data, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert text_data.prepared(str(data)) == data
    with pytest.raises(UserError, match="there is no folder stdlb; did you mean stdlib"):
        text_data.prepared("stdlb")
    with pytest.raises(UserError, match=r"there is no folder nowhere; make one with `crosslayer data prepare SOURCE"):
        text_data.prepared("nowhere")
    made = []
    monkeypatch.setattr(text_data, "prepare", lambda source, folder, vocab: made.append((source, str(folder), vocab)))
    folder = tmp_path / "cache" / "crosslayer" / "stdlib-512"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert text_data.prepared("stdlib", 512) == folder
    assert made == [("stdlib", str(folder), 512)]
    assert str(folder) in capsys.readouterr().err
    shutil.copytree(data, folder)
    assert text_data.prepared("stdlib", 512) == folder
    shutil.copytree(data, tmp_path / "data" / "stdlib-512")
    assert str(text_data.prepared("stdlib", 512)) == "data/stdlib-512"  # made here before there was the other place
    assert len(made) == 1
    assert not capsys.readouterr().err


def test_what_a_user_is_told_of_text(data):
    """As JSON, and the figures those of the files."""
    opened = shards.open_data(data)
    about = text_data.about(data, opened.manifest)
    assert json.loads(json.dumps(about, allow_nan=False)) == about
    assert about["train"]["documents"] + about["held_out"]["documents"] == 30
    assert (about["vocab"], about["folder"], about["digest"]) == (280, str(data), opened.manifest.digest)
    for split in ("train", "held_out"):
        assert about[split]["tokens"] == len(opened.tokens(split)) > 0
    assert about["megabytes"] == round(sum(path.stat().st_size for path in data.glob("*.bin")) / 1e6, 1)


ROOT = Path(__file__).resolve().parents[3]
PAGES = (ROOT / "results/FINDINGS.md", ROOT / "theory/resformer/CLAIMS.md")
CONFIGS = {
    f"{name}/{profile}": json.loads(json.dumps(asdict(about.config)))
    for name in catalogue.names("scale")
    for profile, about in catalogue.experiment(name).profiles.items()
}
ELSEWHERE = {"bridge", "ladder", "scale-decode", "reading", "trained-layers"}  # on prompts; of models that are given


@pytest.mark.parametrize("name", CONFIGS)
def test_every_experiment_that_trains_on_text_says_how_long(name):
    found = tokens_per_parameter(CONFIGS[name])
    assert bool(found) == (name.partition("/")[0] not in ELSEWHERE)
    assert all(x > 0 for x in found)
    assert bool(in_words(CONFIGS[name])) == bool(found)


def test_tokens_are_steps_times_a_batch_over_all_parameters_of_vanilla():
    config = catalogue.experiment("scale-uptrain").profiles["cpu"].config
    sizes = replace(config.architecture, stem=Tokens(config.vocab))
    parameters = total_parameters(sizes, resolve("vanilla", sizes.shape))
    tokens = config.recipe.steps * config.recipe.batch * sizes.context
    assert tokens_per_parameter(CONFIGS["scale-uptrain/cpu"]) == [tokens / parameters]
    assert in_words(CONFIGS["scale-uptrain/cpu"]).startswith("9.9 tokens of text per parameter")


def test_a_question_s_are_those_of_its_longest_trainings():
    assert tokens_per_parameter(CONFIGS["text-values/cpu"]) == [10.0, 20.0]
    assert in_words(CONFIGS["text-values/cpu"]).startswith("10 to 20 tokens of text per parameter")


@pytest.mark.parametrize("summary", sorted((ROOT / "results").rglob("summary.json")), ids=lambda p: p.parent.name)
def test_pages_that_tell_a_result_on_text_say_how_long_it_was_trained(summary):
    """Where a page links a result's figure, the number of tokens per parameter stands in the same section."""
    saved = json.loads(summary.read_text())
    found = tokens_per_parameter(saved["config"])
    if not found:
        return
    link = f"{summary.parent.relative_to(ROOT / 'results')}/figure.png"
    ends = " to ".join(dict.fromkeys(f"{x:.2g}" for x in (found[0], found[-1])))
    for page in PAGES:
        sections = [" ".join(some.split()) for some in page.read_text().split("\n## ") if link in some]
        assert not sections or any(f"{ends} tokens per parameter" in some for some in sections), page.name


def test_what_a_run_could_tell_is_the_median_half_width():
    def one(width, quantity="nats"):
        return Expectation("a", "a", "a", "a", "sign", 1.0, 0.1, 0.01, width, ((0.0, 0.1),), quantity=quantity)

    found = detected([one(0.1), one(0.3), one(0.2), one(9.0, "other"), one(float("nan"))])
    assert (found.size, found.count, found.quantity) == (0.2, 3, "nats")
    assert "0.2 (median half-width of 3 intervals: nats)" in found.words
    assert detected([]) is None


def test_compare_shows_both(capsys):
    assert main(["compare", "scale-uptrain", "--out", str(ROOT / "results")]) == 0
    out = capsys.readouterr().out
    assert "trained on: 9.9 tokens of text per parameter" in out
    assert "(median half-width of " in out
    assert "promised: " in out
