"""The pages as pictures for the docs: `python -m tests.web.pictures` draws them anew, with the browser of tests/web/browser.py.

An outline of each page stands beside its pictures, and so does the digest of the stylesheet. A test compares both with the
pages as they are, so that no picture outlives its page.
"""

import hashlib
import json
import re
import sys
import tempfile
from contextlib import contextmanager
from html.parser import HTMLParser
from io import BytesIO
from pathlib import Path

import duckdb
from starlette.testclient import TestClient

import neartwin as nt
from neartwin.accounting.budgets import approx
from neartwin.tables.table import bounds
from neartwin.web.app import create_app
from neartwin.web.data_directory import DataDirectory
from neartwin.web.datasets import Dataset, Rule
from neartwin.web.service import Settings
from tests.web.conftest import bearer, released, sign_in
from tests.web.server import without_processes

PICTURES = Path(__file__).parents[2] / "docs/screens"
OUTLINES = PICTURES / "outlines.json"
STYLE = Path(nt.__file__).parent / "web/static/neartwin.css"
WIDTHS, SCHEMES = (1280, 390), ("light", "dark")
NAMES = {
    "ask": "analyst",
    "answer": "analyst",
    "dataset": "analyst",
    "requests": "curator",
}  # each page, and who sees it
_SAYS = {"h1", "h2", "h3", "button", "label", "summary", "legend", "th"}  # whose words are part of an outline
_MARKS = _SAYS | {"figure", "meter", "input", "select", "textarea", "table", "section"}
ASK = {
    "question": {
        "group_by": ["branch"],
        "keys": "declared",
        "statistics": {"readers": {"ask": "count_distinct_units"}, "days": {"ask": "mean", "column": "days"}},
    },
    "spend": {"epsilon": "0.5"},
    "limits": {"max_rows_per_group": 3, "max_groups": 2, "loss_share": 0},
}


def name_of(page, width, scheme):
    return f"{page}-{width}-{scheme}.png"


@contextmanager
def scene(folder):
    """A library's loans, an answer that ada paid for, and her request for more: the client, tokens and addresses of pages."""
    loans = folder / "loans.parquet"
    duckdb.sql(
        "SELECT i % 6000 AS reader, list_element(['Centre', 'Harbour', 'North', 'West'], 1 + least(3, i % 7)) AS branch, "
        "3 + (i * 37 % 25) + 4 * least(3, i % 7) AS days FROM range(24000) t(i)"
    ).write_parquet(str(loans))
    with DataDirectory(folder / "house") as directory, without_processes():
        dataset = Dataset(
            name="loans",
            place=str(loans),
            unit="reader",
            bounds={"days": bounds(0, 60)},
            keys={"branch": ("Centre", "Harbour", "North", "West")},
            budget=approx(4, "1e-5"),
            about="Books that readers of the town's libraries borrowed.",
            policy=(Rule(allotment=approx(2, "1e-6")),),
        )
        directory.register(dataset, by="console")
        people = {"curator": "carol", "analyst": "ada"}
        tokens = {role: directory.mint(name, role, by="console")[1] for role, name in people.items()}
        ada = bearer(tokens["analyst"])
        app = create_app(directory, Settings(workers=1, burst=10_000, per_second=10_000, plan_seconds=300))
        with TestClient(app) as client:
            position = released(client, ASK, ada, name="loans")["position"]
            more = {"target": {"epsilon": "2.5", "delta": "1e-6"}, "reason": "the yearly report, by month"}
            client.post("/v1/datasets/loans/requests", json=more, headers=ada)
            places = {"ask": "/ask", "answer": f"/releases/{position}", "dataset": "", "requests": "/budget"}
            yield client, tokens, {page: f"/data/loans{place}" for page, place in places.items()}


class _Outline(HTMLParser):
    def __init__(self):
        super().__init__()
        self.parts, self._inside = [], []

    def handle_starttag(self, tag, attrs):
        if tag in _MARKS:
            self.parts.append(f"{tag}.{dict(attrs).get('class') or ''}")
        if tag in _SAYS:
            self._inside.append(tag)

    def handle_endtag(self, tag):
        if self._inside and tag == self._inside[-1]:
            self._inside.pop()

    def handle_data(self, data):
        if self._inside and (words := re.sub(r"[\d.,e-]*\d", "0", " ".join(data.split()))):
            self.parts.append(words)


def outline(html):
    """The page's headings, fields, tables and buttons, without numbers."""
    reader = _Outline()
    reader.feed(html)
    return reader.parts


def outlines(client, tokens, places):
    found = {"style": hashlib.sha256(STYLE.read_bytes()).hexdigest()}
    for page, role in NAMES.items():
        client.cookies.clear()
        sign_in(client, tokens[role])
        found[page] = outline(client.get(places[page]).text)
    return found


def size(picture):
    """Width and height of a PNG."""
    head = picture.read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    return int.from_bytes(head[16:20], "big"), int.from_bytes(head[20:24], "big")


def draw(folder, client, tokens, places):
    """Draw every page in each width and scheme into a folder."""
    from PIL import Image  # which matplotlib brings

    from tests.web.browser import chromium, person
    from tests.web.browser import sign_in as enter
    from tests.web.server import serving

    with serving(client.app.state.service.directory) as address, chromium() as browser:
        for width in WIDTHS:
            for scheme in SCHEMES:
                for role in ("analyst", "curator"):
                    with person(browser, address, width=width, scheme=scheme) as page:
                        enter(page, tokens[role])
                        for name in (name for name, who in NAMES.items() if who == role):
                            page.goto(places[name])
                            page.wait_for_load_state("networkidle")
                            drawn = page.screenshot(full_page=True)
                            Image.open(BytesIO(drawn)).quantize(96).save(
                                folder / name_of(name, width, scheme), optimize=True
                            )


def main():
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, scene(Path(folder)) as (client, tokens, places):
        draw(PICTURES, client, tokens, places)
        OUTLINES.write_text(json.dumps(outlines(client, tokens, places), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
