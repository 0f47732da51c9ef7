"""What is said of names that are not there: the same rule for every kind of them."""

import pytest

from theory.plans.presets import PRESETS
from theory.plans.suggestions import hint, suggestions, unknown
from theory.plans.variants import VARIANTS


@pytest.mark.parametrize(
    ("name", "known", "meant"),
    [
        ("skipv1former", VARIANTS, ["skipv1"]),
        ("SkipV1", VARIANTS, ["skipv1"]),
        ("ResFormer", VARIANTS, ["resformer"]),
        ("attnres_block", VARIANTS, ["attnres-block"]),
        ("LLaMA-2M", PRESETS, ["llama-2m"]),
        ("llama2m", PRESETS, ["llama-2m"]),
        ("lr", ["layers", "learning-rate", "log-every"], ["learning-rate"]),
        ("zzz", VARIANTS, []),
        ("_", VARIANTS, []),
    ],
)
def test_what_may_be_meant(name, known, meant):
    assert suggestions(name, known) == meant


def test_the_line():
    assert unknown("variant", "dva-b", VARIANTS, others={"preset": PRESETS}) == (
        "unknown variant 'dva-b', which is a preset; did you mean dva?"
    )
    assert unknown("dtype", "x", ["fp32", "bf16"]) == "unknown dtype 'x'; there are fp32, bf16"
    assert unknown("dtype", "x", ["fp32"], lists="see --help") == "unknown dtype 'x'; see --help"
    assert hint("fp_32", ["fp32"], "no") == "did you mean fp32?"
