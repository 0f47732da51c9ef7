"""Families of probes on models whose layers do what is known: uniform attention, copying, induction; and samples."""

import json
import math

import numpy as np
import pytest
import torch

from experiments.store.folders import UserError
from experiments.training.by_layer import Average, Sample
from experiments.training.layer_probes import FAMILIES
from experiments.training.standard_probe import family_means
from icl.probes.recording import observed
from icl.prompts import RegressionTask
from icl.training.objectives import Batch, PromptTask
from tests.icl.probes.models import config_of, induction_model, model_of, tokens, uniform
from theory.plans.architecture import Vectors
from theory.plans.names import model as named

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
    assert measured("spectrum", model, batches_of(2, length=1))["participation"]["mean"] == pytest.approx([1, 1])
    assert found["sum"]["mean"] == pytest.approx(np.array(found["eigenvalues"]["mean"]).sum(1))
    filled = np.array(found["participation"]["mean"])
    assert np.all((filled >= 1) & (filled <= 6))  # tokens
    assert found["own_participation"]["mean"][0] == found["participation"]["mean"][0]
    assert found["own_participation"]["mean"][1] != found["participation"]["mean"][1]


def test_a_training_is_asked_for_means_alone_and_goes_on_as_it_was():
    model, batches = model_of(config_of(layers=2)).train(), batches_of(2)
    found = family_means(model, NextToken(), batches, ("entropy", "similarity"))
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
    def refused(variant="vanilla", **changes):
        config, plan = named(config_of(**changes), variant)
        return [name for name, family in FAMILIES.items() if family.obstacle(config, plan)]

    assert refused() == []
    assert refused(stem=Vectors(3)) == ["induction"]
    assert refused(score="linear") == ["entropy", "importance", "induction"]
    assert refused(heads=1) == ["heads"]
    assert refused(heads=1, group=2) == refused("skipv0", heads=2) == []


EVERY_KIND = ["skipv0", "skipv1", "svformer", "neutreno", "cross-layer", "attnres-block", "denseformer", "dva"]


