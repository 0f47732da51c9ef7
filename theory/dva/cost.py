"""The cost of one head of dynamic values in arithmetic and memory, with every pair's value made and collapsed.

T tokens, width w.  Counted are products of numbers, each of which one sum goes with at most; those of scores, T^2 w,
are among them, the softmax, the same throughout, is not.
    revised, every pair   q^R_i * k^R_j T^2 w (v_j is added without a product), weighed T^2 w     3 T^2 w
    revised, collapsed    T^2 2w to weigh [v ; k^R], then T w for the gate                        3 T^2 w + T w
    initial, every pair   matrices T^2 w^2, each times v_j T^2 w^2, weighed T^2 w                 2 T^2 w^2 + 2 T^2 w
    initial, collapsed    <q^R_i, v_j> T^2 w, times the weight T^2, weighed T^2 w                 3 T^2 w + T^2
So the revised form's collapse saves no arithmetic at all.  It makes of T^2 w numbers, each used once, products of
matrices, and it saves their memory: what that does to time is measured (`dva-collapse`).  The initial form's collapse
saves a factor of 2 w / 3, and then both forms cost the same.

Memory, in numbers of 4 bytes beside the head's inputs, at the peak of a forward and a backward pass (`peak_numbers`).
What lies there depends on the order in which PyTorch works:
    every pair            the gradient of the pairs' values (or matrices) and the two products that go on from it, each
                          as large before it is summed: 3 T^2 w, or 3 T^2 w^2.  Weights and their gradient: 2 T^2; two
                          masks, of a byte a pair: T^2 / 2; outputs and gradients of tokens: 3 T w
    revised, collapsed    weights, their gradient and that of scores: 3 T^2; [v ; k^R], what comes of it and its
                          gradient: 6 T w.  With T < 4 w a moment before it is more, 2 T^2 + 10 T w
    initial, collapsed    the same, and <q^R_i, v_j>, its product with the weights and a gradient of these: 6 T^2; two
                          masks: T^2 / 2; 2 T w
    in blocks             of b queries (`icl.models.few_queries`): b T in place of T^2, and 15 T w at most, of
                          the initial form 9 T w, as gradients of the inputs gather over blocks
"""

from __future__ import annotations

from typing import Literal

from theory.dva.collapse import Form, pair_numbers
from theory.errors import BadInput, at_least

Way = Literal["pairs", "collapsed"]
MASKS = 0.5  # two, of a byte a pair, in numbers of 4 bytes
IN_BLOCKS = {"revised": 15, "initial": 9}  # numbers a token, over the width, at most


def products(form: Form, way: Way, tokens: int, width: int) -> int:
    """Return the products of a forward pass, without the softmax.

    Raises InvalidSize, and BadInput for another form or way.
    """
    at_least("tokens", tokens, 1)
    at_least("width", width, 1)
    pairs, w = tokens * tokens, width
    counted = {
        ("revised", "pairs"): 3 * pairs * w,
        ("revised", "collapsed"): 3 * pairs * w + tokens * w,
        ("initial", "pairs"): 2 * pairs * w * w + 2 * pairs * w,
        ("initial", "collapsed"): 3 * pairs * w + pairs,
    }
    if (form, way) not in counted:
        raise BadInput(f"products are counted of revised and initial, pairs and collapsed; got {form!r}, {way!r}")
    return counted[form, way]


def peak_numbers(form: Form, way: Way, tokens: int, width: int, queries: int | None = None) -> float:
    """Return the numbers beside the inputs at the peak of both passes, with a causal mask.

    Widths are 4 or more, and tokens are no fewer.  queries: how many attend at a time where it is collapsed, which then
    is an upper bound; None: all.  Raises as `products`.
    """
    products(form, way, tokens, width)  # raises for what is not counted
    if way == "pairs":
        made = 3 * pair_numbers(form, tokens, width, naive=True)
        return made + (2 + MASKS) * tokens**2 + 3 * tokens * width
    if queries is None or queries >= tokens:
        moments = [(3, 6), (2, 10)] if form == "revised" else [(6 + MASKS, 2)]
        return max(pairs * tokens**2 + numbers * tokens * width for pairs, numbers in moments)
    return (3 if form == "revised" else 6 + MASKS) * tokens * queries + IN_BLOCKS[form] * tokens * width
