"""Measure toys: decoders at the start and of the deep toy, whose weights theory writes down, and trained ones.

Mean squares over prompts of what grows like a power of their inputs are made by prompts that are in no sample: an
interval from prompts as they come is narrow, and wrong.  So equally many prompts are drawn at each of several widths w,
their inputs w times as wide, and weighted by
    p(x) / mean_w p_w(x),    p_w the density of w times standard normal numbers, p = p_1,
a mean under which is one under p, whatever the widths (the balance heuristic of Veach and Guibas, 1995).
With 1 among them no weight exceeds their number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from fractions import Fraction
from math import isfinite, log
from typing import ClassVar

import torch
from torch import Tensor, nn

from experiments.attnres.networks import descending, reads
from experiments.attnres.toy.toys import BASELINE, NETWORKS, RESIDUAL, TOKENS, TWIN, WIDTHS, Config, answer, cell, start
from experiments.store.desk import Desk
from experiments.store.folders import Json, RunFolder
from experiments.store.work import longest_first, results
from experiments.training.arms import Arm, PromptSource
from experiments.training.campaign import of_runs, rounds
from experiments.training.stacks import train_stacked
from icl.models.decoder import Decoder
from icl.probes.recording import removed_after
from icl.prompts import HELD_OUT_STREAM, TRAIN_STREAM, Generator, Prompts, RegressionTask
from icl.training.objectives import HELD_OUT_SEED, Batch, Task
from theory.attnres import deep
from theory.plans.names import resolve
from theory.plans.plan import DepthAverage, Shape
from theory.plans.setting import Setting
from theory.prompts import spectral

OF_INPUTS, OF_WEIGHTS, OF_ANSWERS = 201, 202, 203  # streams of one seed
PROBE = f"{__name__}:largest"


def side_by_side(prompts: Prompts) -> Tensor:
    """Return tokens (x_t ; y_t) and the query (x ; 0): (batch, n + 1, 2d), or with more dimensions in front."""
    y = torch.cat([prompts.y[..., :-1], torch.zeros_like(prompts.y[..., -1:])], dim=-1)
    return torch.cat([prompts.x, y], dim=-2).mT.contiguous()


def at_widths(prompts: Prompts, each: Tensor | float) -> Prompts:
    """Return the same W*, noise and query, with the context's inputs so many times as wide.

    Args:
        prompts: Prompts as they come.
        each: Widths, (batch,), or one for all.
    """
    x = prompts.x.clone()
    x[..., :-1] *= torch.as_tensor(each, dtype=x.dtype).view(-1, 1, 1)
    return Prompts(x, prompts.y + prompts.w @ (x - prompts.x), prompts.w)


def log_weights(numbers: Tensor, widths: Sequence[float]) -> Tensor:
    """Return log p / mean_w p_w, (batch,), of independent numbers, (batch, ...), equally often at each width."""
    flat = numbers.flatten(1)
    squares, count = flat.square().sum(1), flat.shape[1]
    densities = torch.stack([-squares / (2 * w**2) - count * log(w) for w in widths])
    return -squares / 2 - densities.logsumexp(0) + log(len(widths))


def last_read(model: Decoder, prompts: Prompts) -> Tensor:
    """Return the last read, (batch, n + 1, 2d), of a toy without norms and without a read-out: it is the answer."""
    with torch.no_grad():
        read: Tensor = model(side_by_side(prompts))
    return read


@dataclass(frozen=True)
class Start:
    """A toy at the start, on every seed's prompts."""

    config: Config
    kind: str
    rule: str
    depth: int
    seeds: int

    @property
    def plain(self) -> bool:
        """True where prompts as they come are measured apart, too: gradient steps of a residual stream."""
        return self.kind == "descent" and self.rule == RESIDUAL


def starts(config: Config, seeds: int, run: RunFolder) -> Json:
    """Return mean squares of last reads over prompts of every width and over weights, by cell and seed.

    Under `plain` are those of the residual stream's context tokens, over prompts as they come alone.
    """
    cells = {"/".join(map(str, at)): at for at in config.starts()}
    toys = {name: Start(config, *at, seeds) for name, at in cells.items()}

    def size(toy: Start) -> int:
        return toy.depth * toy.seeds

    records = results(
        "start", longest_first(toys, size), measure_start, run=run, label="attnres-toy: at the start", size=size
    )
    return {
        "squares": {
            start(*at, token): records[name]["squares"][token] for name, at in cells.items() for token in TOKENS
        },
        "plain": {str(toy.depth): records[name]["plain"] for name, toy in toys.items() if toy.plain},
    }


def measure_start(toy: Start, desk: Desk) -> Json:
    """Measure a toy on every seed's prompts."""
    record: Json = {"squares": {token: [] for token in TOKENS}, "plain": []}
    for seed in range(toy.seeds):
        desk.report(toy.depth * seed)
        squares, weights = last_squares(toy.config, toy.kind, toy.rule, depth=toy.depth, seed=seed)
        means = {"context": squares[:, :-1].mean(1), "query": squares[:, -1]}
        for token in TOKENS:
            record["squares"][token].append(float((weights * means[token]).mean()))
        if toy.plain:
            record["plain"].append(float(means["context"][: toy.config.prompts].mean()))
    return record


