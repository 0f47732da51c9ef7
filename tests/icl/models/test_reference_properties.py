"""What must hold of every variant, or between two of them, whatever the formulas: time order, padding, gradient paths,
and the special weights at which one variant is another."""

from dataclasses import replace
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.func import functional_call

from icl.testing import REFERENCES, Case, cases, check_identity, decode, generic, inputs_of
from icl.testing.agreement import answer, check_answers, leaves_of, moved_leaves, terms_of
from tests.icl.models.reference_latents import LATENTS
from tests.icl.models.test_references import NEEDS
from theory.plans.architecture import Architecture, Vectors
from theory.plans.variants import VARIANTS

TINY = Architecture(d_model=4, n_layers=2, n_heads=2, d_ff=3, context=4, stem=Vectors(3))
KINDS = [(name, False) for name in VARIANTS] + [(name.replace("_", "-"), True) for name in LATENTS]


def drawn(name, latent=False, examples=3, **needs):
    """Cases that a variant fits, as a decorator."""
    return lambda test: settings(max_examples=examples)(
        given(cases(latent=latent, **NEEDS.get(name, {}), **needs))(test)
    )


def model_of(case, name, **options):
    return generic(case.config, VARIANTS[name].make(case.config.shape, **options), case.seed)


def call(model, leaves, inputs):
    return functional_call(model, leaves, (inputs,))


def check_same(left, right, leaves, inputs, case):
    """Two functions of (leaves, inputs) are one, with all gradients."""
    step, moved = moved_leaves(leaves, case.seed)
    answers = (answer(f, x, inputs, case.seed) for f, x in ((left, leaves), (right, leaves), (right, moved)))
    check_answers(*answers, step=step, terms=terms_of(case.config))


# --- time and padding -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "latent"), KINDS)
def test_the_future_does_not_matter(name, latent):
    @drawn(name, latent)
    def held(case):
        inputs, model = inputs_of(case), model_of(case, name)
        other = inputs_of(case, stream=1)
        out = model(inputs)
        for t in range(case.length):
            changed = torch.cat([inputs[:, : t + 1], other[:, t + 1 :]], 1)
            check_identity(model(changed)[:, : t + 1], out[:, : t + 1])

    held()


@settings(max_examples=5)
@given(cases(stems=("vectors",)).filter(lambda case: case.length > 1))
def test_without_a_mask_the_future_matters(case):
    case = replace(case, config=replace(case.config, mask="none"))
    inputs, model = inputs_of(case), model_of(case, "vanilla")
    changed = torch.cat([inputs[:, :-1], -inputs[:, -1:]], 1)
    assert not torch.allclose(model(changed)[:, :-1], model(inputs)[:, :-1])


@st.composite
def real_tokens(draw, case):
    """(batch, T), true where a token is real: padded on the left or on the right, never the whole row."""
    rows = []
    for _ in range(case.batch):
        pads = draw(st.integers(0, case.length - 1))
        row = [False] * pads + [True] * (case.length - pads)
        rows.append(row if draw(st.booleans()) else row[::-1])
    return torch.tensor(rows)


def check_padding(case, model, real):
    """Outputs at real tokens, and the gradients of a functional of those, are the ones of every sequence alone."""

    def padded(leaves, inputs):
        return functional_call(model, leaves, (inputs, real))[real]

    def alone(leaves, inputs):
        rows = zip(inputs, real, strict=True)
        return torch.cat([functional_call(model, leaves, (row[kept][None],))[0] for row, kept in rows])

    check_same(padded, alone, leaves_of(model), inputs_of(case), case)


DYNAMIC = ["vanilla", "cross-layer", "dva-attention", "dva-initial-attention"]
PADDED = [
    *((name, {"latent": latent}) for name, latent in KINDS),
    *((name, {"mask": "none"}) for name in DYNAMIC),
    *((name, {"mask": mask, "positions": "bias"}) for mask in ("causal", "none") for name in [*DYNAMIC, "skipv0"]),
]


@pytest.mark.parametrize(("name", "needs"), PADDED)
def test_padding_does_not_matter(name, needs):
    @settings(max_examples=3)
    @given(st.data())
    def held(data):
        case = data.draw(cases(**needs, **NEEDS.get(name, {})))
        check_padding(case, model_of(case, name), data.draw(real_tokens(case)))

    held()


