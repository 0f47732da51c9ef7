"""An installed paper brings a depth rule that streams cannot express: the post-norm network, in a page."""

import json

import pytest

from tests.theory.plans.test_installed_papers import install, run

DEPTH = '''
from dataclasses import dataclass

from theory.plans.depth import Depth


@dataclass(frozen=True)
class PostNorm(Depth):
    """x <- gain * rms(x + f(x)) after every sublayer."""

    eps: float = 1e-5
    coefficients = "gate"

    def words(self):
        return "a stream that is normed after every sublayer"

    def parameters(self, d, layers, per_layer):
        return d * layers * per_layer

    def starts(self):
        return {"gain": 1.0}

    def saved(self, d, layers, per_layer):
        return 2 * d * layers * per_layer

    def module(self, config, plan):
        from {package}.post_norm import PostNormDepth

        return PostNormDepth(self, config.sublayers(plan), config.d_model)
'''
MODULE = """
import torch
from torch import nn
from torch.nn.functional import rms_norm


class PostNormDepth(nn.Module):
    def __init__(self, rule, sublayers, d):
        super().__init__()
        self.eps, self.gain = rule.eps, nn.Parameter(torch.empty(sublayers, d))

    def start(self, embedded):
        return embedded

    def read(self, sublayer, state):
        return state

    def write(self, sublayer, state, out):
        return rms_norm(state + out, out.shape[-1:], self.gain[sublayer], self.eps)
"""
VARIANT = """
from {package}.depth import PostNorm
from {package}.paper import PAPER
from theory.plans.plan import plan
from theory.plans.variants import variant


@variant(PAPER, "Eqn. 1", "the stream is normed after every sublayer")
def post_norm(shape, eps=1e-5):
    return plan(shape, depth=PostNorm(eps))
"""
ASKS = """
import json
import torch
from experiments.drawing.plans import draw
from icl.models.decoder import Decoder
from icl.stacks.decoder import misfit
from theory.plans.accounting import parameters
from theory.plans.architecture import Architecture, Tokens, Vectors
from theory.plans.names import resolve
from theory.plans.written import from_json, to_json

config = Architecture(d_model=8, n_layers=2, n_heads=2, d_ff=6, context=8, stem=Tokens(5))
plan = resolve("post-norm:eps=0.1+skipv1", config.shape)
model = Decoder(config, plan, std=0.3).double()
tokens = torch.tensor([[1, 2, 3, 4]])
x = model.stem.embed(tokens)
frame, _ = model.frame(x)
bank = {}
for sublayer in model.sublayers:
    out, bank = sublayer(x, bank, frame)
    x = torch.nn.functional.rms_norm(x + out, (8,), None, 0.1)
again = from_json(json.loads(json.dumps(to_json(plan))))
draw(config, plan, "post-norm").savefig("plan.png")
print(json.dumps({
    "apart": float((model(tokens) - model.stem.answer(model.norm(x))).detach().abs().max()),
    "count": parameters(config, plan)["depth"],
    "built": sum(p.numel() for n, p in model.named_parameters() if n.startswith("depth.")),
    "starts": sorted(set(model.depth.gain.flatten().tolist())),
    "kind": to_json(plan)["depth"]["kind"],
    "same": again == plan,
    "stack": misfit(Architecture(d_model=8, n_layers=2, n_heads=2, d_ff=6, context=8, stem=Vectors(3)), plan),
    "words": plan.depth.words(),
}))
"""


@pytest.mark.long
def test_a_depth_rule_of_an_installed_paper(tmp_path):
    files = {"depth.py": DEPTH, "post_norm.py": MODULE, "variants.py": VARIANT}
    install(tmp_path, "post", "post", files={name: text.replace("{package}", "post") for name, text in files.items()})
    done = run(tmp_path, "-c", ASKS)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found.pop("apart") < 1e-14
    assert "depth rule of its own" in found.pop("stack")
    assert found == {
        "count": 32,
        "built": 32,
        "starts": [1.0],
        "kind": "post.depth:PostNorm",
        "same": True,
        "words": "a stream that is normed after every sublayer",
    }


UNKNOWN = """
import json
from theory.errors import BadInput
from theory.plans.written import from_json
content = {"layers": 1, "heads": 1, "table": [[None]], "depth": {"kind": "os:system"}}
try:
    from_json(content)
except BadInput as error:
    print(error)
"""


def test_nothing_else_is_imported(tmp_path):
    done = run(tmp_path, "-c", UNKNOWN)
    assert done.stdout.strip() == "its depth rule is system of os, and no installed paper has that module"
