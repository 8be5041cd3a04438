"""neartwin: private statistics from tables about people, with a proof of how little one person can be told from them.

A data set and its near twin, one person apart, must give answers that nobody can tell apart.
"""

from typing import TYPE_CHECKING

from neartwin.late import late

if TYPE_CHECKING:
    from neartwin.accounting.targets import advantage as advantage
    from neartwin.accounting.targets import approx as approx
    from neartwin.accounting.targets import gdp as gdp
    from neartwin.accounting.targets import pure as pure
    from neartwin.accounting.targets import rdp as rdp
    from neartwin.accounting.targets import three_pools as three_pools
    from neartwin.accounting.targets import zcdp as zcdp
    from neartwin.client import connect as connect
    from neartwin.queries.grouping import bins as bins
    from neartwin.queries.grouping import day as day
    from neartwin.queries.grouping import part as part
    from neartwin.queries.histograms import histogram as histogram
    from neartwin.queries.joining import owned as owned
    from neartwin.queries.joining import public as public
    from neartwin.queries.opening import table as table
    from neartwin.queries.quantiles import maximum as maximum
    from neartwin.queries.quantiles import median as median
    from neartwin.queries.quantiles import minimum as minimum
    from neartwin.queries.quantiles import quantile as quantile
    from neartwin.queries.relations import coefficient as coefficient
    from neartwin.queries.relations import correlation as correlation
    from neartwin.queries.relations import covariance as covariance
    from neartwin.queries.relations import regression as regression
    from neartwin.queries.sql import from_sql as from_sql
    from neartwin.queries.sql_series import series_from_sql as series_from_sql
    from neartwin.queries.statistics import count as count
    from neartwin.queries.statistics import count_units as count_units
    from neartwin.queries.statistics import mean as mean
    from neartwin.queries.statistics import stddev as stddev
    from neartwin.queries.statistics import sum as sum  # noqa: A004
    from neartwin.queries.statistics import variance as variance
    from neartwin.queries.table import EACH_ROW as EACH_ROW
    from neartwin.queries.table import bounded as bounded
    from neartwin.queries.tuned import tuned as tuned
    from neartwin.queries.tuned import tuned_range as tuned_range
    from neartwin.queries.workloads import moving as moving
    from neartwin.queries.workloads import prefixes as prefixes
    from neartwin.queries.workloads import ranges as ranges
    from neartwin.releases.accounts import open_ledger as open_ledger
    from neartwin.releases.certificates import Certificate as Certificate
    from neartwin.releases.certificates import certificate as certificate
    from neartwin.releases.consistency import summing as summing
    from neartwin.releases.release import Release as Release
    from neartwin.releases.written import WrittenRelease as WrittenRelease
    from neartwin.report.files import save as save
    from neartwin.report.plots import plot as plot

# public name -> the room that owns it; imported at first use, so that an accountant never loads a database driver
_HOME = {
    "Certificate": "neartwin.releases.certificates",
    "EACH_ROW": "neartwin.queries.table",
    "Release": "neartwin.releases.release",
    "WrittenRelease": "neartwin.releases.written",
    "advantage": "neartwin.accounting.targets",
    "approx": "neartwin.accounting.targets",
    "bins": "neartwin.queries.grouping",
    "bounded": "neartwin.queries.table",
    "certificate": "neartwin.releases.certificates",
    "coefficient": "neartwin.queries.relations",
    "connect": "neartwin.client",
    "correlation": "neartwin.queries.relations",
    "count": "neartwin.queries.statistics",
    "count_units": "neartwin.queries.statistics",
    "covariance": "neartwin.queries.relations",
    "from_sql": "neartwin.queries.sql",
    "series_from_sql": "neartwin.queries.sql_series",
    "day": "neartwin.queries.grouping",
    "gdp": "neartwin.accounting.targets",
    "histogram": "neartwin.queries.histograms",
    "mean": "neartwin.queries.statistics",
    "maximum": "neartwin.queries.quantiles",
    "minimum": "neartwin.queries.quantiles",
    "quantile": "neartwin.queries.quantiles",
    "median": "neartwin.queries.quantiles",
    "open_ledger": "neartwin.releases.accounts",
    "owned": "neartwin.queries.joining",
    "part": "neartwin.queries.grouping",
    "plot": "neartwin.report.plots",
    "public": "neartwin.queries.joining",
    "pure": "neartwin.accounting.targets",
    "moving": "neartwin.queries.workloads",
    "prefixes": "neartwin.queries.workloads",
    "ranges": "neartwin.queries.workloads",
    "rdp": "neartwin.accounting.targets",
    "regression": "neartwin.queries.relations",
    "save": "neartwin.report.files",
    "stddev": "neartwin.queries.statistics",
    "sum": "neartwin.queries.statistics",
    "summing": "neartwin.releases.consistency",
    "table": "neartwin.queries.opening",
    "three_pools": "neartwin.accounting.targets",
    "tuned": "neartwin.queries.tuned",
    "tuned_range": "neartwin.queries.tuned",
    "variance": "neartwin.queries.statistics",
    "zcdp": "neartwin.accounting.targets",
}
__all__ = sorted(_HOME)  # noqa: PLE0605 - a sorted list of public names, from one table
__version__ = "0.1.0"
__getattr__, _names = late(__name__, _HOME)


def __dir__() -> list[str]:
    return [*_names(), "__version__"]
