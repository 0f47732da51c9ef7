"""Shares of a model's reads, and how near they come to what depth attention allows, on the first held-out batch.

What it allows follows from the lengths of the queries (`theory.attnres.dilution.share_range` and its inverse).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from experiments.store.folders import Json
from theory.attnres.dilution import query_for_share
from theory.plans.accounting import depth_reads
from theory.plans.depth import DepthAttention, Residual

if TYPE_CHECKING:
    from torch import Tensor

    from icl.models.decoder import Decoder
    from icl.probes.shares import Shares
    from icl.training.objectives import Task
    from theory.plans.plan import Plan

NAME = f"{__name__}:probe"
KINDS = ("coefficient", "projection", "square")


def probe(model: Decoder, task: Task, device: str) -> Json:
    """In the model's dtype, without dropout; for the words see `icl.probes.shares`.

    coefficient, projection, square   mean shares: `newest` and `embedding` in every read, `last`: of every output in
                                      the last read
    effective, lengths                by read
    error                             the largest of all reads; null for depth attention of which `lengths` is null, as
                                      nothing bounds its logits, and so their rounding
    needed                            by read: the least ||query * gain|| that allows all shares; null without lengths
    spare                             the least of 1 / share - m_b, over reads of two or more sources; null likewise
    from_prenorm                      the largest difference of any mean share to that of the PreNorm network with the
                                      same weights, both in float64 with eps = 0
    """
    import torch

    from icl.probes.shares import shares

    batch = next(task.held_out()).to(torch.device(device))
    model.eval()
    with torch.compiler.set_stance("force_eager"):  # compiled code may not see the hooks
        found = shares(model, batch.inputs)
        exact, prenorm = (
            shares(_exactly(model, plan), batch.inputs) for plan in (model.plan, replace(model.plan, depth=Residual()))
        )
    model.train()
    return {
        **{kind: _reduced(getattr(found, kind)) for kind in KINDS},
        "effective": _rounded(found.effective),
        "lengths": found.lengths,
        "error": None if found.lengths is None and _attends(model.plan) else max(found.error),
        **_room(model, found),
        "from_prenorm": max(_difference(getattr(exact, kind), getattr(prenorm, kind)) for kind in KINDS),
    }


def _exactly(model: Decoder, plan: Plan) -> Decoder:
    """The same weights in float64 with eps = 0, under a plan that differs in its depth rule at most."""
    from icl.models.decoder import Decoder

    twin = Decoder(replace(model.config, norm_eps=0.0), plan, device="meta")
    wanted = {name for name, _ in twin.named_parameters()}
    state: dict[str, Tensor] = {n: p.detach().double() for n, p in model.named_parameters() if n in wanted}
    twin.load_state_dict(state, assign=True)
    return twin.eval()


def _room(model: Decoder, found: Shares) -> Json:
    """What depth attention's shares leave of their ranges."""
    if found.lengths is None:
        return {"needed": None, "spare": None}
    needed, spare = [], []
    for least, most, sources in zip(found.least, found.most, depth_reads(model.config, model.plan), strict=True):
        outputs = sum(map(len, sources))
        members = {i: len(source) for source in sources for i in source}
        needed.append(
            max(
                query_for_share(s[i], m, outputs, model.config.d_model)
                for i, m in members.items()
                for s in (least, most)
            )
        )
        if len(sources) > 1:
            spare += [1 / most[i] - m for i, m in members.items()]
    return {"needed": needed, "spare": min(spare)}


def _attends(plan: Plan) -> bool:
    return isinstance(plan.depth, DepthAttention)


def _reduced(by_read: Sequence[Sequence[float]]) -> Json:
    return {
        "newest": _rounded([row[-1] for row in by_read]),
        "embedding": _rounded([row[0] for row in by_read]),
        "last": _rounded(by_read[-1]),
    }


def _rounded(numbers: Sequence[float]) -> list[float]:
    return [float(f"{x:.7g}") for x in numbers]


def _difference(a: Sequence[Sequence[float]], b: Sequence[Sequence[float]]) -> float:
    return max(abs(x - y) for one, other in zip(a, b, strict=True) for x, y in zip(one, other, strict=True))
