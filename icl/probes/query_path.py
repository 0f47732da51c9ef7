"""The path from a query to its answer that no context enters: what a prediction (P + C) x_{n+1} has for C."""

from __future__ import annotations

import torch
from torch import Tensor

from icl.models.decoder import Decoder
from theory.errors import BadInput
from theory.plans.architecture import Vectors


def query_path(model: Decoder, pairs: int) -> Tensor:
    """C: the derivative of the answer by x_{n+1} where it and the n = `pairs` pairs before it are zero: (d, d).

    With linear scores and no norms the answer is a polynomial in the tokens, positions being numbers in it, and C
    x_{n+1} all that it has of first degree in x_{n+1} and of degree zero in the context.  So C = 0 says that the
    prediction lacks the term without which SkipV1Former's theorem fails around W0 (`theory.skipv1.bias`), and C != 0
    that it has one, at these weights.  With softmax or norms C is the slope there and says no more.  Raises BadInput
    for a model that does not read vectors.
    """
    stem, training = model.config.stem, model.training
    if not isinstance(stem, Vectors):
        raise BadInput(f"a query is a vector, and the model reads {stem}")
    weight = next(model.parameters())
    context = torch.zeros(1, 2 * pairs, stem.width, dtype=weight.dtype, device=weight.device)

    def answer(query: Tensor) -> Tensor:
        out: Tensor = model(torch.cat([context, query[None, None]], dim=1))[0, -1]
        return out

    model.eval()  # without dropout
    slope: Tensor = torch.autograd.functional.jacobian(answer, context.new_zeros(stem.width))
    model.train(training)
    return slope
