"""Costs, in nats per token, of letting heads of a trained model read other values: predicted for each and for any set.

Layer n puts out y = O z, where z holds its heads' outputs side by side.  A converted head h attends, with its own
pattern, over other values, such as layer 1's: its part of z changes, and z becomes z'.  The best linear read of y from
z' is W = E[y z'^T] E[z' z'^T]^-1, which `icl.refitting` puts into the output projection.  What it misses,

    delta_h = y - W z',

changes the loss.  Let g be the gradient of the sequence's loss in y, for labels that are drawn from the model itself.
Its mean is 0, so to second order, a token at a time, the loss rises by

    score(h) = 1/2 E (g . delta_h)^2                 the Fisher score of one head
    cost(S) = 1/2 E (sum over h in S of g . delta_h)^2 = 1/2 1^T Q 1        of a set, where Q is the scores' Gram matrix

Assumed are patterns and inputs of layers as they were, misses of heads of one layer that add up, and a small change.
The first pass sums second moments of (z, z'); the second, on other sequences, takes gradients.  No weights are changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from icl.models.attention import Attention, Core
from icl.models.decoder import Decoder
from icl.models.frame import limited, shifted
from icl.models.projections import entry, merged
from icl.probes.recording import removed_after
from theory.errors import BadInput, at_least
from theory.plans.mix import Mix, is_number
from theory.plans.names import resolve
from theory.plans.plan import ABSENT, Plan, Shape, checked

Cell = tuple[int, int]  # a layer and a head, from 1
RIDGE = 1e-6  # of the mean square of a number of z'
EVERY = 2  # halves of the sequences: one chooses and the other judges


@dataclass(frozen=True, eq=False)
class Costs:
    """Predicted costs of converting heads.

    Attributes:
        cells: The heads that can be converted.
        missed: g . delta of every token and head, (sequences, T, cells).
        losses: The mean loss of each sequence, for its own labels, (sequences,).
    """

    cells: tuple[Cell, ...]
    missed: Tensor
    losses: Tensor

    @property
    def gram(self) -> Tensor:
        """The mean of products of g . delta, (cells, cells) in float64."""
        return _gram(self.missed)

    def scores(self) -> tuple[Tensor, Tensor]:
        """Return the score of every head and its standard error over sequences, (cells,) each, in nats."""
        each = self.missed.double().square().mean(1) / 2
        return each.mean(0), _stderr(each)

    def of(self, cells: Sequence[Cell]) -> tuple[float, float]:
        """Return the cost of a set of heads and its standard error over sequences, in nats."""
        each = _cost(self.missed, [self.cells.index(cell) for cell in cells])
        return float(each.mean()), float(_stderr(each[:, None]))

    def chosen(self, count: int) -> list[Cell]:
        """Return so many heads, each the one that adds least to the cost of those before it."""
        return [self.cells[i] for i in greedy(self.gram, count)]

    def predicted(self, count: int) -> tuple[float, float]:
        """Return the cost of so many heads and its standard error, in nats.

        Half of the sequences choose heads, and the other half gives the cost of these, both ways: so heads are not
        taken to be as cheap as noise made the chosen ones look.
        """
        if len(self.missed) < EVERY:
            raise BadInput(f"a prediction needs {EVERY} sequences or more, got {len(self.missed)}")
        each = []
        for half in range(EVERY):
            judges = torch.arange(len(self.missed)) % EVERY == half
            places = greedy(_gram(self.missed[~judges]), count)
            each.append(_cost(self.missed[judges], places))
        costs = torch.cat(each)
        return float(costs.mean()), float(_stderr(costs[:, None]))


def _gram(missed: Tensor) -> Tensor:
    rows = missed.flatten(0, 1).double()
    return rows.mT @ rows / len(rows)


def _cost(missed: Tensor, places: Sequence[int]) -> Tensor:
    """Return the cost of heads at some places in every sequence, (sequences,)."""
    return missed[..., list(places)].double().sum(-1).square().mean(-1) / 2


def _stderr(each: Tensor) -> Tensor:
    """Return standard errors of means over the first dimension; infinite for a single row."""
    count = len(each)
    return each.std(0) / count**0.5 if count > 1 else torch.full_like(each[0], torch.inf)


def greedy(gram: Tensor, count: int) -> list[int]:
    """Return the places of `count` heads, in the order in which they are taken.

    Each adds least to 1^T Q 1 over the heads that are taken before it.

    Raises:
        BadInput: for a count that is not from 0 to the number of heads.
    """
    at_least("heads", count, 0)
    if count > len(gram):
        raise BadInput(f"{count} heads are to be chosen, and there are {len(gram)}")
    added, taken = gram.diagonal().clone(), list[int]()
    for _ in range(count):
        best = int(added.argmin())
        taken.append(best)
        added += 2 * gram[best]
        added[best] = torch.inf
    return taken


def candidates(plan: Plan) -> tuple[Cell, ...]:
    """Return the heads that a plan converts: those whose values are not their own.

    Raises:
        BadInput: for a plan that changes anything but values, or weighs them by numbers that are not fixed.
    """
    vanilla = resolve("vanilla", plan.shape)
    cells = [cell for cell in plan.shape.cells() if plan.head(*cell) != vanilla.head(*cell)]
    whole = ("depth", "dynamic", "feed_forward", "output_projection")
    if any(getattr(plan, name) != getattr(vanilla, name) for name in whole):
        raise BadInput("costs are predicted for plans that change values alone")
    for cell in cells:
        head, own = plan.head(*cell), vanilla.head(*cell)
        if head == ABSENT:
            continue
        if (head.query, head.keys, head.beside) != (own.query, own.keys, own.beside) or len(head.values) != 1:
            raise BadInput("costs are predicted for plans that change values alone")
        if any(not is_number(t.weight) or t.source.kind != "v" for t in head.values[0].terms):
            raise BadInput("costs are predicted for sums of layers' values with fixed weights")
    if not cells:
        raise BadInput("this plan converts no head: there is nothing to choose from")
    return tuple(cells)


def with_heads(plan: Plan, cells: Sequence[Cell]) -> Plan:
    """Return the vanilla plan with some heads as they are in another one."""
    vanilla, chosen = resolve("vanilla", plan.shape), set(cells)
    rows = range(1, plan.shape.layers + 1)
    table = tuple(
        tuple((plan if (n, h) in chosen else vanilla).head(n, h) for h in range(1, plan.shape.heads + 1)) for n in rows
    )
    return checked(Plan(Shape(plan.shape.layers, plan.shape.heads), table))


def obstacles(model: Decoder) -> Iterator[str]:
    """Yield why the costs of converting a model's heads cannot be predicted, one reason per line."""
    config = model.config
    if model.plan != resolve("vanilla", config.shape):
        yield "only a vanilla model can be converted: what others have learned is made for their own plan"
    if config.latent is not None or config.copy_rank is not None or config.differential:
        yield "costs are predicted for heads with values of their own: no latent, no pairs of heads, no assumed copy"
    if config.output_gate != "no":
        yield "costs are predicted for heads whose outputs go straight to the output projection, without a gate"


