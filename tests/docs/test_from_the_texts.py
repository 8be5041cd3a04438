"""The pages that map the five texts are complete: a row and a checked line for every item, naming what exists."""

import ast
import json
import re
from doctest import DocTestParser
from importlib import import_module
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
ITEMS = json.loads((HERE / "items_of_the_texts.json").read_text(encoding="utf-8"))
PAGES = ("docs/from-the-texts.md", "docs/zh/from-the-texts.md")
CELLS = re.compile(r"(?<!\\)\|")
LABEL = re.compile(r"#\s+((?:RDP|DR351|DR33|GDP|IDP)-\S+)\s*$")

# What each text numbers, by the number it prints, and the items that stand for it here.
NUMBERED = {
    "RDP": {
        "命题1": ["proposition-1"],
        "证明 1": ["definition"],
        "证明 2": ["proof-factorisation"],
        "证明 3": ["proof-bounds"],
        "证明 4": ["proof-bounds", "conclusion"],
        "关键步骤说明 1": ["proof-factorisation"],
        "关键步骤说明 2": ["proof-bounds"],
        "关键步骤说明 3": ["proof-bounds"],
        "关键步骤说明 4": ["conclusion"],
    },
    "DR351": {
        "定义3.5": ["definition-3.5", "definition-3.5-densities"],
        "定义3.6": ["definition-3.6-max", "definition-3.6-approximate"],
        "备注3.1 1": ["remark-3.1-pure"],
        "备注3.1 2": ["remark-3.1-approximate"],
        "引理3.17 1": ["lemma-3.17-1"],
        "引理3.17 2": ["lemma-3.17-2"],
        "引理3.18": ["lemma-3.18", "supplement"],
        "引理3.19": ["lemma-3.19"],
    },
    "DR33": {
        "定义2.3": ["definition-2.3"],
        "定义3.1": ["definition-3.1"],
        "定义3.2": ["definition-3.2"],
        "原书注1": ["footnote-1"],
        "定义3.3": ["definition-3.3"],
        "定理3.6": ["theorem-3.6"],
        "补充1": ["supplement-1"],
        "补充2": ["definition-2.3"],
        "例3.1": ["example-3.1-count", "example-3.1-forms", "example-3.1-many"],
        "例3.2": ["example-3.2"],
        "事实3.7": ["fact-3.7"],
        "译者注1": ["union-bound"],
        "定理3.8": ["theorem-3.8"],
        "补充3": ["supplement-3"],
        "补充4": ["supplement-4"],
        "例3.3": ["example-3.3"],
        "补充5": ["supplement-5"],
        "例3.4": ["example-3.4"],
        "命题3.9": ["proposition-3.9"],
    },
    "GDP": {
        "一": ["1-definition", "1-advanced", "1-moments", "1-renyi"],
        "二": ["2-hypotheses", "figure-1", "2-total-variation", "2-tradeoff", "2-characterisation"],
        "三": ["3-order", "3-f-dp", "figure-2", "3-inverse", "3-symmetrisation"],
        "4.1": ["4.1-f-epsilon-delta", "4.1-equivalence", "figure-3"],
        "4.2": ["4.2-G-mu", "4.2-phi", "figure-4", "4.2-mu-gdp"],
        "4.3": ["4.3-sensitivity", "4.3-mechanism"],
        "4.4": ["4.4-post-processing"],
        "4.5": ["4.5-conversion"],
        "4.6": ["4.6-group", "4.6-group-gaussian", "4.6-limit"],
        "五": ["5-composition"],
        "5.1": [
            "5.1-tensor",
            "5.1-commutative",
            "5.1-monotone",
            "5.1-identity",
            "5.1-inverse",
            "5.1-theorem",
            "5.1-gaussian",
        ],
        "5.2": ["5.2-functionals", "5.2-berry-esseen", "5.2-limit"],
        "5.3": ["5.3-factor", "5.3-rewriting", "5.3-limit"],
        "六": ["6-idea", "6-formula", "6-gaussian-noise", "6-gaussian-conversion", "6-composition"],
    },
    "IDP": {
        "定义1": ["definition-1"],
        "定义2": ["definition-2"],
        "定义3": ["definition-3"],
        "定理4": ["theorem-4"],
        "公理5": ["fact-5"],
        "定理6": ["theorem-6"],
        "定理7": ["theorem-7"],
    },
}
# Statements that a text makes under no number.
UNNUMBERED = {
    "RDP": [],
    "DR351": ["zero-denominator", "support", "statistical-distance", "goal"],
    "DR33": ["numeric-queries", "query-release", "selection", "report-noisy-max"],
    "GDP": [],
    "IDP": [
        "laplace-mean",
        "laplace-or-response",
        "counting",
        "counting-many",
        "non-adaptive",
        "dinur-nissim",
        "histograms",
        "histogram-accuracy",
        "basic-composition",
    ],
}


