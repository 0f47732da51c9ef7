"""Predicted costs of converting heads: by hand for one head, 0 where nothing is missed, of sets, and choices."""

from dataclasses import replace
from itertools import combinations

import pytest
import torch

from icl.conversion import convert
from icl.models.decoder import Decoder
from icl.probes.reader_costs import candidates, costs, greedy, with_heads
from icl.refitting import Moments, refitted
from icl.testing import check_identity
from tests.icl.models.small import ARCHITECTURES, GPT2, LLAMA, some_input
from tests.icl.test_conversion import read_from_layer_1, trained
from theory.errors import BadInput
from theory.plans.names import resolve
from theory.plans.plan import NOTHING, first, gate, later, plan, v

KINDS = {"llama": LLAMA, "gpt2": GPT2, "grouped": ARCHITECTURES["grouped"], "windowed": ARCHITECTURES["windowed"]}
EVERY_HEAD = "skipv1:ratio=1,sink=1"


def costs_of(config, variant=EVERY_HEAD, *, model=None, count=40, fitted=25, seed=0):
    model = model or trained(config)
    tokens = some_input(config, batch=count, length=config.context)
    chosen = resolve(variant, config.shape) if isinstance(variant, str) else variant
    return model, costs(model, chosen, tokens[:, :-1], targets=tokens[:, 1:], fitted=fitted, seed=seed)


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_the_gradient_times_what_the_best_linear_read_misses(kind):
    """Worked out from the outputs of a converted model's heads, one head at a time."""
    config = KINDS[kind]
    model, found = costs_of(config)
    tokens = some_input(config, batch=40, length=config.context)[:, :-1]
    cell = (2, 2)
    place = found.cells.index(cell)
    one = with_heads(resolve(EVERY_HEAD, config.shape), [cell])
    raw = convert(model, one, "first")
    reads = [inputs_of_output(model, tokens, 2), inputs_of_output(raw, tokens, 2)]
    output = model.layers[1]["attention"].output
    with torch.no_grad():
        target = output(reads[0])
    z = reads[1]
    z = torch.cat([z, torch.ones_like(z[..., :1])], -1) if config.bias else z
    moments = Moments()
    moments.add(z[:25].flatten(0, 1), target[:25].flatten(0, 1))
    (weight,) = moments.best(torch.zeros(config.d_model, z.shape[-1], dtype=z.dtype), (1e-6,))
    missed = target[25:] - z[25:] @ weight.mT
    generator, rows = torch.Generator().manual_seed(0), []
    for i in range(25, 40):
        hold = []
        hook = output.register_forward_hook(lambda _m, _a, out, hold=hold: hold.append(out))
        logs = model(tokens[i : i + 1])[0].float().log_softmax(-1)
        hook.remove()
        labels = torch.multinomial(logs.detach().exp(), 1, generator=generator)
        (gradient,) = torch.autograd.grad(-logs.gather(-1, labels).sum(), hold)
        rows.append((gradient[0] * missed[i - 25]).sum(-1))
    expected = torch.stack(rows)
    assert torch.allclose(found.missed[..., place], expected, rtol=1e-3, atol=1e-4 * float(expected.abs().max()))
    assert float(found.scores()[0][place]) == pytest.approx(float(expected.square().mean() / 2), rel=1e-3)


def inputs_of_output(model, tokens, layer):
    """What a layer's output projection reads, (count, T, heads * width)."""
    seen = []
    hook = model.layers[layer - 1]["attention"].output.register_forward_pre_hook(lambda _m, args: seen.append(args[0]))
    with torch.no_grad():
        model(tokens)
    hook.remove()
    return seen[0]


def test_what_is_read_exactly_costs_nothing():
    """Layer 2's values are maps of layer 1's where layer 1 adds nothing; layer 3's are not."""
    model = read_from_layer_1(trained(LLAMA))
    _, found = costs_of(LLAMA, "skipv1:ratio=1", model=model)
    scores, _ = found.scores()
    of_layer = {n: max(float(s) for s, (m, _) in zip(scores, found.cells, strict=True) if m == n) for n in (2, 3)}
    assert of_layer[2] < 1e-8 < 1e-4 < of_layer[3]
    assert {n for n, _ in found.chosen(4)} == {2}


@pytest.mark.long
def test_the_prediction_is_what_refitting_costs_when_it_is_small():
    """Values that nearly are maps of layer 1's: the loss for labels from the model rises by about what is predicted."""
    torch.manual_seed(0)
    config = replace(LLAMA, stem=replace(LLAMA.stem, vocab=11), n_layers=2)
    model = trained(config)
    with torch.no_grad():
        model.layers[0]["attention"].output.weight.mul_(0.02)
        model.layers[0]["feed_forward"].down.weight.mul_(0.05)
        model.layers[1]["attention"].norm.weight.copy_(model.layers[0]["attention"].norm.weight)
    chosen = with_heads(resolve("skipv1:ratio=1", config.shape), [(2, 1), (2, 3)])
    generator = torch.Generator().manual_seed(5)
    tokens = torch.randint(11, (500, 12), generator=generator)
    found = costs(model, resolve("skipv1:ratio=1", config.shape), tokens, targets=tokens, fitted=250)
    converted, _ = refitted(model, chosen, tokens[:250])
    with torch.no_grad():
        old, new = (m(tokens[250:]).log_softmax(-1) for m in (model, converted))
    rise = float((old.exp() * (old - new)).sum(-1).mean())
    predicted, error = found.of([(2, 1), (2, 3)])
    assert rise > 1e-6
    assert predicted == pytest.approx(rise, rel=0.5)
    assert error < 0.2 * predicted


