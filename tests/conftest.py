"""Hypothesis: no deadlines (first calls import torch), and the same examples in every CI run.  And one thread: products
here are tiny, and two threads on a busy machine take many times as long as one."""

import contextlib
import gc
import os
import re
import signal
from pathlib import Path

import pytest

from tests.isolation import elsewhere, empty_folder, examples_folder, isolate

isolate()
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as of what a shell runs in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)
for library in ("OMP", "OPENBLAS", "MKL"):  # read when numpy is first imported
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")

from hypothesis import settings  # noqa: E402
from hypothesis.configuration import set_hypothesis_home_dir  # noqa: E402

set_hypothesis_home_dir(examples_folder(Path(__file__).resolve().parents[1]))
settings.register_profile("default", deadline=None, max_examples=25)
settings.register_profile("ci", deadline=None, max_examples=25, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")


@pytest.fixture(autouse=True)
def nothing_lies_around():
    """Every test begins in an empty folder, wherever the one before has left this process."""
    empty_folder()


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef):
    """What several tests share is made in an empty folder too, and nothing of it may lie there: the next test has
    another."""
    with elsewhere(fixturedef.argname) if fixturedef.scope != "function" else contextlib.nullcontext():
        return (yield)


# Files that take longest, by far or with few tests: begun first, so that at the end no worker waits for another.
LONGEST = (
    "tests/experiments/report/test_site.py",
    "tests/experiments/cli/test_cli.py",
    "tests/test_contributing.py",
    "tests/experiments/ledger/test_claims.py",
    "tests/icl/models/test_references.py",
    "tests/experiments/cli/test_torchrun.py",
    "tests/icl/training/parallel/test_two_processes.py",
    "tests/experiments/store/test_cluster.py",
)
# What takes seconds to set up: tests that use it are long too.
LONG_FIXTURES = {
    "tests.experiments.conftest.smoke",
    "tests.experiments.across.test_orderings.run",
    "tests.experiments.campaign.test_question.finished",
    "tests.experiments.cli.test_train.text",
    "tests.experiments.report.test_site.site",
    "tests.experiments.report.test_pages.pages",
    "tests.experiments.skipv1.test_uptraining.ran",
    "tests.experiments.training.test_stacks.records",
    "tests.icl.training.parallel.test_two_processes.place",
    "tests.icl.training.parallel.test_two_processes.whole",
    "tests.theory.plans.test_installed_papers.crowded",
}


def fixtures_of(item):
    """Return module and name of every fixture that a test uses."""
    found = item._fixtureinfo.name2fixturedefs.values()
    return {f"{one.func.__module__}.{one.argname}" for definitions in found for one in definitions[-1:]}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    for item in items:
        if LONG_FIXTURES & fixtures_of(item):
            item.add_marker("long")
    places = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.nodeid.partition("::")[0], len(places)))


def pytest_collection_finish():
    """What is imported and collected stays: the collector of garbage need not go through it ever again."""
    gc.collect()
    gc.freeze()


def pytest_make_parametrize_id(config, val):  # noqa: ARG001
    """Without addresses, which are others in every process: workers have to collect the same names."""
    text = repr(val)
    return re.sub(r" at 0x[0-9a-f]+", "", text) if " at 0x" in text else None
