"""The second opinion on certificates: real ones agree, forged and unknown ones do not, and nothing of the library helps it."""

import ast
import copy
import json
import re
import shutil
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import mpmath as mp
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from flint import arb, ctx, fmpq

import neartwin as nt
from neartwin.accounting.guarantee import Guarantee
from neartwin.cli import main
from neartwin.mechanisms.selection.thresholds import UnitThreshold
from neartwin.releases.certificates import Certificate, OwnerKey
from neartwin.releases.certificates import recompute as second
from neartwin.releases.certificates.document import currencies
from neartwin.releases.certificates.recompute import LAWS, UnknownError, recompute
from neartwin.releases.preparation import _mechanism as method_of_mechanism
from tests.fixtures import told
from tests.fixtures.questions import ACCOUNTS, QUESTIONS, proposed, rows_of

FILE = second.__file__
QUICK = (
    *(
        "two most common, counted",
        "discovery",
        "names alone",
        "discovery for little",
        "replaced discovery",
        "mu discovery",
    ),
    *("rho discovery", "Renyi", "mu for three", "units together", "sampled mean", "norm of quantiles", "weights"),
)


@pytest.fixture(scope="module")
def held():
    return {name: json.loads(text)["body"] for name, text in told("records")["sqlite"]["certificates"].items()}


@pytest.fixture(scope="module")
def issued(tmp_path_factory):
    """A certificate of epsilon 1/2 in parts, with its key."""
    folder = tmp_path_factory.mktemp("issued")
    rows = nt.table(
        pa.table({"who": range(40), "paid": [1.0] * 40}), unit="who", name="visits", columns={"paid": nt.bounds(0, 2)}
    )
    with nt.open_ledger(folder / "budget.db") as book:
        account = book.open(rows, nt.approx(9, "1e-5"))
        asked = rows.agg(n=nt.count(), mean=nt.mean("paid"))
        release = account.release(account.plan(asked, spend=nt.pure("0.5"), limits=nt.limits(max_rows_per_group=1)))
        nt.certify(release, book).save(folder / "made.json")
    return folder


def changed(body, *path, to):
    """A copy of a certificate's body with one part changed by a function."""
    forged = copy.deepcopy(body)
    part = forged
    for step in path[:-1]:
        part = part[step]
    part[path[-1]] = to(part[path[-1]])
    return forged


def test_certificates_of_old_code_agree_with_their_parameters(held):
    for name in QUICK:
        opinion = recompute(held[name])
        assert opinion.agrees, (name, opinion.lines())
        assert len(opinion.mechanisms) >= len(held[name]["mechanisms"])
        assert opinion.claims


@pytest.mark.slow
def test_every_certificate_that_releases_write_agrees(held, tmp_path):
    """Those of old code, and new ones of all its questions and of the laws that these do not use."""
    bodies, laws = list(held.items()), set()
    with nt.open_ledger(tmp_path / "new.db") as book:
        rows = {name: rows_of(name, **how) for name, (_, how) in ACCOUNTS.items()}
        accounts = {name: book.open(rows[name], budget) for name, (budget, _) in ACCOUNTS.items()}
        for name, asked in QUESTIONS.items():
            release = accounts[asked.account].release(proposed(accounts[asked.account], asked))
            bodies.append((name, nt.certify(release, book).body))
        units = rows["zcdp"].agg(n=nt.count_distinct_units())
        release = accounts["zcdp"].release(accounts["zcdp"].plan(units, spend=nt.zcdp("6.5")))
        bodies.append(("little noise", nt.certify(release, book).body))
        counted = rows["gdp"].most_common("town", among=["Ulm", "Bonn"], counted=True)
        release = accounts["gdp"].release(accounts["gdp"].plan(counted, spend=nt.gdp("0.3")))
        bodies.append(("chosen and counted", nt.certify(release, book).body))
        shared = rows["pure"].agg(n=nt.count(), share=nt.share("paid > 3"))  # of true, false and NULL rows
        release = accounts["pure"].release(
            accounts["pure"].plan(shared, spend=nt.pure("0.3"), limits=nt.limits(rows=3))
        )
        bodies.append(("share", nt.certify(release, book).body))
        firsts = (nt.share("paid > 3"), nt.share("paid > 5"), nt.mean("paid"))  # three prices before the question's own
        asked = rows["pure"].where("paid > ($1) + ($2) + ($3)", *(rows["pure"].agg(x=one) for one in firsts))
        proposal = accounts["pure"].plan(asked.agg(n=nt.count()), spend=nt.pure("0.3"), limits=nt.limits(rows=3))
        bodies.append(("asked first", nt.certify(accounts["pure"].release(proposal), book).body))
    for name, body in bodies:
        opinion = recompute(body)
        assert opinion.agrees, (name, opinion.lines())
        laws |= {one["law"] for one in body["mechanisms"]}
    assert laws >= set(LAWS) - {"UnitThreshold"}  # optimal discovery misses fewer groups


