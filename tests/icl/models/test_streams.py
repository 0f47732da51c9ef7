"""Streams in the decoder: where they start, what they cost, and the weights at which one rule is another."""

from dataclasses import replace

import pytest
import torch
from torch.nn.functional import cross_entropy
from torch.utils.flop_counter import FlopCounterMode

from icl.models.decoder import Decoder
from icl.models.streams import doubly_stochastic
from icl.probes.gradients import gradients
from icl.stacks.decoder import misfit
from icl.testing import check_identity
from theory.errors import BadInput
from theory.plans.accounting import flops, parameters
from theory.plans.architecture import Architecture, Latent, Tokens, Vectors, misfits
from theory.plans.memory import activations
from theory.plans.mix import Learned
from theory.plans.names import resolve
from theory.plans.plan import Residual, plan
from theory.plans.streams import OUTPUT, Step, Streams

SIZES = Architecture(d_model=16, n_layers=3, n_heads=2, d_ff=12, context=8, stem=Tokens(11))
EXACT = replace(SIZES, norm_eps=0.0)
HYPER = [f"{name}:streams={n}" for name in ("hyper-connections", "hyper-connections-static") for n in (1, 2, 4)]
NAMES = ["hyper-connections", "hyper-connections-static", "mhc", "residual-lambdas", "unet-skips", "mudd"]
NAMES += ["deepcrossattention", "deepcrossattention:last=1", "delta-attnres", "denseformer-sparse:dilation=2,period=2"]
TOKENS = torch.randint(11, (2, 8), generator=torch.Generator().manual_seed(0))


def model_of(name, config=SIZES, std=0.3):
    return Decoder(config, resolve(name, config.shape), std=std).double()


