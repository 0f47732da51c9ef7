"""What a notebook shows: names that complete, signatures in help, and the last line of a cell."""

import inspect
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import experiments
import icl
import icl.testing
import theory
from experiments.ledger.verify import Verification
from icl import probes
from icl.probes.recording import Attended
from tests.faces import check_face, imported_by
from theory.plans.depth import DepthAttention
from theory.plans.names import resolve
from theory.plans.plan import Shape

SHORT = 240  # characters: two lines
TOKENS = torch.arange(12).view(2, 6)


def model():
    return icl.build("llama-2m", "skipv1")


@pytest.mark.long
def test_probes_are_there_without_an_import_of_their_own():
    assert "icl.probes" not in imported_by("import icl")
    assert "icl.probes.recording" in imported_by("import icl; icl.probes.observed")
    assert set(probes.__all__) == {name for name in dir(probes) if not name.startswith("__")}
    assert all(getattr(probes, name) is not None for name in probes.__all__)
    assert not hasattr(probes, "nothing_of_that_name")


@pytest.mark.parametrize("package", ["theory", "icl", "experiments"])
def test_completion_shows_what_is_meant(package):
    check_face(package)
    assert not {"TYPE_CHECKING", "annotations", "import_module", "machine", "errors", "_HOMES"} & {*dir(theory)}


def test_testing_offers_what_its_first_lines_name():
    names = set(icl.testing.__all__)
    assert names == {name for name in dir(icl.testing) if not name.startswith("__")} == set(icl.testing._HOMES)
    assert {"check_identity", "check_variant", "plans", "reference", "toy_cases"} <= names
    there = {}
    exec("from icl.testing import *", there)  # as a user does
    assert {name for name in there if not name.startswith("__")} == names
    assert not hasattr(icl.testing, "nothing_of_that_name")


@pytest.mark.parametrize("name", ["mixes", "plans", "tasks", "head_tuples", "toy_cases"])
def test_signatures_can_be_read(name):
    signature = str(inspect.signature(getattr(icl.testing, name)))
    assert len(signature) < 160
    assert "Strategy[" in signature
    assert "ForwardRef" not in signature


def attended():
    return probes.observed(model(), TOKENS, attention=lambda at: at).attention[1]


@pytest.mark.parametrize(
    "make",
    [
        lambda: resolve("attnres", Shape(12, 8)),
        attended,
        lambda: probes.observed(model(), TOKENS, attention=lambda at: at.weights(), state=lambda state: state),
        lambda: icl.RegressionTask(d=3, n=8, sigma=0.3).sample(64, icl.Generator(0)),
        lambda: experiments.claims()["skipv1.gap"],
        lambda: Verification(experiments.claims()["skipv1.gap"], (), 1.0),
        lambda: experiments.Trained(Path("runs/train/mine"), {"loss": [1.0] * 1000, "steps": 1000}),
    ],
)
def test_the_last_line_of_a_cell_is_short(make):
    shown = repr(make())
    assert len(shown) <= (SHORT if not isinstance(make(), Attended) else 2 * SHORT)
    assert "\n" not in shown


@pytest.mark.parametrize(
    ("plan", "says"),
    [
        (resolve("vanilla", Shape(4, 2)), "<Plan: 4 layers of 2 heads; vanilla>"),
        (resolve("skipv1", Shape(4, 2)), "<Plan: 4 layers of 2 heads; values changed in layers 2-4>"),
        (
            theory.plan(Shape(5, 1), keys=lambda n, h: theory.k(n if n not in (2, 4, 5) else 1, h)),
            "<Plan: 5 layers of 1 head; keys changed in layers 2, 4-5>",
        ),
        (
            replace(resolve("vanilla", Shape(1, 1)), feed_forward=False, depth=DepthAttention(block=2)),
            f"<Plan: 1 layer of 1 head; depth={DepthAttention(block=2)!r}; feed_forward=False>",
        ),
        (replace(resolve("vanilla", Shape(2, 2)), table=()), "<Plan: 2 layers of 2 heads; a table of other sizes>"),
    ],
)
def test_a_plan_shows_what_differs_from_vanilla(plan, says):
    assert repr(plan) == says


def test_attention_shows_shapes_and_keeps_numbers():
    at = attended()
    assert repr(at).startswith("Attended(layer=1, query=float32[2, 2, 6, 8], keys=(float32[2, 2, 6, 8],), values=(")
    assert at.weights().shape == (2, 2, 6, 6)
    assert torch.allclose(at.weights().sum(-1), torch.ones(2, 2, 6))


def test_a_finished_run_shows_its_verdict_and_place():
    assert experiments.all_experiments()["skipv1-gap"].name == "skipv1-gap"
    assert repr(experiments.Finished(Path("runs/mine"), ())) == "<Finished: inconclusive, 0 checks, in 'runs/mine'>"


@pytest.mark.parametrize(
    ("prompts", "says"),
    [
        (TOKENS, "not a Tensor: its `.tolist()` is that, if it has two dimensions"),
        (TOKENS.numpy(), "not an ndarray: its `.tolist()`"),
        ("hello", "not text, of which the model's tokenizer makes such numbers"),
        (5, "not an int"),
        ([1, 2, 3], "one of them is an int"),
        (["hello"], "one of them is text"),
        ([TOKENS[0]], "one of them is a Tensor"),
        ([[1, "a"]], "one of them holds text"),
        ([[1, 2.5]], "one of them holds a float"),
        ([[]], "a prompt holds no token"),
        ([[10**6]], "a prompt holds what is no token of the"),
    ],
)
def test_what_is_no_prompt_is_told_at_the_call_in_one_line(prompts, says):
    with pytest.raises(theory.BadInput, match=r"^[^\n]+$") as stop:
        icl.generate(model(), prompts, 5)
    assert says in str(stop.value)


@pytest.mark.parametrize(("arguments", "says"), [((None, [[1]], 5), "a Decoder"), ((model, [[1]], 2.5), "a float")])
def test_other_arguments_of_generate(arguments, says):
    made, *rest = arguments
    with pytest.raises(theory.BadInput, match=says):
        icl.generate(made() if made else "llama-2m", *rest)


def test_text_is_not_shown_as_the_number_that_it_spells():
    with pytest.raises(theory.BadInput, match=r"^d must be a whole number from 1 to 1e.09, got the text '3'$"):
        theory.loss_gap(d="3", n=8, sigma=0.3, rank=1)
    with pytest.raises(theory.BadInput, match=r"got the text '0.3'$"):
        theory.loss_gap(d=3, n=8, sigma="0.3", rank=1)


def test_every_number_of_the_gap_is_explained():
    described = inspect.getdoc(type(theory.loss_gap(d=3, n=8, sigma=0.3, rank=1)))
    for name in ("mha", "skipv1", "gap", "gap_to_optimum", "gap_of_optima", "rho"):
        assert f"\n    {name}: " in described
