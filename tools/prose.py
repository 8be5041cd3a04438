"""The measurable part of the rule for prose: short sentences, plain openers and listed parameters (`make check`).

    python tools/prose.py                   every offender in README, CONTRIBUTING, the English docs and public docstrings
    python tools/prose.py --check           the same of tools, demo and CLEAN_ROOMS alone; exit code 1 for any offender
    python tools/prose.py --check PATH...   these files and folders alone

**Words.** A sentence has at most 25. Code, formulas and symbols count nothing: a token counts if it is a plain number or a word
of letters. Each cell of a table, item of a list and entry of `Args:` is a paragraph of its own. Headings are not sentences.

**Openers.** No sentence starts with "The same", "Of", "By" or "What". A question may start with "What".

**Parameters.** A public function with two or more lists each under `Args:`. A method need not repeat one that it overrides.
"""

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from inspect import cleandoc
from pathlib import Path

MOST_WORDS = 25
OPENERS = ("The same", "Of", "By", "What")
HOME = Path(__file__).parent.parent
SOURCE = HOME / "src" / "neartwin"
# rooms and files of src/neartwin whose docstrings pass and have to go on passing
CLEAN_ROOMS = (
    "accounting",
    "audit",
    "balls.py",
    "checks.py",
    "cli",
    "client",
    "divergences",
    "domains.py",
    "engines",
    "error_bars",
    "errors.py",
    "exact.py",
    "ledger",
    "losses",
    "mechanisms",
    "noise",
    "planning",
    "queries",
    "releases",
    "report",
    "special.py",
    "statistics",
    "tables",
    "tradeoff",
    "web",
)
# rooms whose functions are commands and routes: declarations describe their parameters, and docstrings are help texts
UNLISTED_ROOMS = ("cli", "web")
WRITTEN_BY_TOOLS = ("docs/reference/cli.md",)  # tools/reference.py writes it

FENCE = re.compile(r"\s*(```|~~~)")
ITEM = re.compile(r"\s*(?:[-*+]|\d+[.)])\s+")
HEADING = re.compile(r"#{1,6}\s|={3,}$|-{3,}$")
SECTION = re.compile(r"(Args|Attributes|Returns|Raises|Yields|Examples?|Notes?|Source|References):\s*$")
ENTRY = re.compile(r"\s+\*{0,2}[\w., *]+(?: \([^)]*\))?:\s+(?=\S)")
LISTED = re.compile(r"(?m)^ +\*{0,2}(\w+(?:, \*{0,2}\w+)*)(?: \([^)]*\))?:")
END = re.compile(r"(?<=[.!?])[\"')\]”’]*\s+")
ABBREVIATIONS = re.compile(r"\b(?:e\.g|i\.e|vs|al|cf|Def|Thm|Th|Prop|Eq|Sect|Sec|Fig|No|pp?|approx)\.$")
WORD = re.compile(r"(?:[^\W\d_]{2,}|[aAI])(?:['’-][^\W\d_]+)*|\d+(?:[.,]\d+)*(?:th|st|nd|rd)?")
CODE = "\N{MIDDLE DOT}"  # stands for a piece of code, which is no word


@dataclass(frozen=True, slots=True)
class Offence:
    """A sentence that breaks the rule.

    Attributes:
        file: Where it is.
        line: The line on which its paragraph's part of it starts, from 1.
        fault: The fault, with the sentence's first words.
    """

    file: Path
    line: int
    fault: str

    def __str__(self) -> str:
        """The offence as `file:line: fault`."""
        shown = self.file.relative_to(HOME) if self.file.is_relative_to(HOME) else self.file
        return f"{shown}:{self.line}: {self.fault}"


Lines = list[tuple[int, str]]  # numbered lines of one paragraph
Function = ast.FunctionDef | ast.AsyncFunctionDef


