"""Hypothesis: no deadlines (first calls import torch), and the same examples in every CI run.  And one thread: products
here are tiny, and two threads on a busy machine take many times as long as one."""

import os
import re

for library in ("OMP", "OPENBLAS", "MKL"):  # read when numpy is first imported
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")

import pytest  # noqa: E402
from hypothesis import settings  # noqa: E402

settings.register_profile("default", deadline=None, max_examples=40)
settings.register_profile("ci", deadline=None, max_examples=40, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")


def pytest_make_parametrize_id(config, val):  # noqa: ARG001
    """Without addresses, which are others in every process: workers have to collect the same names."""
    text = repr(val)
    return re.sub(r" at 0x[0-9a-f]+", "", text) if " at 0x" in text else None


@pytest.hookimpl(tryfirst=True)  # before xdist reads the marks
def pytest_collection_modifyitems(items):
    """Tests that share something costly run in one worker, so that it is made once."""
    for item in items:
        shared = [name for name, made in item._fixtureinfo.name2fixturedefs.items() if _is_shared(made[-1])]
        if shared:
            item.add_marker(pytest.mark.xdist_group("smoke" if "smoke" in shared else item.nodeid.partition("::")[0]))


def _is_shared(fixture):
    return fixture.scope in ("module", "session") and fixture.baseid and not fixture.argname.startswith("_")
