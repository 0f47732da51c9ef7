"""Conversion of trained vanilla decoders to another plan, for further training (SkipV1Former, 5.1 and B.1).

What both models have is taken over; tables whose weights are not 0 at first begin at 0.  Learned weights of a plan
begin with every head reading what is its own, depth attention with queries of zero, depth averages at the newest
output: so `resformer-learned`, `denseformer` and, where norms have no eps, `attnres` begin as the very function that
was trained (`theory.attnres.zero_query`).  What an eps costs there is proportional to it while it is small beside a
token's mean square over (2 L + 1)^2: a decoder of 8 layers and width 64, trained for 600 steps with an eps of 1e-5,
changed its held-out loss of 5.03 by 3e-4 nats as `attnres`, by 4e-5 with an eps of 1e-6, and as `attnres-block:size=4`
by 5e-4 and 5e-5.  `difference_bounds` there bounds it for any weights.  Rules made of streams begin as they do in any
model: `unet-skips` and `residual-lambdas` add to what was trained, unless with start=0 and embedding=0.

Where a plan has fewer values of a layer's own than there were, H' of H, they are made of those that were:

    first     those of the heads that keep values of their own: under `skipv1` the first H'
    mean      means over H / H' neighbouring heads: the paper's way
    apart     means over heads that are H' apart, as the authors' code has it: so head h has a part of its own value
    mean-vo   means over neighbours, and means of the output projection's parts of the same heads; its parts for other
              heads are zero
    top-v     those of the H' heads whose matrices have the largest norms
    top-vo    these, and the H' parts of the output projection with the largest norms; other parts are zero
    svd       the best approximation of rank H' w to the sum of all heads' products of output and value projection, in
              equal parts; other parts of the output projection are zero
    whole     the H' heads whose products of output and value projection have the largest norms, with their queries,
              keys and parts of the output projection; other parts are zero: the model without the other heads

Of grouped queries a head here is one with a value, w wide, and its part of the output projection that of all queries of
its group; its product is theirs, O_i V of query i, one above the other.  `svd` takes the sum S of these stacks.  H'
values and their parts make a stack of rank H' w at most, and every one of that rank is made by some; so S cut off after
its H' w largest singular values is nearest in Frobenius norm (Eckart and Young).  It changes a layer least, in mean
square, where queries at the same place of their groups attend alike, those of one group have nothing in common, and
what they sum is white and as large.

Of a latent, slices C_h of it take the place of values, and what reads them that of parts of the output projection: the
columns R_h of what makes all heads' keys and values, one above the other, with the gains of the latent's norm, which
become 1.  The columns for other slices are zero.  `svd` is, likewise, the nearest to S = sum_h R_h C_h, what keys and
values are made of before the norm divides, with slices whose squares are the former ones', of every input in the span
of what is kept of S.

No choice is the best with that norm.  It divides by the root of (|C x|^2 + |c|^2) / L, with eps of 0, where c are layer
1's slices and L is the latent's width.  Let the former latent W x be in the span of H' slices, W = U C, U^T U = 1.
Then slices a C, read by R U, differ from what was trained by as little as one likes, for large a, and no choice does by
nothing: what is divided by changes with c, and in what was trained it does not.

The paper's figure 10 compares the first losses of five (all but `first`, `apart` and `whole`).  What it does with the
queries, keys and parts of the output projection of heads that lose their values it does not say; all but `whole` leave
the queries and keys where they were, and `first`, `mean`, `apart` and `top-v` the output projection too.  How far each
takes a layer from what it was: `theory.skipv1.conversion`.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from icl.models.attention import Attention
from icl.models.decoder import Decoder
from icl.models.initial import InitialWeights
from icl.models.latent import LatentAttention
from icl.models.position_bias import PositionBias
from icl.models.projections import HeadLinear, MergeLinear, learned_name
from theory.errors import BadInput
from theory.plans.architecture import misfits
from theory.plans.mix import Kind, Learned, Mix, Source, Weight
from theory.plans.names import fitting, resolve
from theory.plans.plan import Plan, learned_parameters
from theory.plans.suggestions import unknown

WAYS = ("first", "mean", "apart", "top-v", "mean-vo", "top-vo", "svd", "whole")


@torch.no_grad()
def convert(model: Decoder, variant: str | Plan, how: str = "mean", *, shared: bool = False) -> Decoder:
    """Return a decoder of the same sizes under another plan, with weights made from the model's, in evaluation mode.

    Args:
        model: The trained model.
        variant: The plan, or its name.
        how: One of WAYS.
        shared: Let both models share the weights outside attention, instead of a copy: less memory, and training one
            of them would change the other.

    Raises:
        BadInput: for an unknown way, a model that is not vanilla, a plan that does not fit, and a way that has no
            meaning for the model's kind of heads.
    """
    if how not in WAYS:
        raise BadInput(unknown("way", how, WAYS))
    if model.plan != resolve("vanilla", model.config.shape):
        raise BadInput("only a vanilla model can be converted: what others have learned is made for their own plan")
    plan = fitting(variant, model.config) if isinstance(variant, str) else variant
    for misfit in misfits(model.config, plan):
        raise BadInput(misfit)
    found = _taken_over(model, plan, shared=shared)
    numbers = _own(plan)
    _empty_tables(found, numbers)
    for name, parameter in learned_parameters(plan).items():
        names = [f"{name}[{place}]" for place in parameter.places] or [name]
        found.learned[learned_name(name)].copy_(torch.tensor([numbers[number] for number in names]))
    for old, new in zip(model.attentions, found.attentions, strict=True):
        _values(old, new, how)
    return found.eval()


def _taken_over(model: Decoder, plan: Plan, *, shared: bool) -> Decoder:
    """Return a decoder with all parameters that the model has too; of heads, those that are built.

    Others have the initial weights of seed 0.
    """
    found, law = Decoder(model.config, plan, device="meta"), InitialWeights(model.config, plan, seed=0)
    old, like = {name: p.detach() for name, p in model.named_parameters()}, next(model.parameters())
    weights: dict[str, Tensor] = {}
    for prefix, module in found.named_modules():
        for short, parameter in module.named_parameters(recurse=False):
            name = f"{prefix}.{short}" if prefix else short
            if name not in old:
                weights[name] = torch.empty(parameter.shape, dtype=like.dtype, device=like.device)
                law.fill(module, prefix, short, parameter=nn.Parameter(weights[name]))
                continue
            whole = old[name]
            if isinstance(module, HeadLinear | MergeLinear | PositionBias) and whole.shape != parameter.shape:
                weights[name] = module.cut(whole)
            else:
                weights[name] = whole if shared and ".attention." not in name else whole.clone()
    found.load_state_dict(weights, assign=True)
    return found


def _empty_tables(model: Decoder, numbers: Mapping[str, float]) -> None:
    """Set the rows of tables that are read with other weights than 0 to 0, so that they change nothing at first.

    Where a learned weight is 0 at first, the rows keep their starting values, else neither would get a gradient.

    Args:
        model: The model whose tables are emptied.
        numbers: The first values of its learned numbers.
    """
    heads = [model.plan.head(*cell) for cell in model.plan.shape.cells()]
    terms = [term for head in heads for mix in (*head.values, head.beside) for term in mix.terms]

    def counts(weight: Weight) -> bool:
        return not isinstance(weight, Learned) or weight.value(numbers[weight.number]) != 0

    counted = {term.source.layer for term in terms if term.source.kind == "e" and counts(term.weight)}
    for attention in model.attentions:
        table = attention.projections.table
        if table is not None and attention.layer in counted:
            table.weight.zero_()


def _own(plan: Plan) -> dict[str, float]:
    """Return learned numbers, by name, with which heads read their own sources as much as they can.

    Weights are 1 for these and 0 for others.  A number that stands in several places makes a weight of 1 where it is
    somewhere of a head's own.
    """
    found: dict[str, tuple[bool, float]] = {}  # by number: whether it weighs a head's own, and its value

    def look(mix: Mix, kind: Kind | None, layer: int, head: int) -> None:
        for term in mix.terms:
            if isinstance(term.weight, Learned):
                weight, own = term.weight, kind is not None and term.source == Source(kind, layer, head)
                if own or weight.number not in found:
                    found[weight.number] = own, (own - weight.offset) / weight.slope

    for n, h in plan.shape.cells():
        head = plan.head(n, h)
        look(head.query, "q", n, h)
        for keys, values in zip(head.keys, head.values, strict=True):
            look(keys, "k", n, h)
            look(values, "v", n, h)
        look(head.beside, None, n, h)
    return {number: value for number, (_, value) in found.items()}


def _values(old: Attention | LatentAttention, new: Attention | LatentAttention, how: str) -> None:
    """Set the values of a new layer that has fewer values than the old one, but some."""
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
            readers, group = _readers(old)
            places, latent = [h - 1 for h in after.heads], isinstance(old, LatentAttention)
            made, parts, chosen = _with_readers(readers, value, places, group, how, latent=latent)
            _set(after, made)
            _read_by(new, parts)
            if how == "whole" and isinstance(old, Attention) and isinstance(new, Attention):
                _reorder(old, new, chosen, places)


def _of_heads(linear: HeadLinear) -> Tensor:
    """Return a projection's rows, with its biases as one more column: (heads, width, d_model [+ 1])."""
    whole = linear.weight if linear.bias is None else torch.cat([linear.weight, linear.bias[:, None]], dim=1)
    return whole.unflatten(0, (len(linear.heads), linear.width))


