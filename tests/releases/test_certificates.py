"""A certificate says what its release promised, and nobody but the ledger's owner can have said it."""

import dataclasses
import json
import math
import os
import shutil
import stat
from fractions import Fraction

import mpmath
import pyarrow as pa
import pytest
from click.testing import CliRunner

import neartwin as nt
from neartwin.accounting.guarantee import Guarantee
from neartwin.cli import main
from neartwin.errors import LedgerError, ParameterError
from neartwin.releases.certificates import OwnerKey, PublicKey, check, read_certificate, released
from neartwin.releases.certificates.document import above, below, currencies, curve


@pytest.fixture
def rows():
    frame = pa.table({"who": range(400), "town": ["Ulm", "Bonn"] * 200, "paid": [5.0] * 400})
    return nt.table(frame, unit="who", name="visits", columns={"paid": nt.bounds(0, 10)}, snapshot="monday")


@pytest.fixture
def place(tmp_path):
    return tmp_path / "budget.db"


def answered(book, rows, spend="0.5"):
    account = book.open(rows, nt.approx(9, "1e-5"))
    query = (
        rows.where("paid > 1")
        .group_by("town")
        .agg(n=nt.count(), typical=nt.mean("paid", step="0.01"), total=nt.sum("paid", 0, 20, "0.01"))
    )
    return account.release(
        account.plan(query, spend=nt.approx(spend, "1e-6"), limits=nt.limits(max_rows_per_group=1, max_groups=1))
    )


def test_certificate_states_question_bounds_mechanisms_guarantee_and_place(place, rows):
    with nt.open_ledger(place) as book:
        release = answered(book, rows)
        made = nt.certify(release, book)
        assert nt.certify(release, book).body["guarantee"] == made.body["guarantee"]
        head = book.books.head()
    body = made.body
    assert body["question"]["statistics"] == {"n": "count()", "typical": "mean(paid)", "total": "sum(paid)"}
    assert body["question"]["conditions"] == ["paid > 1"]
    origins = {bound["what"]: (bound["value"], bound["origin"].partition(":")[0]) for bound in body["bounds"]}
    assert origins["typical: paid"] == ("[1, 10] in steps of 0.01", "declared")  # by the condition
    assert origins["total: paid"] == ("[0, 20] in steps of 0.01", "public")
    assert origins["max_rows_per_group"] == ("1", "public")
    # the scales are those that the spend buys, worked out here by hand: a tenth of epsilon 1/2, of which what limits take
    # has two thirds and what clipping changes of the one column a third; then shares of the rest, the last 1121 of 4096
    scales = {
        part["for"]: Fraction(part["parameters"]["scale"]) / int(part["parameters"].get("parts of a step", 1))
        for part in body["mechanisms"] if part["law"] == "DiscreteLaplace"
    }  # fmt: skip
    assert scales == {
        "total:paid[1,10,1/100]-100 from below": Fraction(20 * 4096, 9 * 1854),  # in rows, each shared with the next
        "short:paid[1,10,1/100]-100 from below": Fraction(20 * 4096, 9 * 1854),
        "empty:paid[1,10,1/100]-100 from below": Fraction(20 * 4096, 9 * 1854),  # of other rows: all three paid once
        "total:paid[0,20,1/100]-0": Fraction(2000 * 20 * 4096, 9 * 1121),
        "what the limits take": 30,
        "what clipping paid to [1, 10] and paid to [0, 20] changes": 60,
    }
    assert body["error"]["loss"] == release.headline
    assert body["guarantee"]["promise"]["epsilon"] == "1/2"
    assert body["ledger"]["price"] == {"epsilon": "1/2", "delta": "1/1000000"}
    assert (body["ledger"]["reserved"], made.head) == (release.provenance.position, head)
    assert "who" in body["unit"]
    assert len(body["code"]["digest"]) == 64


def test_each_answer_of_a_series_has_a_certificate_of_its_own(place, rows):
    asked = [rows.agg(n=nt.count_distinct_units()), rows.most_common("town", among=["Ulm", "Bonn"], counted=True)]
    with nt.open_ledger(place) as book:
        account = book.open(rows, nt.pure(1))
        first, second = account.release_series(account.plan_series(asked, spend=nt.pure("0.5")))
        made = [nt.certify(release, book) for release in (first, second)]
        position = first.provenance.position
        assert [released(book.books, position, part) for part in (1, 2)] == [first, second]
        with pytest.raises(ParameterError, match="from 1 to 2"):
            released(book.books, position, 3)
        key = PublicKey.parse(made[0].signer.text)
        texts = [release.to_json().encode() for release in (first, second)]
        assert check(made[1].to_json(), key, ledger=book.books, release=texts[1]).valid
        assert not check(made[1].to_json(), key, ledger=book.books, release=texts[0]).valid
        with pytest.raises(LedgerError, match="another release"):
            nt.certify(dataclasses.replace(first, confidence=0.5), book)
    assert made[0].body["release"]["series"] == made[1].body["release"]["series"]
    assert made[0].body["guarantee"]["promise"]["epsilon"] == "1/2"
    shown = CliRunner().invoke(main, ["certificate", "show", str(place), str(position), "--part", "2"])
    assert shown.exit_code == 0
    assert "most common" in shown.output


