"""How many groups DuckDB may hold in arrays instead of hash tables, for one question: its setting perfect_ht_threshold.

Where what is grouped by are whole numbers without great gaps, as a file's statistics say, DuckDB can give each a slot of an
array: a fifth of a hash table's time where rows are many. But each thread fills an array of its own before it has seen a row, all
are put together slot by slot, and no memory limit holds for them: with few rows or many threads that takes longer than all else.
So the arrays of all threads together are held to a fourth of the files' size and to 64 MiB, and files below 4 MiB, which are read
in no time, have none.

The answer is the same in arrays or in hash tables.
"""

from collections.abc import Iterable
from typing import Any

from neartwin.queries.source import DuckdbConnection, DuckdbQuery, ParquetFiles, Source
from neartwin.queries.stage import Stage

LEAST, MOST = 12, 18  # bits; the least is DuckDB's own
_MOST_BYTES = 2**26
_OF_FILES, _LEAST_FILES = 4, 2**22  # bytes of files for one of arrays, and at all
_NUMBERS, _TOTALS = 24, 32  # bytes of a slot: numbers of rows, and number and total of a column


def allow_slots(connection: Any, stage: Stage, sources: Iterable[Source]) -> None:
    """Sets it for one connection of our own without a memory limit; an owner's is left as it is."""
    room = room_for(sources)
    if slot_bits(stage, room, threads=1) == LEAST:
        return
    ((threads,),) = connection.execute("SELECT current_setting('threads')").fetchall()
    connection.execute(f"SET perfect_ht_threshold = {slot_bits(stage, room, threads=threads)}")


def room_for(sources: Iterable[Source]) -> int:
    """Bytes for the arrays of all threads: only of Parquet files are there statistics that make arrays of units."""
    files = 0
    for source in sources:
        if isinstance(source, DuckdbConnection | DuckdbQuery):
            return 0
        if isinstance(source, ParquetFiles):
            files += source.size()
    return 0 if files < _LEAST_FILES else min(_MOST_BYTES, files // _OF_FILES)


def slot_bits(stage: Stage, room: int, *, threads: int) -> int:
    """The bits that whole numbers may have, all that are grouped by together: at least 12, at most 18.

    room: bytes; threads: at least 1.
    """
    totals = 0 if stage.split is not None else len(stage.grid) + len(stage.moments)
    slot = _NUMBERS + _TOTALS * totals
    return max(LEAST, min(MOST, (room // (threads * slot)).bit_length() - 1))
