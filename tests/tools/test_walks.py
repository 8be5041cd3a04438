"""What the count of a walk counts."""

from dataclasses import replace

import neartwin as nt
from neartwin.checks import positive
from tests.tools import tool

WALKS = tool("walks")


def test_walk_counts_named_functions_of_the_package_alone():
    entered = WALKS.walked(lambda: [positive(scale=n) for n in (1, 2)] and sorted([2, 1], key=lambda n: n))
    names = {code.co_name: n for code, n in entered.items()}
    assert names["positive"] == 2
    assert not any(name.startswith("<") for name in names)
    assert WALKS.files_of(entered)[0] == "checks.py"
    assert WALKS.walked(lambda: WALKS.cell(1, None)) == {}


def test_walk_past_its_bar_fails_the_check_and_another_does_not(monkeypatch, capsys):
    def prepared(_):
        return lambda: nt.pure(epsilon=1)

    walk = WALKS.Walk("pure", prepared, files=20, functions=50)
    monkeypatch.setattr(WALKS, "WALKS", [walk])
    assert WALKS.main(["--check"]) == 0
    for bars in ({"files": 0}, {"functions": 0}):
        monkeypatch.setattr(WALKS, "WALKS", [replace(walk, **bars)])
        assert WALKS.main(["--check"]) == 1
        assert WALKS.main([]) == 0
    assert "(bar 0)" in capsys.readouterr().out


def test_every_walk_runs():
    assert all(len(WALKS.counted(walk)) > 10 for walk in WALKS.WALKS)
