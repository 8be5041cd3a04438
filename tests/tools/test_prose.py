"""What the check of prose must find, and what it must let pass."""

from textwrap import dedent

import pytest

from tests.tools import tool

PROSE = tool("prose")


def found(tmp_path, text, name="page.md"):
    file = tmp_path / name
    file.write_text(dedent(text), encoding="utf-8")
    return [(offence.line, offence.fault.split(":")[0]) for offence in PROSE.offences(file)]


def test_sentence_of_25_words_passes_and_of_26_does_not(tmp_path):
    words = ["word"] * 25
    assert found(tmp_path, f"{' '.join(words)}.") == []
    assert found(tmp_path, f"{' '.join([*words, 'more'])}.") == [(1, "26 words")]


LONG = "word " * 24
NO_WORDS = {
    "code": "`one two three`",
    "code over two lines": "`one\ntwo`",
    "a formula": "Σ f(|k|) <= 2^-64 ·",
    "a symbol": "k",
    "a picture": "![one two three](picture.svg)",
    "where a link leads": "[](one-two.md)",
    "marks of stress": "** **",
}


@pytest.mark.parametrize("text", NO_WORDS.values(), ids=NO_WORDS)
def test_code_and_formulas_are_no_words(tmp_path, text):
    assert found(tmp_path, f"{LONG}{text} end.") == []
    assert found(tmp_path, f"{LONG}{text} an end.") == [(1, "26 words")]


WORDS = ["25", "1,000", "3.5", "half-width", "person's", "(so)", "*stress*", "[link](page.md)", "a", "“quoted”", "2nd"]


@pytest.mark.parametrize("word", WORDS)
def test_numbers_and_words_with_marks_are_words(tmp_path, word):
    assert PROSE.words(PROSE.without_markup(word)) == 1
    assert found(tmp_path, f"{LONG}{word} end.") == [(1, "26 words")]


ENDS = {
    "a full stop": "{}. {}.",
    "a symbol": "{} A. {}.",
    "a question": "{}? {}.",
    "a quotation": '"{}." {}.',
    "a small letter after it": "{}. `code` {}.",
    "an item": "- {}\n- {}",
    "a numbered item": "1. {}\n2. {}",
    "a cell": "| {} | {} |",
    "a blank line": "{}\n\n{}",
    "a heading": "{}\n## Head\n{}",
    "a block of code": "{}\n```python\nx = 1\n```\n{}",
}
JOINTS = {
    "a comma": "{}, {}.",
    "a semicolon": "{}; {}.",
    "an abbreviation": "{}, e.g. {}.",
    "a decimal point": "{} 0.5 {}.",
    "a line break": "{}\n{}.",
    "a later line of an item": "- {}\n  {}.",
}


@pytest.mark.parametrize("text", ENDS.values(), ids=ENDS)
def test_a_sentence_ends_there(tmp_path, text):
    half = "word " * 12 + "word word word"
    assert found(tmp_path, text.format(half, half)) == []


@pytest.mark.parametrize("text", JOINTS.values(), ids=JOINTS)
def test_a_sentence_goes_on_there(tmp_path, text):
    half = "word " * 12 + "word word word"
    ((_, fault),) = found(tmp_path, text.format(half, half))
    assert fault in {"30 words", "31 words"}


@pytest.mark.parametrize("opener", ["The same", "Of", "By", "What"])
def test_banned_opener_is_found_at_the_start_of_a_sentence_alone(tmp_path, opener):
    assert found(tmp_path, f"It is so. {opener} holds.") == [(1, f'opens with "{opener}"')]
    assert found(tmp_path, f"- **{opener}** holds.") == [(1, f'opens with "{opener}"')]
    assert found(tmp_path, f"It is {opener} alone.\n\n# {opener} here\n\n{opener}ten it holds. {opener}-law.") == []


def test_a_question_may_start_with_what_and_with_no_other_opener(tmp_path):
    assert found(tmp_path, "What does it cost?") == []
    assert found(tmp_path, "Of what is it made?") == [(1, 'opens with "Of"')]


def test_line_of_an_offender_is_that_of_its_sentence(tmp_path):
    text = "One.\n\n```sh\nwhat\n```\n\nA sentence. Another\nthat ends here.\nBy now it holds.\n"
    assert found(tmp_path, text) == [(9, 'opens with "By"')]


