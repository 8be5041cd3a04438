"""How each block of a documentation page is run: in order, in one folder and one namespace, so that a page is a program.

    python   as it stands; a block that begins with >>> is a session, whose output is compared; decimals to eight digits
    sh       every line is a command that must end well; `neartwin serve` serves until the page ends
    console  lines after "$ " are commands, what follows is what they print, with ... for what varies; decimals to eight digits
    json     is read; a question, a policy or a request is checked as the service checks it
    toml     is read; rules are read as `neartwin register --policy` reads them
    sql      is read as a question to the page's own table of that name

The address of a service in a page stands for the one that the page's own `neartwin serve` got.
"""

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import tomllib
from doctest import ELLIPSIS, NORMALIZE_WHITESPACE, DocTestRunner, OutputChecker
from pathlib import Path
from urllib.request import Request, urlopen

from sybil.evaluators.doctest import DocTestEvaluator
from sybil.evaluators.python import PythonEvaluator
from sybil.parsers.abstract.doctest import DocTestStringParser
from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser
from sybil.region import Lexeme

ROOT = Path(__file__).parents[2]
ADDRESSES = ("http://127.0.0.1:8417", "https://house.example")
PATIENCE = 120
WORDS = ELLIPSIS | NORMALIZE_WHITESPACE
LONG = re.compile(r"\b\d+\.\d{9,}(?:e[+-]?\d+)?\b")


class Python(PythonEvaluator):
    """A block of Python, asking the page's service."""

    def __call__(self, example):
        parsed = example.parsed
        example.parsed = Lexeme(placed(str(parsed), example.namespace), parsed.offset, parsed.line_offset)
        super().__call__(example)


class Digits(OutputChecker):
    """Compares what a session prints, decimals to eight digits."""

    def check_output(self, want, got, optionflags):
        return super().check_output(printed(want), printed(got), optionflags)


class Session(DocTestEvaluator):
    """A line of a session, and what it prints."""

    def __init__(self):
        self.runner = DocTestRunner(checker=Digits(), verbose=False, optionflags=NORMALIZE_WHITESPACE)


class PythonBlocks(PythonCodeBlockParser):
    """Blocks of Python."""

    def __init__(self):
        super().__init__()
        self.codeblock_parser = CodeBlockParser("python", Python())
        self.doctest_parser = DocTestStringParser(Session())


def shell(example):
    """Every command of a block in `sh` ends well."""
    line = ""
    for part in example.parsed.replace("\\\n", " ").splitlines():
        line += ("\n" if line else "") + part
        if line.strip() and whole(line):
            run(line, example.namespace)
            line = ""
    assert not line, "a quotation is not closed"


def whole(line):
    """Whether no quotation is open at the end of it."""
    try:
        shlex.split(line, comments=True)
    except ValueError:
        return False
    return True


def console(example):
    """Every command of a block in `console` ends well and prints what stands below it."""
    parts = re.split(r"^\$ ", example.parsed.replace("\\\n", " "), flags=re.MULTILINE)
    assert not parts[0].strip(), "a block in console begins with a command after '$ '"
    for part in parts[1:]:
        line, _, wanted = part.partition("\n")
        said = run(line, example.namespace)
        assert OutputChecker().check_output(printed(wanted), printed(said), WORDS), f"{line}\n{said}"


def printed(text):
    """The text with long decimals to eight digits: the last of twelve may differ between processors."""
    return LONG.sub(lambda found: repr(float(f"{float(found[0]):.8g}")), text.strip()) + "\n"


def json_text(example):
    """JSON, checked as what it looks like."""
    from neartwin.web import schemas

    told = json.loads(example.parsed)
    kinds = {"question": schemas.Ask, "rules": schemas.Policy, "statistics": schemas.Question, "sql": schemas.Question}
    for sign, kind in kinds.items():
        if sign in told:
            kind.model_validate(told)
            return


def toml_text(example):
    """TOML, checked as what it looks like."""
    from neartwin.cli.service import _policy

    told = tomllib.loads(example.parsed)
    if "rules" in told:
        written = Path("policy.toml")
        written.write_text(example.parsed, encoding="utf-8")
        assert len(_policy(str(written))) == len(told["rules"])


def sql_text(example):
    """SQL, read as a question to the table of that name in the page."""
    from neartwin.queries.sql.parse import from_sql

    tables = {name: value for name, value in example.namespace.items() if hasattr(value, "group_by")}
    base = re.search(r"\bFROM\s+(\w+)", example.parsed)[1]
    others = {name: value for name, value in example.namespace.items() if hasattr(value, "schema") or name in tables}
    from_sql(example.parsed, tables[base], tables=others)


PARSERS = [
    PythonBlocks(),
    CodeBlockParser("sh", shell),
    CodeBlockParser("console", console),
    CodeBlockParser("json", json_text),
    CodeBlockParser("toml", toml_text),
    CodeBlockParser("sql", sql_text),
]
LANGUAGES = {"python", "sh", "console", "json", "toml", "sql"}


