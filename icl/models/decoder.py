"""The one model: a loop over sublayers, whatever the plan.

    h = depth.read(i, state)            what the depth rule makes of the outputs so far
    out, bank = sublayer(h, bank)       a norm, then attention, which reads and fills the bank, or feed-forward
    state = depth.write(i, state, out)

State and bank go in and out explicitly; no module remembers anything.  The linear-attention toy is the same loop with
linear scores, no norms and no feed-forward (`theory.plans.presets.toy`).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from icl.models.attention import Attention
from icl.models.copying import AssumedCopy
from icl.models.depth import depth_rule
from icl.models.feed_forward import FeedForward
from icl.models.frame import Frame, norm
from icl.models.initial import initialise
from icl.models.latent import LatentAttention
from icl.models.projections import Bank, learned_name
from icl.models.rotary import rotation
from icl.models.stems import stem_of
from theory.plans.architecture import Architecture, misfits
from theory.plans.plan import Plan, learned


class Decoder(nn.Module):
    """A Transformer of the given sizes under the given plan, its weights set from `seed` and their names.

    std, scale_outputs: see `icl.models.initial.initialise`.
    Layer n of the plan is `layers[n - 1]`.  On the device `meta` the weights are left empty, for
    `icl.models.initial.initialise` after they have been sharded (by `sublayers`) or moved.  Raises ValueError, with the
    first of `misfits`, if the two do not fit.
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
            self.learned = nn.ParameterDict({learned_name(name): torch.empty(1) for name in learned(attending)})
        self.dropout = nn.Dropout(config.dropout)
        if torch.device(device).type != "meta":
            initialise(self, config, plan, seed=seed, std=std, scale_outputs=scale_outputs)

    @property
    def sublayers(self) -> list[nn.Module]:
        """The attention and feed-forward sublayers of layer 1, of layer 2, and so on."""
        return [sublayer for layer in self.layers for sublayer in layer.children()]

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
        return self.embedded(self.stem.embed(inputs), padding)

    def embedded(self, x: Tensor, padding: Tensor | None = None) -> Tensor:
        """Return what `hidden` returns, for tokens that are embedded already, (batch, T, d_model)."""
        frame, places = self._frame(x, padding)
        return self.through(x, frame, places)

    def placed(self, x: Tensor, places: Tensor, visible: Tensor | None = None) -> Tensor:
        """Return what the stem answers from, (batch, T, d_model), for tokens whose positions the caller chooses.

        Args:
            x: Embedded tokens, (batch, T, d_model).
            places: The position of every token, (batch, T).
            visible: True where a token (row) may attend to another (column), (1 or batch, 1, T, T); None: to itself
                and to all before it.
        """
        causal = visible is None
        if visible is None:
            visible = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).tril()
        frame = Frame(visible, causal, rotation(self.config, places), places, dict(self.learned.items()))
        return self.through(x, frame, places)

    def through(self, x: Tensor, frame: Frame, places: Tensor) -> Tensor:
        """Return the states from which the stem answers, (batch, T, d_model), for embedded tokens at these places."""
        if self.positions is not None:
            x = x + self.positions[places]
        state = self.depth.start(self.dropout(x))
        bank: Bank = {}
        for step, sublayer in enumerate(self.sublayers):
            out, bank = sublayer(self.depth.read(step, state), bank, frame)
            state = self.depth.write(step, state, self.dropout(out))
        found: Tensor = self.norm(self.depth.read(len(self.sublayers), state))
        return found

    def _frame(self, x: Tensor, padding: Tensor | None) -> tuple[Frame, Tensor]:
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
        return Frame(visible, causal, rotation(config, places), counted, dict(self.learned.items())), places


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


def layer_of(config: Architecture, plan: Plan, n: int) -> nn.ModuleDict:
    """Return layer n: its sublayers, in order."""
    kind = AssumedCopy if n == 1 and config.copy_rank is not None else LatentAttention if config.latent else Attention
    layer = nn.ModuleDict({"attention": kind(config, plan, n)})
    if config.has_feed_forward(plan):
        layer["feed_forward"] = FeedForward(config)
    return layer
