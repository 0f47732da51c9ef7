"""A stack: many decoders of one shape as one matrix of weights, one row per decoder."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Sequence
from copy import deepcopy
from functools import partial
from itertools import pairwise

import torch
from torch import Tensor, nn

from icl.data.shards import EVERY
from icl.models.decoder import Decoder
from icl.models.projections import learned_name
from icl.stacks.forward import Structure, Turned, answers, turned_name
from icl.stacks.mixes import Mixes, numbers
from icl.training.compiling import compiled
from icl.training.optimiser import is_decayed
from theory.errors import BadInput
from theory.plans.architecture import Architecture, Vectors
from theory.plans.plan import (
    Chain,
    DepthAttention,
    DepthAverage,
    Plan,
    Residual,
    built,
    learned,
    learned_parameters,
    limits,
    longest_shift,
    plan,
)

FLOATS = {"cpu": 2**18, "cuda": 2**27}  # of a chunk's weights and scores: what stays in a core's cache; what fits
LEARNED = "learned"
Losses = Callable[..., Tensor]


def misfit(config: Architecture, of: Plan) -> str | None:
    """Return why a decoder cannot stand in a stack, in a line; None if it can."""
    if not isinstance(config.stem, Vectors):
        return "a stack reads vectors, not tokens or images"
    if config.latent is not None or config.copy_rank is not None:
        return "a stack has no latent attention and no assumed copy"
    if config.group != 1 or config.dropout:
        return "a stack has as many key/value heads as heads, and no dropout"
    if config.qk_norm or config.window:
        return "a stack has no norms of queries and keys, and no window"
    if config.windows or config.output_gate != "no" or config.parallel:
        return "a stack has no windows by layer, no gates of outputs and no feed-forward beside its attention"
    if config.differential or any(kind == "g" for kind, _ in built(of)):
        return "a stack has no pairs of heads and no gates of sources"
    if config.rotated:
        return "a stack has the same positions in all layers"
    if config.output_scale != "no" or config.residual_rank:
        return "a stack has no scales of outputs and no residual maps"
    if limits(of) or longest_shift(of) or any(weight.wide for weight in learned_parameters(of).values()):
        return "a stack reads values of the tokens themselves, weighed by numbers"
    if of.dynamic != "no":
        return "a stack has no dynamic values"
    if not isinstance(of.depth, Residual | Chain | DepthAverage | DepthAttention):
        return "a stack has one residual stream, or attention over depth, and no streams or depth rule of its own"
    if any(len(head.values) > 1 for row in of.table for head in row):
        return "a stack's heads attend over one list of keys, not over a concatenation"
    return None


def common(of: Plan) -> tuple[object, ...]:
    """Return the parts that the plans of one stack have in common."""
    return of.shape, of.depth, of.feed_forward, of.output_projection


class StackedDecoder:
    """The given decoders, whose weights are copied into `flat`: (rows, numbers per decoder).

    Every decoder has a place for every projection of every head, whether its plan builds it or not; what it does not
    build is zero, has no effect and gets no gradient.  A single decoder stands there twice: a compiler takes a size of
    one for a constant.

    turning  an ingredient of the architecture that is not on altogether, but as far as `turn` says

    Raises BadInput for decoders that do not stack: of different architectures, depth rules or sublayers, or with what
    `misfit` names.
    """

    def __init__(self, models: Sequence[Decoder], *, turning: Turned | None = None) -> None:
        first, self.models = models[0], len(models)
        for model in models:
            if problem := misfit(model.config, model.plan):
                raise BadInput(problem)
            if model.config != first.config or common(model.plan) != common(first.plan):
                raise BadInput("the decoders of a stack have one architecture, one depth rule and the same sublayers")
        every = [*models, first] if len(models) == 1 else list(models)
        self.plans = [model.plan for model in every]
        like = next(first.parameters())
        self.mixes = Mixes(self.plans, like.dtype, like.device)
        self.shapes = _shapes(first, self.mixes.width)
        if turning:
            self.shapes[turned_name(turning)] = torch.Size([1])
        self._places: dict[Plan, dict[str, tuple[Tensor, torch.Size]]] = {}
        rows = []
        for model in every:
            row = torch.zeros(sum(map(math.prod, self.shapes.values())), dtype=like.dtype, device=like.device)
            if model.plan not in self._places:
                self._places[model.plan] = _places(model, self.shapes)
            for name, parameter in model.named_parameters():
                row[self._places[model.plan][name][0]] = parameter.detach().flatten()
            rows.append(row)
        self.flat = torch.stack(rows)
        self.turning = turning
        self.structure = Structure(
            config=first.config,
            depth=first.plan.depth,
            feed_forward=first.config.has_feed_forward(first.plan),
            output_projection=first.plan.output_projection,
            table=self.mixes.table,
        )

    def turn(self, share: float) -> None:
        """Turn the ingredient that is `turning` on so far, from 0, not there, to 1, as the architecture has it."""
        assert self.turning
        names = list(self.shapes)
        place = sum(math.prod(self.shapes[name]) for name in names[: names.index(turned_name(self.turning))])
        self.flat[:, place] = share

    def weights(self, i: int, flat: Tensor | None = None) -> dict[str, Tensor]:
        """Return the parameters of decoder i by name, as its own `named_parameters`; `flat` may replace the stack's."""
        row = (self.flat if flat is None else flat)[i]
        return {name: row[place].view(shape) for name, (place, shape) in self._places[self.plans[i]].items()}

    @torch.no_grad()
    def copied(self, i: int, model: Decoder) -> Decoder:
        """Return a copy of the model that was given as decoder i, with its weights as they are now."""
        copy, weights = deepcopy(model), self.weights(i)
        for name, parameter in copy.named_parameters():
            parameter.copy_(weights[name])
        return copy

    @property
    def decayed(self) -> Tensor:
        """The mask of weight decay: 1 for the numbers of a row to which it applies, 0 for others."""
        of = {name: is_decayed(name, nn.Parameter(torch.empty(shape))) for name, shape in self.shapes.items()}
        parts = [torch.full((math.prod(shape),), float(of[name])) for name, shape in self.shapes.items()]
        return torch.cat(parts).to(self.flat)

    def chunks(self, batch: int) -> list[slice]:
        """Return slices of rows to compute together, two rows or more, for `batch` prompts."""
        config = self.structure.config
        numbers = self.flat.shape[1] + config.n_heads * config.context**2 * batch
        count = max(
            1, min(len(self.flat) // 2, round(len(self.flat) * numbers / FLOATS.get(self.flat.device.type, 2**18)))
        )
        ends = [round(i * len(self.flat) / count) for i in range(count + 1)]
        return [slice(a, b) for a, b in pairwise(ends)]

    def losses(
        self,
        rows: slice,
        flat: Tensor,
        inputs: Tensor,
        targets: Tensor,
        read: slice,
        slot: slice = EVERY,
        *,
        nats: bool = False,
    ) -> Tensor:
        """Return squared errors, summed over the d scored numbers, or cross-entropy: (rows, tokens read, B).

        rows     of which decoders these are the weights `flat`
        inputs   (rows, width, T, B); targets: (rows, d, tokens read, B)
        read     the tokens whose answers count; slot: the d numbers of an answer that are scored
        nats     see `icl.stacks.training.StackTask`
        """
        fixed = [x[rows] for x in self.mixes.fixed]
        placed = [None if x is None else x[rows] for x in self.mixes.placed]
        return _losses(
            self.structure,
            self.shapes,
            read,
            slot=slot,
            nats=nats,
            flat=flat,
            fixed=fixed,
            placed=placed,
            inputs=inputs,
            targets=targets,
        )

    def compiled(self, read: slice, slot: slice = EVERY, *, nats: bool = False) -> Losses:
        """Return `losses` by torch.compile, for any number of rows; uncompiled where there is no compiler.

        It is compiled when it is first called.
        """
        if not can_compile(self.flat.device):
            return partial(self.losses, read=read, slot=slot, nats=nats)
        fast = compiled(partial(_losses, self.structure, self.shapes, read, slot, nats), dynamic=None)

        def of_rows(rows: slice, flat: Tensor, inputs: Tensor, targets: Tensor) -> Tensor:
            fixed = [x[rows] for x in self.mixes.fixed]
            placed = [None if x is None else x[rows] for x in self.mixes.placed]
            for tensor in (flat, inputs, targets, *fixed, *placed):
                if tensor is not None:
                    torch._dynamo.mark_dynamic(tensor, 0)
            out: Tensor = fast(flat, fixed, placed, inputs, targets)
            return out

        return of_rows


def can_compile(device: torch.device) -> bool:
    """Return whether torch.compile finds what it needs."""
    return device.type == "cuda" or any(map(shutil.which, ("c++", "g++", "clang++", "cl")))


def _losses(
    structure: Structure,
    shapes: dict[str, torch.Size],
    read: slice,
    slot: slice,
    nats: bool,
    flat: Tensor,
    fixed: list[Tensor],
    placed: list[Tensor | None],
    inputs: Tensor,
    targets: Tensor,
) -> Tensor:
    parts = flat.split([math.prod(shape) for shape in shapes.values()], dim=1)
    weights = {name: part.view(-1, *shape) for (name, shape), part in zip(shapes.items(), parts, strict=True)}
    mixes = numbers(fixed, placed, weights[LEARNED]) if LEARNED in weights else fixed
    scored = answers(structure, weights, mixes, inputs=inputs, read=read)[:, slot]
    if nats:
        return scored.logsumexp(1) - (scored * targets).sum(1)
    return (scored - targets).square().sum(1)


def _shapes(model: Decoder, learnt: int) -> dict[str, torch.Size]:
    """Return the shapes of the parameters that any decoder of the stack may have, all heads built."""
    every = plan(
        model.plan.shape,
        depth=model.plan.depth,
        feed_forward=model.plan.feed_forward,
        output_projection=model.plan.output_projection,
    )
    shapes = {name: p.shape for name, p in Decoder(model.config, every, device="meta").named_parameters()}
    return {**shapes, **({LEARNED: torch.Size([learnt])} if learnt else {})}


def _places(model: Decoder, shapes: dict[str, torch.Size]) -> dict[str, tuple[Tensor, torch.Size]]:
    """Return, for each of a decoder's parameters, its places in a row, and its shape."""
    starts, start = {}, 0
    for name, shape in shapes.items():
        starts[name] = start
        start += math.prod(shape)
    places_of_numbers = {number: i for i, number in enumerate(learned(model.plan))}
    columns = {
        f"{LEARNED}.{learned_name(name)}": [
            places_of_numbers[number] for number in ([f"{name}[{i}]" for i in parameter.places] or [name])
        ]
        for name, parameter in learned_parameters(model.plan).items()
    }
    places = {}
    for name, parameter in model.named_parameters():
        if name in columns:
            place = starts[LEARNED] + torch.tensor(columns[name])
        else:
            whole = torch.arange(math.prod(shapes[name])).view(shapes[name])
            module = model.get_submodule(name.rpartition(".")[0])
            cut: Callable[[Tensor], Tensor] = getattr(module, "cut", lambda all_heads: all_heads)
            place = starts[name] + cut(whole).flatten()
        places[name] = place, parameter.shape
    return places