def test_a_bound_that_a_pilot_chose_is_called_tuned_and_given_ones_are_not(place, rows):
    with nt.open_ledger(place) as book:
        account = book.open(rows, nt.pure(9))
        asked = rows.group_by("town", keys=["Bonn", "Ulm"]).agg(n=nt.count())
        plan = account.plan(asked, spend=nt.pure(1), limits=nt.limits(rows=nt.private_limit(at_most=64), max_groups=1))
        made = nt.certify(account.release(plan), book)
    bounds = {bound["what"]: (int(bound["value"]), bound["origin"]) for bound in made.body["bounds"]}
    assert 1 <= bounds["max_rows_per_group"][0] <= 64
    assert bounds["max_rows_per_group"][1] == "chosen by a private first stage that was paid for, at most 64"
    assert bounds["max_groups"] == (1, "public: given with the question")
    choice = [part for part in made.body["mechanisms"] if part["for"] == "choice of rows"]
    others = {"choice of rows", "what the limits take"}
    asked_of = [part for part in made.body["mechanisms"] if part["for"] not in others]
    assert (len(made.body["mechanisms"]), len(choice), len(asked_of)) == (3, 1, 1)
    assert (choice[0]["law"], choice[0]["parameters"]["epsilon"]) == ("PermuteAndFlip", "1/4")
    # the noise is that of the bound that was chosen, whichever it was, in one group
    assert int(asked_of[0]["parameters"]["sensitivity"]) == bounds["max_rows_per_group"][0]


@mpmath.workdps(40)
def test_conversions_and_curve_are_outward_and_close_to_closed_forms():
    pure = Guarantee.of(nt.pure(1), unit="id", neighbours="add_remove")
    told = currencies(pure)
    assert told["pure"] == "1"
    for written, true in (
        (told["zcdp"]["rho"], mpmath.tanh(mpmath.mpf(1) / 2)),
        (told["advantage"], mpmath.tanh(mpmath.mpf(1) / 2)),
        (told["gdp"]["mu"], 2 * mpmath.sqrt(2) * mpmath.erfinv(2 / (1 + mpmath.exp(-1)) - 1)),
        (told["renyi"][0]["epsilon"], mpmath.log((mpmath.exp(2) + mpmath.exp(-1)) / (1 + mpmath.e))),
    ):
        assert 0 <= mpmath.mpf(written) - true < 1e-9
    for point in curve(pure):
        a = mpmath.mpf(point["alpha"])
        true = max(0, 1 - mpmath.e * a, mpmath.exp(-1) * (1 - a))
        assert 0 <= true - mpmath.mpf(point["beta"]) < 1e-9
    gaussian = Guarantee.of(nt.gdp(1), unit="id", neighbours="add_remove")
    assert currencies(gaussian)["pure"] == "none"
    assert Fraction(currencies(gaussian)["zcdp"]["rho"]) == Fraction(1, 2)
    for point in curve(gaussian)[1:-1]:
        a = mpmath.mpf(point["alpha"])
        true = mpmath.ncdf(mpmath.sqrt(2) * mpmath.erfinv(1 - 2 * a) - 1)
        assert 0 <= true - mpmath.mpf(point["beta"]) < 1e-9
    assert currencies(Guarantee.of(nt.zcdp("0.1"), unit="id", neighbours="add_remove"))["gdp"]["mu"] == "none"


@pytest.mark.parametrize(
    "promise", [nt.gdp(2000), nt.pure(2000), nt.approx(2000, "1e-6"), nt.zcdp(10**6), nt.rdp(2, 10**5)]
)
def test_a_promise_that_hides_nothing_has_a_certificate_that_says_so(promise):
    guarantee = Guarantee.of(promise, unit="who", neighbours="add_remove")
    points = curve(guarantee)
    assert all(0 <= float(point["beta"]) <= 1e-12 for point in points[1:])
    assert float(points[0]["beta"]) <= 1  # at a rate of 0 an (epsilon, delta) curve may still reach 1 - delta
    assert float(currencies(guarantee)["advantage"]) >= 1 - 1e-12


