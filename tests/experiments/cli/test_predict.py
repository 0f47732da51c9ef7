"""`crosslayer predict` around W0 and for other inputs: what it says, and what it refuses."""

import json
import time

import numpy as np
import pytest

from tests.experiments.cli.answers import outcome, refused
from theory.skipv1 import gap as skipv1_gap
from theory.skipv1 import w0_heads

TASK = "--d 4 --n 2 --sigma 0.1"
SMALL = "--d 2 --n 3 --sigma 0.5"


def said(line):
    """What `predict` prints."""
    status, out, errors = outcome(["predict", *line.split()])
    assert status == 0, errors
    return out


def test_the_refutation_is_one_command():
    shown = said(f"skipv1 {TASK} --w0 10")
    assert f"{w0_heads.mha_loss_around(4, 2, 0.1, 10.0):.6g}  the infimum of MHA with 2 ordinary heads" in shown
    assert f"{w0_heads.skipv1_few_heads_floor(4, 2, 0.1, 10.0):.6g}  lower bound on it: no weights go below" in shown
    assert "MHA is ahead, by 48.7684 at least" in shown
    assert "the theorem's inequality is false" in shown
    assert "sigma_d(W0) > 2 sqrt(d) sigma, holds" in shown


def test_so_is_what_the_theorem_lacks():
    shown = said(f"skipv1 {TASK} --w0 10 --bias")
    assert "W0 = 10 I, a free term C x, over all ranks" in shown
    assert "14.8988  the infimum of MHA with 2 ordinary heads, attained (theory.skipv1.bias)" in shown
    assert "SkipV1Former is ahead, by 3.42368." in shown


def test_what_two_layers_do_not_contain_is_said(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(
        "from theory import k, plan, v\n\n\n"
        "def late(shape):\n"
        "    values, keys = lambda n, h: v(min(n, 2), h), lambda n, h: k(3, h) if n == 4 else k(n, h)\n"
        "    return plan(shape, values=values, keys=keys)\n"
    )
    note = "also changes keys in layer 4 and values from layer 3 on; two layers, as the toy has, do not contain it\n"
    for line in (f"{path}:late {SMALL}", f"{path}:late {SMALL} --w0 2"):
        assert said(line).endswith(f"note: in deeper models {path}:late {note}")
        found = json.loads(said(f"{line} --json"))
        assert found["beyond_two_layers"] == ["keys in layer 4", "values from layer 3 on"]
    assert "note" not in said(f"skipv1 {SMALL}")


@pytest.mark.parametrize("suffix", ["npy", "csv", "txt", "diagonal", "number"])
def test_w0_in_every_form_is_the_same(suffix, tmp_path):
    path, matrix = tmp_path / f"w0.{suffix}", 10 * np.eye(4)
    if suffix == "npy":
        np.save(path, matrix)
    else:
        np.savetxt(path, matrix, delimiter="," if suffix == "csv" else " ")
    given = {"diagonal": "10,10,10,10", "number": "10"}.get(suffix, str(path))
    found = json.loads(said(f"skipv1 {TASK} --w0 {given} --json"))
    assert found["bounds"]["ahead"] == "mha"
    assert found["bounds"]["mha"]["upper"] == pytest.approx(96.04)
    assert found["minimised"] is None


@pytest.mark.long
def test_other_inputs_other_heads_other_plans():
    assert "SkipV1Former is ahead" in said(f"vanilla {TASK} --w0 10 --heads 32")
    assert "theory.skipv1.general" in said(f"skipv1 {SMALL} --covariance 1,3 --rank 1")
    assert "theory.skipv1.non_gaussian" in said(f"skipv1 {SMALL} --kurtosis 2 --rank 1")
    shown = said(f"resformer {SMALL} --w0 1 --kurtosis 2 --rank 1")
    assert "lowest loss found of resformer, an upper bound on its infimum" in shown
    assert "no theorem here is about more than one" in shown
    minimising = f"skipv1 {SMALL} --w0=-1,2 --rank 1 --minimise"
    found = json.loads(said(f"{minimising} --json"))
    assert found["bounds"]["skipv1"]["lower"] <= found["minimised"]["loss"]
    assert found["minimised"]["agreeing"] <= found["minimised"]["finished"] < found["minimised"]["starts"]
    assert "descents ended here, which were the lowest of 48)" in said(minimising)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("--w0 1 --kurtosis 2", "no theorem here is about more than one of W0, a covariance and a kurtosis"),
        ("--w0 1 --paper-bound", "--paper-bound is proved for W0 = 0"),
        ("--w0 nan", "W0 must be 2 x 2, and finite"),
        ("--w0 1e300", "no number larger than 1e+09"),
        ("--w0 1,2,3", "--w0 must be one number or d = 2 of them, got 3"),
        ("--w0 one", "--w0 must be one number or d = 2 with commas between, or a .npy, .csv, .txt file, got 'one'"),
        ("--w0=", "--w0 must be one number or d = 2"),
        ("--w0 nowhere.npy", "nowhere.npy: No such file"),
        ("--covariance=-1", "must be finite and have no negative eigenvalue"),
        ("--covariance 1,nan", "must be a symmetric 2 x 2 matrix, and finite"),
        ("--kurtosis=-3", "the excess kurtosis must be 2 numbers from -2"),
        ("--kurtosis inf", "the excess kurtosis must be 2 numbers from -2, and finite"),
        ("--heads 1000000", "a plan is written out head by head, up to 4096 a layer, got 1000000"),
        ("--heads 1000000 --w0 1", "the toy has no use for more than 2 d^2"),
        ("--w0 1 --d 1000000000", "a task of d = 1000000000 needs about 3.2e+11 GB of memory, and this machine has"),
    ],
)
def test_what_is_refused(options, says):
    began = time.process_time()
    refused(["predict", "skipv1", *SMALL.split(), *options.split()], says)
    assert time.process_time() - began < 1


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY", b"1 2\n3\n", b"a b\nc d\n", b"1 2 3\n4 5 6\n", b"\0\0", b"{}"])
@pytest.mark.parametrize("suffix", [".npy", ".txt", ".csv"])
def test_a_file_that_holds_no_matrix_is_one_line(suffix, content, tmp_path):
    path = tmp_path / f"w0{suffix}"
    path.write_bytes(content)
    refused(["predict", "skipv1", *SMALL.split(), "--w0", str(path)], str(path))


