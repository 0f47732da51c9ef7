"""toy-orderings: the toy's order comes from theory, the papers' from what they print, and verdicts follow both."""

import json
import shutil
from contextlib import suppress
from dataclasses import replace

import pytest

from experiments import catalogue
from experiments.across.orderings import experiment as toy_orderings
from experiments.across.orderings.experiment import NAMES, mixtures, plans, toys
from experiments.across.orderings.papers import difference, expectations, pairs_by_paper, toy_levels
from experiments.cli import main
from theory.errors import BadInput
from theory.plans.heads import toy_heads
from theory.plans.names import resolve
from theory.plans.plan import Shape
from theory.toy.width import most_entries_at_width

NAME = "toy-orderings"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The folder of a smoke run, which has passed."""
    out = tmp_path_factory.mktemp("orderings")
    assert main(["run", NAME, "--profile", "smoke", "--jobs", "1", "--out", str(out)]) == 0
    (folder,) = (out / NAME).iterdir()
    return folder


def read(folder, *names):
    """The contents of its files."""
    return [json.loads((folder / f"{name}.json").read_text()) for name in names]


@pytest.mark.long
def test_exact_minima_pass_and_papers_are_judged(run):
    (summary,) = read(run, "summary")
    checks = [c for c in summary["checks"] if "rule" not in c]
    assert checks
    assert all(c["verdict"] == "pass" for c in checks)
    assert {c["verdict"] for c in summary["checks"] if "rule" in c} == {"agrees", "contradicts", "inconclusive"}
    assert summary["verdict"] == "contradicts"
    assert (run / "figure.png").stat().st_size > 50_000


def test_every_covered_variant_is_predicted_and_minimised(run):
    prediction, measurement = read(run, "prediction", "measurement")
    covered = set()
    for name in NAMES:
        with suppress(BadInput):
            toy_heads(resolve(name, Shape(2, 2)))
            covered.add(name)
    assert set(prediction["variants"]) == set(prediction["toy_of"]) == covered
    assert set(measurement["exact"]) == set(prediction["exact"])
    assert {p["toy"] for p in prediction["exact"].values()} == set(prediction["toy_of"].values())
    assert all({"paper", "place", "size", "sign"} <= set(r) for r in measurement["papers"])


@pytest.mark.long
def test_the_order_is_the_same_at_every_size_of_the_papers():
    """The toy's levels at 8 to 32 heads, where most variants are covered, and at two."""
    by_size = []
    for width, heads in ((512, 8), (768, 12), (1200, 20)):
        shares = {name: most_entries_at_width(toy_heads(plan), width, width) for name, plan in plans(heads).items()}
        prediction = {"order": {"tie": 0.01, "shares": {name: s / width**2 for name, s in shares.items()}}}
        by_size.append(toy_levels(prediction))
    common = set.intersection(*(set(levels) for levels in by_size))
    assert len(common) >= 30
    first = {name: by_size[0][name] for name in common}
    assert all({name: levels[name] for name in common} == first for levels in by_size)
    assert set(first.values()) == {0, 1, 2}


def test_what_the_toy_says_against_vanilla(run):
    (prediction,) = read(run, "prediction")
    sign = {name: difference(prediction, name, "vanilla") for name in prediction["order"]["shares"]}
    for name in ("skipv1", "resformer", "svformer", "cla-v", "skipv1:ratio=0.25", "skipv1:ratio=0.75"):
        assert sign[name] == pytest.approx(-0.75)
    for name in ("skipv0", "skipv2", "skipkv1", "residual-keys", "residual-queries", "neutreno", "cross-layer"):
        assert sign[name] == 0
    for name in ("shared-keys", "cla-k", "cla", "skipv1-yoco"):
        assert sign[name] == pytest.approx(0.25, abs=1e-3)
    assert difference(prediction, "denseformer", "vanilla") is None


def test_pairs_are_told_once_and_never_both_ways(run):
    pairs = pairs_by_paper(*read(run, "prediction", "measurement"))
    assert len(pairs) == 2
    for listed in pairs.values():
        assert len({frozenset(pair) for pair in listed}) == len(listed)
    assert ("skipv1", "vanilla") in pairs["SkipV1Former (003)"]
    assert ("vanilla", "svformer") in pairs["ResFormer (002)"]


