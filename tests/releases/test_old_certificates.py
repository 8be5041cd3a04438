"""Certificates that old code signed verify for ever, and new ones tell no less than they did."""

import json
from dataclasses import replace
from fractions import Fraction

import pytest

import neartwin as nt
from neartwin.releases.accounts import Account
from neartwin.releases.certificates import PublicKey, check, released
from neartwin.releases.preparation import method_of
from neartwin.releases.release import release_in, releases_in
from tests.fixtures import HERE, lay_sqlite, told
from tests.fixtures.questions import ACCOUNTS, ONE_WEIGHT, QUESTIONS, SERIES, TIGHTER, proposed, rows_of

KEY = PublicKey.parse(str(HERE / "owner.pub"))
CHOSEN = ("tuned", "mu tuned")  # questions whose noise depends on bounds that a first stage chose


@pytest.fixture(scope="module")
def held():
    return told("records")["sqlite"]


@pytest.fixture
def book(tmp_path):
    with nt.open_ledger(lay_sqlite(tmp_path / "old.db")) as opened_again:
        yield opened_again


def parts(certificate):
    """What was certified of which part of which stored document."""
    body = json.loads(certificate)["body"]
    return body, body["ledger"]["reserved"]


def document(book, name, certificate):
    """The release of a certificate, read from the ledger and written again."""
    body, reserved = parts(certificate)
    stored = book.books.account(body["ledger"]["account"]).answer(reserved)
    order = [f"series: {one}" for one in SERIES]
    return release_in(stored.document, order.index(name) + 1 if name in order else 1).to_json().encode()


@pytest.mark.slow
def test_old_certificates_fit_their_key_ledger_and_release(held, book):
    assert len(held["certificates"]) >= len(QUESTIONS) + 6  # a series, secret samples, a written table
    for name, certificate in held["certificates"].items():
        found = check(certificate, KEY, ledger=book.books, release=document(book, name, certificate))
        assert found.valid, (name, found.flaws)


def test_a_tampered_old_certificate_release_or_key_is_found(held, book):
    other = PublicKey.parse("ed25519:" + "A" * 43 + "=")
    for name, certificate in held["certificates"].items():
        told_of = json.loads(certificate)
        told_of["body"]["guarantee"]["says"] += " "
        assert not check(json.dumps(told_of), KEY).valid
        assert not check(certificate, other).valid
        assert not check(certificate, KEY, release=document(book, name, certificate) + b" ").valid
    certificate = held["certificates"]["units"]
    with nt.open_ledger(book.books.place.replace("old.db", "other.db")) as another:
        assert not check(certificate, KEY, ledger=another.books).valid


def test_old_releases_are_read_and_written_as_they_were(held, book):
    for name, body in held["releases"].items():
        written = json.dumps(body, sort_keys=True).encode()
        (release,) = releases_in(written)
        assert release.to_json().encode() == written, name
    sampled = nt.Release.from_json(json.dumps(held["releases"]["sampled counts"]))
    assert {"what": "sampling_rate", "value": "1/4"}.items() <= next(
        bound.items() for bound in sampled.provenance.method["bounds"] if bound["what"] == "sampling_rate"
    )


def test_new_certificate_of_an_old_release_states_what_the_old_one_did(held, book, tmp_path):
    for name in ("counts", "tuned bounds", "written", "sampled mean", "mu discovery", "series: most common"):
        old, reserved = parts(held["certificates"][name])
        part = 2 if name.startswith("series") else 1
        now = nt.certify(released(book.books, reserved, part), book, key=tmp_path / "new.key").body
        for field in (
            "question",
            "bounds",
            "mechanisms",
            "unit",
            "neighbours",
            "release",
            "error",
            "explanation",
            "code",
        ):
            assert now[field] == old[field], (name, field)
        assert now["guarantee"]["promise"] == old["guarantee"]["promise"]
        assert now["ledger"]["settled"] == old["ledger"]["settled"]


@pytest.mark.slow
def test_a_question_asked_of_new_rows_lists_the_mechanisms_that_it_listed(held, book):
    """Classes and modules may have other names now; every mechanism is still there, with its numbers."""
    for name, asked in QUESTIONS.items():
        rows = rows_of(asked.account, state="tuesday", **ACCOUNTS[asked.account][1])
        account = Account(book.books.account(asked.account), rows.table)
        limits = asked.limits.get("limits", nt.limits())
        proposal = proposed(account, replace(asked, limits={**asked.limits, "limits": replace(limits, loss_share=0)}))
        old, _ = parts(held["certificates"][name])
        if name.startswith(CHOSEN):
            mechanisms = account.release(proposal).provenance.method["mechanisms"]
        else:
            mechanisms = method_of(proposal.plan)["mechanisms"]
            now, then = numbers(mechanisms), numbers(old["mechanisms"])
            if name in ONE_WEIGHT:
                continue  # other measures, in parts of a step
            if name in TIGHTER:
                now, then = (sorted(float(Fraction(value)) for value in values) for values in (now, then))
                assert now == pytest.approx(then, rel=1e-12), name
            else:
                assert now == then, name
        assert mechanisms, name
        assert len(mechanisms) == len(old["mechanisms"]) or name in ONE_WEIGHT, name


def numbers(mechanisms):
    """The values of all parameters that are numbers or tables."""
    values = [value for one in mechanisms for value in one["parameters"].values()]
    return sorted(value for value in values if value[:1].isdigit())
