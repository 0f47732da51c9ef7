"""One smoke run of `skipv1-gap` for all tests that look at a finished run."""

import pytest

from experiments.cli import main


@pytest.fixture(scope="session")
def smoke(tmp_path_factory):
    """(exit status, run folder) of `crosslayer run skipv1-gap --profile smoke`."""
    out = tmp_path_factory.mktemp("runs")
    status = main(["run", "skipv1-gap", "--profile", "smoke", "--out", str(out)])
    (folder,) = (out / "skipv1-gap").iterdir()
    return status, folder
