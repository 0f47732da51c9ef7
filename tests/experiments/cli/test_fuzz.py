"""Whatever is typed: status 0, 1 or 2, a line or two, no traceback.

Options come from the parser itself, so a new one is tried as soon as it is there.  What takes long is put aside.
"""

import argparse
import contextlib
import os
import random
from types import SimpleNamespace
from unittest import mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from experiments import catalogue
from experiments.cli import main
from experiments.cli.parser import parser
from icl.data.sources import Document
from tests.experiments.cli.answers import check, leaves, put_aside, unverified, write_corpus
from theory.prompts.setting import Estimate

RUBBISH = [
    *("", " ", "-", "--", "0", "-1", "1", "2", "3", "0.5", "-0.0", "1e9", "1e400", "nan", "inf", "-inf", "1_0", "0x10"),
    *("99999999999999999999", "1000000000", "1" * 5000, "½", "é\u202e", "\U0001f389", "x" * 300, "a\nb", "\udc80"),
    *("None", "true", "[1]", "{}", "()", "1,2", ",", "a=b", "a=b,a=b", "a=", "=", "+", ":", ".py:", "skipv1+", "../.."),
    *("~", "nowhere", "nowhere/at/all", "file.txt", "file.txt/x", "folder", "corpus", "w0.npy", "plan.py:mine"),
    "plan.py:wrong",
]
SENSIBLE = {
    "plan": ["skipv1", "vanilla", "resformer", "svformer", "attnres", "skipv1:ratio=0.25", "plan.py:mine"],
    "preset": ["llama-2m", "llama-60m", "dva-b", "vit-tiny"],
    "variant": ["skipv1", "resformer+gqa:group=2", "mla", "plan.py:mine", "skipv1:ratio=2"],
    "variants": ["vanilla", "vanilla,skipv1", "vanilla,vanilla"],
    "names": ["skipv1-gap", "bridge", "text-values"],
    "profile": ["smoke", "cpu", "gpu", "full"],
    "ids": ["skipv1.gap"],
    "id": ["skipv1.gap", "skipv1.w0"],
    "source": ["corpus", "stdlib", "file.txt", "hf:me/set"],
    "folder": ["prepared"],
    "data": ["regression:d=2,n=3,sigma=0.1", "regression:d=2,d=3", "prepared", "corpus", "stdlib"],
    "out": ["out", "out/deep", "file.txt", "folder"],
    "device": ["cpu", "auto", "cuda", "tpu"],
    "w0": ["10", "1,2", "1,2,0", "w0.npy", "nan"],
    "covariance": ["2", "1,2", "-1"],
    "kurtosis": ["2", "1,2", "-3"],
    "figure": ["plan.gif", "nowhere/plan.svg"],
    "encoding": ["latin-1", "utf-16", "nothing"],
    "d": ["2", "3", "1"],
    "n": ["4", "1"],
    "sigma": ["0.1", "0"],
    "rank": ["1", "2"],
    "heads": ["2", "3", "4"],
    "steps": ["2", "9"],
}
COMMON = settings(suppress_health_check=[*HealthCheck])


LEAVES = {
    words: [action for action in one._actions if not isinstance(action, argparse._HelpAction)]
    for words, one in leaves(parser())
}


@st.composite
def command_lines(draw, rubbish=0.3):
    """A command with some of its options, mostly sensible values, and now and then something that is not there."""
    words = draw(st.sampled_from(sorted(LEAVES)))
    line, rng = list(words), random.Random(draw(st.integers(0, 2**32)))

    def value(action):
        known = [str(choice) for choice in action.choices or ()] or SENSIBLE.get(action.dest, ["1", "2"])
        return rng.choice(RUBBISH if rng.random() < rubbish else known)

    for action in rng.sample(LEAVES[words], len(LEAVES[words])):
        if not action.option_strings:
            line += [value(action) for _ in range(rng.randint(0, 2) if action.nargs == "*" else 1)]
        elif action.required or rng.random() < 0.25:
            for _ in range(2 if rng.random() < 0.05 else 1):  # twice
                line.append(action.option_strings[-1])
                if action.nargs != 0:
                    line[-1:] = [f"{line[-1]}={value(action)}"] if rng.random() < 0.5 else [line[-1], value(action)]
    if rng.random() < 0.1:
        line.insert(rng.randrange(len(line) + 1), rng.choice(["--nothing", "-x", *RUBBISH]))
    return line


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A working folder deep enough for `../..`, in which there is a little of everything, and nothing takes long."""
    import numpy as np

    work = tmp_path_factory.mktemp("fuzz") / "a" / "b" / "c"
    (work / "folder").mkdir(parents=True)
    write_corpus(work / "corpus")
    (work / "file.txt").write_text("some words\n")
    np.save(work / "w0.npy", np.diag([1.0, 2.0]))
    (work / "plan.py").write_text(
        "from theory import plan, v\ndef mine(s):\n    return plan(s)\ndef wrong(s):\n    raise KeyError('x')\n"
    )
    few = [Document(str(i), f"line {i}\n" * 20) for i in range(60)]
    found = SimpleNamespace(value=1.0, starts=1, finished=1, agreeing=1)
    catalogue.claims()  # a module that is first imported below would keep what is put in its imports' place
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.chdir(work))
        # What is prepared of the few documents below must not be taken for the standard library's source ever after.
        stack.enter_context(mock.patch.dict(os.environ, {"XDG_CACHE_HOME": str(work / "cache")}))
        for target, name, instead in (
            ("icl.data.sources", "_stdlib", lambda: iter(few)),
            ("experiments.experiment.together", "executed", put_aside),
            ("experiments.commands.single", "train_arm", put_aside),
            ("experiments.ledger.verify", "verifications", unverified),
            ("experiments.report.build", "build", put_aside),
            ("experiments.runs", "mutate", put_aside),
            ("experiments.bench.step", "Side", put_aside),
            ("experiments.bench.depth", "Side", put_aside),
            ("experiments.bench.toy", "run_benchmarks", put_aside),
            ("experiments.bench.decoders", "run_decoders", put_aside),
            ("experiments.bench.campaign", "run_campaign", put_aside),
            ("experiments.rental.dry", "dry", put_aside),
            ("experiments.rental.sitting.Sitting", "go_on", put_aside),
            ("experiments.rental.trainings", "train", put_aside),
            ("theory.toy.minimise", "minimise", lambda *_, **__: found),
            ("theory.skipv1.gap", "paper_bound", lambda *_, **__: Estimate(1.0, 0.0, "none")),
        ):
            stack.enter_context(mock.patch(f"{target}.{name}", instead))
        assert main(["data", "prepare", "corpus", "--out", "prepared", "--vocab", "300"]) == 0
        yield work


QUICK = 15


@pytest.mark.usefixtures("place")
@settings(COMMON, max_examples=QUICK)
@given(command_lines())
@pytest.mark.long
def test_whatever_is_typed_gets_an_answer(line):
    check(line)


@pytest.mark.slow
@pytest.mark.usefixtures("place")
@settings(COMMON, max_examples=400)
@given(st.one_of(command_lines(), command_lines(rubbish=0.05), command_lines(rubbish=0.9)))
def test_whatever_is_typed_gets_an_answer_at_length(line):
    check(line)
