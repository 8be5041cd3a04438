"""What a service remembers beside the ledger, in the ledger's own database: data sets, tokens, curators' acts."""

from neartwin.web.store.store import Act, Store

__all__ = ["Act", "Store"]