def main(arguments: list[str]) -> int:
    """Print the offenders; the exit code is 1 if a checked file has any."""
    checked = arguments[:1] == ["--check"]
    rooms = CLEAN_ROOMS if checked else ("",)
    named = [file for name in arguments if name != "--check" for file in modules([name], Path.cwd())]
    files = named or [*pages(), *modules(("demo", "tools"), HOME), *modules(rooms)]
    offenders = [offence for file in files for offence in offences(file)]
    helped = set(modules(UNLISTED_ROOMS))
    offenders += unlisted([file for file in files if file.is_relative_to(SOURCE) and file not in helped])
    for offence in offenders:
        print(offence)
    print(
        f"{len(offenders)} places to mend in {len({one.file for one in offenders})} of {len(files)} files",
        file=sys.stderr,
    )
    return int(checked and bool(offenders))


def pages() -> list[Path]:
    """README, CONTRIBUTING and every English page of the docs but those that a tool writes."""
    docs = HOME / "docs"
    others = docs / "zh", docs / "reference" / "api", *(HOME / name for name in WRITTEN_BY_TOOLS)
    english = [page for page in sorted(docs.rglob("*.md")) if not any(page.is_relative_to(other) for other in others)]
    return [HOME / "README.md", HOME / "CONTRIBUTING.md", *english]


def modules(names: Iterable[str], home: Path | None = None) -> list[Path]:
    """These files, and the modules in these folders of `home`, by default the sources; the name "" is all of it."""
    home = home or SOURCE
    paths = [(home / name).resolve() for name in names]
    return [file for path in paths for file in (sorted(path.rglob("*.py")) if path.is_dir() else [path])]


def offences(file: Path) -> Iterator[Offence]:
    """The sentences of a page or of a module's public docstrings that break the rule."""
    text = file.read_text(encoding="utf-8")
    paragraphs = docstring_paragraphs(text) if file.suffix == ".py" else page_paragraphs(text)
    for paragraph in paragraphs:
        for line, sentence in sentences(paragraph):
            for fault in faults(sentence):
                yield Offence(file, line, fault)


def faults(sentence: str) -> Iterator[str]:
    """The faults of one sentence."""
    start = " ".join(sentence.split()[:8])
    count = words(sentence)
    if count > MOST_WORDS:
        yield f"{count} words: {start} ..."
    for opener in OPENERS:
        question = opener == "What" and sentence.rstrip("\"')*_ ").endswith("?")
        if re.match(rf"[\"'(*_“]*{opener}\b(?!-)", sentence) and not question:
            yield f'opens with "{opener}": {start} ...'


def words(sentence: str) -> int:
    """How many words a sentence has, formulas and code apart."""
    tokens = (token.strip("\"'“”‘’(),.;:!?*_%$[]") for token in re.split(r"[\s—–/]+", sentence))
    return sum(1 for token in tokens if WORD.fullmatch(token))


def sentences(paragraph: Lines) -> Iterator[tuple[int, str]]:
    """The sentences of a paragraph, each with the line on which it starts."""
    text, starts = "", []
    for number, line in paragraph:
        starts.append((len(text), number))
        text += line.strip() + " "
    begin = 0
    for end in [
        *(match for match in END.finditer(text) if not ABBREVIATIONS.search(text[begin : match.start()])),
        None,
    ]:
        stop = end.end() if end else len(text)
        if sentence := text[begin:stop].strip():
            yield max(number for offset, number in starts if offset <= begin), sentence
        begin = stop


def page_paragraphs(text: str) -> Iterator[Lines]:
    """The paragraphs, items and cells of a Markdown page, without code, headings and markup."""
    yield from paragraphs(list(enumerate(without_markup(text).split("\n"), start=1)))


def without_markup(text: str) -> str:
    """Links as their text and inline code as a sign that is no word; line breaks stay."""

    def blank(match: re.Match[str]) -> str:
        return CODE + "\n" * match.group().count("\n")

    text = re.sub(r"(?ms)^([ ]*)```.*?^\1```[ ]*$", lambda block: "\n" * block.group().count("\n"), text)
    text = re.sub(r"<!--.*?-->", lambda note: "\n" * note.group().count("\n"), text, flags=re.DOTALL)
    text = re.sub(r"(`+)(?!`).+?(?<!`)\1(?!`)", blank, text, flags=re.DOTALL)
    text = re.sub(r"!\[[^\]]*\]\([^)]*\)", CODE, text)
    text = re.sub(r"\[([^\]]*)\]\([^)\s]*\)", r"\1", text)
    return re.sub(r"\*+", "", text.replace("\\|", " "))


