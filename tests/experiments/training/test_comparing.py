"""Variants of a user's own against vanilla in every full-size experiment: same seeds, same tuning, same rule."""

import json
from dataclasses import replace

import pytest

import experiments
from experiments import catalogue
from experiments.campaign.question import Question
from experiments.cli import main
from experiments.experiment.execution import conclusions, execute, prepare
from experiments.report.pages.parts import verdict
from experiments.store.folders import RunFolder, UserError
from experiments.store.provenance import provenance
from experiments.training import campaign, expectations, stacks, tuning
from experiments.training import text as text_data
from experiments.training.arms import PromptSource, TextSource
from experiments.training.campaign import BASELINE
from experiments.training.comparing import Comparing, comparing
from experiments.training.expectations import PaperExpectation
from experiments.verdicts.checks import Expectation, judgement, undecided, worst
from experiments.verdicts.intervals import Interval
from experiments.verdicts.words import sentence
from tests.experiments.report.words import as_words, words
from theory.errors import BadInput
from theory.plans.names import BadName
from theory.plans.plan import Plan

SCALE = {name: catalogue.experiment(name) for name in catalogue.names("scale")}
COMPARING = [name for name, one in SCALE.items() if isinstance(one, Comparing) and not isinstance(one, Question)]
NAMES = [name for name in COMPARING if name != "bridge"]  # which trains its own arms beside them (its own tests)
MINE = """
from theory import plan, v

def mine(shape, weight=0.5):
    return plan(shape, values=lambda n, h: v(n, h) + weight * v(1, h) if n > 1 else v(n, h))

def deep(shape):
    if shape.layers < 4:
        raise ValueError("four layers at least")
    return plan(shape)
"""


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """A user's file, in the folder where he works."""
    (tmp_path / "plans").mkdir()
    (tmp_path / "plans" / "my.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    return "plans/my.py:mine"


@pytest.fixture
def trained(monkeypatch):
    """The arms that would be trained; what is found is that a user's own end 0.1 below vanilla."""
    arms = []

    def record(arm):
        loss = 3 + 0.001 * (arm.seed % 3) * (1 if arm.twin else 2) - (0.1 if arm.label else 0)
        positions = arm.source.n + 1 if isinstance(arm.source, PromptSource) else 1
        held_out = {"loss": [loss] * positions, "stderr": [0.01] * positions}
        about = dict.fromkeys(("tokens_per_second", "seconds", "epochs"), 1.0) | provenance("cpu", __name__)
        about |= {"parameters": arm.architecture.d_model, "evaluations": [[step, loss] for step in range(1, 6)]}
        return {**about, "loss": loss, "curve": [[10, loss]], "held_out": held_out, "diverged": None}

    def answer(wanted, *_):
        arms.extend(wanted)
        return {arm: record(arm) for arm in wanted}

    for asks in (campaign, tuning):
        monkeypatch.setattr(asks, "train_all", answer)
    monkeypatch.setattr(stacks, "train_stacked", answer)
    read = text_data.Text(TextSource("anywhere", "digest"), "some text", 512, 10**9)
    monkeypatch.setattr(text_data, "text", lambda *_: read)
    return arms


def test_most_full_size_experiments_compare_variants():
    assert set(COMPARING) == {"ladder", "bridge"}
    others = [name for name, one in SCALE.items() if not isinstance(one, Comparing)]
    assert others == ["scale-decode", "scale-uptrain", "reading", "trained-layers"]
    with pytest.raises(UserError, match="train variants, and scale-uptrain does not"):
        comparing(catalogue.experiment("scale-uptrain"), "smoke", ["resformer"])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.long
def test_every_full_size_experiment_compares_a_plan_of_one_s_own(name, mine, trained, tmp_path):
    experiment = comparing(catalogue.experiment(name), "gpu-tiny", [mine, "gqa:group=2", BASELINE])
    job = prepare(experiment, "gpu-tiny", 3, tmp_path)
    verdicts = {check.id: check for check in execute(job)}
    assert job.run.path == tmp_path / f"{name}+my.py_mine+gqa_group=2" / "gpu-tiny"
    assert (job.run / "figure.png").exists()
    assert {arm.name for arm in trained} == {BASELINE, f"{BASELINE}-twin", "my.py:mine", "gqa:group=2"}
    seeds = {name: {arm.seed for arm in trained if arm.name == name} for name in {arm.name for arm in trained}}
    assert seeds["my.py:mine"] == seeds["gqa:group=2"] == seeds[BASELINE]  # tuned as vanilla is, on the same seeds
    for arm in trained:
        assert isinstance(arm.variant, Plan) == (arm.label == "my.py:mine")
        assert (arm.architecture.kv_heads < arm.architecture.n_heads) == (arm.label == "gqa:group=2")
        arm.key("cpu")
    about = [check for check in verdicts.values() if "my.py:mine" in check.group]
    assert about
    assert any(check.verdict != "inconclusive" for check in about)
    unknown = [check for check in verdicts.values() if "gqa:group=2" in check.group and isinstance(check, Expectation)]
    about_others = ("pool/", "ingredient/", "reordered/")  # ridge, and what rungs add
    differences = {check.verdict for check in unknown if not check.id.startswith(about_others)}
    assert differences == {"unpredicted"}  # neither a paper nor the toy says anything of it
    assert {check.claim for check in verdicts.values()} - {""} <= set(catalogue.experiment(name).claims)
    assert job.run.read("prediction.json")["own"] == ["my.py:mine", "gqa:group=2"]


PAPER = PaperExpectation(
    variant="gqa:group=2", measure="loss", better=True, claim="deep.own-values", place="section 9", nats=-0.1
)


@pytest.mark.usefixtures("trained")
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.long
def test_a_paper_s_own_expectation_is_judged_under_its_own_claim(name, tmp_path, monkeypatch):
    paper = replace(PAPER, measure="signal", nats=None)
    monkeypatch.setattr(expectations, "expectations_of", lambda variant: (paper,) if variant == paper.variant else ())
    experiment = comparing(catalogue.experiment(name), "gpu-tiny", ["gqa:group=2", "mqa"])
    assert experiment.claims == (*catalogue.experiment(name).claims, paper.claim)
    job = prepare(experiment, "gpu-tiny", 3, tmp_path)
    about = [check for check in execute(job) if check.claim == paper.claim]
    assert about
    assert all("gqa:group=2" in check.group and check.statement.count("section 9") == 1 for check in about)
    saved = [judgement(check) for check in job.run.read("summary.json")["checks"]]
    read_back = job.run.read("prediction.json"), job.run.read("measurement.json")
    assert conclusions(catalogue.experiment(name), {"profile": "gpu-tiny", "checks": saved}, *read_back)
    verdicts = {check.id: check.verdict for check in catalogue.experiment(name).compare(*read_back)}
    assert {verdicts[check.id] for check in about} & {"agrees", "contradicts", "inconclusive"}
    assert {verdict for key, verdict in verdicts.items() if "/mqa" in key and key.startswith("own/")} == {"unpredicted"}


def test_without_a_prediction_there_is_no_verdict():
    about = "own/mine", "mine", "mine against vanilla at the end"
    check = campaign.unpredicted(*about, Interval(-1, 0.1, 0.3), quantity="x")
    assert (check.verdict, check.claim) == ("unpredicted", "")
    assert sentence(check).startswith("mine against vanilla at the end: no prediction; measured -1 +- ")
    assert judgement(json.loads(json.dumps(check.to_json()))).verdict == undecided(check).verdict == "unpredicted"
    assert worst([check]) == "unpredicted"
    assert verdict(check.verdict) == "[no prediction]{.verdict .unpredicted}"


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"measure": "speed"}, "measure must be 'loss' or 'signal'"),
        ({"nats": 0.1}, "negative exactly for a better variant"),
        ({"measure": "signal"}, "nats must be of a loss"),
    ],
)
def test_expectations_without_meaning_are_refused(changed, says):
    with pytest.raises(BadInput, match=says):
        replace(PAPER, **changed)