def test_a_set_costs_half_the_sum_of_its_gram_matrix():
    _, found = costs_of(LLAMA)
    scores, errors = found.scores()
    check_identity(found.gram.diagonal() / 2, scores)
    for cells in ([found.cells[0]], list(found.cells[2:5]), list(found.cells)):
        places = [found.cells.index(cell) for cell in cells]
        assert found.of(cells)[0] == pytest.approx(float(found.gram[places][:, places].sum() / 2), rel=1e-9)
    assert found.of([found.cells[1]]) == pytest.approx((float(scores[1]), float(errors[1])), rel=1e-9)
    assert found.of([])[0] == 0


def test_greedy_takes_what_adds_least():
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(50, 6, generator=generator, dtype=torch.float64)
    gram = rows.mT @ rows
    taken = greedy(gram, 6)
    for count in range(1, 7):
        before, new = taken[: count - 1], taken[count - 1]
        others = [i for i in range(6) if i not in before]
        assert min(others, key=lambda i: float(gram[[*before, i]][:, [*before, i]].sum())) == new
    diagonal = torch.diag(torch.tensor([3.0, 1.0, 2.0, 5.0]))
    assert greedy(diagonal, 3) == [1, 2, 0]
    best = min(combinations(range(4), 2), key=lambda s: float(diagonal[list(s)][:, list(s)].sum()))
    assert set(best) == set(greedy(diagonal, 2))
    cancelling = torch.tensor([[1.0, 0.0, -0.9], [0.0, 1.1, 0.0], [-0.9, 0.0, 1.2]])
    assert greedy(cancelling, 2) == [0, 2]  # and not the two smallest
    with pytest.raises(BadInput, match="7 heads are to be chosen, and there are 6"):
        greedy(gram, 7)


def test_a_prediction_is_judged_on_other_sequences_than_it_was_chosen_on():
    _, found = costs_of(LLAMA)
    noise = torch.randn(found.missed.shape, generator=torch.Generator().manual_seed(1), dtype=found.missed.dtype)
    alike = replace(found, missed=noise)
    flattering, _ = alike.of(alike.chosen(3))
    honest, error = alike.predicted(3)
    assert flattering < honest
    assert honest == pytest.approx(1.5, abs=4 * error)
    assert found.predicted(len(found.cells))[0] == pytest.approx(found.of(found.cells)[0], rel=1e-9)


def test_the_model_is_left_as_it_was():
    model = trained(LLAMA)
    before = [(p.clone(), p.requires_grad, p.grad) for p in model.parameters()]
    hooks = sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())
    _, one = costs_of(LLAMA, model=model)
    _, same = costs_of(LLAMA, model=model)
    _, other = costs_of(LLAMA, model=model, seed=1)
    assert torch.equal(one.missed, same.missed)
    assert not torch.equal(one.missed, other.missed)
    for p, (value, wants, grad) in zip(model.parameters(), before, strict=True):
        assert torch.equal(p, value)
        assert p.requires_grad == wants
        assert p.grad is grad
    assert hooks == sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())
    tokens = some_input(LLAMA, batch=40, length=12)
    with torch.no_grad():
        logs = model(tokens[25:, :-1]).float().log_softmax(-1)
    own = -logs.gather(-1, tokens[25:, 1:, None])[..., 0].mean(-1)
    assert torch.allclose(one.losses, own.double(), rtol=1e-5)


def test_heads_that_are_left_out_are_candidates_too():
    _, found = costs_of(LLAMA, "skipv0")
    assert found.cells == ((2, 3), (2, 4), (3, 3), (3, 4))
    assert bool((found.scores()[0] > 0).all())


def test_candidates_are_what_a_plan_converts():
    shape = LLAMA.shape
    assert candidates(resolve("skipv1", shape)) == ((2, 3), (2, 4), (3, 3), (3, 4))
    assert len(candidates(resolve(EVERY_HEAD, shape))) == 8
    chosen = with_heads(resolve(EVERY_HEAD, shape), [(2, 1), (3, 4)])
    assert candidates(chosen) == ((2, 1), (3, 4))
    assert chosen.head(2, 1).values == (later(v(1, 1)) + first(v(2, 1)),)
    assert chosen.head(2, 2).values == (v(2, 2),)
    assert with_heads(resolve("skipv0", shape), [(2, 3)]).head(2, 3).live is False


@pytest.mark.parametrize(
    ("config", "variant", "says"),
    [
        (LLAMA, "vanilla", "converts no head"),
        (LLAMA, "shared-keys", "change values alone"),
        (LLAMA, "attnres", "change values alone"),
        (LLAMA, "resformer-learned", "fixed weights"),
        (LLAMA, plan(LLAMA.shape, values=lambda n, h: gate(n, h) * v(n, h)), "fixed weights"),
        (LLAMA, plan(LLAMA.shape, beside=lambda n, h: v(1, h) if n > 1 else NOTHING), "change values alone"),
        (ARCHITECTURES["latent"], "skipv1", "no latent"),
        (ARCHITECTURES["pairs"], "skipv1", "no pairs"),
        (replace(LLAMA, output_gate="head"), "skipv1", "without a gate"),
    ],
)
def test_refusals(config, variant, says):
    with pytest.raises(BadInput, match=says):
        costs_of(config, variant)


def test_other_refusals():
    with pytest.raises(BadInput, match="some must be fitted on and others not"):
        costs_of(LLAMA, fitted=40)
    with pytest.raises(BadInput, match="only a vanilla model"):
        costs_of(LLAMA, model=Decoder(LLAMA, resolve("skipv1", LLAMA.shape)).eval())
