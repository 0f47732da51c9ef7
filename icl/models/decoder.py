"""The one model: a loop over layers, whatever the plan, each of them a loop over its sublayers (`icl.models.layer`).

    h = depth.read(i, state)            what the depth rule makes of the outputs so far
    out, bank = sublayer(h, bank)       a norm, then attention, which reads and fills the bank, or feed-forward
    state = depth.write(i, state, out)

State and bank go in and out explicitly; no module remembers anything.  The linear-attention toy is the same loop with
linear scores, no norms and no feed-forward (`theory.plans.presets.toy`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Self, cast

import torch
from torch import Tensor, nn

from icl.models.attention import Attention
from icl.models.copying import AssumedCopy
from icl.models.depth import depth_rule, in_steps
from icl.models.feed_forward import FeedForward
from icl.models.frame import Bank, Frame, norm, windowed
from icl.models.initial import initialise
from icl.models.latent import LatentAttention
from icl.models.layer import Layer, ParallelLayer
from icl.models.projections import learned_name
from icl.models.reading import move
from icl.models.rotary import rotation
from icl.models.stems import stem_of
from theory.plans.architecture import Architecture, misfits
from theory.plans.plan import Plan, learned_parameters, longest_shift


class Decoder(nn.Module):
    """A Transformer of the given sizes under the given plan, its weights set from `seed` and their names.

    std, scale_outputs: see `icl.models.initial.initialise`.
    Layer n of the plan is `layers[n - 1]`.  On the device `meta` the weights are left empty, for
    `icl.models.initial.initialise` after they have been sharded (by layer, or by `weight_groups`) or moved.  Raises
    ValueError, with the first of `misfits`, if the two do not fit.
    """

    def __init__(
        self,
        config: Architecture,
        plan: Plan,
        *,
        seed: int = 0,
        std: float = 0.02,
        scale_outputs: bool = True,
        device: torch.device | str = "cpu",
    ) -> None:
        super().__init__()
        for misfit in misfits(config, plan):
            raise ValueError(misfit)
        self.config, self.plan = config, plan
        attending = config.attending(plan)
        with torch.device(device):  # `unset` leaves what is made here as it is
            self.stem = stem_of(config)
            learns = config.positions == "learned"
            self.positions = nn.Parameter(torch.empty(config.context, config.d_model)) if learns else None
            self.layers = nn.ModuleList(layer_of(config, attending, n) for n in range(1, config.n_layers + 1))
            self.depth = depth_rule(config, plan)
            self.norm = norm(config, config.d_model, config.head_norm)
            # Of shape (1,), not (), as FSDP2 wants.
            sizes = {name: p.size(config.width) for name, p in learned_parameters(attending).items()}
            self.learned = nn.ParameterDict({learned_name(name): torch.empty(size) for name, size in sizes.items()})
        self.shifts = longest_shift(attending) > 0
        self.dropout = nn.Dropout(config.dropout)
        if torch.device(device).type != "meta":
            initialise(self, config, plan, seed=seed, std=std, scale_outputs=scale_outputs)
        self._move_readers()

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self._move_readers()
        return self

    def _move_readers(self) -> None:
        """Move the readers' numbers to where the weights are; their precision stays, whatever that of the weights."""
        for attention in self.attentions:
            move(attention.segments, next(self.parameters()).device)

    @property
    def sublayers(self) -> list[nn.Module]:
        """The attention and feed-forward sublayers of layer 1, of layer 2, and so on; parallel ones are one.

        They are called with what they read, the bank and the frame.
        """
        return [sublayer for layer in self._layers for sublayer in layer.sublayers]

    @property
    def weight_groups(self) -> list[nn.Module]:
        """The modules that hold the weights of each of `sublayers`: themselves, or a layer whose parts are parallel."""
        return [group for layer in self._layers for group in layer.weight_groups]

    @property
    def _layers(self) -> list[Layer]:
        """The layers, or what somebody has wrapped each of them into, which has their attributes."""
        return cast("list[Layer]", list(self.layers))

    @property
    def attentions(self) -> list[Attention | LatentAttention]:
        """The attention sublayers, or those parts of sublayers, of layer 1, of layer 2, and so on; no assumed copy."""
        parts = (layer.get_submodule("attention") for layer in self.layers)
        return [part for part in parts if isinstance(part, Attention | LatentAttention)]

    def forward(self, inputs: Tensor, padding: Tensor | None = None) -> Tensor:
        """Return the stem's answer to its input; see `icl.models.stems` for the shapes.

        padding: (batch, T), true where a token is real; positions are then counted over real tokens only, and what
        comes out at the others has no meaning.
        """
        return self.stem.answer(self.hidden(inputs, padding))

    def hidden(self, inputs: Tensor, padding: Tensor | None = None) -> Tensor:
        """Return the states after the last norm, from which the stem answers: (batch, T, d_model).

        Arguments are those of `forward`.
        """
        x = self.stem.embed(inputs)
        frame, places = self.frame(x, padding)
        return self.through(x, replace(frame, tokens=inputs), places)

    def embedded(self, x: Tensor, padding: Tensor | None = None) -> Tensor:
        """Return what `hidden` returns, for tokens that are embedded already, (batch, T, d_model).

        Raises BadInput under a plan with tables, which are indexed by tokens.
        """
        frame, places = self.frame(x, padding)
        return self.through(x, frame, places)

    def through(self, x: Tensor, frame: Frame, places: Tensor) -> Tensor:
        """Return the states from which the stem answers, (batch, T, d_model), for embedded tokens at these places."""
        if self.positions is not None:
            x = x + self.positions[places]
        x = self.dropout(x)
        depth = self.depth if frame.past is None else in_steps(self.depth, x, frame.past.steps)
        state = depth.start(x)
        bank: Bank = {}
        for layer in self.layers:
            state, bank = layer(state, bank, frame, depth=depth, dropout=self.dropout)
        found: Tensor = self.norm(depth.read(self.config.sublayers(self.plan), state))
        return found

    def frame(self, x: Tensor, padding: Tensor | None = None) -> tuple[Frame, Tensor]:
        """Return the frame of embedded tokens, (batch, T, d_model), and their positions; `padding` as in `forward`."""
        config, length = self.config, x.shape[1]
        if length > config.context:
            raise ValueError(f"{length} tokens are more than the context of {config.context}")
        places = torch.arange(length, device=x.device)
        if padding is not None:
            places = (padding.cumsum(-1) - 1).clamp(min=0)
        window = config.window if config.window < length else 0
        visible = _visible(config.mask, places, padding, window)
        causal = config.mask == "causal" and padding is None and not window
        counted = None if padding is None else places
        frame = Frame(
            visible,
            causal,
            rotation(config, places),
            counted,
            dict(self.learned.items()),
            before=_before_padding(padding) if self.shifts and padding is not None else None,
            by_layer=windowed(config, visible, causal, places=places, held=places),
        )
        return frame, places

    def placed_frame(
        self, x: Tensor, places: Tensor, visible: Tensor | None = None, *, tokens: Tensor | None = None
    ) -> Frame:
        """Return the frame of tokens whose positions the caller chooses.

        The token before another one is that in the column before, if its position is by one less.

        Args:
            x: Embedded tokens, (batch, T, d_model).
            places: The position of every token, (batch, T).
            visible: True where a token (row) may attend to another (column), (1 or batch, 1, T, T); None: to itself
                and to all before it.
            tokens: The tokens' indices, (batch, T), which a plan with tables needs.
        """
        causal = visible is None
        row = torch.arange(x.shape[1], device=x.device)
        if visible is None:
            visible = row[:, None] >= row
        return Frame(
            visible,
            causal,
            rotation(self.config, places),
            places,
            dict(self.learned.items()),
            tokens=tokens,
            before=_before_places(places, len(x)) if self.shifts else None,
            by_layer=windowed(self.config, visible, causal, places=row, held=row),
        )


