"""What makes a training another one, and what does not."""

from dataclasses import replace

import pytest
import torch

from experiments.store.folders import UserError
from experiments.training import user_files
from experiments.training.records import train_arm
from icl.training import loop
from tests.experiments.training.small import HERE, OTHERS, PLAN, PROMPTS, finite, with_rate
from theory.plans.law import Law
from theory.plans.names import resolve

LAWS = (
    *({"spike": 4}, {"decay": 4}, {"inputs": "laplace"}, {"w0": 4}, {"w0_random": 4}, {"pool": 4}),
    *({"w0_random": 4, "w0_seed": 1}, {"pool": 4, "pool_seed": 1}),
)


def test_a_key_changes_with_all_that_matters(reader, monkeypatch):
    arms = [
        PROMPTS,
        *OTHERS.values(),
        replace(PROMPTS, architecture=replace(PROMPTS.architecture, d_ff=8)),
        replace(PROMPTS, probes=("magnitude",)),
        replace(PROMPTS, probes=("magnitude", HERE)),
        replace(PROMPTS, probes=(HERE,)),
        replace(PROMPTS, variant=PLAN),
        replace(PROMPTS, variant=resolve("resformer", PROMPTS.architecture.shape)),
        *(with_rate(PROMPTS, 0.01, **change) for change in ({"steps": 8}, {"clip": 0.5}, {"betas": (0, 0)})),
        *(with_rate(PROMPTS, 0.01, **change) for change in ({"precision": "bf16"}, {"compile": True})),
        *(replace(PROMPTS, source=replace(PROMPTS.source, law=Law(**law))) for law in LAWS),
        replace(PROMPTS, source=replace(PROMPTS.source, scored="last")),
        reader,
        replace(reader, source=replace(reader.source, digest="0" * 64)),
        replace(reader, source=replace(reader.source, held_out_windows=9)),
    ]
    keys = {arm.key(device) for arm in arms for device in ("cpu", "cuda")}
    monkeypatch.setattr(loop, "ROUTINE", loop.ROUTINE + 1)
    keys |= {arm.key("cpu") for arm in arms}
    assert len(keys) == 3 * len(arms)


def test_a_key_does_not_depend_on_where_things_are(reader):
    assert replace(reader, source=replace(reader.source, folder="/elsewhere")).key("cpu") == reader.key("cpu")
    plain = replace(PROMPTS, source=replace(PROMPTS.source, law=Law(), scored="all"))
    assert plain.key("cpu") == PROMPTS.key("cpu")


def test_a_key_follows_a_plan_of_one_s_own(tmp_path):
    """Not its file, which may change or move."""
    keys = []
    for weight, name in ((0.5, "mine.py"), (2.0, "mine.py"), (2.0, "moved.py")):
        path = tmp_path / name
        path.write_text(
            "from theory.plans.plan import plan, v\ndef mine(s):\n"
            f"    return plan(s, values=lambda n, h: {weight} * v(n, h) if n > 1 else v(n, h))\n"
        )
        own = user_files.resolve(f"{path}:mine", PROMPTS.architecture.shape)
        keys.append(replace(PROMPTS, variant=own, label=f"{path}:mine").key("cpu"))
    assert keys[0] != keys[1] == keys[2]


def test_a_variant_may_be_a_plan(tmp_path):
    arm = replace(PROMPTS, variant=PLAN)
    assert arm.name.startswith("plan-")
    assert replace(arm, twin=True).name == f"{arm.name}-twin"
    shown = replace(arm, label="mine")
    assert (shown.name, shown.key("cpu")) == ("mine", arm.key("cpu"))  # what it is called decides no number
    assert replace(PROMPTS, label="mine").key("cpu") == PROMPTS.key("cpu")
    record = finite(train_arm(shown, tmp_path, "cpu"))
    assert (record["name"], record["arm"]["variant"]) == ("mine", "mine")
    assert "1/2" in record["arm"]["plan"] or "0.5" in record["arm"]["plan"]


def test_a_plan_and_its_name_train_the_same_model(tmp_path):
    by_name = replace(PROMPTS, variant="resformer")
    as_plan = replace(PROMPTS, variant=resolve("resformer", PROMPTS.architecture.shape))
    records = [train_arm(arm, tmp_path / str(i), "cpu") for i, arm in enumerate((by_name, as_plan))]
    assert records[0]["curve"] == records[1]["curve"]
    assert records[0]["key"] != records[1]["key"]


def test_probes_are_found_by_name(tmp_path):
    record = finite(train_arm(replace(PROMPTS, probes=(HERE, "magnitude")), tmp_path, "cpu"))
    assert set(record["magnitudes"]) == {"start", "end"}
    found = record["probes"][HERE]
    assert found["start"]["entries"] != found["end"]["entries"]
    assert record["arm"]["probe"] is True
    assert record["arm"]["probes"] == [HERE]
    for name in ("magnitudes", "nowhere:probe", f"{__name__}:nothing"):
        with pytest.raises(UserError, match=f"there is no probe '{name}'") as stop:
            train_arm(replace(PROMPTS, probes=(name,)), tmp_path / "other", "cpu")
        assert "\n" not in str(stop.value)


def test_a_twin_differs_in_its_initial_weights_alone():
    twin = replace(PROMPTS, twin=True)
    assert (PROMPTS.name, twin.name) == ("vanilla", "vanilla-twin")
    ours, theirs = (arm.model("cpu").stem.read_in.weight.detach() for arm in (PROMPTS, twin))
    assert not torch.equal(ours, theirs)
    batches = [arm.task().batch(arm.seed, 0, 4) for arm in (PROMPTS, twin)]
    assert torch.equal(batches[0].inputs, batches[1].inputs)
    assert float(replace(PROMPTS, std=0.2).model("cpu").stem.read_in.weight.detach().std()) > 5 * float(ours.std())


def test_the_recipe_says_how_output_projections_start():
    scaled, plain = (
        arm.model("cpu").layers[0]["feed_forward"].down.weight.detach() for arm in (PROMPTS, OTHERS["outputs"])
    )
    torch.testing.assert_close(plain, (2 * PROMPTS.architecture.n_layers) ** 0.5 * scaled)
