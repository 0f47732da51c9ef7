"""The decoder beside its plan: counts, initial weights, precision, compilation, stems, and what does not fit."""

import copy
from dataclasses import replace

import pytest
import torch
from torch.nn.functional import cross_entropy
from torch.utils.flop_counter import FlopCounterMode

from icl.models.decoder import Decoder
from icl.models.depth import AverageDepth
from icl.models.depth_attention import Phase
from icl.models.initial import initialise
from icl.testing import check_identity
from tests.icl.models.small import ARCHITECTURES, GPT2, LLAMA, OPTIONS, fitting, models, some_input
from theory.plans.accounting import depth_sources, flops, parameters
from theory.plans.architecture import Latent, Patches, Tokens, Vectors
from theory.plans.names import resolve
from theory.plans.plan import DepthAttention, Learned, Shape, plan, v
from theory.plans.presets import PRESETS
from theory.plans.variants import VARIANTS

PARTS = {
    "gates": (".output_gate.", ".projections.gate."),
    "scales": (".scale.",),
    "residual_maps": (".residual.",),
    "tables": (".table.",),
    "differences": (".difference.",),
    "embedding": ("stem.embedding", "stem.read_in", "stem.class_token"),
    "positions": ("position_bias",),
    "queries": (".query.weight", ".query.bias"),
    "keys": (".key.weight", ".key.bias"),
    "values": (".value.weight", ".value.bias"),
    "latent": ("latent_norm", "key_up", "value_up"),
    "dynamic": ("_gate.",),
    "output": (".output.",),
    "copy": (".attention.a", ".attention.b"),
    "mixing": ("learned.",),
    "feed_forward": (".up.", ".feed_forward.gate.", ".down."),
    "depth": ("depth.",),
    "head": ("stem.head",),
}


def part_of(name: str) -> str:
    return next((part for part, marks in PARTS.items() if any(mark in name for mark in marks)), "norms")


# Queries, keys and values all shared: later layers project nothing and have no norm.
NOTHING_OWN = pytest.param(LLAMA, resolve("shared-queries+shared-keys+svformer", LLAMA.shape), id="llama-all-shared")


@pytest.mark.parametrize(("config", "chosen"), [*models(), NOTHING_OWN])
def test_accounting_equals_the_built_model(config, chosen):
    """Each part to the parameter, and every parameter gets a gradient: nothing is built that nobody reads."""
    model = Decoder(config, chosen, std=0.3)
    counts = dict.fromkeys(parameters(config, chosen), 0)
    for name, parameter in model.named_parameters():
        counts["positions" if name == "positions" else part_of(name)] += parameter.numel()
    assert counts == parameters(config, chosen)
    out = model(some_input(config))
    assert out.isfinite().all()
    out.square().mean().backward()
    assert [name for name, parameter in model.named_parameters() if parameter.grad is None] == []


NORMS = {"all": ("sublayers", "head"), "sublayers": ("sublayers",), "head": ("head",)}


@pytest.mark.parametrize("normed", NORMS)
@pytest.mark.parametrize("kind", ["llama", "gpt2", "latent", "copying"])
def test_norms_stand_where_they_are_said_to(kind, normed):
    """Those that do not are as if nothing stood there, and the others, and all other weights, start as they do."""
    config = ARCHITECTURES[kind]
    chosen = resolve("attnres", config.shape)
    whole, model = (Decoder(made, chosen, seed=3, std=0.3) for made in (config, replace(config, normed=normed)))
    before = whole(some_input(config))
    if "head" not in NORMS[normed]:
        whole.norm = torch.nn.Identity()
    if "sublayers" not in NORMS[normed]:
        for sublayer in whole.sublayers:
            sublayer.norm = torch.nn.Identity()
    assert list(model.state_dict()) == list(whole.state_dict())
    assert all(torch.equal(x, whole.state_dict()[name]) for name, x in model.state_dict().items())
    assert torch.equal(model(some_input(config)), whole(some_input(config)))
    assert torch.equal(model(some_input(config)), before) == (normed == "all")


COUNTED = ["vanilla", "skipv1", "skipv0", "svformer", "cross-layer", "cla", "dva-attention", "attnres-input-query"]


