"""The durable budget: the price is written before any data is read."""

from neartwin.ledger.account import Account
from neartwin.ledger.book import Book
from neartwin.ledger.values import Act, Allotment, Entry, Head, History, Population, Stored, Ticket
from neartwin.ledger.verify import Fault, Verdict

__all__ = [
    "Account",
    "Act",
    "Allotment",
    "Book",
    "Entry",
    "Fault",
    "Head",
    "History",
    "Population",
    "Stored",
    "Ticket",
    "Verdict",
]
