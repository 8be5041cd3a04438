"""Error of bounds at one price: counts and totals of purchases by month, and a sum of incomes, against the raw truth.

Data: CDNOW, 69,659 purchases of 23,570 customers in 18 months, one of them with 217 (Fader and Hardie's teaching set, in the
package `lifetimes`, whose file is read and which is never imported). Each line is the mean
over months and releases of the absolute error, at mu = 0.1, add or remove one customer. The ratio is of the error of counts.
"""

import contextlib
import tempfile
from importlib.util import find_spec
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

import neartwin as nt

PACKAGE = find_spec("lifetimes")
RELEASES, SPEND, WIDE = 12, nt.gdp("0.1"), 2000
CLIP = nt.private_range()
BOUNDS = {
    "10 rows a month, 10 months; amounts to 2000": (WIDE, {"limits": nt.limits(max_rows_per_group=10, max_groups=10)}),
    "3 rows a month, 6 months; amounts to 100": (100, {"limits": nt.limits(max_rows_per_group=3, max_groups=6)}),
    "norm of 8 rows; amounts to 100": (100, {"limits": nt.limits(norm=8)}),
    "nothing said of limits; amounts to 2000": (WIDE, {}),
    "nothing said of limits or amounts": (WIDE, {"clip": CLIP}),
}  # fmt: skip


def purchases(folder):
    """The Parquet file, and each month's raw count and total."""
    text = Path(next(iter(PACKAGE.submodule_search_locations))) / "datasets" / "CDNOW_master.txt"
    lines = [line.split() for line in text.read_text(encoding="utf-8").splitlines()[1:]]
    columns = {"customer": [int(line[0]) for line in lines], "month": [int(line[1][:6]) for line in lines]}
    columns["amount"] = [float(line[3]) for line in lines]
    place = folder / "purchases.parquet"
    import pyarrow.parquet as pq

    pq.write_table(pa.table(columns), place)
    truth = duckdb.sql(f"SELECT month, count(*), sum(amount) FROM '{place}' GROUP BY month ORDER BY month").fetchall()
    return place, truth


def errors(place, truth, high, bounds, folder):
    """Mean absolute errors of counts and of totals."""
    rows = nt.table(str(place), unit="customer")
    query = rows.group_by("month", keys=[month for month, _, _ in truth])
    bounds = dict(bounds)
    query = query.agg(n=nt.count(), total=nt.sum("amount", 0, high, clip=bounds.pop("clip", None)))
    found = []
    for _ in range(RELEASES):
        with nt.open_ledger(folder / f"{len(list(folder.iterdir()))}.db") as book:
            account = book.open(rows, SPEND)
            release = account.release(account.plan(query, spend=SPEND, **bounds))
        pairs = zip(("n", "total"), (1, 2), strict=True)
        found.append([np.abs(np.array(release[name].values) - [row[i] for row in truth]).mean() for name, i in pairs])
    return np.mean(found, axis=0)


def incomes(folder):
    """A sum of 3,000 lognormal incomes at epsilon 1, in 40 releases: at declared bounds, and at bounds chosen within them."""
    values = np.minimum(np.exp(np.random.default_rng(5).normal(10, 1, 3000)).round(2), 10**6)
    rows = nt.table(pa.table({"who": np.arange(3000), "paid": values}), unit="who", name="incomes")
    spend, one = nt.pure(1), nt.limits(max_rows_per_group=1)
    for high in (10**6, 10**8):
        for name, clip in ("declared", None), ("chosen", CLIP):
            off, held = [], 0
            for number in range(40):
                with nt.open_ledger(folder / f"{high}{name}{number}.db") as book:
                    account, question = book.open(rows, spend), rows.agg(s=nt.sum("paid", 0, high, clip=clip))
                    total = account.release(account.plan(question, spend=spend, limits=one))["s"]
                off.append(abs(total.values[0] - values.sum()) / values.sum())
                held += total.lower[0] <= values.sum() <= total.upper[0]
            print(
                f"incomes in [0, {high:,}], {name:8} off by {np.median(off):6.1%}, bars hold {held} of 40", flush=True
            )


def main():
    with tempfile.TemporaryDirectory() as folder:
        incomes(Path(folder))
    if PACKAGE is None:
        print("lifetimes is not installed: left out (pip install --no-deps lifetimes)")
        return
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        place, truth = purchases(folder)
        counts = np.mean([row[1] for row in truth])
        print(f"mean true count {counts:,.0f}, total {np.mean([row[2] for row in truth]):,.0f}")
        found = {}
        for name, (high, bounds) in BOUNDS.items():
            found[name] = errors(place, truth, high, bounds, folder)
            print(f"{name:50} count {found[name][0]:8,.0f}   total {found[name][1]:10,.0f}", flush=True)
        first, *_, last = found.values()
        print(f"ratio of count errors, fixed bounds over tuned norm: {first[0] / last[0]:.1f}")


if __name__ == "__main__":
    main()
