"""The decoder under every named plan is what the variant's paper writes, function and gradients, in float64."""

from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given, settings

from icl.testing import REFERENCES, Reference, cases, check_plan, check_reference, check_variant, inputs_of
from tests.icl.models.reference_depths import no_residual
from tests.icl.models.reference_latents import LATENTS
from tests.icl.models.reference_streams import hyper_dynamic, hyper_static, mhc
from tests.icl.models.reference_variants import initial, revised, skips
from tests.theory.field.references import routed
from theory.plans.combine import combine
from theory.plans.plan import Chain, plan
from theory.plans.variants import VARIANTS

# What a variant asks of the sizes: heads to split, a layer to read from, a width to cut.
SPLIT = dict.fromkeys(["skipv1", "skipv0", "skipkv1", "skipv1-yoco", "skipv1-dynamic", "skipv1-resformer"], 2)
NEEDS = {name: {"least_heads": least} for name, least in SPLIT.items()} | {
    "skipv1-pooling": {"least_heads": 2, "even": True},
    "skipv1-odd-even": {"least_heads": 2, "even": True},
    "skipv2": {"least_heads": 2, "least_layers": 2},
    "dva": {"square": True},
    "dva-gate": {"square": True},
    "dva-initial": {"square": True},
    "attnres-heads": {"parts": 16},
    "value-embeddings": {"stems": ("tokens", "tied")},
    "gated-value-embeddings": {"stems": ("tokens", "tied")},
}

DEEP = {"least_layers": 3}
OPTIONS = [
    ("skipv1", {"ratio": 0.25}, {"least_heads": 4}),
    ("skipv1", {"ratio": 0.5}, {"least_heads": 3}),
    ("skipv1", {"ratio": 0.75}, {"least_heads": 4}),
    ("skipv1", {"source": 2}, {"least_heads": 2, **DEEP}),
    ("skipv1", {"ratio": 0.25, "source": 3}, {"least_heads": 4, **DEEP}),
    ("skipv2", {"ratio": 0.75}, {"least_heads": 4, **DEEP}),
    ("skipv0", {"ratio": 0.25}, {"least_heads": 4}),
    ("skipkv1", {"ratio": 0.75}, {"least_heads": 4}),
    ("skipv1-yoco", {"ratio": 0.25}, {"least_heads": 4, **DEEP}),
    ("resformer", {"own": 0.7, "first": -0.4}, DEEP),
    ("resformer-constant", {"weight": 0.5}, DEEP),
    ("resformer-sparse", {"last": 2, "own": 0.3, "first": 0.9}, DEEP),
    ("neutreno", {"weight": 0.6}, DEEP),
    ("resformer-neutreno", {"weight": 0.6}, DEEP),
    ("svformer", {"anchors": (1, 3)}, DEEP),
    ("svformer", {"anchors": (1, 2)}, DEEP),
    ("cla", {"every": 3}, DEEP),
    ("cla-k", {"every": 3}, DEEP),
    ("cla-v", {"every": 1}, DEEP),
    ("cross-layer", {"source": 1}, DEEP),
    ("cross-layer", {"source": 2}, DEEP),
    ("attnres-window", {"window": 1}, DEEP),
    ("attnres-window", {"window": 3}, DEEP),
    ("attnres-heads", {"heads": 2}, {"parts": 2}),
    ("attnres-heads", {"heads": 4, "blocks": 3}, {"parts": 4}),
    ("attnres-block", {"blocks": 2}, DEEP),
    ("attnres-block", {"blocks": 3}, DEEP),
    *(("attnres-block", {"size": size}, DEEP) for size in range(1, 6)),
    *(("attnres-block", {"layers": layers}, DEEP) for layers in (1, 2, 3)),
    *((name, {"streams": n}, {}) for name in ("hyper-connections-static", "hyper-connections") for n in (1, 2)),
    ("mhc", {"streams": 1}, {}),
    ("mhc", {"streams": 2, "rounds": 3, "diagonal": 1.0}, {}),
    ("denseformer-sparse", {}, {"least_layers": 5}),
    ("value-embeddings", {"tables": 1}, {"stems": ("tokens", "tied"), **DEEP}),
    ("value-embeddings", {"tables": 2}, {"stems": ("tokens", "tied"), "least_layers": 5}),
    ("gemma-sharing", {"every": 2, "shared": 2}, DEEP),
    ("gemma-sharing", {"every": 3, "shared": 1}, DEEP),
    ("denseformer-sparse", {"dilation": 2, "period": 1}, DEEP),
    ("denseformer-sparse", {"dilation": 1, "period": 2}, DEEP),
    ("denseformer-sparse", {"dilation": 2, "period": 2}, DEEP),
    ("gated-value-embeddings", {"every": 1, "channels": 2}, {"stems": ("tokens", "tied")}),
    ("gated-value-embeddings", {"every": 3, "scale": 3.0}, {"stems": ("tokens", "tied"), **DEEP}),
    ("deepcrossattention", {"last": 1}, DEEP),
    ("deepcrossattention", {"last": 2}, {"least_layers": 4}),
    ("deepcrossattention", {"last": 1, "first": 0}, DEEP),
    ("deepcrossattention", {"last": 2, "first": 2, "between": 0}, {"least_layers": 5}),
    ("deepcrossattention", {"last": 1, "first": 2}, {"least_layers": 4}),
]
LATENT_OPTIONS = [("skipv1", {"ratio": 0.25}), ("svformer", {"anchors": (1, 3)}), ("cross_layer", {"source": 1})]


