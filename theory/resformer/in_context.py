"""Linear attention on in-context regression: the block form's distance from cross-layer attention, and which is better.

Setting of `theory.skipv1.gap` at W0 = 0: d numbers per token, prompts of n pairs, y = W* x + noise of standard
deviation sigma; layer 1 has copied, so that layer 2 sees x_t and u_t = (A x_t ; B y_t), and layer 1's own values and
keys are the raw x_t and y_t.  Cross-layer attention (Eqn. (2), without a softmax) adds, to a head of layer 2's own
values and keys, one of layer 1's values v_t and keys k_t^m; the block form (Eqn. (3)) gives it layer 2's keys k_t in
their place.

Distance.  What cross-layer attention has more is, exactly,
    W sum_t v_t (k_t^m - k_t)^T                              W the readout of layer 1's values, d x d,
linear in the distance of the keys.  Let k_t^m - k_t be D_0 x_t on the tokens of x, and D_x x_t + D_y y_t on those of y,
as it is for any projections of the two layers.  Then, in Frobenius norms and over prompts,
    E ||.||^2 = e_1 ||W||^2 ||D_x||^2
              + n^2 ||W D_0^T||^2 + n (||W||^2 ||D_0||^2 + ||W D_0^T||^2)
              + e_2 ||W D_y^T||^2 + e_3 (||W||^2 ||D_y||^2 + ||W D_y^T||^2) + 2 e_4 <W D_0^T, W D_y^T>,
    e_1 = n (n + d + 1 + sigma^2),     e_4 = n^2 d + 2 n + n^2 sigma^2,
    e_2 = (n d)^2 + 2 n d + 2 n^2 d sigma^2 + n^2 sigma^4,     e_3 = n d (n + d + 1) + 2 n d sigma^2 + n sigma^4.
Proof.  The sum is W (S_yx D_x^T + S_xx D_0^T + S_yy D_y^T); the sign flip of (W*, noise) makes the first term
uncorrelated with the others, and its entries are uncorrelated with variance e_1 (`theory.skipv1.gap`, (2)).  For a
Wishart matrix S_xx, E S_ij S_kl = n^2 [i=j][k=l] + n ([i=k][j=l] + [i=l][j=k]).  Given x, the d rows of y are
independent, with covariance C = X^T X + sigma^2 I: E (S_yy)_ij (S_yy)_kl = (tr C)^2 [i=j][k=l] + tr C^2 ([i=k][j=l] +
[i=l][j=k]), of which e_2 and e_3 are the means, and E (S_xx)_ij (S_yy)_kl = e_4 [i=j][k=l].                        QED

Which is better.  An error of the approximation is no loss of the model.  With any number of heads,
    cross-layer attention explains at most rho a (d - a) entries' worth of W*, no more than MHA;
    its block form, which is ResFormer, explains rho a d with a single head, at finite weights.
For its second half pairs raw values with raw keys, and what that makes of a prompt, S_xx + S_yy, is even in W*: nothing
can be read from it, while the block form's pairs of a raw value with a copied key make S_yx A^T
(`theory.toy.value_maps`, `theory.resformer.weights`).  So in the toy replacing the keys does not lose but wins rho a^2,
which is the sign of the paper's Fig. 8: the current attention's final loss is below that of Eqn. (2).

Around any W0, with a term C x, C free, beside the prediction (`theory.skipv1.bias`), the one head still attains
d^2 + d sigma^2 - rho a d, with W_1 = -lambda (I + W0) (I + Pi)^{-1} in place of -lambda (I + Pi)^{-1}
(`biased_one_head_weights`): W_2 S_yx Pi = lambda (Z + W0 S_xx) Pi, Z odd in W* - W0, and W_1 takes off the multiples of
S_xx Pi.  No rank-a read of Z explains more (`theory.skipv1.bias`, (i) and (ii)).  That cross-layer attention does no
better than MHA is a matter of W0 = 0: around other W0, S_yy holds Z W0^T + W0 Z^T, and it reads more, though never as
much as the block form, and of the d^2 numbers more than (3 d + 1)(d - 1)/8 stay unread: `theory.resformer.cross_layer`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from theory.errors import InvalidSize, check_sizes
from theory.prompts.moments import Array
from theory.prompts.setting import Number
from theory.resformer.weights import one_head_weights
from theory.toy.population import Weights


def block_distance(d: int, n: int, sigma: Number, readout: Array, x: Array, y: Array, of_x: Array) -> Any:
    """Return E ||W sum_t v_t (k_t^m - k_t)^T||^2, in squared units of y; exact for exact numbers.

    readout: W, (any, d).  The keys differ by x and y, D_x and D_y, on the tokens of y, and by of_x, D_0, on those of x,
    each (any, d).  Raises InvalidSize.
    """
    check_sizes(d, n, sigma)
    if any(matrix.ndim != 2 or matrix.shape[1] != d for matrix in (readout, x, y, of_x)):
        raise InvalidSize(f"the readout and the differences of keys need d = {d} columns")
    noise = sigma**2
    weight = _norm(readout)
    through_x, through_y = readout @ of_x.T, readout @ y.T
    products = n**2 * d**2 + 2 * n * d + 2 * n**2 * d * noise + n**2 * noise**2
    squares = n * d * (n + d + 1) + 2 * n * d * noise + n * noise**2
    odd = n * (n + d + 1 + noise) * weight * _norm(x)
    of_inputs = n**2 * _norm(through_x) + n * (weight * _norm(of_x) + _norm(through_x))
    of_outputs = products * _norm(through_y) + squares * (weight * _norm(y) + _norm(through_y))
    both = 2 * (n**2 * d + 2 * n + n**2 * noise) * (through_x * through_y).sum()
    return odd + of_inputs + of_outputs + both


def biased_one_head_weights(d: int, n: int, sigma: Number, rank: int, w0: Array) -> Weights:
    """Return weights of `theory.resformer.weights.ONE_HEAD` that explain rho a d around any W0 with a free term C x.

    w0: (d, d).  Exact if sigma and w0 are.  Raises InvalidSize.
    """
    check_sizes(d, n, sigma, rank)
    if w0.shape != (d, d):
        raise InvalidSize(f"W0 must be {d} x {d}, got {' x '.join(map(str, w0.shape))}")
    centred = one_head_weights(d, n, sigma, rank)
    own, raw = centred.w
    return replace(centred, w=np.stack([own + w0 @ own, raw]))


def _norm(matrix: Array) -> Any:
    return (matrix * matrix).sum()
