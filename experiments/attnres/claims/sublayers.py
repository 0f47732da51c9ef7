"""Claims on upper bounds of a feed-forward sublayer's output."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from experiments.ledger.claim import Claim, Conditions, at
from theory.attnres import quartic, sublayers
from theory.attnres.paper import PAPER
from theory.attnres.quartic import gated_bound, one_number_maximum, quartic_map
from theory.attnres.sublayers import feed_forward_bound

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

    Array = NDArray[float64]

SLACK = 1 + 1e-9
FEED_FORWARDS = ((16, 43, 0.02), (16, 43, 0.25), (5, 7, 3.0))  # d, inner numbers, deviation of weights
KINDS = ("swiglu", "gelu", "silu")

A_T = "a direction or a length of T to try, beside others: every T gives a bound"
_TRIED = (
    "sqrt(_top(product @ product.T)) / 2",
    "columns / (shares * np.linalg.norm(r, axis=1))",
    "shares * np.linalg.norm(r, axis=1)",
    "best / 2",
)

FEED_FORWARD = Claim(
    "attnres.feed-forward-output",
    PAPER.name,
    place="summary: output magnitudes remain bounded across depth; by what, it does not say",
    statement="What a GELU, SiLU or SwiGLU sublayer behind a norm puts out is bounded by its weights, with the gate "
    "split into a half and an odd part of at most g(r) - 1/2, r what the number's own row allows.  Where numbers' rows "
    "and columns are orthogonal, or all aligned, it is attained: the largest, or the sum, of the numbers' own.",
    assumes="RMSNorm, or LayerNorm without bias; no biases; for what is attained: eps = 0 and, if gated, gate rows "
    "along up rows",
    verdict="verified",
    proof=sublayers,
    unjudged={
        **{at(sublayers._together, place): A_T for place in _TRIED},
        at(
            sublayers._root,
            "square + more * np.eye(len(square)) -> square + 6 * (more * np.eye(len(square))) / 5",
        ): "a guard against rounding: a fifth more is still within rounding",
    },
)
QUARTIC = Claim(
    "attnres.swiglu-quartic",
    PAPER.name,
    place="summary: output magnitudes remain bounded across depth; by what, it does not say",
    statement="SwiGLU's squared output is at most a quartic form in the normed input, and so at most d^2 times the "
    "largest eigenvalue of X -> sum_ij G_ij M_i X M_j + l (X - tr(X) 1) on symmetric matrices, for every l.  For one "
    "inner number the bound is h d ||k|| (||a|| ||b|| + |a . b|) / 2, attained if gate a and up b are parallel, and in "
    "the limit of large gates if not.",
    assumes="as for attnres.feed-forward-output",
    verdict="verified",
    proof=quartic,
    uses=("attnres.feed-forward-output",),
    unjudged={
        at(one_number_maximum, "{'xatol': 1e-12}"): "how near a search ends: a fifth further makes no difference",
    },
)


def _random_feed_forward(d: int, inner: int, std: float, seed: int) -> tuple[Array, Array, Array, Array]:
    """Return random gate, up, down and gain."""
    import numpy as np

    rng = np.random.default_rng(seed)
    gate, up = std * rng.standard_normal((2, inner, d))
    return gate, up, std * rng.standard_normal((d, inner)), rng.uniform(0.5, 1.5, d)


def _silu(a: float) -> float:
    return a / (1 + math.exp(-a))


def _gelu(a: float) -> float:
    return a * math.erfc(-a / math.sqrt(2)) / 2


def _bound(kind: str, gate: Array, up: Array, down: Array, gain: Array) -> float:
    if kind == "swiglu":
        return feed_forward_bound(gate, up, down, gain)
    return feed_forward_bound(None, up, down, gain=gain, activation="gelu" if kind == "gelu" else "silu")


def _below(kinds: tuple[str, ...], bound_of: Callable[..., float], factor: float) -> bool:
    """Check that 10,000 random inputs and 200 ascents stay below `factor` times the bounds."""
    from experiments.attnres.sharpness import feed_forward_output
    from icl.probes.ascent import ascend
    from icl.probes.magnitude import FeedForwardWeights

    for d, inner, std in FEED_FORWARDS:
        gate, up, down, gain = _random_feed_forward(d, inner, std, 0)
        for kind in kinds:
            weights = FeedForwardWeights(gate if kind == "swiglu" else None, up, down, gain)
            output = feed_forward_output(weights, "silu" if kind == "silu" else "gelu")
            random = ascend(output, d, math.sqrt(d), starts=10_000, steps=0).largest
            found = max(random, ascend(output, d, math.sqrt(d)).largest)
            if found > factor * bound_of(kind, gate, up, down, gain) * SLACK:
                return False
    return True


@FEED_FORWARD.check(
    "10,000 random inputs and 200 ascents for each of three random sublayers, GELU, SiLU and SwiGLU, keep below",
    states=1.0,
    control=0.5,
    wrong="half of the bound",
    kind="descent",
)
def inputs_stay_below(factor: float) -> bool:
    return _below(KINDS, _bound, factor)


@QUARTIC.check(
    "10,000 random inputs and 200 ascents for each of three random sublayers keep below",
    states=1.0,
    control=0.6,
    wrong="six tenths of the bound",
    kind="descent",
)
def swiglu_stays_below(factor: float) -> bool:
    return _below(("swiglu",), lambda _, *weights: gated_bound(*weights), factor)


def _attained(kind: str, up: Array, gate: Array, down: Array, u: Array) -> float:
    import numpy as np

    inner = [
        _silu(float(a @ u)) * float(b @ u) if kind == "swiglu" else {"gelu": _gelu, "silu": _silu}[kind](float(b @ u))
        for a, b in zip(gate, up, strict=True)
    ]
    return float(np.linalg.norm(down @ np.array(inner)))


@FEED_FORWARD.check(
    "orthogonal numbers attain the bound one at a time, for all three kinds and three sizes of weights",
    states=0.5,
    control=1.0,
    wrong="a gate that is open, g = 1",
)
def orthogonal_numbers_attain(half: float) -> bool:
    """Compare with the largest ||k|| times (half + s) times what is gated, s = g(r) - 1/2, over numbers."""
    return all(_orthogonal(kind, scale, half) for kind in KINDS for scale in (0.05, 0.5, 2.0))


def _orthogonal(kind: str, scale: float, half: float) -> bool:
    import numpy as np

    rng = np.random.default_rng(3)
    d, inner = 6, 4
    rows = np.linalg.qr(rng.standard_normal((d, d)))[0][:inner]
    gate, up = scale * rows * rng.uniform(0.5, 2, (inner, 1)), scale * rows * rng.uniform(0.5, 2, (inner, 1))
    down = np.linalg.qr(rng.standard_normal((d, d)))[0][:, :inner] * rng.uniform(0.5, 2, inner)
    gain, root = np.ones(d), math.sqrt(d)
    said = 0.0
    for i in range(inner):
        a, b = root * float(np.linalg.norm(gate[i])), root * float(np.linalg.norm(up[i]))
        reach = a if kind == "swiglu" else b
        g = (_gelu(reach) if kind == "gelu" else _silu(reach)) / reach
        gated = (half + g - 0.5) * (a * b if kind == "swiglu" else b)
        said = max(said, float(np.linalg.norm(down[:, i])) * gated)
    found = max(_attained(kind, up, gate, down=down, u=root * row) for row in rows)
    bound = _bound(kind, gate, up, down=down, gain=gain)
    return math.isclose(bound, said, rel_tol=1e-9) and math.isclose(found, said, rel_tol=1e-9)


@FEED_FORWARD.check(
    "aligned numbers attain the bound all at once, for all three kinds, at widths 1 and 5",
    states=lambda own: sum(own),
    control=lambda own: max(own),
    wrong="the largest number's own",
)
def aligned_numbers_attain(of: Callable[[list[float]], float]) -> Conditions:
    """Check that the bound is the sum of the numbers' own maxima, and attained."""
    import numpy as np

    rng = np.random.default_rng(4)
    for d in (1, 5):
        along, out = (x / np.linalg.norm(x) for x in rng.standard_normal((2, d)))
        a, b, k = rng.uniform(0.2, 2, (3, 3))
        gate, up, down = np.outer(a, along), np.outer(b, along), np.outer(out, k)
        for kind in KINDS:
            u = math.sqrt(d) * along
            said = of([_attained(kind, up[i : i + 1], gate[i : i + 1], down=down[:, i : i + 1], u=u) for i in range(3)])
            bound, found = _bound(kind, gate, up, down=down, gain=np.ones(d)), _attained(kind, up, gate, down=down, u=u)
            yield math.isclose(bound, said, rel_tol=1e-9)
            yield math.isclose(found, said, rel_tol=1e-9)


