"""`trained-layers`: measures against models of which they are known, and verdicts that turn with what they judge."""

import pytest
import torch

from experiments.across import trained_layers
from experiments.across.trained_layers import EXPERIMENT, SMOKE, by_layer, slopes
from icl.models.decoder import Decoder
from theory.plans.names import resolve

CONFIG = SMOKE.models["small"].architecture
SIGNS = {"entropy": -1.0, "first": 0.2, "value": 0.3, "state": 5.0, "current": 0.9, "identity": 0.5}


def decoder():
    return Decoder(CONFIG, resolve("vanilla", CONFIG.shape), seed=0, std=0.2).eval().double()


def rows(count=2, length=12):
    return torch.randint(CONFIG.stem.vocab, (count, length + 1), generator=torch.Generator().manual_seed(1))


def test_slopes_are_those_of_the_loss():
    """Against differences of losses of models that attend over V_n + w V_1, all layers at once."""
    model, text, step = decoder(), rows(), 1e-4
    losses, found = slopes(model, text)
    ends = []
    for weight in (-step, step):
        plan = resolve(f"resformer-constant:weight={weight}", CONFIG.shape)
        mixed = Decoder(CONFIG, plan, seed=0).eval().double()
        mixed.load_state_dict(model.state_dict())
        ends.append(torch.tensor(plain_losses(mixed, text), dtype=torch.float64))
    difference = (ends[1] - ends[0]) / (2 * step)
    assert [sum(row) for row in found] == pytest.approx(difference.tolist(), rel=1e-5, abs=1e-9)
    assert losses == pytest.approx(plain_losses(model, text), rel=1e-9)
    assert all(p.requires_grad for p in model.parameters())


def plain_losses(model, text):
    with torch.no_grad():
        return [float(torch.nn.functional.cross_entropy(model(row[None, :-1])[0], row[1:])) for row in text]


def test_uniform_attention_is_at_the_ceiling():
    model = decoder()
    with torch.no_grad():
        for attention in model.attentions:
            attention.projections.get_submodule("query").weight.zero_()
    found = by_layer(model, rows()[:, :-1])
    for part in ("entropy", "first"):
        assert max(abs(x) for row in found[part] for x in row) < 1e-9
    assert min(min(row) for row in by_layer(decoder(), rows()[:, :-1])["entropy"]) < -1e-3
    assert len(found["current"][0]) == CONFIG.n_layers - 1
    assert len(found["state"][0]) == CONFIG.n_layers + 1


def line(**changes):
    values = SIGNS | changes
    added = [-0.01, -0.02, -0.015, -0.012]
    parts = {part: [value + 0.01 * k for k in range(4)] for part, value in values.items()}
    return {"small/0": {"sequences": {**parts, trained_layers.SLOPE: added}}}


def verdicts(measurement):
    return {one.id.split("/")[0]: one.verdict for one in EXPERIMENT.compare(EXPERIMENT.predict(SMOKE), measurement)}


def test_what_the_paper_says_agrees():
    assert set(verdicts(line()).values()) == {"agrees"}


@pytest.mark.parametrize(
    "changes", [{"entropy": 1.0}, {"first": -0.2}, {"value": 1.5}, {"state": 0.1}, {"current": 0.1}]
)
def test_the_other_side_contradicts(changes):
    found = verdicts(line(**changes))
    assert {part for part, verdict in found.items() if verdict == "contradicts"} == set(changes)
