"""A question that trains in no time, on text that is made here."""

from dataclasses import replace

import pytest

from experiments.campaign import pool
from experiments.campaign.profiles import SMOKE
from experiments.campaign.question import Config, Group, Question
from experiments.campaign.setting import Corpus, Setting
from experiments.experiment.protocol import Profile
from icl.data import shards
from tests.experiments.training.small import prepared_sums
from theory.plans.presets import llama

TINY = replace(llama(d_model=8, n_heads=2, n_layers=2, d_ff=16, vocab=320, context=8), norm_eps=1e-12)


@pytest.fixture(autouse=True)
def nothing_is_committed(monkeypatch, tmp_path_factory):
    """No test here asks for committed trainings, and reading them takes seconds."""
    monkeypatch.setattr(pool, "committed_results", lambda: tmp_path_factory.getbasetemp() / "nothing-committed")


@pytest.fixture(scope="session")
def text(tmp_path_factory):
    """A folder of prepared text."""
    return prepared_sums(tmp_path_factory, files=60, sums=30, vocab=300)


@pytest.fixture(scope="session")
def setting(text):
    """Trainings of 5, 10 and 20 steps."""
    manifest = shards.open_data(text).manifest
    corpus = Corpus("the tests' text", manifest.digest, manifest.splits["train"].tokens, 320)
    recipe = replace(SMOKE.recipe, batch=128)
    return Setting(architecture=TINY, corpus=corpus, lengths=(0.625, 1.25, 2.5), recipe=recipe, held_out_windows=4)


class Asking(Question):
    """Whether shared keys are worse than vanilla."""

    name = "asking"
    title = "Are shared keys worse?"
    caption = "No figure."
    claims = ("toy.worth",)

    def __init__(self, setting: Setting, *widths: int, until: float = 2.5) -> None:
        groups = tuple(Group(arms=("shared-keys",), width=width, rate=1e-2, until=until) for width in widths)
        config = Config(setting=setting, groups=groups)
        self.profiles = {"cpu": Profile(config=config, seeds=2, seconds=1, detects="much", grows=True)}

    def predict(self, _config):
        return {"assumes": "nothing"}

    def probed(self, probes):
        return {"induction": probes["induction"]["best_induction"]}

    def compare(self, _prediction, _measurement):
        return []

    def draw(self, _prediction, _measurement):
        from matplotlib.figure import Figure

        return Figure()


@pytest.fixture
def question(setting):
    return Asking(setting, 8)
