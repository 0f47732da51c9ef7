"""The probe of `attnres-dilution`: ranges against theory's, and networks that reach their ends."""

from dataclasses import replace
from math import sqrt

import pytest
import torch

from experiments.attnres.dilution.points import BLOCK, FULL, RULES
from experiments.attnres.dilution.probe import probe
from icl.models.decoder import Decoder
from icl.training.objectives import Batch
from theory.attnres.dilution import share_range
from theory.plans.names import resolve
from theory.plans.presets import llama

SIZES = llama(d_model=8, n_heads=2, n_layers=3, d_ff=12, vocab=16, context=6)


class Given:
    def held_out(self):
        inputs = torch.arange(24).view(4, 6) * 7 % 16
        return iter([Batch(inputs, inputs)])


def probed(rule, query=0.0, seed=0, **changes):
    """Of a decoder whose queries over depth, or averages, are moved by normal numbers of this size."""
    sizes = replace(SIZES, **changes)
    model = Decoder(sizes, resolve(rule, sizes.shape), seed=seed, std=0.3)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.startswith("depth."):
                parameter += query * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(seed))
    found = probe(model, Given(), "cpu")
    assert model.training
    return found


@pytest.mark.parametrize("rule", [FULL, BLOCK, "attnres-block:size=3"])
@pytest.mark.parametrize("query", [0.1, 1.0, 5.0])
def test_shares_stay_in_the_range_of_their_queries(rule, query):
    found = probed(rule, query)
    assert len(found["needed"]) == len(found["lengths"]) == 7
    assert all(needed <= length for needed, length in zip(found["needed"], found["lengths"], strict=True))
    assert max(found["needed"]) > max(found["lengths"]) / sqrt(8)  # a normed key is longer than 1
    assert found["spare"] >= 0
    assert found["error"] < 1e-5


def test_a_query_along_one_source_and_against_the_other_takes_all_of_its_length():
    """Read 1, of a model of one token whose attention puts out the opposite of the embedding."""
    sizes = replace(SIZES, n_heads=1, n_layers=1, norm_eps=0.0)
    model = Decoder(sizes, resolve(FULL, sizes.shape)).double()
    embedding = torch.randn(8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    with torch.no_grad():
        model.stem.embedding.weight.copy_(embedding.expand(16, 8))
        attention = model.sublayers[0]
        attention.projections.value.weight.copy_(torch.eye(8))
        attention.output.weight.copy_(-3 * torch.eye(8))
        model.depth.query[1] = 0.7 * embedding / embedding.norm()
    found = probe(model, Given(), "cpu")
    assert found["lengths"][1] == pytest.approx(0.7)
    assert found["needed"][1] == pytest.approx(0.7)
    assert found["coefficient"]["embedding"][1] == pytest.approx(share_range([1, 1], 0, 0.7, 8)[1], rel=1e-6)


@pytest.mark.parametrize("rule", RULES)
def test_at_the_start_shares_are_prenorm_s_and_with_other_queries_not(rule):
    assert probed(rule)["from_prenorm"] < 1e-12
    moved = probed(rule, 1.0)["from_prenorm"]
    assert moved == 0 if rule == "vanilla" else moved > 0.05


def test_eps_breaks_that_and_the_probe_looks_at_eps_0():
    prenorm, full = (probed(rule, norm_eps=1.0) for rule in ("vanilla", FULL))
    assert full["from_prenorm"] < 1e-12
    assert abs(full["effective"][-1] - prenorm["effective"][-1]) > 0.01


def test_what_is_kept():
    found = probed(BLOCK, 1.0)
    for kind in ("coefficient", "projection", "square"):
        of = found[kind]
        assert len(of["newest"]) == len(of["embedding"]) == len(of["last"]) == 7
        assert (of["last"][0], of["last"][-1]) == (of["embedding"][-1], of["newest"][-1])
        assert sum(of["last"]) == pytest.approx(1, abs=1e-5)
    vanilla = probed("vanilla")
    assert vanilla["coefficient"]["newest"] == pytest.approx([1 / n for n in range(1, 8)], rel=1e-6)
    assert (vanilla["needed"], vanilla["spare"], vanilla["lengths"]) == (None, None, None)


def test_no_rounding_is_known_where_nothing_bounds_the_logits():
    assert probed("attnres-no-key-norm", 1.0)["error"] is None
    assert probed("denseformer", 1.0)["error"] < 1e-5
