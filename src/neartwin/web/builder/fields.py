"""The fields of the question page, as text that was typed; nothing was checked yet."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from neartwin.web.builder.groups import Grouped
from neartwin.web.datasets import EACH_ROW_NAME, Dataset

MOST_STATISTICS, MOST_GROUPED = 8, 6
_VALUE = ("column", "low", "high", "step", "fill", "weight")
FIELDS: dict[str, tuple[str, ...]] = {  # of each statistic, those that it has a use for
    "count": ("column", "weight"),
    "count_units": ("weight",),
    "sum": _VALUE,
    "mean": _VALUE,
    "median": _VALUE,
    "quantile": (*_VALUE, "rank"),
    "minimum": _VALUE,
    "maximum": _VALUE,
    "histogram": ("column", "edges", "weight"),
    "variance": _VALUE,
    "stddev": _VALUE,
    "covariance": ("column", "second", "weight"),
    "correlation": ("column", "second", "weight"),
    "regression": ("column", "second", "weight"),
    "coefficient": ("column", "second", "feature", "weight"),
    "most_common": ("column", "k", "counted"),
}
_WORDS = {
    "count": "number of rows",
    "count_units": "number of units",
    "stddev": "standard deviation of",
    "coefficient": "one coefficient of a regression of",
    "most_common": "most common values of",
}
VERBS = {ask: _WORDS.get(ask, f"{ask} of") for ask in FIELDS}
KEYS = {"declared": "the declared ones", "given": "these", "discover": "discover them privately (costs a delta)"}
OVER = {
    "": "each group alone",
    "prefixes": "running totals",
    "moving": "moving sums",
    "ranges": "sums of runs of groups",
    "weights": "weighted sums",
}
CURRENCIES = {"epsilon": "ε", "rho": "ρ (zCDP)", "mu": "μ (Gaussian)"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """One statistic as its fields.

    second: the other column of a covariance or correlation, the features of a regression. feature: whose coefficient, or "" for
    the intercept. rank: of a quantile, or several with
    commas. edges: of a histogram. step, fill: of the grid, and what NULL stands for. weight: of its error among the others.
    k, counted: how many most common values, and whether with their counts.
    """

    ask: str = "count"
    column: str = ""
    second: str = ""
    feature: str = ""
    low: str = ""
    high: str = ""
    step: str = ""
    fill: str = ""
    rank: str = ""
    edges: str = ""
    weight: str = ""
    k: str = ""
    counted: str = ""
    name: str = ""
    more: str = ""  # JSON: keywords that have no field, as an SQL text gave them

    @property
    def shows(self) -> tuple[str, ...]:
        """The fields that it has a use for."""
        return FIELDS.get(self.ask, _VALUE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """All fields of the question page.

    groups: columns to group by; grouped: computed groups, after them. tune_rows, tune_groups: "on" where a bound is to be found
    out privately, and is the largest that it may become; value_range: "on" where clip bounds are, within those given.
    having, order_by, limit, offset: done to the answer, for nothing; shaping: before them, as JSON, what SQL alone says: ratios,
    values cut at 0, values that only grow. joined: "on" where the SQL joins tables, computes of statistics, or sums over its
    groups in ways that fields do not say: then the SQL is the question, and groups are the columns that it groups by. margins:
    groups of those groups, with semicolons between, of which the statistics are wanted. over: prefixes, moving, ranges or
    weights, where sums over the groups are wanted; falling: "on" where windows begin with the largest key; before, behind: how
    many groups a moving sum takes on each side; lengths: of runs; weights: as in `minors: 16 = 1, 17 = 1/2; old: 90 = 1`.
    """

    wanted: tuple[Wanted, ...] = (Wanted(),)
    where: str = ""
    groups: tuple[str, ...] = ()
    grouped: tuple[Grouped, ...] = ()
    keys: str = "declared"
    given: Mapping[str, str] = field(default_factory=dict)
    rows_per_group: str = "1"
    groups_per_unit: str = "1"
    tune_rows: str = ""
    tune_groups: str = ""
    tune_share: str = ""
    tune_expected: str = ""
    rows_per_unit: str = ""
    norm_per_unit: str = ""
    discovery_groups: str = ""
    units_together: str = ""
    sampling_rate: str = ""
    value_range: str = ""
    currency: str = "epsilon"
    amount: str = "0.1"
    delta: str = ""
    having: str = ""
    order_by: str = ""
    limit: str = ""
    offset: str = ""
    shaping: str = ""
    sql: str = ""
    joined: str = ""
    margins: str = ""
    over: str = ""
    falling: str = ""
    before: str = ""
    behind: str = ""
    lengths: str = ""
    weights: str = ""
    size: str = "1000"
    key: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """Of all groups, in their order."""
        return (*self.groups, *(one.label for one in self.grouped))

    @property
    def choice(self) -> Wanted | None:
        """The most common values, where they are asked for: a question of its own."""
        return next((one for one in self.wanted if one.ask == "most_common"), None)


def as_fields(asked: Asked) -> dict[str, Any]:
    """As JSON that `of_fields` reads back, for the way to a worker process."""
    return asdict(asked)


def of_fields(told: Mapping[str, Any]) -> Asked:
    """The fields that `as_fields` wrote."""
    wanted = tuple(Wanted(**one) for one in told["wanted"])
    grouped = tuple(Grouped(**one) for one in told["grouped"])
    return Asked(**{**told, "wanted": wanted, "grouped": grouped, "groups": tuple(told["groups"])})


_PLAIN = {one.name for one in fields(Asked)} - {"wanted", "groups", "grouped", "given"}


def read(sent: Mapping[str, list[str]], columns: list[str]) -> Asked:
    """The fields that a browser sent. columns: those whose keys may be given."""

    def one(name: str) -> str:
        return sent.get(name, [""])[0].strip()[:10_000]

    wanted = tuple(
        Wanted(**{part.name: one(f"{part.name}_{place}") for part in fields(Wanted)})
        for place in range(MOST_STATISTICS)
        if f"ask_{place}" in sent
    )
    grouped = tuple(
        Grouped(**{part.name: one(f"group_{part.name}_{place}") for part in fields(Grouped)})
        for place in range(MOST_GROUPED)
        if f"group_way_{place}" in sent
    )
    named = [*columns, *(part.label for part in grouped)]
    return Asked(
        wanted=wanted or (Wanted(),),
        groups=tuple(dict.fromkeys(column[:200] for column in sent.get("group", [])[:20])),
        grouped=grouped,
        given={column: one(f"keys_{column}") for column in named if one(f"keys_{column}")},
        **{name: one(name) for name in _PLAIN},
    )


def start(dataset: Dataset, groupable: list[str], rule: str) -> Asked:
    """A first question that can be asked as it stands: how many units, by a column with declared keys where there is one.

    rule: the account's, whose native currency the spend is in.
    """
    keyed = [column for column in groupable if column in dataset.keys]
    unit = "count_units" if dataset.unit != EACH_ROW_NAME else "count"
    currency = {"gdp": "mu", "zcdp": "rho"}.get(rule, "epsilon")
    amount = {"mu": "0.1", "rho": "0.005"}.get(currency, "0.1")
    return Asked(wanted=(Wanted(ask=unit),), groups=tuple(keyed[:1]), currency=currency, amount=amount)
