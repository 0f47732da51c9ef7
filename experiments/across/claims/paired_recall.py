"""Claims on associative recall whose tokens hold a key and its value: all value maps are equal there."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from typing import TYPE_CHECKING

from experiments.ledger.claim import Claim, at
from theory.errors import BadInput
from theory.plans.architecture import Architecture, Vectors
from theory.plans.mix import NOTHING, k, q, v
from theory.plans.plan import DepthAverage, Plan, Shape, plan
from theory.plans.recall import Form, RecallSetting
from theory.skipv1.paper import PAPER
from theory.toy import paired_recall
from theory.toy.paired_recall import arc, least_margin, narrow_floor, ordinary_head, paired_codes

if TYPE_CHECKING:
    from torch import Tensor

    from icl.models.decoder import Decoder
    from icl.recall import RecallTask

FORMS: tuple[Form, Form] = ("paired", "interleaved")
TWO = Shape(2, 2)
PLANS: dict[str, Plan] = {  # of two layers of two heads
    "vanilla": plan(TWO),
    "SVFormer": plan(TWO, values=lambda n, h: v(1, h)),
    "SkipV1Former": plan(TWO, values=lambda n, h: v(1, h) if (n, h) == (2, 2) else v(n, h)),
    "SkipV0": plan(TWO, values=lambda n, h: NOTHING if (n, h) == (2, 2) else v(n, h)),
    "ResFormer": plan(TWO, values=lambda n, h: v(1, h) if n == 1 else 0.5 * v(n, h) + 0.5 * v(1, h)),
    "shared keys": plan(TWO, keys=lambda n, h: k(1, h)),
    "shared keys and values": plan(TWO, keys=lambda n, h: k(1, h), values=lambda n, h: v(1, h)),
    "residual queries": plan(TWO, queries=lambda n, h: q(1, h) if n == 1 else 0.5 * q(n, h) + 0.5 * q(1, h)),
}
REFUSED = (plan(TWO, depth=DepthAverage()), plan(TWO, output_projection=False), plan(TWO, dynamic="initial"))
MATCH, READOUT = 60.0, 2000.0  # e^-60 is below rounding
SMALL = 1e-9

WHERE_IT_BEGINS = "where the arc begins turns all codes together, and leaves their products as they are"

PAIRED = Claim(
    "toy.recall-paired",
    PAPER.ours,
    place="theory/toy/paired_recall.py; bears on ResFormer, section 3.5 (SVFormer), and SkipV1Former, section 3.2",
    statement="Where a token holds a key and its value, plans of any depth reach the same in associative recall, "
    "whichever layer's values, keys and queries their layers read: for three or more values and any number of keys, "
    "the loss can be as small as one likes if and only if the state is 2 wide or more.  One layer with one head of "
    "width 2 does it; from a state of one number the mean loss is at least (1 - 2/V) ln 2, whatever the layers.",
    assumes="an ordinary head in layer 1, a residual stream, softmax attention, no positions, norms and feed-forward "
    "layers, weights as large as one likes; keys, then values, are drawn without repetition; linear scores",
    verdict="verified",
    proof=paired_recall,
    uses=("toy.recall-one-layer",),
    unjudged={
        **dict.fromkeys((q, k, v), "claimed whichever layer's are read"),
        at(arc, "neighbours(count) * np.arange(count) - SPREAD / 2"): WHERE_IT_BEGINS,
        at(arc, "SPREAD / 2"): WHERE_IT_BEGINS,
    },
)


@PAIRED.check(
    "eight plans, two numbers wide, with layer 2 silent: the loss of every query is below 1e-9, and no plan has other "
    "scores than vanilla",
    states=FORMS[0],
    control=FORMS[1],
    wrong="a token for each key and each value, where layer 2 has to read what layer 1 copies",
)
def all_plans_recall(form: Form) -> bool:
    import torch

    task = _task(form)
    scores = []
    for plan_of in PLANS.values():
        model = _decoder(task, plan_of)
        losses, answers = _answers(model, task)
        if losses.max() > SMALL:
            return False
        scores.append(answers)
    return bool((torch.stack(scores) - scores[0]).abs().max() < SMALL)


@PAIRED.check(
    "no decoder that is one number wide has a mean loss below (1 - 2/V) ln 2: twenty at random, of one to three "
    "layers, and that of the proof without its second number",
    states=1,
    control=2,
    wrong="two numbers",
)
def one_number_is_too_few(width: int) -> bool:
    task = _task("paired")
    least = (1 - 2 / task.values) * math.log(2)
    models = [_decoder(task, PLANS["vanilla"], width)]
    for seed in range(20):
        config = _config(task, width, layers=1 + seed % 3)
        models.append(_random(config, seed))
    return narrow_floor(task.values) == least and all(_answers(model, task)[0].mean() >= least for model in models)


@PAIRED.check(
    "the least margin of the right token is R/2, over every key, value and other token, for one to nine keys",
    states=0.5,
    control=1.0,
    wrong="R, as if the codes of values did not turn away from those of keys",
)
def the_margin_is_half_the_radius(share: float) -> bool:
    for keys, values in product((1, 2, 3, 9), (3, 5)):
        codes = paired_codes(keys, values)
        of_keys, of_values = codes[:keys], codes[keys:]
        radius = float((of_keys[0] @ of_keys[0]) ** 0.5)
        if keys > 1 and abs(of_keys[0] @ (of_keys[0] - of_keys[1]) - radius) > SMALL * radius:
            return False  # R^2 (1 - cos delta) is R
        least = min(
            of_keys[key] @ (of_keys[key] + value)
            - max(
                of_keys[key] @ token
                for token in [*of_keys, *(x + y for i, x in enumerate(of_keys) if i != key for y in of_values)]
            )
            for key in range(keys)
            for value in of_values
        )
        if abs(least - share * radius) > SMALL * radius or abs(least_margin(keys) - share * radius) > SMALL * radius:
            return False
    return True


@PAIRED.check(
    "points of the arc are at most 1 apart, and each has the largest product with itself",
    states=6,
    control=3,
    wrong="a third of a turn, on which two codes can be further apart than 1",
)
def the_arc_is_short(parts: int) -> bool:
    for count in (2, 3, 16):
        points = arc(count)
        ends = float(((points[0] - points[-1]) ** 2).sum() ** 0.5)
        products = points @ points.T
        if abs(ends - 2 * math.sin(math.pi / parts)) > SMALL or (products.argmax(1) != range(count)).any():
            return False
    return bool(abs(arc(1)[0] @ arc(1)[0] - 1) < SMALL)


@PAIRED.check(
    "plans without a residual stream or output projections, or with dynamic values, are refused; eight are not",
    states=REFUSED,
    control=(plan(TWO),),
    wrong="vanilla",
    kind="exact",
)
def what_is_not_covered(plans: tuple[Plan, ...]) -> bool:
    def refused(some: Plan) -> bool:
        try:
            return ordinary_head(some) != 1
        except BadInput:
            return True

    return all(map(refused, plans)) and not any(map(refused, PLANS.values()))


def _task(form: Form) -> RecallTask:
    from icl.recall import RecallTask

    return RecallTask(**vars(RecallSetting(pairs=3, keys=5, values=4, form=form)))


def _config(task: RecallTask, width: int, layers: int = 2) -> Architecture:
    return Architecture(
        d_model=width,
        n_layers=layers,
        n_heads=2,
        head_dim=2,
        d_ff=0,
        context=task.tokens,
        stem=Vectors(task.width),
        norm="none",
        positions="none",
    )


def _random(config: Architecture, seed: int) -> Decoder:
    from icl.models.decoder import Decoder

    return Decoder(config, plan(config.shape), seed=seed, std=2.0).double()


def _decoder(task: RecallTask, plan: Plan, width: int = 2) -> Decoder:
    """Return the decoder of the proof, or its first number alone."""
    import torch

    from icl.models.decoder import Decoder

    config = _config(task, width)
    head = ordinary_head(plan) - 1
    model = Decoder(config, plan).double()
    codes, unit = torch.as_tensor(paired_codes(task.keys, task.values)), torch.eye(2, dtype=torch.float64)
    layer = "layers.0.attention."
    maps: dict[str, Callable[[Tensor], object]] = {
        "stem.read_in.weight": lambda x: x.copy_(codes.T[:width]),
        "stem.head.weight": lambda x: x[task.keys :].copy_(-READOUT * codes[task.keys :, :width]),
        # scores are over the root of a head's width
        f"{layer}projections.query.weight": lambda x: x.view(2, 2, width)[head].copy_(MATCH * 2**0.5 * unit[:, :width]),
        f"{layer}projections.key.weight": lambda x: x.view(2, 2, width)[head].copy_(unit[:, :width]),
        f"{layer}projections.value.weight": lambda x: x.view(2, 2, width)[head].copy_(unit[:, :width]),
        f"{layer}output.weight": lambda x: x.view(width, 2, 2)[:, head].copy_(-unit[:width]),
    }
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            parameter.zero_()
            if parameter_name in maps:
                maps.pop(parameter_name)(parameter)
    assert not maps
    return model


def _answers(model: Decoder, task: RecallTask) -> tuple[Tensor, Tensor]:
    """Return losses and scores at all queries of 200 sequences: (200, n) and (200, n, values), float64."""
    import torch

    from icl.prompts import TRAIN_STREAM, Generator

    drawn = task.sample(200, Generator(TRAIN_STREAM, 0, 0))
    with torch.no_grad():
        scores = model(drawn.tokens().double())[:, task.told :, task.keys :]
    return scores.logsumexp(-1) - (scores * drawn.answers()).sum(-1), scores
