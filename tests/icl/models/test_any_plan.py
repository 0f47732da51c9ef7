"""The decoder against a naive twin that reads any plan head by head, term by term, and pair by pair of tokens."""

from dataclasses import replace

import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from icl.models.decoder import Decoder
from icl.testing import check_identity, plans
from theory.plans.accounting import total_parameters
from theory.plans.architecture import Architecture, Tokens, misfits
from theory.plans.mix import Gated, Learned
from theory.plans.plan import Chain, DepthAttention, DepthAverage, Residual, built, learned_parameters
from theory.plans.streams import Gate, Streams, Wide

WIDTH, VOCAB, CONTEXT = 5, 7, 6
SIZES = Architecture(
    d_model=10, n_layers=1, n_heads=1, d_ff=6, context=CONTEXT, stem=Tokens(VOCAB), head_dim=WIDTH, positions="none"
)


def architecture(plan, group: int, positions: str = "none", score: str = "softmax") -> Architecture:
    config = replace(SIZES, n_layers=plan.shape.layers, n_heads=plan.shape.heads * group, n_kv_heads=plan.shape.heads)
    return replace(config, positions=positions, score=score)


def rms(x, gain, eps):
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt() * gain


class Naive:
    """One forward pass from a state dict and the plan's table; nothing of the decoder is used."""

    def __init__(self, model: Decoder, group: int) -> None:
        self.config, self.plan, self.group = model.config, model.plan, group
        self.w = {name: p.double() for name, p in model.state_dict().items()}
        self.places = {name: parameter.places for name, parameter in learned_parameters(model.plan).items()}
        self.exist = built(model.plan)
        self.sources = {}

    def __call__(self, tokens):
        outputs = [self.w["stem.embedding.weight"][tokens]]
        self.tokens = tokens
        if isinstance(self.plan.depth, Streams):
            return self.through_streams(outputs[0])
        states = [outputs[0]]  # DenseFormer's X_i
        stream = outputs[0]
        step = 0
        for n in range(1, self.config.n_layers + 1):
            for sublayer in (self.attention, self.feed_forward):
                out = sublayer(n, self.depth(step, outputs, stream))
                outputs.append(out)
                stream = stream + out
                step += 1
            if isinstance(self.plan.depth, DepthAverage):
                states.append(stream)
                a = self.w[f"depth.weights.{n - 1}"]
                stream = sum(a[i] * x for i, x in enumerate(states))
        last = self.depth(step, outputs, stream)
        return rms(last, self.w["norm.weight"], self.config.norm_eps) @ self.w["stem.head.weight"].T

    def through_streams(self, embedded):
        """Every stream is kept, and every sum made term by term."""
        rule, sublayers = self.plan.depth, [(n, f) for n in range(1, self.config.n_layers + 1) for f in "af"]
        streams = dict.fromkeys(range(1, rule.copies + 1), embedded)
        weights = {}
        for i, step in enumerate(rule.steps):
            for kind, named in (("weights", rule.learned[i]), ("wide", rule.wide[i])):
                rows = self.w.get(f"depth.{kind}.step_{i}", ())
                weights |= {weight.name: row for weight, row in zip(named, rows, strict=True)}
            gates = self.gates(step.gates, i, streams, weights) if step.gates else []

            reads = [self.total(terms, streams, gates, weights) for terms in step.reads]
            if i == len(sublayers):
                break
            n, kind = sublayers[i]
            out = self.attention(n, *reads) if kind == "a" else self.feed_forward(n, *reads)
            sources = {**streams, 0: out, -1: reads[0]}
            streams |= {stream: self.total(terms, sources, gates, weights) for stream, terms in step.writes}
        return rms(reads[0], self.w["norm.weight"], self.config.norm_eps) @ self.w["stem.head.weight"].T

    @staticmethod
    def total(terms, sources, gates, weights):
        def number(weight):
            if isinstance(weight, Gate):
                return gates[weight.place][..., None]
            return weights[weight.name] if isinstance(weight, Learned | Wide) else weight

        return sum(number(weight) * sources[stream] for weight, stream in terms)

    def gates(self, gates, i, streams, weights):
        offsets, found, eps = iter(self.w.get(f"depth.offsets.step_{i}", ())), {}, self.config.norm_eps
        passes = [[s] for s in gates.streams] if gates.one_by_one else [gates.streams]
        inputs = [torch.cat([streams[s] for s in each], -1) for each in passes]
        start = 0
        for group in gates.groups:
            starts = [[next(offsets) for _ in of] for of in (group.bias, group.base)]
            gain, scale = (weights[w.name] if isinstance(w, Learned) else w for w in (group.gain, group.scale))
            exponentials = []  # of every pass, for a softmax
            for p, x in enumerate(inputs):
                x = rms(x, 1, eps) if gates.normed else x
                if gates.hidden:
                    x = x @ self.w[f"depth.hidden.step_{i}"].T
                    x = x * (1 + torch.erf(x / 2**0.5)) / 2
                products = (x @ self.w[f"depth.map.step_{i}"].T)[..., start : start + group.count]
                here = slice(p * group.count, (p + 1) * group.count)
                values = self.formed(group, gain * products, starts[0][here])
                exponentials.append(torch.stack(values, -1).exp())
                for k, value in enumerate(values):
                    base = starts[1][here][k] if group.base else 0
                    found[p * gates.outputs + start + k] = scale * value + base
            if group.form == "softmax":
                for p, mine in enumerate(exponentials):
                    for k, share in enumerate((mine / sum(exponentials)).unbind(-1)):
                        base = starts[1][p * group.count + k] if group.base else 0
                        found[p * gates.outputs + start + k] = scale * share + base
            start += group.count
        return [found[k] for k in range(gates.count)]

    @staticmethod
    def formed(group, products, bias):
        x = products + torch.stack(bias) if bias else products
        if group.form == "sinkhorn":
            n = int(group.count**0.5)
            m = x.exp().unflatten(-1, (n, n))
            for _ in range(group.rounds):
                m = m / m.sum(-2, keepdim=True)
                m = m / m.sum(-1, keepdim=True)
            x = m.flatten(-2)
        forms = {"tanh": torch.tanh, "relu": lambda y: y.clamp(min=0), "sigmoid": lambda y: 1 / (1 + (-y).exp())}
        return forms.get(group.form, lambda y: y)(x).unbind(-1)

    def depth(self, step, outputs, stream):
        match self.plan.depth:
            case Residual() | DepthAverage():
                return stream
            case Chain():
                return outputs[-1]
            case DepthAttention(block=block, window=window) as rule:
                blocks = [sum(outputs[i : i + block]) for i in range(1, len(outputs), block)]
                v = [outputs[0], *(blocks if window is None else blocks[-window:])]
                return self.over_depth(rule, step, v)

    def over_depth(self, rule, step, v):
        size = v[0].shape[-1] // rule.heads
        parts = []
        for m in range(rule.heads):
            part = slice(m * size, (m + 1) * size)
            logits = torch.stack([self.logit(rule, step, x, v[-1], i, m, part) for i, x in enumerate(v)])
            weights = logits.exp() / logits.exp().sum(0) if rule.score == "softmax" else 1 / (1 + (-logits).exp())
            parts.append(sum(a[..., None] * x[..., part] for a, x in zip(weights, v, strict=True)))
        return torch.cat(parts, -1)

    def logit(self, rule, step, x, newest, i, m, part):
        if rule.query == "static":
            return self.w[f"depth.logits.{step}"][m, i].expand(x.shape[:2])
        query, eps = self.w["depth.query"][step], self.config.norm_eps
        if rule.query == "input":
            query = query + rms(newest, 1, eps) @ self.w["depth.matrix"][step].T
        key = rms(x, self.w["depth.gain"][step], eps) if rule.key_norm else x
        return (query * key)[..., part].sum(-1)

    def attention(self, n, *inputs):
        prefix = f"layers.{n - 1}.attention"
        inputs = inputs if len(inputs) > 1 else inputs * 3
        if any(
            layer == n and kind != "e" for kind, layer in self.exist
        ):  # else nothing reads this layer's input, and it has no norm
            inputs = [rms(x, self.w[f"{prefix}.norm.weight"], self.config.norm_eps) for x in inputs]
        for (kind, name), x in zip((("q", "query"), ("k", "key"), ("v", "value")), inputs, strict=True):
            for place, h in enumerate(self.exist.get((kind, n), ())):
                for g in range(self.group if kind == "q" else 1):
                    row = (place * (self.group if kind == "q" else 1) + g) * WIDTH
                    rows = self.w[f"{prefix}.projections.{name}.weight"][row : row + WIDTH]
                    self.sources[kind, n, h, g] = x @ rows.T
        for place, h in enumerate(self.exist.get(("e", n), ())):
            columns = slice(place * WIDTH, (place + 1) * WIDTH)
            self.sources["e", n, h, 0] = self.w[f"{prefix}.projections.table.weight"][self.tokens][..., columns]
        for place, h in enumerate(self.exist.get(("g", n), ())):
            row = self.w[f"{prefix}.projections.gate.weight"][place]
            self.sources["g", n, h, 0] = 1 / (1 + (-(inputs[2][..., : len(row)] @ row)[..., None]).exp())
        heads = []
        for place, h in enumerate(self.plan.live(n)):
            head = self.plan.head(n, h)
            for g in range(self.group):
                bias = torch.zeros(CONTEXT, CONTEXT)
                if self.config.positions == "bias":
                    bias = self.w[f"{prefix}.position_bias.scores"][place * self.group + g]
                query = self.mix(head.query, g)
                keys, values = ([self.mix(m) for m in side] for side in (head.keys, head.values))
                out = self.weighed(query, keys, values, bias)
                heads.append(out + self.mix(head.beside) if head.beside.terms else out)
        return torch.cat(heads, -1) @ self.w[f"{prefix}.output.weight"].T

    def mix(self, mix, g=0):
        return sum(self.weight(t.weight) * self.source(t.source, g) for t in mix.terms)

    def weight(self, weight):
        if isinstance(weight, Gated):
            return weight.offset + weight.slope * self.sources["g", weight.layer, weight.head, 0]
        if not isinstance(weight, Learned):
            return weight
        x = self.w[f"learned.w_{weight.name}"]
        x = x if weight.place is None else x[self.places[weight.name].index(weight.place)]
        return weight.offset + weight.slope * x

    def source(self, source, g):
        y = self.sources[source.kind, source.layer, source.head, g]
        for _ in range(source.shift):
            y = torch.cat([0 * y[:, :1], y[:, :-1]], dim=1)
        if source.where == "first":
            return torch.cat([y[:, :1], 0 * y[:, 1:]], dim=1)
        return torch.cat([0 * y[:, :1], y[:, 1:]], dim=1) if source.where == "later" else y

    def weighed(self, query, keys, values, bias):
        linear, rows = self.config.score == "linear", []
        for t in range(query.shape[1]):
            pairs = [(k[:, j], v[:, j], bias[t, j]) for k, v in zip(keys, values, strict=True) for j in range(t + 1)]
            products = [(query[:, t] * k).sum(-1) for k, _, _ in pairs]
            scores = [p / (1 if linear else WIDTH**0.5) + b for p, (_, _, b) in zip(products, pairs, strict=True)]
            weights = torch.stack(scores) if linear else torch.stack(scores).exp()
            total = sum(a[:, None] * v for a, (_, v, _) in zip(weights, pairs, strict=True))
            rows.append(total if linear else total / weights.sum(0)[:, None])
        return torch.stack(rows, dim=1)

    def feed_forward(self, n, x):
        prefix = f"layers.{n - 1}.feed_forward"
        x = rms(x, self.w[f"{prefix}.norm.weight"], self.config.norm_eps)
        gate, up, down = (self.w[f"{prefix}.{name}.weight"] for name in ("gate", "up", "down"))
        gated = x @ gate.T
        return (gated / (1 + (-gated).exp()) * (x @ up.T)) @ down.T


