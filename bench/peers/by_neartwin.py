"""Ours: one release from a fresh ledger, as a user would ask it; and the statement by hand that it is measured against."""

import tempfile
import time
from fractions import Fraction
from importlib import import_module
from pathlib import Path

from told import main

TUNED = 300  # cities expected in the release


def released(path, target, asked, **limits):
    """The answer to one question. asked: from the rows to a query."""
    import neartwin as nt

    rows = nt.table(path, unit="user_id")
    with tempfile.TemporaryDirectory() as folder, nt.open_ledger(Path(folder) / "budget.db") as ledger:
        account = ledger.open(rows, target)
        return account.release(account.plan(asked(rows), spend=target, **limits))


def asked_by_city(rows):
    import neartwin as nt

    return rows.group_by("city").agg(
        n=nt.count(), total=nt.sum("amount", 0, 100, fill=0), mean=nt.mean("amount", 0, 100, fill=0)
    )


def by_city(path, **limits):
    import neartwin as nt

    found = released(path, nt.approx(1, "1e-6"), asked_by_city, **limits).non_negative("n", "total")
    columns = [found[name].values for name in ("n", "total", "mean")]
    return {key[0]: values for key, *values in zip(found.keys, *columns, strict=True)} | {"": _tuned(found.notes)}


def _tuned(notes):
    return next((note for note in notes if note.startswith("Chosen privately")), "")


def visits(path):
    import neartwin as nt

    return by_city(path, limits=nt.limits(max_rows_per_group=20, max_groups=10, loss_share=0))


def tuned(path):
    import neartwin as nt

    return by_city(path, limits=nt.limits(norm=nt.private_limit(64, groups=TUNED)))


def capped(path):
    import neartwin as nt

    return by_city(path, limits=nt.limits(rows=nt.private_limit(groups=TUNED), max_discovered_groups=32))


def by_hand_loaded(path):
    """The statement by hand in a process that has the libraries loaded that a release stands on, and none of ours."""
    for name in ("numpy", "pyarrow.parquet", "scipy.special", "sqlalchemy.dialects.sqlite", "sqlglot.dialects.duckdb"):
        import_module(name)
    return by_hand(path)


def exact(path, asked, **limits):
    """What the release would say without noise of every group there is: (plan, groups' keys, values by measure)."""
    import neartwin as nt
    from neartwin.engines.duckdb import DuckdbEngine
    from neartwin.planning.planner import plan

    made = plan(asked(nt.table(path, unit="user_id")), spend=nt.approx(1, "1e-6"), **limits)
    answer = DuckdbEngine().aggregate(made.stage, salt=7)
    return made, answer.keys, answer.values


def within_norm(path):
    """Each city within a norm of 64 rows a user, without noise: what the tuned release that chooses 64 is noisy around."""
    import neartwin as nt

    made, cities, values = exact(path, asked_by_city, limits=nt.limits(norm=64, max_discovered_groups=64, loss_share=0))
    columns = [statistic.values for statistic in made.estimates(values, {})]
    return {cities[i][0]: [column[i] for column in columns] for i in range(len(cities))}


def expected(path, asked, **limits):
    """The mean number of groups that are found, over the noise: the sum of their probabilities of being kept."""
    made, _, values = exact(path, asked, **limits)
    chances = getattr(made.selection, "keep_probabilities", None) or made.selection.keep_probability
    return float(chances(values[made.discovered_by]).sum())


def expected_cities(path):
    import neartwin as nt

    return expected(path, asked_by_city, limits=nt.limits(max_rows_per_group=20, max_groups=10, loss_share=0))


def expected_keys(path):
    import neartwin as nt

    return expected(path, asked_keys, limits=nt.limits(max_groups=10, loss_share=0))


def asked_keys(rows):
    import neartwin as nt

    return rows.group_by("key").agg(people=nt.count_distinct_units())


def histogram(path):
    import neartwin as nt

    edges = [Fraction(2 * category - 1, 2) for category in range(22)]
    asked = lambda rows: rows.agg(rows=nt.histogram("category", edges))  # noqa: E731
    found = released(path, nt.pure(1), asked, limits=nt.limits(max_rows_per_group=100, loss_share=0))
    return {str(category): n for category, n in enumerate(found["count"].values)}


def quantiles(path):
    import neartwin as nt

    ranks = [0.25, 0.5, 0.75]
    found = released(
        path,
        nt.pure(1),
        lambda rows: rows.agg(q=nt.quantile("amount", ranks, 0, 100)),
        limits=nt.limits(max_rows_per_group=100, loss_share=0),
    )
    return [statistic.values[0] for statistic in found.statistics]


def keys(path):
    import neartwin as nt

    return len(released(path, nt.approx(1, "1e-6"), asked_keys, limits=nt.limits(max_groups=10, loss_share=0)))


def counts(path):
    """Seconds a question, of a hundred with distinct predicates in one session: processor and wall."""
    import neartwin as nt

    rows = nt.table(path, unit="user_id")
    with tempfile.TemporaryDirectory() as folder, nt.open_ledger(Path(folder) / "budget.db") as ledger:
        account = ledger.open(rows, nt.pure(1000))
        for i in range(101):
            query = rows.where(f"amount > {i}").agg(n=nt.count())
            account.release(account.plan(query, spend=nt.pure(1), limits=nt.limits(max_rows_per_group=3, loss_share=0)))
            if not i:
                begun = time.process_time(), time.perf_counter()
    return [(time.process_time() - begun[0]) / 100, (time.perf_counter() - begun[1]) / 100]


def by_hand(path, first="least(n, 20) DESC,"):
    """The bounded statement of the visits that a careful analyst would write, without noise: a user's largest cities first."""
    import duckdb

    text = (Path(__file__).parent / "by_hand.sql").read_text(encoding="utf-8").format(path=path, first=first)
    found = duckdb.sql(text).fetchall()
    return {city: [int(n), float(total), float(total) / max(int(n), 1)] for city, _, n, total in found}


def at_random(path):
    """The same with any ten cities of a user."""
    return by_hand(path, "")


main({
    "visits": visits, "tuned": tuned, "capped": capped, "histogram": histogram, "quantiles": quantiles, "keys": keys,
    "counts": counts, "hand": by_hand, "hand, loaded": by_hand_loaded, "at random": at_random, "within": within_norm,
    "expected visits": expected_cities, "expected keys": expected_keys,
})  # fmt: skip
