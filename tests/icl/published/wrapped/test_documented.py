"""The table of arguments (icl/published/TRANSFORMERS.md) has a row for every argument, and the refusals it names."""

import inspect
import re
from pathlib import Path

import pytest

import icl.published

transformers = pytest.importorskip("transformers")
arguments = pytest.importorskip("icl.published.wrapped.arguments")

TABLE = (Path(icl.published.__file__).parent / "TRANSFORMERS.md").read_text(encoding="utf-8")
ROWS = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", TABLE.partition("## Caches")[0], re.MULTILINE))


def test_every_argument_of_llama_has_a_row():
    own = set(inspect.signature(transformers.LlamaForCausalLM.forward).parameters) - {"self", "kwargs"}
    assert own <= ROWS.keys()
    common = getattr(transformers.utils.generic, "TransformersKwargs", None)
    assert common is None or common.__optional_keys__ <= ROWS.keys()


def test_what_is_refused_is_said_to_be():
    assert {name for name, row in ROWS.items() if row.startswith("refused")} | {
        "is_causal",
        "output_router_logits",
    } == (arguments.REFUSED.keys())
