"""The one owner of SQLAlchemy: where records lie, how they are written durably, and what is indexed."""

from neartwin.ledger.store.connect import Database
from neartwin.ledger.store.pages import AccountRow, Reading, ReservationRow, Writing, ask_digest

__all__ = ["AccountRow", "Database", "Reading", "ReservationRow", "Writing", "ask_digest"]