@pytest.mark.parametrize(("kind", "name"), fitting(["linear", "copying", "latent", "grouped", "gpt2", "bias"], COUNTED))
def test_flops_equal_what_the_products_cost(kind, name):
    """Every matrix product of a forward pass, counted by torch; the sums over depth are no matrix products."""
    config = replace(ARCHITECTURES[kind], stem=Vectors(24), score="linear")
    config = config if kind == "copying" else replace(config, mask="none")
    chosen = resolve(name, config.shape)
    with FlopCounterMode(display=False) as counter:
        Decoder(config, chosen)(some_input(config, batch=1))
    over_depth = (4 if name.startswith("attnres") else 2) * config.d_model * sum(depth_sources(config, chosen))
    # The copy is two products: A with n + 1 tokens, B with n.
    copies = 0 if config.copy_rank is None else 2 * 24 * (9 * 3 + 15 * 2)
    assert counter.get_total_flops() == 5 * (flops(config, chosen, 5) - over_depth) + copies


def test_attention_over_depth_is_as_exact_in_bf16_as_over_time():
    """Large queries, so that the softmax over depth matters: its logits are computed in float32."""
    chosen = resolve("attnres", LLAMA.shape)
    model, tokens = Decoder(LLAMA, chosen, std=0.1), some_input(LLAMA)
    with torch.no_grad():
        model.depth.query += torch.randn(model.depth.query.shape, generator=torch.Generator().manual_seed(0))
        exact = model(tokens)
        rough = model.to(torch.bfloat16)(tokens).float()
    assert float((rough - exact).norm() / exact.norm()) < 16 * torch.finfo(torch.bfloat16).eps


def weighed(depth, sources):
    """What a depth rule makes of one source a sublayer and the embedding (DenseFormer: one a layer)."""
    if isinstance(depth, AverageDepth):
        *finished, newest = sources
        return depth.write(depth.per_layer * len(finished) - 1, (*finished, newest), torch.zeros_like(newest))[-1]
    embedded, *outputs = sources
    state = depth.start(embedded)
    for sublayer, out in enumerate(outputs):
        state = depth.write(sublayer, state, out)
    return depth.read(len(outputs), state)


WEIGHING = ["attnres", "attnres-sigmoid", "attnres-static", "attnres-input-query", "attnres-heads:heads=3,blocks=6"]


@pytest.mark.parametrize("name", [*WEIGHING, "denseformer"])
@pytest.mark.parametrize("embedded", [torch.bfloat16, torch.float32])
def test_weights_over_depth_are_float32_and_their_sum_is_rounded_once(name, embedded):
    """Sources in bf16, but for an embedding that may be in float32, as under autocast; against float64."""
    depth, numbers = Decoder(LLAMA, resolve(name, LLAMA.shape)).depth, torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in depth.parameters():
            parameter += 0.2 * torch.randn(parameter.shape, generator=numbers)
    count, shape = LLAMA.n_layers if name == "denseformer" else 2 * LLAMA.n_layers, (2, 7, LLAMA.d_model)
    drawn = [torch.randn(shape, generator=numbers).to(embedded if i == 0 else torch.bfloat16) for i in range(count + 1)]
    sources, exact = (
        tuple(v.detach().to(kind or v.dtype).requires_grad_() for v in drawn) for kind in (None, torch.float64)
    )
    twin = copy.deepcopy(depth).double()
    found, wanted = weighed(depth, sources), weighed(twin, exact)
    assert found.dtype == embedded
    rounding = LLAMA.d_model * torch.finfo(torch.float32).eps  # of the weights, and of the sum before the last rounding
    allowed = torch.finfo(embedded).eps / 2 * wanted.abs() + rounding * sum(v.abs() for v in exact)
    assert ((found - wanted).abs() <= allowed).all()

    upstream = torch.randn(shape, generator=numbers).to(embedded)
    found.backward(upstream)
    wanted.backward(upstream.double())
    for one, other in zip((*sources, *depth.parameters()), (*exact, *twin.parameters()), strict=True):
        if other.grad is None:  # another read's
            continue
        paths = 3  # from a source to what is read: directly, by its key, by the query; each rounded, and their sums
        near = paths * torch.finfo(torch.bfloat16).eps if one.dtype == torch.bfloat16 else rounding
        assert (one.grad - other.grad).norm() <= near * other.grad.norm()


@pytest.mark.parametrize(
    "name", ["attnres", "attnres-block:size=3", "attnres-window:window=2", "denseformer", "vanilla"]
)
def test_depth_sources_are_what_a_read_sees(name):
    chosen = resolve(name, LLAMA.shape)
    depth, nothing, count = Decoder(LLAMA, chosen).depth, torch.zeros(1, 1, LLAMA.d_model), LLAMA.sublayers(chosen)
    state, seen = depth.start(nothing), []
    for step in range(count + 1):
        sources = (*state.earlier, *state.since) if isinstance(state, Phase) else state
        seen.append(len(sources) if isinstance(chosen.depth, DepthAttention) else 1)
        depth.read(step, state)
        if step < count:
            state = depth.write(step, state, nothing)
    if name == "denseformer":  # its sums are taken when a layer is written: n + 1 terms after layer n
        assert depth_sources(LLAMA, chosen) == (1, 1, 2, 1, 3, 1, 4)
        assert [len(weights) for weights in depth.weights] == [2, 3, 4]
    else:
        assert depth_sources(LLAMA, chosen) == tuple(seen)