def costs(
    model: Decoder,
    plan: Plan,
    inputs: Tensor,
    *,
    targets: Tensor,
    fitted: int,
    seed: int = 0,
    advance: Callable[[int], None] = lambda _: None,
) -> Costs:
    """Return the predicted costs of converting a plan's heads, each with its layer's output projection refitted.

    Args:
        model: A vanilla decoder of tokens, in evaluation mode.
        plan: The plan whose heads are candidates: what each would read.
        inputs: Sequences of tokens, (count, T).
        targets: The tokens that follow, (count, T).
        fitted: How many sequences, from the first on, the linear reads are fitted on; gradients are taken on others.
        seed: Of the labels that are drawn.
        advance: Called with the number of sequences done, from 0 to count.

    Raises:
        BadInput: for plans and models of which costs cannot be predicted, and for no sequences in either part.
    """
    for obstacle in obstacles(model):
        raise BadInput(obstacle)
    cells = candidates(plan)
    if not 0 < fitted < len(inputs):
        raise BadInput(f"of {len(inputs)} sequences some must be fitted on and others not, got {fitted}")
    layers = {n: _Layer(model, plan, n, [h for m, h in cells if m == n]) for n in dict.fromkeys(n for n, _ in cells)}
    frozen = [p for p in model.parameters() if p.requires_grad]
    generator = torch.Generator(inputs.device).manual_seed(seed)
    missed: list[Tensor] = []
    losses: list[float] = []
    try:
        for parameter in frozen:
            parameter.requires_grad_(False)
        for i in range(fitted):
            advance(i)
            with torch.no_grad(), _watched(model, layers):
                model.hidden(inputs[i : i + 1])
            for layer in layers.values():
                layer.add()
        for layer in layers.values():
            layer.solve()
        for i in range(fitted, len(inputs)):
            advance(i)
            found, loss = _sequence(model, layers, inputs[i : i + 1], targets[i : i + 1], generator)
            missed.append(found)
            losses.append(loss)
        advance(len(inputs))
    finally:
        for parameter in frozen:
            parameter.requires_grad_(True)
    return Costs(cells, torch.stack(missed).cpu(), torch.tensor(losses, dtype=torch.float64))