@pytest.mark.parametrize("value", [1 / 3, 2 / 3, 1e-9, 12345.678901234567, 1.0, Fraction(1, 7), math.pi * 1e-20])
def test_decimals_are_rounded_to_their_side_and_no_further(value):
    low, high = Fraction(below(value)), Fraction(above(value))
    assert low <= Fraction(value) <= high
    assert high - low <= Fraction(value) / 10**11


@pytest.mark.slow
def test_no_byte_of_a_certificate_can_change(place, rows):
    with nt.open_ledger(place) as book:
        made = nt.certify(answered(book, rows), book)
    text = made.to_json().encode()
    assert check(text, made.signer).valid
    start = text.index(b'"signature"')  # every byte of the signature's part, and every seventh before it
    for at in [*range(0, start, 7), *range(start, len(text))]:
        changed = text[:at] + bytes([text[at] ^ (1 << at % 7)]) + text[at + 1 :]
        assert not check(changed, made.signer).valid, at
    for other in (text[:-1], text + b"\n", text.replace(b",", b", ", 1), b"{}", b"", b"[" * 10_000, b"\xff"):
        found = check(other, made.signer)
        assert [flaw.kind for flaw in found.flaws] == ["changed"]
    # written anew in canonical form with a better promise: only the signature tells
    better = json.loads(text)
    better["body"]["guarantee"]["promise"]["epsilon"] = "1/20"
    forged = dataclasses.replace(made, body=better["body"]).to_json()
    assert [flaw.kind for flaw in check(forged, made.signer).flaws] == ["changed"]


def test_another_owners_signature_is_refused(tmp_path, place, rows):
    with nt.open_ledger(place) as book:
        release = answered(book, rows)
        made = nt.certify(release, book)
        forged = nt.certify(release, book, key=tmp_path / "other.key")
    assert check(forged.to_json(), forged.signer).valid
    assert [flaw.kind for flaw in check(forged.to_json(), made.signer).flaws] == ["key"]
    # the forger cannot name the owner as the signer either
    renamed = dataclasses.replace(forged, signer=made.signer)
    assert [flaw.kind for flaw in check(renamed.to_json(), made.signer).flaws] == ["changed"]


def test_the_newest_certificate_finds_a_restored_backup(tmp_path, place, rows):
    with nt.open_ledger(place) as book:
        first = nt.certify(answered(book, rows, "0.1"), book)
    shutil.copy(place, tmp_path / "backup.db")
    with nt.open_ledger(place) as book:
        newest = nt.certify(answered(book, rows, "0.2"), book)
        assert book.books.verify(newest.head).whole
        assert check(newest.to_json(), first.signer, ledger=book.books).valid
        assert check(first.to_json(), first.signer, ledger=book.books).valid
    stale = check(first.to_json(), first.signer, newest=newest.head)
    assert [flaw.kind for flaw in stale.flaws] == ["stale"]
    assert check(newest.to_json(), first.signer, newest=first.head).valid
    with nt.open_ledger(tmp_path / "backup.db") as book:
        assert book.books.verify().whole  # whole in itself: only a head kept elsewhere tells
        assert [fault.kind for fault in book.books.verify(newest.head).faults] == ["rollback"]
        kinds = [flaw.kind for flaw in check(newest.to_json(), first.signer, ledger=book.books).flaws]
        assert kinds == ["ledger", "ledger"]
        # the backup goes on, to the same length: another history at the same position
        forked = nt.certify(answered(book, rows, "0.3"), book, key=f"{place}.key")
    assert forked.head.position == newest.head.position
    found = check(forked.to_json(), first.signer, newest=newest.head)
    assert [flaw.kind for flaw in found.flaws] == ["ledger"]


def test_only_what_the_ledger_settled_is_certified(tmp_path, place, rows):
    with nt.open_ledger(place) as book:
        release = answered(book, rows)
        better = dataclasses.replace(release, confidence=0.99)
        with pytest.raises(LedgerError, match="was changed, or is of another ledger"):
            nt.certify(better, book)
        elsewhere = dataclasses.replace(release, provenance=dataclasses.replace(release.provenance, position=2))
        with pytest.raises(LedgerError, match="no release at record 2"):
            nt.certify(elsewhere, book)
        made = nt.certify(released(book.books, release.provenance.position), book)
        assert made.body["release"] == nt.certify(release, book).body["release"]
        with pytest.raises(LedgerError, match="no settled release at position 4"):
            released(book.books, 4)
    with nt.open_ledger(tmp_path / "other.db") as book, pytest.raises(LedgerError):
        nt.certify(release, book)
    text = release.to_json().encode()
    assert check(made.to_json(), made.signer, release=text).valid
    assert [flaw.kind for flaw in check(made.to_json(), made.signer, release=text + b" ").flaws] == ["release"]


