"""The same questions asked of neartwin and of its peers, at the same guarantee: time, memory, error, groups found.

    bench/peers.sh PEERS                       # each peer in an environment of its own, once
    python bench/bench_peers.py --peers PEERS [--rows 10] [--jobs visits histogram quantiles keys counts] [--only opendp ...]

visits     count, sum and mean by city, unknown cities: 10 cities a user, 20 rows a user in a city, epsilon 1, delta 1e-6
tuned      the same with a norm that the plan finds out inside the same budget
capped     the same with rows a user in a city and cities a user that the plan finds out inside the same budget
histogram  rows by category (21 public ones), 100 rows a user, epsilon 1
quantiles  three quartiles of an amount, 100 rows a user, epsilon 1
keys       which of a million unknown keys there are, 10 keys a user, epsilon 1, delta 1e-6
counts     one count after the other with distinct predicates, in one session, of 100,000 rows
found      how many of the cities (--of visits) and of the keys (--of keys) are found: ours as expected, computed exactly, the
           peers' the mean of --times runs

Add/remove one user everywhere. Ours is compiled to bytecode first, as pip compiles what it installs.
A process each: time on the wall and of processors, of it and all that it started, over ours, and
without imports. For the visits ours is also set against the same bounded statement without noise. Peers that
take too long for all rows get fewer (--rows 1 --only tumult), and ours with them. diffprivlib and PyDP do not bound users: that
is done by hand in their scripts, and diffprivlib shows every city without hiding any.
"""

import argparse
import compileall
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import duckdb

import neartwin

HERE = Path(__file__).resolve().parent
PEERS = ("opendp", "pipelinedp", "smartnoise", "tumult", "diffprivlib", "pydp")
JOBS = ("visits", "tuned", "capped", "histogram", "quantiles", "keys", "counts", "found")
OURS = ("neartwin", sys.executable)
TOP = 90  # the largest cities, where readers look
RAW = "SELECT city, count(*), sum(least(amount, 100)), avg(least(amount, 100)) FROM '{path}' GROUP BY city"


Who = tuple[str, str]  # a name, which its script has too, and its Python
Truth = dict[str, list[float]]  # count, total and mean by city


@dataclass(frozen=True)
class Run:
    """What one process took. seconds, processor: of it and what it started; work: seconds without imports; memory: peak, GB."""

    name: str
    seconds: float
    processor: float
    work: float
    memory: float
    answers: object


