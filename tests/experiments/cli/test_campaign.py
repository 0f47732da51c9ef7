"""`crosslayer campaign`: what is trained and left, what can be said, and going on with it."""

import json

import pytest

from experiments import catalogue
from experiments.campaign import pool
from experiments.cli import main
from tests.experiments.campaign.conftest import Asking, setting, text  # noqa: F401


@pytest.fixture
def small(setting, tmp_path, monkeypatch):  # noqa: F811
    """One question that trains in no time; the folder for its runs."""
    question = Asking(setting, 8)
    monkeypatch.setattr(catalogue, "names", lambda _: ["asking"])
    monkeypatch.setattr(catalogue, "experiment", lambda _: question)
    monkeypatch.setattr(pool, "committed_results", lambda: tmp_path / "nothing")
    return tmp_path / "runs"


def answered(capsys, *arguments):
    status = main(["campaign", *map(str, arguments)])
    return status, *capsys.readouterr()


@pytest.mark.long
def test_it_shows_stops_when_time_is_up_goes_on_and_shows_what_can_be_said(small, text, capsys):  # noqa: F811
    status, out, _ = answered(capsys, "--out", small)
    assert (status, out.split("\n")[1].split()[:3]) == (0, ["asking", "0", "8"])
    assert "nothing can be said yet" in out
    assert not small.exists()
    status, _, errors = answered(capsys, "--out", small, "--data", text, "--minutes", "0.0001")
    assert status == 0
    assert "time is up: asking: 0 of 24 trainings are finished" in errors
    status, out, _ = answered(capsys, "--out", small, "--data", text, "--minutes", "9", "--json")
    (found,) = json.loads(out)
    assert (status, found["trained"], found["left"], found["hours_left"], found["checks"]) == (0, 8, 0, 0.0, [])
    assert len((small / "campaign" / "metrics.jsonl").read_text().splitlines()) == 8
    assert answered(capsys, "--out", small, "--minutes", "9", "--json")[1] == out  # without the text


def test_text_that_is_missing_is_named_in_one_line(small, capsys):
    status, out, errors = answered(capsys, "--out", small, "--minutes", "1")
    assert (status, out) == (2, "")
    assert errors == "crosslayer: trainings are missing, and need --data FOLDER: the tests' text\n"