def test_sorted_and_cut_release_has_the_certificate_of_the_paid_one(place, rows):
    with nt.open_ledger(place) as book:
        account = book.open(rows, nt.approx(9, "1e-5"))
        text = "SELECT town, COUNT(*) AS n FROM visits GROUP BY town ORDER BY n DESC LIMIT 1"
        asked = nt.from_sql(text, rows, keys=["Bonn", "Kiel", "Ulm"])
        cut = account.release(
            account.plan(asked, spend=nt.pure(1), limits=nt.limits(max_rows_per_group=1, max_groups=1))
        )
        assert len(cut) == 1
        made = nt.certify(cut, book)
        whole = released(book.books, cut.provenance.position)
        assert len(whole) == 3
        assert check(made.to_json(), made.signer, release=whole.to_json().encode()).valid
        one = cut.statistics[0]
        raised = dataclasses.replace(one, values=(one.values[0] + 1,))
        with pytest.raises(LedgerError, match="was changed"):
            nt.certify(dataclasses.replace(cut, statistics=(raised,)), book)
        with pytest.raises(LedgerError, match="was changed"):
            nt.certify(dataclasses.replace(cut, keys=(("Rome",),)), book)


@pytest.mark.skipif(os.name != "posix", reason="file modes")
def test_the_key_is_made_once_and_only_its_owner_may_read_it(tmp_path):
    path = tmp_path / "budget.db.key"
    first = OwnerKey.at(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert OwnerKey.at(path).public == first.public == PublicKey.parse(f"{path}.pub")
    assert [file.name for file in tmp_path.iterdir() if "budget" not in file.name.partition(".")[0]] == []
    assert "PRIVATE" not in repr(first)
    path.chmod(0o640)
    with pytest.raises(LedgerError, match="can be read by others"):
        OwnerKey.at(path)
    path.chmod(0o600)
    path.write_text("no key")
    with pytest.raises(LedgerError, match="holds no Ed25519 key"):
        OwnerKey.at(path)
    with pytest.raises(LedgerError, match="name one with key="):
        OwnerKey.beside("postgresql://server/db")
    with pytest.raises(ParameterError, match="must be a public key or a file"):
        PublicKey.parse(str(tmp_path / "nothing"))


def test_the_terminal_shows_exports_and_verifies_with_one_exit_code_each(tmp_path, place, rows):
    with nt.open_ledger(place) as book:
        release = answered(book, rows)
    run = CliRunner().invoke
    position, out = str(release.provenance.position), tmp_path / "one.json"
    public = run(main, ["certificate", "key", str(place)]).output.strip()
    shown = run(main, ["certificate", "show", str(place), position])
    assert shown.exit_code == 0
    assert "epsilon = 0.5, delta = 1e-06" in shown.output
    assert run(main, ["certificate", "export", str(place), position, str(out)]).exit_code == 0
    assert (
        json.loads(run(main, ["certificate", "show", str(place), position, "--json"]).output)["body"]["unit"] == "who"
    )
    assert run(main, ["certificate", "export", str(place), position, str(tmp_path / "one.txt")]).exit_code == 2
    page = tmp_path / "one.html"
    assert run(main, ["certificate", "export", str(place), position, str(page)]).exit_code == 0
    assert read_certificate(out).signer.text in page.read_text()
    good = run(main, ["certificate", "verify", str(out), "--key", public, "--ledger", str(place), "--json"])
    assert (good.exit_code, json.loads(good.output)["valid"]) == (0, True)
    said = run(main, ["certificate", "verify", str(out), "--key", f"{place}.key.pub", "--newest", str(out)])
    assert (said.exit_code, said.output[:6]) == (0, "valid:")
    stale = run(main, ["certificate", "verify", str(out), "--key", public, "--newest", f"9:{'ab' * 32}"])
    assert (stale.exit_code, "stale" in stale.output) == (4, True)
    out.write_bytes(out.read_bytes().replace(b"visits", b"visitz"))
    bad = run(main, ["certificate", "verify", str(out), "--key", public, "--json"])
    assert (bad.exit_code, json.loads(bad.output)["flaws"][0]["kind"]) == (4, "changed")
    assert run(main, ["certificate", "verify", str(out), "--key", "ed25519:AA=="]).exit_code == 2
    assert run(main, ["certificate", "verify", str(tmp_path / "none"), "--key", public]).exit_code == 2