@FEED_FORWARD.check(
    "one gated inner number, its gate and up row at three angles: the second bound's closed form",
    states=0.5,
    control=2**-0.5,
    wrong="the Frobenius norm of M in place of its spectral norm, at a right angle",
)
def one_gated_number(share: float) -> Conditions:
    """Compare with d ||k|| h ||a|| ||b|| (share + (1 - share) |cos psi|), h the logistic function of sqrt d ||a||."""
    import numpy as np

    d, column = 3, np.array([[0.6], [0.0], [0.8]]) * 1.5
    for psi in (0.7, math.pi / 2, 2.0):
        for size in (0.1, 2.0):
            gate, up = size * np.eye(d)[:1], 0.4 * np.array([[math.cos(psi), math.sin(psi), 0]])
            open_by = 1 / (1 + math.exp(-math.sqrt(d) * size))
            said = d * 1.5 * open_by * size * 0.4 * (share + (1 - share) * abs(math.cos(psi)))
            yield math.isclose(feed_forward_bound(gate, up, column, np.ones(d)), said, rel_tol=1e-9)


@FEED_FORWARD.check(
    "small weights: the bound tends to the norm of the output's leading part, which is attained without a gate",
    states=0.5,
    control=1.0,
    wrong="a for the activation at a, where a/2 is nearer",
)
def small_weights(half: float) -> Conditions:
    """Compare with `half` times the norm of K B in R^d, or of sum_i k_i M_i in R^d x symmetric matrices."""
    import numpy as np

    for d, inner in ((3, 8), (6, 20)):
        gate, up, down, gain = _random_feed_forward(d, inner, 1.0, 5)
        gate, small = 1e-7 * gate, 1e-7 * up
        a, b = gate * gain, up * gain
        forms = (np.einsum("fi,fj->fij", a, b) + np.einsum("fi,fj->fij", b, a)).reshape(inner, -1) / 2
        linear = down @ (small * gain)
        pairs = (
            ("swiglu", up, d * float(np.linalg.norm(down @ forms, 2))),
            ("gelu", small, math.sqrt(d) * float(np.linalg.norm(linear, 2))),
            ("silu", small, math.sqrt(d) * float(np.linalg.norm(linear, 2))),
        )
        for kind, rows, norm in pairs:
            yield math.isclose(_bound(kind, gate, rows, down=down, gain=gain), half * norm, rel_tol=1e-4)
        u = math.sqrt(d) * np.linalg.svd(linear)[2][0] * gain
        yield math.isclose(_attained("gelu", small, gate, down=down, u=u), half * pairs[1][2], rel_tol=1e-4)


