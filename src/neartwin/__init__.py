"""neartwin: private statistics from tables about people, with a proof of how little they reveal about any one person.

A data set and its near twin, one person apart, must give answers that nobody can tell apart.
"""

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import FunctionType
from typing import TYPE_CHECKING

from neartwin.interactive import explained_call, unknown_name

if TYPE_CHECKING:
    from neartwin.accounting.budgets import advantage as advantage
    from neartwin.accounting.budgets import approx as approx
    from neartwin.accounting.budgets import gdp as gdp
    from neartwin.accounting.budgets import mixed as mixed
    from neartwin.accounting.budgets import pure as pure
    from neartwin.accounting.budgets import rdp as rdp
    from neartwin.accounting.budgets import zcdp as zcdp
    from neartwin.client import connect as connect
    from neartwin.planning.limits import limits as limits
    from neartwin.planning.limits import private_limit as private_limit
    from neartwin.queries.open import owned_by as owned_by
    from neartwin.queries.open import table as table
    from neartwin.queries.query import bins as bins
    from neartwin.queries.query import date as date
    from neartwin.queries.query import date_part as date_part
    from neartwin.queries.sql.parse import from_sql as from_sql
    from neartwin.queries.sql.parse import series_from_sql as series_from_sql
    from neartwin.queries.workloads import moving_sums as moving_sums
    from neartwin.queries.workloads import prefix_sums as prefix_sums
    from neartwin.queries.workloads import range_sums as range_sums
    from neartwin.releases.accounts import check as check
    from neartwin.releases.accounts import open_ledger as open_ledger
    from neartwin.releases.certificates import Certificate as Certificate
    from neartwin.releases.certificates import certify as certify
    from neartwin.releases.consistency import make_consistent as make_consistent
    from neartwin.releases.release import Release as Release
    from neartwin.releases.release import WrittenRelease as WrittenRelease
    from neartwin.report.page import plot as plot
    from neartwin.report.page import save as save
    from neartwin.statistics import *  # noqa: F403 - every constructor of a statistic
    from neartwin.statistics.clipping import private_range as private_range
    from neartwin.tables.joins import public_table as public_table
    from neartwin.tables.table import ROW as ROW
    from neartwin.tables.table import bounds as bounds

# the public names of each room; imported at first use, so that an accountant never loads a database driver
_ROOMS = {
    "accounting.budgets": ("advantage", "approx", "gdp", "mixed", "pure", "rdp", "zcdp"),
    "client": ("connect",),
    "planning.limits": ("limits", "private_limit"),
    "queries.query": ("bins", "date", "date_part"),
    "queries.open": ("owned_by", "table"),
    "queries.sql.parse": ("from_sql", "series_from_sql"),
    "queries.workloads": ("moving_sums", "prefix_sums", "range_sums"),
    "releases.accounts": ("open_ledger", "check"),
    "releases.certificates": ("Certificate", "certify"),
    "releases.consistency": ("make_consistent",),
    "releases.release": ("Release", "WrittenRelease"),
    "report.page": ("plot", "save"),
    "statistics.clipping": ("private_range",),
    "tables.joins": ("public_table",),
    "tables.table": ("ROW", "bounds"),
}
_HOMES = {name: f"{__name__}.{room}" for room, names in _ROOMS.items() for name in names}
__version__ = "0.1.0"


@cache
def _explained(name: str) -> object:
    """A public name; a function refuses arguments that do not fit with the line to write."""
    statistics = import_module("neartwin.statistics").CONSTRUCTORS
    found = statistics[name] if name in statistics else getattr(import_module(_HOMES[name]), name)
    return explained_call(found, f"nt.{name}") if isinstance(found, FunctionType) else found


if not TYPE_CHECKING:  # a type checker then knows the names above and no others

    def __getattr__(name: str) -> object:
        if name in _HOMES:
            return _explained(name)
        if name == "__all__":
            return __dir__()[:-1]
        if name.startswith("_") or find_spec(f"{__name__}.{name}") is not None:  # a room, imported in a moment
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        if name in import_module("neartwin.statistics").CONSTRUCTORS:
            return _explained(name)
        raise unknown_name("nt", name, __dir__()[:-1])


def __dir__() -> list[str]:
    statistics = import_module("neartwin.statistics").CONSTRUCTORS
    return [*sorted([*_HOMES, *statistics]), "__version__"]
