"""Probes of hidden states: closed forms, the model's own answer, and what is planted in noise."""

import numpy as np
import pytest
import torch

from icl.probes.recording import observed
from icl.probes.states import LinearProbe, lens, state_norms, token_similarity
from tests.icl.probes.models import config_of, latent_of, model_of, tokens
from theory.errors import BadInput
from theory.plans.architecture import Vectors
from theory.resformer import measures

EXACT = 1e-13


def noise(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).double()


def test_similarities_of_known_states():
    """Equal directions 1; orthogonal ones 0; two opposite ones -1, and l of a regular simplex -1 / (l - 1)."""
    one = noise(1, 1, 5)
    assert abs(float(token_similarity(one * torch.tensor([1.0, 2.0, 7.0])[None, :, None])) - 1) < EXACT
    assert abs(float(token_similarity(torch.eye(4).double()[None]))) < EXACT
    assert abs(float(token_similarity(torch.cat([one, -3 * one], dim=1))) + 1) < EXACT
    simplex = (torch.eye(5) - 1 / 5).double()[None]
    assert abs(float(token_similarity(simplex)) + 1 / 4) < EXACT


@pytest.mark.parametrize("variant", ["vanilla", "attnres", "denseformer"])
def test_of_a_model_s_states(variant):
    found = observed(model_of(config_of(layers=3), variant), tokens(), state=lambda x: x).states
    assert len(found) == 4
    for states in found:
        rows = states.numpy()
        assert np.abs(state_norms(states).numpy() - np.linalg.norm(rows, axis=-1)).max() < EXACT * np.abs(rows).sum()
        for b in range(3):
            assert abs(float(token_similarity(states)[b]) - measures.token_similarity(rows[b])) < EXACT
            u = rows[b] / np.linalg.norm(rows[b], axis=-1, keepdims=True)
            assert abs(float(token_similarity(states)[b]) - (u @ u.T)[~np.eye(6, dtype=bool)].mean()) < EXACT


def test_a_similarity_of_nothing_is_refused():
    for states in (torch.ones(1, 1, 3), torch.zeros(1, 2, 3)):
        with pytest.raises(BadInput, match="two tokens"):
            token_similarity(states)


@pytest.mark.parametrize("variant", ["vanilla", "attnres-block", "resformer", "denseformer"])
@pytest.mark.parametrize("kind", ["tokens", "vectors", "latent"])
def test_the_lens_at_the_end_is_the_model_s_answer(variant, kind):
    config = config_of(layers=2, stem=Vectors(3)) if kind == "vectors" else config_of(layers=2)
    model = model_of(latent_of(config) if kind == "latent" else config, variant)
    inputs = noise(3, 6, 3) if kind == "vectors" else tokens()
    found = observed(model, inputs, state=lambda x: lens(model, x)).states
    assert torch.equal(found[-1], model(inputs))
    assert not torch.equal(found[0], model(inputs))


def test_a_linear_probe_finds_what_is_planted_and_nothing_in_noise():
    """R^2 = 1 and 0, held out; half of the variance where half is noise; one direction is constant."""
    d, k, batches = 5, 3, 8
    planted = noise(d, k, seed=1)
    left = {"planted": 0.0, "noise": 0.0, "half": 0.0}
    total = dict.fromkeys(left, 0.0)
    probes = {name: LinearProbe() for name in left}
    scales = torch.tensor([1e-6, 1.0, 1e6, 1.0, 1.0]).double()
    for batch in range(2 * batches):
        states = noise(50, 20, d, seed=2 + batch)
        states[..., 3] = 2.0
        signal, unrelated = 1 + (states - states[..., 3:4]) @ planted, noise(50, 20, k, seed=100 + batch)
        spread = (planted[[0, 1, 2, 4]].square().sum() / k).sqrt()
        targets = {"planted": signal, "noise": unrelated, "half": signal + spread * unrelated}
        for name, target in targets.items():
            if batch < batches:
                probes[name].fit(states * scales, target)
            else:
                rest, around = probes[name].residual(states * scales, target)
                left[name] += rest
                total[name] += around
    r2 = {name: 1 - left[name] / total[name] for name in left}
    samples = batches * 1000
    assert abs(r2["planted"] - 1) < 1e-9
    assert abs(r2["noise"]) < 10 * (d + 1) / samples  # what d + 1 fitted numbers cost, and its chance
    assert abs(r2["half"] - 0.5) < 5 / samples**0.5


def test_a_probe_that_was_not_fitted_is_refused():
    with pytest.raises(BadInput, match="fitted"):
        LinearProbe().map()
