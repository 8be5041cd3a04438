"""CSV in blocks: Arrow reads the records in order, and Python's own reader each other line alone.

A record is in order if its quotes open after a separator and close before one, and if it has a value for each column.
All readers of CSV agree on such a record. The parity of the quotes before its start decides where it ends. So a block's
quotes, separators and line ends are found at once for both parities, and the walk below chooses.

After a fault, reading goes on with the next line. So a quote that is never closed takes no other line with it.
"""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TextIO

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

Row = tuple[int, list[Any] | None, str]  # its number; its values, or None and the fault
Block = tuple[Any, Sequence[Sequence[pa.Array]], list[Row]]  # numbers of rows, their columns of text, and other rows
_LETTERS = 2**24  # of a block
_LONGEST = 2**20  # bytes of a record without an end that is read on in the next block
_QUOTE, _LF, _CR, _SURROGATE = b'"\n\r\xed'


def blocks(text: TextIO, delimiter: str, wanted: int) -> Iterator[Block]:
    """Yield the records after the header. Empty lines are left out, and an empty text is NULL.

    Args:
        text: The text with its own line ends. Bytes of no character are surrogates.
        delimiter: The separator.
        wanted: The number of columns.

    Yields:
        The records in order with the numbers of their lines, and all others of a block.
    """
    rest, passed = b"", 0
    while more := text.read(_LETTERS):
        block = _Block(rest + more.encode("utf-8", "surrogatepass"), delimiter, wanted, last=False)
        found, used, lines = block.read(passed)
        rest, passed = block.content[used:], passed + lines
        yield found
    if rest:
        yield _Block(rest, delimiter, wanted, last=True).read(passed)[0]


@dataclass(frozen=True, slots=True)
class _Records:
    """Records that start after an even, or after an odd, number of quotes.

    Attributes:
        ends: The byte after each.
        lines: The number of lines up to there.
        odd: The places of those that are not in order.
        blank: Whether each is an empty line.
    """

    ends: Any
    lines: Any
    odd: Any
    blank: Any


class _Block:
    def __init__(self, content: bytes, delimiter: str, wanted: int, *, last: bool) -> None:
        self.content, self.delimiter, self.wanted, self.last = content, delimiter, wanted, last
        letters = np.frombuffer(content, np.uint8)
        at_end, returns = letters == _LF, np.flatnonzero(letters == _CR)
        alone = (letters.take(returns + 1, mode="clip") != _LF) & (
            last | (returns + 1 < len(letters))
        )  # no \r\n so far
        at_end[returns[alone]] = True
        at_end[-1] |= last
        self.ends = np.flatnonzero(at_end) + 1
        quotes, separators = np.flatnonzero(letters == _QUOTE), np.flatnonzero(letters == ord(delimiter))
        self.parity, inside = (np.searchsorted(quotes, places) % 2 for places in (self.ends, separators))
        self.records = [
            self._records(letters, np.flatnonzero(self.parity == start), quotes, start, separators[inside == start])
            for start in (0, 1)
        ]

    def _records(self, letters: Any, chosen: Any, quotes: Any, start: int, separators: Any) -> _Records:
        """The records that end with the chosen lines, and whose quotes open at every second from the start."""
        ends = self.ends[chosen]
        first = letters.take(np.append(0, ends[:-1])[: len(ends)])
        blank = (first == _LF) | (first == _CR)
        odd = np.diff(np.searchsorted(separators, ends), prepend=0) != self.wanted - 1
        odd = odd & ~blank if self.wanted > 1 else odd | blank
        beside = np.isin(range(256), (ord(self.delimiter), _LF, _CR, _QUOTE))
        opening, closing, surrogates = quotes[start::2], quotes[1 - start :: 2], np.flatnonzero(letters == _SURROGATE)
        for places, wrong in (
            (opening, ~beside[letters.take(opening - 1, mode="clip")]),
            (closing, ~beside[letters.take(closing + 1, mode="clip")]),
            (surrogates, letters.take(surrogates + 1, mode="clip") >= 0xA0),
        ):
            held = np.searchsorted(ends, places[wrong], side="right")
            odd[held[held < len(ends)]] = True
        return _Records(ends, chosen + 1, np.flatnonzero(odd), blank)

    def read(self, passed: int) -> tuple[Block, int, int]:
        """The records, the bytes that were read, and their lines. What is not read goes before the next block."""
        runs, numbers, others = [b""], [np.zeros(0, np.int64)], list[Row]()
        place = line = 0
        while place < len(self.content):
            records = self.records[self.parity[line - 1] if line else 0]
            first = int(np.searchsorted(records.ends, place, side="right"))
            odd = np.append(records.odd, len(records.ends))
            until = int(odd[np.searchsorted(odd, first)]) if passed + line else first
            if until > first:
                at = np.append(line, records.lines[first : until - 1])[~records.blank[first:until]]
                numbers.append(passed + 1 + at)
                runs.append(self.content[place : records.ends[until - 1]])
                place, line = int(records.ends[until - 1]), int(records.lines[until - 1])
            elif until == len(records.ends) and not self.last and len(self.content) - place < _LONGEST:
                break
            else:
                try:
                    values, fault, lines = self._alone(line)
                except EOFError:
                    break
                if passed + line:  # no header
                    others.append((passed + line + 1, None if fault else values, fault))
                line += lines
                place = int(self.ends[line - 1])
        at = np.concatenate(numbers)
        columns = self._columns(b"\n".join(runs)) if at.size else [()] * self.wanted
        return (at, columns, others), place, line

    def _alone(self, line: int) -> tuple[list[str | None], str, int]:
        """The record that starts with a line, by Python's reader: its values or its fault, and its number of lines."""
        taken = 0

        def lines() -> Iterator[str]:
            nonlocal taken
            for at in range(line, len(self.ends)):
                taken += 1
                yield self.content[self.ends[at - 1] if at else 0 : self.ends[at]].decode("utf-8", "surrogatepass")
            if not self.last:
                raise EOFError

        try:
            row = next(csv.reader(lines(), strict=True, delimiter=self.delimiter)) or [""]
        except csv.Error as error:
            return [], f"cannot be read: {error}", 1
        if len(row) == self.wanted + 1 and not row[-1]:
            row.pop()
        fault = "" if len(row) == self.wanted else f"has {len(row)} values, and the header {self.wanted}"
        return [value or None for value in row], fault, taken

    def _columns(self, content: bytes) -> list[Sequence[pa.Array]]:
        """Columns of records that follow an empty line, since Arrow takes a byte order mark from the first bytes away."""
        names = list(map(str, range(self.wanted)))
        kinds = dict.fromkeys(names, pa.string())
        table = pa_csv.read_csv(
            pa.BufferReader(content),
            pa_csv.ReadOptions(column_names=names, block_size=len(content) + 1),
            pa_csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=b'"' in content),
            pa_csv.ConvertOptions(column_types=kinds, null_values=[""], strings_can_be_null=True),
        )
        return [column.chunks for column in table.columns]
