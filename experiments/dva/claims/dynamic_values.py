"""Claims on sections 3 and 7: the collapsed form of dynamic values, their abilities, and ways of adding them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from experiments.ledger.claim import Claim, Conditions, at
from experiments.toys.unjudged import OF_PARAMETERS
from theory.dva import collapse, forms
from theory.dva.collapse import Form, attended, collapsed, of_one_query, pair_numbers, pair_values
from theory.dva.cost import peak_numbers, products
from theory.dva.forms import alone_initial
from theory.dva.heads import alone
from theory.dva.paper import PAPER
from theory.dva.variants import dva_attention
from theory.plans import mix
from theory.plans.accounting import total_parameters
from theory.plans.architecture import Architecture
from theory.plans.names import resolve
from theory.plans.plan import Plan
from theory.plans.presets import gpt2

if TYPE_CHECKING:
    from theory.dva.cost import Way

Array = NDArray[np.float64]
ANY = "a layer of whatever queries, keys and values: what heads are given is looked at, not made"
OF_A_LAYER: Mapping[Callable[..., Any], str] = {
    **dict.fromkeys((mix.q, mix.k, mix.v, Plan.head, dva_attention), ANY),
    Architecture.has_feed_forward: "attention alone is looked at",
}
CLOSE = 1e-9
ROUNDING = 64 * np.finfo(float).eps
SIZES = ((1, 1), (1, 3), (4, 1), (5, 3), (7, 8))  # tokens and widths


def _draws(tokens: int, width: int) -> tuple[Array, ...]:
    rng = np.random.default_rng(tokens * 100 + width)
    shares = rng.standard_normal((tokens, tokens)) * rng.integers(0, 2, (tokens, tokens))
    return (shares, *rng.standard_normal((3, tokens, width)))


def _equal(a: Array, b: Array) -> bool:
    return bool(np.linalg.norm(a - b) <= ROUNDING * a.size * (1 + np.linalg.norm(a)))


REVISED = Claim(
    "dva.revised",
    PAPER.name,
    place="section 3.2, Eqns. (6) to (8): a value for each pair of query and key",
    statement="Dynamic values of the revised form are ordinary attention with the values [v ; k^R] and a gate that is "
    "linear in the query's token, whatever the weights are: masked, dropped out or not normalised.",
    assumes="one head; with several, each by itself",
    verdict="corrected",
    correction="No pair needs a value of its own: the T x T x w numbers collapse.  That saves no arithmetic, 3 T^2 w "
    "products either way with those of scores, but memory, and with it time.  For one query a dynamic head is an "
    "ordinary one with the value matrix V + diag(q^R) K^R.",
    proof=collapse,
    unjudged=OF_A_LAYER,
)


@REVISED.check(
    "sums over all pairs' values, weights of any sign, some of them 0; 1 to 7 tokens, widths of 1 to 8",
    states=lambda s, v, q, k: s @ v + q * (s @ k),
    control=lambda s, v, q, k: s @ (v + q * k),
    wrong="the gate of the key's token",
)
@REVISED.check(
    "sums over all pairs' values, weights of any sign, some of them 0; 1 to 7 tokens, widths of 1 to 8",
    states=lambda s, v, q, k: collapsed("revised", s, v, query=q, key=k),
    control=lambda s, v, q, k: collapsed("initial", s, v, query=q, key=k),
    wrong="the initial form",
)
def revised_collapses(form: Callable[[Array, Array, Array, Array], Array]) -> Conditions:
    for tokens, width in SIZES:
        s, v, q, k = _draws(tokens, width)
        yield _equal(attended(s, pair_values("revised", v, q, k)), form(s, v, q, k))


@REVISED.check(
    "what one query gets, by its own value matrix",
    states=of_one_query,
    control=lambda v, k, gate: v + k * (k.T @ gate)[None],
    wrong="a gate of the columns",
)
def one_query_has_a_value_matrix(matrix: Callable[[Array, Array, Array], Array]) -> Conditions:
    rng = np.random.default_rng(3)
    for width, d, tokens in ((1, 1, 1), (3, 5, 4), (4, 4, 7)):
        v, k, query = rng.standard_normal((3, width, d))
        x, s = rng.standard_normal((d, tokens)), rng.standard_normal((1, tokens))
        gate = query @ x[:, -1]
        found = attended(s, pair_values("revised", (v @ x).T, np.tile(gate, (tokens, 1)), (k @ x).T)[:1])
        yield _equal(found[0], matrix(v, k, gate) @ x @ s[0])


@REVISED.check(
    "a decoder's layer, softmax and linear, causal, grouped heads, against the sum over pairs",
    states="revised",
    control="initial",
    wrong="the initial form's pairs",
)
def decoders_are_the_sum(form: Any) -> Conditions:
    """Compare with `icl.models.attention.Core` in float64."""
    import torch

    from icl.models.attention import weights
    from icl.models.decoder import Decoder
    from icl.probes.recording import observed
    from theory.plans.architecture import Vectors
    from theory.plans.names import resolve

    for score in ("softmax", "linear"):
        config = Architecture(
            d_model=16, n_layers=1, n_heads=4, n_kv_heads=2, d_ff=0, context=5, stem=Vectors(3), score=score
        )
        model = Decoder(config, resolve("dva-attention", config.shape), std=0.5).double()
        (seen,) = observed(model, torch.randn(2, 5, 3).double(), attention=lambda at: at).attention.values()
        s = weights(seen.query, seen.keys[0].repeat_interleave(2, 1), seen.visible, None, linear=seen.linear)
        v, k = (x.repeat_interleave(2, 1).numpy() for x in (seen.values[0], seen.gates[1]))
        for b in range(2):
            for h in range(4):
                pairs = pair_values(form, v[b, h], seen.gates[0].numpy()[b, h], k[b, h])
                yield _equal(attended(s.numpy()[b, h], pairs), seen.out.numpy()[b, h])


REVISED_VALUES = "the revised form, of whose values only the number counts beside the initial one (dva.revised judges)"

INITIAL = Claim(
    "dva.initial",
    PAPER.name,
    place="section 3.1, Eqns. (3) to (5): a matrix for each pair; too costly to be feasible",
    statement="The initial form, v_j transformed by (q^R_i)^T k^R_j, collapses, too: to attention to k^R with weights "
    "s_ij <q^R_i, v_j>.",
    assumes="one head; the matrix acts on the row v_j, the text does not say from which side",
    verdict="corrected",
    correction="It needs no matrix and no value a pair, so it is feasible wherever attention is that makes all its "
    "weights.  But it costs more than the revised form: T^2 products for T w, beside 3 T^2 w, which is little; 6.5 T^2 "
    "numbers for 3 T^2 at the peak of both passes, beside what grows with T; and 2.4 times the time (1.9 to 3.0), on a "
    "CPU, with 2,048 tokens and width 32, or 1.4 times (1.3 to 1.5) where queries are taken in blocks (dva-collapse).  "
    "From the other side it is q^R_i times one number, and of little use.",
    proof=collapse,
    unjudged={
        at(pair_values, "v[None] + query[:, None] * key[None]"): REVISED_VALUES,
        at(pair_values, "query[:, None] * key[None]"): REVISED_VALUES,
    },
)


@INITIAL.check(
    "sums over all pairs' transformed values; 1 to 7 tokens, widths of 1 to 8",
    states=("initial", lambda s, v, q, k: (s * (q @ v.T)) @ k),
    control=("initial", lambda s, v, q, k: (s * (q @ k.T)) @ v),
    wrong="values and keys of the gate exchanged",
)
@INITIAL.check(
    "from the other side: the query's direction, times one number a query",
    states=("transposed", lambda s, v, q, k: q * (s @ (k * v).sum(1))[:, None]),
    control=("transposed", lambda s, v, q, k: (s * (q @ v.T)) @ k),
    wrong="the same from both sides",
)
def initial_collapses(version: tuple[Any, Callable[[Array, Array, Array, Array], Array]]) -> Conditions:
    form, law = version
    for tokens, width in SIZES:
        s, v, q, k = _draws(tokens, width)
        pairs = attended(s, pair_values(form, v, q, k))
        yield _equal(pairs, law(s, v, q, k)) and _equal(pairs, collapsed(form, s, v, query=q, key=k))


class _Product:
    """A number that counts the products it takes part in."""

    made = 0

    def __mul__(self, _other: object) -> _Product:
        _Product.made += 1
        return self

    def __add__(self, _other: object) -> _Product:
        return self

    __radd__ = __add__


@REVISED.check(
    "products counted one by one: with every pair's value, and collapsed",
    states=("revised", products),
    control=("revised", lambda form, way, *sizes: products(form, way, *sizes) // (1 + (way == "collapsed"))),
    wrong="the collapse saves half",
    kind="exact",
)
@INITIAL.check(
    "products counted one by one: with every pair's matrix, and collapsed",
    states=("initial", products),
    control=("initial", lambda _form, way, tokens, width: products("revised", way, tokens, width)),
    wrong="as many as of the revised form",
    kind="exact",
)
def products_of_both_ways(version: tuple[Any, Callable[[Any, Any, int, int], int]]) -> Conditions:
    form, law = version
    for tokens, width in SIZES:
        shares, values = (np.array([_Product()] * n, dtype=object) for n in (tokens**2, tokens * width))
        s, v = shares.reshape(tokens, tokens), values.reshape(tokens, width)
        ways: dict[Way, Callable[[], object]] = {
            "pairs": lambda s=s, v=v: attended(s, pair_values(form, v, v, v)),  # type: ignore[misc]
            "collapsed": lambda s=s, v=v: collapsed(form, s, v, query=v, key=v),  # type: ignore[misc]
        }
        for way, run in ways.items():
            _Product.made = 0
            run()
            yield law(form, way, tokens, width) == _Product.made + tokens**2 * width


@INITIAL.check(
    "numbers at the peak of both passes, measured: the initial form's and the revised one's, collapsed, over the pairs",
    states={"initial": 6.5, "revised": 3.0},
    control={"initial": 3.0, "revised": 3.0},
    wrong="as many of the initial form",
)
def numbers_at_the_peak(of_pairs: dict[Any, float]) -> Conditions:
    """Count at 256 tokens and width 4, beside what grows with tokens alone, the outputs' sum and its gradient."""
    from functools import partial

    import torch

    from experiments.dva.collapse import SIDES, attend, both_passes, causal, inputs
    from icl.probes.peak import peak_bytes

    tokens, width = 256, 4
    for form, pairs in of_pairs.items():
        run = partial(attend, SIDES[f"{form}, collapsed"], tokens, causal(tokens, "cpu"))
        peak = peak_bytes(partial(both_passes, run, inputs(1, tokens, width, device="cpu", dtype=torch.float32))) / 4
        formula = peak_numbers(form, "collapsed", tokens, width)
        yield peak - formula == 2
        yield abs(formula / tokens**2 - pairs) <= 10 * width / tokens