@pytest.mark.parametrize("positions", ["none", "bias"])
@pytest.mark.parametrize("real", [[True] * 4, [False, True, True, True], [True, True, True, False]])
def test_padding_does_not_matter_under_the_context_mask(real, positions):
    made = replace(TINY, mask="context", score="linear", positions=positions)
    case = Case(made, batch=1, length=4, seed=0)
    check_padding(case, model_of(case, "vanilla"), torch.tensor([real]))


@pytest.mark.parametrize("mask", ["causal", "none"])
def test_unmarked_padding_matters(mask):
    """The control of the tests above, on vectors, no two of which are alike."""
    case = Case(replace(TINY, mask=mask), batch=2, length=4, seed=0)
    model, real = model_of(case, "vanilla"), torch.ones(case.batch, case.length, dtype=torch.bool)
    real[:, 0] = False
    inputs = inputs_of(case)
    assert not torch.allclose(model(inputs)[:, 1:], model(inputs, real)[:, 1:])


# --- gradient paths -------------------------------------------------------------------------------------------------

VALUE = "layers.0.attention.projections.value.weight"


def gradient_by_use(case, name, leaves, inputs, layer):
    """The gradient of layer 1's value projection, had only `layer`'s use of layer 1's values one."""

    def edit(kind, m, n, y):
        return y.detach() if kind == "value" and m == 1 and n != layer else y

    return answer(lambda w, x: decode(w, case.config, REFERENCES[name](), x, edit=edit), leaves, inputs, case.seed)[1][
        VALUE
    ]


@pytest.mark.parametrize("name", ["svformer", "skipv1", "resformer"])
def test_layer_1_values_get_the_sum_over_their_uses(name):
    @drawn(name, examples=4, least_layers=2, most_layers=4)
    def held(case):
        model, inputs = model_of(case, name), inputs_of(case)
        leaves = leaves_of(model)
        layers = range(1, case.config.n_layers + 1)
        by_use = torch.stack([gradient_by_use(case, name, leaves, inputs, n) for n in layers])

        def reference(w, x):
            return decode(w, case.config, REFERENCES[name](), x)

        step, moved = moved_leaves(leaves, case.seed)
        _, gradients = answer(partial(call, model), leaves, inputs, case.seed)
        right, shifted = (answer(reference, w, inputs, case.seed) for w in (leaves, moved))
        check_answers(
            (right[0], gradients | {VALUE: by_use.sum(0)}), right, shifted, step=step, terms=terms_of(case.config)
        )
        check_answers((right[0], gradients), right, shifted, step=step, terms=terms_of(case.config))
        if name == "svformer":
            assert [key for key in leaves if "projections.value.weight" in key] == [VALUE]

    held()


@drawn("skipv1", examples=5, least_layers=2, most_layers=4)
def test_skip_heads_alone_are_taught_by_all_layers(case):
    """With one layer's output projection left, layer 1's values learn through that layer only."""
    inputs, own = inputs_of(case), case.config.kv_heads - case.config.kv_heads // 2
    for kept in range(case.config.n_layers):
        model = model_of(case, "skipv1")
        with torch.no_grad():
            for n, layer in enumerate(model.layers):
                layer["attention"].output.weight *= n == kept
        _, gradients = answer(partial(call, model), leaves_of(model), inputs, case.seed)
        by_head = gradients[VALUE].unflatten(0, (case.config.kv_heads, -1)).square().sum((1, 2))
        assert bool((by_head[own:] > 0).all())
        assert bool((by_head[:own] > 0).all() if kept == 0 else (by_head[:own] == 0).all())


# --- one variant is another -----------------------------------------------------------------------------------------


def check_is_vanilla(case, model, own):
    """A model of these weights of its own, and of vanilla's else, is the vanilla model."""
    vanilla = model_of(case, "vanilla")
    leaves, inputs = leaves_of(vanilla), inputs_of(case)
    check_same(lambda w, x: call(model, w | own, x), partial(call, vanilla), leaves, inputs, case)


def check_is_vanilla_without(case, silent):
    model = model_of(case, "dva-attention")
    gates = {key: p.detach() for key, p in model.named_parameters() if "_gate" in key}
    gates |= {key: torch.zeros_like(p) for key, p in gates.items() if f".{silent}." in key}
    check_is_vanilla(case, model, gates)


@settings(max_examples=10)
@given(cases(), st.sampled_from(["key_gate", "query_gate"]))
def test_revised_dynamic_values_without_gates_are_vanilla(case, silent):
    check_is_vanilla_without(case, silent)


@settings(max_examples=3)
@given(cases())
def test_revised_dynamic_values_with_gates_are_not(case):
    with pytest.raises(AssertionError, match="differ by"):
        check_is_vanilla_without(case, "none")