@pytest.mark.slow
def test_a_release_of_files_that_nobody_checked_is_recomputed(tmp_path):
    pq.write_table(pa.table({"who": range(40), "paid": [1.0] * 40}), tmp_path / "visits.parquet")
    rows = nt.table(str(tmp_path / "visits.parquet"), unit="who")
    with nt.open_ledger(tmp_path / "budget.db") as book:
        account = book.open(rows, nt.pure(1))
        release = account.release(account.plan(rows.agg(n=nt.count()), spend=nt.pure(1), limits=nt.limits(rows=1)))
        body = nt.certify(release, book).body
    assert body["guarantee"]["promise"]["unchecked"] == "true"
    assert recompute(body).agrees
    with pytest.raises(UnknownError, match="unchecked"):
        recompute(changed(body, "guarantee", "promise", "unchecked", to=lambda _: "1"))


def test_a_forged_certificate_does_not_agree(held):
    less, more = (lambda text: str(Fraction(text) * 99 / 100)), (lambda text: str(Fraction(text) * 101 / 100))
    cases = (
        ("counts", ("mechanisms", 0, "parameters", "scale"), less),
        ("counts", ("mechanisms", 2, "parameters", "sensitivity"), more),
        ("counts", ("guarantee", "promise", "epsilon"), less),
        ("counts", ("guarantee", "currencies", "approximate", 2, "epsilon"), lambda _: "0.99999999"),
        ("counts", ("guarantee", "currencies", "pure"), less),
        ("mu", ("mechanisms", 1, "parameters", "variance"), less),
        ("mu", ("guarantee", "promise", "mu"), less),
        ("mu for three", ("guarantee", "promise", "units"), lambda _: "4"),
        ("units together", ("guarantee", "promise", "units"), lambda _: "4"),
        ("rho", ("mechanisms", 0, "parameters", "l2_squared"), lambda _: "19"),
        ("rho", ("guarantee", "promise", "rho"), less),
        ("Renyi", ("guarantee", "promise", "order"), lambda _: "9"),
        ("Renyi", ("guarantee", "currencies", "approximate", 0, "epsilon"), lambda _: "0.5"),
        ("discovery", ("mechanisms", 1, "parameters", "delta"), more),
        ("names alone", ("explanation",), lambda text: text.replace("each of 2 groups", "each of 3 groups")),
        ("mu discovery", ("mechanisms", 1, "parameters", "threshold"), lambda _: "5"),
        ("discovery for little", ("mechanisms", 1, "parameters", "threshold"), lambda _: "17000"),
        ("two most common, counted", ("mechanisms", 0, "parameters", "count"), lambda _: "3"),
        ("sampled mean", ("bounds", 2, "value"), lambda _: "26/100"),
        ("norm", ("mechanisms", 2, "parameters", "variance"), less),
        ("tuned bounds", ("mechanisms", 2, "parameters", "scale"), less),
    )
    assert all(recompute(held[name]).agrees for name in {name for name, _, _ in cases})
    for name, path, to in cases:
        assert not recompute(changed(held[name], *path, to=to)).agrees, (name, path)