def label(value):
    return ",".join(f"{key}={v}" for key, v in value.items()) if isinstance(value, dict) else str(value)


def test_every_variant_has_a_reference():
    assert VARIANTS.keys() == REFERENCES.keys()


@pytest.mark.parametrize("name", VARIANTS)
def test_variant(name):
    check_variant(name, **NEEDS.get(name, {}))


@pytest.mark.parametrize(("name", "options", "needs"), OPTIONS, ids=label)
def test_options(name, options, needs):
    check_variant(name, options=options, **needs)


def test_families():
    """Tied and untied, biased, every norm, position and feed-forward, grouped queries, patches without a mask."""
    check_variant("vanilla", examples=12, stems=("tokens", "tied", "vectors", "patches"))


def test_attention_alone():
    check_variant("vanilla", examples=10, d_ff=0, norm="none", most_layers=2, stems=("vectors",))


def test_chain():
    chain = replace(REFERENCES["vanilla"](), depth=no_residual)
    check_plan(lambda shape: plan(shape, depth=Chain()), chain, examples=10, most_layers=3)


@pytest.mark.parametrize("name", ["skipv1", "resformer", "dva-attention", "dva-initial-attention", "cross-layer"])
def test_grouped_queries(name):
    check_variant(name, **NEEDS.get(name, {}), **DEEP, n_kv_heads=2, n_heads=6)


@pytest.mark.parametrize(("name", "options"), [*((name, {}) for name in LATENTS), *LATENT_OPTIONS], ids=label)
def test_latent(name, options):
    name = name.replace("_", "-")
    check_variant(name, options=options, latent=True, least_layers=3, least_heads=4 if name == "skipv1" else 1)


@pytest.mark.parametrize("mask", ["causal", "none", "context"])
@pytest.mark.parametrize("name", ["vanilla", "skipv1", "resformer", "cross-layer", "dva-attention"])
def test_linear_attention(name, mask):
    check_variant(name, examples=3, score="linear", mask=mask, stems=("vectors",), **NEEDS.get(name, {}))


DYNAMIC = {
    "resformer": lambda x, h: (x.v(x.n, h) + x.v(1, h)) / 2,
    "svformer": lambda x, h: x.v(1, h),
    "skipv1": lambda x, h: x.v(1 if skips(x, h) else x.n, h),
}


@pytest.mark.parametrize(("form", "rule"), [("dva-attention", revised), ("dva-initial-attention", initial)])
@pytest.mark.parametrize("name", DYNAMIC)
def test_dynamic_values_of_mixed_values(name, form, rule):
    """Where another variant says what v_j is, Dynamic Value Attention's formulas go on from there."""

    def both(shape):
        return combine(*(VARIANTS[variant].make(shape) for variant in (name, form)))

    check_plan(both, Reference(lambda x, h: rule(x, h, DYNAMIC[name](x, h))), **NEEDS.get(name, {}), least_layers=2)


# --- controls: a wrong formula is rejected --------------------------------------------------------------------------


