"""A model for other lengths than it was built for, with the same weights."""

from __future__ import annotations

from dataclasses import replace

from icl.models.decoder import Decoder
from theory.errors import BadInput, at_least


def of_context(model: Decoder, context: int) -> Decoder:
    """Return a model of this context which shares the other's weights, or that model if the context is its own.

    Up to the shorter of the two contexts both are one function: weights that belong to positions, those of learned
    positions and of biases between positions, are cut, and rotary positions, and none, go on as they began.  Raises
    BadInput for a longer context where weights belong to positions: beyond their end there are none.
    """
    own = model.config.context
    at_least("context", context, 1)
    if context == own:
        return model
    found = Decoder(replace(model.config, context=context), model.plan, device="meta")
    weights = model.state_dict()
    for name, new in found.state_dict().items():
        if new.shape != weights[name].shape:
            if context > own:
                raise BadInput(
                    f"{context} tokens are more than the context of {own}, at which {name} of the model ends"
                )
            weights[name] = weights[name][tuple(slice(size) for size in new.shape)].clone()
    found.load_state_dict(weights, assign=True)
    return found.train(model.training)
