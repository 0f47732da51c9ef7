"""PostNorm's decoder is the paper's formula: outputs, all gradients and the set of weights."""

from icl.testing import Stack, check_variant, depth_reference, rms


@depth_reference
def post_norm(stack: Stack, eps: float = 1e-5):
    x = stack.embedding
    for f, gain in zip(stack.sublayers, stack.w["depth.gain"], strict=True):
        x = gain * rms(x + f(x), eps)
    return x


def test_post_norm():
    check_variant("post-norm", options={"eps": 0.1})