def _before_padding(real: Tensor) -> Tensor:
    """Return `Frame.before` where some tokens are not real, (batch, T): the real token before each."""
    column = torch.arange(real.shape[1], device=real.device)
    newest = torch.where(real, column, -1).cummax(dim=1).values
    return nn.functional.pad(newest[:, :-1], (1, 0), value=-1)


def _before_places(places: Tensor, batch: int) -> Tensor:
    """Return `Frame.before` for tokens at any places, (batch or 1, T): the column before, if it is one place before."""
    column = torch.arange(places.shape[1], device=places.device)
    follows = nn.functional.pad(places[:, 1:] == places[:, :-1] + 1, (1, 0), value=False)
    return torch.where(follows, column - 1, -1).expand(batch, -1)


def _visible(mask: str, places: Tensor, padding: Tensor | None, window: int = 0) -> Tensor | None:
    """Return `Frame.visible` for one of `Architecture.mask`, and its window.

    places: (T,), or (batch, T) where there is padding.
    """
    row = torch.arange(places.shape[-1], device=places.device)
    match mask:
        case "causal":
            seen = row[:, None] >= row
            if window:
                seen = seen & (places[..., :, None] - places[..., None, :] < window)
        case "context":
            seen = (places < places.amax(-1, keepdim=True))[..., None, :].expand(*places.shape, -1)
        case _:
            if padding is None:
                return None
            seen = torch.ones_like(row, dtype=torch.bool).expand(len(row), -1)
    if padding is None:
        return seen
    # A padding token sees itself, so that no softmax is over nothing.
    alone = (row[:, None] == row) & ~padding[:, :, None]
    return (seen & padding[:, None, :] | alone)[:, None]


def layer_of(config: Architecture, plan: Plan, n: int) -> Layer:
    """Return layer n: its sublayers, in order."""
    kind = AssumedCopy if n == 1 and config.copy_rank is not None else LatentAttention if config.latent else Attention
    parts: dict[str, nn.Module] = {"attention": kind(config, plan, n)}
    if config.has_feed_forward(plan):
        parts["feed_forward"] = FeedForward(config)
    whole = ParallelLayer if config.parallel and len(parts) > 1 else Layer
    return whole(parts, (n - 1) * (config.sublayers(plan) // config.n_layers))
