"""A process killed between reserve and settle loses its budget and serves nothing; the next one finds that on disk."""

import os
import signal
import subprocess
import sys
from fractions import Fraction

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import neartwin as nt

SCRIPT = """
import os, sys, time
import neartwin as nt

class Hanging:
    def aggregate(self, stage, *, salt):
        print("reading", flush=True)
        time.sleep(60)

rows = nt.table(sys.argv[1], unit="who")
with nt.open_ledger(sys.argv[2]) as book:
    account = book.open(rows, nt.pure(1))
    made = account.plan(rows.agg(people=nt.count_distinct_units()), spend=nt.pure("0.25"))
    print("asking", flush=True)
    account.release(made, engine=Hanging()) if sys.argv[3] == "killed" else account.release(made)
    print("released", flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("end", "spent"), [("killed", Fraction(1, 4)), ("finished", Fraction(1, 4))])
def test_a_kill_between_reserve_and_settle_loses_budget_never_privacy(tmp_path, end, spent):
    path, ledger = tmp_path / "visits.parquet", tmp_path / "budget.db"
    pq.write_table(pa.table({"who": list(range(100))}), path)
    command = [sys.executable, "-c", SCRIPT, str(path), str(ledger), end]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ) as child:
        assert child.stdout.readline() == "asking\n"
        if end == "killed":
            assert child.stdout.readline() == "reading\n"
            child.send_signal(signal.SIGKILL)
        else:
            assert child.stdout.readline() == "released\n"
    rows = nt.table(path, unit="who")
    with nt.open_ledger(ledger) as book:
        account = book.open(rows, nt.pure(1))
        assert account.spent == {"epsilon": spent}
        account.release(account.plan(rows.agg(people=nt.count_distinct_units()), spend=nt.pure("0.25")))
        # after a kill there is no stored answer, so the same question is paid again; after a finish it is free
        assert account.spent == {"epsilon": spent * 2 if end == "killed" else spent}


@pytest.mark.slow
def test_two_processes_cannot_both_have_the_last_of_a_budget(tmp_path):
    path, ledger = tmp_path / "visits.parquet", tmp_path / "budget.db"
    pq.write_table(pa.table({"who": list(range(100))}), path)
    rows = nt.table(path, unit="who")
    with nt.open_ledger(ledger) as book:
        account = book.open(rows, nt.pure(1))
        account.release(account.plan(rows.where("who > 1").agg(people=nt.count_distinct_units()), spend=nt.pure("0.5")))
        script = SCRIPT.replace('spend=nt.pure("0.25")', 'spend=nt.pure("0.3")').replace(
            "rows.agg", "rows.where(f'who > {os.getpid()}').agg"
        )
        command = [sys.executable, "-c", script, str(path), str(ledger), "finished"]
        racers = [
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) for _ in range(2)
        ]
        outputs = [racer.communicate()[0] for racer in racers]
        assert sum("released" in output for output in outputs) == 1
        assert account.spent == {"epsilon": Fraction(4, 5)}
