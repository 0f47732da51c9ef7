"""Commands and options that are not there, the help, and the versions."""

import platform
import re
from importlib import metadata

import pytest

from experiments.cli import main
from experiments.cli.parser import parser
from experiments.cli.unknown_options import ALIASES, MEANT
from tests.experiments.cli.answers import leaves, outcome, refused

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
