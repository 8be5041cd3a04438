"""The public names exist, are explained, and cost little to import."""

import subprocess
import sys
from types import ModuleType

import neartwin as nt
import neartwin.accounting
import neartwin.divergences
import neartwin.losses
import neartwin.mechanisms
import neartwin.tradeoff


def test_every_public_name_can_be_had_and_says_what_it_is():
    assert nt.__all__ == sorted(nt.__all__)
    for name in nt.__all__:
        found = getattr(nt, name)
        assert found.__doc__, name
    assert set(nt.__all__) <= set(dir(nt))


def test_an_unknown_name_is_an_attribute_error():
    assert not hasattr(nt, "no_such_name")


def test_importing_the_package_and_its_accounting_loads_no_driver():
    script = "import sys, neartwin, neartwin.accounting.filters; print([m for m in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    for heavy in ("duckdb", "pyarrow", "sqlalchemy", "sqlglot", "matplotlib", "pandas", "rich", "scipy.stats"):
        assert f"'{heavy}'" not in loaded, heavy


def test_the_accountant_costs_no_library_beyond_numpy_and_scipy_special():
    script = """
import sys, numpy, scipy.special
before = set(sys.modules)
from neartwin.accounting import numerical_accountant
print(*sorted(set(sys.modules) - before))
"""
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    foreign = {name for name in loaded if name.split(".")[0] not in {"neartwin", *sys.stdlib_module_names}}
    assert not foreign
    assert "neartwin.losses.route" in loaded  # the engine is there
    families = ("subsampled_gaussian", "subsampled_laplace", "discrete_gaussian", "finite", "geometric")
    assert not {f"neartwin.losses.{name}" for name in families} & set(loaded)  # and a family comes when it is used


def test_special_functions_are_loaded_when_one_is_called():
    script = """
import sys
from types import ModuleType
import neartwin.releases.accounts, neartwin.queries.opening
from neartwin.accounting import numerical_accountant
print("scipy.special" in sys.modules)
from neartwin.special import ndtri
print(ndtri(0.5), "scipy.special" in sys.modules)  # of a few numbers
print(ndtri([0.5] * 17)[16], "scipy.special" in sys.modules)
"""
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert told == ["False", "0.0", "False", "0.0", "True"]


def test_rooms_that_load_their_names_late_hold_all_of_them():
    for room in (neartwin.accounting, neartwin.tradeoff, neartwin.losses, neartwin.divergences, neartwin.mechanisms):
        assert room.__all__ == sorted(room.__all__)
        assert set(room.__all__) <= set(dir(room))
        for name in room.__all__:
            for _ in range(2):  # a file of the same name would take its place once it is loaded
                assert not isinstance(getattr(room, name), ModuleType), name
        assert not hasattr(room, "no_such_name")
