"""Windows by layer, gates, scales, residual maps and parallel layers against what their papers write, in float64.

Function, gradients and the set of weights are compared (`reference_cases.agree`), counts, and decoding from a cache.
"""

from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from icl.models.cache import Cache, step
from icl.models.decoder import Decoder
from icl.testing import check_identity
from tests.icl.models.reference_cases import agree, cases, generic
from tests.icl.models.reference_variants import REFERENCES
from theory.plans.accounting import cache, flops, parameters, total_parameters
from theory.plans.architecture import Architecture, Latent, Patches, Tokens, Vectors
from theory.plans.names import BadName, model, resolve
from theory.plans.plan import plan
from theory.plans.sharding import sublayer_parameters

# Every part of an architecture, and one that leaves its mechanism out: the control.
PARTS = {
    "windows": ({"windows": (2, 0, 1)}, {"windows": (2, 0, 0)}),
    "gated-heads": ({"output_gate": "head"}, {"output_gate": "no"}),
    "gated-outputs": ({"output_gate": "element"}, {"output_gate": "no"}),
    "rezero": ({"output_scale": "number"}, {"output_scale": "no"}),
    "layer-scale": ({"output_scale": "vector", "scale_start": 0.1}, {"output_scale": "no"}),
    "laurel": ({"residual_rank": 2}, {"residual_rank": 0}),
    "parallel": ({"parallel": True}, {"parallel": False}),
}
ALL = {"windows": (2, 0), "output_gate": "element", "output_scale": "vector", "residual_rank": 1, "parallel": True}
PLAIN = Architecture(
    d_model=12, n_layers=3, n_heads=4, d_ff=10, context=9, stem=Tokens(7), n_kv_heads=2, head_dim=4, norm_eps=0.1
)
EVERY = {name: fields for name, (fields, _) in PARTS.items()} | {"all": ALL}


@pytest.mark.parametrize("name", EVERY)
def test_a_part_is_what_its_paper_writes(name):
    @settings(max_examples=5)
    @given(cases(least_layers=2, **EVERY[name]))
    def held(case):
        agree(case, plan(case.made.shape), REFERENCES["vanilla"]())

    held()


@pytest.mark.parametrize("variant", ["skipv1", "value-embeddings", "shifted-values", "attnres", "gemma-sharing"])
def test_all_parts_under_a_variant(variant):
    fields = {**ALL, "parallel": False}

    @settings(max_examples=3)
    @given(cases(least_layers=2, least_heads=2, stems=("tokens",), **fields))
    def held(case):
        agree(case, resolve(variant, case.made.shape), REFERENCES[variant]())

    held()


@pytest.mark.parametrize("name", PARTS)
def test_a_model_without_the_part_is_another_function(name):
    """The control: the same weights, as far as both have them, and another output."""
    fields, without = PARTS[name]
    config, other = replace(PLAIN, **fields), replace(PLAIN, **without)
    whole = generic(config, plan(config.shape), 1)
    bare = generic(other, plan(other.shape), 1)
    bare.load_state_dict(whole.state_dict(), strict=False)
    tokens = torch.arange(8)[None] % 7
    with torch.no_grad():
        assert float((whole(tokens) - bare(tokens)).abs().max()) > 1e-3


@pytest.mark.parametrize("name", EVERY)
def test_counts_are_those_of_the_model(name):
    config = replace(PLAIN, **EVERY[name])
    for variant in ("vanilla", "svformer", "value-embeddings"):
        chosen = resolve(variant, config.shape)
        built = Decoder(config, chosen, device="meta")
        assert sum(p.numel() for p in built.parameters()) == total_parameters(config, chosen)
        own = [sum(p.numel() for p in sublayer.parameters()) for sublayer in built.weight_groups]
        assert own == sublayer_parameters(config, chosen)


def test_counts_of_parts():
    counts = parameters(replace(PLAIN, **{**ALL, "parallel": False}), plan(PLAIN.shape))
    assert counts["gates"] == 3 * 12 * 16
    assert counts["scales"] == 6 * 12
    assert counts["residual_maps"] == 6 * 2 * 12
    assert parameters(replace(PLAIN, parallel=True), plan(PLAIN.shape))["norms"] == (3 + 1) * 12
    vanilla = plan(PLAIN.shape)
    for fields, added in (({"output_gate": "head"}, 3 * 12 * 4), ({"residual_rank": 5}, 6 * 2 * 5 * 12)):
        assert flops(replace(PLAIN, **fields), vanilla, 9) - flops(PLAIN, vanilla, 9) == 2 * added
    windows = replace(PLAIN, windows=(2, 0, 5))
    per_token = (flops(PLAIN, vanilla, 9) - flops(PLAIN, vanilla, 8)) // 3
    assert flops(PLAIN, vanilla, 9) - flops(windows, vanilla, 9) == per_token * (7 + 0 + 4)
    assert cache(windows, vanilla) == cache(PLAIN, vanilla)