def _sequence(
    model: Decoder, layers: dict[int, _Layer], inputs: Tensor, targets: Tensor, generator: torch.Generator
) -> tuple[Tensor, float]:
    """Return g . delta of a sequence's tokens and all candidates, (T, cells), and its mean loss."""
    outputs: dict[int, Tensor] = {}
    with torch.enable_grad(), _watched(model, layers, outputs):
        logs = model(inputs)[0].float().log_softmax(-1)
    with torch.no_grad():
        loss = float(-logs.gather(-1, targets[0, :, None]).mean())
        labels = torch.multinomial(logs.exp(), 1, generator=generator)
    gradients = torch.autograd.grad(-logs.gather(-1, labels).sum(), list(outputs.values()))
    found = [layers[n].missed(g[0]) for n, g in zip(outputs, gradients, strict=True)]
    return torch.cat(found, dim=-1), loss


@dataclass
class _Layer:
    """A layer with candidates: what its heads give and would give, and the linear reads of it.

    Attributes:
        heads: The candidates, from 1.
        seen: What the output projection reads of a sequence, and the candidates' outputs if converted, side by side:
            (T, heads * width + candidates * group * width), and a 1 where the projection has a bias.
        sums: The sum of products of `seen` with itself.
        misses: Of each candidate the matrix that gives delta from `seen`, (candidates, d, numbers of `seen`).
    """

    model: Decoder
    plan: Plan
    layer: int
    heads: list[int]
    seen: Tensor | None = None
    sums: Tensor | float = 0.0
    misses: Tensor | None = None

    @property
    def attention(self) -> Attention:
        attention = self.model.attentions[self.layer - 1]
        assert isinstance(attention, Attention)
        return attention

    def see(self, core: Core, args: tuple[Any, ...], out: Tensor, values: dict[int, Tensor]) -> None:
        """Note what the heads give and what the candidates would give; arguments as those of a hook on a `Core`.

        Args:
            core: The layer's.
            args: Its arguments.
            out: Its output, (1, H, T, width).
            values: Layers' own values, (1, heads, T, width), by layer.
        """
        query, keys, _, frame, gates, bias = (*args, (), None)[:6]
        live = [h for h in self.heads if self.plan.head(self.layer, h).live]
        parts = [merged(out)[0]]
        if live:
            group = self.attention.group
            chosen = [h - 1 for h in live]
            queries = [i * group + j for i in chosen for j in range(group)]
            other = torch.cat([_mixed(self.plan.head(self.layer, h).values[0], values, frame) for h in live], dim=1)
            would = core.forward(
                query[:, queries],
                tuple(key[:, chosen] for key in keys),
                (other,),
                frame,
                gates,
                None if bias is None else bias[..., queries, :, :],
            )
            parts.append(merged(would)[0])
        if self.attention.output is not None and self.attention.output.bias is not None:
            parts.append(torch.ones_like(parts[0][:, :1]))  # which the bias reads
        self.seen = torch.cat(parts, dim=-1).detach()

    def add(self) -> None:
        """Add a sequence to the moments."""
        assert self.seen is not None
        rows = self.seen.double()
        self.sums, self.seen = self.sums + rows.mT @ rows, None

    def solve(self) -> None:
        """Fit the linear reads, and forget the moments."""
        attention, sums = self.attention, self.sums
        assert isinstance(sums, Tensor)
        assert attention.output is not None
        width = attention.group * attention.width
        own = len(attention.live) * width
        weight = attention.output.weight.double()
        live = [h for h in self.heads if self.plan.head(self.layer, h).live]
        misses = torch.zeros(len(self.heads), len(weight), len(sums), dtype=sums.dtype, device=sums.device)
        for place, head in enumerate(self.heads):
            lost = torch.arange((head - 1) * width, head * width, device=sums.device)
            read = torch.arange(own, device=sums.device)
            read = torch.cat([read[: (head - 1) * width], read[head * width :]])
            if head in live:
                start = own + live.index(head) * width
                read = torch.cat([read, torch.arange(start, start + width, device=sums.device)])
            if attention.output.bias is not None:
                read = torch.cat([read, torch.tensor([len(sums) - 1], device=sums.device)])
            square = sums[read][:, read]
            square.diagonal().add_(RIDGE * square.diagonal().mean())
            part = weight[:, lost]
            misses[place][:, lost] = part
            misses[place][:, read] -= torch.linalg.solve(square, sums[read][:, lost] @ part.mT).mT
        self.misses, self.sums = misses.to(attention.output.weight.dtype), 0.0

    def missed(self, gradient: Tensor) -> Tensor:
        """Return g . delta of a sequence, (T, candidates), from the gradient in the layer's output, (T, d)."""
        assert self.seen is not None
        assert self.misses is not None
        found = torch.stack([((gradient @ miss) * self.seen).sum(-1) for miss in self.misses], dim=-1)
        self.seen = None
        return found