@pytest.mark.parametrize("name", [name for name in VARIANTS if name != "vanilla"])
def test_variants_start_from_the_same_weights(name):
    """Where a parameter exists in vanilla too, it is equal, or the slice that belongs to the heads that are left."""
    chosen = resolve(name + OPTIONS.get(name, ""), LLAMA.shape)
    base = Decoder(LLAMA, resolve("vanilla", LLAMA.shape), seed=3).state_dict()
    compared = 0
    for key, value in Decoder(LLAMA, chosen, seed=3).state_dict().items():
        if key not in base:
            continue
        full = base[key]
        if full.shape != value.shape:
            # The variants here leave out the last heads: the first two stay, each 6 wide.
            full = full.index_select(1 if ".output." in key else 0, torch.arange(2 * 6))
        assert torch.equal(full, value), key
        compared += 1
    assert compared >= 10


def test_deviations_of_the_initial_weights():
    """`std`, and std / sqrt(2 layers) for what writes to the residual stream."""
    config = replace(LLAMA, d_model=96, head_dim=24, d_ff=200, n_layers=8)
    weights = Decoder(config, resolve("vanilla", config.shape), std=0.02).state_dict()
    for name, std in (("attention.projections.key", 0.02), ("attention.output", 0.005), ("feed_forward.down", 0.005)):
        assert weights[f"layers.0.{name}.weight"].std() == pytest.approx(std, rel=0.05)


@pytest.mark.parametrize("variant", ["vanilla", "skipv0"])
def test_output_projections_can_start_like_other_matrices(variant):
    """With the same numbers, and all else as it was."""
    chosen = resolve(variant, LLAMA.shape)
    scaled, plain = (Decoder(LLAMA, chosen, scale_outputs=s).state_dict() for s in (True, False))
    outputs = {name for name in scaled if name.endswith(("output.weight", "down.weight"))}
    assert len(outputs) == 2 * LLAMA.n_layers
    for name, weight in scaled.items():
        factor = (2 * LLAMA.n_layers) ** 0.5 if name in outputs else 1
        torch.testing.assert_close(factor * weight, plain[name])


def test_learned_weights_start_where_the_plan_says_whatever_their_names():
    def mine(n, h):
        return v(n, h) if n == 1 else Learned("values", 1) * v(n, h) + Learned("forward", 0.25) * v(1, h)

    model = Decoder(LLAMA, plan(LLAMA.shape, values=mine))
    assert {name: w.detach().item() for name, w in model.learned.items()} == {"w_values": 1.0, "w_forward": 0.25}
    assert model(some_input(LLAMA)).isfinite().all()


def test_weights_can_be_made_after_the_model():
    """On the meta device first, as sharding wants: the same weights as at once."""
    chosen = resolve("resformer-learned", LLAMA.shape)
    late = Decoder(LLAMA, chosen, seed=2, device="meta")
    assert all(p.is_meta for p in late.parameters())
    late.to_empty(device="cpu")
    initialise(late, late.config, late.plan, seed=2)
    at_once = Decoder(LLAMA, chosen, seed=2).state_dict()
    assert all(torch.equal(value, at_once[name]) for name, value in late.state_dict().items())


def test_seeds_and_names_decide_the_weights():
    chosen = resolve("vanilla", LLAMA.shape)
    one, same, other = (Decoder(LLAMA, chosen, seed=seed).state_dict() for seed in (0, 0, 1))
    assert all(torch.equal(one[key], same[key]) for key in one)
    moved = {part_of(key) for key in one if not torch.equal(one[key], other[key])}
    assert moved == {"embedding", "queries", "keys", "values", "output", "feed_forward", "head"}
    first, second = (f"layers.{i}.attention.projections.query.weight" for i in (0, 1))
    assert not torch.equal(one[first], one[second])


PRECISE = ["vanilla", "skipv1", "resformer-learned", "neutreno", "attnres-block:size=2", "denseformer", "cross-layer"]


