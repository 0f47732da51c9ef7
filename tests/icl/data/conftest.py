"""Ranks of a tokenizer, a folder of texts, and the data set prepared from it."""

import pytest

from icl.data.preparing import prepare
from icl.data.tokenizers import END
from tests.icl.data.small import MERGES, SMALL, write_ranks


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    path = tmp_path_factory.mktemp("ranks") / "tiny.tiktoken"
    return write_ranks(path, [*(bytes([byte]) for byte in range(256)), *MERGES])


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Forty files of some lines each, one text twice, some characters of more than one byte."""
    folder = tmp_path_factory.mktemp("corpus")
    for number in range(40):
        text = f"# File {number}\n" + "".join(f"line {i} of {number}: café {END}\n" for i in range(number % 7 + 1))
        (folder / f"{number:02}.txt").write_text(text)
    (folder / "copy.txt").write_bytes((folder / "03.txt").read_bytes())
    return folder


@pytest.fixture
def prepared(corpus, tmp_path):
    prepare(str(corpus), tmp_path / "data", **SMALL)
    return tmp_path / "data"