def last_squares(config: Config, kind: str, rule: str, depth: int, seed: int) -> tuple[Tensor, Tensor]:
    """Return squares of the last read, (prompts, tokens), and the prompts' weights; these are equal for every rule."""
    task, d = RegressionTask(*config.task.floats), config.task.d
    count = config.prompts * len(config.widths)
    drawn = task.sample(count, Generator(HELD_OUT_STREAM, seed, OF_INPUTS), torch.float64)
    prompts = at_widths(drawn, numbers(config.widths).repeat_interleave(config.prompts))
    logs = log_weights(prompts.x[..., :-1], config.widths)
    steps = config.step if kind == "descent" else 1.0
    model = gradient_steps(rule, config.task, [steps] * depth)
    if isinstance(model.plan.depth, DepthAverage):  # averages start as a residual stream; here they are means
        with torch.no_grad():
            for name, averages in model.named_parameters():
                if name.startswith("depth."):
                    averages.fill_(1 / len(averages))
    if kind == "descent":
        return last_read(model, prompts).square().sum(-1), logs.exp()
    each = torch.tensor(config.wider).double().repeat(count // len(config.wider))  # by float32, as in the results
    stream = Generator(HELD_OUT_STREAM, seed, OF_WEIGHTS, depth)
    normal = stream.normal((count, depth, d, d), torch.float64) * each[:, None, None, None]
    with own_weights(model, config.deviation / d**0.5 * normal):
        last = last_read(model, prompts)
    return last.square().sum(-1), (logs + log_weights(normal, config.wider)).exp()


@contextmanager
def own_weights(model: Decoder, weights: Tensor) -> Iterator[None]:
    """Give every prompt its own B in layer l, weights[:, l - 1], (prompts, d, d), in place of the identity."""
    d = weights.shape[-1]

    def hook(by_prompt: Tensor) -> Callable[[nn.Module, object, Tensor], Tensor]:
        def multiplied(_module: nn.Module, _args: object, out: Tensor) -> Tensor:
            return torch.cat([out[..., :d], out[..., d:] @ by_prompt.mT], dim=-1)

        return multiplied

    outputs = [layer.get_submodule("attention.output") for layer in model.layers]
    hooks = [module.register_forward_hook(hook(b)) for module, b in zip(outputs, weights.unbind(1), strict=True)]
    with removed_after(hooks):
        yield


def gradient_steps(rule: str, setting: Setting, steps: Sequence[float]) -> Decoder:
    """Return a decoder that makes gradient steps of these sizes."""
    eye = torch.eye(setting.d, dtype=torch.float64)
    return descending(resolve(rule, Shape(len(steps), 1)), setting.n, numbers(steps)[:, None, None] * eye)


def numbers(values: Sequence[float]) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


@dataclass(frozen=True)
class DeepToy:
    """A deep toy, with the best weights over depth and as the best residual stream."""

    setting: Setting
    layers: int
    prompts: int
    seeds: int


def answers(config: Config, seeds: int, run: RunFolder) -> Json:
    """Return, by deep toy and seed, mean losses of the best depth weights and residual stream on the same prompts."""
    toys = {
        answer(setting, layers): DeepToy(setting, layers, config.answered, seeds=seeds)
        for setting in config.deep
        for layers in config.layers
    }
    records = results("deep", toys, measure_deep, run=run, label="attnres-toy: deep", size=lambda toy: toy.seeds)
    return {name: records[name]["losses"] for name in toys}


def measure_deep(toy: DeepToy, desk: Desk) -> Json:
    """Measure both on every seed's prompts."""
    task, losses = RegressionTask(*toy.setting.floats), []
    models = {"depth": weighing(toy.setting, toy.layers), "residual": stepping(toy.setting, toy.layers)}
    for seed in range(toy.seeds):
        desk.report(seed)
        prompts = task.sample(toy.prompts, Generator(HELD_OUT_STREAM, seed, OF_ANSWERS), torch.float64)
        losses.append({name: loss(*model, prompts) for name, model in models.items()})
    return {"losses": losses}


def loss(model: Decoder, readout: float, prompts: Prompts) -> float:
    """Return the mean squared error of the query's answer, summed over the d outputs."""
    answered = readout * last_read(model, prompts)[:, -1, prompts.x.shape[1] :]
    return float((prompts.label - answered).square().sum(-1).mean())


def weighing(setting: Setting, layers: int) -> tuple[Decoder, float]:
    """Return a decoder whose depth weights make the best polynomial, and what its query's y slot is read out by."""
    best = spectral.best_polynomial(setting.d, setting.n, Fraction(setting.sigma), degree=layers)
    weights = deep.of_polynomial(best.residual, layers)
    model = gradient_steps("attnres-static", setting, [float(step) for step in weights.steps])
    with torch.no_grad():
        for read, row in enumerate(weights.weights):
            model.get_parameter(f"depth.logits.{read}").copy_(numbers([log(weight) for weight in row]))
    return model, -float(weights.readout)


def stepping(setting: Setting, layers: int) -> tuple[Decoder, float]:
    """Return the best steps of a residual stream, likewise."""
    best = spectral.best_steps(setting.d, setting.n, float(setting.sigma), count=layers)
    return gradient_steps(RESIDUAL, setting, best.steps), -1.0


@dataclass(frozen=True, eq=False)
class SideBySide:
    """In-context regression whose tokens hold a pair, (x_t ; y_t), and the query (x ; 0); its y slot is scored.

    The prompts are `icl.training.objectives.PromptTask`'s.
    """

    task: RegressionTask
    prompts: int
    nats: ClassVar = False

    @property
    def identity(self) -> str:
        return f"side by side {self.task} held out {self.prompts}"

    @property
    def tokens(self) -> int:
        return self.task.n + 1

    @property
    def read(self) -> slice:
        return slice(self.task.n, self.task.n + 1)

    @property
    def slot(self) -> slice:
        return slice(self.task.d, 2 * self.task.d)

    def batch(self, seed: int, step: int, size: int, rows: slice = slice(None)) -> Batch:
        return as_batch(self.task.sample(size, Generator(TRAIN_STREAM, seed, step))).rows(rows)

    def batches(self, seeds: Sequence[int], step: int, size: int) -> Batch:
        """Return the `batch` of every seed, stacked."""
        return as_batch(self.task.samples(size, [Generator(TRAIN_STREAM, seed, step) for seed in seeds]))

    def held_out(self, width: float = 1.0) -> Iterator[Batch]:
        """Yield one batch, whose context's inputs are so many times as wide."""
        prompts = self.task.sample(self.prompts, Generator(HELD_OUT_STREAM, HELD_OUT_SEED, 0))
        yield as_batch(at_widths(prompts, width))

    def losses(self, answer: Tensor, targets: Tensor) -> Tensor:
        """Return the losses, (batch, 1)."""
        errors: Tensor = (answer[:, self.read, self.slot].float() - targets).square().sum(-1)
        return errors


def as_batch(prompts: Prompts) -> Batch:
    return Batch(side_by_side(prompts), prompts.label[..., None, :])


@dataclass(frozen=True, kw_only=True)
class ToyArm(Arm):
    """An arm whose prompts are side by side."""

    def key(self, device: str) -> str:
        return f"{super().key(device)}-side-by-side"

    def task(self, rank: int = 0, count: int = 1) -> Task:  # noqa: ARG002
        assert isinstance(self.source, PromptSource)
        return SideBySide(self.source.regression, self.source.held_out_prompts)


def largest(model: Decoder, task: Task, device: str) -> list[float | None]:
    """Return the largest read, root mean square over tokens in float64, by width of the held-out prompts.

    It is None where it is larger than these numbers.
    """
    assert isinstance(task, SideBySide)
    exact = deepcopy(model).double().eval()
    sizes = []
    for width in WIDTHS.values():
        inputs = next(task.held_out(width)).inputs.to(device).double()
        sizes.append(max(float(read.square().sum(-1).mean().sqrt()) for read in reads(exact, inputs)))
    return [size if isfinite(size) else None for size in sizes]


def trained(config: Config, run: RunFolder, label: str) -> Json:
    """Return, by network and seed, the largest reads by width, None where the training diverged; and losses."""
    source = PromptSource(*config.task.floats, config.held_out_prompts, scored="last")

    def arm(name: str, depth: int, seed: int) -> Arm:
        network = NETWORKS[BASELINE if name == TWIN else name]
        return ToyArm(
            architecture=config.trained(network, depth),
            variant=network.variant,
            source=source,
            recipe=config.recipe,
            seed=seed,
            std=config.std,
            twin=name == TWIN,
            probes=(PROBE,),
            label=BASELINE if name == TWIN else name,
        )

    # The longest first, so that none is left to run alone at the end.
    depths = (config.deeper, *reversed(config.trained_depths))
    cells = [(name, depth) for depth in depths for name in (*NETWORKS, TWIN)]
    by_seed = rounds(
        lambda seed: {at: arm(*at, seed) for at in cells}, config.trained_seeds, run, label=label, train=train_stacked
    )
    records = [record for arms in by_seed for record in arms.values()]
    return {
        "trained": {cell(*at): [arms[at]["probes"][PROBE]["end"] for arms in by_seed] for at in cells},
        "losses": {cell(*at): [arms[at]["loss"] for arms in by_seed] for at in cells},
        "diverged": [record["diverged"] for record in records if record["diverged"]],
        "provenance": of_runs(records),
    }