@INITIAL.check(
    "numbers that the sums over pairs hold beside their inputs, and the collapsed forms, by the arrays that are made",
    states=(1, 2, 0),
    control=(1, 1, 0),
    wrong="the initial form's matrices are as many numbers as the revised form's values",
    kind="exact",
)
def numbers_of_pairs(powers: tuple[int, int, int]) -> Conditions:
    """Compare both naive forms, and the collapsed one, with T^2 times the width to these powers."""
    for tokens, width in ((1, 2), (5, 3)):
        _, v, q, k = _draws(tokens, width)
        relation = q[:, None, :, None] * k[None, :, None, :]
        counted = (pair_values("revised", v, q, k).size, relation.size, (q @ v.T).size)
        formulas = (
            pair_numbers("revised", tokens, width, naive=True),
            pair_numbers("initial", tokens, width, naive=True),
            pair_numbers("initial", tokens, width, naive=False),
        )
        yield counted == formulas
        yield formulas == tuple(tokens**2 * width**power for power in powers)


POWERFUL = Claim(
    "dva.powerful",
    PAPER.name,
    place="section 3.2: the revised form shares the idea of the initial one, and is powerful",
    statement="The simpler form does what the initial one is for.",
    assumes="one head, no output matrix; powerful: which maps of tokens it makes; tokens free, or of one length",
    verdict="corrected",
    correction="Neither form makes what the other makes: of a token alone the revised one gives terms of degree 1 and "
    "2, the initial one of degree 3, and for one query the values of keys are linear in them in the one and quadratic "
    "in the other.  So the revised form is as good as the initial one by no theorem.  What it makes beyond ordinary "
    "heads, and what it does not, is dva.one-head's.",
    proof=forms,
    uses=("dva.one-head",),
)


