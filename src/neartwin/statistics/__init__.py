"""Statistics that can be asked, one class each. Every constructor imported here is `nt.<name>`, and a verb of SQL and JSON."""

from neartwin.statistics.base import CONSTRUCTORS as CONSTRUCTORS
from neartwin.statistics.base import Statistic as Statistic
from neartwin.statistics.counts import count as count
from neartwin.statistics.counts import count_distinct as count_distinct
from neartwin.statistics.counts import count_distinct_units as count_distinct_units
from neartwin.statistics.counts import histogram as histogram
from neartwin.statistics.counts import mean as mean
from neartwin.statistics.counts import share as share
from neartwin.statistics.counts import sum as sum  # noqa: A004
from neartwin.statistics.moments import coefficient as coefficient
from neartwin.statistics.moments import correlation as correlation
from neartwin.statistics.moments import covariance as covariance
from neartwin.statistics.moments import regression as regression
from neartwin.statistics.moments import stddev as stddev
from neartwin.statistics.moments import variance as variance
from neartwin.statistics.order import interquartile_range as interquartile_range
from neartwin.statistics.order import maximum as maximum
from neartwin.statistics.order import median as median
from neartwin.statistics.order import minimum as minimum
from neartwin.statistics.order import quantile as quantile