def _set(linear: HeadLinear, of_heads: Tensor) -> None:
    rows = of_heads.flatten(0, 1)
    linear.weight.copy_(rows[:, : linear.in_features])
    if linear.bias is not None:
        linear.bias.copy_(rows[:, -1])


def _means(x: Tensor, count: int) -> Tensor:
    """Return means over `count` groups of neighbours along the first dimension, as equal as can be."""
    return torch.stack([part.mean(0) for part in x.tensor_split(count)])


def _largest(sizes: Tensor, count: int) -> Tensor:
    """Return the places of the `count` largest sizes, in order."""
    return sizes.topk(count).indices.sort().values


def _norms(x: Tensor) -> Tensor:
    return x.flatten(1).norm(dim=1)


def _readers(old: Attention | LatentAttention) -> tuple[Tensor, int]:
    """Return the matrices that read each value or each slice of the latent, and the group.

    Values are read by their parts of the output projection; query heads follow their key/value heads.  A latent is read
    by the matrices that make keys and values of all heads, one above the other, with the gain of the latent's norm.

    Returns:
        (values or slices, outputs, group * width), and the group.
    """
    if isinstance(old, LatentAttention):
        norm = old.latent_norm
        gain = norm.weight if isinstance(norm, nn.RMSNorm) else 1.0
        whole = gain * torch.cat([old.key_up.weight, old.value_up.weight])
        return whole.unflatten(1, (len(old.heads), -1)).transpose(0, 1), 1
    if old.output is None:
        raise BadInput("there is no output projection to make products of values with")
    return old.output.weight.unflatten(1, (len(old.live), -1)).transpose(0, 1), old.group


