"""Trained vanilla decoders as decoders under another plan, to be trained on (SkipV1Former, section 5.1, appendix B.1).

What both models have is taken over.  Learned weights of a plan begin with every head reading what is its own, depth
attention with queries of zero, depth averages at the newest output: so `resformer-learned`, `denseformer` and, where
norms have no eps, `attnres` begin as the very function that was trained (`theory.attnres.zero_query`).

Where a plan has fewer values of a layer's own than there were, H' of H, they are made of those that were:

    first     those of the heads that keep values of their own: under `skipv1` the first H'
    mean      means over H / H' neighbouring heads: the paper's way
    apart     means over heads that are H' apart, as the authors' code has it: so head h has a part of its own value
    mean-vo   means over neighbours, and means of the output projection's parts of the same heads; its parts for other
              heads are zero
    top-v     those of the H' heads whose matrices have the largest norms
    top-vo    these, and the H' parts of the output projection with the largest norms; other parts are zero
    svd       the best approximation of rank H' w to the product of output and value projection, in equal parts; other
              parts of the output projection are zero
    whole     the H' heads whose products of output and value projection have the largest norms, with their queries,
              keys and parts of the output projection; other parts are zero: the model without the other heads

The paper's figure 10 compares the first losses of five (all but `first`, `apart` and `whole`).  What it does with the
queries, keys and parts of the output projection of heads that lose their values it does not say; all but `whole` leave
the queries and keys where they were, and `first`, `mean`, `apart` and `top-v` the output projection too.  How far each
takes a layer from what it was: `theory.skipv1.conversion`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from icl.models.attention import Attention
from icl.models.decoder import Decoder
from icl.models.latent import LatentAttention
from icl.models.position_bias import PositionBias
from icl.models.projections import HeadLinear, MergeLinear, learned_name
from theory.errors import BadInput
from theory.plans.architecture import misfits
from theory.plans.mix import Learned, Mix
from theory.plans.names import fitting, resolve
from theory.plans.plan import Plan

WAYS = ("first", "mean", "apart", "top-v", "mean-vo", "top-vo", "svd", "whole")


@torch.no_grad()
def convert(model: Decoder, variant: str | Plan, how: str = "mean") -> Decoder:
    """A decoder of the same sizes under another plan, with weights made of the model's, in evaluation mode.

    Raises BadInput for a way that there is not, a model that is not vanilla, a plan that does not fit, and for a way
    that has no meaning for the model's kind of heads.
    """
    if how not in WAYS:
        raise BadInput(f"unknown way {how!r}; there are {', '.join(WAYS)}")
    if model.plan != resolve("vanilla", model.config.shape):
        raise BadInput("only a vanilla model can be converted: what others have learned is made for their own plan")
    plan = fitting(variant, model.config) if isinstance(variant, str) else variant
    for misfit in misfits(model.config, plan):
        raise BadInput(misfit)
    found = Decoder(model.config, plan).to(next(model.parameters()))
    _take_over(model, found)
    for name, value in _own(plan).items():
        found.learned[learned_name(name)].fill_(value)
    for old, new in zip(_attentions(model), _attentions(found), strict=True):
        _values(old, new, how)
    return found.eval()


def _attentions(model: Decoder) -> list[Attention | LatentAttention]:
    """Of all layers; with or without feed-forwards between them."""
    return [x for x in model.sublayers if isinstance(x, Attention | LatentAttention)]


def _take_over(model: Decoder, found: Decoder) -> None:
    """All parameters that both have, of heads those that are built."""
    old, modules = dict(model.named_parameters()), dict(found.named_modules())
    for name, parameter in found.named_parameters():
        if name not in old:
            continue
        module = modules[name.rpartition(".")[0]]
        whole = old[name]
        parameter.copy_(module.cut(whole) if isinstance(module, HeadLinear | MergeLinear | PositionBias) else whole)


def _own(plan: Plan) -> dict[str, float]:
    """Learned weights with which heads read what is their own as much as they can: 1 of that, 0 of others.

    A weight that stands in several places is 1 where it is somewhere of a head's own.
    """
    found: dict[str, float] = {}

    def look(mix: Mix, kind: str, layer: int, head: int) -> None:
        for term in mix.terms:
            if isinstance(term.weight, Learned):
                own = (term.source.kind, term.source.layer, term.source.head) == (kind, layer, head)
                found[term.weight.name] = max(found.get(term.weight.name, 0.0), float(own))

    for n, h in plan.shape.cells():
        head = plan.head(n, h)
        look(head.query, "q", n, h)
        for keys, values in zip(head.keys, head.values, strict=True):
            look(keys, "k", n, h)
            look(values, "v", n, h)
        look(head.beside, "", n, h)
    return found


def _values(old: Attention | LatentAttention, new: Attention | LatentAttention, how: str) -> None:
    """Where the new layer has fewer values than the old one, but some."""
    if "value" not in dict(new.projections.named_children()):
        return
    before, after = (x.projections.get_submodule("value") for x in (old, new))
    assert isinstance(before, HeadLinear)
    assert isinstance(after, HeadLinear)
    count = len(after.heads)
    if count == len(before.heads):
        return
    value = _of_heads(before)
    match how:
        case "first":  # as they were taken over
            return
        case "mean":
            _set(after, _means(value, count))
        case "apart":
            _set(after, torch.stack([value[i::count].mean(0) for i in range(count)]))
        case "top-v":
            _set(after, value[_largest(_norms(value), count)])
        case _:
            if not (isinstance(old, Attention) and isinstance(new, Attention) and old.output and new.output):
                raise BadInput(f"{how} is for heads with values and an output projection of their own")
            _with_outputs(old, new, after, value, how)


def _of_heads(linear: HeadLinear) -> Tensor:
    """(heads, width, d_model [+ 1]): its rows, and its biases as one more column."""
    whole = linear.weight if linear.bias is None else torch.cat([linear.weight, linear.bias[:, None]], dim=1)
    return whole.unflatten(0, (len(linear.heads), linear.width))


def _set(linear: HeadLinear, of_heads: Tensor) -> None:
    rows = of_heads.flatten(0, 1)
    linear.weight.copy_(rows[:, : linear.in_features])
    if linear.bias is not None:
        linear.bias.copy_(rows[:, -1])


def _means(x: Tensor, count: int) -> Tensor:
    """Over `count` groups of neighbours along the first dimension, as equal as can be."""
    return torch.stack([part.mean(0) for part in x.tensor_split(count)])


def _largest(sizes: Tensor, count: int) -> Tensor:
    """Places of the largest, in order."""
    return sizes.topk(count).indices.sort().values


def _norms(x: Tensor) -> Tensor:
    return x.flatten(1).norm(dim=1)


def _with_outputs(old: Attention, new: Attention, after: HeadLinear, value: Tensor, how: str) -> None:
    """Of a layer whose new values belong to its heads `after.heads`; query heads follow their key/value heads."""
    assert isinstance(old.output, MergeLinear)
    assert isinstance(new.output, MergeLinear)
    count, group, width = len(after.heads), old.group, after.width
    # (key/value heads, d_model, group * width)
    output = old.output.weight.unflatten(1, (len(value), group * width)).transpose(0, 1)
    parts = torch.zeros_like(output)
    places = [h - 1 for h in after.heads]
    match how:
        case "mean-vo":
            _set(after, _means(value, count))
            parts[places] = _means(output, count)
        case "top-vo":
            _set(after, value[_largest(_norms(value), count)])
            parts[places] = output[_largest(_norms(output), count)]
        case "whole":
            chosen = _largest(_norms(_products(output, value, group)), count)
            _set(after, value[chosen])
            parts[places] = output[chosen]
            _reorder(old, new, chosen.tolist(), places)
        case "svd":
            if group > 1:
                raise BadInput("svd is for values of one query head each")
            left, sizes, right = torch.linalg.svd(_products(output, value, group).sum(0).double(), full_matrices=False)
            rank = min(count * width, len(sizes))
            left, right = left[:, :rank] * sizes[:rank].sqrt(), right[:rank] * sizes[:rank, None].sqrt()
            rows = torch.zeros(count * width, right.shape[1], dtype=right.dtype, device=right.device)
            columns = torch.zeros(left.shape[0], count * width, dtype=left.dtype, device=left.device)
            rows[:rank], columns[:, :rank] = right, left
            _set(after, rows.unflatten(0, (count, width)).to(value))
            parts[places] = columns.unflatten(1, (count, width)).transpose(0, 1).to(value)
    new.output.weight.copy_(new.output.cut(parts.transpose(0, 1).flatten(1)))


def _products(output: Tensor, value: Tensor, group: int) -> Tensor:
    """Of every key/value head the outputs of all its query heads: (heads, group * d_model, d_model [+ 1])."""
    return torch.cat([part @ value for part in output.chunk(group, dim=2)], dim=1)


def _reorder(old: Attention, new: Attention, chosen: list[int], places: list[int]) -> None:
    """Queries and keys of the chosen heads go where their values are now; those of the others take what is left."""
    names, both = ("query", "key"), [dict(x.projections.named_children()) for x in (old, new)]
    if old.position_bias is not None or any(name not in of for of in both for name in names):
        raise BadInput("whole heads need a query and a key each, and no biases for positions")
    count = len(old.live)
    left = [head for head in range(count) if head not in chosen]
    free = [place for place in range(count) if place not in places]
    order = dict(zip([*places, *free], [*chosen, *left], strict=True))
    for name in names:
        before, after = (of[name] for of in both)
        assert isinstance(before, HeadLinear)
        assert isinstance(after, HeadLinear)
        if len(after.heads) < len(before.heads):
            raise BadInput("whole heads need a plan that leaves every head its query and its key")
        rows = _of_heads(before).unflatten(0, (count, -1))
        _set(after, rows[[order[place] for place in range(count)]].flatten(0, 1))
