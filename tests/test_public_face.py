"""The public names exist, are explained, and cost little to import."""

import ast
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import neartwin as nt
import neartwin.accounting
import neartwin.divergences
import neartwin.losses
import neartwin.mechanisms
import neartwin.tradeoff


def test_every_public_name_is_importable_and_documented():
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


FIRST_RELEASE = """
import sys, duckdb, neartwin as nt
duckdb.sql("COPY (SELECT i % 900 AS who, i % 3 AS town, i % 7 AS paid FROM range(3000) t(i)) TO 'visits.parquet'")
rows = nt.table("visits.parquet", unit="who")
account = nt.open_ledger("budget.db").open(rows, nt.approx(5, "1e-6"))
asked = rows.group_by("town").agg(n=nt.count(), total=nt.sum("paid", 0, 7))
release = account.release(account.plan(asked, spend=nt.approx(5, "1e-6"), limits=nt.limits(rows=4, max_groups=3)))
print(release.keys, release["n"].values, "pandas" in sys.modules)
"""


def test_a_release_of_found_groups_does_not_import_pandas(tmp_path):
    run = subprocess.run(
        [sys.executable, "-c", FIRST_RELEASE], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert run.stdout.startswith("((0,), (1,), (2,)) (")
    assert run.stdout.strip().endswith("False"), run.stdout


def test_no_public_name_of_a_room_is_hidden_by_its_module_of_that_name():
    for room in (neartwin.accounting, neartwin.tradeoff, neartwin.losses, neartwin.divergences, neartwin.mechanisms):
        face = ast.parse(Path(room.__file__).read_text(encoding="utf-8"))
        names = [alias.name for node in face.body if isinstance(node, ast.ImportFrom) for alias in node.names]
        assert len(names) > 10
        for name in names:
            assert not isinstance(getattr(room, name), ModuleType), name
        assert not hasattr(room, "no_such_name")
