"""The plan for many GPUs: its page holds what is worked out, and the simulation what theory says."""

import math
import re
from dataclasses import replace
from pathlib import Path

import pytest

from experiments.bench import scale
from experiments.bench.scale import best, expected, young
from experiments.bench.simulated import Machines, Work, simulate
from experiments.store.cluster import TRIES
from icl.models.decoder import Decoder
from icl.training.loop import PEAK_BF16
from theory.plans.accounting import total_parameters
from theory.plans.architecture import Latent
from theory.plans.memory import activations
from theory.plans.names import fitting
from theory.plans.presets import gpt2, llama
from theory.plans.sharding import recomputed, state_bytes, sublayer_parameters, traffic

PAGE = Path(scale.__file__).with_name("SCALE.md")
HOUR = 3600.0


@pytest.mark.long
def test_the_page_s_tables_are_what_the_command_prints():
    page = PAGE.read_text()
    found = dict(re.findall(r"<!-- (\w+) -->\n(.*?)\n<!-- end of \1 -->", page, re.DOTALL))
    assert found == scale.tables(), "run `crosslayer bench scale`"
    assert f"about {scale.crossing():.0f} GPUs" in page
    assert f"every {scale.NODE_MEAN / scale.DAY:.0f} days" in page
    assert PEAK_BF16["H100"] == scale.PEAK


@pytest.mark.parametrize("cost", [0.1, 20.0])
@pytest.mark.parametrize("mean", [HOUR, 1000 * HOUR])
def test_the_best_interval_is_young_s_where_failures_are_rare(cost, mean):
    exact = best(cost, mean)
    assert exact == pytest.approx(young(cost, mean), rel=math.sqrt(cost / mean))
    rates = [expected(1e3 * exact, share * exact, cost, mean, 60.0) for share in (0.5, 0.9, 1.0, 1.1, 2.0)]
    assert min(rates) == rates[2]
    assert expected(HOUR, HOUR, cost, 1e12, 0.0) == pytest.approx(HOUR + cost, rel=1e-6)


@pytest.mark.parametrize("times", [100, 1000])
@pytest.mark.long
def test_the_scheduler_s_overhead_is_daly_s(times):
    """Within four standard errors over ten campaigns; at the published intervals, and not at others."""
    arm, theory, runs = scale.overheads(times, young)
    found = [run.used / run.worked - 1 for run in runs]
    mean = sum(found) / len(found)
    error = math.sqrt(sum((x - mean) ** 2 for x in found) / len(found) / (len(found) - 1))
    assert abs(mean - theory) < 4 * error
    machines, _ = scale.of_arms(times, 1.0)
    seldom = expected(arm.seconds, 3 * arm.interval, arm.cost, machines.mean, arm.restart) / arm.seconds - 1
    assert abs(mean - seldom) > 4 * error


def test_an_arm_outlives_any_number_of_failures_as_long_as_it_gets_on():
    machines = Machines(1, 1, 2 * HOUR)
    arm = Work(100 * HOUR, 1, HOUR / 2, 10.0, 60.0)
    found = simulate(machines, [arm], 0)
    assert found.lost == 0
    assert found.failures > 4 * TRIES
    stuck = simulate(machines, [replace(arm, interval=100 * HOUR)], 0)
    assert (stuck.lost, stuck.failures) == (1, TRIES)


def test_arms_are_handed_out_as_there_is_room():
    for gpus, at_a_time in ((1, 16), (4, 4), (5, 2), (8, 2)):
        arm = Work(HOUR, gpus, HOUR, 0.0, 0.0)
        found = simulate(Machines(2, 8, math.inf), [arm] * 20, 0)
        assert found.seconds == pytest.approx(-(-20 // at_a_time) * HOUR)
        assert found.used == found.worked


def test_who_hands_out_sets_the_pace_of_short_points():
    points = [Work(0.05, 1, math.inf, 0.0, 0.0)] * 500
    found = simulate(Machines(16, 8, math.inf, driver=0.005), points, 0)
    assert found.seconds == pytest.approx(500 * 0.005, rel=0.05)


LLAMA = llama(d_model=64, n_heads=2, n_layers=3, d_ff=192, vocab=96, context=32)
GPT2 = gpt2(d_model=64, n_heads=2, n_layers=3, vocab=96, context=64, tied=False, qkv_bias=True)
SIZES = [
    *((LLAMA, name) for name in ("vanilla", "skipv1", "svformer", "attnres-block", "denseformer", "resformer-learned")),
    *((GPT2, name) for name in ("vanilla", "dva", "dva-initial")),
    *(
        (replace(LLAMA, **change), "vanilla")
        for change in ({"n_kv_heads": 1}, {"qk_norm": True}, {"positions": "bias"}, {"normed": "head"})
    ),
    (replace(LLAMA, latent=Latent(16, 4)), "skipv1"),
]


@pytest.mark.parametrize(("config", "name"), SIZES, ids=range(len(SIZES)))
def test_sublayers_have_the_parameters_that_are_cut(config, name):
    plan = fitting(name, config)
    model = Decoder(config, plan, device="meta")
    found = sublayer_parameters(config, plan)
    assert found == [sum(p.numel() for p in sublayer.parameters()) for sublayer in model.weight_groups]
    total = total_parameters(config, plan)
    assert state_bytes(config, plan, 1) == 16 * total
    gathered = 4 * (2 * (total - sum(found)) + 4 * max(found))
    assert state_bytes(config, plan, 8) == 4 * -(-4 * total // 8) + gathered
    assert traffic(config, plan, 1) == 0
    assert 0 < recomputed(config, plan) < activations(config, plan)