def _mixed(mix: Mix, values: dict[int, Tensor], frame: Any) -> Tensor:
    """Return a sum of layers' values with fixed weights, (1, 1, T, width)."""
    total: Tensor | float = 0.0
    for term in mix.terms:
        source = term.source
        part = values[source.layer][:, source.head - 1 : source.head]
        part = shifted(part, source.shift, frame.before) if source.shift else part
        part = part if source.where == "everywhere" else limited(part, source.where, frame.places)
        assert is_number(term.weight)
        total = total + term.weight * part
    assert isinstance(total, Tensor)
    return total


@contextmanager
def _watched(model: Decoder, layers: dict[int, _Layer], outputs: dict[int, Tensor] | None = None) -> Iterator[None]:
    """Let layers see what their heads give, inside; `outputs` gets their projections' outputs, which want gradients."""
    values: dict[int, Tensor] = {}
    hooks = []

    def note(n: int) -> Callable[[nn.Module, Any, dict[str, Tensor]], None]:
        def hook(_module: nn.Module, _args: Any, bank: dict[str, Tensor]) -> None:
            values[n] = bank[entry("v", n)].detach()

        return hook

    def see(layer: _Layer) -> Callable[[Any, Any, Tensor], None]:
        def hook(core: Core, args: Any, out: Tensor) -> None:
            with torch.no_grad():
                layer.see(core, args, out, values)

        return hook

    def put_out(n: int) -> Callable[[nn.Module, Any, Tensor], Tensor]:
        def hook(_module: nn.Module, _args: Any, out: Tensor) -> Tensor:
            assert outputs is not None
            outputs[n] = out if out.requires_grad else out.detach().requires_grad_()
            return outputs[n]

        return hook

    for n, attention in enumerate(model.attentions, 1):
        assert isinstance(attention, Attention)
        hooks.append(attention.projections.register_forward_hook(note(n)))
        if n in layers:
            hooks.append(attention.core.register_forward_hook(see(layers[n])))
            if outputs is not None and attention.output is not None:
                hooks.append(attention.output.register_forward_hook(put_out(n)))
    with removed_after(hooks):
        yield