def compared(run, alter=lambda *_: None):
    """Checks by id, after the prediction or the measurement is altered."""
    prediction, measurement = read(run, "prediction", "measurement")
    alter(prediction, measurement)
    return {c.id: c for c in catalogue.experiment(NAME).compare(prediction, measurement)}


@pytest.mark.long
def test_a_reversed_toy_is_contradicted(run):
    def reverse(prediction, _):
        shares = prediction["order"]["shares"]
        prediction["order"]["shares"] = {name: 1 - share for name, share in shares.items()}

    honest, reversed_ = compared(run), compared(run, reverse)
    assert honest["order/both papers"].verdict == "agrees"
    assert reversed_["order/both papers"].verdict == "contradicts"
    opposite = {"agrees": "contradicts", "contradicts": "agrees", "inconclusive": "inconclusive"}
    for name, c in honest.items():
        if name.startswith("paper/"):
            assert reversed_[name].verdict == opposite[c.verdict]


def test_a_toy_that_tells_nothing_apart_decides_nothing(run):
    def flatten(prediction, _):
        prediction["order"]["shares"] = dict.fromkeys(prediction["order"]["shares"], 0.25)

    checks = compared(run, flatten)
    assert {c.verdict for name, c in checks.items() if name.startswith(("paper/", "order/"))} == {"inconclusive"}


@pytest.mark.parametrize("factor", [0.98, 1.02])
def test_closed_forms_altered_by_two_per_cent_fail(run, factor):
    def alter(_, measurement):
        for kind in ("exact", "mixtures"):
            for point in measurement[kind].values():
                point["explained"] *= factor

    by_id = compared(run, alter)
    checks = [c for c in by_id.values() if c.id.startswith(("exact/", "mixtures/")) and c.predicted > 0]
    assert len(checks) > 20
    assert all(c.verdict == "fail" for c in checks)


def test_another_toy_s_closed_form_fails(run, tmp_path, monkeypatch):
    """If MHA's number stood for SkipV1Former's, exit status 1, from the same measurements."""
    honest = toy_orderings.explained_entry_bounds
    folder = tmp_path / NAME / run.name
    shutil.copytree(run, folder)
    for file in ("prediction.json", "summary.json"):
        (folder / file).unlink()
    monkeypatch.setattr(toy_orderings, "explained_entry_bounds", lambda heads, d, rank: honest(heads[:1], d, rank))
    assert main(["run", NAME, "--profile", "smoke", "--out", str(tmp_path), "--json"]) == 1


def test_toys_are_told_apart_by_what_their_loss_depends_on():
    architectures, toy_of = toys(2)
    assert toy_of["resformer-all"] == toy_of["resformer"] != toy_of["skipv1"]
    assert toy_of["shared-keys"] == toy_of["cla-k"]
    assert toy_of["neutreno"] == toy_of["vanilla"]
    assert set(architectures) == set(toy_of.values())
    assert [sum(h.raw for h in heads) for heads in mixtures(4).values()] == [0, 1, 2, 3, 4]


def test_what_the_authors_code_does_instead_stands_in_the_statements_and_decides_nothing(run):
    prediction, measurement = read(run, "prediction", "measurement")
    full = {c.id: c for c in expectations(prediction, measurement)}
    silent = {"papers": [{**r, "note": ""} for r in measurement["papers"]], "notes": {}}
    plain = {c.id: c for c in expectations(prediction, {**measurement, **silent})}
    assert full.keys() == plain.keys()
    assert all(replace(c, statement="") == replace(plain[i], statement="") for i, c in full.items())
    remarks = {i: c.statement.removeprefix(plain[i].statement) for i, c in full.items()}
    noted = {i.split(",")[0]: remark for i, remark in remarks.items() if remark}
    sharing = ("cla-v", "yoco-v")
    papers = {f"paper/skipv1/{name}/SkipV1Former (003)" for name in sharing}
    assert set(noted) == papers | {f"accuracy/{name}" for name in sharing}
    assert all(remark.startswith("; but the authors' code") for remark in noted.values())
