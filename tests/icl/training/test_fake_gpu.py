"""A step and a decoded token on a device that is not there: nothing mixes devices, and nothing waits for a number."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from icl.recipe import Recipe
from icl.training.loop import _autocast
from icl.training.objectives import _next_token_losses
from tests.icl.training.fake_gpu import CONFIG, VARIANTS
from tests.icl.training.small import model_of

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def outcomes():
    """What went wrong, by case; empty where nothing did."""
    command = [sys.executable, "-m", "tests.icl.training.fake_gpu"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return dict(map(json.loads, done.stdout.splitlines()))


@pytest.mark.long
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("work", ["trained", "decoded"])
def test_all_of_it_stays_on_the_device_and_waits_for_nothing(variant, work, outcomes):
    assert outcomes[f"{variant}, {work}"] == ""


@pytest.mark.long
def test_a_step_in_parts_and_a_second_one_stay_there_too(outcomes):
    assert outcomes["a second step, in parts"] == ""


@pytest.mark.long
def test_what_mixes_or_waits_is_noticed(outcomes):
    assert "at least two devices, gpu:0 and cpu" in outcomes["mixed"]
    assert outcomes["waited"].startswith("DataDependentOutputException")


@pytest.mark.parametrize("variant", ["vanilla", "resformer-learned", "attnres", "attnres-block", "hyper-connections"])
def test_products_are_in_bf16_and_losses_in_float32(variant):
    """Under autocast, here a CPU's."""
    model, dtypes = model_of(CONFIG, variant), []
    for module in model.modules():
        if isinstance(module, nn.Linear):
            module.register_forward_hook(lambda _module, _inputs, out: dtypes.append(out.dtype))
    tokens = torch.zeros(2, CONFIG.context + 1, dtype=torch.long)
    recipe = Recipe(steps=1, batch=2, learning_rate=0.1, precision="bf16")
    with torch.no_grad(), _autocast(tokens.device, recipe):
        losses = _next_token_losses(model(tokens[:, :-1]), tokens[:, 1:])
    assert losses.dtype == torch.float32
    assert set(dtypes) == {torch.bfloat16}
