"""Cross-layer attention beside what is put in its place, on the queries, keys and values of a model as it is.

For each layer n from 2 on and an earlier layer m, the one before and layer 1, the model's own queries attend over both
layers' keys and values (ResFormer, section 3.2, Eqn. (2)), rotated to their positions as the model has them.  Beside it
stand Eqn. (3), Eqn. (6) and two that nobody proposes; how far the scores move when K_m is put in the place of K_n; and
the total variation that this makes of the weights, under both bounds of `theory.resformer.blocks`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice, pairwise
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from experiments.resformer.mapping.points import CURRENT, EVEN, IDENTITY, OTHER_TEXT, PRINTED, SOURCES, pair
from experiments.store.folders import Json
from icl.models.projections import merged
from icl.probes.recording import Attended, observed
from theory.resformer.blocks import block_form_share, mean_bound

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

    from icl.models.decoder import Decoder
    from icl.training.objectives import Task

    Array = NDArray[float64]

NAME = f"{__name__}:probe"
BATCHES = 2  # of held-out text: one beside the other they show what the choice of text does
EDGES = 2.0 ** np.arange(-6, 7)  # of the largest move, in nats, where rows are gathered
FEWEST = 20  # rows, of which quantiles are told


@dataclass(frozen=True, eq=False)
class Compared:
    """One layer and an earlier one on one batch.

    cosine      mean over tokens, all heads together, of each mapping's output and cross-layer attention's
    of_itself   of Eqn. (3) and Eqn. (4); ungated: the relative error of the gated form, and of that with g = 1/2
    rows        for each query of each head: eps, the largest move; variation; its two bounds; the gate g
    moves       quantiles of all moves' sizes
    """

    cosine: dict[str, float]
    of_itself: float
    gated: float
    ungated: float
    rows: dict[str, Array]
    moves: list[float]


def probe(model: Decoder, task: Task, device: str) -> Json:
    """On the first batches of held-out text, in float64 from the projections on; see `Compared`."""
    model.eval()
    with torch.compiler.set_stance("force_eager"):  # compiled code may not see the hooks
        batches = [
            _compared(model, batch.to(torch.device(device)).inputs) for batch in islice(task.held_out(), BATCHES)
        ]
    model.train()
    pairs = {key: [batch[key] for batch in batches] for key in batches[0]}
    return {
        "pairs": {key: _told(both) for key, both in pairs.items()},
        "by_move": {
            source: _by_move([one for key, both in pairs.items() if key.startswith(source) for one in both])
            for source in SOURCES
        },
    }


def _compared(model: Decoder, inputs: Tensor) -> dict[str, Compared]:
    """Of every layer but the first, with both sources."""
    earlier: list[tuple[Tensor, Tensor]] = []  # keys and values
    found: dict[str, Compared] = {}

    def see(at: Attended) -> None:
        at = replace(at, query=at.query.double(), keys=(at.keys[0].double(),), values=(at.values[0].double(),))
        for source, other in zip(SOURCES, (earlier[-1], earlier[0]) if earlier else (), strict=False):
            mean = torch.stack([values for _, values in earlier]).mean(0)
            found[pair(at.layer, source)] = compare(at, *other, mean)
        earlier.append((at.keys[0], at.values[0]))

    observed(model, inputs, attention=see)
    return found


def compare(at: Attended, keys: Tensor, values: Tensor, earlier: Tensor) -> Compared:
    """A layer's attention and another one's keys and values, (batch, G, T, width); earlier: the mean of all earlier
    layers' values."""
    own_keys, own_values = at.keys[0], at.values[0]
    group = at.query.shape[1] // own_keys.shape[1]
    v_n, v_m, v_mean = (x.repeat_interleave(group, dim=1) for x in (own_values, values, earlier))

    def over(*segments: Tensor) -> Tensor:
        return replace(at, keys=segments).weights()

    own, theirs, cross, twice = over(own_keys), over(keys), over(own_keys, keys), over(own_keys, own_keys)
    both = torch.cat([v_n, v_m], dim=2)
    true, literal, block = cross @ both, twice @ both, own @ (v_n + v_m) / 2
    gate = cross[..., : at.tokens].sum(-1, keepdim=True)
    past = torch.ones(at.tokens, at.tokens, dtype=own.dtype, device=own.device).tril()
    elsewhere = over(own_keys, keys.roll(1, dims=0)) @ both
    outputs = {
        CURRENT: block,
        IDENTITY: own @ v_n + v_m,
        EVEN: own @ v_n + past / past.sum(-1, keepdim=True) @ v_m,
        PRINTED: own @ v_n + v_mean,
    }
    cosine = {name: _cosine(out, true) for name, out in outputs.items()} | {OTHER_TEXT: _cosine(block, elsewhere)}
    gated, ungated = (g * (own @ v_n) + (1 - g) * (theirs @ v_m) for g in (gate, torch.full_like(gate, 0.5)))
    difference = (keys - own_keys).repeat_interleave(group, dim=1)
    moves = at.query @ difference.mT * at.query.shape[-1] ** -0.5
    seen = own > 0
    rows = {
        "eps": moves.abs().where(seen, 0).amax(-1),
        "variation": (cross - twice).abs().sum(-1) / 2,
        "gate": gate[..., 0],
    }
    told = {name: row.flatten().cpu().numpy() for name, row in rows.items()}
    moved = torch.cat([torch.zeros_like(moves), moves.where(seen, 0)], dim=-1)
    told["mean"] = mean_bound(*(x.flatten(0, 2).cpu().numpy() for x in (twice, moved)))
    told["largest"] = np.array([block_form_share(float(eps)) for eps in told["eps"]])
    sizes = np.quantile(moves[seen].abs().cpu().numpy(), (0.5, 0.95, 1.0))
    return Compared(
        cosine, _cosine(literal, block), _off(gated, true), _off(ungated, true), told, [float(x) for x in sizes]
    )


