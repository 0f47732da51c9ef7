"""Measurements of a trained decoder by layer, on data it has not seen: families, each as JSON.

Every family takes a model, its task and batches of the task's held-out data, and gives lists by layer.  Layers count
from 1.  States are the inputs of layer 1, 2, ... and, last, of the last norm: one more than there are layers.  Means
are over sequences, with the standard errors of these means.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from experiments.store.folders import Json, UserError
from experiments.training.by_layer import Average, Measured, averaged
from theory.plans.accounting import flops
from theory.plans.architecture import Architecture, Tokens
from theory.plans.plan import Plan

if TYPE_CHECKING:
    from torch import Tensor

    from icl.models.decoder import Decoder
    from icl.probes.recording import Attended
    from icl.training.objectives import Batch, HeldOut


def entropy(model: Decoder, _task: HeldOut, batches: Sequence[Batch]) -> Json:
    """Return the entropy of token importance, of all heads together and by head; `uniform`: that of uniform attention.

    ResFormer, Eqn. (11) mended, Figs. 1 and 20.
    """
    import numpy as np

    from icl.probes import attention
    from theory.resformer import measures

    def of(at: Attended, _: Batch) -> Measured:
        by_head = attention.importance(at)
        return {"entropy": attention.entropy(by_head.mean(1)), "by_head": attention.entropy(by_head)}

    uniform = _uniform(model, batches)
    return {**averaged(model, batches, attention=of), "uniform": uniform and measures.entropy(np.array(uniform))}


def importance(model: Decoder, _task: HeldOut, batches: Sequence[Batch]) -> Json:
    """Return the importance of the first token, of the most important one, and by position; all heads together.

    uniform: by position, if every query attends uniformly to its past.  ResFormer, Figs. 10, 11, 19.
    """
    from icl.probes import attention

    def of(at: Attended, _: Batch) -> Measured:
        each = attention.importance(at).mean(1)
        return {"first": each[:, 0], "most": each.amax(-1), "by_position": each}

    return {**averaged(model, batches, attention=of), "uniform": _uniform(model, batches)}


def _uniform(model: Decoder, batches: Sequence[Batch]) -> list[float] | None:
    from theory.resformer.measures import uniform_causal_importance

    tokens = batches[0].inputs.shape[1]
    return uniform_causal_importance(tokens).tolist() if model.config.mask == "causal" else None


def spectrum(model: Decoder, _task: HeldOut, batches: Sequence[Batch]) -> Json:
    """Return eigenvalues of attended values, the largest of them, and its share.  ResFormer, Eqn. (12).

    sum, square_sum     of the eigenvalues
    participation       (sum)^2 / square_sum: how many directions the values fill, 1 to their width, in whatever units
    own                 the largest of what the layer itself projects, and `own_participation`.  Heads that attend over
                        the mean of two layers' values attend over smaller ones, whatever the layers have learned
    """
    from icl.probes import attention

    def of(at: Attended, _: Batch) -> Measured:
        each = attention.value_spectrum(at.values)
        total, squares = each.sum(-1), each.square().sum(-1)
        measured = {"largest": each[:, 0], "share": each[:, 0] / total, "eigenvalues": each}
        measured |= {"sum": total, "square_sum": squares, "participation": total.square() / squares}
        if at.own_values is not None:
            own = attention.value_spectrum((at.own_values,))
            measured |= {"own": own[:, 0], "own_participation": own.sum(-1).square() / own.square().sum(-1)}
        return measured

    return averaged(model, batches, attention=of)


def similarity(model: Decoder, _task: HeldOut, batches: Sequence[Batch]) -> Json:
    """Return the mean cosine of two tokens' states.  ResFormer, Eqn. (13), Fig. 18."""
    from icl.probes import states

    return averaged(model, batches, state=lambda state, _: {"similarity": states.token_similarity(state)})


