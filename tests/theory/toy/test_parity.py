"""Under linear scores and rotary positions no answer sees the sign of y; what the theorem is not about."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.across.claims.trained_layer import turned
from theory.plans.architecture import Architecture, Vectors
from theory.plans.depth import Chain, DepthAttention
from theory.plans.names import resolve
from theory.plans.plan import Shape
from theory.toy.parity import keeps_signs

PLAIN = Architecture(
    d_model=6, n_layers=2, n_heads=2, d_ff=0, context=9, stem=Vectors(3), head_dim=4, norm="none", score="linear"
)
VARIANTS = ("vanilla", "skipv1", "resformer", "svformer", "skipv0", "cla-v", "shared-keys", "denseformer")


@settings(max_examples=40)
@given(
    st.sampled_from(VARIANTS),
    st.integers(1, 5),
    st.integers(0, 4),
    st.integers(1, 3),
    st.sampled_from(("none", "rms", "layer")),
    st.sampled_from(("rope", "none")),
    st.integers(0, 9),
)
def test_no_answer_sees_the_sign_of_y(name, d, pairs, layers, norm, positions, seed):
    config = replace(
        PLAIN, stem=Vectors(d), n_layers=layers, context=2 * pairs + 1, norm=norm, positions=positions, d_model=d + 1
    )
    plan = resolve(name if layers > 1 else "vanilla", config.shape)
    assert keeps_signs(config, plan)
    assert turned(config, plan, seed) < 1e-9


def test_weights_over_depth_may_not_look():
    for depth, blind in ((DepthAttention(), False), (DepthAttention(query="static"), True), (Chain(), True)):
        plan = replace(resolve("vanilla", Shape(2, 2)), depth=depth)
        assert keeps_signs(PLAIN, plan) == blind
        assert (turned(PLAIN, plan) < 1e-9) == blind


def test_the_assumed_copy_and_dynamic_values_are_not_meant():
    vanilla = resolve("vanilla", Shape(2, 2))
    assert not keeps_signs(replace(PLAIN, stem=Vectors(6, read_in=False), copy_rank=2), vanilla)
    assert not keeps_signs(PLAIN, replace(vanilla, dynamic="revised"))