def paragraphs(lines: Lines) -> Iterator[Lines]:
    """Split numbered lines at blank lines, headings, items and rows; drop indented formulas."""
    current: Lines = []
    listed = False
    for number, line in lines:
        item = ITEM.match(line)
        table = line.lstrip().startswith("|")
        formula = line.startswith("    ") and not listed and not current
        if item or table or formula or not line.strip() or HEADING.match(line):
            yield current
            current = []
        if item:
            listed = True
            current = [(number, line[item.end() :])]
        elif table:
            yield from ([(number, cell)] for cell in line.strip().strip("|").split("|"))
        elif line.strip() and not formula and not HEADING.match(line):
            listed = listed and (line.startswith(" ") or bool(current))
            current.append((number, line.lstrip("> ")))
    yield current


def docstring_paragraphs(text: str) -> Iterator[Lines]:
    """The paragraphs of a module's public docstrings: its own, and those of public classes, functions and methods."""
    for first, docstring in docstrings(ast.parse(text)):
        lines: Lines = []
        section = example = False
        for number, line in enumerate(cleandoc(without_markup(docstring)).split("\n"), start=first):
            literal = line.lstrip().startswith((">>>", "\b"))  # an example, or a block that click prints as it is
            example = (example or literal) and bool(line.strip())
            section = bool(SECTION.match(line)) or (section and (line.startswith(" ") or not line.strip()))
            if example or SECTION.match(line):
                lines.append((number, ""))
            elif section and (entry := ENTRY.match(line)):
                lines += [(number, ""), (number, line[entry.end() :])]
            else:
                lines.append((number, line.lstrip() if section else line))
        yield from paragraphs(lines)


def unlisted(files: Iterable[Path]) -> Iterator[Offence]:
    """Public functions of two or more parameters that do not list each, and override no method that does."""
    listed = {
        (function.name, frozenset(parameters(function)))
        for file in modules([""])
        for function, method in functions(ast.parse(file.read_text(encoding="utf-8")).body)
        if method and not missing(function)
    }
    for file in files:
        for function, method in functions(ast.parse(file.read_text(encoding="utf-8")).body):
            inherited = method and (function.name, frozenset(parameters(function))) in listed
            if len(parameters(function)) > 1 and missing(function) and not inherited:
                fault = f"{function.name} does not list {', '.join(missing(function))} under Args:"
                yield Offence(file, function.lineno, fault)


def functions(body: Iterable[ast.stmt], *, method: bool = False) -> Iterator[tuple[Function, bool]]:
    """The public functions of a body, and the methods of its public classes; overloads and setters apart."""
    for node in public(body):
        if isinstance(node, ast.ClassDef):
            yield from functions(node.body, method=True)
        elif not any(re.search(r"overload|setter", ast.unparse(decorator)) for decorator in node.decorator_list):
            yield node, method


def parameters(function: Function) -> list[str]:
    """The names of a function's parameters, `self` and `cls` apart."""
    given = function.args
    rest = [one for one in (given.vararg, given.kwarg) if one is not None]
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs, *rest]
    return [one.arg for one in every if one.arg not in {"self", "cls"}]


def missing(function: Function) -> list[str]:
    """The parameters that the docstring does not list under `Args:`."""
    section = re.search(r"Args:\n(.*?)(?=\n\S|\Z)", ast.get_docstring(function) or "", re.DOTALL)
    entries = LISTED.findall(section.group(1)) if section else []
    names = {name.strip(" *") for entry in entries for name in entry.split(",")}
    return [name for name in parameters(function) if name not in names]


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Each public docstring with its first line."""
    nodes: list[ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef] = [tree]
    while nodes:
        node = nodes.pop(0)
        if (text := ast.get_docstring(node, clean=False)) is not None:
            yield node.body[0].lineno, text
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            nodes += public(node.body)


def public(body: Iterable[ast.stmt]) -> Iterator[ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    """The classes and functions of a body whose names do not start with an underscore."""
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
            yield node


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
