"""The docs' pictures show the pages as they are."""

import json
from pathlib import Path

import pytest

from tests.web.pictures import NAMES, OUTLINES, PICTURES, SCHEMES, WIDTHS, draw, name_of, outline, outlines, scene, size

ALL = [name_of(page, width, scheme) for page in NAMES for width in WIDTHS for scheme in SCHEMES]
PAGE = Path(PICTURES.parent / "pages.md")


@pytest.mark.slow
def test_pictures_show_the_pages_as_they_are(tmp_path):
    with scene(tmp_path) as (client, tokens, places):
        found = outlines(client, tokens, places)
    kept = json.loads(OUTLINES.read_text(encoding="utf-8"))
    changed = [name for name in found if found[name] != kept[name]]
    assert not changed, f"draw the pictures anew: python -m tests.web.pictures ({', '.join(changed)})"


def test_an_outline_sees_a_changed_page_and_no_changed_number():
    page = '<h2>Cost</h2><label>amount <input value="0.1"></label><p>You have 1.5 left.</p><button>Pay 0.1</button>'
    assert outline(page.replace("0.1", "1e-06").replace("1.5", "2")) == outline(page)
    for old, new in (("Cost", "Price"), ("Pay", "Release"), ("<input", "<textarea"), ("<h2>", '<h2 class="soft">')):
        assert outline(page.replace(old, new)) != outline(page)


def test_every_picture_stands_in_the_docs_in_its_width():
    text = PAGE.read_text(encoding="utf-8")
    assert sorted(path.name for path in PICTURES.glob("*.png")) == sorted(ALL)
    for name in ALL:
        assert f"screens/{name}" in text, name
        assert size(PICTURES / name)[0] == int(name.split("-")[1])


@pytest.mark.slow
def test_pictures_have_the_size_of_the_drawn_pages(tmp_path):
    with scene(tmp_path) as (client, tokens, places):
        draw(tmp_path, client, tokens, places)
    for name in ALL:
        (width, height), (kept_width, kept_height) = size(tmp_path / name), size(PICTURES / name)
        assert width == kept_width
        assert abs(height - kept_height) <= 0.15 * height, name  # fonts differ between machines
