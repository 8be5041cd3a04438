"""Row expressions: total, row-local SQL, checked against the schema through an allow-list.

User text is never passed through: it is parsed to a tree, checked and typed node by node (`reading`), and what engines write
is made from the terms that come out of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from neartwin.errors import QueryError
from neartwin.queries.reading import read
from neartwin.queries.terms import Term
from neartwin.queries.types import ColumnType

_LONGEST = 100_000


@dataclass(frozen=True, slots=True)
class RowExpression:
    """A checked expression: its canonical text (DuckDB's spelling), the type of its value, and its term.

    >>> RowExpression.parse("amount * 2 >= 10 AND cds IN (1, 2)", {"amount": ColumnType.NUMBER, "cds": ColumnType.INTEGER})
    RowExpression(text='amount * 2 >= 10 AND cds IN (1, 2)', type=<ColumnType.BOOLEAN: 'boolean'>)
    >>> RowExpression.parse("1 / amount", {"amount": ColumnType.NUMBER})
    Traceback (most recent call last):
    neartwin.errors.QueryError: '1 / amount' is not allowed in a row expression: Div could fail on some row, or is ...
    """

    text: str
    type: ColumnType
    term: Term = field(repr=False)

    @classmethod
    def parse(
        cls, text: str, schema: Mapping[str, ColumnType], computed: Mapping[str, "RowExpression"] | None = None
    ) -> "RowExpression":
        """Parse and check; `QueryError` says which part is refused and why.

        schema: the types of the columns; computed: those among them that stand for an expression.
        """
        try:
            tree = parsed(text)
        except SqlglotError:
            raise QueryError(
                f"expression {text!r} is not SQL; write for instance \"amount > 5 AND city = 'Ulm'\""
            ) from None
        return cls.checked(tree, schema, computed)

    @classmethod
    def checked(
        cls, tree: exp.Expr, schema: Mapping[str, ColumnType], computed: Mapping[str, "RowExpression"] | None = None
    ) -> "RowExpression":
        """The same for a tree that is parsed already, and not used after: writing it out may change it."""
        names = {name: Term("column", kind, value=name) for name, kind in schema.items()}
        names |= {name: expression.term for name, expression in (computed or {}).items()}
        term = read(tree, names)
        return cls(tree.sql(dialect="duckdb", comments=False, copy=False), term.kind, term)

    @property
    def columns(self) -> frozenset[str]:
        """The columns of the source that it reads."""
        return self.term.columns

    def renamed(self, names: Mapping[str, str]) -> "RowExpression":
        """The same of columns that have other names now; what is not in `names` keeps its own."""
        tree = parsed(self.text)
        for column in tree.find_all(exp.Column):
            column.this.set("this", names.get(column.name, column.name))
            column.this.set("quoted", True)
        return RowExpression(tree.sql(dialect="duckdb", comments=False), self.type, self.term.renamed(names))


def parsed(text: str) -> exp.Expr:
    """The tree of a text; what is too long or nested too deep to be parsed is refused."""
    if len(text) <= _LONGEST:
        try:
            return sqlglot.parse_one(text, read="duckdb")
        except RecursionError:
            pass
    raise QueryError("the expression is too long, or nested too deep")