def enter(namespace):
    """A fresh folder for a page."""
    namespace["_home"], namespace["_here"] = Path.cwd(), tempfile.mkdtemp()
    os.chdir(str(namespace["_here"]))


def leave(namespace):
    """End the page's service, and remove its folder."""
    if "_service" in namespace:
        namespace["_service"].close()
    os.chdir(str(namespace["_home"]))
    shutil.rmtree(str(namespace["_here"]))


def run(line, namespace):
    """Run one command; what it printed. An assertion fails where it does not end well."""
    command, _, target = placed(line, namespace).partition(" > ")
    command = re.sub(r"\$\(cat ([\w./-]+)\)", lambda found: Path(found[1]).read_text(encoding="utf-8").strip(), command)
    for name, value in namespace.get("_environment", {}).items():
        command = command.replace(f"${name}", value)
    words = shlex.split(command, comments=True)
    assert words[0] in COMMANDS, f"{words[0]!r} is no command that pages use: teach {Path(__file__).name} how to run it"
    said = COMMANDS[words[0]](words[1:], namespace)
    if target:
        Path(target.strip()).write_text(said, encoding="utf-8")
    return said


def placed(text, namespace):
    """A text whose addresses are those of the page's own service."""
    for address in ADDRESSES if "_service" in namespace else ():
        text = text.replace(address, namespace["_service"].address)
    return text


def _neartwin(words, namespace):
    from click.testing import CliRunner

    from neartwin.cli import main

    purchases()
    if words[0] == "serve":
        namespace["_service"] = Serving(words)
        return ""
    done = CliRunner().invoke(main, words, env={"COLUMNS": "100"})
    assert done.exit_code == 0, f"neartwin {shlex.join(words)} ended with {done.exit_code}: {done.output}"
    return done.stdout


def purchases():
    """The table that pages about the terminal begin with: 4 000 purchases by 900 customers."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not Path("purchases.parquet").exists():
        size = range(4000)
        table = {"customer_id": [i % 900 for i in size], "cds": [1 + i % 5 for i in size]}
        pq.write_table(pa.table(table | {"amount": [(i * 37 % 20000) / 100 for i in size]}), "purchases.parquet")


class Serving:
    """`neartwin serve` as it is, in a thread, with one worker, on a free port."""

    def __init__(self, words):
        import uvicorn

        from neartwin.cli import main

        self._listening = socket.socket()
        self._listening.bind(("127.0.0.1", 0))
        self._listening.listen(128)
        self.address = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self._servers, before = [], uvicorn.run

        def run_here(app, **options):
            self._servers.append(uvicorn.Server(uvicorn.Config(app, **(options | {"log_level": "error"}))))
            self._servers[0].run(sockets=[self._listening])

        def serve():
            main.main([*words, "--workers", "1"], standalone_mode=False)

        uvicorn.run = run_here
        self._thread = threading.Thread(target=serve, daemon=True)
        self._thread.start()
        try:
            deadline = time.monotonic() + PATIENCE
            while not (self._servers and self._servers[0].started):
                assert self._thread.is_alive(), "neartwin serve ended at once"
                assert time.monotonic() < deadline
                time.sleep(0.01)
        finally:
            uvicorn.run = before

    def close(self):
        """End it."""
        self._servers[0].should_exit = True
        self._thread.join(PATIENCE)
        self._listening.close()


def _pip(words, namespace):
    """An installation names this project and extras that it has; `make slow` runs the README's for real."""
    verb, wanted = words
    extras = re.fullmatch(r"neartwin(?:\[([\w,-]+)\])?", wanted)
    assert verb == "install"
    assert extras, wanted
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert set((extras[1] or "").split(",")) <= {"", *declared["optional-dependencies"]}, wanted
    return ""


def _make(words, namespace):
    """A target of the Makefile, which says what it would do."""
    done = subprocess.run(["make", "--dry-run", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return ""


def _python(words, namespace):
    """A benchmark, which takes minutes: it is there and is Python. `make bench` runs it."""
    file = ROOT / words[0]
    assert file.is_relative_to(ROOT / "bench"), f"{file} is no benchmark: show it as a block of Python"
    compile(file.read_text(encoding="utf-8"), file, "exec")
    return ""


def _export(words, namespace):
    """NAME=value, for commands that follow."""
    name, _, value = words[0].partition("=")
    namespace.setdefault("_environment", {})[name] = value
    return ""


def _curl(words, namespace):
    """One request; an answer above 299 is an exception."""
    asked = {"-H": [], "-d": [], "-X": []}
    rest = iter(words)
    (address,) = [word for word in rest if word not in asked or asked[word].append(next(rest))]
    headers = dict(part.split(": ", 1) for part in asked["-H"])
    body = asked["-d"][0].encode() if asked["-d"] else None
    method = asked["-X"][0] if asked["-X"] else "POST" if body else "GET"
    with urlopen(Request(address, data=body, headers=headers, method=method), timeout=PATIENCE) as answer:  # noqa: S310
        return answer.read().decode()


COMMANDS = {"neartwin": _neartwin, "pip": _pip, "make": _make, "python": _python, "export": _export, "curl": _curl}
