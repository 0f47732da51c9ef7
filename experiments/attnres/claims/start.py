"""Claims on depth attention as it starts, with queries of zero."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from experiments.attnres.claims.growth import WRITTEN
from experiments.ledger.claim import Claim
from experiments.toys.unjudged import OF_VALUES
from theory.attnres import zero_query
from theory.attnres.paper import PAPER
from theory.attnres.variants import attnres as attnres_plan
from theory.plans import mix
from theory.plans.accounting import depth_reads, depth_sources, two_phases
from theory.plans.names import resolve
from theory.plans.plan import Plan
from theory.plans.presets import llama

if TYPE_CHECKING:
    from torch import Tensor

    from icl.models.decoder import Decoder

RULES = ("attnres", "attnres-block:size=3")
EPS = 1e-3

ZERO_QUERY = Claim(
    "attnres.zero-query",
    PAPER.name,
    place="section 5: zero queries reduce AttnRes to an equal-weight average at the start",
    statement="With all queries zero, depth attention weighs its sources alike, and starts as the baseline does.",
    assumes="norms before every sublayer and after the last read; Full or Block, no window",
    verdict="corrected",
    correction="An average is the residual stream over k, its number of sources, and the next norm removes k: function "
    "and gradients are the PreNorm network's, exactly, if its norms have k^2 eps in place of eps.  So they are our "
    "PreNorm network's at eps = 0 alone.  At the usual start the stream is small, and eps is not: four layers of width "
    "64 with weights of 0.02 and eps = 1e-5 answer differently by 41 %.  The first read has one source: its query is "
    "never trained.",
    proof=zero_query,
    unjudged={
        **OF_VALUES,
        mix.v: "what heads attend over is the same in both networks",
        Plan.live: "so is which heads attend",
        attnres_plan: "with zero queries a norm of the keys has no part in it",
        depth_sources: "for how many sources a decoder has room",
        two_phases: WRITTEN,
    },
)


def pair(rule: str, eps: float, norm: Literal["rms", "layer"] = "rms") -> tuple[Decoder, Decoder]:
    """A decoder with zero queries and a PreNorm one, the same weights otherwise."""
    from icl.models.decoder import Decoder

    config = replace(llama(d_model=8, n_heads=2, n_layers=2, d_ff=12, vocab=16, context=4), norm_eps=eps, norm=norm)
    one, other = (Decoder(config, resolve(name, config.shape), std=0.2).double() for name in (rule, "vanilla"))
    return one, other


def tokens() -> Tensor:
    import torch

    return torch.arange(16).view(4, 4)


def answer(model: Decoder) -> Tensor:
    result: Tensor = model(tokens())
    return result


def agree(one: Decoder, other: Decoder) -> bool:
    """In answers and in the gradients of all weights that both have."""
    answers = [answer(model) for model in (one, other)]
    for result in answers:
        result.square().mean().backward()
    twin = dict(one.named_parameters())
    pairs = [(answers[0], answers[1]), *((twin[name].grad, p.grad) for name, p in other.named_parameters())]
    return all(a is not None and b is not None and bool((a - b).norm() <= 1e-9 * (1 + b.norm())) for a, b in pairs)


@ZERO_QUERY.check(
    "decoders with norms of eps = 1e-3 against PreNorm ones with eps times these powers of the sources a read has",
    states=2,
    control=0,
    wrong="with the same eps",
)
def eps_of_the_prenorm_network(power: int) -> bool:
    for rule in RULES:
        model, prenorm = pair(rule, EPS)
        others = zero_query.equivalent_eps(model.config, model.plan)
        counts = [len(sources) for sources in depth_reads(model.config, model.plan)]
        if any(abs(other - EPS * count**2) > 1e-12 for other, count in zip(others, counts, strict=True)):
            return False
        for module, other in zip([*prenorm.sublayers, prenorm], others, strict=True):
            norm: Any = module.norm
            norm.eps = EPS * (other / EPS) ** (power / 2)
        if not agree(model, prenorm):
            return False
    return True


@ZERO_QUERY.check(
    "decoders and PreNorm ones as they are, with norms of this eps",
    states=0.0,
    control=EPS,
    wrong="with an eps as well",
)
def starts_as_prenorm(eps: float) -> bool:
    return all(agree(*pair(rule, eps)) for rule in RULES)


@ZERO_QUERY.check(
    "by how much answers differ from PreNorm's, relative to them, at four layers of width 64, std 0.02 and eps = 1e-5",
    states=(0.36, 0.46),
    control=(0.0, 0.01),
    wrong="by no more than a percent",
)
def differs_at_the_usual_start(share: tuple[float, float]) -> bool:
    import torch

    from icl.models.decoder import Decoder

    config = replace(llama(d_model=64, n_heads=4, n_layers=4, d_ff=170, vocab=64, context=16), norm_eps=1e-5)
    tokens = torch.arange(64).view(4, 16)
    with torch.no_grad():
        full, prenorm = (
            Decoder(config, resolve(name, config.shape), std=0.02, seed=0).double()(tokens)
            for name in ("attnres", "vanilla")
        )
    return share[0] <= float((full - prenorm).norm() / prenorm.norm()) <= share[1]


@ZERO_QUERY.check(
    "reads whose query has no gradient at the start",
    states=[0],
    control=[],
    wrong="every query is trained",
)
def dead_queries(reads: list[int]) -> bool:
    for rule in RULES:
        model, _ = pair(rule, EPS)
        answer(model).square().mean().backward()
        gradient = dict(model.named_parameters())["depth.query"].grad
        if gradient is None or [i for i, row in enumerate(gradient) if not row.any()] != reads:
            return False
    return True
