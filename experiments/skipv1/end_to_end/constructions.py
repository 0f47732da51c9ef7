"""Weights that theory writes down, put into the end-to-end toy, token by token: do they explain what theory says?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING

from experiments.store.desk import Desk
from experiments.store.folders import Json
from experiments.store.work import results
from theory.plans.heads import ORDINARY, TOYS, Heads
from theory.plans.setting import Setting

if TYPE_CHECKING:
    from experiments.store.folders import RunFolder
    from theory.prompts.moments import Array
    from theory.toy.positions import TwoLayers

EPS = 1 / 8  # of the MHA weights of width 2d - 1
BETA = 4  # of the MHA weights under Assumption 1
STREAMS = 8  # of prompts


@dataclass(frozen=True, eq=False)
class Construction:
    """Weights that theory writes down, of a toy of some width, and what theory says that they explain, exactly."""

    name: str
    toy: str
    width: int
    predicted: float
    weights: dict[str, Array]  # in the layout of `EndToEndToys.load`

    @property
    def heads(self) -> int:
        """In each layer."""
        return len(self.weights["readout"])


def constructions(size: Setting, widths: Sequence[int]) -> Iterator[Construction]:
    """The optima under Assumption 1 at every rank; MHA that copies and keeps no x; MHA that rotates, for even d; MHA of
    width 2d - 1 that hides an entry of x."""
    from theory.prompts import setting
    from theory.prompts.moments import PromptMoments
    from theory.skipv1.gap_weights import mha_weights, skipv1_weights
    from theory.toy import least_width, positions
    from theory.toy.population import PopulationLoss

    task = size.floats
    for toy, heads in TOYS.items():
        for rank in range(1, size.d + (toy == "skipv1")):
            best = skipv1_weights(*task, rank) if toy == "skipv1" else mha_weights(*task, rank, BETA)
            loss = PopulationLoss(PromptMoments(*task), heads)
            explained = loss.zero_loss - loss.value(best)
            second = {"key_query": _beside_zeros(best.k, size.d), "readout": best.w * size.n}
            beta = 0 if toy == "skipv1" else BETA
            weights = {**_assumption_1(size, rank, beta), **second}
            yield Construction(f"assumption 1, {toy}, rank {rank}", toy, size.d, explained, weights)
    for width in (m for m in widths if m <= 2 * size.d):
        explained = setting.signal_share(*task) * (width // 2) * (width - width // 2)
        weights = _plain(positions.copying_weights(*task, width), size.n)
        yield Construction(f"copying, no x kept, mha, m = {width}", "mha", width, explained, weights)
    if size.d % 2 == 0:
        weights = _plain(positions.rotating_weights(*task), size.n)
        explained = positions.explained_by_rotating(*task)
        yield Construction(f"rotating, mha, m = {size.d}", "mha", size.d, explained, weights)
    width = least_width.sufficient_width(size.d)
    if width in widths:
        weights = _plain(least_width.hiding_weights(*task, EPS), size.n)
        explained = float(least_width.explained_by_hiding(*task, EPS))
        yield Construction(f"hiding, mha, m = {width}", "mha", width, explained, _as_many_heads(weights))


def _assumption_1(size: Setting, rank: int, beta: float) -> dict[str, Array]:
    from icl.prompts import RegressionTask
    from icl.toys.end_to_end import copying_layer

    layer = copying_layer(RegressionTask(*size.floats), size.d, rank, beta)
    return {name: x.numpy() for name, x in layer.items()}


def _beside_zeros(k: Array, width: int) -> Array:
    import numpy as np

    return np.pad(k, ((0, 0), (0, 0), (0, width - k.shape[-1])))


def _heads(construction: Construction) -> Heads:
    return TOYS[construction.toy] if construction.heads == 2 else (ORDINARY,) * construction.heads


def _plain(weights: TwoLayers, n: int) -> dict[str, Array]:
    """`theory.toy.positions.TwoLayers` as the toy has it, whose second layer divides its sums by n."""
    return {**vars(weights), "readout": weights.readout * n}


def _as_many_heads(weights: dict[str, Array]) -> dict[str, Array]:
    """Both layers with the larger of their numbers of heads, the ones added of zeros."""
    import numpy as np

    heads = max(len(weights["value"]), len(weights["readout"]))
    layers = {name: x for name, x in weights.items() if name != "read_in"}
    return {
        "read_in": weights["read_in"],
        **{name: np.pad(x, ((0, heads - len(x)), (0, 0), (0, 0))) for name, x in layers.items()},
    }


@dataclass(frozen=True)
class _Stack:
    size: Setting
    widths: tuple[int, ...]  # of the experiment
    width: int  # of these toys
    heads: int
    batches: int


def constructions_measured(sizes: Mapping[Setting, Sequence[int]], prompts: int, run: RunFolder) -> Json:
    """By size and construction: what it explains on sampled prompts, with its standard error, and what it explains if
    its first layer looks one token too far back.  sizes: with their widths."""
    from icl.toys.stack import EVAL_BATCH

    batches = max(2, prompts // (STREAMS * EVAL_BATCH))
    stacks = {
        f"{size.key}/m{width}/h{heads}": _Stack(size, tuple(widths), width, heads, batches)
        for size, widths in sizes.items()
        for width, heads in sorted({(c.width, c.heads) for c in constructions(size, widths)})
    }
    label = "weights that theory writes down"
    measured = results("construction", stacks, _measured, run, label=label, size=attrgetter("batches"))
    found: Json = {size.key: {} for size in sizes}
    for key, shares in measured.items():
        found[stacks[key].size.key] |= shares
    return found


def _measured(stack: _Stack, desk: Desk) -> Json:
    import torch

    from icl.prompts import RegressionTask
    from icl.toys.end_to_end import EndToEndSpec, EndToEndToys
    from icl.toys.stack import EVAL_BATCH, explained_signal

    size = stack.size
    task = RegressionTask(*size.floats)
    built = [c for c in constructions(size, stack.widths) if (c.width, c.heads) == (stack.width, stack.heads)]
    specs = [
        EndToEndSpec(task, _heads(c), c.width, seed, scores="positions")
        for c in built
        for _ in ("honest", "shifted")
        for seed in range(STREAMS)
    ]
    toys = EndToEndToys(specs, dtype=torch.float64)
    for i in range(len(specs)):
        weights = {name: torch.as_tensor(x) for name, x in built[i // (2 * STREAMS)].weights.items()}
        if i // STREAMS % 2:
            context = weights["bias"][:, :-1].roll(1, dims=1)
            weights["bias"] = torch.cat([context, weights["bias"][:, -1:]], dim=1)
        toys.load(i, weights)
    values = []
    for batch in range(stack.batches):
        values.append(explained_signal(toys, EVAL_BATCH, start=batch) / size.d**2)
        desk.report(batch + 1, f"{size.key}, m = {stack.width}")
    by_toy = torch.stack([torch.stack([v[toys.locate[i]] for v in values]) for i in range(len(specs))])
    by_kind = by_toy.view(len(built), 2, -1)
    mean, stderr = by_kind.mean(-1), by_kind.std(-1) / by_kind.shape[-1] ** 0.5
    return {
        c.name: {"explained": float(mean[i, 0]), "stderr": float(stderr[i, 0]), "shifted": float(mean[i, 1])}
        for i, c in enumerate(built)
    }