def compare(plan, group, batch, length, positions="none", score="softmax"):
    made = architecture(plan, group, positions, score)
    assert misfits(made, plan) == []
    model = Decoder(made, plan, seed=1, std=0.4).double()
    assert sum(p.numel() for p in model.parameters()) == total_parameters(made, plan)
    with torch.no_grad():
        for i, parameter in enumerate(model.parameters()):
            parameter += 0.2 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(i)).double()
    tokens = torch.randint(VOCAB, (batch, length), generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        out, expected = model(tokens), Naive(model, group)(tokens)
    # Up to three sources, two lists and four reads a layer enter one number; weights reach 2.
    check_identity(out, expected, terms=100 * plan.shape.layers * made.d_model)
    return out


@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(plans(), st.integers(1, 2), st.integers(1, 2), st.integers(1, 4))
@pytest.mark.long
def test_the_decoder_does_what_any_plan_says(plan, group, batch, length):
    compare(plan, group, batch, length)


@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(plans(), st.integers(1, 2), st.integers(1, 4), st.sampled_from(["softmax", "linear"]))
@pytest.mark.long
def test_the_decoder_does_what_any_plan_says_with_biases_of_positions(plan, group, length, score):
    compare(plan, group, 2, length, "bias", score)


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(plans(max_heads=2, streams=True), st.integers(1, 2), st.integers(1, 4))
@pytest.mark.long
def test_the_decoder_does_what_any_streams_say(plan, group, length):
    compare(plan, group, 2, length)


@pytest.mark.slow
@settings(max_examples=1500, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], deadline=None)
@given(plans(max_layers=5, max_heads=5), st.integers(1, 3), st.integers(1, 3), st.integers(1, CONTEXT))
def test_the_decoder_does_what_any_larger_plan_says(plan, group, batch, length):
    compare(plan, group, batch, length)


@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(plans(tables=True), st.integers(1, 2), st.integers(1, 4), st.sampled_from(["softmax", "linear"]))
@pytest.mark.long
def test_the_decoder_does_what_any_plan_says_with_tables_shifts_and_any_weight(plan, group, length, score):
    compare(plan, group, 2, length, score=score)


@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(plans(max_layers=2), st.data())
@pytest.mark.long
def test_a_changed_weight_is_noticed(plan, data):
    """The control: one fixed weight of one value is another one, and the two models differ."""
    n = plan.shape.layers
    h = data.draw(st.sampled_from(plan.live(n)))
    head = plan.head(n, h)
    first = head.values[0].terms[0]
    assume(not isinstance(first.weight, Learned))
    changed = replace(head.values[0], terms=(replace(first, weight=first.weight + 1), *head.values[0].terms[1:]))
    other = replace(head, values=(changed, *head.values[1:]))
    row = tuple(other if i == h else old for i, old in enumerate(plan.table[n - 1], 1))
    altered = replace(plan, table=(*plan.table[:-1], row))
    assert float((compare(plan, 1, 1, 3) - compare(altered, 1, 1, 3)).norm()) > 1e-9
