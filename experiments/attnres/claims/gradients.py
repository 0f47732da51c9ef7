"""Claims on gradients by depth at the start, when queries over depth are zero."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.attnres.claims.growth import CLOSE, SIZES, UNJUDGED
from experiments.ledger.claim import Claim
from theory.attnres import gradients as theory
from theory.attnres.coefficients import start_matrix
from theory.attnres.gradients import output_gradients, query_gradient, read_exponents, read_factor
from theory.attnres.paper import PAPER
from theory.attnres.variants import attnres_block
from theory.plans import mix
from theory.plans.architecture import Architecture, Tokens
from theory.plans.names import resolve
from theory.plans.plan import Plan

if TYPE_CHECKING:
    from icl.probes.gradients import Gradients

RULES = ("attnres", "attnres-block:size=2", "attnres-block:blocks=2")
VOCAB = 7
CONFIG = replace(SIZES, d_model=6, n_layers=3, d_ff=5, stem=Tokens(VOCAB), context=5)
ANY_NETWORK: Mapping[Callable[..., Any], str] = {
    **UNJUDGED,
    mix.v: "claimed whosever values a head reads",
    Plan.live: "all heads are there",
    attnres_block: "claimed of blocks of any length",
    Architecture.has_feed_forward: "claimed with feed-forwards and without",
}
PLACE = "summary: gradient norms distribute more uniformly across layers"


def measured(
    name: str, config: Architecture = CONFIG, query: float = 0.0, *, std: float = 0.5, powers: float | None = None
) -> Gradients:
    """All gradients of a decoder in float64, at a loss of some scores.

    query    every number of the queries over depth
    powers   the eps of the norm after l outputs becomes (l + 1)^powers times the configuration's
    """
    import torch

    from icl.models.decoder import Decoder
    from icl.probes.gradients import gradients

    model = Decoder(config, resolve(name, config.shape), std=std).double()
    norms = [*(sublayer.get_submodule("norm") for sublayer in model.sublayers), model.norm]
    for i, norm in enumerate(norms, 1):
        assert isinstance(norm, torch.nn.RMSNorm)
        norm.eps = config.norm_eps * i ** (powers or 0.0)
    with torch.no_grad():
        if query:
            model.get_parameter("depth.query").fill_(query)
    weights = torch.arange(1.0, VOCAB + 1).double()
    tokens = torch.tensor([[0, 3, 1, 6, 2], [5, 5, 0, 4, 1]])
    return gradients(model, tokens, lambda answer: torch.sin(answer * weights).mean())


def _same(one: Any, other: Any) -> bool:
    one, other = np.asarray(one), np.asarray(other)
    return bool(np.linalg.norm(one - other) <= CLOSE * np.linalg.norm(other))


GRADIENTS = Claim(
    "attnres.gradients",
    PAPER.name,
    place=PLACE,
    statement="At zero queries and eps = 0, under Full and Block, the gradient of every parameter outside the depth "
    "rule and that of every output through all that reads it are PreNorm's, and the gradient at a read, through the "
    "sublayer alone that reads it, is PreNorm's times the number of sources.",
    assumes="norms before all sublayers and before the head, eps = 0, no read is zero, zero queries",
    verdict="corrected",
    correction="At the start no gradient of a parameter or an output is more uniform, nor differs at all.  What reads "
    "get is more uniform in wide decoders, whose outputs are large beside the embedding, and less so in narrow ones "
    "(attnres.start-gradients).  With eps > 0 the network is "
    "PreNorm's with eps times the squared number of sources.  Of trained networks nothing is said here.",
    proof=theory,
    unjudged=ANY_NETWORK,
)


@GRADIENTS.check(
    "autograd on decoders: all parameters and outputs", states=0.0, control=0.3, wrong="with other queries"
)
def as_prenorm(query: float) -> bool:
    prenorm = measured("vanilla")
    for name in RULES:
        found = measured(name, query=query)
        if not all(_same(found.of_parameters[p], g) for p, g in prenorm.of_parameters.items()):
            return False
        if not all(map(_same, found.of_outputs, prenorm.of_outputs)):
            return False
    return True


@GRADIENTS.check(
    "autograd on decoders: what every sublayer sends back to its read",
    states=1,
    control=0,
    wrong="reads get PreNorm's gradients",
)
@GRADIENTS.check(
    "autograd on decoders: what every sublayer sends back to its read",
    states=1,
    control=-1,
    wrong="reads get PreNorm's gradients divided by the number of sources",
)
def reads_get_more(power: int) -> bool:
    """PreNorm's times the number of sources to this power, and orthogonal to what is read."""
    prenorm = measured("vanilla")
    for name in RULES:
        found, factors = measured(name), read_factor(CONFIG, resolve(name, CONFIG.shape))
        for factor, h, one, other in zip(factors, found.reads, found.of_reads, prenorm.of_reads, strict=True):
            if not _same(one, factor**power * other) or float((h * one).sum(-1).abs().max()) > CLOSE:
                return False
    return True


@GRADIENTS.check(
    "autograd on decoders with eps = 0.01: PreNorm with other eps",
    states=2.0,
    control=0.0,
    wrong="the same eps",
)
@GRADIENTS.check(
    "autograd on decoders with eps = 0.01: PreNorm with other eps",
    states=2.0,
    control=1.0,
    wrong="eps times the number of sources",
)
def eps_counts(power: float) -> bool:
    """Read l + 1 of Full is PreNorm's whose eps is (l + 1)^power times as much."""
    config = replace(CONFIG, norm_eps=0.01)
    found, prenorm = measured("attnres", config), measured("vanilla", config, powers=power)
    return all(_same(found.of_parameters[p], g) for p, g in prenorm.of_parameters.items())


