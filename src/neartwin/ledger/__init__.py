"""The durable budget: the price is written before any data is read."""

from neartwin.ledger.account import Account as Account
from neartwin.ledger.book import Book as Book
from neartwin.ledger.values import Act as Act
from neartwin.ledger.values import Allotment as Allotment
from neartwin.ledger.values import Entry as Entry
from neartwin.ledger.values import Head as Head
from neartwin.ledger.values import History as History
from neartwin.ledger.values import Population as Population
from neartwin.ledger.values import Stored as Stored
from neartwin.ledger.values import Ticket as Ticket
from neartwin.ledger.verify import Fault as Fault
from neartwin.ledger.verify import Verdict as Verdict