@QUARTIC.check(
    "a random sublayer where it is the sharper: within 0.2 % of the least over c and l, its map written out",
    states=1.0,
    control=1.2,
    wrong="the trace term times 1.2",
    kind="descent",
)
def bound_is_the_least_eigenvalue(trace: float) -> bool:
    """Compare with the least eigenvalue bound; without the trace term it is larger by 1 % or more."""
    gate, up, down, gain = _random_feed_forward(12, 43, 0.3, 0)
    bound, simple = gated_bound(gate, up, down, gain), feed_forward_bound(gate, up, down, gain)
    least, without = (_least_quartic(gate * gain, up * gain, down, term) for term in (trace, None))
    return bound < 0.97 * simple and 0.999 * least <= bound <= 1.002 * least and without > 1.01 * least


def _least_quartic(gate: Array, up: Array, down: Array, trace: float | None) -> float:
    """Return d times the root of the largest eigenvalue, minimised over c and l; `trace` None: at l = 0."""
    import numpy as np
    from scipy.optimize import minimize

    d = up.shape[1]
    forms = (np.einsum("fi,fj->fij", gate, up) + np.einsum("fi,fj->fij", up, gate)) / 2
    half = np.diag([1 / (1 + math.exp(-math.sqrt(d) * float(np.linalg.norm(a)))) - 0.5 for a in gate])
    size = float(np.linalg.norm(down, 2)) ** 2
    eye = np.eye(d)
    flip = (np.einsum("ik,jl->ijkl", eye, eye) + np.einsum("il,jk->ijkl", eye, eye)) / 2
    shifted = flip - (trace or 0.0) * np.einsum("ij,kl->ijkl", eye, eye)

    def bound(x: Array) -> float:
        top = size * (1 + math.exp(x[0]))
        whole = half @ half * top + down.T @ np.linalg.inv(np.eye(d) - down @ down.T / top) @ down / 4
        image = np.einsum("fg,fik,glj,klmn->ijmn", whole, forms, forms, flip, optimize=True)
        image = image if trace is None else image + math.exp(x[1]) * shifted
        matrix = np.einsum("abij,ijkl,klcd->abcd", flip, image, flip, optimize=True).reshape(d * d, d * d)
        return d * math.sqrt(max(0.0, float(np.linalg.eigvalsh((matrix + matrix.T) / 2)[-1])))

    corners = [(0.0, 0.0), (-1.0, 0.0), (0.0, 1.0)]
    options = {"maxfev": 60, "initial_simplex": corners}
    return float(minimize(bound, corners[0], method="Nelder-Mead", options=options).fun)


