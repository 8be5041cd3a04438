"""What the writers of a race do, in processes of their own."""

import multiprocessing
import threading
import time
from pathlib import Path

from neartwin.accounting.budgets import pure
from neartwin.errors import BudgetError
from neartwin.ledger import Book, Ticket

TENTH = pure("0.1")
PROCESSES = multiprocessing.get_context("forkserver")  # real processes that share no state, without a start each
PROCESSES.set_forkserver_preload(["neartwin.ledger", "tests.ledger.conftest"])


def spend_all(place, who, start, tickets):
    """Reserve a tenth again and again, each for another snapshot, until the account refuses."""
    with Book(place) as ledger:
        account = ledger.account("purchases")
        start.wait()
        won = 0
        try:
            while True:
                account.reserve("plan", f"{who} {won}", TENTH)
                won += 1
        except BudgetError:
            tickets.put(won)


def open_and_reserve(place, who, start, tickets):
    """Make the ledger if nobody has, open the account, reserve once."""
    from tests.ledger.conftest import PEOPLE

    start.wait()
    with Book(place) as ledger:
        tickets.put(ledger.open(PEOPLE, pure(1)).reserve("plan", who, TENTH).position)


def ask_the_same(place, who, start, answers):
    """Ask one plan on one snapshot, run it when a ticket says so, and report what was paid and served."""
    with Book(place) as ledger:
        account = ledger.account("purchases")
        start.wait()
        got = account.reserve("plan", "monday", TENTH)
        paid = isinstance(got, Ticket)
        served = account.settle(got, who.encode()) if paid else got
        answers.put((paid, served.document))


def reserve_and_hang(place, connection):
    """Reserve, say so, and wait for the end."""
    with Book(place) as ledger:
        ticket = ledger.account("purchases").reserve("plan", "monday", pure("0.25"))
        connection.send(ticket)
        time.sleep(600)


def hammer(place, who, acknowledged):
    """Reserve and settle without pause, noting each on a file once the ledger has said that it is durable."""
    with Book(place) as ledger, Path(acknowledged).open("a", encoding="ascii", buffering=1) as file:
        account = ledger.account("purchases")
        for count in range(1_000_000):
            ticket = account.reserve("plan", f"{who} {count}", pure("1e-6"))
            file.write(f"reserved {ticket.position}\n")
            stored = account.settle(ticket, str(ticket.position).encode() * 20_000)
            file.write(f"settled {stored.position}\n")


def in_threads(count, work):
    """Run `work(i)` in threads at once; what they raised."""
    raised, start = [], threading.Barrier(count)

    def run(number):
        try:
            start.wait()
            work(number)
        except Exception as error:  # noqa: BLE001 - the test judges what was raised
            raised.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return raised