@pytest.mark.parametrize(
    ("variant", "group"), [*((variant, group) for variant in EVERY_KIND for group in (1, 2)), ("mla", 1)]
)
def test_every_family_of_every_kind_of_plan(variant, group):
    """Finite numbers of every layer; SkipV0 has fewer heads after layer 1, of which one is compared with no other."""
    config, plan = named(config_of(layers=3, heads=4 // group, group=group, positions="rope"), variant)
    model, batches = model_of(config, plan, scale=0.3), batches_of(2)
    heads = [len(plan.live(n)) * config.group for n in (1, 2, 3)]
    for name, family in FAMILIES.items():
        assert family.obstacle(config, plan) == ""
        found = family.measure(model, NextToken(), batches)
        json.dumps(found, allow_nan=False)
        assert found["layers"] == [1, 2, 3]
        if name == "induction":
            assert [len(scores) for scores in found["previous"]["mean"]] == heads
            assert found["best_induction"]["mean"] == [max(scores) for scores in found["induction"]["mean"]]
        if name == "heads":
            assert found["attending"] == [n for n, count in enumerate(heads, 1) if count > 1]


def a_sink(first=1.0, peak=1.0, at=0):
    """Induction's two layers, but that all of layer 1 who can look at token `at`; others at the first token, a 0, whose
    value is `first` as long as the others', which are 1, and its place `peak` as long in the state.
    """
    vocab, length = 7, 6
    model = induction_model(vocab, length, 0.0)
    place = range(vocab, vocab + length)
    with torch.no_grad():
        projections = model.layers[0].attention.projections
        projections.query.weight[at, list(place)] = 1e4  # every place asks for that one's key
        projections.value.weight[0, place[0]] = (first - 1) / peak
        model.positions[0, place[0]] = peak
        model.stem.head.weight.zero_()
        model.stem.head.weight[range(vocab), range(vocab)] = SHARP
    batches = batches_of(3)
    for batch in batches:
        batch.inputs[:, 0] = 0
    return model, batches


SHARP = 3.0  # by what the head prefers a query's own token


@pytest.mark.parametrize(("first", "peak"), [(0.25, 4.0), (1.0, 1.0), (3.0, 0.5)])
def test_a_sink_set_by_hand(first, peak):
    """All that is said of it in closed form: drains, peaks, concentration, spectrum, similarity, and the logit lens."""
    model, batches = a_sink(first, peak)
    found = {name: measured(name, model, batches) for name in FAMILIES if name != "induction"}
    tokens = torch.cat([batch.inputs for batch in batches])
    assert found["entropy"]["entropy"]["mean"][0] == pytest.approx(0, abs=EXACT)
    assert found["importance"]["first"]["mean"][0] == pytest.approx(1, rel=EXACT)
    assert found["importance"]["by_position"]["mean"][0][1:] == pytest.approx([0] * 5, abs=EXACT)
    assert found["norms"]["value_first"]["mean"][0] == pytest.approx(first, rel=EXACT)
    assert found["norms"]["value_others"]["mean"][0] == pytest.approx(1, rel=EXACT)
    assert found["norms"]["state_first"]["mean"][0] == pytest.approx(((1 + peak**2) / 2) ** 0.5, rel=EXACT)
    assert found["norms"]["state_others"]["mean"][0] == pytest.approx(2**0.5, rel=EXACT)
    squares = torch.nn.functional.one_hot(tokens, 7).double()
    squares[:, 0] *= first**2
    frequencies = squares.mean(1).sort(descending=True).values  # values are orthogonal, and not centred
    assert np.allclose(np.array(found["spectrum"]["eigenvalues"]["mean"][0])[:7], frequencies.mean(0), atol=EXACT)
    shares = frequencies[:, 0] / frequencies.sum(-1)
    assert found["spectrum"]["share"]["mean"][0] == pytest.approx(float(shares.mean()), rel=EXACT)
    assert found["spectrum"]["largest"]["mean"][0] == pytest.approx(float(frequencies[:, 0].mean()), rel=EXACT)
    lengths = torch.tensor([(1 + peak**2) ** 0.5, *[2**0.5] * 5], dtype=torch.float64)
    equal = (tokens[:, :, None] == tokens[:, None, :]).double() / (lengths[:, None] * lengths)
    similar = (equal.sum((1, 2)) - equal.diagonal(dim1=1, dim2=2).sum(1)) / 30
    assert found["similarity"]["similarity"]["mean"][0] == pytest.approx(float(similar.mean()), rel=EXACT)
    targets = torch.cat([batch.targets for batch in batches])
    lens = math.log(math.exp(SHARP) + 6) - SHARP * float((tokens == targets).double().mean())
    assert found["lens"]["loss"]["mean"] == pytest.approx([lens] * 3, rel=EXACT)


def test_the_most_important_token_is_not_always_the_first():
    """The first query sees itself alone; all others look at the second token."""
    found = measured("importance", *a_sink(at=1))
    assert found["first"]["mean"][0] == pytest.approx(1 / 6, rel=EXACT)
    assert found["most"]["mean"][0] == pytest.approx(5 / 6, rel=EXACT)
    assert found["by_position"]["mean"][0] == pytest.approx([1 / 6, 5 / 6, 0, 0, 0, 0], abs=EXACT)


def test_own_values_are_told_from_those_attended_over():
    """ResFormer's: half of the layer's own and half of layer 1's."""
    model, batches = model_of(config_of(layers=3), "resformer"), batches_of(1)
    norms, spectrum = (measured(name, model, batches) for name in ("norms", "spectrum"))
    own = observed(model, batches[0].inputs, attention=lambda at: at.own_values).attention
    for n in (1, 2, 3):
        sizes = own[n].square().sum((1, 3)).sqrt().numpy()
        assert norms["own_others"]["mean"][n - 1] == pytest.approx(sizes[:, 1:].mean(), rel=EXACT)
        rows = own[n].transpose(1, 2).flatten(2).numpy()
        largest = [np.linalg.norm(each, 2) ** 2 / len(each) for each in rows]
        assert spectrum["own"]["mean"][n - 1] == pytest.approx(np.mean(largest), rel=EXACT)
        assert (norms["own_others"]["mean"][n - 1] == norms["value_others"]["mean"][n - 1]) == (n == 1)


class Along:
    """A loss that is linear in the answer: its product with one direction."""

    direction = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)

    def losses(self, answer, _):
        return answer @ self.direction


def test_gradients_of_linear_layers_in_closed_form():
    """Uniform attention, no norms, and a layer 2 that puts out nothing.

    The mean loss is <c, x + O V m> on average, m the mean of what a token sees, M that of m over all tokens: its
    gradients are c (V M)^T in O and O^T c M^T in V, and none in queries and keys.
    """
    config = config_of(heads=1, d_model=3, head_dim=2, d_ff=0, norm="none", stem=Vectors(3, read_in=False))
    model = model_of(config)
    with torch.no_grad():
        for layer in model.layers:
            layer.attention.projections.query.weight.zero_()
            layer.attention.projections.key.weight.zero_()
        model.layers[1].attention.output.weight.zero_()
    inputs = torch.randn(4, 6, 3, generator=torch.Generator().manual_seed(0)).double()
    found = FAMILIES["gradients"].measure(model, Along(), [Batch(inputs, inputs)])["gradient"]["mean"]
    c, expected, hidden = Along.direction, [], inputs
    for layer in model.layers:
        v, o = layer.attention.projections.value.weight.detach(), layer.attention.output.weight.detach()
        seen = hidden.cumsum(1) / torch.arange(1, 7)[:, None]
        mean = seen.mean((0, 1))
        expected.append(float((c.norm() * (v @ mean).norm()).hypot((o.T @ c).norm() * mean.norm())))
        hidden = hidden + seen @ (o @ v).T
    assert found == pytest.approx(expected, rel=EXACT)
    assert min(found) > 0.01


# Samples of held-out data, and means over batches of any size.

TWENTY = PromptTask(RegressionTask(2, 3, 0.1), 20, 10)  # of 7 tokens


@pytest.mark.parametrize("sizes", [(7,), (3, 4), (1, 1, 5), (1, 6)])
def test_an_average_is_that_of_all_however_they_come(sizes):
    """Also where the mean is large beside the spread."""
    values = 1e6 + torch.randn(7, 2, 3, generator=torch.Generator().manual_seed(0)).double()
    found = Average()
    for part in values.split(sizes):
        found.add(part)
    about = found.to_json()
    assert np.allclose(about["mean"], values.mean(0), rtol=1e-14)
    assert np.allclose(about["stderr"], values.std(0) / 7**0.5, rtol=1e-8)


@pytest.mark.parametrize(("tokens", "batch", "sizes"), [(35, 3, [3, 2]), (41, 0, [5]), (10**6, 8, [8, 2, 8, 2])])
def test_a_sample_is_the_first_of_the_held_out_sequences(tokens, batch, sizes):
    found = Sample(tokens, batch).batches(TWENTY, "cpu")
    assert [len(b.inputs) for b in found] == sizes
    whole = torch.cat([b.inputs for b in TWENTY.held_out()])
    assert torch.equal(torch.cat([b.inputs for b in found]), whole[: sum(sizes)])
    assert [len(b.targets) for b in found] == sizes


@pytest.mark.parametrize("tokens", [1, 7, 13])
def test_a_single_sequence_is_no_sample(tokens):
    with pytest.raises(UserError, match="two sequences or more"):
        Sample(tokens).batches(TWENTY, "cpu")
