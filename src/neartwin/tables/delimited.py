"""CSV in blocks: Arrow reads the lines in order, and Python's own reader each other record alone.

A line in order has a value for each column, and its quotes open after a separator and close before one. At the start of
a record such a line is a record, and all readers of CSV agree on it. Every other line starts a record of Python's, which
may go on over the next lines. After a fault reading goes on with the next line. So a quote that is never closed takes no
other line with it.
"""

import csv
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, TextIO

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

Row = tuple[int, list[Any] | None, str]  # its number; its values, or None and the fault
Block = tuple[Any, Sequence[Sequence[pa.Array]], list[Row]]  # numbers of rows, their columns of text, and other rows
_LETTERS = 2**22  # of a block, which a cache of the processor holds
_QUOTE, _LF, _CR, _SURROGATE = b'"\n\r\xed'


def blocks(text: TextIO, delimiter: str, wanted: int) -> Iterator[Block]:
    """Yield the records after the header. Empty lines are left out, and an empty text is NULL.

    Args:
        text: The text with its own line ends. Bytes of no character are surrogates.
        delimiter: The separator.
        wanted: The number of columns.

    Yields:
        The lines in order with their numbers, and all other records of a block.
    """
    content, passed = b"", 0
    while (more := text.read(_LETTERS)) or content:
        content += more.encode("utf-8", "surrogatepass")
        starts, blank, odd = _lines(content, delimiter, wanted, last=not more)
        runs, numbers, others = [b""], [np.zeros(0, np.int64)], list[Row]()
        line, end = 0, len(blank)
        while line < end:
            until = odd[np.searchsorted(odd, line)] if passed + line else line
            numbers.append(passed + line + 1 + np.flatnonzero(~blank[line:until]))
            runs.append(content[starts[line] : starts[until]])
            line = int(until)
            if until < end:
                taken, values, fault = _alone(content, starts[until:], delimiter, wanted)
                if more and not taken:  # it goes on in the next block
                    break
                if passed + line:  # no header
                    others.append((passed + line + 1, values, fault))
                line += taken or 1
        at = np.concatenate(numbers)
        yield at, _columns(b"\n".join(runs), delimiter, wanted) if at.size else [()] * wanted, others
        content, passed = content[starts[line] :], passed + line


def _lines(content: bytes, delimiter: str, wanted: int, *, last: bool) -> tuple[Any, Any, Any]:
    """The byte of each line's start and of the end, whether it is empty, and the lines that are not in order."""
    letters = np.frombuffer(content, np.uint8)
    at_end, returns = letters == _LF, np.flatnonzero(letters == _CR)
    alone = (letters.take(returns + 1, mode="clip") != _LF) & (last | (returns + 1 < len(letters)))  # no \r\n so far
    at_end[returns[alone]] = True
    at_end[-1] |= last
    starts = np.append(0, np.flatnonzero(at_end) + 1)
    blank = np.isin(letters.take(starts[:-1]), (_LF, _CR))
    quotes, separators = np.flatnonzero(letters == _QUOTE), np.flatnonzero(letters == ord(delimiter))
    before, surrogates = np.searchsorted(quotes, starts), np.flatnonzero(letters == _SURROGATE)
    of_quotes, of_surrogates = (np.searchsorted(starts, places, side="right") - 1 for places in (quotes, surrogates))
    if quotes.size:
        of_separators = np.searchsorted(starts, separators, side="right") - 1
        separators = separators[(np.searchsorted(quotes, separators) - before[of_separators]) % 2 == 0]
    odd = np.append(np.diff(np.searchsorted(separators, starts)) != wanted - 1, False)
    odd[:-1] = odd[:-1] & ~blank if wanted > 1 else odd[:-1] | blank
    odd[:-1] |= np.diff(before) % 2 == 1
    opening = (np.arange(len(quotes)) - before[of_quotes]) % 2 == 0
    beside = np.isin(range(256), (ord(delimiter), _LF, _CR, _QUOTE))
    odd[of_quotes[~beside[letters.take(np.where(opening, quotes - 1, quotes + 1), mode="clip")]]] = True
    odd[of_surrogates[letters.take(surrogates + 1, mode="clip") >= 0xA0]] = True
    return starts, blank, np.append(np.flatnonzero(odd[:-1]), len(blank))


def _alone(content: bytes, starts: Any, delimiter: str, wanted: int) -> tuple[int, list[Any] | None, str]:
    """The first record: its number of lines, or 0 for one that does not end here; its values, or None and the fault."""
    lines = (content[a:b].decode("utf-8", "surrogatepass") for a, b in pairwise(starts))
    reader = csv.reader(lines, strict=True, delimiter=delimiter)
    try:
        row = next(reader) or [""]
    except csv.Error as error:
        return int("unexpected end" not in str(error)), None, f"cannot be read: {error}"
    if len(row) == wanted + 1 and not row[-1]:
        row.pop()
    if len(row) != wanted:
        return reader.line_num, None, f"has {len(row)} values, and the header {wanted}"
    return reader.line_num, [value or None for value in row], ""


def _columns(content: bytes, delimiter: str, wanted: int) -> list[Sequence[pa.Array]]:
    """Columns of lines in order. An empty line goes before, since Arrow takes a byte order mark from the first bytes away."""
    names = list(map(str, range(wanted)))
    table = pa_csv.read_csv(
        pa.BufferReader(content),
        pa_csv.ReadOptions(column_names=names, block_size=len(content) + 1),
        pa_csv.ParseOptions(delimiter=delimiter, newlines_in_values=b'"' in content),
        pa_csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()), null_values=[""], strings_can_be_null=True
        ),
    )
    return [column.chunks for column in table.columns]
