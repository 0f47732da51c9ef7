"""Claims on associative recall: what one layer cannot do, and what two layers with shared keys can."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from itertools import permutations, product
from typing import TYPE_CHECKING, Literal

from experiments.ledger.claim import Claim
from theory.plans.architecture import Architecture, Vectors
from theory.plans.mix import Mix, k, v
from theory.plans.names import resolve
from theory.plans.plan import SegmentRule, plan
from theory.plans.recall import RecallSetting
from theory.skipv1.paper import PAPER
from theory.toy import recall
from theory.toy.recall import least_margin, margin, most_loss, shared_key_scores, shared_key_weights

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from icl.models.decoder import Decoder
    from icl.recall import RecallTask, Sequences

PLACE = "theory/toy/recall.py; bears on ResFormer, sections 4.3 and 4.8 (shared keys)"
PAIRS, KEYS, VALUES = 4, 6, 5
THREE = RecallSetting(pairs=3, keys=3, values=3)
MATCH = 60.0  # the score of an equal token: e^-60 is below rounding
ROUNDING = 1e-9
Scores = Callable[[int, int, int], list[Fraction]]

ONE_LAYER = Claim(
    "toy.recall-one-layer",
    PAPER.ours,
    place=PLACE,
    statement="One layer of attention without positions cannot do better than ln n at associative recall of n pairs "
    "whose keys and values are tokens of their own, whatever its heads, its feed-forward and its width.",
    assumes="keys, then values, are drawn without repetition; queries follow all pairs; causal attention; no positions",
    verdict="verified",
    proof=recall,
)


@ONE_LAYER.check(
    "the mean loss of one random layer over all orders of the values is at least ln n, at every query, and two random "
    "layers go below it at some",
    states=1,
    control=2,
    wrong="two layers, as if the second read no more than the first",
)
def chance_is_least(layers: int) -> bool:
    import torch

    least = [_losses(model, THREE, _orders(THREE)).mean(0) for model in _random(layers)]
    return bool((torch.stack(least) > math.log(THREE.pairs) - ROUNDING).all())


@ONE_LAYER.check(
    "the scores of all values at a query are the same whatever the order of the values, for one random layer and not "
    "for two",
    states=1,
    control=2,
    wrong="two layers, as if the second read no more than the first",
)
def scores_are_of_the_set(layers: int) -> bool:
    import torch

    for model in _random(layers):
        with torch.no_grad():
            scores = model(_sequences(THREE, _orders(THREE)).tokens().double())[:, THREE.told :, THREE.keys :]
        if (scores - scores[:1]).abs().max() > ROUNDING:
            return False
    return True


FIRST_ALONE = Claim(
    "toy.recall-shared-keys-and-values",
    PAPER.ours,
    place="theory/toy/recall.py; bears on SkipV1Former, section 6.1 (Cross-Layer Attention)",
    statement="No number of layers whose keys and values are all layer 1's can do better than ln n at associative "
    "recall of n pairs whose keys and values are tokens of their own, without positions: no more than one layer.",
    assumes="keys, then values, are drawn without repetition; queries follow all pairs; causal attention; no positions",
    verdict="verified",
    proof=recall,
    uses=("toy.recall-one-layer",),
)
OF_THE_FIRST: SegmentRule = lambda n, h: v(1, h)  # noqa: E731 - a rule beside `v`
OWN: SegmentRule = v


@FIRST_ALONE.check(
    "of two and three layers the mean loss over all orders of the values is at least ln n, at every query, and with "
    "values of their own random layers go below it at some",
    states=OF_THE_FIRST,
    control=OWN,
    wrong="layers with layer 1's keys, and values of their own",
)
def chance_is_least_without_own_keys_and_values(values: SegmentRule) -> bool:
    import torch

    models = [x for layers in (2, 3) for x in _random(layers, lambda n, h: k(1, h), values)]
    least = [_losses(model, THREE, _orders(THREE)).mean(0) for model in models]
    return bool((torch.stack(least) > math.log(THREE.pairs) - ROUNDING).all())


@FIRST_ALONE.check(
    "of two and three layers the scores of all values at a query are the same whatever the order of the values, and "
    "with keys of their own they are not",
    states=OF_THE_FIRST,
    control=OWN,
    wrong="layers with layer 1's values, and keys of their own",
)
def scores_are_of_the_set_without_own_keys_and_values(rule: SegmentRule) -> bool:
    import torch

    def keys(n: int, h: int) -> Mix:
        return k(1, h) if rule is OF_THE_FIRST else k(n, h)

    for model in [x for layers in (2, 3) for x in _random(layers, keys, OF_THE_FIRST)]:
        with torch.no_grad():
            scores = model(_sequences(THREE, _orders(THREE)).tokens().double())[:, THREE.told :, THREE.keys :]
        if (scores - scores[:1]).abs().max() > ROUNDING:
            return False
    return True


SHARED_KEYS = Claim(
    "toy.recall-shared-keys",
    PAPER.ours,
    place=PLACE,
    statement="Two layers of attention whose keys are all layer 1's can do associative recall of n pairs, without "
    "positions, norms and feed-forward layers: two heads, and a width of one coordinate for each key and two for each "
    "value, answer every query right, and a large readout makes the loss as small as one likes.  In this construction "
    "1/(3 n^2) sets the right value apart for many pairs; a lookup's margin does not fall with n.",
    assumes="keys, then values, are drawn without repetition; queries follow all pairs; one head's scores are large",
    verdict="verified",
    proof=recall,
    uses=("toy.recall-one-layer",),
    unjudged={recall.strength: "any that is as large does as well"},
)


def _own_token_forgotten(n: int, query: int, asked: int) -> list[Fraction]:
    return shared_key_scores(n, query, asked, 4 * n)


@SHARED_KEYS.check(
    "a decoder of that width with these weights has these scores, whatever is asked for, in whatever order",
    states=shared_key_scores,
    control=_own_token_forgotten,
    wrong="all of head A's attention on the pair, none on the query's own token",
)
def a_decoder_has_these_scores(scores: Scores) -> bool:
    import torch

    from icl.prompts import TRAIN_STREAM, Generator
    from icl.recall import RecallTask

    task = RecallTask(pairs=PAIRS, keys=KEYS, values=VALUES)
    model = _shared_keys(task)
    drawn = task.sample(20, Generator(TRAIN_STREAM, 0, 0))
    answers = model(drawn.tokens().double())[:, task.told :, task.keys :]
    wanted = torch.zeros_like(answers)
    for i, (values, asked) in enumerate(zip(drawn.values.tolist(), drawn.asked.tolist(), strict=True)):
        for query, pair in enumerate(asked):
            wanted[i, query, values] = torch.tensor(
                [float(score) for score in scores(task.pairs, query + 1, pair + 1)], dtype=torch.float64
            )
    narrow = model.config.d_model == KEYS + 2 * VALUES
    return narrow and bool((answers - wanted).abs().max() < ROUNDING)


@SHARED_KEYS.check(
    "the right value has the highest score at every query, for 1 to 12 pairs",
    states=lambda n: 2 * n,
    control=lambda n: 2,
    wrong="a strength of head A that does not grow with n",
    kind="exact",
)
def the_right_value_is_first(strength: Callable[[int], int]) -> bool:
    every = [(n, query, asked) for n in range(1, 13) for query in range(1, n + 1) for asked in range(1, n + 1)]
    return all(margin(*which, strength(which[0])) > 0 for which in every)


@SHARED_KEYS.check(
    "the least margin is (1/(2n - 2) + 1/(2n - 1)) / (3n) from 5 pairs on",
    states=lambda n: (Fraction(1, 2 * n - 2) + Fraction(1, 2 * n - 1)) / (3 * n),
    control=lambda n: (Fraction(1, 2 * n - 2) + Fraction(1, 2 * n - 1)) / (2 * n),
    wrong="that of the first query, after as few tokens as there are",
    kind="exact",
)
def the_least_margin(formula: Callable[[int], Fraction]) -> bool:
    return all(least_margin(n) == formula(n) for n in (5, 6, 9, 14))


@SHARED_KEYS.check(
    "the last pair's margin at head A's strength B is S_n / t - max(0, S_1 / t - B / (2 (2n - 1))), S_l the sum of 1/j "
    "for 2l <= j <= t",
    states=Fraction(1, 2),
    control=Fraction(1),
    wrong="all of head A's attention on the pair",
    kind="exact",
)
def what_the_last_pair_is_apart(share: Fraction) -> bool:
    for n, query, before in product((2, 3, 5), (1, 2), (0, 1, 2, 20, 400)):
        t = 2 * n + query
        first, last = (sum(Fraction(1, j) for j in range(start, t + 1)) / t for start in (2, 2 * n))
        if margin(n, query, n, before) != last - max(0, first - share * before / (2 * n - 1)):
            return False
    return True


@SHARED_KEYS.check(
    "of one pair the bound is the decoder's loss; of many it is that of all other values at the least margin",
    states=lambda values: values - 1,
    control=lambda values: values,
    wrong="as many wrong values as values",
)
def what_the_bound_is(wrong: Callable[[int], int]) -> bool:
    import torch

    from icl.recall import RecallTask

    for values in (2, 5):
        task = RecallTask(pairs=1, keys=1, values=values)
        loss = float(_losses(_shared_keys(task), task, torch.zeros(1, 1, dtype=torch.long)))
        stated = math.log1p(wrong(values) * math.exp(-float(least_margin(1))))
        if not abs(loss - stated) < ROUNDING > abs(loss - most_loss(1, values, 1.0)):
            return False
    apart = [(n, 50 * (1 / (2 * n - 2) + 1 / (2 * n - 1)) / (3 * n)) for n in (5, 9)]
    return all(abs(most_loss(n, 16, 50.0) - math.log1p(wrong(16) * math.exp(-x))) < ROUNDING for n, x in apart)


@SHARED_KEYS.check(
    "with a readout of 1,500 the decoder's loss is below that bound, and the bound below 1e-12",
    states=1500.0,
    control=1.0,
    wrong="the readout as it is",
)
def the_loss_is_small(readout: float) -> bool:
    import torch

    from icl.recall import RecallTask

    task = RecallTask(pairs=PAIRS, keys=KEYS, values=VALUES)
    model = _shared_keys(task)
    with torch.no_grad():
        dict(model.named_parameters())["stem.head.weight"].mul_(readout)
    bound = most_loss(PAIRS, VALUES, readout)
    return bool(_losses(model, task, _orders(task)).max() <= bound < 1e-12)


def _shared_keys(task: RecallTask) -> Decoder:
    """Return the decoder of the proof."""
    return shared_keys_decoder(task, shared_key_weights(task.pairs, task.keys, task.values, MATCH), "none")


def shared_keys_decoder(
    task: RecallTask, made: Mapping[str, np.ndarray], positions: Literal["none", "rope"]
) -> Decoder:
    """Return a decoder of two layers with shared keys and these weights, as `recall.shared_key_weights` names them."""
    import torch

    from icl.models.decoder import Decoder

    head, width = made["look"].shape[1:]
    config = Architecture(
        d_model=width,
        n_layers=2,
        n_heads=2,
        head_dim=head,
        d_ff=0,
        context=task.tokens,
        stem=Vectors(task.width),
        norm="none",
        positions=positions,
    )
    model = Decoder(config, resolve("shared-keys", config.shape)).double()
    weights = {name: torch.as_tensor(weight) for name, weight in made.items()}
    layer = "layers.{}.attention.{}.weight"
    maps = {
        layer.format(0, "projections.query"): 0 * weights["look"],
        layer.format(0, "projections.key"): weights["keys"],
        layer.format(0, "projections.value"): weights["gives"],
        layer.format(0, "output"): weights["puts"].transpose(0, 1),
        layer.format(1, "projections.query"): weights["look"] * head**0.5,  # scores are over the root of a head's width
        layer.format(1, "projections.value"): weights["takes"],
        layer.format(1, "output"): weights["answers"].transpose(0, 1),
        "stem.read_in.weight": torch.eye(width)[:, : task.width],
        "stem.head.weight": weights["reads"],
    }
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(maps.pop(name).reshape(parameter.shape))
    assert not maps
    return model


def _random(layers: int, keys: SegmentRule = k, values: SegmentRule = v) -> Iterator[Decoder]:
    """Yield decoders with random weights that read the sequences of THREE."""
    from icl.models.decoder import Decoder

    config = Architecture(
        d_model=8,
        n_layers=layers,
        n_heads=2,
        d_ff=16,
        context=THREE.tokens,
        stem=Vectors(THREE.width),
        positions="none",
    )
    for seed in range(20):
        yield Decoder(config, plan(config.shape, keys=keys, values=values), seed=seed, std=1.0).double()


def _orders(setting: RecallSetting) -> Tensor:
    """Return every order of as many values as there are pairs: (n!, n)."""
    import torch

    return torch.tensor(list(permutations(range(setting.pairs))))


def _sequences(setting: RecallSetting, values: Tensor) -> Sequences:
    """Return sequences whose keys, and queries, are in order."""
    import torch

    from icl.recall import RecallTask, Sequences

    pairs = torch.arange(setting.pairs).expand_as(values)
    return Sequences(RecallTask(**vars(setting)), pairs, values, pairs)


def _losses(model: Decoder, setting: RecallSetting, values: Tensor) -> Tensor:
    """Return the loss of every query, pairs in order, for each order of the values: (orders, n), float64."""
    import torch

    drawn = _sequences(setting, values)
    with torch.no_grad():
        scores = model(drawn.tokens().double())[:, setting.told :, setting.keys :]
        return scores.logsumexp(-1) - (scores * drawn.answers()).sum(-1)
