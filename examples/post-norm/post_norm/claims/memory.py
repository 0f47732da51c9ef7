"""A claim on a built decoder: PostNorm forgets its embedding geometrically."""

from dataclasses import replace

import icl
from experiments.ledger.claim import Claim
from post_norm import memory
from post_norm.paper import PAPER
from theory.plans.presets import llama

SIZES = llama(d_model=8, n_heads=1, n_layers=1, d_ff=4, vocab=3, context=2)
MEMORY = Claim(
    "post-norm.memory",
    PAPER.ours,
    place="post_norm/memory.py",
    statement="Outputs c times as long as the stream, and orthogonal to it, leave (1 + c^2)^(-L/2) of the embedding.",
    assumes="gains of 1, eps = 0",
    verdict="verified",
    proof=memory,
)


@MEMORY.check("1 to 3 layers", states=memory.remembered, control=lambda c, n: (1 + c * c * n) ** -0.5, wrong="PreNorm")
def in_a_decoder(law):
    import torch

    for layers, size in ((3, 0.5), (1, 0.5), (2, 2.0)):
        rule = icl.build(replace(SIZES, n_layers=layers), "post-norm:eps=0").double().depth
        first, *outputs = 8**0.5 * torch.eye(8, dtype=torch.float64)[: 2 * layers + 1, None, None]
        state = rule.start(first)
        for i, output in enumerate(outputs):
            state = rule.write(i, state, size * output)
        yield abs((rule.read(2 * layers, state) * first).mean() - law(size, 2 * layers)) <= 1e-12
