"""The command line's contract: results, one line for bad input or unknown options, the help, and quick answers."""

import json
import platform
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from experiments import catalogue
from experiments.cli import main
from experiments.cli.parser import parser
from experiments.cli.unknown_options import ALIASES, MEANT
from experiments.experiment import execution
from experiments.ledger.claim import Claim
from tests.experiments.cli.answers import leaves, outcome, refused, unverified
from tests.experiments.report.words import as_words, words
from theory.plans.variants import VARIANTS

EXAMPLE = ["predict", "skipv1", "--d", "3", "--n", "8", "--sigma", "0.3", "--rank", "2"]
WRONG = Claim("wrong", "p", "here", "s", "none", "verified")
WRONG.check("two is one", states=2, control=3, wrong="three")(lambda version: version == 1)
PROMPTS, TRAIN = "regression:d=2,n=3,sigma=0", "train --preset llama-2m --steps 9"
ROOT = Path(__file__).resolve().parents[3]


def test_predict_prints_the_contract_s_keys(capsys):
    assert main([*EXAMPLE, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert {"mha", "skipv1", "gap", "gap_to_optimum", "gap_of_optima", "rho", "paper_bound"} < set(result)
    assert round(result["mha"], 3) == 7.947
    assert round(result["loss"], 3) == round(result["skipv1"], 3) == 5.300
    assert (result["method"], result["attained"]) == ("closed form", True)
    assert result["paper_bound"] is None


@pytest.mark.long
def test_predict_with_the_paper_s_bound(capsys):
    assert main([*EXAMPLE, "--paper-bound", "--json"]) == 0
    bound = json.loads(capsys.readouterr().out)["paper_bound"]
    assert set(bound) == {"value", "stderr", "method"}
    assert 0 < bound["value"] < 4.632
    assert bound["stderr"] > 0
    assert main(["predict", "skipv1", "--d", "512", "--n", "8", "--sigma", "0"]) == 0
    assert "MHA at rank a" in capsys.readouterr().out


@pytest.mark.long
def test_predict_any_two_layer_plan(tmp_path, capsys):
    path = tmp_path / "mine.py"
    path.write_text(
        "from theory.plans.plan import plan, k\ndef mine(s):\n    return plan(s, keys=lambda n, h: k(n, h) + k(1, h))\n"
    )
    task = ["--d", "3", "--n", "8", "--sigma", "0.3", "--rank", "2", "--heads", "1"]
    losses = {}
    for name in ("svformer", "cross-layer", "cla"):
        assert main(["predict", name, *task, "--json"]) == 0
        losses[name] = json.loads(capsys.readouterr().out)
    assert losses["svformer"]["loss"] == losses["svformer"]["skipv1"]
    assert losses["cross-layer"]["loss"] == losses["cla"]["mha"]
    assert losses["cla"]["explained"] == 0
    assert main(["predict", f"{path}:mine", *task]) == 0  # residual keys, which have no closed form
    assert "of 12 descents ended here" in capsys.readouterr().out
    assert main(["predict", "shared-keys", *task]) == 0
    assert "closed form; an infimum, not attained" in capsys.readouterr().out


@pytest.mark.long
@pytest.mark.usefixtures("fine_figures")
def test_describe_counts_and_draws(tmp_path, capsys):
    assert main(["describe", "llama-350m", "--variant", "skipv1", "--json"]) == 0
    about = json.loads(capsys.readouterr().out)
    assert about["saved"]["value_cache"] == pytest.approx(23 / 48)
    assert about["plan"]["values"] == ["layer 1: own", "layers 2-24: heads 1-8 own, heads 9-16 layer 1"]
    for preset, count in (("dva-a", 162_419_712), ("dva-b", 112_800_768)):
        assert main(["describe", preset, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["total_parameters"] == count
    for suffix, begins in (("svg", b"<?xml"), ("png", b"\x89PNG"), ("pdf", b"%PDF")):
        path = tmp_path / f"plan.{suffix}"
        assert main(["describe", "llama-2m", "--variant", "neutreno+cross-layer+attnres", "--figure", str(path)]) == 0
        assert path.read_bytes().startswith(begins)
    said = capsys.readouterr().out
    for text in ("values added beside the attention", "   4 ||", "depth: Full AttnRes", "layer 1: own", "FLOPs"):
        assert text in said


@pytest.mark.parametrize("name", VARIANTS)
def test_every_variant_can_be_described(name, capsys):
    assert main(["describe", "llama-60m", "--variant", name, "--dtype", "fp32"]) == 0
    out = capsys.readouterr().out
    assert f") under {name}\n" in out
    assert "  8 " in out  # the last layer's row


def test_variants_are_listed(capsys):
    assert main(["variants", "--json", "--preset", "llama-60m"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert set(rows) == set(VARIANTS)
    assert rows["svformer"]["cache"] == pytest.approx(-7 / 16)
    assert main(["variants"]) == 0
    assert "half of the value heads are layer 1's" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("predict skipv1 --d 3 --n 8 --sigma 0.3 --rank 4", "rank must be a whole number from 0 to d = 3, got 4"),
        ("predict skipv1 --d 3 --n 8 --sigma big", "must be a number, got 'big'"),
        ("predict skipv1 --d 2.5 --n 8 --sigma 0", "must be a whole number, got '2.5'"),
        ("predict skipv9 --d 3 --n 8 --sigma 0.3", "unknown variant 'skipv9'; did you mean skipv"),
        ("predict skipv1 --d 3 --n 8 --sigma 0.3 --heads 0", "heads must be a whole number from 1, got 0"),
        ("predict residual-keys --d 40 --n 8 --sigma 0.3 --rank 39", "minimising it takes d <= 10"),
        ("describe llama-350m --variant nope.py:mine", "nope.py: no such file"),
        ("describe llama-350m --dtype int3", "unknown dtype 'int3'; did you mean int8?"),
        ("describe llama-350m --context 0", "--context must be at least 1"),
        ("describe llama-350m --figure plan.gif", "--figure must end in .svg, .png, .pdf, got 'plan.gif'"),
        ("describe llama-350m --figure nowhere/plan.svg", "nowhere: no such folder"),
        ("variants --preset llama", "unknown preset 'llama'"),
        ("predict skipv1 --n 8 --sigma 0.3", "--d"),
        ("run skipv1_gap", "unknown experiment 'skipv1_gap'; did you mean skipv1-gap?"),
        ("run skipv1.gap", "unknown experiment 'skipv1.gap', which is a ledger entry; did you mean skipv1-gap"),
        ("run skipv1-limit", "skipv1-limit is retired: it is part of `crosslayer run skipv1-gap` now, and so are its"),
        ("run scale-loss", "scale-loss is retired: `crosslayer run text-values` asks its question now; what it found"),
        ("run scale-icl", "scale-icl is retired: no experiment asks its question now; what it found stands in"),
        ("run ladder --profile depths", "profile depths of ladder is retired: the ladder asks two questions now"),
        ("run skipv1-gap --profile CPU", "skipv1-gap has no profile 'CPU'; did you mean cpu?"),
        ("compare scale_decode", "'scale_decode' is no full-size experiment; did you mean scale-decode?"),
        ("verify skipv1_gap", "unknown ledger entry 'skipv1_gap'; did you mean skipv1.gap"),
        ("describe resformer", "unknown preset 'resformer', which is a variant; there are "),
        ("describe llama-2m --variant skipv1:ration=0.5", "skipv1 has no option 'ration'; did you mean ratio?"),
        (f"{TRAIN} --data regresion:d=3,n=8", "unknown data 'regresion:d=3,n=8'; did you mean regression:...?"),
        (f"{TRAIN} --data {PROMPTS} --variant value-embeddings", "a table has a row for every token of a vocabulary"),
        (f"{TRAIN} --data {PROMPTS},spikes=4", "regression has no 'spikes'; did you mean spike?"),
        ("train --preset llama-2m --steps 9 --schedule skipv1_llama1", "did you mean skipv1-llama?"),
        ("run nothing", "unknown experiment 'nothing'; there are hyper-growth, resformer-blocks, dva-c"),
        ("run skipv1-gap --profile huge", "no profile 'huge'; it has smoke, cpu, full"),
        ("run skipv1-gap --profile smoke --seeds 1", "--seeds must be from 2"),
        ("run skipv1-gap --seeds 1000000000000", "--seeds must be from 2"),
        ("run --all --profile huge", "no experiment has a profile 'huge'"),
        ("run --all --profile gpu", "there is no GPU that torch can use here"),
        ("run bridge --only scale", "--only chooses from --all"),
        ("run bridge --minutes 0", "--minutes must be positive, got 0"),
        ("run bridge --jobs -1", "--jobs must not be negative, got -1"),
        ("run scale-uptrain --data nowhere", "nowhere holds no prepared data; see `crosslayer data prepare --help`"),
        ("run bridge --device tpu", "--device must be auto, cpu or cuda, got 'tpu'"),
        ("compare skipv1-gap", "'skipv1-gap' is no full-size experiment; there are text-layers, "),
        ("compare --out nowhere", "no finished full-size experiment below nowhere; --out "),
        ("bench step --preset vit-tiny", "vit-tiny does not read tokens"),
        ("bench step --variants vanilla,nothing", "unknown variant 'nothing'"),
        ("bench depth --device cpu --variants nothing", "unknown variant 'nothing'"),
        ("bench step --preset llama-2m --batch 0 --device cpu", "--batch must be at least 1, got 0"),
        ("bench step --preset llama-2m --context 0", "--context must be at least 1, got 0"),
        ("data prepare nowhere --out never", "there is no file or folder nowhere"),
        ("data prepare stdlib", "--out"),
        ("data info nowhere", "nowhere"),
        ("data prepair", "unknown action 'prepair'; did you mean prepare?"),
        (f"{TRAIN} --data nowhere", "there is no folder nowhere; make one with `crosslayer data prepare SOURCE --out "),
        ("train --preset llama-2m --steps 9 --schedule none", "unknown schedule 'none'; there are skipv1-llama"),
        ("train --preset llama-2m --variant nothing --steps 9", "unknown variant 'nothing'"),
        ("train --preset vit-tiny --steps 9", "vit-tiny does not read tokens"),
        ("train --preset llama-2m --steps 9 --context 0", "--context must be at least 1, got 0"),
        ("train --preset llama-2m --steps 9 --batch 0", "--batch must be at least 1, got 0"),
        ("train --preset llama-2m --steps 0", "steps must be at least 1, got 0"),
        ("train --preset llama-2m --steps 9 --device cuda", "there is no GPU that torch can use here"),
        ("bench --threads 100000", "the number of cores"),
        ("run", "name experiments, or give --all"),
        ("run skipv1-gap --all", "not both"),
        ("verify no.such.entry", "unknown ledger entry 'no.such.entry'"),
        ("bench --threads 0", "--threads must be from 1"),
        ("dance", "unknown command 'dance'; there are list, run, "),
    ],
)
def test_bad_input_is_one_line_and_status_2(arguments, says):
    refused(arguments.split(), says)


@pytest.mark.parametrize("command", ["run skipv1-gap --profile smoke --out", "report --out"])
def test_an_unwritable_folder_is_one_line(command, tmp_path, capsys):
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert main([*command.split(), str(blocked / "runs")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


DESCRIBE = ["describe", "llama-350m", "--variant", "skipv1"]


@pytest.mark.parametrize("arguments", [["--help"], ["list"], EXAMPLE, DESCRIBE, ["variants"]], ids=" ".join)
def test_quick_commands_import_nothing_heavy(arguments):
    """That they answer in under half a second is measured by hand; here: what made them slow stays out."""
    code = (
        "import sys\nfrom experiments.cli import main\n"
        f"try: main({arguments!r})\nexcept SystemExit: pass\n"
        "heavy = {'torch', 'scipy', 'matplotlib', 'sympy', 'sphinx', 'docutils'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_every_command_has_help_with_an_example(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    commands = re.findall(r"^    (\w+) ", capsys.readouterr().out, re.MULTILINE)
    some = {"list", "run", "predict", "describe", "variants", "verify", "report", "bench", "data", "train", "compare"}
    assert some <= set(commands)
    for command in commands:
        with pytest.raises(SystemExit) as stop:
            main([command, "--help"])
        assert stop.value.code == 0
        assert "example: crosslayer" in capsys.readouterr().out


def test_list_as_json(capsys):
    assert main(["list", "--json"]) == 0
    names = [e["name"] for e in json.loads(capsys.readouterr().out)]
    ours = ["skipv1-w0", "skipv1-end-to-end", "skipv1-gap", "skipv1-softmax", "toy-orderings"]  # toys first
    ours += ["text-layers", "text-dynamic-values", "scale-uptrain", "text-depth", "ladder", "text-values"]
    assert [name for name in names if name in ours] == ours
    assert names == catalogue.names("theory") + catalogue.names("scale")


@pytest.mark.long
@pytest.mark.usefixtures("fine_figures")
def test_a_lost_figure_is_drawn_again(smoke):
    _, folder = smoke
    before = (folder / "figure.png").read_bytes()
    (folder / "figure.png").unlink()
    assert main(["run", "skipv1-gap", "--profile", "smoke", "--out", str(folder.parent.parent)]) == 0
    assert (folder / "figure.png").read_bytes() == before


def test_verify_shows_and_counts(capsys):
    assert main(["verify", "skipv1.eckart-young", "--json"]) == 0
    (entry,) = json.loads(capsys.readouterr().out)
    assert entry["verdict"] == "refuted"
    assert all(check["ok"] and check["control"] for check in entry["checks"])


def test_verify_fails_when_a_verdict_no_longer_holds(monkeypatch, capsys):
    monkeypatch.setitem(catalogue.claims(), "wrong", WRONG)
    monkeypatch.setattr(WRONG, "module", __name__)
    for command in (["verify", "wrong"], ["claim", "wrong"]):
        assert main(command) == 1
        out = capsys.readouterr().out
        assert "FAIL" in out
        assert re.search(r"two is one.*: does not hold", out)


@pytest.mark.long
def test_a_claim_is_shown_whole(tmp_path, monkeypatch, capsys):
    """Where its proof stands, what it rests on, its checks, its experiments and their committed figure."""
    monkeypatch.chdir(ROOT)  # where the committed results lie; runs of the user's own, which go before them, do not
    monkeypatch.setattr("experiments.ledger.verify.verifications", unverified)
    nothing = ["--out", str(tmp_path)]
    assert main(["claim", "skipv1.gap", "--json", *nothing]) == 0
    about = json.loads(capsys.readouterr().out)
    path, line = about["proof"].split(":")
    assert (ROOT / path).read_text().splitlines()[int(line) - 1]
    assert {"skipv1.mha-infimum", "skipv1.skipv1-minimum"} <= set(about["premises"])
    assert about["experiments"] == ["skipv1-gap"]
    assert all(check["ok"] for check in about["checks"])
    assert main(["claim", "skipv1.gap", *nothing]) == 0
    shown = capsys.readouterr().out
    for text in (about["proof"], "rests on it", "results/skipv1-gap/figure.png", about["checks"][0]["what"]):
        assert text in shown
    assert main(["claim", "resformer.neutreno-eqn8", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["paper"] == "ResFormer"


@pytest.mark.long
def test_report_builds_the_site(smoke, monkeypatch, capsys):
    _, folder = smoke
    out = folder.parent.parent
    few = {i: catalogue.claims()[i] for i in ("skipv1.eckart-young", "skipv1.lemma3-isotropy")}
    monkeypatch.setattr(catalogue, "claims", lambda: few)
    monkeypatch.setattr(catalogue, "indexes", list)
    as_words(monkeypatch)
    assert main(["report", "--out", str(out)]) == 0
    assert str(out / "site" / "index.html") in capsys.readouterr().out
    page = words((out / "site" / "index.html").read_text())
    for text in ("skipv1.eckart-young", "trained, mha, d3-n8-s0.3", "exact/d3-n8-s0.3/skipv1/a3", "crosslayer report"):
        assert text in page


def test_report_without_runs_says_what_to_do(tmp_path, monkeypatch, capsys):
    """At once: not after the ledger was looked through, or verified."""
    monkeypatch.setattr(execution, "ROOT", tmp_path)  # as of an installed package, which has no committed results
    monkeypatch.setattr(catalogue, "claims", lambda: pytest.fail("the ledger was loaded"))
    for more in ([], ["--verify"]):
        assert main(["report", "--out", str(tmp_path), *more]) == 2
        err = capsys.readouterr().err
        assert f"no finished experiment below {tmp_path}; make one with `crosslayer run --all" in err
    (tmp_path / "train" / "llama-2m").mkdir(parents=True)
    assert main(["report", "--out", str(tmp_path)]) == 2
    assert "(trainings are shown by `crosslayer evaluate`); make one with" in capsys.readouterr().err


def test_committed_results_are_found_from_everywhere(tmp_path, monkeypatch, capsys):
    """And not taken from a folder of that name that is somebody else's."""
    shown = []
    monkeypatch.setattr("experiments.report.write_report", lambda out, *_: shown.append(out) or out / "site")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results" / "skipv1-gap").mkdir(parents=True)
    (tmp_path / "results" / "skipv1-gap" / "summary.json").write_text("{}")
    assert main(["report"]) == 0
    assert shown
    out = capsys.readouterr().out
    assert f"no finished experiment below runs: shown are the committed results of {ROOT / 'results'}" in out
    monkeypatch.setattr("experiments.ledger.verify.verifications", unverified)
    assert main(["claim", "skipv1.gap"]) == 0
    assert f"{ROOT / 'results' / 'skipv1-gap'}" in capsys.readouterr().out.replace("\n" + " " * 13, "")
    assert main(["compare"]) == 2
    assert f"no finished full-size experiment below runs; --out {ROOT / 'results'} has" in capsys.readouterr().err


LEAVES = dict(leaves(parser()))


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("train --lr 0.01", "crosslayer train: unknown option --lr; did you mean --learning-rate?"),
        ("train --lr=0.01 --preset llama-2m", "unknown option --lr; did you mean --learning-rate?"),
        ("train --learning_rate 0.01", "unknown option --learning_rate; did you mean --learning-rate?"),
        ("train --json --wd 0.1", "unknown option --wd; did you mean --weight-decay?"),
        ("train --step 9 --preset llama-2m", "unknown option --step; did you mean --steps?"),
        ("train --resume runs", "unknown option --resume; did you mean --resume-from?"),
        ("train --dtype bf16", "unknown option --dtype; did you mean --precision?"),
        ("train -lr 0.01", "unknown option -lr; did you mean --learning-rate?"),
        ("run skipv1-gap --d 7", "crosslayer run: unknown option --d; did you mean --device, --data?"),
        ("run skipv1-gap --dev cpu", "unknown option --dev; did you mean --device?"),
        ("generate folder --max-new-tokens 9", "unknown option --max-new-tokens; did you mean --tokens?"),
        (
            "data prepare stdlib --vocab-size 9",
            "crosslayer data prepare: unknown option --vocab-size; did you mean --v",
        ),
        ("--json list", "unknown option --json; options of a command come after it, see `crosslayer --help`"),
        ("--verson", "unknown option --verson; did you mean --version?"),
        ("version", "unknown command 'version'; did you mean --version?"),
        ("eval folder", "unknown command 'eval'; did you mean evaluate?"),
        ("help trian", "unknown command 'trian'; did you mean train"),
        ("help train steps", "unknown command 'steps'; see `crosslayer train --help`"),
        ("bench toi", "unknown suite 'toi'; did you mean toy?"),
        ("run --all --only scal", "unknown value of --only 'scal'; did you mean scale?"),
        ("claim skipv1.gap skipv1.w0", "crosslayer claim: unexpected 'skipv1.w0'; see `crosslayer claim --help`"),
        ("predict skipv1 --sigma -inf --d 2 --n 2", "--sigma: expected one argument"),
        ("generate folder --prompt --lr", "--prompt: expected one argument"),
    ],
)
def test_what_is_not_there_is_named(line, says):
    refused(line.split(), says)


@pytest.mark.parametrize("words", LEAVES)
def test_no_option_can_be_shortened(words):
    """A shortened name would change its meaning, or end to have one, whenever an option is added."""
    for option in LEAVES[words]._option_string_actions:
        shortened = option[:-1]
        if option.startswith("--") and len(option) > 4 and shortened not in LEAVES[words]._option_string_actions:
            assert option in refused([*words, shortened], f"unknown option {shortened}; did you mean")


def test_aliases_lead_to_options_that_there_are():
    options = {name for command in [parser(), *LEAVES.values()] for name in command._option_string_actions}
    assert set(ALIASES) <= options
    assert sum(map(len, ALIASES.values())) == len(MEANT)


def test_a_value_is_no_option():
    for line in (["generate", "nowhere", "--prompt", "-- x"], ["generate", "nowhere", "--prompt=--lr"]):
        assert "nowhere" in outcome(line)[2]


@pytest.mark.parametrize(
    ("line", "begins"),
    [
        ("", "usage: crosslayer [-h] [--version] COMMAND"),
        ("help", "usage: crosslayer [-h] [--version] COMMAND"),
        ("help train", "usage: crosslayer train "),
        ("data", "usage: crosslayer data "),
        ("help data", "usage: crosslayer data "),
        ("help data prepare", "usage: crosslayer data prepare "),
    ],
)
def test_the_help_is_no_error(line, begins):
    status, out, err = outcome(line.split())
    assert (status, err) == (0, "")
    assert out.startswith(begins)
    assert "example: " in out or "exit status: " in out


def test_the_version_has_what_a_bug_report_needs(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["--version"])
    assert not stop.value.code
    said = capsys.readouterr().out
    assert said.count("\n") == 1
    assert re.match(rf"crosslayer {re.escape(metadata.version('crosslayer'))} \(Python ", said)
    assert f"Python {platform.python_version()}, torch {metadata.version('torch')}, " in said


def test_a_version_that_is_not_known(monkeypatch, capsys):
    def missing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    with pytest.raises(SystemExit):
        main(["--version"])
    assert "crosslayer not installed (Python " in capsys.readouterr().out


def test_the_site_s_parser_knows_every_command():
    """As `help` does; a command of its own needs its own topic alone."""
    whole, alone = (set(parser(name)._subparsers._group_actions[0].choices) for name in ("report", "describe"))
    assert whole == set(parser()._subparsers._group_actions[0].choices) > alone
    assert "describe" in alone
