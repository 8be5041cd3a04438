"""Errors as data of HTTP answers. All have the shape of the terminal's `--json`, and none holds a private value."""

import re

from neartwin.errors import AccessError, BudgetError, ExecutionError, LedgerError, NeartwinError, PrivacyError
from neartwin.ledger.store import UnavailableError

TITLES = {
    401: "No live token",
    402: "Not enough budget",
    403: "Not allowed",
    404: "Not here, or not for you",
    409: "The ledger's records forbid it",
    413: "Too large",
    422: "That did not work: a rule is broken",
    428: "Recorded: it waits for a second curator",
    429: "Too fast, or too many questions waiting",
    500: "Our fault",
    503: "Not now",
}
SHOWN = 200  # characters of a caller's own value that are sent back
TOKEN = re.compile(r"nt_[0-9a-f]+_\w+")  # pasted into a question, perhaps: answers are kept where tokens are not


def status_of(error: NeartwinError) -> int:
    """The HTTP status of an error."""
    if isinstance(error, AccessError | UnexpectedError):
        return error.status
    kinds = {BudgetError: 402, UnavailableError: 503, LedgerError: 409, PrivacyError: 403, ExecutionError: 503}
    return next((status for kind, status in kinds.items() if isinstance(error, kind)), 422)


def as_dict(error: NeartwinError) -> dict[str, str]:
    """The error as data. Long values of the caller are cut, a token is left out, and what no UTF-8 holds is a question mark.

    The words of a database name its host and user: they stay here.
    """
    if isinstance(error, UnavailableError):
        remedy = "ask again in a moment, or tell the curator"
        error = AccessError(503, "ledger", "", "cannot be used now", remedy=remedy)
    parts = {name: TOKEN.sub("nt_...", part) for name, part in error.as_dict().items()}
    parts = {name: part.encode("utf-8", "replace").decode() for name, part in parts.items()}
    return {name: part if len(part) <= 10 * SHOWN else part[: 10 * SHOWN] + "..." for name, part in parts.items()}


class UnexpectedError(NeartwinError):
    """An unexpected error. Its text is the same for every cause, because the cause may be data."""

    code = "NT-900"
    exit_code = 1
    status = 500

    def __init__(self) -> None:
        """One text for every cause."""
        super().__init__("the service failed and served nothing; the ledger shows the spending; tell the curator")