def test_indented_block_is_a_formula_and_the_lines_of_an_item_are_not(tmp_path):
    assert found(tmp_path, "It holds that\n\n    By definition f = g\n\nfor all f.") == []
    assert found(tmp_path, "- It holds.\n\n    By definition f = g.\n") == [(3, 'opens with "By"')]


SOURCE = '''
    """Of a module."""

    class Public:
        """By a class."""

        def method(self):
            """What a method does.

            Args:
                one: {words}
                two: {words}

            Returns:
                The same value.

            >>> print("Of an example")
            By an example
            """

        def _private(self):
            """Of a private method."""

    def _private():
        """Of a private function."""
        def inner():
            """Of an inner function."""
'''


def test_public_docstrings_are_read_and_private_ones_are_not(tmp_path):
    text = SOURCE.format(words="word " * 20)
    assert found(tmp_path, text, "module.py") == [
        (2, 'opens with "Of"'),
        (5, 'opens with "By"'),
        (8, 'opens with "What"'),
        (15, 'opens with "The same"'),
    ]
    assert (11, "30 words") in found(tmp_path, SOURCE.format(words="word " * 30), "module.py")


ADD = 'def add({}):\n    """It adds.\n\n    Args:\n        {}: A number.\n        {}: Another.\n    """\n'
BASE = 'class Base:\n    def add(self, one, two):\n        """It adds.\n\n        Args:\n            one, two: Numbers."""\n\n'
LISTED = {
    "both": ADD.format("one, two", "one", "two"),
    "starred": ADD.format("one, **two", "one", "**two"),
    "two in one entry": BASE,
    "an override": BASE + 'class Other(Base):\n    def add(self, one, two):\n        """It adds."""\n',
    "a single parameter": 'def double(one):\n    """It doubles."""\n',
    "a private function": 'def _add(one, two):\n    """It adds."""\n',
}
UNLISTED = {
    "no section": ('def add(one, two):\n    """It adds."""\n', "one, two"),
    "one of two": (ADD.format("one, two", "one", "three"), "two"),
    "a function beside a method": (BASE + 'def add(one, two):\n    """It adds."""\n', "one, two"),
    "an override with another parameter": (
        BASE + LISTED["an override"][len(BASE) :].replace("two", "three"),
        "one, three",
    ),
}


def unlisted(folder, source, monkeypatch):
    file = folder / "module.py"
    file.write_text(source, encoding="utf-8")
    monkeypatch.setattr(PROSE, "SOURCE", folder)
    return [offence.fault for offence in PROSE.unlisted([file])]


@pytest.mark.parametrize("source", LISTED.values(), ids=LISTED)
def test_listed_parameters_pass(tmp_path, monkeypatch, source):
    assert unlisted(tmp_path, source, monkeypatch) == []


@pytest.mark.parametrize(("source", "names"), UNLISTED.values(), ids=UNLISTED)
def test_unlisted_parameter_is_found(tmp_path, monkeypatch, source, names):
    assert unlisted(tmp_path, source, monkeypatch) == [f"add does not list {names} under Args:"]


@pytest.mark.slow
def test_check_exits_with_1_for_an_offender_and_prints_its_place(tmp_path, capsys):
    good, bad = tmp_path / "good.md", tmp_path / "bad.md"
    good.write_text("It holds.\n", encoding="utf-8")
    bad.write_text("It holds.\n\nOf course.\n", encoding="utf-8")
    assert PROSE.main(["--check", str(good)]) == 0
    assert capsys.readouterr().out == ""
    assert PROSE.main(["--check", str(good), str(bad)]) == 1
    assert capsys.readouterr().out == f'{bad}:3: opens with "Of": Of course. ...\n'


def test_all_clean_rooms_exist():  # `make check` asks whether they pass
    assert all((PROSE.HOME / "src" / "neartwin" / room).exists() for room in PROSE.CLEAN_ROOMS)


def test_translations_and_generated_pages_are_not_checked():
    checked = [*PROSE.pages(), *PROSE.modules([""])]
    names = {file.relative_to(PROSE.HOME).as_posix() for file in checked}
    assert {"README.md", "CONTRIBUTING.md", "docs/noise.md", "src/neartwin/__init__.py"} <= names
    assert not any(
        name.startswith(("docs/zh/", "docs/reference/api/")) or name == "docs/reference/cli.md" for name in names
    )
