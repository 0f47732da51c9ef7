"""Claims on what the revised form of dynamic values can do, beside the initial one and beside no dynamic values."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from experiments.dva.claims.collapse import OF_A_LAYER
from experiments.ledger.claim import Claim
from experiments.toys.unjudged import OF_PARAMETERS
from theory.dva import collapse, forms
from theory.dva.collapse import Form, attended, collapsed, pair_values
from theory.dva.forms import alone_initial
from theory.dva.heads import alone
from theory.dva.paper import PAPER
from theory.plans.accounting import total_parameters
from theory.plans.names import resolve
from theory.plans.presets import gpt2

CLOSE = 1e-9
Array = NDArray[np.float64]

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
    """Of a polynomial of degree 4 at most, 0 at 0, from its values at 1 to 4 times a token."""
    times = np.arange(1.0, 5)
    coefficients = np.linalg.solve(times[:, None] ** np.arange(1, 5), along)
    return {degree for degree, row in enumerate(coefficients, 1) if np.abs(row).max() > CLOSE}


@POWERFUL.check(
    "degrees of what a token alone gets, random matrices",
    states={"revised": {1, 2}, "initial": {3}},
    control={"revised": {1, 2}, "initial": {1, 2}},
    wrong="the same of both",
)
def degrees_of_a_token_alone(degrees: dict[str, set[int]]) -> bool:
    made: dict[Form, Callable[[Array, Array, Array, Array], Array]] = {"revised": alone, "initial": alone_initial}
    rng = np.random.default_rng(24)
    for width, d in ((1, 1), (3, 2), (2, 5)):
        matrices, x = rng.standard_normal((3, width, d)), rng.standard_normal(d)
        value, query, key = matrices
        for form, of_a_token in made.items():
            if _degrees(np.array([of_a_token(value, query, key, t * x) for t in range(1, 5)])) != degrees[form]:
                return False
            pair = pair_values(form, *((m @ x)[None] for m in matrices))
            if np.abs(attended(np.ones((1, 1)), pair)[0] - of_a_token(value, query, key, x)).max() > CLOSE * 100:
                return False
    return True


@POWERFUL.check(
    "of one length: the initial form has no part that is even in a token alone, and is linear there for Q^T V = c I, "
    "with this power of the length",
    states=2,
    control=0,
    wrong="whatever the length",
)
def on_tokens_of_one_length(power: int) -> bool:
    rng = np.random.default_rng(25)
    for d, length in ((2, 0.5), (3, 2.0)):
        value, query, key = rng.standard_normal((3, d, d))
        x = rng.standard_normal(d)
        x *= length / np.linalg.norm(x)
        even = alone_initial(value, query, key, x) + alone_initial(value, query, key, -x)
        if (
            np.abs(even).max() > CLOSE
            or np.abs(alone(value, query, key, x) + alone(value, query, key, -x)).max() < CLOSE
        ):
            return False
        scaled = 3 * np.linalg.inv(query).T
        if np.abs(alone_initial(scaled, query, key, x) - 3 * length**power * key @ x).max() > CLOSE * 100:
            return False
    return True


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
def added_without_a_change(size: float) -> bool:
    rng = np.random.default_rng(26)
    for tokens, width in ((1, 1), (4, 3), (7, 2)):
        s = rng.dirichlet(np.ones(tokens), tokens)
        v, key, step = rng.standard_normal((3, tokens, width))
        before = collapsed("revised", s, v, 0 * key, size * key)
        if np.abs(before - s @ v).max() > CLOSE:
            return False
        moved = collapsed("revised", s, v, 1e-3 * step, size * key) - before
        if np.abs(moved - 1e-3 * step * (s @ key)).max() > CLOSE:
            return False
    return True


@PLUG_IN.check(
    "matrices of the model's width in a layer's attention and feed-forward, by the parameters that the accounting has: "
    "without, and with dynamic values; one and two layers, one head and three",
    states={"vanilla": 12, "dva-attention": 14},
    control={"vanilla": 12, "dva-attention": 13},
    wrong="the query's alone",
    kind="exact",
)
def what_it_adds(matrices: dict[str, int]) -> bool:
    """Beside two embeddings, positions, and the biases and norms of GPT-2's blocks."""
    for d, layers, heads in ((12, 1, 1), (12, 2, 3), (6, 2, 3)):
        sizes = gpt2(d_model=d, n_heads=heads, n_layers=layers, vocab=64, context=16, tied=False, qkv_bias=False)
        rest = (2 * 64 + 16) * d + layers * (6 * d + 4 * d) + 2 * d
        for name, count in matrices.items():
            if total_parameters(sizes, resolve(name, sizes.shape)) != rest + layers * count * d * d:
                return False
    return True