@GRADIENTS.check(
    "autograd on decoders: outputs get what all later reads get, times their coefficients",
    states=start_matrix,
    control=lambda config, plan: [[1.0] * len(row) for row in start_matrix(config, plan)],
    wrong="the sum of what later reads get, as in PreNorm",
)
def outputs_get(matrix_of: Callable[..., Any]) -> bool:
    for name in ("vanilla", *RULES):
        found, plan = measured(name), resolve(name, CONFIG.shape)
        expected = output_gradients(matrix_of(CONFIG, plan), [g.numpy() for g in found.of_reads])
        if not all(map(_same, expected, found.of_outputs)):
            return False
    return True


@GRADIENTS.check(
    "spread of the logarithm of reads' gradients over the depth of decoders with d std = 0.32 and 16",
    states={0.02: True, 1.0: False},
    control={0.02: False, 1.0: False},
    wrong="Full is more even at both",
)
@GRADIENTS.check(
    "spread of the logarithm of reads' gradients over the depth of decoders with d std = 0.32 and 16",
    states={0.02: True, 1.0: False},
    control={0.02: True, 1.0: True},
    wrong="Full is less even at both",
)
def less_even(by_std: dict[float, bool]) -> bool:
    config = replace(CONFIG, d_model=16, n_heads=2, n_layers=12, d_ff=32)

    def spread(name: str, std: float) -> float:
        reads = measured(name, config, std=std).of_reads[:-1]
        return float(np.std([np.log(float(g.norm())) for g in reads]))

    return all((spread("attnres", std) > spread("vanilla", std)) == less for std, less in by_std.items())


@GRADIENTS.check(
    "a read's gradient of one relative size, for streams that grow as a power of the depth",
    states=0.5,
    control=0.0,
    wrong="Full is more even however streams grow",
)
def more_even_beyond(least: float) -> bool:
    """The gradient of u . x / ||x|| at streams and at means, as a power of the read's number."""
    numbers, (along, u) = np.arange(1, 9), np.eye(2)

    def gradient(x: Any) -> float:
        return float(np.linalg.norm(u / np.linalg.norm(x) - (u @ x) * x / np.linalg.norm(x) ** 3))

    for stream in (0.1, 0.4, 0.6, 0.9, 1.0):
        reads = [[k ** (stream - mean) * along for k in numbers] for mean in (0, 1)]
        exponents = [np.polyfit(np.log(numbers), [np.log(gradient(x)) for x in of], 1)[0] for of in reads]
        if not np.allclose(exponents, read_exponents(stream), rtol=CLOSE, atol=CLOSE):
            return False
        if (abs(exponents[1]) < abs(exponents[0])) != (stream > least):
            return False
    return True


QUERIES = Claim(
    "attnres.query-gradient",
    PAPER.name,
    place="summary: a single learned pseudo-query a layer",
    statement="The gradient of a query over depth is the covariance over sources of the keys and of the sources' "
    "products with the read's gradient, summed over tokens.  At zero queries and eps = 0 it is the sum over sources of "
    "PreNorm's products with the keys, without a mean to be taken off or a count to divide by.",
    assumes="one softmax over depth with normed keys; for the second part norms before sublayers",
    verdict="verified",
    proof=query_gradient,
    uses=("attnres.gradients",),
    unjudged=ANY_NETWORK,
)


def _of_queries(found: Gradients) -> list[Any]:
    return list(found.of_parameters["depth.query"].numpy())


@QUERIES.check(
    "autograd on decoders, at zero queries and at others, with eps",
    states=query_gradient,
    control=lambda query, gain, sources, of_read, eps: query_gradient(0 * query, gain, sources, of_read, eps),
    wrong="equal weights at any query",
)
def covariance(gradient: Callable[..., Any]) -> bool:
    config = replace(CONFIG, norm_eps=0.01)
    for query in (0.0, 0.4):
        found = measured("attnres", config, query)
        for i, (of_read, there) in enumerate(zip(found.of_reads, _of_queries(found), strict=True)):
            sources = np.stack([v.flatten(0, 1).numpy() for v in found.outputs[: i + 1]])
            own = gradient(np.full(6, query), np.ones(6), sources, of_read.flatten(0, 1).numpy(), 0.01)
            if np.linalg.norm(own - there) > CLOSE * (CLOSE + np.linalg.norm(there)):
                return False
    return True


@QUERIES.check(
    "autograd on decoders at zero queries and eps = 0, from PreNorm's gradients alone",
    states=0,
    control=1,
    wrong="divided by the number of sources",
)
def without_a_count(power: int) -> bool:
    prenorm = measured("vanilla")
    for i, (b, there) in enumerate(zip(prenorm.of_reads, _of_queries(measured("attnres")), strict=True)):
        v = np.stack([x.numpy() for x in prenorm.outputs[: i + 1]])
        keys = v / np.sqrt((v**2).mean(-1, keepdims=True))
        wish = ((v * b.numpy()).sum(-1, keepdims=True) * keys).sum((0, 1, 2)) / (i + 1) ** power
        if i and not _same(wish, there):
            return False
        if not i and there.any():
            return False
    return True