def _degrees(along: np.ndarray) -> set[int]:
    """Return the degrees of a polynomial (at most 4, 0 at 0) from its values at 1 to 4 times a token."""
    times = np.arange(1.0, 5)
    coefficients = np.linalg.solve(times[:, None] ** np.arange(1, 5), along)
    return {degree for degree, row in enumerate(coefficients, 1) if np.abs(row).max() > CLOSE}


@POWERFUL.check(
    "degrees of what a token alone gets, random matrices",
    states={"revised": {1, 2}, "initial": {3}},
    control={"revised": {1, 2}, "initial": {1, 2}},
    wrong="the same of both",
)
def degrees_of_a_token_alone(degrees: dict[str, set[int]]) -> Conditions:
    made: dict[Form, Callable[[Array, Array, Array, Array], Array]] = {"revised": alone, "initial": alone_initial}
    rng = np.random.default_rng(24)
    for width, d in ((1, 1), (3, 2), (2, 5)):
        matrices, x = rng.standard_normal((3, width, d)), rng.standard_normal(d)
        value, query, key = matrices
        for form, of_a_token in made.items():
            yield _degrees(np.array([of_a_token(value, query, key, t * x) for t in range(1, 5)])) == degrees[form]
            pair = pair_values(form, *((m @ x)[None] for m in matrices))
            yield np.abs(attended(np.ones((1, 1)), pair)[0] - of_a_token(value, query, key, x)).max() <= CLOSE * 100


