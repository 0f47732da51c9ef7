"""`crosslayer import` and `export`: there and back, and bad input is one line, status 2, and nothing half-written."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import icl
import theory
from experiments.commands.importing import export, import_
from experiments.training.model_folders import digest_of, model_folder
from icl.data.published import random_sequences
from icl.published.reading import load
from icl.published.writing import save
from tests.experiments.cli.answers import outcome, prepare_text, refused, train
from tests.icl.data.small import write_tokenizer
from tests.icl.published.llama import CONFIG, state_dict, write
from theory.prompts import regression

BIG = CONFIG | {"vocab_size": 320, "max_position_embeddings": 40, "eos_token_id": 1}
PLAN = (
    "from theory.plans.plan import plan, v\n\n\ndef mine(shape):\n    return plan(shape, values=lambda n, h: v(1, h))\n"
)
TEXT = ["--context", "16", "--batch", "2", "--steps", "30", "--log-every", "30", "--learning-rate", "0.01"]
RESULTS = Path(__file__).resolve().parents[3] / "results"


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """Published weights, and trainings: of vanilla, of a variant, of a user's own plan, on regression."""
    folder = tmp_path_factory.mktemp("checkpoints")
    write(folder / "published", BIG, state_dict(BIG, dtype=torch.float32), 2)
    write_tokenizer(folder / "published", ("<s>",))
    (folder / "plan.py").write_text(PLAN)
    text = [*prepare_text(folder), *TEXT]
    for name, variant in (("vanilla", "vanilla"), ("skipv1", "skipv1"), ("mine", f"{folder}/plan.py:mine")):
        train(folder / name, *text, variant=variant)
    train(folder / "regression", "--data", "regression:d=2,n=3,sigma=0.1", *TEXT[2:])
    (folder / "plan.py").unlink()
    return folder


def tokens():
    return torch.randint(290, (2, 12), generator=torch.Generator().manual_seed(0))


@pytest.mark.long
def test_what_is_imported_answers_as_what_was_published(work, tmp_path):
    status, out, _ = outcome(["import", str(work / "published"), "--out", str(tmp_path / "run")])
    assert status == 0
    assert out.splitlines()[0].startswith("imported published: width 16, 3 layers, 4 heads, context 40, ")
    assert torch.equal(icl.load(tmp_path / "run")(tokens()), load(work / "published")(tokens()))
    about = json.loads((tmp_path / "run" / "config.json").read_text())
    assert about["imported"] == {"from": str(work / "published"), "type": "llama"}
    assert not list(tmp_path.glob(".*"))
    assert len(about["sha256_of_files"]) == 2
    found = model_folder(tmp_path / "run")
    assert (found.kind, found.name, found.plan.shape.layers) == ("imported", "published", 3)
    assert {p.name for p in (tmp_path / "run").iterdir()} == {
        *("config.json", "generation_config.json", "model.safetensors", "plan.json", "tokenizer.json")
    }
    options = ["--prompt", "one", "--tokens", "6", "--device", "cpu"]
    texts = [outcome(["generate", str(f), *options])[1] for f in (tmp_path / "run", work / "published")]
    assert texts[0] == texts[1]
    probed = ["probe", str(tmp_path / "run"), "--what", "similarity", "--tokens", "80", "--out", str(tmp_path / "x")]
    assert outcome([*probed, "--device", "cpu"])[0] == 0


@pytest.mark.long
def test_a_variant_of_published_weights_is_kept(work, tmp_path):
    made = import_(str(work / "published"), tmp_path / "run", variant="resformer")
    assert (made.model_folder.name, made.plain) == ("published resformer", False)
    expected = load(work / "published", variant="resformer")(tokens())
    assert torch.equal(icl.load(tmp_path / "run")(tokens()), expected)
    assert not torch.equal(expected, load(work / "published")(tokens()))
    refused(["generate", str(tmp_path / "run"), "--variant", "skipv1"], "says itself")


@pytest.mark.parametrize(("name", "plain"), [("vanilla", True), ("skipv1", False), ("mine", False)])
def test_trainings_go_out_and_come_back(work, tmp_path, name, plain):
    """A user's own plan too, whose file is gone."""
    assert export(work / name, tmp_path / "hf", dtype="float32").plain == plain
    assert (tmp_path / "hf" / "modeling_crosslayer.py").exists() != plain
    again = import_(str(tmp_path / "hf"), tmp_path / "run")
    ours = icl.load(work / name)
    assert torch.equal(icl.load(tmp_path / "run")(tokens()), ours(tokens()))
    assert again.model_folder.plan == ours.plan
    out = outcome(["generate", str(tmp_path / "run"), "--prompt", "text", "--tokens", "5", "--temperature", "0"])[1]
    assert out == outcome(["generate", str(work / name), "--prompt", "text", "--tokens", "5", "--temperature", "0"])[1]


