"""`crosslayer papers`: every claim, experiment and variant belongs to one paper, or to several."""

import json

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


def test_two_forms_at_once_are_refused(capsys):
    assert main(["papers", "--json", "--markdown"]) == 2
    assert capsys.readouterr().err == "crosslayer: choose --json or --markdown\n"