@POWERFUL.check(
    "of one length: the initial form has no part that is even in a token alone, and is linear there for Q^T V = c I, "
    "with this power of the length",
    states=2,
    control=0,
    wrong="whatever the length",
)
def on_tokens_of_one_length(power: int) -> Conditions:
    rng = np.random.default_rng(25)
    for d, length in ((2, 0.5), (3, 2.0)):
        value, query, key = rng.standard_normal((3, d, d))
        x = rng.standard_normal(d)
        x *= length / np.linalg.norm(x)
        even = alone_initial(value, query, key, x) + alone_initial(value, query, key, -x)
        yield np.abs(even).max() <= CLOSE
        yield np.abs(alone(value, query, key, x) + alone(value, query, key, -x)).max() >= CLOSE
        scaled = 3 * np.linalg.inv(query).T
        yield np.abs(alone_initial(scaled, query, key, x) - 3 * length**power * key @ x).max() <= CLOSE * 100


PLUG_IN = Claim(
    "dva.plug-in",
    PAPER.name,
    place="section 7: dynamic values as a plug-in for tuning, like LoRA",
    statement="Dynamic values can be added to the heads of a trained model.",
    assumes="the revised form; what a tuning so begun reaches is not asked",
    verdict="verified",
    proof=collapse,
    uses=("dva.revised",),
    unjudged={**OF_PARAMETERS, **OF_A_LAYER},
)


@PLUG_IN.check(
    "a head with Q^R = 0 gives what it gave without, and the slope of what it gives in q^R is s K^R: not 0 if K^R is "
    "not, so that training moves it",
    states=1.0,
    control=0.0,
    wrong="with K^R = 0, too, from where nothing moves",
)
def added_without_a_change(size: float) -> Conditions:
    rng = np.random.default_rng(26)
    for tokens, width in ((1, 1), (4, 3), (7, 2)):
        s = rng.dirichlet(np.ones(tokens), tokens)
        v, key, step = rng.standard_normal((3, tokens, width))
        before = collapsed("revised", s, v, query=0 * key, key=size * key)
        yield np.abs(before - s @ v).max() <= CLOSE
        moved = collapsed("revised", s, v, query=1e-3 * step, key=size * key) - before
        yield np.abs(moved - 1e-3 * step * (s @ key)).max() <= CLOSE


@PLUG_IN.check(
    "matrices of the model's width in a layer's attention and feed-forward, by the parameters that the accounting has: "
    "without, and with dynamic values; one and two layers, one head and three",
    states={"vanilla": 12, "dva-attention": 14},
    control={"vanilla": 12, "dva-attention": 13},
    wrong="the query's alone",
    kind="exact",
)
def what_it_adds(matrices: dict[str, int]) -> Conditions:
    """Count matrices beside two embeddings, positions, and the biases and norms of GPT-2's blocks."""
    for d, layers, heads in ((12, 1, 1), (12, 2, 3), (6, 2, 3)):
        sizes = gpt2(d_model=d, n_heads=heads, n_layers=layers, vocab=64, context=16, tied=False, qkv_bias=False)
        rest = (2 * 64 + 16) * d + layers * (6 * d + 4 * d) + 2 * d
        for name, count in matrices.items():
            yield total_parameters(sizes, resolve(name, sizes.shape)) == rest + layers * count * d * d
