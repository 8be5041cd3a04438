"""No block of any page escapes the checks: every fence has a language that is run or read, and running can fail."""

import re
import shlex
from doctest import Example
from pathlib import Path
from types import SimpleNamespace

import click
import pytest
from sybil.region import Lexeme

from neartwin.cli import main
from tests.docs import snippets
from tests.docs.test_reference import REFERENCE

ROOT = Path(__file__).parents[2]
PAGES = sorted(path.relative_to(ROOT) for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
WRITTEN = {Path("docs/reference") / name for name in REFERENCE.pages()}  # from the code, compared with it whole
BUILT = Path("docs/reference/api")  # at each build, never kept


def text_of(page):
    return (ROOT / page).read_text(encoding="utf-8")


def fences(text):
    """The language of every fenced block, whichever fence it has."""
    found, open_with = [], ""
    for line in text.splitlines():
        fence = re.match(r"\s*(`{3,}|~{3,})\s*(.*)$", line)
        if fence and not open_with:
            open_with = fence[1]
            found.append(fence[2].strip())
        elif fence and fence[1].startswith(open_with) and not fence[2]:
            open_with = ""
    assert not open_with, "a fence is not closed"
    return found


@pytest.mark.parametrize("page", [page for page in PAGES if BUILT not in page.parents], ids=str)
def test_every_block_of_a_page_is_run_or_read(page):
    allowed = snippets.LANGUAGES | ({"text"} if page in WRITTEN else set())
    assert set(fences(text_of(page))) <= allowed
    assert "~~~" not in text_of(page)  # which the collector does not see
    assert not re.search(r"<!-+\s*skip", text_of(page))


def test_a_page_with_an_unknown_fence_would_be_seen():
    assert fences("```text\nx\n```\n\n```\ny\n```\n") == ["text", ""]
    assert not set(fences("```rust\nx\n```")) <= snippets.LANGUAGES
    assert len(PAGES) > 50


@pytest.mark.parametrize("page", [page for page in PAGES if BUILT not in page.parents], ids=str)
def test_a_command_in_a_sentence_is_one_that_exists(page):
    for found in re.findall(
        r"`neartwin ([a-z-]+(?: [^`]+)?)`", re.sub(r"```.*?```", "", text_of(page), flags=re.DOTALL)
    ):
        words = shlex.split(found.replace("\n", " ").replace("...", ""))
        command, at = main, 0
        while isinstance(command, click.Group) and at < len(words) and not words[at].startswith("--"):
            command, at = command.get_command(click.Context(command), words[at]), at + 1
            assert command is not None, found
        options = {option for one in command.params for option in one.opts}
        assert {word.partition("=")[0] for word in words[at:] if word.startswith("--")} <= options, found


@pytest.fixture
def here(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    return {}


def block(text, namespace):
    return SimpleNamespace(parsed=Lexeme(text, 0, 0), namespace=namespace)


WRONG = {
    "a command that is refused": (snippets.shell, "neartwin ledger show missing.db"),
    "an option that is not there": (snippets.shell, "neartwin account --sigma 3"),
    "a tool that no page may use": (snippets.shell, "rm -rf house"),
    "an extra that is not declared": (snippets.shell, "pip install 'neartwin[everything]'"),
    "a target that is not there": (snippets.shell, "make coffee"),
    "a quotation without end": (snippets.shell, "neartwin account 'laplace(epsilon=1)"),
    "another output": (snippets.console, '$ neartwin account "gaussian(mu=1)" --delta 1e-6\n4.5'),
    "a question that is none": (snippets.json_text, '{"question": {"statistic": {}}, "spend": {"epsilon": "1"}}'),
    "no JSON": (snippets.json_text, "{'a': 1}"),
    "a rule that is none": (snippets.toml_text, '[[rules]]\nwhom = "*"'),
    "no TOML": (snippets.toml_text, "rules = ["),
    "no question in SQL": (snippets.sql_text, "SELECT * FROM visits"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_block_fails(case, here):
    evaluate, text = WRONG[case]
    with pytest.raises(Exception, match=r".") as caught:
        evaluate(block(text, here))
    assert not isinstance(caught.value, AttributeError | NameError)


def session(line, output):
    """What is wrong with a line of a session; nothing where it prints that."""
    return snippets.Session()(SimpleNamespace(parsed=Example(line, output), namespace={}, path="page"))


@pytest.mark.parametrize("output", ["0.6667\n", "0.66666666\n", "2 / 3\n", ""])
def test_a_session_that_prints_something_else_fails(output):
    assert not session("2 / 3\n", "0.66666667\n")
    assert session("2 / 3\n", output)
    assert not session("(8.000000000000004, 1e-7)\n", "(8.0, 1e-07)\n")
    assert session("1 / 0\n", output)


def test_right_blocks_pass_and_tell_values(here):
    snippets.console(
        block(
            '$ neartwin account "gaussian(mu=1)" --delta 1e-6\nfrom to method\nepsilon at delta = 1e-6 4.8... closed form\n...',
            here,
        )
    )
    snippets.shell(block("neartwin account \\\n  'laplace(epsilon=1)' --json > told.json", here))
    assert Path("told.json").read_text(encoding="utf-8").startswith("{")
    snippets.json_text(block('{"question": {"statistics": {"n": {"ask": "count"}}}, "spend": {"epsilon": "1"}}', here))
    snippets.toml_text(block('[[rules]]\nwho = "*"', here))
