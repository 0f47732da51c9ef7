"""`resformer-mapping`: its probe against plain sums and known cases, and verdicts that turn with what they judge."""

import json
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from experiments import catalogue
from experiments.resformer.mapping.points import CURRENT, EVEN, IDENTITY, MAPPINGS, OTHER_TEXT, PRINTED, SOURCES, pair
from experiments.resformer.mapping.probe import NAME as PROBE
from experiments.resformer.mapping.probe import compare, probe
from experiments.training import probes
from experiments.verdicts.intervals import quantile
from icl.probes.recording import Attended, observed
from icl.training.objectives import Batch
from tests.icl.probes.models import config_of, model_of, tokens
from theory.resformer import blocks

NAME = "resformer-mapping"
RESULTS = Path(__file__).resolve().parents[3] / "results" / NAME


def attended(model, inputs):
    """Every layer's attention, first to last."""
    return list(observed(model, inputs, attention=lambda at: at).attention.values())


def small(**changes):
    return model_of(config_of(layers=3, heads=2, group=2, positions="rope", **changes))


def by_hand(at: Attended, other: Attended, b: int, h: int):
    """Scores of both layers' keys, (T, T) each and -inf where hidden, and both layers' values, for one head."""
    g = h // (at.query.shape[1] // at.keys[0].shape[1])
    query = at.query[b, h].numpy()
    hidden = np.triu(np.ones((at.tokens, at.tokens), bool), 1)
    keys, values = (
        [x[b, g].numpy() for x in pair] for pair in ((at.keys[0], other.keys[0]), (at.values[0], other.values[0]))
    )
    scores = [np.where(hidden, -np.inf, query @ key.T / query.shape[-1] ** 0.5) for key in keys]
    return scores, values


