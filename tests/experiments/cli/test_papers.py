"""What `papers` and `list` show: every claim, experiment and variant of every paper; a kind of thing, by words."""

import json

import pytest

from experiments import catalogue
from experiments.cli import main
from tests.experiments.cli.answers import outcome
from theory.plans.papers import papers
from theory.plans.presets import PRESETS
from theory.plans.variants import VARIANTS


def test_nothing_is_left_out_or_shown_twice(capsys):
    assert main(["papers", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert sum(sum(row["claims"].values()) for row in rows) == len(catalogue.claims())
    assert sorted(name for row in rows for name in row["experiments"]) == sorted(catalogue.names())
    assert sorted(name for row in rows for name in row["variants"]) == sorted(VARIANTS.keys() - {"vanilla"})
    assert [row["year"] for row in rows[:-1]] == sorted(row["year"] for row in rows[:-1])


@pytest.mark.parametrize("other", [["--markdown"], ["--into", "README.md"]])
def test_two_forms_at_once_are_refused(other, capsys):
    assert main(["papers", "--json", *other]) == 2
    assert capsys.readouterr().err == "crosslayer: choose --json, --markdown or --into\n"


@pytest.mark.parametrize("name", ["papers", "variants"])
@pytest.mark.long
def test_a_table_is_put_between_its_marks(name, tmp_path, capsys):
    page = tmp_path / "page.md"
    page.write_bytes(f"before\n<!-- {name} -->\nold\n<!-- end of {name} -->\nafter \xff".encode("latin-1"))
    assert main([name, "--into", str(page)]) == 0
    assert not capsys.readouterr().out
    assert main([name, "--markdown"]) == 0
    table = capsys.readouterr().out
    assert page.read_bytes() == f"before\n<!-- {name} -->\n{table}<!-- end of {name} -->\nafter ".encode() + b"\xff"
    page.write_text("no table\n")
    assert main([name, "--into", str(page)]) == main([name, "--into", str(tmp_path / "nowhere.md")]) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert f"has no lines <!-- {name} --> and <!-- end of {name} -->" in first
    assert "nowhere.md: No such file or directory" in second
    assert page.read_text() == "no table\n"


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
    assert listed("variants") == listed("variant") == list(catalogue.variants())
    assert listed("presets") == list(PRESETS)
    for kind in ("claims", "variants", "presets"):
        _, out, _ = outcome(["list", kind])
        assert [line.split()[0] for line in out.splitlines()] == listed(kind)


def test_variants_stand_in_the_order_of_the_papers_whichever_was_imported_first(monkeypatch):
    monkeypatch.setattr("theory.plans.variants.VARIANTS", dict(reversed(list(VARIANTS.items()))))
    sources = dict.fromkeys(variant.paper for variant in catalogue.variants().values())
    assert [*sources] == [None, *papers()]


@pytest.mark.long
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
@pytest.mark.long
def test_nothing_found_says_where_to_look(words, says, capsys):
    assert main(["list", *words.split()]) == 2
    assert says in capsys.readouterr().err
