"""What a user's type checker sees: checked by mypy, never run."""

from fractions import Fraction
from typing import assert_type

import neartwin as nt
from neartwin.accounting.budgets import Advantage, Approx, Gdp, Mixed, Pure, Rdp, Zcdp
from neartwin.queries.query import Groups, Query, Rows, TopK
from neartwin.releases.accounts import Account, Ledger, Proposal
from neartwin.releases.values import Preview

rows = nt.table("purchases.parquet", unit="customer_id", columns={"amount": nt.bounds(0, 200)})
assert_type(rows, Rows)
assert_type(rows.where("amount > 5").group_by("cds", keys=[1, 2]), Groups)
query = rows.agg(
    orders=nt.count(), people=nt.count_distinct_units(), total=nt.sum("amount"), typical=nt.mean("amount", 0, "99.5")
)
assert_type(query, Query)
assert_type(rows.most_common("cds", among=[1, 2]), TopK)
assert_type(nt.from_sql("SELECT COUNT(*) FROM purchases", rows), Query | TopK)
assert_type(nt.pure(1), Pure)
assert_type(nt.approx(epsilon="1/2", delta="1e-6"), Approx)
assert_type(nt.zcdp("0.5", delta="1e-6"), Zcdp)
assert_type(nt.rdp(8, 1), Rdp)
assert_type(nt.gdp(mu=1), Gdp)
assert_type(nt.mixed(1, mu="0.5"), Mixed)
assert_type(nt.advantage("0.3"), Advantage)

served = nt.connect("http://127.0.0.1:8417", "nt_...").open("purchases")
assert_type(served.rows, Rows)
assert_type(served.plan(query, spend=nt.pure(1)).preview(), Preview)
assert_type(served.release(served.plan(query, spend=nt.pure(1))), nt.Release)
assert_type(served.remaining, dict[str, Fraction])

with nt.open_ledger("budget.db") as book:
    assert_type(book, Ledger)
    account = book.open(rows, nt.pure(1))
    assert_type(account, Account)
    proposal = account.plan(query, spend=nt.pure(0.5), limits=nt.limits(max_rows_per_group=5))
    assert_type(proposal, Proposal)
    assert_type(proposal.preview(), Preview)
    release = account.release(proposal)
    assert_type(release, nt.Release)
    assert_type(account.remaining, dict[str, Fraction])
    assert_type(release["orders"].values, tuple[float, ...])
    nt.table(5)  # type: ignore[call-overload]  # a unit must be named
    account.plan(query)  # type: ignore[call-arg]  # a plan must say what it may spend
    account.plan(query, spend=0.5)  # type: ignore[arg-type]  # and in which currency
