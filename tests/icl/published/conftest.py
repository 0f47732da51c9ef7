"""An exported decoder that a module's tests share."""

import pytest


@pytest.fixture(scope="module")
def patch():
    with pytest.MonkeyPatch.context() as one:
        yield one


@pytest.fixture(scope="module")
def skip(patch, tmp_path_factory):
    """A decoder under skipv1 as a model of transformers."""
    from tests.icl.published.exported import exported
    from tests.icl.published.test_transformers import OURS, decoder

    return exported(decoder(OURS["llama"], "skipv1"), tmp_path_factory.mktemp("skip"), patch)