@pytest.mark.parametrize(("kind", "name"), fitting(["llama", "gpt2", "latent", "bias"], PRECISE))
def test_bf16_is_fp32_to_its_precision(kind, name):
    config = ARCHITECTURES[kind]
    chosen = resolve(name, config.shape)
    model, tokens = Decoder(config, chosen, std=0.1), some_input(config)
    with torch.no_grad():
        exact = model(tokens)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            mixed = model(tokens)
        whole = model.to(torch.bfloat16)(tokens)
    assert whole.dtype == torch.bfloat16
    for rough in (mixed.float(), whole.float()):
        error = float((rough - exact).norm() / exact.norm())
        assert 0 < error < 16 * torch.finfo(torch.bfloat16).eps  # some ten roundings in a row


@pytest.mark.parametrize(
    "name",
    [
        "resformer-learned+attnres-block:size=2",
        pytest.param("skipv1", marks=pytest.mark.slow),
        pytest.param("cross-layer+denseformer", marks=pytest.mark.slow),
    ],
)
@torch._dynamo.config.patch(error_on_recompile=True)
@pytest.mark.long
def test_compiles_whole_and_once(name):
    """No graph breaks, no recompilation from step to step, the same gradients."""
    torch._dynamo.reset()
    config = replace(LLAMA, n_layers=2)
    chosen = resolve(name, config.shape)
    model, twin = Decoder(config, chosen), Decoder(config, chosen)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    optimiser = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(3):
        tokens = torch.randint(11, (2, 7), generator=torch.Generator().manual_seed(step))
        losses = [cross_entropy(m(tokens).flatten(0, 1), tokens.flatten()) for m in (compiled, twin)]
        for loss in losses:
            loss.backward()
        torch.testing.assert_close(losses[0], losses[1])
        for a, b in zip(model.parameters(), twin.parameters(), strict=True):
            torch.testing.assert_close(a.grad, b.grad)
        optimiser.step()
        twin.load_state_dict(model.state_dict())
        model.zero_grad()
        twin.zero_grad()


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize(
    ("kv_heads", "name"),
    [(4, "vanilla"), (2, "skipv1+attnres-block:size=2"), (2, "cross-layer"), (4, "dva"), (2, "neutreno")],
)
def test_a_traced_decoder_is_the_decoder(kv_heads, name):
    """Also on another batch and length than it was traced with."""
    config = replace(LLAMA, n_kv_heads=kv_heads)
    model, tokens = Decoder(config, resolve(name, config.shape), std=0.3).eval(), some_input(config)
    traced = torch.jit.trace(model, tokens)
    for given in (tokens, tokens[:1, :3]):
        torch.testing.assert_close(traced(given), model(given))


def test_dropout_acts_in_training_only():
    config = replace(GPT2, dropout=0.5)
    model, tokens = Decoder(config, resolve("skipv1", config.shape)), some_input(config)
    torch.manual_seed(0)
    assert not torch.equal(model(tokens), model(tokens))
    model.eval()
    assert torch.equal(model(tokens), model(tokens))
    torch.testing.assert_close(model(tokens), Decoder(GPT2, resolve("skipv1", config.shape))(tokens))


# --- what does not fit ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "name", "says"),
    [
        ("latent", "neutreno", "a term beside the attention is one head's, and a latent serves all heads"),
        ("latent", "skipv0", "no head can be left out of a latent"),
        ("latent", "skipkv1", "keys must be its own or follow all its values"),
        ("latent", "dva-attention", "no meaning with a latent"),
        ("linear", "dva-initial", "defined for softmax attention"),
        ("grouped", "dva", "the heads together must be as wide as the model"),
        ("llama", "attnres-heads:heads=5", "5 parts of the depth attention do not divide the width 24"),
    ],
)
def test_what_has_no_meaning_is_refused_in_words(kind, name, says):
    with pytest.raises(ValueError, match=says):
        Decoder(ARCHITECTURES[kind], resolve(name, ARCHITECTURES[kind].shape))


