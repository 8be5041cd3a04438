"""A plan as a tree of words, in which every number has its reason."""

from dataclasses import dataclass

from neartwin.interactive import shown_as_text


@shown_as_text
@dataclass(frozen=True, slots=True)
class Explained:
    """A node: one line, and the nodes under it. `str` draws the tree."""

    line: str
    under: tuple["Explained", ...] = ()

    def __str__(self) -> str:
        return "\n".join(self._drawn("", ""))

    def _drawn(self, first: str, rest: str) -> list[str]:
        lines = [first + self.line]
        for place, node in enumerate(self.under):
            last = place == len(self.under) - 1
            lines += node._drawn(rest + ("└─ " if last else "├─ "), rest + ("   " if last else "│  "))  # noqa: SLF001
        return lines


def nodes(*lines: str) -> tuple[Explained, ...]:
    """One node a line, with nothing under it."""
    return tuple(map(Explained, lines))
