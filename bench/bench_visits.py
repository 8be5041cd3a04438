"""The visits job: count, sum and mean by city, unknown cities, epsilon 1 and delta 1e-6, add/remove one user.

Prints how long each takes over the same bounded statement without noise, and how far each is from the truth: from the raw one,
which readers care about, and from the bounded one, which error bars are about. Ours runs with bounds fixed at 10 x 20 and with
bounds tuned inside the same budget. OpenDP runs in NEARTWIN_PEERS, a Python that has `opendp[polars]`, where there is one.

    python bench/bench_visits.py [million rows, 10]
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TOP = 90  # cities that every system releases


def by_opendp(path: str) -> None:
    """In the peers' Python: with what makes OpenDP 0.16 run (first groups kept, one more than the cap, whole amounts)."""
    import opendp.prelude as dp
    import polars as pl

    dp.enable_features("contrib")
    start = time.time(), time.process_time()
    context = dp.Context.compositor(
        data=pl.scan_parquet(path),
        privacy_unit=dp.unit_of(contributions=1, identifier=pl.col("user_id")),
        privacy_loss=dp.loss_of(epsilon=1.0, delta=1e-6),
        split_evenly_over=1,
        margins=[dp.polars.Margin(by=["city"], max_length=20_000_000, max_groups=1000)],
    )
    amount = pl.col("amount").cast(pl.Int64).fill_null(0)
    bounded = context.query().truncate_per_group(20, by=["city"]).truncate_num_groups(11, by=["city"], keep="first")
    grouped = bounded.group_by("city").agg(dp.len(signed=True).alias("n"), amount.dp.sum((0, 100)).alias("s"))
    found = grouped.release().collect()
    answers = {city: [n, total, total / n if n else 0.0] for city, n, total in found.select("city", "n", "s").rows()}
    print(json.dumps(_told(start, answers)))


def _told(start: tuple[float, float], answers: object) -> dict[str, object]:
    seconds, processor = time.time() - start[0], time.process_time() - start[1]
    return {
        "seconds": seconds,
        "processor": processor,
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "answers": answers,
    }


def by_us(path: str, kind: str) -> None:
    """One release from a fresh ledger, as a user would ask it."""
    import neartwin as nt

    start = time.time(), time.process_time()
    rows = nt.table(path, unit="user_id")
    query = rows.group_by("city").agg(n=nt.count(), total=nt.sum("amount", 0, 100), mean=nt.mean("amount", 0, 100))
    fixed = {"rows_per_group": 20, "groups_per_unit": 10}
    tuned = {"rows_per_group": nt.tuned(1024, groups=300), "groups_per_unit": nt.tuned(256, groups=300)}
    with tempfile.TemporaryDirectory() as folder, nt.open_ledger(Path(folder) / "budget.db") as ledger:
        account = ledger.open(rows, nt.approx(1, "1e-6"))
        plan = account.plan(query, spend=nt.approx(1, "1e-6"), **(fixed if kind == "fixed" else tuned))
        release = account.release(plan)
    columns = [release[name].values for name in ("n", "total", "mean")]
    answers = {key[0]: values for key, *values in zip(release.keys, *columns, strict=True)}
    print(release.notes[-1], file=sys.stderr)
    print(json.dumps(_told(start, answers)))


def by_hand(path: str, most: int) -> None:
    """The bounded statement that a careful analyst would write, without noise; most: rows a city, and half as many cities."""
    import duckdb
    from bench_engines import BY_HAND

    start = time.time(), time.process_time()
    found = duckdb.sql(BY_HAND.format(path=path).replace("20", str(most))).fetchall()
    answers = {city: [int(n), float(total), float(total) / max(int(n), 1)] for city, _, n, total in found}
    print(json.dumps(_told(start, answers)))


def asked(python: str, *words: str) -> dict | None:
    """A run of this file in a process of its own; None where it fails."""
    done = subprocess.run([python, __file__, *words], capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"{words[0]}: {done.stderr.strip().splitlines()[-1:]}")
        return None
    for line in done.stderr.splitlines():
        if line.startswith("Tuned"):
            print(line)
    return json.loads(done.stdout.splitlines()[-1])


def error(answers: dict, truth: dict, cities: list[str], place: int) -> float:
    return sum(abs(answers.get(city, [0, 0, 0])[place] - truth[city][place]) for city in cities) / len(cities)


def main() -> None:
    """Data, truth, all runs, two tables."""
    import duckdb
    from bench_engines import PLAIN, make_visits

    rows = int(float(sys.argv[1] if len(sys.argv) > 1 else 10) * 1_000_000)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "visits.parquet"
        make_visits(path, rows)
        raw = {
            c: [n, t, m]
            for c, n, t, m in duckdb.sql(PLAIN.format(path=path).replace("amount)", "least(amount, 100))")).fetchall()
        }
        top = sorted(raw, key=lambda city: -raw[city][0])[:TOP]
        hand = asked(sys.executable, "hand", str(path), "20")
        runs = {f"ours, {kind}": asked(sys.executable, "us", str(path), kind) for kind in ("fixed", "tuned")}
        runs["OpenDP, fixed"] = asked(os.environ.get("NEARTWIN_PEERS", sys.executable), "opendp", str(path))
    if hand is None:
        sys.exit("the statement by hand failed")
    told = f"{hand['seconds']:.1f} s, {hand['processor']:.1f} s of processors"
    print(f"{rows:,} rows, {len(raw)} cities; the bounded statement by hand: {told}")
    print(
        "| | time / by hand | processor / by hand | peak GB | cities | raw: n | raw: total | mean | bounded: n | impossible |"
    )
    for name, run in runs.items():
        if run is None:
            continue
        found, bounded = run["answers"], hand["answers"]
        both = [city for city in found if city in bounded]
        against = f"{error(found, bounded, both, 0):,.0f}" if "tuned" not in name else "-"
        odd = sum(not 0 <= mean <= 100 for _, _, mean in found.values())
        errors = f"{error(found, raw, top, 0):,.0f} | {error(found, raw, top, 1):,.0f} | {error(found, raw, list(found), 2):.2f}"
        cost = (
            f"{run['seconds'] / hand['seconds']:.2f} | {run['processor'] / hand['processor']:.2f} | {run['memory']:.2f}"
        )
        print(f"| {name} | {cost} | {len(found)} | {errors} | {against} | {odd} |")


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    match sys.argv[1:]:
        case ["us", path, kind]:
            by_us(path, kind)
        case ["opendp", path]:
            by_opendp(path)
        case ["hand", path, most]:
            by_hand(path, int(most))
        case _:
            main()