@pytest.mark.parametrize("source", [0, 1])
def test_a_layer_compared_is_what_plain_sums_say(source):
    """Head by head, with grouped queries and rotary positions."""
    layers = attended(small(), tokens())
    at, other = layers[2], layers[source]
    mean = torch.stack([layers[0].values[0], layers[1].values[0]]).mean(0)
    found = compare(at, other.keys[0], other.values[0], mean)
    batch, heads = at.query.shape[:2]
    outputs = {name: np.zeros((batch, at.tokens, heads, at.values[0].shape[-1])) for name in ("true", *found.cosine)}
    rows = {name: [] for name in found.rows}
    for b in range(batch):
        for h in range(heads):
            scores, values = by_hand(at, other, b, h)
            own = blocks.attention(scores[0], values[0])
            even = np.tril(np.ones_like(scores[0])) / np.arange(1, at.tokens + 1)[:, None]
            roll, _ = by_hand(
                replace(at, keys=(at.keys[0].clone(),)), replace(other, keys=(other.keys[0].roll(1, 0),)), b, h
            )
            outputs["true"][b, :, h] = blocks.cross_layer_attention(scores, values)
            outputs[CURRENT][b, :, h] = outputs["true"][b, :, h] - blocks.block_error(scores, values)
            outputs[IDENTITY][b, :, h] = own + values[1]
            outputs[EVEN][b, :, h] = own + even @ values[1]
            outputs[PRINTED][b, :, h] = own + mean[b, h // 2].numpy()
            outputs[OTHER_TEXT][b, :, h] = blocks.cross_layer_attention(roll, values)
            for i in range(at.tokens):
                seen = slice(i + 1)
                moves = scores[1][i, seen] - scores[0][i, seen]
                weights = np.exp(scores[0][i, seen]) / np.exp(scores[0][i, seen]).sum() / 2
                both, moved = np.append(weights, weights), np.append(0 * moves, moves)
                true = both * np.exp(moved) / (both * np.exp(moved)).sum()
                rows["eps"].append(np.abs(moves).max())
                rows["variation"].append(np.abs(true - both).sum() / 2)
                rows["gate"].append(true[: i + 1].sum())
                rows["mean"].append(blocks.mean_bound(both[None], moved[None])[0])
                rows["largest"].append(blocks.block_form_share(rows["eps"][-1]))
    merged = {name: torch.from_numpy(out).flatten(2) for name, out in outputs.items()}
    for name, cosine in found.cosine.items():
        left, right = (CURRENT, OTHER_TEXT) if name == OTHER_TEXT else (name, "true")
        assert cosine == pytest.approx(
            float(torch.cosine_similarity(merged[left], merged[right], dim=-1).mean()), abs=1e-12
        )
    for name, row in found.rows.items():
        assert row == pytest.approx(np.array(rows[name]), abs=1e-8)
    assert found.gated < 1e-12 < found.ungated
    assert found.of_itself == pytest.approx(1, abs=1e-12)
    assert found.moves[2] == pytest.approx(max(rows["eps"]), rel=1e-9)


def test_with_one_s_own_keys_nothing_moves():
    """K_m = K_n: Eqn. (3) is cross-layer attention, g = 1/2, no score moves, and both bounds are zero."""
    at = attended(small(), tokens())[1]
    values = torch.randn(at.values[0].shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    found = compare(at, at.keys[0], values, values)
    assert found.cosine[CURRENT] == pytest.approx(1, abs=1e-12)
    assert found.cosine[IDENTITY] < 0.99
    assert found.rows["gate"] == pytest.approx(np.full(found.rows["gate"].shape, 0.5))
    for name in ("eps", "variation", "mean", "largest"):
        assert found.rows[name] == pytest.approx(np.zeros(found.rows[name].shape), abs=1e-7)


def test_even_attention_is_its_own_mapping():
    """Without queries all weights are even: Eqn. (3), even attention and cross-layer attention are one."""
    layers = attended(small(), tokens())
    at, other = replace(layers[1], query=0 * layers[1].query), layers[0]
    found = compare(at, other.keys[0], other.values[0], other.values[0])
    assert [found.cosine[name] for name in (CURRENT, EVEN, OTHER_TEXT)] == pytest.approx([1, 1, 1], abs=1e-12)


class Held:
    """A task with two batches of held-out text."""

    def held_out(self):
        for seed in range(3):
            text = tokens(batch=4, seed=seed)
            yield Batch(text, text)


def test_the_probe_tells_of_every_layer_but_the_first_and_is_found_by_name():
    assert probes.probe(PROBE) is probe
    model = small().train()
    told = probe(model, Held(), "cpu")
    assert model.training
    assert set(told["pairs"]) == {pair(layer, source) for layer in (2, 3) for source in SOURCES}
    json.dumps(told, allow_nan=False)
    assert told["pairs"]["previous/2"] == told["pairs"]["first/2"]  # layer 1 is the layer before
    for one in told["pairs"].values():
        assert set(MAPPINGS) <= set(one["cosine"])
        assert max(one["worst"].values()) <= 1 + 1e-6
        assert np.mean(one["halves"]) == pytest.approx(one["cosine"][CURRENT])
    rows = [row for source in SOURCES for row in told["by_move"][source]]
    assert rows
    assert all(row["low"] <= row["middle"] <= row["high"] <= blocks.block_form_share(2 * row["eps"]) for row in rows)


def test_verdicts_turn_with_what_they_judge():
    """The committed measurements, with one number changed at a time."""
    experiment = catalogue.experiment(NAME)
    prediction, measurement = (json.loads((RESULTS / f"{x}.json").read_text()) for x in ("prediction", "measurement"))

    def verdict(name, change=lambda told: None):
        altered = deepcopy(measurement)
        for seed in altered["probed"]["end"]:
            for told in seed["pairs"].values():
                change(told)
        (found,) = (c for c in experiment.compare(prediction, altered) if c.id == name)
        return found.verdict

    assert [verdict(f"{name}/end") for name in ("gate", "itself", "largest", "mean")] == ["pass"] * 4
    assert verdict("gate/end", lambda told: told.update(gated=1e-6)) == "fail"
    assert verdict("itself/end", lambda told: told.update(of_itself=0.999)) == "fail"
    for name in ("largest", "mean"):
        assert verdict(f"{name}/end", lambda told, name=name: told["worst"].update({name: 1.001})) == "fail"
    nearer = f"nearer/previous/{IDENTITY}"

    def far(told):
        told["cosine"][CURRENT] -= 0.9

    assert verdict(nearer, far) == "contradicts"
    assert verdict(nearer, lambda told: told["cosine"].update({IDENTITY: told["cosine"][CURRENT]})) == "inconclusive"


def test_intervals_hold_for_all_mappings_of_both_sources_at_once():
    """As the rule says that is stored with a prediction."""
    assert "family-wise" in json.loads((RESULTS / "prediction.json").read_text())["rule"]
    checks = json.loads((RESULTS / "summary.json").read_text())["checks"]
    nearer = [check for check in checks if check["id"].startswith("nearer/")]
    in_mean = [check for check in nearer if check["id"].count("/") == 2]
    by_layer = [check for check in nearer if check["id"].count("/") == 3]
    for family in (in_mean, by_layer):
        assert len(family) == 8
        for check in family:
            assert check["tolerance"] == pytest.approx(quantile(1 - 0.025 / 8, 3) * check["stderr"])