@QUARTIC.check(
    "one inner number at four angles between gate and up: the bound's closed form, approached as the gate grows",
    states=0.5,
    control=2**-0.5,
    wrong="the Frobenius norm of M in place of its spectral norm, at a right angle",
)
def one_number_approaches(share: float) -> Conditions:
    """Check that the bound at angle psi, h d ||k|| ||a|| ||b|| (share + (1 - share) |cos psi|), is nearly attained."""
    import numpy as np

    d = 4
    column, gain = np.array([0.0, 0.6, 0.8, 0.0]), np.ones(d)
    for psi in (0.0, 0.7, math.pi / 2, 2.0):
        up = np.array([math.cos(psi), math.sin(psi), 0, 0])
        for size, near in ((0.5, 0.8), (20.0, 0.99), (1000.0, 1 - 1e-9)):
            gate = size * np.eye(d)[0]
            open_by = 1 / (1 + math.exp(-math.sqrt(d) * size))
            said = open_by * d * size * (share + (1 - share) * abs(math.cos(psi)))
            bound = gated_bound(gate[None], up[None], column[:, None], gain, tries=0)
            exact = one_number_maximum(gate, up, column)
            yield math.isclose(bound, said, rel_tol=1e-6)
            yield near * bound <= exact <= bound * SLACK
        if not psi:
            yield math.isclose(exact, bound, rel_tol=1e-12)


@QUARTIC.check(
    "the largest of one inner number is that of a fine search over the circle, at six random weights",
    states=1.0,
    control=2.0,
    wrong="the largest of either factor, at once",
)
def one_number_is_exact(rows: float) -> Conditions:
    """Search with the number's two factors at one u (rows = 1), or each at its own best u (rows = 2)."""
    import numpy as np

    for seed in range(6):
        gate, up, down, _ = _random_feed_forward(5, 1, 1.0, seed)
        plane = np.linalg.qr(np.stack([gate[0], up[0]], 1))[0]
        angles = np.linspace(0, 2 * np.pi, 100_001)
        u = math.sqrt(5) * np.stack([np.cos(angles), np.sin(angles)], 1) @ plane.T
        a, b = u @ gate[0], abs(u @ up[0])
        gated = abs(a / (1 + np.exp(-a)))
        found = float((gated * b).max() if rows == 1 else gated.max() * b.max()) * float(np.linalg.norm(down))
        yield math.isclose(one_number_maximum(gate[0], up[0], down[:, 0]), found, rel_tol=1e-6)


@QUARTIC.check(
    "at u u^T the form is sum_ij G_ij (a_i.u)(b_i.u)(a_j.u)(b_j.u) for every l; d = 1, 3, 5, l = 0, 0.7, 40",
    states=1.0,
    control=1.2,
    wrong="a fifth more of the trace term, which then no longer vanishes there",
)
def multiple_of_zero_is_added(trace: float) -> Conditions:
    """Check also that the map is symmetric on symmetric matrices, so that its largest eigenvalue bounds the form."""
    import numpy as np

    rng = np.random.default_rng(6)
    for d, inner in ((1, 1), (3, 4), (5, 2)):
        a, b = rng.standard_normal((2, inner, d))
        form = rng.standard_normal((inner, inner))
        form = form @ form.T
        u, (x, y) = rng.standard_normal(d), rng.standard_normal((2, d, d))
        gated = (a @ u) * (b @ u)
        for shift in (0.0, 0.7, 40.0):
            applied = quartic_map(a, b, form, shift)
            at_u = float(u @ applied(np.outer(u, u)) @ u)
            expected = float(gated @ form @ gated) + shift * (1 - trace) * float(u @ u) ** 2
            x, y = x + x.T, y + y.T
            left, right = float((applied(x) * y).sum()), float((x * applied(y)).sum())
            yield math.isclose(at_u, expected, rel_tol=1e-9)
            yield math.isclose(left, right, rel_tol=1e-9)
