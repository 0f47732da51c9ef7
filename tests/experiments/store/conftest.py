"""A run's folder, and one in which `fake` writes down what it does."""

import pytest

from experiments.store.folders import RunFolder


@pytest.fixture
def trace(tmp_path):
    (tmp_path / "trace").mkdir()
    return tmp_path / "trace"


@pytest.fixture
def run(tmp_path):
    return RunFolder(tmp_path / "run")