def moved(model, seed=0, scale=0.3):
    """The model with no weight at its starting value."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += scale * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    return model


@pytest.mark.parametrize("name", HYPER)
def test_hyper_connections_start_as_the_prenorm_network(name):
    """Exactly, where norms have no eps: n is a power of two, and the head reads n times the stream."""
    assert torch.equal(model_of(name, EXACT)(TOKENS), model_of("vanilla", EXACT)(TOKENS))
    assert not torch.equal(moved(model_of(name, EXACT))(TOKENS), model_of("vanilla", EXACT)(TOKENS))


@pytest.mark.parametrize("name", ["unet-skips:start=0", "residual-lambdas:embedding=0", "mudd", "denseformer-sparse"])
def test_others_start_as_the_prenorm_network(name):
    check_identity(model_of(name)(TOKENS), model_of("vanilla")(TOKENS), terms=100)


def test_mhc_starts_near_the_prenorm_network():
    """As far as its factors of 0.01 let it; a doubly stochastic mix of equal streams is none."""
    wanted = model_of("vanilla", EXACT)(TOKENS).detach()
    model = model_of("mhc", EXACT)
    apart = float((model(TOKENS).detach() - wanted).norm() / wanted.norm())
    assert 1e-6 < apart < 0.2
    with torch.no_grad():
        for weights in model.depth.weights.values():
            weights.zero_()
    check_identity(model(TOKENS), wanted, terms=1000)


def test_a_residual_stream_as_streams_is_one():
    x = ((1.0, 1),)
    steps = (*[Step((x,), ((1, (*x, (1.0, OUTPUT))),))] * 6, Step((x,)))
    as_streams, residual = (
        Decoder(SIZES, plan(SIZES.shape, depth=depth), std=0.3).double() for depth in (Streams(steps), Residual())
    )
    assert torch.equal(as_streams(TOKENS), residual(TOKENS))
    assert flops(SIZES, as_streams.plan, 8) == flops(SIZES, residual.plan, 8)


def test_what_nothing_reads_costs_nothing():
    x, rest = ((1.0, 1),), ((2.0, OUTPUT), (Learned("a", 1.0), 1))
    kept = (*[Step((x,), ((1, (*x, (1.0, OUTPUT))),))] * 6, Step((x,)))
    unread = (*[Step((x,), ((1, (*x, (1.0, OUTPUT))), (2, rest)))] * 6, Step((x,)))
    of_kept, of_unread = (plan(SIZES.shape, depth=Streams(steps)) for steps in (kept, unread))
    assert flops(SIZES, of_unread, 8) == flops(SIZES, of_kept, 8)
    assert activations(SIZES, of_unread) == activations(SIZES, of_kept)
    read = plan(SIZES.shape, depth=Streams((*unread[:-1], Step((((1.0, 2),),)))))
    assert flops(SIZES, read, 8) > flops(SIZES, of_kept, 8)


def test_denseformer_without_holes_is_denseformer():
    sparse, whole = moved(model_of("denseformer-sparse:dilation=1,period=1")), moved(model_of("denseformer"))
    others = {name: p for name, p in sparse.state_dict().items() if not name.startswith("depth.")}
    weights = {f"depth.weights.{n}": sparse.depth.weights[f"step_{2 * n + 1}"] for n in range(3)}
    whole.load_state_dict({**others, **weights})
    check_identity(sparse(TOKENS), whole(TOKENS), terms=100)


@pytest.mark.parametrize("n", [1, 2, 4])
def test_counts_are_the_papers(n):
    """Hyper-Connections, section on parameters, norms without gains: n (n + 2) static, d (n + 2) + 2 more dynamic a
    sublayer.  mHC: n C (n^2 + 2 n) for phi, n^2 + 2 n for b and three factors."""
    d, sublayers = SIZES.d_model, 6
    counts = {
        name: parameters(SIZES, resolve(f"{name}:streams={n}", SIZES.shape))["depth"]
        for name in ("hyper-connections-static", "hyper-connections", "mhc")
    }
    assert counts["hyper-connections-static"] == sublayers * n * (n + 2)
    assert counts["hyper-connections"] == sublayers * ((d + n) * (n + 2) + 2)
    assert counts["mhc"] == sublayers * ((n * d + 1) * (n * n + 2 * n) + 3)


@pytest.mark.parametrize("name", NAMES)
def test_maps_to_gates_are_counted(name):
    """The products that are matrix products; sums of streams are none."""
    config = replace(SIZES, score="linear", mask="none")
    chosen = resolve(name, config.shape)
    with FlopCounterMode(display=False) as counter:
        Decoder(config, chosen)(TOKENS[:1])
    with FlopCounterMode(display=False) as of_vanilla:
        Decoder(config, resolve("vanilla", config.shape))(TOKENS[:1])
    maps = 0
    for gates in (step.gates for step in chosen.depth.steps if step.gates):
        inner = gates.hidden or gates.inputs * config.d_model
        maps += 2 * gates.passes * (gates.outputs * inner + gates.hidden * gates.inputs * config.d_model)
    assert counter.get_total_flops() - of_vanilla.get_total_flops() == 8 * maps
    more = flops(config, chosen, 8) - flops(config, resolve("vanilla", config.shape), 8)
    assert (maps > 0) == any(step.gates for step in chosen.depth.steps)
    assert more > maps - 2 * config.d_model * 7


@pytest.mark.parametrize("name", NAMES)
def test_bf16_is_near(name):
    model = model_of(name, std=0.1).float()
    with torch.no_grad():
        exact = model(TOKENS)
        rough = model.to(torch.bfloat16)(TOKENS).float()
    assert float((rough - exact).norm() / exact.norm()) < 16 * torch.finfo(torch.bfloat16).eps


@pytest.mark.parametrize(
    ("name", "layers"),
    [
        ("mudd", 2),
        pytest.param("hyper-connections", 3, marks=pytest.mark.slow),
        pytest.param("mhc", 3, marks=pytest.mark.slow),
        pytest.param("deepcrossattention", 3, marks=pytest.mark.slow),
        pytest.param("deepcrossattention:last=1", 3, marks=pytest.mark.slow),
        pytest.param("delta-attnres", 3, marks=pytest.mark.slow),
    ],
)
@torch._dynamo.config.patch(error_on_recompile=True)
@pytest.mark.long
def test_compiles_whole_and_once(name, layers):
    torch.compiler.reset()
    config = replace(SIZES, n_layers=layers)
    model, twin = moved(model_of(name, config)), moved(model_of(name, config))
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    losses = [cross_entropy(m(TOKENS).flatten(0, 1), TOKENS.flatten()) for m in (compiled, twin)]
    for loss in losses:
        loss.backward()
    check_identity(losses[0][None], losses[1][None], terms=1000)
    for one, other in zip(model.parameters(), twin.parameters(), strict=True):
        check_identity(one.grad, other.grad, terms=1000, scale=max(1.0, float(other.grad.norm())))


@pytest.mark.parametrize("n", [1, 3, 4])
def test_rows_and_columns_of_a_mix_sum_to_one(n):
    """Rows come last; columns follow geometrically in the rounds."""
    logits = torch.randn(5, n * n, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    few, many = (doubly_stochastic(logits, rounds).unflatten(-1, (n, n)) for rounds in (1, 200))
    assert torch.allclose(few.sum(-1), torch.ones(5, n, dtype=torch.float64), atol=1e-14)
    assert torch.allclose(many.sum(-2), torch.ones(5, n, dtype=torch.float64), atol=1e-10)
    assert n == 1 or not torch.allclose(few.sum(-2), torch.ones(5, n, dtype=torch.float64), atol=1e-3)


def test_what_is_not_covered_says_so():
    vectors = replace(SIZES, stem=Vectors(3))
    assert "streams" in misfit(vectors, resolve("mhc", SIZES.shape))
    with pytest.raises(BadInput, match="inputs of their own"):
        gradients(model_of("mudd"), TOKENS, lambda out: out.sum())
    latent = replace(SIZES, latent=Latent(8, 4))
    assert "go with neither a latent" in misfits(latent, resolve("mudd", SIZES.shape))[0]
    assert misfits(latent, resolve("mhc", SIZES.shape)) == []
    for one in (replace(SIZES, d_ff=0), replace(SIZES, parallel=True)):
        assert "attention and feed-forward as two sublayers" in misfits(one, resolve("mhc", SIZES.shape))[0]
    with pytest.raises(BadInput, match="written for layers with a feed-forward, and those of this plan have none"):
        resolve("dva+mhc", SIZES.shape)
    assert "go with neither" in misfits(SIZES, resolve("deepcrossattention+dva-attention", SIZES.shape))[0]