class Watched:
    """A process and all that it started, as /proc tells: processor seconds and peak memory. Spark is one of its own.

    Who belongs to its session is looked up once a second, what each uses ten times: reading all of /proc takes time from
    answers that several threads compute.
    """

    def __init__(self, process: subprocess.Popen) -> None:
        self.process, self.peak, self._spent = process, 0.0, {}
        self._known = {str(process.pid)}
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        looks = 0
        while self.process.returncode is None:
            looks += 1
            if looks % 10 == 0:
                self._known = {one.name for one in Path("/proc").glob("[0-9]*") if self._belongs(one.name)}
            self._look()
            time.sleep(0.1)

    def _belongs(self, process: str) -> bool:
        try:
            return os.getsid(int(process)) == self.process.pid
        except OSError:
            return False

    def _look(self) -> None:
        tick, page, whole = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE"), 0
        for one in self._known:
            try:
                words = Path("/proc", one, "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            whole += int(words[21]) * page
            self._spent[one] = (int(words[11]) + int(words[12])) / tick
        self.peak = max(self.peak, whole / 2**30)

    def finished(self) -> float:
        """Processor seconds of all of them, of which the last tenth of a second may be missing."""
        self._thread.join()
        return sum(self._spent.values())


def run(who: Who, job: str, path: Path, patience: int, name: str = "") -> Run | None:
    """A job in a process of its own; None, and a word why, where it has no such job, fails or takes too long."""
    name = name or who[0]
    command = [who[1], str(HERE / "peers" / f"by_{who[0]}.py"), job, str(path.resolve())]
    with (
        tempfile.TemporaryFile("w+") as out,
        tempfile.TemporaryFile("w+") as err,
        tempfile.TemporaryDirectory() as place,  # for what an engine leaves where it runs
    ):
        begun = time.perf_counter()
        process = subprocess.Popen(command, cwd=place, stdout=out, stderr=err, start_new_session=True)
        watched = Watched(process)
        limit = threading.Timer(patience, os.killpg, (process.pid, signal.SIGKILL))
        limit.start()
        process.wait()  # without a limit of its own: that would look for the end in steps
        seconds, processor = time.perf_counter() - begun, watched.finished()
        limit.cancel()
        if process.returncode == -signal.SIGKILL:
            print(f"{name}, {job}: stopped after {seconds:.0f} s, at {watched.peak:.1f} GB", flush=True)
            return None
        out.seek(0)
        err.seek(0)
        if process.returncode:
            said = err.read().strip().splitlines()[-1:] or [f"ended with {process.returncode}"]
            print(f"{name}, {job}: {said[0][:200]}", flush=True)
            return None
        told = json.loads(out.read().splitlines()[-1])
    return Run(name, seconds, processor, told["seconds"], watched.peak, told["answers"])


def make_keys(path: Path, rows: int) -> None:
    """A tenth as many keys as rows, each at least once, the rest by Zipf's law; a user to a hundred rows."""
    keys, users = rows // 10, rows // 100
    key = f"CASE WHEN range < {keys} THEN range ELSE floor(exp(random() * ln({keys})))::BIGINT - 1 END"
    duckdb.execute("SELECT setseed(0.3)")
    duckdb.execute(
        f"COPY (SELECT floor(random() * {users})::BIGINT AS user_id, 'key ' || ({key}) AS key "
        f"FROM range({rows}) ORDER BY random()) "
        f"TO '{path}' (FORMAT parquet)"
    )


def timed(runs: list[Run]) -> None:
    """Ratios over the first, which is ours."""
    ours = runs[0]
    print("| | time / ours | without imports | processors / ours | peak GB |\n|---|---|---|---|---|")
    for one in runs:
        ratios = (one.seconds / ours.seconds, one.work / ours.work, one.processor / ours.processor)
        print(f"| {one.name} | {' | '.join(f'{ratio:.2f}' for ratio in ratios)} | {one.memory:.2f} |")
    print(f"(ours: {ours.seconds:.1f} s, {ours.processor:.1f} s of processors)", flush=True)


def each(runs: list[Run]) -> None:
    """The time of one question of a session, over ours. Ours is asked a hundred, peers ten."""
    print("| | a question / ours | ms | ms of its process's processors | peak GB |\n|---|---|---|---|---|")
    for one in runs:
        (processor, wall), ours = one.answers, runs[0].answers[1]
        print(f"| {one.name} | {wall / ours:.1f} | {1000 * wall:.1f} | {1000 * processor:.1f} | {one.memory:.2f} |")


def _mean(differences: list[float]) -> float:
    return sum(differences) / max(len(differences), 1)


def _off(one: Run, cities: list[str], truth: dict[str, list[float]]) -> list[float]:
    """Mean absolute errors of count, total and mean; a city that is missing counts with its whole value, its mean as 50."""
    return [
        _mean([abs(one.answers.get(city, [0, 0, 50])[i] - truth.get(city, [0, 0, 50])[i]) for city in cities])
        for i in range(3)
    ]


def _row(one: Run, *errors: list[float]) -> str:
    cells = [cell for n, total, mean in errors for cell in (f"{n:,.0f}", f"{total:,.0f}", f"{mean:.3f}")]
    return f"| {one.name} | {' | '.join(cells)} |"


def errors(runs: list[Run], raw: Truth, bounded: list[Truth], within: Truth) -> None:
    """Two tables: around the raw truth, and around what there is within the bounds; everywhere the same cities for all.

    bounded: each user's largest cities kept, or any; a system is compared with the nearer one. within: the norm that was tuned.
    A city that a system did not find counts with its whole value, and its mean as 50, as a reader would have it.
    """
    top = sorted(raw, key=lambda city: -raw[city][0])[:TOP]
    common = [city for city in top if all(city in one.answers for one in runs)]
    print(
        f"raw truth, the {TOP} largest cities, missing ones counted whole; then the {len(common)} of them that all found"
    )
    print("| | n | total | mean | common: n | common: total | common: mean |\n|---|---|---|---|---|---|---|")
    for one in runs:
        print(_row(one, _off(one, top, raw), _off(one, common, raw)))
    print(f"bounded truth, all {len(raw)} cities; then those that all found; then those that each found itself")
    heads = " | ".join(f"{where}: {what}" for where in ("all", "common", "own") for what in ("n", "total", "mean"))
    print(f"| | cities | {heads} | impossible |")
    print("|---|---|---|---|---|---|---|---|---|---|---|---|")
    everywhere = [city for city in raw if all(city in one.answers for one in runs)]
    for one in runs:
        if "capped" in one.name:
            continue  # its bounds are its own
        found = [city for city in one.answers if city]
        truths = [within] if "tuned" in one.name else bounded
        rows = [tuple(_off(one, cities, truth) for cities in (list(raw), everywhere, found)) for truth in truths]
        name, *cells = _row(one, *min(rows)).strip("| ").split(" | ")
        odd = sum(not 0 <= one.answers[city][2] <= 100 or one.answers[city][0] < 0 for city in found)
        print(f"| {name} | {len(found)} | {' | '.join(cells)} | {odd} |", flush=True)


def found_keys(job: str, path: Path, asked: list[Who], patience: int, times: int) -> None:
    """Our expected number of groups, exactly, beside the mean of so many runs of each peer."""
    ours = run(OURS, f"expected {job}", path, patience)
    print(f"{job}: neartwin is expected to find {'?' if ours is None else f'{ours.answers:.2f}'}", flush=True)
    for who in asked:
        counts: list[int] = []
        while len(counts) < times and (one := run(who, job, path, patience)) is not None:
            counts.append(one.answers if job == "keys" else sum(bool(city) for city in one.answers))
        if counts:
            print(
                f"{who[0]}: mean {_mean(counts):.2f} of {len(counts)} runs, {min(counts)} to {max(counts)}", flush=True
            )


def visits(path: Path, jobs: list[str], asked: list[Who], patience: int) -> None:
    """The visits, with bounds fixed and tuned; the statement by hand has no noise, and keeps all cities."""
    raw = {city: [n, total, mean] for city, n, total, mean in duckdb.sql(RAW.format(path=path)).fetchall()}
    hand = run(OURS, "hand", path, patience, "by hand, not private")
    loaded = run(OURS, "hand, loaded", path, patience, "by hand, with the libraries loaded that ours stands on")
    random = run(OURS, "at random", path, patience)
    within = run(OURS, "within", path, patience) if "tuned" in jobs else hand
    runs = [run(OURS, job, path, patience, f"neartwin, {job}") for job in jobs]
    runs += [run(who, "visits", path, patience) for who in asked]
    found = [one for one in runs if one is not None]
    if hand is None or loaded is None or random is None or within is None or not found:
        return
    timed([*found, hand, loaded])
    for one in found:
        note = one.answers.get("", "") if isinstance(one.answers, dict) else ""
        if note.startswith("Tuned"):
            print(note)
    errors(found, raw, [hand.answers, random.answers], within.answers)


def others(job: str, path: Path, asked: list[Who], patience: int) -> None:
    """Time, and what the answers are off by."""
    runs = [run(who, job, path, patience) for who in (OURS, *asked)]
    found = [one for one in runs if one is not None]
    if not found:
        return
    if job == "counts":
        each(found)
        return
    timed(found)
    if job == "histogram":
        capped = f"SELECT category, count(*) FROM '{path}' GROUP BY category"
        truth = {str(category): n for category, n in duckdb.sql(capped).fetchall()}
        for one in found:
            print(
                f"{one.name}: off by {_mean([abs(one.answers.get(key, 0) - n) for key, n in truth.items()]):,.0f} rows a category"
            )
    elif job == "quantiles":
        (truth,) = duckdb.sql(f"SELECT quantile_cont(amount, [0.25, 0.5, 0.75]) FROM '{path}'").fetchall()[0]
        for one in found:
            print(
                f"{one.name}: off by {', '.join(f'{abs(a - b):.3f}' for a, b in zip(one.answers, truth, strict=True))}"
            )
    elif job == "keys":
        print("keys found: " + ", ".join(f"{one.name} {one.answers}" for one in found))


def main() -> None:
    compileall.compile_dir(Path(neartwin.__file__).parent, quiet=1)  # as pip did for the peers
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", type=Path, default=Path("peers"), help="the folder that peers.sh filled")
    parser.add_argument("--rows", type=float, default=10, help="millions")
    parser.add_argument("--jobs", nargs="+", choices=JOBS, default=list(JOBS))
    parser.add_argument("--only", nargs="+", choices=PEERS, default=list(PEERS))
    parser.add_argument("--of", nargs="+", choices=("visits", "keys"), default=["visits", "keys"], help="for found")
    parser.add_argument("--times", type=int, default=20, help="runs of a peer for the mean of what it finds")
    parser.add_argument("--patience", type=int, default=600, help="seconds for one run")
    asked = parser.parse_args()
    from bench_engines import make_visits

    there = [(name, str(asked.peers.absolute() / name / "bin" / "python")) for name in asked.only]
    for name, python in there:
        if not Path(python).exists():
            print(f"{name}: not installed in {asked.peers}; see bench/peers.sh")
    peers = [one for one in there if Path(one[1]).exists()]
    rows = int(asked.rows * 1_000_000)
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "visits.parquet"
        if set(asked.jobs) - {"keys", "found"} or ("found" in asked.jobs and "visits" in asked.of):
            make_visits(path, rows)
        if by_city := [job for job in ("visits", "tuned", "capped") if job in asked.jobs]:
            print(f"\n## visits, {rows:,} rows")
            visits(path, by_city, peers, asked.patience)
        for job in asked.jobs:
            if job in {"visits", "tuned", "capped"}:
                continue
            if job == "found":
                print(f"\n## groups found, {rows:,} rows")
                for of in asked.of:
                    if of == "keys":
                        make_keys(path.with_stem("keys"), rows)
                    found_keys(
                        of, path if of == "visits" else path.with_stem("keys"), peers, asked.patience, asked.times
                    )
                continue
            own, size = path.with_stem(job) if job in {"keys", "counts"} else path, rows
            if job == "keys":
                make_keys(own, rows)
            if job == "counts":
                size = 100_000
                make_visits(own, size)
            print(f"\n## {job}, {size:,} rows")
            others(job, own, peers, asked.patience)


if __name__ == "__main__":
    main()
