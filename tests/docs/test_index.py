"""The first page leads to every page that says how to do something, one line each."""

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def missing(text):
    """The how-to pages to which no item of a text leads."""
    items = re.findall(r"(?m)^- \[[^\]]+\]\((how-to/[^)#]+)\): \S.*\.$", text)
    return {page.relative_to(DOCS).as_posix() for page in (DOCS / "how-to").glob("*.md")} ^ set(items)


def test_first_page_lists_every_how_to_and_nothing_else():
    text = (DOCS / "index.md").read_text(encoding="utf-8")
    assert missing(text) == set()
    assert missing(text.replace("(how-to/switch.md)", "(planning.md)")) == {"how-to/switch.md"}
    assert missing(text.replace("(how-to/switch.md)", "(how-to/gone.md)")) == {"how-to/switch.md", "how-to/gone.md"}
