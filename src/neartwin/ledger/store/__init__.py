"""The ledger's database: places, durable transactions and indexes of records. Only this folder uses SQLAlchemy."""

from neartwin.ledger.store.connect import Database, UnavailableError
from neartwin.ledger.store.pages import AccountRow, Reading, ReservationRow, Writing, ask_digest

__all__ = ["AccountRow", "Database", "Reading", "ReservationRow", "UnavailableError", "Writing", "ask_digest"]