def test_a_paper_s_layout_goes_out_and_comes_back_and_says_itself_what_it_is(work, tmp_path):
    status, out, _ = outcome(["export", str(work / "skipv1"), "--to", "skipv1", "--out", str(tmp_path / "x")])
    assert status == 0
    assert "in the layout skipv1 of its paper's code" in out
    again = import_(str(tmp_path / "x"), tmp_path / "run")
    ours = icl.load(work / "skipv1")
    assert again.model_folder.plan == ours.plan
    assert all(
        torch.equal(p, q) for p, q in zip(again.model_folder.model("cpu").parameters(), ours.parameters(), strict=True)
    )


def test_transformers_reads_text_with_the_tokenizer_of_the_training(work, tmp_path):
    transformers = pytest.importorskip("transformers")
    status, out, _ = outcome(["export", str(work / "vanilla"), "--to", "hf", "--out", str(tmp_path / "hf")])
    assert status == 0
    assert "transformers reads it as any model" in out
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf")
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "hf", dtype=torch.float32)
    inputs = tokenizer("text 5, some", return_tensors="pt")["input_ids"]
    there = tokenizer.decode(model.generate(inputs, max_new_tokens=6, do_sample=False)[0])
    options = ["--prompt", "text 5, some", "--tokens", "6", "--temperature", "0", "--device", "cpu"]
    assert outcome(["generate", str(work / "vanilla"), *options])[1] == there + "\n"


@pytest.mark.parametrize(
    ("variant", "changed"),
    [("skipv1", True), ("resformer-learned", False), ("unet-skips", True), ("unet-skips:start=0", False)],
)
def test_a_conversion_says_whether_the_model_is_another_at_first(work, tmp_path, variant, changed):
    options = ["convert", str(work / "vanilla"), "--variant", variant, "--out"]
    status, out, _ = outcome([*options, str(tmp_path / "run")])
    assert status == 0
    assert ("before any training its scores differ" in out) == changed
    assert ("it gives the other model's scores" in out) != changed
    about = json.loads(outcome([*options, str(tmp_path / "again"), "--json"])[1])
    old, new = (icl.load(folder)(tokens()).detach() for folder in (work / "vanilla", tmp_path / "run"))
    assert (about["change"] > 1e-3) == changed == (float((new - old).norm() / old.norm()) > 1e-3)


def test_json_and_words(work, tmp_path):
    out = outcome(["export", str(work / "skipv1"), "--out", str(tmp_path / "a"), "--dtype", "bfloat16", "--json"])[1]
    about = json.loads(out)
    assert (about["plain"], about["name"]) == (False, "skipv1")
    assert about["parameters"] == sum(p.numel() for p in icl.load(work / "skipv1").parameters())
    assert "trust_remote_code" in outcome(["export", str(work / "skipv1"), "--out", str(tmp_path / "b")])[1]


def test_a_standalone_folder_has_a_model_file_of_its_own(work, tmp_path):
    status, out, _ = outcome(["export", str(work / "skipv1"), "--standalone", "--out", str(tmp_path / "x")])
    assert status == 0
    assert "through modeling_skipv1.py beside it, without this package" in out
    assert "class Skipv1ForCausalLM(" in (tmp_path / "x" / "modeling_skipv1.py").read_text()
    assert json.loads((tmp_path / "x" / "config.json").read_text())["architectures"] == ["Skipv1ForCausalLM"]


def test_an_exported_tokenizer_makes_no_token_types(work, tmp_path):
    """Version 4 of transformers would, unless told otherwise, and an exported model refuses them."""
    export(work / "skipv1", tmp_path / "x")
    made = json.loads((tmp_path / "x" / "tokenizer_config.json").read_text())
    assert made["model_input_names"] == ["input_ids", "attention_mask"]


