"""Every error of neartwin, in one tree.

```
NeartwinError                   exit code 2
|-- ParameterError              NT-100  a value breaks its rule
|-- UsageError                  NT-110  a name or an argument is unknown or missing
|-- QueryError                  NT-200  a question cannot be answered privately
|-- SchemaError                 NT-210  a table, column or type does not fit the question
|-- PrivacyError                NT-300  to continue would break the guarantee
|-- BudgetError                 NT-400  the account cannot pay (exit code 3)
|-- LedgerError                 NT-410  the ledger's records forbid it
|-- AccessError                 NT-600  a service does not know the caller, or does not allow the request
`-- ExecutionError              NT-500  any failure after the budget was reserved, in one uniform shape
```

An error names the fault, its reason, the amount and a remedy. It never carries a value read from private rows, and
never depends on one.
"""

import re
from fractions import Fraction


class NeartwinError(Exception):
    """The root of all errors: `except NeartwinError` catches every refusal of this library."""

    code: str = "NT-000"
    exit_code: int = 2

    def __str__(self) -> str:
        return _brief(super().__str__())

    def as_dict(self) -> dict[str, str]:
        """The error as data, for `--json` and for HTTP. All errors have one shape; parts without content are empty."""
        parts = {"code": self.code, "error": type(self).__name__, "message": str(self)}
        return parts | {"name": "", "value": "", "rule": "", "remedy": ""}


class ParameterError(NeartwinError, ValueError):
    """A value breaks its rule.

    >>> raise ParameterError("epsilon", -1, "must be positive", remedy="give a number above 0")
    Traceback (most recent call last):
    neartwin.errors.ParameterError: epsilon=-1 must be positive; give a number above 0
    """

    code = "NT-100"

    def __init__(self, name: str, value: object, rule: str, *, remedy: str = "") -> None:
        """Name, value and rule stay readable as data; the value is the caller's own, never one read from rows."""
        self.name, self.value, self.rule, self.remedy = name, value, rule, remedy
        super().__init__(f"{name}={_shown(value)} {rule}" + (f"; {remedy}" if remedy else ""))

    def as_dict(self) -> dict[str, str]:
        """The error as data, with its four parts."""
        parts = {"name": self.name, "value": _shown(self.value), "rule": self.rule, "remedy": self.remedy}
        return super().as_dict() | parts


class UsageError(NeartwinError, AttributeError, TypeError):
    """A name is not there, or a call lacks an argument or has one too many. The message shows the line to write.

    Python's own errors for these are `AttributeError` and `TypeError`, and it is both.
    """

    code = "NT-110"


def _shown(value: object) -> str:
    """As Python writes it, but exact numbers as people do: 20 and 1/100. Of frames and arrays the type alone."""
    if getattr(value, "shape", ()) or hasattr(value, "__arrow_c_array__"):
        return f"a {type(value).__name__}"
    try:
        return _brief(str(value) if isinstance(value, Fraction) else repr(value))
    except ValueError:  # Python writes no integer of more than 4300 digits
        return "a number of too many digits"


def _brief(text: str) -> str:
    """The text without the middle of long names, and of what is longer still."""
    named = re.sub(r"\S{400,}", lambda name: f"{name[0][:100]}...{name[0][-20:]}", text)
    return named if len(named) < 2000 else f"{named[:1400]} ... {named[-500:]}"


class QueryError(NeartwinError, ValueError):
    """A question cannot be answered privately. The message says what to write instead."""

    code = "NT-200"


class SchemaError(NeartwinError, ValueError):
    """A table, column or declared type does not fit the question."""

    code = "NT-210"


class PrivacyError(NeartwinError):
    """To continue would break the guarantee. This is never a warning."""

    code = "NT-300"


class BudgetError(NeartwinError):
    """The account cannot pay. Nothing was spent and no data was read.

    `requested` and `remaining` are exact amounts in the pool's own unit.
    """

    code = "NT-400"
    exit_code = 3

    def __init__(self, pool: str, requested: Fraction, remaining: Fraction, remedies: tuple[str, ...]) -> None:
        """The two amounts and their difference stand in the message and stay readable as data."""
        self.pool, self.requested, self.remaining, self.remedies = pool, requested, remaining, remedies
        ways = "; or ".join(remedies)
        super().__init__(
            f"budget refused: requested {pool} {float(requested):.6g}, remaining {float(remaining):.6g}, "
            f"difference {float(requested - remaining):.6g}; {ways}"
        )

    def as_dict(self) -> dict[str, str]:
        """The error as data, amounts as exact rationals."""
        amounts = {"pool": self.pool, "requested": str(self.requested), "remaining": str(self.remaining)}
        parts = {"name": self.pool, "value": str(self.requested), "rule": f"must be at most {self.remaining}"}
        return super().as_dict() | parts | {"remedy": "; or ".join(self.remedies)} | amounts


class LedgerError(NeartwinError):
    """The ledger's records forbid it: another account exists, a ticket was settled, or a record was changed."""

    code = "NT-410"


class AccessError(NeartwinError):
    """A service does not know the caller, does not allow the request, or has too many requests of the caller.

    `status` is the status of the HTTP answer. The value is the caller's own. The error never reveals whether something
    hidden exists.
    """

    code = "NT-600"

    def __init__(self, status: int, name: str, value: str, rule: str, *, remedy: str = "") -> None:
        """Name, value, rule and remedy as for `ParameterError`."""
        self.status, self.name, self.value, self.rule, self.remedy = status, name, value, rule, remedy
        super().__init__(f"{name}={_shown(value)} {rule}" + (f"; {remedy}" if remedy else ""))

    def as_dict(self) -> dict[str, str]:
        """The error as data, with its four parts."""
        parts = {"name": self.name, "value": _brief(self.value), "rule": self.rule, "remedy": self.remedy}
        return super().as_dict() | parts


class ExecutionError(NeartwinError):
    """Any failure after the budget was reserved. Its text is the same for every cause, because the cause may be data.

    The budget stays spent and nothing partial is served.
    """

    code = "NT-500"

    def __init__(self) -> None:
        """One text for every cause."""
        super().__init__(
            "the release failed after its budget was reserved; the budget stays spent and nothing was served; "
            "the data owner can look for the cause with `neartwin check`"
        )
