"""`skipv1-w0`: what theory says of every point is held against exact minima, and altered theory is rejected."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from experiments.cli import main
from experiments.skipv1.around_w0.experiment import EXPERIMENT
from experiments.skipv1.around_w0.minima import ENOUGH, Config, Prior, best, place_of, points
from experiments.store.folders import RunFolder
from experiments.verdicts.checks import worst
from tests.experiments.committed import committed
from theory.skipv1 import bias as skipv1_bias
from theory.skipv1 import w0 as skipv1_w0
from theory.skipv1 import w0_heads as skipv1_w0_heads
from theory.toy import few_terms

# d = 4 twice: with W0 small and large; nothing that takes more than a second.
TINY = Config(
    d=4,
    n=1,
    scales=(0.5, 8.0),
    contexts=(1,),
    widths=(2, 4),
    at_widths=(1,),
    heads=(2,),
    spectra=("rank one",),
    biased=("rank one",),
    mixed=(2, 2, 1),
    starts=6,
    finished=2,
)


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    run = RunFolder(tmp_path_factory.mktemp("w0"))
    return run, EXPERIMENT.measure(TINY, 0, run)


@pytest.mark.slow
def test_all_checks_pass_and_every_group_is_there(measured):
    checks = EXPERIMENT.compare(EXPERIMENT.predict(TINY), measured[1])
    assert worst(checks) == "pass", [c.id for c in checks if c.verdict != "pass"]
    assert len({c.group for c in checks}) == 8
    assert {c.claim for c in checks} <= set(EXPERIMENT.claims)


@pytest.mark.parametrize(
    ("module", "name", "factor", "group"),
    [
        (few_terms, "term_floor", 1.2, "SkipV1Former's floor"),
        (skipv1_w0, "constant_share", 0.8, "SkipV1Former with enough heads"),
        (skipv1_w0, "constant_share", 1.2, "SkipV1Former with enough heads"),
        (skipv1_w0_heads, "mha_loss_around", 0.5, "SkipV1Former loses"),
        (skipv1_bias, "mha_infimum", 0.99, "MHA with two heads and a term"),
        (skipv1_bias, "skipv1_minimum", 1.01, "SkipV1Former with two heads and a term"),
    ],
)
def test_altered_theory_fails(monkeypatch, module, name, factor, group):
    """Held against what was measured at profile cpu."""
    honest = getattr(module, name)
    monkeypatch.setattr(module, name, lambda *a, **k: factor * honest(*a, **k))
    prediction = EXPERIMENT.predict(EXPERIMENT.profiles["cpu"].config)
    checks = EXPERIMENT.compare(prediction, committed("skipv1-w0")[1])
    assert any(c.verdict == "fail" and c.group.startswith(group) for c in checks)


@pytest.mark.slow
def test_what_is_found_beats_what_is_printed(measured):
    """At d = 4, W0 = 8 I, two heads each, SkipV1Former's optimum lies above MHA's; around W0 = I / 2 below."""
    exact = measured[1]["exact"]
    for c, sign in ((0.5, -1), (8.0, 1)):
        place = place_of(Prior("identity", c), 4, 1, 2)
        assert math.copysign(1, best(exact, place, "skipv1", 4) - best(exact, place, "mha", 4)) == sign


@pytest.mark.slow
def test_every_point_is_a_line_and_has_its_number(measured):
    run, measurement = measured
    lines = {line["key"]: line for line in run.metrics()}
    assert len(lines) == len(run.metrics()) == len({p.key for p in points(TINY)})
    assert {line["kind"] for line in lines.values()} == {"exact minimum"}
    assert list(measurement["exact"]) == list(dict.fromkeys(p.key for p in points(TINY)))
    assert all(set(result) == {"loss", "agreeing"} for result in measurement["exact"].values())


def test_spectra_have_the_norm_they_say():
    for spectrum in ("identity", "turned", "decaying", "rank one"):
        for d in (1, 2, 5):
            w0 = Prior(spectrum, 3.0).matrix(d)
            assert np.linalg.norm(w0) == pytest.approx(3 * d**0.5, rel=1e-12)
            assert np.linalg.matrix_rank(w0) == (1 if spectrum == "rank one" else d)


def test_keys_tell_points_apart():
    for profile in EXPERIMENT.profiles.values():
        todo = list(points(profile.config))
        assert len({p.key for p in todo}) == len({(p.place, p.toy, p.rank, p.skips) for p in todo})
        assert any(p.heads == ENOUGH for p in todo)


@pytest.mark.slow
def test_seeds_have_no_effect_where_nothing_is_random(monkeypatch, tmp_path):
    tiny = replace(TINY, d=2, scales=(8.0,), widths=(2,), starts=3)
    monkeypatch.setitem(EXPERIMENT.profiles, "smoke", replace(EXPERIMENT.profiles["smoke"], config=tiny))
    assert main(["run", "skipv1-w0", "--profile", "smoke", "--seeds", "3", "--out", str(tmp_path)]) == 0
    (folder,) = (tmp_path / "skipv1-w0").iterdir()
    assert json.loads((folder / "summary.json").read_text())["seeds"] == []
    assert (folder / "figure.svg").stat().st_size > 10_000
