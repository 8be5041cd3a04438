"""The pages in Chinese say what the English ones say: the same code, names, headings, tables and links, both ways."""

import io
import os
import re
import tokenize
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
TRANSLATED = sorted([*(DOCS / "tutorial").glob("*.md"), DOCS / "from-the-texts.md"])
BLOCK = re.compile(r"(?ms)^```(\w+)\n(.*?)^```$")
CHINESE = re.compile(r"[\u4e00-\u9fff]")
FAULTS = {
    "blocks": "has other code",
    "headings": "has other headings",
    "tables": "has tables of other sizes",
    "items": "has lists of other lengths",
    "links": "leads to other pages",
    "names": "names other things in its sentences",
}


def chinese(page):
    return DOCS / "zh" / page.relative_to(DOCS)


def code(language, text):
    """A block as its program: comments may be in the page's own language."""
    if language != "python" or text.startswith(">>>"):
        return text
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    layout = {tokenize.COMMENT, tokenize.NL}
    return [token.string for token in tokens if token.type not in layout]


def parts(page, text):
    """What a page and its translation have in common."""
    prose = BLOCK.sub("", text)
    places = (target.partition("#") for target in re.findall(r"\]\(([^)]+)\)", prose))
    reached = [(Path(os.path.normpath(page.parent / path)), place) for path, _, place in places]
    return {
        "blocks": [(language, code(language, block)) for language, block in BLOCK.findall(text)],
        "headings": re.findall(r"(?m)^#+(?= )", prose),
        "tables": [line.count("|") for line in prose.splitlines() if line.startswith("|")],
        "items": re.findall(r"(?m)^- ", prose),
        "names": sorted(set(re.findall(r"`([^`\n]+)`", prose))),
        "links": sorted((DOCS / path.relative_to(DOCS / "zh") if DOCS / "zh" in path.parents else path, place)
                        for path, place in reached),
    }  # fmt: skip


def differences(page, text):
    """How a translation of the page differs from it."""
    ours, theirs = parts(page, page.read_text(encoding="utf-8")), parts(chinese(page), text)
    return {FAULTS[part] for part, value in ours.items() if theirs[part] != value}


@pytest.mark.parametrize("page", TRANSLATED, ids=lambda page: page.name)
def test_chinese_page_has_the_code_headings_and_tables_of_the_english_one(page):
    text = chinese(page).read_text(encoding="utf-8")
    assert differences(page, text) == set()
    prose = re.sub(r"`[^`]*`", "", BLOCK.sub("", text))
    paragraphs = [part for part in prose.split("\n\n") if re.search(r"\w", part)]
    assert all(CHINESE.search(part) or "[English]" in part for part in paragraphs)


@pytest.mark.parametrize("page", TRANSLATED, ids=lambda page: page.name)
def test_the_two_pages_lead_to_each_other(page):
    for one, other, label in ((page, chinese(page), "中文"), (chinese(page), page, "English")):
        (link,) = re.findall(rf"\[{label}\]\(([^)]+)\)", one.read_text(encoding="utf-8"))
        assert (one.parent / link).resolve() == other.resolve()


def test_no_page_in_chinese_is_without_its_english_one():
    assert sorted((DOCS / "zh").rglob("*.md")) == sorted(map(chinese, TRANSLATED))


def test_the_texts_have_the_same_functions_and_tests_in_both_languages():
    page = DOCS / "from-the-texts.md"
    ours, theirs = (re.findall(r"(?m)^(\| `[^`]+` \|).*?((?: \| `[^|]*){2}\|)$", one.read_text(encoding="utf-8"))
                    for one in (page, chinese(page)))  # fmt: skip
    assert len(ours) > 100
    assert ours == theirs


NEAR_MISSES = {
    "another number": ("first-release.md", 'epsilon="0.5"', 'epsilon="0.6"', "has other code"),
    "a line of code left out": ("first-release.md", "print(release.guarantee.describe())\n", "", "has other code"),
    "another command": ("serving.md", "neartwin token ada", "neartwin token eve", "has other code"),
    "another line of a session": ("from-the-texts.md", "laplace_tail(2).upper, ", "", "has other code"),
    "a section left out": ("budgets.md", "## 拒绝\n", "", "has other headings"),
    "a row left out": ("budgets.md", "| `nt.gdp", "`nt.gdp", "has tables of other sizes"),
    "an item left out": ("heavy-users.md", "\n- ", "\n", "has lists of other lengths"),
    "another name": ("heavy-users.md", "- `", "- `nt.", "names other things in its sentences"),
    "another link": ("budgets.md", "../../ledger.md", "../../service.md", "leads to other pages"),
}


@pytest.mark.parametrize("case", NEAR_MISSES)
def test_a_translation_that_drifts_would_be_seen(case):
    name, old, new, fault = NEAR_MISSES[case]
    (page,) = (page for page in TRANSLATED if page.name == name)
    text = chinese(page).read_text(encoding="utf-8")
    assert old in text
    assert differences(page, text.replace(old, new, 1)) == {fault}


def test_a_comment_may_be_translated_and_nothing_else():
    assert code("python", "f(1)  # free\n") == code("python", "f(1)  # 免费\n")
    assert code("python", "f('# free')\n") != code("python", "f('# 免费')\n")
    assert code("python", "if f():\n    g()\n    h()\n") != code("python", "if f():\n    g()\nh()\n")