def test_other_shapes_and_longer_inputs_are_refused():
    with pytest.raises(ValueError, match="does not fit"):
        Decoder(LLAMA, resolve("vanilla", Shape(3, 2)))
    with pytest.raises(ValueError, match="13 tokens are more than the context of 12"):
        Decoder(LLAMA, resolve("vanilla", LLAMA.shape))(torch.zeros(1, 13, dtype=torch.long))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"d_model": 0}, "d_model must be at least 1"),
        ({"d_ff": -1}, "d_ff must not be negative"),
        ({"head_dim": 0, "n_heads": 5}, "5 heads do not divide the width 24"),
        ({"d_model": 24.0}, "d_model must be a whole number, got 24.0"),
        ({"mask": "causl"}, "mask must be one of causal, none, context, got causl"),
        ({"norm": "rmsnorm"}, "norm must be one of rms, layer, none, got rmsnorm"),
        ({"normed": "heads"}, "normed must be one of all, sublayers, head, got heads"),
        ({"norm": "none", "normed": "head"}, "without norms there are none before the head alone"),
        ({"gated": 1}, "gated must be true or false"),
        ({"rope_theta": -1.0}, "rope_theta must not be negative"),
        ({"latent": Latent(12.0, 4)}, "width must be a whole number, got 12.0"),
        ({"n_kv_heads": 3}, "3 key/value heads do not divide 4 heads"),
        ({"dropout": 1.0}, "dropout must lie in"),
        ({"head_dim": 5}, "rotary positions need an even width, got 5"),
        ({"latent": Latent(10, 4)}, "4 heads do not divide the latent width 10"),
        ({"latent": Latent(12, 4), "n_kv_heads": 2}, "grouped queries have no meaning"),
        ({"latent": Latent(12, 4), "positions": "learned"}, "positions must be rope"),
        ({"latent": Latent(12, 4), "positions": "bias"}, "positions must be rope"),
        ({"positions": "biases"}, "positions must be one of rope, learned, none, bias, got biases"),
        ({"latent": Latent(12, 3)}, "rotary positions need an even width, got 3"),
        ({"latent": Latent(12, 4), "qkv_bias": True}, "have no bias"),
        ({"latent": Latent(12, 4), "copy_rank": 3}, "the toy's, which has no latent"),
        ({"stem": Tokens(0)}, "a stem's sizes must be at least 1"),
        ({"stem": Vectors(5, read_in=False)}, "need a read-in"),
        ({"stem": Patches(8, 3, 3, 5)}, "does not make a context of 12"),
        ({"copy_rank": 25}, "copy_rank must be from 0 to d_model = 24"),
        ({"copy_rank": 3, "qk_norm": True}, "whose queries and keys have no norm"),
        ({"window": -1}, "window must not be negative, got -1"),
        ({"window": 3, "mask": "none"}, "the mask must be causal, got none"),
        ({"latent": Latent(12, 4), "qk_norm": True}, "a latent has a norm of its own"),
    ],
)
def test_sizes_that_no_model_can_have(changes, says):
    with pytest.raises(ValueError, match=says):
        replace(LLAMA, **changes)


WINDOW = 3


@pytest.mark.parametrize("name", ["vanilla", "resformer", "cross-layer", "dva-attention"])
def test_a_window_shows_so_many_tokens_and_no_others(name):
    """In one layer more a token sees WINDOW - 1 tokens farther back."""
    config = replace(LLAMA, window=WINDOW, stem=Vectors(5), n_layers=2)
    model = Decoder(config, resolve(name, config.shape), std=0.3).double()
    inputs = torch.randn(1, 9, 5, dtype=torch.float64, requires_grad=True)
    (grad,) = torch.autograd.grad(model(inputs)[0, -1].sum(), inputs)
    farthest = 1 + config.n_layers * (WINDOW - 1)
    assert grad[0].abs().sum(-1).bool().tolist() == [False] * (9 - farthest) + [True] * farthest
    wide = Decoder(replace(config, window=9), model.plan, std=0.3).double()
    assert torch.equal(wide(inputs), Decoder(replace(config, window=0), model.plan, std=0.3).double()(inputs))
    assert not torch.allclose(wide(inputs), model(inputs))


def test_a_window_counts_real_tokens():
    config = replace(LLAMA, window=WINDOW)
    model = Decoder(config, resolve("skipv1", config.shape), std=0.3).double()
    tokens, real = some_input(config, 1, 9), torch.tensor([[1, 1, 0, 0, 1, 1, 0, 1, 1]]).bool()
    check_identity(model(tokens, real)[:, real[0]], model(tokens[:, real[0]]), terms=100)


@pytest.mark.parametrize("normed", [True, False])
def test_normed_queries_and_keys_have_no_size(normed):
    config = replace(LLAMA, qk_norm=normed, norm_eps=0.0)
    model = Decoder(config, resolve("skipv1", config.shape), std=0.3).double()
    before = model(some_input(config))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith((".query.weight", ".key.weight")):
                parameter.mul_(7)
    assert torch.allclose(model(some_input(config)), before, rtol=1e-9) == normed


@pytest.mark.parametrize("name", ["vit-tiny", "llama-2m"])
def test_presets_run(name):
    config = PRESETS[name].architecture
    model = Decoder(config, resolve("skipv1", config.shape))
    images = isinstance(config.stem, Patches)
    out = model(torch.randn(2, 3, 32, 32) if images else torch.randint(config.stem.vocab, (2, 5)))
    assert out.shape == ((2, 10) if images else (2, 5, 50_277))
