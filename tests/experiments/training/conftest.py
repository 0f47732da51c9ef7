"""Prepared data, a reader of them, and a folder for runs."""

import pytest

from experiments.store.folders import RunFolder, Slot
from experiments.training import pool
from experiments.training.arms import Arm, TextSource
from experiments.training.records import train_arm
from icl.data import shards
from tests.experiments.training.small import RECIPE, prepared_sums
from theory.plans.architecture import Architecture, Tokens


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A folder of prepared text."""
    return prepared_sums(tmp_path_factory, files=30, sums=3, vocab=280)


@pytest.fixture
def reader(data):
    """An arm that reads it."""
    manifest = shards.open_data(data).manifest
    architecture = Architecture(
        d_model=8, n_layers=1, n_heads=2, d_ff=16, context=10, stem=Tokens(manifest.tokenizer.vocab)
    )
    return Arm(
        architecture=architecture,
        variant="skipv1",
        source=TextSource(str(data), manifest.digest, 8),
        recipe=RECIPE,
        seed=1,
    )


@pytest.fixture
def run(tmp_path):
    return RunFolder(tmp_path, Slot(jobs=1))


@pytest.fixture
def trained(monkeypatch):
    """The arms that `pool` has trained in this process."""
    arms = []

    def counting(arm, *others, **options):
        arms.append(arm)
        return train_arm(arm, *others, **options)

    monkeypatch.setattr(pool, "train_arm", counting)
    return arms