def norms(model: Decoder, _task: HeldOut, batches: Sequence[Batch]) -> Json:
    """Return norms of attended values and of states: the first token's over the others' mean, and that mean.

    A ratio below 1 is a value-state drain, one above 1 a residual-state peak.  ResFormer, Figs. 10 and 19.  Norms with
    `own_` are of the values that a layer itself projects.
    """
    from icl.probes import attention, states

    def of(what: str, each: Tensor) -> Measured:
        others = each[:, 1:].mean(1)
        return {f"{what}_first": each[:, 0] / others, f"{what}_others": others, f"{what}_by_position": each}

    def of_values(at: Attended, _: Batch) -> Measured:
        measured = of("value", attention.value_norms(at.values))
        if at.own_values is not None:
            measured |= of("own", attention.value_norms((at.own_values,)))
        return measured

    return averaged(
        model,
        batches,
        attention=of_values,
        state=lambda state, _: of("state", states.state_norms(state)),
    )


def heads(model: Decoder, _task: HeldOut, batches: Sequence[Batch]) -> Json:
    """Return cosines of a layer's heads' attention matrices: of every two, and their mean.  None for one head."""
    from icl.probes import attention

    def of(at: Attended, _: Batch) -> Measured:
        each = attention.head_similarity(at)
        count = each.shape[-1]
        if count < 2:
            return {}
        return {"cosine": (each.sum((1, 2)) - count) / (count * (count - 1)), "matrix": each}

    return averaged(model, batches, attention=of)


def gradients(model: Decoder, task: HeldOut, batches: Sequence[Batch]) -> Json:
    """Return the norm of the loss's gradient in all parameters of a layer; the mean is over batches, not sequences."""
    import torch

    from icl.probes.magnitude import magnitudes

    average = Average()
    for batch in batches:
        loss = functools.partial(_mean_loss, task, batch)
        norms = magnitudes(model, batch.inputs, loss).layer_gradient
        average.add(torch.tensor([norms], dtype=torch.float64))
    layers = list(range(1, model.config.n_layers + 1))
    return {"layers": layers, "gradient": average.to_json(), "batches": average.count}


def _mean_loss(task: HeldOut, batch: Batch, answer: Tensor) -> Tensor:
    return task.losses(answer, batch.targets).mean()


def lens(model: Decoder, task: HeldOut, batches: Sequence[Batch]) -> Json:
    """Return the loss if the model ended at a state (logit lens), and how well a linear map finds the token before.

    previous: held-out R^2 of a linear probe from the state of a token to what was embedded for the one before it,
    fitted on half of the batches and scored on the others.  None for a single batch.
    """
    from icl.probes.states import lens

    def of(state: Tensor, batch: Batch) -> Measured:
        return {"loss": task.losses(lens(model, state), batch.targets).mean(1)}

    return {**averaged(model, batches, state=of), "previous": _previous(model, batches)}


def _previous(model: Decoder, batches: Sequence[Batch]) -> list[float] | None:
    import torch

    from icl.probes.recording import observed
    from icl.probes.states import LinearProbe

    if len(batches) < 2 or batches[0].inputs.shape[1] < 2:
        return None
    probes = [LinearProbe() for _ in range(model.config.n_layers + 1)]
    left, around = ([0.0] * len(probes) for _ in range(2))

    def fit(place: int, state: Tensor, before: Tensor) -> None:
        probes[place].fit(state, before)

    def ask(place: int, state: Tensor, before: Tensor) -> None:
        for sums, more in zip((left, around), probes[place].residual(state, before), strict=True):
            sums[place] += more

    middle = (len(batches) + 1) // 2
    for step, some in ((fit, batches[:middle]), (ask, batches[middle:])):
        for batch in some:
            with torch.no_grad():
                before = model.stem.embed(batch.inputs)[:, :-1]
            observed(model, batch.inputs, state=_counting(step, before))
    return [1 - rest / total if total else 0.0 for rest, total in zip(left, around, strict=True)]


def _counting(step: Callable[[int, Tensor, Tensor], None], before: Tensor) -> Callable[[Tensor], None]:
    """Return a function that takes one state after another and numbers them; a first token has none before it."""
    places = itertools.count()
    return lambda state: step(next(places), state[:, 1:], before)