RECALL = "pairs=4,keys=16,values=16"


def test_recall_beside_vanilla():
    lines = said(f"svformer --recall {RECALL}").splitlines()
    assert lines[0].startswith("Recall of 4 pairs, 16 keys, 16 values, interleaved")
    assert [line.split()[0] for line in lines[1:6]] == ["2.77259", "1.38629", "0", "2", "4"]
    found = json.loads(said(f"svformer --recall {RECALL} --json"))
    assert (found["least_width"], found["vanilla_width"]) == (2, 4)
    assert "        none  numbers per token" in said(f"shared-keys+svformer --recall {RECALL}")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (f"svformer --recall {RECALL} --d 3", "--d is of regression prompts"),
        (f"svformer --recall {RECALL} --sigma 0", "--sigma is of regression prompts"),
        (f"svformer --recall {RECALL} --paper-bound", "--paper-bound is of regression prompts"),
        ("svformer --recall pairs=4", "recall data are written"),
        ("svformer --recall pairs=4,keys=2,values=16", "keys must be at least as many as pairs"),
        ("attnres --recall pairs=4,keys=16,values=16", "depth rule"),
        ("svformer --d 3 --n 4", "say --sigma"),
        ("svformer", "say --d, --n, --sigma"),
    ],
)
def test_recall_refuses_what_has_no_meaning(line, says):
    refused(["predict", *line.split()], says)


def test_skipv1_is_not_shown_twice():
    """It is the theorems' own; around another W0, where they give bounds, what is minimised is shown beside them."""
    assert said("skipv1 --d 3 --n 8 --sigma 0.3 --rank all").splitlines()[1].split() == [
        "rank",
        "a",
        "MHA",
        "SkipV1Former",
    ]
    assert "resformer" in said("resformer --d 3 --n 8 --sigma 0.3 --rank all").splitlines()[1]


def test_every_rank_is_a_table_of_the_closed_forms():
    lines = said("resformer --d 3 --n 8 --sigma 0.3 --rank all").splitlines()
    assert lines[1].split() == ["rank", "a", "resformer", "MHA", "SkipV1Former"]
    gaps = {a: skipv1_gap.loss_gap(3, 8, 0.3, a) for a in (1, 2, 3)}
    rows = [[f"{a}", f"{gap.skipv1:.6g}", f"{gap.mha:.6g}", f"{gap.skipv1:.6g}"] for a, gap in gaps.items()]
    assert [line.split() for line in lines[2:5]] == rows
    assert lines[5] == "9.27  loss of predicting zero"


@pytest.mark.long
def test_every_rank_around_w0_lies_between_the_bounds_of_its_own():
    found = json.loads(said(f"resformer {SMALL} --w0 1 --rank all --json"))
    assert [row["rank"] for row in found["ranks"]] == [1, 2]
    for row in found["ranks"]:
        alone = json.loads(said(f"resformer {SMALL} --w0 1 --rank {row['rank']} --json"))
        assert (row["bounds"], row["plan"]["loss"]) == (alone["bounds"], alone["minimised"]["loss"])


@pytest.mark.parametrize("task", [SMALL, f"{SMALL} --w0 1", f"{SMALL} --kurtosis 2 --w0 1 --minimise"])
@pytest.mark.long
def test_every_rank_is_drawn(task, tmp_path):
    path = tmp_path / "gap.svg"
    assert f"figure: {path}" in said(f"skipv1 {task} --figure {path}")
    drawn = path.read_text()
    assert "SkipV1Former" in drawn or "skipv1, lowest descent" in drawn
    assert ("between bounds" in drawn) == (task.endswith("--w0 1"))
    assert "W0 = 1 I" in drawn or "--w0" not in task


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--rank 1 --figure gap.png", "--figure draws every rank; leave --rank out"),
        ("--figure gap.jpg", "--figure must end in .svg, .png, .pdf, got 'gap.jpg'"),
        ("--figure nowhere/gap.png", "nowhere: no such folder"),
        ("--rank all --paper-bound", "--paper-bound is of one rank"),
        ("--rank some", "--rank must be a whole number or all, got 'some'"),
    ],
)
def test_what_every_rank_cannot_do_is_said(line, words):
    refused(f"predict skipv1 {SMALL} {line}".split(), words)
