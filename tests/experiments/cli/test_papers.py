"""`crosslayer papers`: every claim, experiment and variant belongs to one paper, or to several."""

import json

import pytest

from experiments import catalogue
from experiments.cli import main
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