def induction(model: Decoder, _task: HeldOut, batches: Sequence[Batch]) -> Json:
    """Return shares of attention, by head, to the token before, and to what followed a token's first occurrence.

    On random tokens, all different and then the same again, as long and as many as the sample.  `best_` of the head
    with the largest mean; `uniform_` of uniform attention to the past.
    """

    from icl.probes import attention
    from icl.training.objectives import Batch

    stem, tokens = model.config.stem, batches[0].inputs.shape[1]
    assert isinstance(stem, Tokens)
    length = min(tokens // 2, stem.vocab)
    if not length:
        raise UserError("induction needs sequences of two tokens or more")
    drawn = []
    for seed, batch in enumerate(batches):
        inputs = attention.repeated(stem.vocab, length, len(batch.inputs), seed=seed).to(batch.inputs.device)
        drawn.append(Batch(inputs, inputs))
    before = attention.previous_token(2 * length).to(batches[0].inputs.device)

    def of(at: Attended, batch: Batch) -> Measured:
        targets = attention.induction(batch.inputs)
        return {"previous": attention.attention_to(at, before), "induction": attention.attention_to(at, targets)}

    scores = averaged(model, drawn, attention=of)
    for name, first in (("previous", 2), ("induction", length + 1)):
        best = [max(range(len(heads)), key=heads.__getitem__) for heads in scores[name]["mean"]]  # of each layer
        scores[f"best_{name}"] = {
            part: [heads[h] for heads, h in zip(scores[name][part], best, strict=True)] for part in ("mean", "stderr")
        }
        seen = range(first, 2 * length + 1)  # tokens that a query with a target sees
        uniform = sum(1 / count for count in seen) / len(seen) if model.config.mask == "causal" else None
        scores[f"uniform_{name}"] = uniform
    return scores


def _without_tokens(config: Architecture, _: Plan) -> str:
    return "" if isinstance(config.stem, Tokens) else "needs a model that reads tokens"


def _without_shares(config: Architecture, _: Plan) -> str:
    return "needs softmax attention" if config.score != "softmax" else ""


def _without_pairs(config: Architecture, plan: Plan) -> str:
    most = max(len(plan.live(n)) for n in range(1, config.n_layers + 1)) * config.group
    return "compares heads, of which there is one" if most < 2 else ""


def _of_states(config: Architecture, _tokens: int) -> float:
    """Return the operations per token of a head and a linear probe of every state."""
    head = 2 * config.stem.vocab * config.d_model if isinstance(config.stem, Tokens) else 0
    return (config.n_layers + 1) * (head + DOUBLE * 4 * config.d_model**2)


def _of_pairs_of_heads(config: Architecture, tokens: int) -> float:
    """Return the operations per token of products of every two heads' attention."""
    return _of_weights(config, tokens) + DOUBLE * 2.0 * config.n_layers * config.n_heads**2 * tokens


def _of_weights(config: Architecture, tokens: int) -> float:
    """Return the operations per token of all weights of attention, which no fused kernel makes."""
    return MADE * config.n_layers * config.n_heads * tokens


DOUBLE = 2.5  # times that an operation takes in float64
MADE = 400.0  # operations that take as long as a weight of attention that is written to memory, read and summed


@dataclass(frozen=True)
class Family:
    """A family of measurements.

    Attributes:
        measure: The measurement of a model, its task and batches.
        obstacles: For an architecture under a plan, why it cannot be measured; empty if it can.
        passes: Forward passes that it takes, a backward pass counting two.
        more: Further operations per token, of an architecture and so many tokens a sequence.
    """

    measure: Callable[[Decoder, HeldOut, Sequence[Batch]], Json]
    obstacles: tuple[Callable[[Architecture, Plan], str], ...] = ()
    passes: float = 1.0
    more: Callable[[Architecture, int], float] = lambda _config, _tokens: 0.0

    def obstacle(self, config: Architecture, plan: Plan) -> str:
        return next((why for obstacle in self.obstacles if (why := obstacle(config, plan))), "")

    def operations(self, config: Architecture, plan: Plan, tokens: int) -> float:
        """Return about how many operations it takes per token, in sequences of so many tokens."""
        return self.passes * flops(config, plan, (tokens + 1) // 2) + self.more(config, tokens)


FAMILIES = {
    "entropy": Family(entropy, (_without_shares,), more=_of_weights),
    "importance": Family(importance, (_without_shares,), more=_of_weights),
    "spectrum": Family(spectrum),
    "similarity": Family(similarity),
    "norms": Family(norms),
    "heads": Family(heads, (_without_pairs,), more=_of_pairs_of_heads),
    "gradients": Family(gradients, passes=3),
    "lens": Family(lens, passes=2, more=_of_states),
    "induction": Family(induction, (_without_tokens, _without_shares), more=_of_weights),
}