def test_a_converted_training_can_be_evaluated_exported_and_generates(work, tmp_path):
    line = ["convert", str(work / "vanilla"), "--variant", "skipv1", "--how", "top-v", "--out", str(tmp_path / "run")]
    status, out, _ = outcome(line)
    assert status == 0
    assert out.startswith("converted vanilla as skipv1, top-v: ")
    found = icl.load(tmp_path / "run")
    expected = icl.convert(icl.load(work / "vanilla"), "skipv1", "top-v")
    assert torch.equal(found(tokens()), expected(tokens()))
    about = json.loads((tmp_path / "run" / "config.json").read_text())
    assert about["imported"] == {"from": str(work / "vanilla"), "type": "converted, top-v"}
    record = json.loads((work / "vanilla" / "summary.json").read_text())
    assert about["before"]["kind"] == "trained"
    for name in ("arm", "key", "loss", "commit", "versions", "device", "data"):
        assert about["before"][name] == record[name]
    options = ["--prompt", "text", "--tokens", "4", "--device", "cpu"]
    assert outcome(["generate", str(tmp_path / "run"), *options])[0] == 0
    shown = ["evaluate", str(tmp_path / "run"), "--text", str(work / "corpus"), "--tokens", "64", "--device", "cpu"]
    assert outcome([*shown, "--context", "16", "--out", str(tmp_path / "out")])[0] == 0
    assert not export(tmp_path / "run", tmp_path / "hf").plain


def test_what_was_before_is_carried_along(work, tmp_path):
    """Of what was imported and converted, in turn; of weights in several files, each one's digest."""
    import_(str(work / "published"), tmp_path / "a")
    assert outcome(["convert", str(tmp_path / "a"), "--variant", "skipv1", "--out", str(tmp_path / "b")])[0] == 0
    assert outcome(["convert", str(work / "published"), "--variant", "skipv1", "--out", str(tmp_path / "c")])[0] == 0
    about = {name: json.loads((tmp_path / name / "config.json").read_text()) for name in "abc"}
    digests = {path.name: digest_of(path) for path in (work / "published").glob("*.safetensors")}
    assert len(digests) == 2
    assert about["a"]["sha256_of_files"] == about["c"]["sha256_of_files"] == digests
    assert about["b"]["sha256_of_files"] == {"model.safetensors": digest_of(tmp_path / "a" / "model.safetensors")}
    assert about["b"]["before"] == {
        "kind": "imported",
        **{name: about["a"][name] for name in ("name", "variant", "imported", "sha256_of_files", "versions", "commit")},
    }
    assert about["c"]["before"] == {"kind": "published", "model_type": "llama"}


def test_a_conversion_that_costs_nothing(work, tmp_path):
    """Learned mixing begins as the function that was trained; so does what was published."""
    for name, place in (("vanilla", "a"), ("published", "b")):
        line = ["convert", str(work / name), "--variant", "resformer-learned", "--out", str(tmp_path / place)]
        assert outcome(line)[0] == 0
        model = load(work / name) if name == "published" else icl.load(work / name)
        assert torch.allclose(icl.load(tmp_path / place)(tokens()), model(tokens()), atol=1e-5)


def test_models_are_shown_side_by_side(work, tmp_path):
    """Costs are those that `describe` says, over the first one's; losses those that trainings ended with."""
    import_(str(work / "published"), tmp_path / "imported")
    places = [str(work / name) for name in ("vanilla", "skipv1", "mine", "regression", "published")]
    places += [str(tmp_path / "imported"), "llama-2m"]
    status, out, _ = outcome(["compare", *places, "--json"])
    assert status == 0
    found = json.loads(out)
    assert found["context"] == 7  # of regression on three pairs, the shortest
    first = None
    for place, one in zip(places, found["models"], strict=True):
        about = json.loads(outcome(["describe", place, "--context", "7", "--json"])[1])
        costs = [about[name] for name in ("total_parameters", "cache_bytes_per_token", "flops_per_token")]
        first = first or costs
        assert [one[name] for name in ("parameters", "cache_bytes_per_token", "flops_per_token")] == costs
        assert list(one["over_first"].values()) == pytest.approx([a / b for a, b in zip(costs, first, strict=True)])
    ended = [json.loads((work / name / "summary.json").read_text())["loss"] for name in ("vanilla", "skipv1", "mine")]
    assert [one["loss"] for one in found["models"]] == [*ended, None, None, None, None]
    assert [one["loss_less_first"] for one in found["models"][:3]] == [loss - ended[0] for loss in ended]
    assert found["models"][1]["over_first"]["cache_bytes_per_token"] < 1
    lines = outcome(["compare", *places])[1].splitlines()
    rows = {line.split()[0]: line for line in reversed(lines)}
    assert rows["2"].endswith(f"{ended[1]:.4f} ({ended[1] - ended[0]:+.4f})")
    assert rows["4"].endswith("other data")
    assert rows["5"].endswith("-")
    assert lines[-1] == "7: initial, llama-2m"
    assert f"1: trained for {found['models'][0]['steps']} steps, seed 0, {places[0]}" in lines
    others = json.loads(outcome(["compare", places[3], places[0], "--json"])[1])["models"]
    assert [one["loss"] is None for one in others] == [False, True]
    assert [one["last"] is None for one in others] == [False, True]


