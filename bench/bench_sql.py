"""How many statements of a file are read as they are written, and why the others are refused. Nothing is released.

Of ClickBench, the files are `create.sql` and `queries.sql` of its folder for DuckDB. Whole numbers get public bounds.

    python bench/bench_sql.py create.sql queries.sql --table hits --unit UserID [--dialect duckdb]
"""

import argparse
import sys
import tempfile
from pathlib import Path

import duckdb

import neartwin as nt
from neartwin.errors import NeartwinError
from neartwin.queries.sql.parse import statement_of
from neartwin.queries.sql.spelling import trees


def main() -> None:
    """Print a line for each refused statement, and the number of those that are read."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("create", type=Path)
    parser.add_argument("queries", type=Path)
    parser.add_argument("--table", default="hits")
    parser.add_argument("--unit", default="UserID")
    parser.add_argument("--dialect", default="duckdb")
    asked = parser.parse_args()
    database = duckdb.connect()
    database.execute(asked.create.read_text(encoding="utf-8"))
    kinds = {name: str(kind) for name, kind, *_ in database.execute(f"DESCRIBE {asked.table}").fetchall()}
    bounded = {name: nt.bounds(0, 2**20) for name, kind in kinds.items() if "INT" in kind}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / f"{asked.table}.parquet"
        database.execute(f"COPY {asked.table} TO '{place}' (FORMAT parquet)")
        rows = nt.table(place, unit=asked.unit, columns=bounded)
        texts = trees(asked.queries.read_text(encoding="utf-8"), asked.dialect)
        read = 0
        for number, text in enumerate(texts, 1):
            try:
                statement_of(text, rows).question()
                read += 1
            except NeartwinError as refused:
                sys.stdout.write(f"{number:3} {str(refused)[:200]}\n")
    sys.stdout.write(f"{read} of {len(texts)} statements are read\n")


if __name__ == "__main__":
    main()
