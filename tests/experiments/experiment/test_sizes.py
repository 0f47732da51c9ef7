"""Experiments at a size of the user's: what is predicted there, where it goes, and what is refused."""

import pytest

from experiments import catalogue
from experiments.cli.runs import announce
from experiments.experiment.execution import prepare
from experiments.experiment.protocol import Sized, at_size
from experiments.store.folders import UserError
from tests.experiments.cli.answers import outcome, refused
from theory import loss_gap
from theory.plans.setting import Setting

SIZE = Setting(2, 5, 0.25)
FREE = ("resformer-blocks", "skipv1-gap", "toy-orderings")


def test_the_sizes_of_these_are_free():
    every = [name for name in catalogue.names("theory") if isinstance(catalogue.experiment(name), Sized)]
    assert sorted(every) == list(FREE)


@pytest.mark.long
def test_the_gap_is_that_of_the_size():
    sized = at_size(catalogue.experiment("skipv1-gap"), "smoke", SIZE)
    predicted = sized.predict(sized.profiles["smoke"].config)
    assert list(predicted["sizes"]) == [SIZE.key]
    gaps = [loss_gap(d=2, n=5, sigma=0.25, rank=a).gap for a in range(3)]
    assert [row["gap"] for row in predicted["sizes"][SIZE.key]["ranks"]] == gaps
    assert (predicted["limit"]["d"], predicted["limit"]["sigma"]) == (2, 0.25)
    one_quarter = predicted["limit"]["widths"][1]
    assert one_quarter["mha"] == pytest.approx(0.25, rel=1e-5)


@pytest.mark.parametrize("name", FREE)
def test_what_it_had_stays(name):
    experiment = catalogue.experiment(name)
    before = experiment.profiles["smoke"].config
    sized = at_size(experiment, "smoke", SIZE)
    assert (experiment.name, experiment.profiles["smoke"].config) == (name, before)
    assert (sized.name, list(sized.profiles)) == (f"{name}+{SIZE.key}", ["smoke"])
    assert sized.profiles["smoke"].config != before
    assert at_size(experiment, "smoke", None) is experiment


@pytest.mark.long
def test_a_run_at_a_size_lies_in_a_folder_of_its_own(tmp_path):
    line = f"run resformer-blocks --profile smoke --size d=2,n=5,sigma=0.25 --out {tmp_path}".split()
    status, shown, errors = outcome(line)
    assert status == 0, errors
    assert "d2-n5-s0.25" in shown
    assert [path.name for path in tmp_path.iterdir()] == [f"resformer-blocks+{SIZE.key}"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("skipv1-w0 --size d=3,n=5,sigma=0.2", "--size: the sizes of skipv1-w0 are not free"),
        ("skipv1-gap --size d=3,n=5", "a size is written d=7,n=12,sigma=0.4, got 'd=3,n=5'"),
        ("skipv1-gap --size d=3,n=5,sigma=0.2,rank=1", "a size is written d=7,n=12,sigma=0.4"),
        ("skipv1-gap --size d=3,n=x,sigma=0.2", "a size is written d=7,n=12,sigma=0.4"),
        ("skipv1-gap --size d=0,n=5,sigma=0.2", "d must be a whole number from 1"),
        ("skipv1-gap --size d=400,n=5,sigma=0.2", "--size: exact minima take d <= "),
        ("--all --size d=3,n=5,sigma=0.2", "--size is of experiments that are named"),
    ],
)
def test_what_is_no_size_is_refused(line, words, tmp_path):
    refused(["run", *line.split(), "--out", str(tmp_path)], words)
    assert not list(tmp_path.iterdir())


def test_how_long_a_run_takes_is_said_first(tmp_path, capsys):
    def said(profile, name="bridge"):
        announce([prepare(catalogue.experiment(name), profile, None, out=tmp_path)])
        return capsys.readouterr().err

    assert said("cpu", "text-induction") == ""  # it knows what is trained, and says how long the rest takes
    assert said("smoke") == ""
    assert said("cpu") == "crosslayer: bridge: about 6 min from the beginning on two idle cores\n"
    folder = prepare(catalogue.experiment("bridge"), "cpu", None, out=tmp_path).run.path
    folder.mkdir(parents=True)
    (folder / "metrics.jsonl").touch()
    assert said("cpu").endswith("idle cores; goes on from what is finished of bridge\n")
    (folder / "summary.json").touch()
    assert said("cpu") == ""


def test_an_unfree_experiment_says_so_from_python():
    with pytest.raises(UserError, match="not free"):
        at_size(catalogue.experiment("dva-example"), "smoke", SIZE)
