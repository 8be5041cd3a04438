"""The fields of the question page as typed text. Nothing here is checked, because the SQL parser checks their text."""

import datetime as dt
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import Any

from neartwin.errors import NeartwinError, ParameterError
from neartwin.queries.query import Edge, Grouping, bins, date, date_part
from neartwin.statistics.sql import SPELLINGS
from neartwin.tables.terms import UNITS
from neartwin.web.datasets import EACH_ROW_NAME, Dataset

MAX_STATISTICS, MAX_COMPUTED_GROUPS = 8, 6
_VALUE = ("column", "low", "high", "fill")
_WORDS = {  # of functions whose name in SQL is no word of this page
    "AVG": "mean",
    "CORR": "correlation",
    "COVAR_POP": "covariance",
    "IQR": "interquartile_range",
    "MAX": "maximum",
    "MIN": "minimum",
    "QUANTILE_CONT": "quantile",
    "REGR_INTERCEPT": "intercept",
    "REGR_SLOPE": "slope",
    "STDDEV_POP": "stddev",
    "STDDEV_SAMP": "sample_stddev",
    "VAR_POP": "variance",
    "VAR_SAMP": "sample_variance",
}
_ARGUMENTS = {"[": "edges", "0.": "rank", "y": "second"}  # the field for what a spelling has beside its column


def _functions() -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Each SQL function of a statistic: its word on the page, its name and its fields, in order."""
    yield "count", "COUNT", ("column",)
    yield "count_distinct_units", "COUNT", ()
    yield "count_distinct", "COUNT", ("column",)
    for spelled in SPELLINGS:
        function, _, arguments = spelled.partition("(")
        if function != "COUNT":
            beside = tuple(field for mark, field in _ARGUMENTS.items() if mark in arguments)
            alone = beside in {("edges",), ("second",)} or arguments == "condition)"
            first = ("column",) if alone else _VALUE
            yield _WORDS.get(function, function.lower()), function, (*first, *beside)


_OFTEN = ("count", "count_distinct_units", "sum", "mean", "median", "quantile")  # asked first
_SORTED = sorted(_functions(), key=lambda one: _OFTEN.index(one[0]) if one[0] in _OFTEN else len(_OFTEN))
FUNCTIONS = {word: function for word, function, _ in _SORTED}
FIELDS = {word: shown for word, _, shown in _SORTED} | {"most_common": ("column", "k")}
_LABELS = {
    "count": "number of rows",
    "count_distinct_units": "number of units",
    "stddev": "standard deviation of",
    "slope": "slope of a line through",
    "intercept": "intercept of a line through",
    "most_common": "most common values of",
}
STATISTIC_LABELS = {ask: _LABELS.get(ask, f"{ask.replace('_', ' ')} of") for ask in FIELDS}
KEYS = {"declared": "the declared ones", "given": "these", "discover": "discover them privately (costs a delta)"}
CURRENCIES = {"epsilon": "ε", "rho": "ρ (zCDP)", "mu": "μ (Gaussian)"}
BINS, DAY, EXPRESSION = "bins", "each day", "expression"
GROUP_LABELS = {
    BINS: "bins between edges",
    "year": "year",
    "quarter": "quarter",
    "month": "month",
    "day": "day of the month",
    "isodow": "day of the week (1 is Monday)",
    "hour": "hour",
    **{f"{unit} start": f"{unit} (its first day)" for unit in UNITS},
    DAY: "each day",
    EXPRESSION: "an expression",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StatisticFields:
    """The fields of one statistic.

    Attributes:
        ask: A name in `FIELDS`.
        column: The column, or an expression of one row.
        second: The other column of a covariance, correlation or line, or the features of a regression with commas.
        low: The lower clip bound; "" for the declared bound.
        high: The upper clip bound; "" for the declared bound.
        fill: The value that replaces NULL; "" leaves NULL out.
        rank: The rank of a quantile; several with commas.
        edges: The edges of a histogram, with commas.
        k: The number of most common values.
        name: The statistic's name in the answer.
    """

    ask: str = "count"
    column: str = ""
    second: str = ""
    low: str = ""
    high: str = ""
    fill: str = ""
    rank: str = ""
    edges: str = ""
    k: str = ""
    name: str = ""

    @property
    def shows(self) -> tuple[str, ...]:
        """The names of the fields that the statistic uses."""
        return FIELDS.get(self.ask, _VALUE)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFields:
    """The fields of one computed group column.

    Attributes:
        of: A column or an expression.
        way: A name in `GROUP_LABELS`.
        edges: The edges of bins, with commas.
        name: The group column's name in the answer.
    """

    of: str = ""
    way: str = BINS
    edges: str = ""
    name: str = ""

    def grouping(self) -> Grouping:
        """The group column.

        Raises:
            ParameterError: The column is missing, or the edges do not rise.
        """
        if not self.of:
            raise ParameterError("group", "", "must name a column", remedy="choose one, or remove the group")
        if self.way == EXPRESSION:
            return Grouping(self.name or self.of, self.of, self.of)
        if self.way == BINS:
            return bins(self.of, [_edge(text) for text in self.edges.split(",") if text.strip()], name=self.name)
        return date(self.of, name=self.name) if self.way == DAY else date_part(self.way, self.of, name=self.name)

    @property
    def label(self) -> str:
        """The group column's name, given or default."""
        try:
            return self.grouping().name
        except NeartwinError:
            return self.name or f"{self.of}_bin"