@pytest.mark.long
def test_it_is_run_and_compared_from_the_command_line_and_from_python(mine, monkeypatch, tmp_path, capsys):
    command = ["text-induction", "--out", str(tmp_path / "runs"), "--variant", mine]
    assert main(["run", *command, "--profile", "smoke", "--jobs", "1"]) == 0
    assert "my.py:mine minus vanilla" in capsys.readouterr().out
    (folder,) = (tmp_path / "runs" / "text-induction+my.py_mine").iterdir()
    assert main(["compare", *command]) == 0
    assert "\n  my.py:mine, 2.5 to 5 tokens per parameter (" in capsys.readouterr().out
    pool = RunFolder(tmp_path / "runs" / "campaign")
    before = pool.metrics()
    again = experiments.run("text-induction", "smoke", out=tmp_path / "runs", variants=[mine])
    assert again.folder == folder
    assert pool.metrics() == before
    (tmp_path / "plans" / "my.py").write_text(MINE.replace("0.5", "0.7"))  # the same name for another plan
    changed = comparing(catalogue.experiment("text-induction"), "smoke", [mine])
    other = prepare(changed, "smoke", None, tmp_path / "runs")
    assert other.run.path.parent == folder.parent
    assert other.run.path != folder
    assert main(["compare", "text-induction", "--out", str(tmp_path / "runs")]) == 2  # none of the experiment's own
    as_words(monkeypatch)
    few = {"skipv1.eckart-young": catalogue.claims()["skipv1.eckart-young"]}  # the other pages are test_site's
    monkeypatch.setattr(catalogue, "claims", lambda: few)
    monkeypatch.setattr(catalogue, "indexes", list)
    assert main(["report", "--out", str(tmp_path / "runs")]) == 0
    assert "my.py:mine" in words((tmp_path / "runs" / "site" / "index.html").read_text())


@pytest.mark.parametrize("name", NAMES)
def test_without_a_variant_it_is_the_experiment_itself(name):
    experiment = catalogue.experiment(name)
    assert comparing(experiment, "cpu", []) is experiment
    assert "own" not in experiment.predict(experiment.profiles["smoke"].config)


@pytest.mark.parametrize(
    ("name", "variants", "says"),
    [
        ("text-values", ["nowhere.py:mine"], "nowhere.py: no such file"),
        ("text-values", ["skipv9"], "unknown variant 'skipv9'"),
        ("text-values", ["gqa:group=3"], "groups of 3 do not divide"),
        ("ladder", ["plans/my.py:deep"], "four layers at least"),
        ("text-values", ["vanilla"], "--variant: name another variant than vanilla"),
        ("skipv1-gap", ["resformer"], "--variant is for full-size experiments that train variants"),
    ],
)
@pytest.mark.usefixtures("mine")
def test_what_cannot_be_compared_says_why(name, variants, says):
    with pytest.raises((UserError, BadName), match=says):
        comparing(catalogue.experiment(name), "smoke", variants)


def test_files_of_one_name_are_told_apart(mine, tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "my.py").write_text(MINE)
    made = comparing(catalogue.experiment("text-values"), "smoke", [mine, "other/my.py:mine"])
    assert made.name == "text-values+plans_my.py_mine+other_my.py_mine"
