"""Many analysts at once, and what must hold afterwards."""

import json
import threading
import time
from fractions import Fraction

from neartwin.client.http import HttpClient
from neartwin.errors import NeartwinError
from neartwin.releases.release import Release

PRICE = Fraction(1, 25)


def question(who, number):
    """A question that nobody else asks."""
    statistics = {"n": {"ask": "count_distinct_units"}}
    return {
        "question": {"where": [f"amount > {who}", f"amount < {number + 150}"], "statistics": statistics},
        "spend": {"epsilon": str(PRICE)},
    }


def answered(address, token, ask, seconds=120):
    """What a service says to a question, once it says something: the job when it is done, or the refusal as data."""
    wire = HttpClient(address, token, seconds)
    try:
        job = wire.post("datasets", "purchases", "releases", body=ask, wait=10)
        while job["state"] != "done":
            job = wire.get("jobs", job["job"], wait=10)
    except NeartwinError as refusal:
        return {"error": refusal.as_dict()}
    return job


def crowd(address, tokens, *, rounds=10**9, over=lambda: False, said=None, pause=0):
    """Every analyst asks one question after another, until it is over; (ask, job) of all that was answered or refused.

    address: called for each question, for a service that was started anew may be elsewhere. said: a list that grows.
    pause: the seconds that she thinks about an answer.
    """
    said, lock = [] if said is None else said, threading.Lock()

    def analyst(who):
        for number in range(rounds):
            if over():
                return
            ask = question(who, number)
            job = answered(address(), tokens[who], ask)
            with lock:
                said.append((ask, job))
            time.sleep(pause)
            if (job.get("error") or {}).get("code") == "NT-600":  # nobody there, or too fast
                time.sleep(0.2)

    threads = [threading.Thread(target=analyst, args=(who,)) for who in range(len(tokens))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return said


def served(said):
    """The questions that got a release, with it."""
    return [(ask, job) for ask, job in said if job.get("release")]


def check_books(directory, said):
    """No overspend, no lost record, and every answer that was served is one that was paid for and stored."""
    account = directory.books.account("purchases")
    assert directory.books.verify().whole
    history = account.history()
    reserved = {entry.position: entry for entry in history if entry.kind == "reserve"}
    assert account.spent == {"epsilon": sum((entry.price["epsilon"] for entry in reserved.values()), Fraction(0))}
    assert account.spent["epsilon"] <= account.caps["epsilon"]
    for part in account.allotments():
        paid = [entry.price["epsilon"] for entry in reserved.values() if part.holder in entry.payers]
        assert part.spent["epsilon"] == sum(paid, Fraction(0)) <= part.caps["epsilon"]
    for _, job in served(said):
        stored = Release.from_json(account.answer(job["position"]).document)
        assert json.loads(stored.to_json()) == job["release"]
        assert reserved[job["position"]].state == "settled"
    positions = [job["position"] for _, job in served(said)]
    assert len(set(positions)) == len(positions)  # everyone asked something else


def check_replays(directory, address, token, said):
    """Every settled answer is served again for nothing."""
    before = directory.books.account("purchases").spent
    for ask, job in served(said):
        assert answered(address, token, ask)["release"] == job["release"]
        time.sleep(0.04)  # a token has 50 requests a second
    assert directory.books.account("purchases").spent == before
