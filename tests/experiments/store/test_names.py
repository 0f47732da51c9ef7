"""Names are remembered until a source file changes; what is asked for by name is loaded alone."""

import subprocess
import sys

import pytest

from experiments.store import names
from experiments.store.names import Lazy, remembered


def test_values_are_made_when_they_are_asked_for():
    made = []
    lazy = Lazy({name: lambda name=name: made.append(name) or name.upper() for name in "abc"}, dict.fromkeys("abc", 0))
    assert (list(lazy), len(lazy), "b" in lazy, "d" in lazy, made) == (["a", "b", "c"], 3, True, False, [])
    assert (lazy["b"], lazy["b"], made) == ("B", "B", ["b"])
    lazy["d"] = "own"
    del lazy["a"]
    assert dict(lazy) == {"b": "B", "c": "C", "d": "own"}
    with pytest.raises(KeyError):
        lazy["a"]


def test_names_are_found_again_when_a_file_has_changed_or_is_damaged(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    calls = []

    def find():
        calls.append(1)
        return {"a": len(calls)}

    assert [remembered("things", find) for _ in range(2)] == [{"a": 1}] * 2
    monkeypatch.setattr(names, "_files", lambda: "others")
    assert [remembered("things", find) for _ in range(2)] == [{"a": 2}] * 2
    (path,) = tmp_path.rglob("things.json")
    path.write_text(path.read_text().replace('"a": 2', '"a": 7'))
    assert [remembered("things", find) for _ in range(2)] == [{"a": 3}] * 2


def test_an_edit_a_new_and_a_lost_file_change_the_digest(tmp_path, monkeypatch):
    package = tmp_path / "madeup"
    package.mkdir()
    (package / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(names, "ROOTS", ("madeup",))
    digest = names._files.__wrapped__
    digests = [digest()]
    for change in (
        lambda: (package / "one.py").write_text("x = 1"),
        lambda: (package / "one.py").write_text("x = 12"),
        lambda: (package / "one.py").unlink(),
    ):
        change()
        digests.append(digest())
    assert len(set(digests)) == 3
    assert digests[0] == digests[3]


@pytest.mark.long
def test_an_entry_is_verified_without_the_claims_of_others():
    script = (
        "import sys; from experiments.cli import main; main(['verify', 'skipv1.eckart-young']); print(*sys.modules)"
    )
    for _ in range(2):  # the first time all are looked through
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    assert [name for name in loaded if ".claims." in name] == ["experiments.skipv1.claims.bound_steps"]
    assert "torch" not in loaded
