"""neartwin: private statistics from tables about people, with a proof of how little one person can be told from them.

A data set and its near twin, one person apart, must give answers that nobody can tell apart.
"""

from typing import TYPE_CHECKING

from neartwin.lazy import late

if TYPE_CHECKING:
    from neartwin.accounting.budgets import advantage as advantage
    from neartwin.accounting.budgets import approx as approx
    from neartwin.accounting.budgets import gdp as gdp
    from neartwin.accounting.budgets import mixed as mixed
    from neartwin.accounting.budgets import pure as pure
    from neartwin.accounting.budgets import rdp as rdp
    from neartwin.accounting.budgets import zcdp as zcdp
    from neartwin.client import connect as connect
    from neartwin.planning.limits import private_limit as private_limit
    from neartwin.planning.limits import private_range as private_range
    from neartwin.queries.groups import bins as bins
    from neartwin.queries.groups import date as date
    from neartwin.queries.groups import date_part as date_part
    from neartwin.queries.histograms import histogram as histogram
    from neartwin.queries.open import table as table
    from neartwin.queries.quantiles import maximum as maximum
    from neartwin.queries.quantiles import median as median
    from neartwin.queries.quantiles import minimum as minimum
    from neartwin.queries.quantiles import quantile as quantile
    from neartwin.queries.sql.parse import from_sql as from_sql
    from neartwin.queries.sql.series import series_from_sql as series_from_sql
    from neartwin.queries.statistics import coefficient as coefficient
    from neartwin.queries.statistics import correlation as correlation
    from neartwin.queries.statistics import count as count
    from neartwin.queries.statistics import count_distinct_units as count_distinct_units
    from neartwin.queries.statistics import covariance as covariance
    from neartwin.queries.statistics import mean as mean
    from neartwin.queries.statistics import regression as regression
    from neartwin.queries.statistics import stddev as stddev
    from neartwin.queries.statistics import sum as sum  # noqa: A004
    from neartwin.queries.statistics import variance as variance
    from neartwin.queries.workloads import moving_sums as moving_sums
    from neartwin.queries.workloads import prefix_sums as prefix_sums
    from neartwin.queries.workloads import range_sums as range_sums
    from neartwin.releases.accounts import open_ledger as open_ledger
    from neartwin.releases.certificates import Certificate as Certificate
    from neartwin.releases.certificates import certify as certify
    from neartwin.releases.consistency import make_consistent as make_consistent
    from neartwin.releases.documents import WrittenRelease as WrittenRelease
    from neartwin.releases.release import Release as Release
    from neartwin.report.page import save as save
    from neartwin.report.plots import plot as plot
    from neartwin.tables.joins import owned_by as owned_by
    from neartwin.tables.joins import public_table as public_table
    from neartwin.tables.table import ROW as ROW
    from neartwin.tables.table import bounds as bounds

# public name -> the room that owns it; imported at first use, so that an accountant never loads a database driver
_HOME = {
    "Certificate": "neartwin.releases.certificates",
    "ROW": "neartwin.tables.table",
    "Release": "neartwin.releases.release",
    "WrittenRelease": "neartwin.releases.documents",
    "advantage": "neartwin.accounting.budgets",
    "approx": "neartwin.accounting.budgets",
    "bins": "neartwin.queries.groups",
    "bounds": "neartwin.tables.table",
    "certify": "neartwin.releases.certificates",
    "coefficient": "neartwin.queries.statistics",
    "connect": "neartwin.client",
    "correlation": "neartwin.queries.statistics",
    "count": "neartwin.queries.statistics",
    "count_distinct_units": "neartwin.queries.statistics",
    "covariance": "neartwin.queries.statistics",
    "from_sql": "neartwin.queries.sql.parse",
    "series_from_sql": "neartwin.queries.sql.series",
    "date": "neartwin.queries.groups",
    "gdp": "neartwin.accounting.budgets",
    "histogram": "neartwin.queries.histograms",
    "mean": "neartwin.queries.statistics",
    "maximum": "neartwin.queries.quantiles",
    "minimum": "neartwin.queries.quantiles",
    "quantile": "neartwin.queries.quantiles",
    "median": "neartwin.queries.quantiles",
    "open_ledger": "neartwin.releases.accounts",
    "owned_by": "neartwin.tables.joins",
    "date_part": "neartwin.queries.groups",
    "plot": "neartwin.report.plots",
    "public_table": "neartwin.tables.joins",
    "pure": "neartwin.accounting.budgets",
    "moving_sums": "neartwin.queries.workloads",
    "prefix_sums": "neartwin.queries.workloads",
    "range_sums": "neartwin.queries.workloads",
    "rdp": "neartwin.accounting.budgets",
    "regression": "neartwin.queries.statistics",
    "save": "neartwin.report.page",
    "stddev": "neartwin.queries.statistics",
    "sum": "neartwin.queries.statistics",
    "make_consistent": "neartwin.releases.consistency",
    "table": "neartwin.queries.open",
    "mixed": "neartwin.accounting.budgets",
    "private_limit": "neartwin.planning.limits",
    "private_range": "neartwin.planning.limits",
    "variance": "neartwin.queries.statistics",
    "zcdp": "neartwin.accounting.budgets",
}
__all__ = sorted(_HOME)  # noqa: PLE0605 - a sorted list of public names, from one table
__version__ = "0.1.0"
__getattr__, _names = late(__name__, _HOME)


def __dir__() -> list[str]:
    return [*_names(), "__version__"]
