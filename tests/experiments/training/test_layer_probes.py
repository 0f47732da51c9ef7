"""Families of probes on models whose layers do what is known: uniform attention, copying, an induction head."""

import numpy as np
import pytest
import torch

from experiments.training.layer_probes import FAMILIES
from experiments.training.layers_probe import asked
from icl.probes.recording import observed
from icl.training.objectives import Batch
from tests.icl.probes.models import config_of, induction_model, model_of, tokens, uniform
from theory.plans.architecture import Vectors

EXACT = 1e-12


class NextToken:
    """A task's losses, in float64."""

    def losses(self, answer, targets):
        return torch.nn.functional.cross_entropy(answer.flatten(0, 1), targets.flatten(), reduction="none").view_as(
            targets
        )


def measured(name, model, batches):
    return FAMILIES[name].measure(model, NextToken(), batches)


def batches_of(count, length=6, vocab=7):
    drawn = [tokens(4, length + 1, seed) % vocab for seed in range(count)]
    return [Batch(each[:, :-1], each[:, 1:]) for each in drawn]


@pytest.mark.parametrize("variant", ["vanilla", "resformer", "svformer"])
def test_of_uniform_attention_all_is_what_is_said_of_it(variant):
    model, batches = uniform(variant, layers=3), batches_of(2)
    entropy, importance, heads, induction = (
        measured(name, model, batches) for name in ("entropy", "importance", "heads", "induction")
    )
    assert np.allclose(entropy["entropy"]["mean"], entropy["uniform"], rtol=EXACT)
    assert np.allclose(entropy["by_head"]["mean"], entropy["uniform"], rtol=EXACT)
    assert np.allclose(importance["by_position"]["mean"], importance["uniform"], rtol=EXACT)
    assert np.allclose(importance["first"]["mean"], importance["uniform"][0], rtol=EXACT)
    assert np.allclose(heads["cosine"]["mean"], 1, rtol=EXACT)
    for score in ("previous", "induction"):
        assert np.allclose(induction[f"best_{score}"]["mean"], induction[f"uniform_{score}"], rtol=EXACT)
    assert max(entropy["entropy"]["stderr"]) < EXACT


def test_without_a_mask_nothing_is_said_of_the_past():
    model = uniform(mask="none")
    assert measured("entropy", model, batches_of(2))["uniform"] is None
    assert measured("importance", model, batches_of(2))["uniform"] is None
    assert measured("induction", model, batches_of(2))["uniform_previous"] is None


def test_a_model_that_looks_back_by_hand():
    """Layer 1 copies the token before, which a linear probe finds from then on; layer 2 is an induction head."""
    vocab, length = 7, 6
    model = induction_model(vocab, length, 400.0)
    found = measured("induction", model, batches_of(2))
    assert found["best_previous"]["mean"][0] > 1 - 1e-9
    assert found["best_induction"]["mean"][1] > 1 - 1e-9
    assert found["best_induction"]["mean"][0] < 0.5
    lens = measured("lens", model, batches_of(60))
    assert lens["previous"][1] == pytest.approx(1, abs=1e-9)
    assert lens["previous"][2] == pytest.approx(1, abs=1e-9)
    assert abs(lens["previous"][0]) < 0.2  # of the token before, the token and its place say nothing
    assert measured("lens", model, batches_of(1))["previous"] is None


def test_means_of_pairs_and_ratios_to_the_others():
    """Against plain loops, over sequences one by one."""
    model, batches = model_of(config_of(layers=2, heads=3, d_model=12)), batches_of(2)
    heads, norms = measured("heads", model, batches), measured("norms", model, batches)
    for layer, matrix in enumerate(heads["matrix"]["mean"]):
        pairs = [matrix[g][h] for g in range(3) for h in range(3) if g != h]
        assert heads["cosine"]["mean"][layer] == pytest.approx(np.mean(pairs), rel=EXACT)
        assert np.mean(pairs) < 0.999
    states = [observed(model, batch.inputs, state=lambda x: x).states for batch in batches]
    for place in range(3):
        sizes = torch.cat([each[place] for each in states]).norm(dim=-1).numpy()
        ratios = [row[0] / np.mean(row[1:]) for row in sizes]
        assert norms["state_first"]["mean"][place] == pytest.approx(np.mean(ratios), rel=EXACT)
        assert norms["state_others"]["mean"][place] == pytest.approx(sizes[:, 1:].mean(), rel=EXACT)
        assert np.allclose(norms["state_by_position"]["mean"][place], sizes.mean(0), rtol=EXACT)
    assert norms["own_first"] == norms["value_first"]  # vanilla's


def test_how_many_directions_values_fill():
    """One token alone fills one; of equal eigenvalues all are filled; ResFormer's own are others than it attends to."""
    model, batches = model_of(config_of(layers=2), "resformer"), batches_of(2)
    found = measured("spectrum", model, batches)
    single = measured("spectrum", model, batches_of(2, length=1))
    assert single["participation"]["mean"] == pytest.approx([1, 1])
    eigenvalues = np.array(found["eigenvalues"]["mean"])
    assert found["sum"]["mean"] == pytest.approx(eigenvalues.sum(1))
    filled = np.array(found["participation"]["mean"])
    assert np.all((filled >= 1) & (filled <= 6))  # tokens
    assert found["own_participation"]["mean"][0] == found["participation"]["mean"][0]
    assert found["own_participation"]["mean"][1] != found["participation"]["mean"][1]


def test_a_training_is_asked_for_means_alone_and_goes_on_as_it_was():
    model, batches = model_of(config_of(layers=2)).train(), batches_of(2)
    found = asked(model, NextToken(), batches, ("entropy", "similarity"))
    assert model.training
    model.eval()
    whole = measured("entropy", model, batches)
    assert found["entropy"]["entropy"] == whole["entropy"]["mean"]
    assert found["entropy"]["uniform"] == whole["uniform"]
    assert set(found) == {"entropy", "similarity"}


def test_gradients_are_averaged_over_batches():
    model, batches = uniform(layers=2), batches_of(3)
    found = measured("gradients", model, batches)
    assert found["batches"] == 3
    one = [measured("gradients", model, [batch])["gradient"]["mean"] for batch in batches]
    assert np.allclose(found["gradient"]["mean"], np.mean(one, axis=0), rtol=EXACT)
    assert np.allclose(found["gradient"]["stderr"], np.std(one, axis=0, ddof=1) / 3**0.5, rtol=1e-9)
    assert all(parameter.grad is None for parameter in model.parameters())


def test_what_a_family_cannot_be_asked_of():
    plain = config_of()
    vectors, linear, single = config_of(stem=Vectors(3)), config_of(score="linear"), config_of(heads=1)
    assert not any(family.obstacle(plain) for family in FAMILIES.values())
    assert [name for name, family in FAMILIES.items() if family.obstacle(vectors)] == ["induction"]
    assert [name for name, f in FAMILIES.items() if f.obstacle(linear)] == ["entropy", "importance", "induction"]
    assert [name for name, family in FAMILIES.items() if family.obstacle(single)] == ["heads"]