def _cosine(left: Tensor, right: Tensor) -> float:
    return float(torch.cosine_similarity(merged(left), merged(right), dim=-1).mean())


def _off(found: Tensor, true: Tensor) -> float:
    return float((found - true).norm() / true.norm())


def _told(both: list[Compared]) -> Json:
    """Of one layer and source, over the batches."""
    rows = {name: np.concatenate([one.rows[name] for one in both]) for name in both[0].rows}
    return {
        "cosine": {name: float(np.mean([one.cosine[name] for one in both])) for name in both[0].cosine},
        "halves": [one.cosine[CURRENT] for one in both],
        "of_itself": min(one.of_itself for one in both),
        "gated": max(one.gated for one in both),
        "ungated": min(one.ungated for one in both),
        "moves": [float(x) for x in np.mean([one.moves for one in both], axis=0)],
        "eps": [float(x) for x in np.quantile(rows["eps"], (0.5, 0.95, 1.0))],
        "gate": [float(x) for x in np.quantile(rows["gate"], (0.05, 0.5, 0.95))],
        "means": {name: float(rows[name].mean()) for name in ("variation", "mean", "largest")},
        "worst": {name: float(_over(rows["variation"], rows[name]).max()) for name in ("mean", "largest")},
    }


def _over(variation: Array, bound: Array) -> Array:
    """The share of a bound that is used; none of one that is zero, as of equal keys."""
    return np.divide(variation, bound, out=np.zeros_like(variation), where=bound > 0)


def _by_move(some: list[Compared]) -> list[Json]:
    """Rows by their largest move, between EDGES: quantiles of the variation, and the mean of Pinsker's bound."""
    rows = {name: np.concatenate([one.rows[name] for one in some]) for name in some[0].rows}
    told = []
    for least, most in pairwise(EDGES):
        inside = {name: row[(rows["eps"] >= least) & (rows["eps"] < most)] for name, row in rows.items()}
        count = len(inside["eps"])
        if count >= FEWEST:
            low, middle, high = (float(x) for x in np.quantile(inside["variation"], (0.025, 0.5, 0.975)))
            eps, mean = float(np.median(inside["eps"])), float(inside["mean"].mean())
            told.append({"eps": eps, "rows": count, "low": low, "middle": middle, "high": high, "mean": mean})
    return told