def test_regression_is_shown_beside_the_toy(work):
    """The loss after all pairs, which the toy's is about, and what predicting zero loses there."""
    place = str(work / "regression")
    saved = json.loads((work / "regression" / "summary.json").read_text())
    source, last = saved["arm"]["source"], saved["held_out"]["loss"][-1]
    task = {name: source[name] for name in ("d", "n", "sigma")}
    best = min(theory.predict("vanilla", **task, rank=rank).loss for rank in range(task["d"] + 1))
    _, first, second, after, zero = outcome(["compare", place, place])[1].splitlines()[-7:-2]
    assert first.split()[2:] == [f"{last:.4f}", f"{best:.4f}"]
    assert second.split()[2:] == [f"{last:.4f}", f"{best:.4f}", "+0.0000", "+0.0000"]
    assert after.startswith(f"After n = {task['n']} pairs")
    assert f"loses {regression.zero(task['d'], task['sigma']):.4f};" in zero


def test_variants_that_coincide_are_named(tmp_path):
    """A user's plan of layer 1's values in every layer is SVFormer's."""
    (tmp_path / "plan.py").write_text(PLAN)
    variants = {"vanilla": "vanilla", "mine": f"{tmp_path}/plan.py:mine", "shared": "svformer"}
    for name, variant in variants.items():
        train(tmp_path / name, "--data", "regression:d=2,n=3,sigma=0.1", *TEXT[2:4], "--steps", "2", variant=variant)
    out = outcome(["compare", *(str(tmp_path / name) for name in variants)])[1]
    assert [line for line in out.splitlines() if "has the plan of" in line] == [
        "3 has the plan of 2: with so many layers and heads they are one variant"
    ]


@pytest.mark.long
def test_a_preset_stands_for_its_initial_weights(work, tmp_path):
    """Of seed 0, which is said on standard error, once a model."""
    command = ["evaluate", "llama-2m", "--variant", "skipv1", "--tokens", "64", "--context", "16", "--device", "cpu"]
    status, out, errors = outcome([*command, "--out", str(tmp_path), "--json"])
    assert status == 0
    assert errors.count("llama-2m is a preset: its initial weights, of seed 0, which nobody has trained") == 1
    (found,) = json.loads(out)["runs"]
    model = icl.build("llama-2m", "skipv1", seed=0).eval()
    drawn = random_sequences(17, 4, model.config.stem.vocab)
    inputs, targets = torch.tensor(drawn[:, :-1]), torch.tensor(drawn[:, 1:])
    with torch.no_grad():
        answers = model(inputs)
    expected = torch.nn.functional.cross_entropy(answers.flatten(0, 1), targets.flatten())
    assert found["loss"]["mean"] == pytest.approx(float(expected), rel=1e-5)
    probing = ["probe", "llama-2m", "--what", "norms", "--tokens", "64", "--context", "16", "--device", "cpu"]
    assert outcome([*probing, "--out", str(tmp_path)])[0] == 0
    writing = ["generate", "llama-2m", "--data", str(work / "text"), "--tokens", "3", "--device", "cpu"]
    assert outcome([*writing, "--variant", "skipv1"])[0] == 0


def test_folders_are_described(work, tmp_path):
    """What their plans cost, against vanilla of the same sizes; with a picture."""
    import_(str(work / "published"), tmp_path / "run")
    for place in (work / "skipv1", work / "published", tmp_path / "run"):
        figure = tmp_path / f"{place.name}.svg"
        status, out, errors = outcome(["describe", str(place), "--json", "--figure", str(figure)])
        assert status == 0, errors
        about = json.loads(out)
        model = load(place) if place.name == "published" else icl.load(place)
        assert about["total_parameters"] == sum(p.numel() for p in model.parameters())
        assert (about["saved"]["value_cache"] > 0) == (place.name == "skipv1")
        assert figure.exists()
    assert outcome(["describe", str(work / "skipv1")])[1].startswith(f"{work / 'skipv1'} under skipv1\n")
    assert outcome(["describe", str(work / "skipv1"), "--variant", "resformer"])[0] == 2
    assert outcome(["describe", str(work / "corpus")])[0] == 2