@dataclass(frozen=True, slots=True, kw_only=True)
class AskFields:
    """All fields of the question page.

    The fields up to `written` write the SQL text. The others stand beside it, also beside a text edited by hand.

    Attributes:
        statistics: The statistics of each group.
        where: The condition on rows.
        groups: The columns to group by.
        computed_groups: The computed group columns, which follow them.
        running: "on" for running totals over the first group column.
        having: A condition on released values.
        order_by: The order of the answer.
        limit: The most groups shown.
        sql: The SQL text, or the wire JSON of a question.
        written: The text that the fields wrote. A different `sql` was edited by hand.
        digest: The digest of the previewed plan.
        keys: A name in `KEYS`.
        given: Public keys by column, as `town: Ulm, Bonn; age: 1:9`.
        max_rows_per_group: The most rows of a unit that count in one group.
        max_groups: The most groups of a unit that count.
        rows: The most rows of a unit in all groups together.
        norm: The norm of a unit's whole vector, in rows.
        values: The most distinct values that a unit stands for.
        max_discovered_groups: The number of its groups that a unit helps to discover.
        loss_share: The share of the spend that measures what the limits take.
        group_size: The number of units that the spend protects together.
        private_range: "on" where clip bounds are chosen privately, within the given ones.
        importance: The relative importance of each statistic's error, as `rows = 1, total = 2`.
        currency: A name in `CURRENCIES`.
        amount: The spend in that currency.
        delta: The delta of the spend.
        key: The idempotency key of the request. A second click under it never pays twice.
        view: The form that is shown: fields, sql, python or json.
    """

    statistics: tuple[StatisticFields, ...] = (StatisticFields(),)
    where: str = ""
    groups: tuple[str, ...] = ()
    computed_groups: tuple[GroupFields, ...] = ()
    running: str = ""
    having: str = ""
    order_by: str = ""
    limit: str = ""
    sql: str = ""
    written: str = ""
    digest: str = ""
    keys: str = "declared"
    given: str = ""
    max_rows_per_group: str = ""
    max_groups: str = ""
    rows: str = ""
    norm: str = ""
    values: str = ""
    max_discovered_groups: str = ""
    loss_share: str = ""
    group_size: str = ""
    private_range: str = ""
    importance: str = ""
    currency: str = "epsilon"
    amount: str = "0.1"
    delta: str = ""
    key: str = ""
    view: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """The group columns in their order."""
        return (*self.groups, *(one.label for one in self.computed_groups))

    @property
    def choice(self) -> StatisticFields | None:
        """The fields of a question for most common values, which stands alone; else None."""
        return next((one for one in self.statistics if one.ask == "most_common"), None)

    @property
    def by_hand(self) -> bool:
        """Whether the SQL was edited by hand."""
        return self.sql.split() != self.written.split()


_PLAIN = {one.name for one in fields(AskFields)} - {"statistics", "groups", "computed_groups"}


def read(sent: Mapping[str, list[str]]) -> AskFields:
    """The fields of a form that a browser sent, each with all its values."""

    def one(name: str) -> str:
        return sent.get(name, [""])[0].replace("\r\n", "\n").strip()[:10_000]

    def several(kind: type[Any], prefix: str, first: str, most: int) -> tuple[Any, ...]:
        places = [place for place in range(most) if f"{prefix}{first}_{place}" in sent]
        return tuple(
            kind(**{part.name: one(f"{prefix}{part.name}_{place}") for part in fields(kind)}) for place in places
        )

    return AskFields(
        statistics=several(StatisticFields, "", "ask", MAX_STATISTICS) or (StatisticFields(),),
        groups=tuple(dict.fromkeys(column[:200] for column in sent.get("group", [])[:20])),
        computed_groups=several(GroupFields, "group_", "way", MAX_COMPUTED_GROUPS),
        **{name: one(name) for name in _PLAIN},
    )


def start(dataset: Dataset, groupable: list[str], rule: str) -> AskFields:
    """A first question, ready to ask: the number of units, by a column with declared keys where there is one.

    Args:
        dataset: The data set.
        groupable: The columns that the analyst may group by.
        rule: The account's composition rule, which decides the currency of the spend.
    """
    keyed = [column for column in groupable if column in dataset.keys]
    unit = "count_distinct_units" if dataset.unit != EACH_ROW_NAME else "count"
    currency = {"gdp": "mu", "zcdp": "rho"}.get(rule, "epsilon")
    amount = {"mu": "0.1", "rho": "0.005"}.get(currency, "0.1")
    return AskFields(statistics=(StatisticFields(ask=unit),), groups=tuple(keyed[:1]), currency=currency, amount=amount)


def _edge(text: str) -> Edge:
    written = text.strip()
    for kind in (dt.date, dt.datetime):
        with suppress(ValueError):
            return kind.fromisoformat(written)
    return written
