"""Data, plans and variants from the words and the files that a user writes."""

import pytest

from experiments.commands import names
from experiments.commands.training_options import TrainingOptions
from experiments.training.arms import PromptSource
from experiments.training.user_files import model, names_a_file
from theory.errors import BadInput
from theory.plans import names as plain
from theory.plans.law import Law
from theory.plans.names import BadName
from theory.plans.plan import Shape, v

SIZES = "regression:d=5,n=20,sigma=0.1"


def source(words):
    options = TrainingOptions(preset="llama-2m", data=words, batch=4, steps=2)
    made = names.arm(names.model("llama-2m", None, {}), options)
    assert made.architecture.context == 41
    return made.source


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("", PromptSource(5, 20, 0.1)),
        (",scored=all", PromptSource(5, 20, 0.1)),
        (",scored=last", PromptSource(5, 20, 0.1, scored="last")),
        (",spike=4", PromptSource(5, 20, 0.1, law=Law(spike=4))),
        (",decay=1.5,inputs=rademacher", PromptSource(5, 20, 0.1, law=Law(decay=1.5, inputs="rademacher"))),
        (",w0=-2,w0_random=1,w0_seed=3", PromptSource(5, 20, 0.1, law=Law(w0=-2, w0_random=1, w0_seed=3))),
        (",pool=64,pool_seed=1", PromptSource(5, 20, 0.1, law=Law(pool=64, pool_seed=1))),
    ],
)
def test_prompts_in_words(words, expected):
    assert source(SIZES + words) == expected


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("regression:", "regression"),
        ("recall:", "recall"),
        ("recall:pairs=4", "recall data are written recall:pairs=4,keys=16,values=16"),
        ("recall:pairs=4,keys=16,values=x", "recall data are written recall:pairs=4,keys=16,values=16"),
        ("recall:pairs=4,keys=16,values=16,sigma=1", "recall data are written recall:pairs=4,keys=16,values=16"),
        ("recall:pairs=4,keys=3,values=16", "keys must be at least as many as pairs, 4, got 3"),
        ("recall:pairs=4,keys=16,values=16,form=odd", "the form of recall is interleaved or paired, got 'odd'"),
        ("regression:d=5,n=20", "regression data are written regression:d=5,n=20,sigma=0.1"),
        ("regression:d=5,n=20,spike=4", "regression data are written regression:d=5,n=20,sigma=0.1"),
        ("regression:d=5,n=20,sigma=x", "regression data are written regression:d=5,n=20,sigma=0.1"),
        (SIZES + ",scored", "regression: scored must be all or last, got ''"),
        (SIZES + ",scored=", "regression: scored must be all or last, got ''"),
        (SIZES + ",held_out_prompts=8", "regression has no 'held_out_prompts'"),
        (SIZES + ",spike", "regression: spike must be a number, got ''"),
        (SIZES + ",spike=4,spike=5", "regression: spike is given twice"),
        (SIZES + ",pool=-1", "regression: pool must be from 0"),
    ],
)
def test_bad_words_are_told_in_one_line(words, says):
    with pytest.raises((BadInput, BadName)) as error:
        source(words)
    assert str(error.value).startswith(says)
    assert "\n" not in str(error.value)


# Plans from a user's own file.


def test_a_plan_from_a_user_s_file(tmp_path, capsys):
    path = tmp_path / "my_plans.py"
    path.write_text(
        "from theory.plans.plan import plan, v\n"
        "def mine(shape, layer=1):\n"
        "    return plan(shape, values=lambda n, h: v(layer if h == 1 and n > layer else n, h))\n"
        "def number(shape):\n    return 3\n"
        "def broken(shape):\n    return 1 / 0\n"
        "def leaves(shape):\n    raise SystemExit(0)\n"
        "print('hello')\n"
    )
    made, chosen = model("llama-60m", f"{path}:mine")
    assert chosen.head(8, 1).values == (v(1, 1),)
    _, moved = model("llama-60m", f"{path}:mine:layer=2+neutreno+gqa:group=4")
    assert moved.shape == Shape(8, 2)
    assert moved.head(8, 1).values == (v(2, 1),)
    for name, says in (
        ("number", "must return a plan"),
        ("broken", "ZeroDivisionError"),
        ("leaves", "SystemExit"),
        ("nothing", "no function"),
    ):
        with pytest.raises(BadName, match=says):
            model("llama-60m", f"{path}:{name}")
    path.write_text("def mine(:")
    with pytest.raises(BadName, match="SyntaxError"):
        model("llama-60m", f"{path}:mine")
    assert made.kv_heads == 8
    assert capsys.readouterr().out == ""  # what the file prints must not mix with JSON


@pytest.mark.parametrize(
    ("variant", "says"),
    [
        ("mine.py", "mine.py: name a function in it, as in mine.py:mine"),
        ("skipv1+nowhere.py:mine", "nowhere.py: no such file"),
        ("skipv9", "unknown variant 'skipv9'; did you mean skipv"),
        ("svformer+skipv1", None),
    ],
)
def test_names_without_meaning_say_why(variant, says):
    if says is None:  # the very words of the names alone
        with pytest.raises(BadName) as error:
            plain.model("llama-350m", variant)
        says = str(error.value)
    with pytest.raises(BadName) as error:
        model("llama-350m", variant)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_names_mean_what_they_mean_elsewhere():
    for variant in (None, "skipv1:ratio=0.25+gqa", "resformer+neutreno"):
        assert model("llama-60m", variant) == plain.model("llama-60m", variant)
    assert [names_a_file(name) for name in ("skipv1+gqa", "mine.py", "gqa+mine.py:mine:layer=2")] == [False, True, True]