def test_of_the_hub(work, tmp_path, monkeypatch):
    class Hub:
        @staticmethod
        def snapshot_download(name, allow_patterns):
            assert not any(pattern.endswith((".py", ".bin", ".pt")) for pattern in allow_patterns)
            if name != "someone/model":
                raise OSError(f"no {name}\nCheck the connection.\nAnd more.")
            return str(work / "published")

    monkeypatch.setattr("icl.data.sources.package", lambda _: Hub)
    assert import_("hf:someone/model", tmp_path / "run").model_folder.name == "someone/model"
    refused(["import", "hf:nobody/model", "--out", str(tmp_path / "x")], "hf:nobody/model cannot be had")


@pytest.mark.parametrize("says", ["is damaged", "holds no tensor"])
def test_damaged_folders_are_one_line_and_leave_nothing(work, tmp_path, says):
    """Of other damage the readers' tests tell."""
    shutil.copytree(work / "published", tmp_path / "in")
    path = max((tmp_path / "in").glob("*.safetensors"))
    if says == "is damaged":
        path.write_bytes(path.read_bytes()[:-40])
    else:
        tensors = load_file(path)
        del tensors[min(tensors)]
        save_file(tensors, path)
    refused(["import", str(tmp_path / "in"), "--out", str(tmp_path / "run")], says)
    assert [p.name for p in tmp_path.iterdir()] == ["in"]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (["import", "{work}/nowhere", "--out", "{tmp}/x"], "no such folder; a model of the hub is hf:NAME"),
        (["import", "someone/model", "--out", "{tmp}/x"], "no such folder; a model of the hub is hf:someone/model"),
        (["import", "{work}/published/config.json", "--out", "{tmp}/x"], "is a file; name its folder, which holds "),
        (["import", "{work}/corpus", "--out", "{tmp}/x"], "holds no model as transformers writes it: config.json is"),
        (["import", "{work}/published", "--out", "{work}"], "there already"),
        (["import", "{work}/published", "--out", "{tmp}/no/where"], "no such folder"),
        (["import", "{work}/vanilla", "--out", "{tmp}/x"], "can be used as it is"),
        (["import", "{work}/published", "--out", "{tmp}/x", "--variant", "svformer"], "v_proj"),
        (["convert", "{work}/skipv1", "--variant", "resformer", "--out", "{tmp}/x"], "only a vanilla model"),
        (["convert", "{work}/vanilla", "--variant", "skipv1", "--how", "x", "--out", "{tmp}/x"], "unknown way 'x'"),
        (["convert", "{work}/vanilla", "--variant", "skipv9", "--out", "{tmp}/x"], "skipv9"),
        (["convert", "{work}/nowhere", "--variant", "skipv1", "--out", "{tmp}/x"], "no such folder"),
        (["export", "{work}/nowhere", "--out", "{tmp}/x"], "no such folder"),
        (["export", "{work}/corpus", "--out", "{tmp}/x"], "no training's folder"),
        (["export", "{work}/regression", "--out", "{tmp}/x"], "reads no tokens"),
        (["export", "{work}/vanilla", "--out", "{tmp}/x", "--dtype", "int4"], "not 'int4'"),
        (["export", "{work}/skipv1", "--standalone", "--to", "skipv1", "--out", "{tmp}/x"], "not the layout skipv1"),
        (["export", "{work}/regression", "--standalone", "--out", "{tmp}/x"], "the model reads no tokens"),
        (
            ["export", "{work}/vanilla", "--out", "{tmp}/x", "--to", "onnx"],
            "unknown layout 'onnx'; there are hf, skipv1",
        ),
        (["export", "{work}/vanilla", "--out", "{tmp}/x", "--to", "skipv1"], "layout skipv1 is of models under skipv1"),
        (
            ["export", "{work}/skipv1", "--out", "{tmp}/x", "--to", "skipv1-gpt2"],
            "has no place for d_ff = 56: there it is 64",
        ),
        (["compare", "{work}/corpus"], "no training's folder"),
        (["compare", "{work}/vanilla", "{work}/nowhere"], "is no full-size experiment"),
        (["compare", "{work}/vanilla", "--variant", "skipv1"], "--variant is for experiments"),
        (["compare", str(RESULTS / "bridge"), "llama-2m"], "is an experiment's folder"),
        (["compare", "llama-2m", "bridge", "--out", "{work}/nowhere"], "no finished full-size experiment"),
        (["generate", "llama-2m"], "has no tokenizer; say --data FOLDER"),
        (["generate", "llama-2m", "--variant", "no-such"], "no-such"),
        (["evaluate", "llama-2m", "--text", "stdlib"], "has no tokenizer: it is asked about tokens drawn at random"),
        (["probe", "llama-3m"], "no such folder, and no preset of that name"),
    ],
)
def test_bad_input_is_one_line(work, tmp_path, line, says):
    refused([part.format(work=work, tmp=tmp_path) for part in line], says)
    assert not list(tmp_path.iterdir())


