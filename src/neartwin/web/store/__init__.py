"""What a service remembers beside the ledger, in the ledger's own database: data sets, tokens, sessions, who was served."""

from neartwin.web.store.store import Store

__all__ = ["Store"]
