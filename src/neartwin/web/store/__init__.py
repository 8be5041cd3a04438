"""The service's tables in the ledger's database: data sets, tokens, sessions, and the releases served to each analyst."""

from neartwin.web.store.store import Store

__all__ = ["Store"]