def test_an_imported_folder_that_was_changed_is_refused(work, tmp_path):
    import_(str(work / "published"), tmp_path / "run")
    path = tmp_path / "run" / "config.json"
    before = path.read_text()
    path.write_text(before.replace("10000.0", "10001.0").replace("50.0", "51.0"))
    assert "damaged; import it again" in outcome(["generate", str(tmp_path / "run")])[2]
    path.write_text(before)
    (tmp_path / "run" / "plan.json").unlink()
    assert "not whole; import it again" in outcome(["generate", str(tmp_path / "run")])[2]


def test_nothing_that_a_folder_names_is_run(work, tmp_path):
    """Not even where its plan is missing, and its variant a file."""
    import_(str(work / "published"), tmp_path / "run")
    mark = tmp_path / "mark"
    (tmp_path / "run" / "evil.py").write_text(f"open({str(mark)!r}, 'w')\n{PLAN}")
    (tmp_path / "run" / "plan.json").unlink()
    path = tmp_path / "run" / "config.json"
    content = json.loads(path.read_text())
    content = {k: v for k, v in content.items() if k not in ("sha256", "plan")}
    path.write_text(json.dumps(content | {"variant": f"{tmp_path / 'run' / 'evil.py'}:mine"}))
    for line in (["describe", "{}"], ["generate", "{}"], ["evaluate", "{}"], ["import", "{}", "--out", "{}2"]):
        assert outcome([part.format(tmp_path / "run") for part in line])[0] == 2
    assert not mark.exists()


def test_what_is_beside_is_left_alone(work, tmp_path):
    (tmp_path / "run.part").mkdir()
    (tmp_path / "run.part" / "thesis.txt").write_text("precious")
    import_(str(work / "published"), tmp_path / "run")
    export(work / "skipv1", tmp_path / "hf")
    assert (tmp_path / "run.part" / "thesis.txt").read_text() == "precious"
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    assert outcome(["import", str(work / "published"), "--out", str(tmp_path / "dangling")])[0] == 2
    assert {p.name for p in tmp_path.iterdir()} == {"run", "run.part", "hf", "dangling"}


def test_a_summary_beside_published_weights_is_nothing_of_ours(work, tmp_path):
    shutil.copytree(work / "published", tmp_path / "in")
    (tmp_path / "in" / "summary.json").write_text('{"args": {}}')
    assert model_folder(tmp_path / "in").kind == "published"


@pytest.mark.parametrize("sizes", [{"hidden_size": 10**12}, {"vocab_size": 10**30}, {"num_hidden_layers": 10**4}])
@pytest.mark.long
def test_sizes_beyond_all_measure_are_one_line(work, tmp_path, sizes):
    shutil.copytree(work / "published", tmp_path / "in")
    (tmp_path / "in" / "config.json").write_text(json.dumps(BIG | sizes))
    refused(["import", str(tmp_path / "in"), "--out", str(tmp_path / "run")], "crosslayer")


def test_what_reads_no_tokens_is_not_asked_about_text(work, tmp_path):
    outcome(["convert", str(work / "regression"), "--variant", "skipv1", "--out", str(tmp_path / "run")])
    for command in ("evaluate", "probe"):
        refused([command, str(tmp_path / "run"), "--out", str(tmp_path / "out")], "reads no tokens")


def test_full_disks_leave_nothing(work, tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device", str(tmp_path / "x"))

    monkeypatch.setattr("icl.models.saved.write_weights", full)
    line = ["import", str(work / "published"), "--out", str(tmp_path / "run")]
    refused(line, "No space left")
    assert not (tmp_path / "run").exists()
    monkeypatch.undo()
    assert outcome(line)[0] == 0
    assert [p.name for p in tmp_path.iterdir()] == ["run"]
    with pytest.raises(Exception, match="there already"):
        save(icl.load(tmp_path / "run"), tmp_path / "run")