def test_no_line_of_a_certificate_goes_unpaid_by_another_that_costs_less(held, issued):
    """A faint `shared`, copies of a measure that another pays for, a bound said twice, and people in parts."""

    def more(body, part, *lines):
        return changed(body, part, to=lambda listed: [*lines, *listed])

    faint = {"for": "shared", "law": "Gaussian", "parameters": {"variance": "1000000", "l2_squared": "1"}}
    half = changed(held["mu"], "guarantee", "promise", "mu", to=lambda mu: str(Fraction(mu) / 2))
    for body in (half, more(half, "mechanisms", faint)):
        assert not recompute(body).agrees
    true = held["norm"]
    assert recompute(true).agrees
    loud = changed(true, "mechanisms", 0, "parameters", "variance", to=lambda v: str(Fraction(v) / 100))
    assert not recompute(loud).agrees  # not within the noise of all together
    mine = json.loads((issued / "made.json").read_text())["body"]
    paid = [
        one
        for one in mine["mechanisms"]
        if any("paid with" in line and one["for"] in line for line in recompute(mine).mechanisms)
    ]
    assert recompute(mine).agrees
    assert paid
    assert not any("'shared'" in line for body in (mine, held["quantiles"]) for line in recompute(body).mechanisms)
    assert not recompute(more(mine, "mechanisms", *paid[:1] * 3)).agrees
    said = next(one for one in held["sampled mean"]["bounds"] if one["what"] == "sampling_rate")
    for rate, agrees in (("1/100", True), ("26/100", False)):
        for twice in (said | {"value": rate}, said), (said, said | {"value": rate}):
            assert recompute(more(held["sampled mean"], "bounds", *twice)).agrees == agrees
    for body, word in (
        (
            held["counts"]
            | {"mechanisms": [{"for": "x", "law": "CountTree", "parameters": {"branching": "2", "cells": "4"}}]},
            "no mec",
        ),
        (changed(held["units together"], "guarantee", "promise", "units", to=lambda _: 1.99), "1.99"),
    ):
        with pytest.raises(UnknownError, match=word):
            recompute(body)


@pytest.mark.slow
def test_bins_of_a_condition_share_one_price_where_their_noise_is_alike(held):
    """The near misses: other noise, no bin of true rows, and two columns."""
    body = changed(held["counts"], "mechanisms", to=lambda old: [*old, copy.deepcopy(old[1])])
    for true, other, paid in (
        ("filled:ill: true", "filled:ill: false", True),
        ("filled:ill: true", "filled:ill: NULL", True),
        ("filled:paid", "empty:paid", True),
        ("filled:ill: false", "filled:ill: NULL", False),
        ("filled:ill: true", "filled:well: false", False),
        ("filled:count(ill)", "filled:count(well)", False),
        ("filled:paid", "empty:ill", False),
        ("total:paid from below", "short:paid from below", True),
        ("total:paid from below", "total:paid from above", True),
        ("total:paid from below", "empty:paid from below", True),
        ("total:paid from below", "total:ill from above", False),
        ("total:paid from below", "short:ill from below", False),
        ("total:paid", "short:paid", False),
        ("total:paid from above", "total:ill from below", False),
        ("total:paid", "empty:paid", False),
    ):
        named = changed(body, "mechanisms", 1, "for", to=lambda _, name=true: name)
        named = changed(named, "mechanisms", 3, "for", to=lambda _, name=other: name)
        assert recompute(named).agrees is paid, (true, other)
        wider = changed(named, "mechanisms", 3, "parameters", "scale", to=lambda text: str(Fraction(text) * 2))
        assert not recompute(wider).agrees


def test_a_threshold_leaks_what_was_calibrated_and_a_lower_one_more(held):
    made = UnitThreshold.calibrated(epsilon=Fraction(2), delta=Fraction(1, 10**5), sensitivity=2, groups_per_unit=2)
    body = changed(held["names alone"], "mechanisms", 1, to=lambda _: method_of_mechanism("selection", made))
    assert recompute(body).agrees
    assert not recompute(
        changed(body, "mechanisms", 1, "parameters", "threshold", to=lambda text: str(int(text) - 1))
    ).agrees


