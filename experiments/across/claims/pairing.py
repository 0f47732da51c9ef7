"""Claims on the plateau of associative recall: what first tells which value belongs to which key, for every plan."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from fractions import Fraction
from itertools import permutations, product
from typing import TYPE_CHECKING

import numpy as np

from experiments.across.claims.paired_recall import PLANS, REFUSED
from experiments.ledger.claim import Claim
from theory.errors import BadInput
from theory.plans.architecture import Architecture, Vectors
from theory.plans.mix import Learned, k, v
from theory.plans.plan import Plan, Shape, built, plan
from theory.plans.recall import Form, RecallSetting
from theory.skipv1.paper import PAPER
from theory.toy import pairing
from theory.toy.pairing import (
    Array,
    Weights,
    blurred_share,
    copied_query,
    elimination_share,
    leading_lead,
    lookup_share,
    uniform_slope,
)

if TYPE_CHECKING:
    from icl.models.decoder import Decoder
    from icl.recall import Sequences

FORMS: tuple[tuple[RecallSetting, int], ...] = (  # with the power of the weights' size by which a lead begins
    (RecallSetting(pairs=2, keys=3, values=4), 6),
    (RecallSetting(pairs=3, keys=3, values=3, form="paired"), 4),
)
THREE = RecallSetting(pairs=3, keys=3, values=3)
WIDTH = 6
TWO = Shape(2, 2)
BESIDES = (
    plan(Shape(3, 2)),
    plan(TWO, beside=lambda n, h: v(1, h)),
    plan(TWO, values=lambda n, h: Learned("w", 0.5) * v(n, h)),
    plan(TWO, keys=lambda n, h: (k(n, h), k(1, h)), values=lambda n, h: (v(n, h), v(1, h))),
)
Slope = Callable[[Plan, Weights, int, int], float]
Lead = Callable[[Plan, Weights, int, int, Form], float]


def _as_vanilla(_plan: Plan, weights: Weights, n: int, query: int) -> float:
    return uniform_slope(PLANS["vanilla"], weights, n, query)


def _leads_as_vanilla(_plan: Plan, weights: Weights, n: int, query: int, form: Form) -> float:
    return leading_lead(PLANS["vanilla"], weights, n, query=query, form=form)


STATED: Lead = leading_lead
AS_VANILLA: Lead = _leads_as_vanilla

PAIRING = Claim(
    "toy.recall-pairing",
    PAPER.ours,
    place="theory/toy/pairing.py; bears on ResFormer, section 3.5 (SVFormer), and SkipV1Former, section 3.2",
    statement="Two layers with weights of size epsilon first tell which value belongs to which key by a lead of order "
    "epsilon^6 on interleaved prompts, for vanilla, SVFormer, SkipV1Former and ResFormer alike, and of order "
    "epsilon^4 on paired ones.  On interleaved prompts it is a sum over the heads of layer 2 of two terms: lookup, a "
    "copied key beside a raw value, which counts (H_n - 1)/(2nt); and elimination, a raw key beside copied values, "
    "which counts with the other sign.  A head on layer 1's values reads no copy, one with its keys finds none.  So "
    "value maps differ by terms and not by how many factors have to grow.",
    assumes="softmax attention, no positions, norms and feed-forward layers; weights of both layers small, codes and "
    "readout fixed; the lead is the right value's mean score less that of the prompt's values",
    verdict="verified",
    proof=pairing,
    uses=("toy.recall-one-layer",),
)


@PAIRING.check(
    "the lead over the sixth power of the weights' size, as they vanish, is what theory says, at every query and for "
    "every plan; over the fourth power in the paired form",
    states=STATED,
    control=AS_VANILLA,
    wrong="every plan as vanilla",
)
def the_lead_is_of_this_order(lead: Lead) -> bool:
    for some, (setting, power) in product(PLANS.values(), FORMS):
        model = _random(setting, some)
        weights, sizes = _weights(model, setting), (0.04, 0.02)
        coarse, fine = (_leads(_altered(model, (1.0, 1.0), size), setting) / size**power for size in sizes)
        stated = [lead(some, weights, setting.pairs, i, setting.form) for i in range(1, setting.pairs + 1)]
        # without the next power, which is two higher
        if np.abs((4 * fine - coarse) / 3 - stated).max() > 1e-3 * (1 + np.abs(stated).max()):
            return False
    return True


@PAIRING.check(
    "where both layers attend uniformly the lead is zero, and its derivative by layer 2's scores is what theory says, "
    "for weights of any size",
    states=uniform_slope,
    control=_as_vanilla,
    wrong="every plan as vanilla",
)
def the_derivative_at_uniform_attention(slope: Slope) -> bool:
    step = 1e-4
    for some in PLANS.values():
        model = _random(THREE, some)
        weights = _weights(model, THREE)
        still, ahead, behind = (_leads(_altered(model, (0.0, size)), THREE) for size in (0.0, step, -step))
        stated = [slope(some, weights, THREE.pairs, query) for query in range(1, THREE.pairs + 1)]
        error = np.abs((ahead - behind) / (2 * step) - stated).max()
        if np.abs(still).max() > 1e-9 or error > 1e-5 * (1 + np.abs(stated).max()):
            return False
    return True


@PAIRING.check(
    "the closed forms of lookup and elimination are the sums over tokens that they stand for, for 2 to 7 pairs",
    states=Fraction(1),
    control=Fraction(2),
    wrong="H_n - 2",
    kind="exact",
)
def closed_forms_are_sums(less: Fraction) -> bool:
    for n in range(2, 8):
        harmonic = sum(Fraction(1, q) for q in range(1, n + 1))
        for query in range(1, n + 1):
            t, pairs = 2 * n + query, range(1, n + 1)
            sums = {key: _summed(n, t, *key) for key in product((False, True), repeat=2)}
            if not (
                sums[False, False] == 0
                and sums[True, False] == lookup_share(n, query) == (harmonic - less) / (2 * n * t)
                and sums[False, True] == elimination_share(n, query)
                and sums[False, True] == -sum(Fraction(q - 1, 2 * q - 1) for q in pairs) / (n**2 * t)
                and sums[True, True] == blurred_share(n, query)
                and copied_query(n, query) == Fraction(n - query, t * (n - 1))
            ):
                return False
    return True


@PAIRING.check(
    "for 4 pairs, on average over the queries, elimination counts -0.54 of lookup, and a blurred reading 0.24 of it",
    states=(-0.536, 0.238),
    control=(-0.238, 0.536),
    wrong="one in place of the other",
)
def how_much_they_count(ratios: tuple[float, float]) -> bool:
    shares = [[f(4, query) for query in range(1, 5)] for f in (lookup_share, elimination_share, blurred_share)]
    lookup, elimination, blurred = (float(sum(share)) for share in shares)
    return abs(elimination / lookup - ratios[0]) < 1e-3 > abs(blurred / lookup - ratios[1])


@PAIRING.check(
    "sizes and plans to which the theorem does not speak are refused",
    states=(*REFUSED, *BESIDES),
    control=(*REFUSED, PLANS["vanilla"]),
    wrong="vanilla among them",
    kind="exact",
)
def what_is_not_covered(plans: tuple[Plan, ...]) -> bool:
    setting = RecallSetting(pairs=2, keys=2, values=2)
    weights = _weights(_random(setting, PLANS["vanilla"]), setting)

    def refused(plan: Plan, n: int = 2, query: int = 1) -> bool:
        try:
            leading_lead(plan, weights, n, query)
        except BadInput:
            return True
        return False

    vanilla = PLANS["vanilla"]
    impossible = refused(vanilla, n=1), refused(vanilla, query=3), refused(vanilla, query=0)
    return all(impossible) and not refused(vanilla, query=2) and all(map(refused, plans))


def _summed(n: int, t: int, key_copied: bool, value_copied: bool) -> Fraction:
    """Return the lead of a raw query over all its pairs, token by token, own token included."""
    pairs = range(1, n + 1)
    total = Fraction(0)
    for q in pairs:

        def score(j: int, q: int = q) -> Fraction:
            alike = [x for x in (2 * q - 1, t) if (x <= j if key_copied else x == j)]
            return Fraction(len(alike), j if key_copied else 1)

        mean = sum(map(score, range(1, t + 1))) / t
        read = [
            sum(
                (score(j) - mean) * (Fraction(j >= 2 * l, j) if value_copied else int(j == 2 * l))
                for j in range(1, t + 1)
            )
            for l in pairs  # noqa: E741
        ]
        total += Fraction(read[q - 1] - sum(read) / n) / (n * t)
    return total


def _random(setting: RecallSetting, plan: Plan) -> Decoder:
    from icl.models.decoder import Decoder

    config = Architecture(
        d_model=WIDTH,
        n_layers=2,
        n_heads=2,
        d_ff=0,
        context=setting.tokens,
        stem=Vectors(setting.width),
        norm="none",
        positions="none",
    )
    return Decoder(config, plan, seed=1, std=1.0, scale_outputs=False).double()


def _altered(model: Decoder, scores: tuple[float, float], size: float = 1.0) -> Decoder:
    """Return a copy whose layers' weights are `size` times as large, and whose layers' scores are times these.

    Scores are scaled where they are computed, as layers may share queries and keys.
    """
    import torch

    from icl.models.attention import Core

    copy = deepcopy(model)
    with torch.no_grad():
        for name, parameter in copy.named_parameters():
            parameter.mul_(size if name.startswith("layers.") else 1.0)
    cores = [module for module in copy.modules() if isinstance(module, Core)]
    for core, factor in zip(cores, scores, strict=True):
        core.register_forward_pre_hook(lambda _, inputs, factor=factor: (factor * inputs[0], *inputs[1:]))
    return copy


def _leads(model: Decoder, setting: RecallSetting) -> Array:
    """Return the lead at every query, over all prompts there are: (n,), float64."""
    import torch

    drawn = _every(setting)
    with torch.no_grad():
        scores = model(drawn.tokens().double())[:, setting.told :, setting.keys :]
    here = scores.gather(-1, drawn.values[:, None].expand(-1, setting.pairs, -1))  # (prompts, queries, pairs)
    right = here.gather(-1, drawn.asked[..., None])[..., 0]
    return np.asarray((right - here.mean(-1)).mean(0).numpy())


def _every(setting: RecallSetting) -> Sequences:
    """Return all prompts: every choice and order of keys, of values and of queries."""
    import torch

    from icl.recall import RecallTask, Sequences

    n = setting.pairs
    each = [list(permutations(range(count), n)) for count in (setting.keys, setting.values, n)]
    keys, values, asked = (torch.tensor(part) for part in zip(*product(*each), strict=True))
    return Sequences(RecallTask(**vars(setting)), keys, values, asked)


def _weights(model: Decoder, setting: RecallSetting) -> Weights:
    """Return a decoder's weights; those of heads that are not built are zero."""
    config, plan = model.config, model.plan
    heads, width, d = config.n_heads, config.width, config.d_model
    parameters = {name: x.detach().numpy() for name, x in model.named_parameters()}
    maps = {kind: np.zeros((2, heads, width, d)) for kind in ("query", "key", "value")}
    output = np.zeros((2, heads, d, width))
    for n in (1, 2):
        attention = f"layers.{n - 1}.attention"
        for kind, every in maps.items():
            there = [
                h - 1 for (letter, layer), hs in built(plan).items() if (letter, layer) == (kind[0], n) for h in hs
            ]
            if there:
                every[n - 1, there] = parameters[f"{attention}.projections.{kind}.weight"].reshape(-1, width, d)
        live = [h - 1 for h in plan.live(n)]
        output[n - 1, live] = parameters[f"{attention}.output.weight"].reshape(d, -1, width).transpose(1, 0, 2)
    codes, readout = parameters["stem.read_in.weight"].T, parameters["stem.head.weight"]
    keys = setting.keys
    return Weights(
        codes[:keys],
        codes[keys:],
        readout[keys:],
        query=maps["query"],
        key=maps["key"],
        value=maps["value"],
        output=output,
    )