def wrong_heads(x, h):
    """Layer 1's first heads in the place of its last ones."""
    return x.A(h) @ (x.v(1, h - x.heads // 2) if x.n > 1 and h > x.heads // 2 else x.v(x.n, h))


def literal_neutreno(x, h):
    """Eqn. 8 of ResFormer with J as printed, all ones."""
    A = x.A(h)
    return (A - 0.4) @ x.v(x.n, h) + 0.4 * x.v(1, h)


def unscaled_concatenation(x, h):
    """Eqn. 2 of ResFormer with a softmax for each list."""
    if x.n == 1:
        return x.A(h) @ x.v(1, h)
    return (x.A(h) @ x.v(x.n, h) + x.score(x.q(x.n, h), x.k(x.n - 1, h)) @ x.v(x.n - 1, h)) / 2


def off_by_one(x, h):
    """The rotating heads of SkipV1Former, appendix C.4, one layer late."""
    return x.A(h) @ (x.v(1, (x.n + h - 2) % x.heads + 1) if x.n > 1 and h > x.heads // 2 else x.v(x.n, h))


def unshared_tables(x, h):
    """Value embeddings in the first half alone: the last layers do not read the tables again."""
    v = x.learned(f"own_{x.n}") * x.v(x.n, h)
    return x.A(h) @ (v + x.learned(f"row_{x.n}") * x.e(x.n, h) if x.n <= min(3, max(1, x.layers // 2)) else v)


def untied(x, h):
    """Layer 1's values are added, and no less is left of a layer's own."""
    lamb = x.learned(f"first_{x.n}") if x.n > 1 else 0
    return x.A(h) @ (x.v(x.n, h) + lamb * x.v(1, h))


def unshifted(x, h):
    """Shifted values that stay where they are."""
    kept = x.weight(f"kept_{x.n}", h - 1)
    return x.A(h) @ (kept * x.v(x.n, h) + (1 - kept) * x.v(x.n, h))


def values_alone(x, h):
    """LIMe whose keys are the layer's own."""
    return x.A(h) @ routed(x, h, x.v)


def unmixed(depth):
    """Hyper-connections as some codes have them: the mixing matrix is made and not applied to the streams."""
    return replace(REFERENCES["vanilla"](), depth=partial(depth, mixing=False))


WRONG = {
    "skipv1": Reference(wrong_heads),
    "hyper-connections": unmixed(hyper_dynamic),
    "hyper-connections-static": unmixed(hyper_static),
    "mhc": unmixed(mhc),
    "skipv1-dynamic": Reference(off_by_one),
    "resformer": REFERENCES["resformer"](own=0.5001, first=0.4999),
    "neutreno": Reference(literal_neutreno),
    "cross-layer": Reference(unscaled_concatenation),
    "dva-attention": REFERENCES["dva-initial-attention"](),
    "value-embeddings": Reference(unshared_tables),
    "tied-resformer": Reference(untied),
    "shifted-values": Reference(unshifted),
    "lime": Reference(values_alone),
    "gemma-sharing": REFERENCES["gemma-sharing"](every=3, shared=2),
    "attnres-block": REFERENCES["attnres-block"](size=2),
    "attnres": REFERENCES["attnres-window"](window=3),
    "svformer": REFERENCES["svformer"](anchors=(1, 3)),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_formula_is_rejected(name):
    options = {
        "attnres-block": {"size": 3},
        "svformer": {"anchors": (1, 2)},
        "gemma-sharing": {"every": 2, "shared": 2},
    }.get(name, {})
    fixed = {"n_heads": 4, "n_kv_heads": 4, "d_model": 8, "least_layers": 3, "stems": ("tokens",)}

    @settings(max_examples=3)
    @given(cases(**fixed).filter(lambda case: bool(inputs_of(case).diff().any())))  # of equal tokens keys tell nothing
    def held(case):
        with pytest.raises((AssertionError, KeyError), match=r"differ by|weights that the paper|projections"):
            check_reference(case, VARIANTS[name].make(case.config.shape, **options), WRONG[name])

    held()


@pytest.mark.slow  # minutes: sixty sizes of every variant and option, where the tests above draw four
@pytest.mark.parametrize(
    ("name", "options", "needs"), [*((name, {}, NEEDS.get(name, {})) for name in VARIANTS), *OPTIONS], ids=label
)
def test_variant_at_length(name, options, needs):
    check_variant(name, options=options, examples=60, **needs)
