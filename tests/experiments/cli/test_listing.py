"""What `list` shows: a kind of thing, filtered by words."""

import json

import pytest

from experiments import catalogue
from experiments.cli import main
from tests.experiments.cli.answers import outcome
from theory.plans.presets import PRESETS
from theory.plans.variants import VARIANTS


def listed(*words):
    """Names, as JSON has them."""
    status, out, _ = outcome(["list", *words, "--json"])
    assert status == 0
    return [row["name"] for row in json.loads(out)]


def test_all_experiments_are_a_line_each():
    status, out, _ = outcome(["list"])
    lines = out.splitlines()
    assert status == 0
    assert [line.split()[0] for line in lines[:-1]] == catalogue.names()
    assert max(map(len, lines)) <= 120
    assert "`crosslayer list NAME`" in lines[-1]


@pytest.mark.parametrize("words", [["skipv1-gap"], ["SkipV1_Gap"], ["experiments", "skipv1-gap"], ["skipv1.gap"]])
def test_one_experiment_is_shown_whole(words):
    status, out, _ = outcome(["list", *words])
    assert status == 0
    assert out.startswith("skipv1-gap: ")
    for text in ("claims: skipv1.mha-infimum, ", "smoke ", "cpu ", "full ", "detects "):
        assert text in out
    assert out.count("\n") == 2 + len(catalogue.experiment("skipv1-gap").profiles)


def test_a_name_stands_for_itself_alone_though_others_contain_it():
    assert listed("ladder") == ["ladder"]
    assert listed("skipv1-gap") == ["skipv1-gap"]
    assert {"skipv1-gap", "skipv1-w0"} < set(listed("skipv1-"))


@pytest.mark.long
def test_other_kinds_are_listed_too():
    assert listed() == listed("experiments") == catalogue.names()
    assert listed("claims") == list(catalogue.claims())
    assert listed("variants") == listed("variant") == list(VARIANTS)
    assert listed("presets") == list(PRESETS)
    for kind in ("claims", "variants", "presets"):
        _, out, _ = outcome(["list", kind])
        assert [line.split()[0] for line in out.splitlines()] == listed(kind)


def test_words_must_all_occur():
    assert "skipv1.gap" in listed("claims", "skipv1", "gap")
    assert set(listed("claims", "skipv1", "softmax")) < set(listed("claims", "skipv1"))
    assert listed("presets", "llama-2m") == ["llama-2m"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("resfomer", "unknown experiment 'resfomer'; did you mean resformer-"),
        ("zzz", "unknown experiment 'zzz'; `crosslayer list experiments` lists all"),
        ("presets zzz", "unknown preset 'zzz'; `crosslayer list presets` lists all"),
        ("llama-2m", "no experiments with 'llama-2m'; see `crosslayer list presets llama-2m`"),
    ],
)
def test_nothing_found_says_where_to_look(words, says, capsys):
    assert main(["list", *words.split()]) == 2
    assert says in capsys.readouterr().err
