"""Plans from a user's own file."""

import pytest

from experiments.training.user_files import model, names_a_file
from theory.plans import names
from theory.plans.names import BadName
from theory.plans.plan import Shape, v


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
            names.model("llama-350m", variant)
        says = str(error.value)
    with pytest.raises(BadName) as error:
        model("llama-350m", variant)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_names_mean_what_they_mean_elsewhere():
    for variant in (None, "skipv1:ratio=0.25+gqa", "resformer+neutreno"):
        assert model("llama-60m", variant) == names.model("llama-60m", variant)
    assert [names_a_file(name) for name in ("skipv1+gqa", "mine.py", "gqa+mine.py:mine:layer=2")] == [False, True, True]