@pytest.mark.parametrize("towns", [1, 12])
@pytest.mark.parametrize("neighbours", ["add_remove", "replace_one"])
def test_groups_that_a_unit_changes_are_read_where_no_text_can_stand(tmp_path, towns, neighbours):
    """Not in the explanation, which has conditions of the asker and the example of a plan whose limit is chosen."""
    who = [i // 12 for i in range(6_000)]
    town = [f"t{(i // 12) % 9}" if towns == 1 else f"t{i % 12}" for i in range(6_000)]
    rows = pa.table({"who": who, "town": town, "note": ["x"] * 6_000})
    table = nt.table(rows, unit="who", name="visits", neighbours=neighbours)
    text = "SELECT town, COUNT(DISTINCT who) AS n FROM visits WHERE note <> 'which of 1 groups exist' GROUP BY town"
    with nt.open_ledger(tmp_path / "budget.db") as book:
        account = book.open(table, nt.approx(90, "1e-4"))
        for limit in (nt.private_limit(), towns):
            limits = nt.limits(max_groups=limit)
            asked = account.plan(nt.from_sql(text, table), spend=nt.approx(2, "1e-5"), limits=limits)
            body = json.loads(nt.certify(account.release(asked), book).to_json())["body"]
            assert recompute(body).agrees
            origin = next(one["origin"] for one in body["bounds"] if one["what"] == "max_discovered_groups")
            assert origin.startswith("chosen by a private first stage" if limit != towns else "public: given")
            entering = next(Fraction(one["value"]) for one in body["bounds"] if one["what"] == "max_discovered_groups")
            low = changed(body, "guarantee", "promise", "delta", to=lambda stated: str(Fraction(stated) / 3))
            assert not recompute(low).agrees
            for one in low["bounds"]:
                if one["what"] == "max_discovered_groups":  # a near miss: so few groups would leak so little
                    one["value"] = "1"
            assert recompute(low).agrees is (entering >= 3)


def test_an_older_certificate_is_read_by_the_most_that_its_text_tells(held):
    body = changed(held["discovery"], "bounds", to=lambda all_: [one for one in all_ if "groups" not in one["what"]])
    told_of = changed(body, "explanation", to=lambda text: "which of 1 groups exist " + text)
    assert [str(one) for one in recompute(told_of).claims] == [str(one) for one in recompute(body).claims]


def test_what_is_unknown_is_refused_by_its_name(held):
    for path, to, named in (
        (("version",), lambda _: 2, "version 2"),
        (("kind",), lambda _: "diploma", "diploma"),
        (("mechanisms",), lambda _: [], "no mechanism is listed"),
        (("mechanisms", 0, "law"), lambda _: "Cauchy", "Cauchy"),
        (("mechanisms", 0, "parameters"), lambda old: old | {"tail": "1"}, "tail"),
        (("mechanisms", 0, "parameters", "scale"), lambda _: "-1", "scale"),
        (("mechanisms", 0, "parameters", "scale"), lambda _: "0", "scale"),
        (("mechanisms", 0, "parameters", "scale"), lambda _: "1e999999999", "scale"),
        (("mechanisms", 0, "parameters", "scale"), lambda _: 3, "scale"),
        (("guarantee", "promise"), lambda old: old | {"kind": "max divergence"}, "max divergence"),
        (("guarantee", "promise", "neighbours"), lambda _: "replace_one", "replace_one"),
        (("bounds",), lambda old: [*old, {"what": "sampling_rate", "value": "3/2"}], "rate 3/2"),
        (("mechanisms",), lambda _: None, "no certificate"),
    ):
        with pytest.raises(UnknownError, match=re.escape(named)):
            recompute(changed(held["counts"], *path, to=to))


def test_delta_of_normal_and_pure_losses_is_an_integral_of_densities():
    loss = second.Loss(pure=(Fraction(1, 3), Fraction(1, 6)), mu_squared=Fraction(9, 4), leak=Fraction(1, 1000))
    with mp.workdps(30):
        mu, e = mp.mpf(3) / 2, mp.mpf(1) / 2
        sure = mp.exp(e) / (1 + mp.exp(e))
        for eps in (Fraction(0), Fraction(6)):
            total = mp.mpf(0)
            for p, q in ((sure, 1 - sure), (1 - sure, sure)):
                edge = (mp.mpf(eps.numerator) / eps.denominator - mp.log(p / q)) / mu + mu / 2
                total += mp.quad(
                    lambda x, p=p, q=q, eps=eps: (
                        p * mp.npdf(x - mu) - mp.exp(mp.mpf(eps.numerator) / eps.denominator) * q * mp.npdf(x)
                    ),
                    [edge, edge + 5, edge + 20],
                )
            with second.ctx.workprec(second.BITS):
                found = float(loss.delta(eps))
            assert abs(found - (mp.mpf("0.001") + mp.mpf("0.999") * total)) < 1e-15


def test_the_file_imports_nothing_of_the_library_and_runs_alone(issued, tmp_path, capsys):
    imported = set()
    for node in ast.walk(ast.parse(Path(FILE).read_bytes())):
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            imported.add(node.module.partition(".")[0])
    assert imported - set(sys.stdlib_module_names) == {"flint"}
    alone = shutil.copy(FILE, tmp_path / "opinion.py")
    blocked = "import runpy, sys; sys.modules['neartwin'] = None; runpy.run_path(sys.argv.pop(1), run_name='__main__')"
    forged = changed(
        json.loads((issued / "made.json").read_text()), "body", "guarantee", "promise", "epsilon", to=lambda _: "2/5"
    )
    (tmp_path / "forged.json").write_text(json.dumps(forged))
    (tmp_path / "other.json").write_text("[1]")
    run = subprocess.run(
        [sys.executable, "-c", blocked, alone, issued / "made.json"], capture_output=True, text=True, check=True
    )
    assert "all claims agree" in run.stdout
    assert [second.main([str(tmp_path / name)]) for name in ("forged.json", "other.json", "none.json")] == [1, 2, 2]
    assert "DOES NOT AGREE" in capsys.readouterr().out


def test_verify_recomputes_and_refuses_what_its_owner_signed_too_low(issued):
    run = CliRunner().invoke
    verify = ["certificate", "verify", "--key", str(issued / "budget.db.key.pub"), "--recompute"]
    found = run(main, [*verify, str(issued / "made.json")])
    assert found.exit_code == 0, found.output
    assert "what the limits take: DiscreteLaplace, pure epsilon" in found.output
    assert re.search(r"promise, delta at epsilon 1/2: stated 0, recomputed 0: agrees", found.output)
    owner = OwnerKey.at(issued / "budget.db.key")
    body = json.loads((issued / "made.json").read_text())["body"]
    for forged in (
        changed(body, "guarantee", "promise", "epsilon", to=lambda _: "2/5"),
        changed(body, "mechanisms", 0, "law", to=lambda _: "Cauchy"),
    ):
        unsigned = Certificate(body=forged, signer=owner.public, signature="")
        signed = Certificate(body=forged, signer=owner.public, signature=owner.sign(unsigned.message))
        path = signed.save(issued / "low.json")
        assert run(main, [*verify[:-1], str(path)]).exit_code == 0
        for more in ([], ["--json"]):
            refused = run(main, [*verify, str(path), *more])
            assert refused.exit_code == 4
            assert "recompute" in refused.output
            assert "more is lost" in refused.output or "Cauchy" in refused.output


@pytest.mark.parametrize("rho", ["3e-10", "3e-8", "1e-7", "1/2"])
def test_epsilons_stated_for_a_little_rho_agree_and_smaller_ones_do_not(rho):
    told = currencies(Guarantee.of(nt.zcdp(rho), unit="id", neighbours="add_remove"))["approximate"]
    loss = second.Loss(rho=Fraction(rho))
    with ctx.workprec(second.BITS):
        for one in told:
            stated, delta = Fraction(one["epsilon"]), Fraction(one["delta"])
            assert loss.delta(stated) <= arb(fmpq(delta.numerator, delta.denominator))
            assert not loss.delta(stated * (1 - Fraction(1, 10**8))) <= arb(fmpq(delta.numerator, delta.denominator))