def _read_by(new: Attention | LatentAttention, parts: Tensor) -> None:
    """Put readers where `_readers` found them."""
    whole = parts.transpose(0, 1).flatten(1)
    if isinstance(new, LatentAttention):
        keys, values = whole.chunk(2)
        new.key_up.weight.copy_(keys)
        new.value_up.weight.copy_(values)
        if isinstance(new.latent_norm, nn.RMSNorm):
            new.latent_norm.weight.fill_(1.0)  # it is within
    elif new.output is None:
        raise BadInput("there is no output projection to make products of values with")
    else:
        new.output.weight.copy_(new.output.cut(whole))


def _with_readers(
    readers: Tensor, value: Tensor, places: list[int], group: int, how: str, *, latent: bool
) -> tuple[Tensor, Tensor, list[int]]:
    """Return values of the heads at these places, readers of all, and for `whole` the heads that they come from.

    readers  (heads, outputs, group * width); value  (heads, width, inputs)
    """
    count, chosen = len(places), list[int]()
    parts = torch.zeros_like(readers)
    match how:
        case "mean-vo":
            value, parts[places] = _means(value, count), _means(readers, count)
        case "top-vo":
            value, parts[places] = (x[_largest(_norms(x), count)] for x in (value, readers))
        case "whole":
            chosen = _largest(_norms(_products(readers, value, group)), count).tolist()
            value, parts[places] = value[chosen], readers[chosen]
        case "svd":
            value, parts[places] = _nearest(readers, value, count, group, latent=latent)
    return value, parts, chosen


def _nearest(readers: Tensor, value: Tensor, count: int, group: int, *, latent: bool) -> tuple[Tensor, Tensor]:
    """Return `count` values and their readers whose product is nearest to the old one.

    Both factors get equal parts, or, for a latent, the latents stay as large as they were: rows T R of the right
    singular vectors R with T^T T = R W^T W R^T, where W made the old latent.
    """
    width, inputs = value.shape[1:]
    left, sizes, right = torch.linalg.svd(_products(readers, value, group).sum(0).double(), full_matrices=False)
    rank = min(count * width, len(sizes))
    if latent:
        rank = min(rank, int((sizes > 1e-12 * sizes[0]).sum()))
        made = torch.linalg.qr(value.flatten(0, 1).double() @ right[:rank].T).R
        left = torch.linalg.solve_triangular(made, left[:, :rank] * sizes[:rank], upper=True, left=False)
        right = made @ right[:rank]
    else:
        left, right = left[:, :rank] * sizes[:rank].sqrt(), right[:rank] * sizes[:rank, None].sqrt()
    rows = torch.zeros(count * width, inputs, dtype=right.dtype, device=right.device)
    columns = torch.zeros(left.shape[0], count * width, dtype=left.dtype, device=left.device)
    rows[:rank], columns[:, :rank] = right, left
    parts = columns.unflatten(0, (group, -1)).unflatten(2, (count, width))  # (group, outputs, heads, width)
    return rows.unflatten(0, (count, width)).to(value), parts.permute(2, 1, 0, 3).flatten(2).to(value)


def _products(output: Tensor, value: Tensor, group: int) -> Tensor:
    """Return each key/value head's outputs of all its query heads: (heads, group * d_model, d_model [+ 1])."""
    return torch.cat([part @ value for part in output.chunk(group, dim=2)], dim=1)


def _reorder(old: Attention, new: Attention, chosen: list[int], places: list[int]) -> None:
    """Move queries and keys of the chosen heads to the new places of their values; other heads fill the rest."""
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