def rows(text):
    split = ([cell.strip() for cell in CELLS.split(line)[1:-1]] for line in text.splitlines() if line.startswith("| `"))
    return {cells[0].strip("`"): cells for cells in split}


def read(page):
    return (ROOT / page).read_text(encoding="utf-8")


ROWS = {page: rows(read(page)) for page in PAGES}


def named(cell):
    return re.findall(r"`([^`]+)`", cell)


def test_items_cover_all_numbered_and_unnumbered_claims_of_the_texts():
    for text, numbers in NUMBERED.items():
        stated = {f"{text}-{item}" for items in [*numbers.values(), UNNUMBERED[text]] for item in items}
        assert stated == {item for item in ITEMS if item.startswith(f"{text}-")}
    assert set(NUMBERED) == {item.split("-")[0] for item in ITEMS}


@pytest.mark.parametrize("page", PAGES)
def test_every_item_of_the_texts_has_its_row_and_no_row_is_without_an_item(page):
    assert list(ROWS[page]) == list(ROWS[PAGES[0]])
    assert sorted(ROWS[page]) == sorted(ITEMS)


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("item", sorted(ITEMS))
def test_a_row_states_something_and_names_what_exists(page, item):
    _, what, statement, functions, tests = ROWS[page][item]
    assert what
    assert len(statement) > (15 if page == PAGES[0] else 8)  # letters say less than Chinese characters
    assert named(functions)
    for path in named(functions):
        assert resolved(path) is not None, path
    assert named(tests)
    for path in named(tests):
        file, _, name = path.partition("::")
        assert name in functions_of(ROOT / file), path


def lines(text):
    """For each labelled line of the page's sessions: the names in it and its setup, and what it prints."""
    found, setup = [], ""
    for block in re.findall(r"(?ms)^```python\n(>>> .*?)^```", text):
        for example in DocTestParser().get_examples(block):
            setup += example.source
            if label := LABEL.search(example.source):
                nodes = list(ast.walk(ast.parse(setup)))
                used = {node.id for node in nodes if isinstance(node, ast.Name)}
                used |= {node.attr for node in nodes if isinstance(node, ast.Attribute)}
                found.append((label[1], used, example.want))
                setup = ""
    return found


def faults(text):
    """Items without exactly one line, lines that print nothing, lines that use none of their row's functions."""
    found, table = lines(text), rows(text)
    labels = [label for label, _, _ in found]
    wrong = {item for item in {*ITEMS, *labels} if labels.count(item) != 1 or item not in table}
    for label, used, printed in found:
        functions = {path.rpartition(".")[2] for path in named(table[label][3])} if label in table else set()
        if not printed or not used & functions:
            wrong.add(label)
    return wrong


@pytest.mark.parametrize("page", PAGES)
def test_every_item_of_the_texts_has_a_line_that_runs_and_its_output(page):
    assert faults(read(page)) == set()


NEAR_MISSES = {
    "a line is gone": (r"(?m)^>>> .*# DR33-fact-3\.7\n.*\n", "", "DR33-fact-3.7"),
    "a line has no label": (r"  # IDP-theorem-7\n", "\n", "IDP-theorem-7"),
    "a line prints nothing": (r"(?m)^(>>> .*# GDP-4\.5-conversion\n).*\n", r"\1", "GDP-4.5-conversion"),
    "a line uses another function": (
        r"(?m)^>>> .*(# RDP-conclusion\n)",
        r">>> first.max_divergence().upper  \1",
        "RDP-conclusion",
    ),
    "a row is gone": (r"(?m)^\| `DR351-lemma-3\.19`.*\n", "", "DR351-lemma-3.19"),
}


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("case", NEAR_MISSES)
def test_an_item_without_its_line_would_be_seen(page, case):
    pattern, instead, item = NEAR_MISSES[case]
    text, changed = re.subn(pattern, instead, read(page))
    assert changed == 1
    assert faults(text) == {item}


def resolved(path):
    """The object a dotted path names: the longest importable module, then attributes."""
    parts = path.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found = import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for name in parts[cut:]:
            found = getattr(found, name, None)
        return found
    return None


def functions_of(path):
    if not path.exists():
        return set()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_a_missing_function_or_test_would_be_seen():
    assert resolved("neartwin.tradeoff.delta_of") is not None
    assert resolved("neartwin.tradeoff.no_such_function") is None
    assert resolved("neartwin.tradeoff.TradeOff.inverse") is not None
    assert resolved("neartwin.tradeoff.TradeOff.no_such_method") is None
    assert "no_such_test" not in functions_of(ROOT / "tests" / "tradeoff" / "test_gaussian_dp.py")
