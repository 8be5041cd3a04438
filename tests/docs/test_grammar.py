"""The page of SQL is written from the code, and has every statistic and every operation on rows."""

import importlib.util
from pathlib import Path

import pytest
import sqlglot
from sqlglot import exp

from neartwin.tables import expressions

ROOT = Path(__file__).parent.parent.parent
SPEC = importlib.util.spec_from_file_location("grammar", ROOT / "tools" / "grammar.py")
GRAMMAR = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(GRAMMAR)
MEANINGS = {
    "same question": GRAMMAR.SAME,
    "free": GRAMMAR.FREE,
    "paid": {name: (text,) for name, text in GRAMMAR.PAID.items()}
    | {name: (f"{GRAMMAR.ALL} WHERE {text}",) for name, text in GRAMMAR.ROWS.items()},
    "bounded anew": {name: (text,) for name, text in GRAMMAR.BY_UNIT.items()},
    "refused": {name: (text,) for name, text in GRAMMAR.REFUSED.items()},
}


def test_the_page_of_sql_equals_the_code():
    assert GRAMMAR.PAGE.read_text(encoding="utf-8") == GRAMMAR.grammar_page(), "run: python tools/grammar.py"


@pytest.mark.parametrize("meaning", MEANINGS)
def test_each_construct_has_the_meaning_that_the_page_says(meaning):
    found = {name: GRAMMAR.meaning(*texts).partition(":")[0] for name, texts in MEANINGS[meaning].items()}
    assert found == dict.fromkeys(found, meaning)


def test_the_page_has_every_operation_on_rows():
    trees = [sqlglot.parse_one(text, read="duckdb") for text in GRAMMAR.ROWS.values()]
    shown = {type(node) for tree in trees for node in tree.walk()}
    spelled_alike = {
        exp.Boolean,
        exp.Null,
        exp.Anonymous,
        exp.NullSafeNEQ,
        exp.DateAdd,
        exp.DateSub,
        exp.DPipe,
        exp.Extract,
        exp.Placeholder,  # of a statistic in WHERE
    }
    assert set(expressions._READERS) - shown - spelled_alike == set()
