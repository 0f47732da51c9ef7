"""Recording of a decoder's forward pass, layer by layer, under any plan; only the results are kept.

All plans attend through `icl.models.attention.Core`, whose arguments are what a plan has made of queries, keys and
values: mixes of several layers, several lists of keys and values, grouped heads, latents, gates.  So attention's
weights are computed again from these, by the function that the models use, and no plan is a special case.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from icl.brief import shapes
from icl.models.attention import Core, weights
from icl.models.decoder import Decoder
from icl.models.frame import Frame, for_queries
from icl.models.projections import HeadLinear, by_head
from theory.errors import BadInput
from theory.plans.plan import Dynamic

BLOCK = 2**22  # weights that are held at a time, unless those of one query are more

A = TypeVar("A")
S = TypeVar("S")


@dataclass(frozen=True, eq=False)
class Attended:
    """The input and output of one layer's attention.  H heads are built, each key/value head for H / G.

    layer           from 1
    query           (batch, H, T, width), rotated to their positions as keys are
    keys, values    a list or more, (batch, G, T, width) each: heads attend over their concatenation along time; where
                    heads go in pairs, values are a pair's, (batch, G / 2, T, 2 width)
    gates           of dynamic values, as `Core` takes them; `dynamic` says how they act
    own_values      (batch, heads built, T, width): what this layer's own projection makes, whoever reads it; or None
    visible         (T, T) or (batch, 1, T, T), true where a token (row) may attend to another (column), or None
    bias            (H, T, T) or (batch, H, T, T), added to the scores of every list, or None
    linear          weights are plain products of queries and keys, and no softmax's
    out             (batch, H, T, value width): the heads' outputs, before what a plan adds beside them
    """

    layer: int
    query: Tensor
    keys: tuple[Tensor, ...]
    values: tuple[Tensor, ...]
    gates: tuple[Tensor, ...]
    dynamic: Dynamic
    own_values: Tensor | None
    visible: Tensor | None
    bias: Tensor | None
    linear: bool
    out: Tensor

    __repr__ = shapes

    @property
    def tokens(self) -> int:
        return self.query.shape[2]

    def weights(self, queries: slice = slice(None)) -> Tensor:
        """Return the weights of these queries over all lists: (batch, H, queries, lists * T), in float32 or better."""
        exact = torch.promote_types(self.query.dtype, torch.float32)
        key = torch.cat(self.keys, dim=2).to(exact)
        key = for_queries(key, self.query.shape[1])
        seen = None if self.visible is None else self.visible[..., queries, :]
        seen = None if seen is None else torch.cat([seen] * len(self.keys), dim=-1)
        bias = None if self.bias is None else torch.cat([self.bias[..., queries, :].to(exact)] * len(self.keys), dim=-1)
        return weights(self.query[:, :, queries].to(exact), key, seen, bias, linear=self.linear)

    def blocks(self) -> Iterator[tuple[slice, Tensor]]:
        """Yield all weights, some queries at a time: the slice of queries, and their weights."""
        batch, heads, tokens, _ = self.query.shape
        step = max(1, BLOCK // (batch * heads * tokens * len(self.keys)))
        for start in range(0, tokens, step):
            queries = slice(start, min(start + step, tokens))
            yield queries, self.weights(queries)


@dataclass(frozen=True)
class Observed(Generic[A, S]):
    """The results of `observed`.

    attention: by layer, of those that attend; states: for the inputs of layer 1, 2, ..., and of the last norm.
    """

    attention: dict[int, A]
    states: list[S]

    __repr__ = shapes


def observed(
    model: Decoder,
    inputs: Tensor,
    *,
    attention: Callable[[Attended], A] | None = None,
    state: Callable[[Tensor], S] | None = None,
) -> Observed[A, S]:
    """Apply two functions to each layer in one forward pass without gradients, in the model's present mode.

    inputs      as the model takes them
    attention   applied to every layer's attention
    state       applied to the input of every layer and of the last norm, each (batch, T, d_model)

    Nothing but their results is kept.  A layer that stands for attention without any, the assumed copy, is left out.
    """
    layers: dict[int, A] = {}
    states: list[S] = []
    sublayers = model.sublayers
    firsts = sublayers[:: len(sublayers) // len(model.layers)]
    starts = {id(module) for module in (*firsts, model.norm)}

    def see_read(module: nn.Module, read: Tensor) -> None:
        if state is not None and id(module) in starts:
            states.append(state(read))

    def see_attended(at: Attended) -> None:
        if attention is not None:
            layers[at.layer] = attention(at)

    with torch.no_grad(), reading(model, see_read), attending(model, see_attended):
        model(inputs)
    return Observed(layers, states)


@contextmanager
def reading(model: Decoder, see: Callable[[nn.Module, Tensor], None]) -> Iterator[None]:
    """Call `see`, inside, with the input of every sublayer and of the last norm, (batch, T, d_model), as it comes.

    Of an attention with inputs of their own for queries, keys and values, it is the queries'.
    """

    def hook(module: nn.Module, args: tuple[Any, ...]) -> None:
        see(module, args[0] if isinstance(args[0], Tensor) else args[0][0])

    with removed_after([module.register_forward_pre_hook(hook) for module in (*model.sublayers, model.norm)]):
        yield


def check_one_input(model: Decoder) -> None:
    """Raise BadInput where an attention has inputs of their own for queries, keys and values."""
    if model.plan.depth.reads_apart:
        raise BadInput("queries, keys and values have inputs of their own here, and this measures sublayers with one")


@contextmanager
def writing(model: Decoder, see: Callable[[Tensor], Tensor | None]) -> Iterator[None]:
    """Call `see`, inside, with every output, (batch, T, d_model), the embedding first; its result replaces the output.

    Outputs are caught behind `model.dropout`, through which they all go.
    """
    with removed_after([model.dropout.register_forward_hook(lambda _module, _args, out: see(out))]):
        yield


def in_graph(outputs: list[Tensor]) -> Callable[[Tensor], Tensor]:
    """Return a function for `writing` that collects outputs, all of which require gradients.

    An embedding that nothing trains is no part of the graph, and neither is what is read of it alone.
    """

    def see(out: Tensor) -> Tensor:
        outputs.append(out if out.requires_grad else out.detach().requires_grad_())
        return outputs[-1]

    return see


@contextmanager
def attending(model: Decoder, see: Callable[[Attended], None]) -> Iterator[None]:
    """Call `see`, inside, with every layer's attention as soon as it has attended."""
    hooks: list[RemovableHandle] = []
    for n, layer in enumerate(model.layers, 1):
        parts, watch = dict(layer.get_submodule("attention").named_modules()), _Watch(n, see)
        if "core" in parts:
            hooks.append(parts["core"].register_forward_hook(watch.attended))
            if "projections.value" in parts:
                hooks.append(parts["projections.value"].register_forward_hook(watch.projected))
    with removed_after(hooks):
        yield


@contextmanager
def removed_after(hooks: Sequence[RemovableHandle]) -> Iterator[None]:
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


class _Watch:
    """Hooks on one layer's attention."""

    def __init__(self, layer: int, see: Callable[[Attended], None]) -> None:
        self.layer, self.see = layer, see
        self.own: Tensor | None = None

    def projected(self, module: nn.Module, _args: tuple[Any, ...], out: Tensor) -> None:
        assert isinstance(module, HeadLinear)
        self.own = by_head(out, module.width)

    def attended(self, core: nn.Module, args: tuple[Any, ...], out: Tensor) -> None:
        query, keys, values, frame, gates, bias = (*args, (), None)[:6]
        assert isinstance(core, Core)
        assert isinstance(frame, Frame)
        own, self.own = self.own, None
        how = core.dynamic, own, frame.visible, bias, core.linear
        self.see(Attended(self.layer, query, keys, values, gates, *how, out))