@pytest.mark.parametrize("name", EVERY)
@settings(max_examples=4)
@given(st.data())
def test_decoding_from_a_cache_gives_the_same(name, data):
    config = replace(PLAIN, context=24, **EVERY[name])
    variant = data.draw(st.sampled_from(["vanilla", "value-embeddings", "shifted-values", "gemma-sharing"]))
    built = generic(config, resolve(variant, config.shape), 3)
    tokens = torch.randint(7, (2, 20), generator=torch.Generator().manual_seed(4))
    cuts = sorted(data.draw(st.sets(st.integers(1, 19), max_size=6)) | {0, 20})
    kept = Cache(built, 2, 20)
    with torch.no_grad():
        parts = [step(built, tokens[:, a:b], kept) for a, b in pairwise(cuts)]
        check_identity(torch.cat(parts, dim=1), built(tokens), terms=100)


def test_windows_make_room_in_the_cache():
    windows = replace(PLAIN, context=100, windows=(3, 5))
    kept = Cache(Decoder(windows, plan(PLAIN.shape)), 1, 90)
    assert kept.room == 10
    assert Cache(Decoder(replace(windows, windows=(3, 0)), plan(PLAIN.shape)), 1, 90).room == 90
    shifted = Cache(Decoder(windows, resolve("shifted-values", PLAIN.shape)), 1, 90)
    assert shifted.room == 11


def test_starts():
    """ReZero begins at the embedding alone, LAuReL at the model without its maps."""
    vanilla, tokens = plan(PLAIN.shape), torch.arange(8)[None] % 7
    with torch.no_grad():
        rezero = Decoder(replace(PLAIN, output_scale="number"), vanilla)
        x = rezero.stem.embed(tokens)
        torch.testing.assert_close(rezero(tokens), rezero.stem.answer(rezero.norm(x)))
        assert torch.equal(Decoder(replace(PLAIN, residual_rank=2), vanilla)(tokens), Decoder(PLAIN, vanilla)(tokens))


@pytest.mark.parametrize("name", ["gated-outputs", "layer-scale", "laurel", "parallel", "windows"])
def test_bf16_is_near(name):
    built = generic(replace(PLAIN, **EVERY[name]), plan(PLAIN.shape), 5)
    tokens = torch.arange(8)[None] % 7
    with torch.no_grad():
        exact = built(tokens)
        near = built.bfloat16()(tokens).double()
    assert float((exact - near).norm() / exact.norm()) < 0.1  # some twenty roundings to eight bits


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"windows": (2, -1)}, "windows by layer must be whole numbers from 0"),
        ({"windows": (2,), "window": 3}, "a window is the same in all layers, or given by layer"),
        ({"windows": (2,), "mask": "none"}, "the mask must be causal"),
        ({"scale_start": 0.5}, "there is none to begin at 0.5"),
        ({"residual_rank": -1}, "residual_rank must not be negative"),
        ({"output_gate": "some"}, "output_gate must be one of no, head, element"),
        ({"output_gate": "head", "latent": Latent(8, 2), "n_kv_heads": 0}, "not for a latent"),
        ({"parallel": True, "copy_rank": 1}, "does not have a feed-forward beside its attention"),
    ],
)
def test_parts_without_meaning(fields, says):
    with pytest.raises(ValueError, match=says):
        replace(PLAIN, **fields)


@pytest.mark.parametrize("stem", [Vectors(3), Patches(4, 2, 1, 3)])
def test_tables_need_tokens(stem):
    config = replace(PLAIN, stem=stem, mask="none", context=5 if isinstance(stem, Patches) else 9)
    with pytest.raises(BadName, match="a table has a row for every token of a vocabulary, and this model reads none"):
        model(config, "value-embeddings")


def test_parts_by_name():
    names = "windows:pattern=(4,0)+gated-heads+layer-scale:start=0.01+laurel:rank=2+parallel"
    config, _ = model(PLAIN, names)
    assert config == replace(
        PLAIN,
        windows=(4, 0),
        output_gate="head",
        output_scale="vector",
        scale_start=0.01,
        residual_rank=2,
        parallel=True,
    )
