"""The reference pages that are written from the code: `python tools/reference.py` writes them, a test compares them.

docs/reference/cli.md comes from the commands, errors.md from the tree of errors. The pages of each room's public names and
of the service's routes are made at each build of the site and not kept.
"""

import ast
import inspect
import json
import re
import tempfile
import textwrap
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import click

from neartwin import errors
from neartwin.cli import main

FOLDER = Path(__file__).parent.parent / "docs" / "reference"
MOST_LETTERS = 100  # of a signature on one line
SECTION = re.compile(r"(Args|Attributes|Returns|Raises|Yields|Source):")
ROOMS = {
    "neartwin": "The names of `import neartwin as nt`: tables, questions, budgets, releases.",
    "neartwin.accounting": "Usage of mechanisms, its cost, and calibration of noise.",
    "neartwin.losses": "Privacy losses of mechanisms and their certified composition.",
    "neartwin.mechanisms": "Laws of noise with their guarantees and errors.",
    "neartwin.tradeoff": "Trade-off functions.",
    "neartwin.divergences": "Divergences of laws, verdicts and witnesses.",
    "neartwin.noise": "Exact samplers.",
    "neartwin.audit": "Attacks and audits.",
    "neartwin.ledger": "Records of budgets.",
}


def pages() -> dict[str, str]:
    """The pages that are kept, by file name."""
    return {"cli.md": commands_page(), "errors.md": errors_page()}


def commands_page() -> str:
    """Every command with its help, as a terminal of 90 columns shows it."""
    parts = ["# Commands\n", "`neartwin COMMAND --help` shows this too. Results go to stdout, messages to stderr.\n"]
    parts.append("Exit codes: 0 done, 2 refused or misused, 3 the budget cannot pay.\n")
    for path, command in walk(main, ("neartwin",)):
        context = click.Context(command, info_name=" ".join(path), terminal_width=90, max_content_width=90)
        parts.append(f"## {' '.join(path)}\n\n```text\n{command.get_help(context).rstrip()}\n```\n")
    return "\n".join(parts)


def walk(command: click.Command, path: tuple[str, ...]) -> list[tuple[tuple[str, ...], click.Command]]:
    """The commands below one, itself first, in the order of their names."""
    found = [(path, command)]
    if isinstance(command, click.Group):
        here = click.Context(command)
        for name in command.list_commands(here):
            if below := command.get_command(here, name):
                found += walk(below, (*path, name))
    return found


def errors_page() -> str:
    """Every class of error with its code, in the order of codes."""
    kinds = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, errors.NeartwinError)]
    parts = [
        "# Errors\n",
        "Every refusal has a code, says what broke which rule, and what to do. None carries a private value.\n",
    ]
    parts.append(f"```text\n{(errors.__doc__ or '').split('```')[1].strip()}\n```\n")
    for kind in sorted(kinds, key=lambda kind: kind.code):
        text = (inspect.getdoc(kind) or "").split(">>>")[0].strip()
        parts.append(f"## {kind.__name__}\n\n`{kind.code}`, exit code {kind.exit_code}. {text}\n")
    return "\n".join(parts)


def rooms() -> dict[str, str]:
    """The page of each room's public names, by file name."""
    return {f"{room.replace('.', '-')}.md": room_page(room, about) for room, about in ROOMS.items()}


def public_names(module: ModuleType) -> list[str]:
    """The names of `__all__`; without one, all that the face of a room imports, but for its own modules."""
    found = {name for name, thing in vars(module).items() if name[0] != "_" and not inspect.ismodule(thing)}
    return sorted(getattr(module, "__all__", found))


def room_page(room: str, about: str) -> str:
    """Every public name with its signature and docstring, examples as code."""
    module = import_module(room)
    names = [name for name in public_names(module) if documented(getattr(module, name))]
    parts = [f"# {room}\n", f"{about}\n"]
    for name in names:
        thing = getattr(module, name)
        parts += [f"## {name}\n", f"```python\n{signature(name, thing)}\n```\n", markdown_of(thing) + "\n"]
        if inspect.isclass(thing):
            parts += list(members(thing))
    return "\n".join(parts)


def http_page() -> str:
    """Every route of the service with what it takes and gives, from its OpenAPI document."""
    from neartwin.web.app import create_app
    from neartwin.web.data_directory import DataDirectory

    with tempfile.TemporaryDirectory() as place, DataDirectory(place) as directory:
        document = create_app(directory).openapi()
    schemas = document["components"]["schemas"]
    parts = [
        "# HTTP\n",
        "A running service describes itself at `/openapi.json`; this page is made from the same document.\n",
    ]
    for path, methods in document["paths"].items():
        for method, route in methods.items():
            parts.append(f"## {method.upper()} {path}\n\n{route.get('description', '')}\n")
            body = route.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
            parts.append(shape("Takes", body, schemas))
            done = next(answer for status, answer in route["responses"].items() if status.startswith("2"))
            parts.append(shape("Gives", done.get("content", {}).get("application/json", {}).get("schema", {}), schemas))
    parts.append("## Refusals\n\nEvery refusal has the same shape; see [errors](../errors.md).\n")
    parts.append(shape("Gives", {"$ref": "#/components/schemas/Fault"}, schemas))
    parts.append("## Parts of requests and answers\n")
    shown = "\n".join(parts)
    others = sorted(name for name in schemas if f"`{name}`: " not in shown and "Validation" not in name)
    parts += [shape(f"### {name}\n\nA value of", {"$ref": f"#/components/schemas/{name}"}, schemas) for name in others]
    return "\n".join(part for part in parts if part)


def shape(word: str, schema: dict[str, Any], schemas: dict[str, Any]) -> str:
    """The fields of a body, with an example where there is one."""
    name = str(schema.get("$ref") or schema.get("items", {}).get("$ref") or "").rpartition("/")[2]
    model = schemas.get(name)
    if model is None:
        return ""
    many = "a list of " if "items" in schema else ""
    lines = [f"{word} {many}`{name}`: {' '.join(model.get('description', '').split())}\n"]
    fields = model.get("properties", {})
    if fields:
        lines.append("| field | what it is |\n|---|---|")
        lines += [f"| `{field}` | {cell(about)} |" for field, about in fields.items()]
        lines.append("")
    for example in model.get("examples", [])[:1]:
        lines.append(f"```json\n{json.dumps(example, indent=1, ensure_ascii=False)}\n```\n")
    return "\n".join(lines)


def type_name(about: dict[str, Any]) -> str:
    """The type of a value: a model's name, a JSON type, or an array of one of them."""
    name = str(about.get("type") or about.get("$ref", "").rpartition("/")[2])
    inner = type_name(about["items"]) if name == "array" and "items" in about else ""
    return f"array of {inner}" if inner else name


def cell(about: dict[str, Any]) -> str:
    """The type and the description of a field, for a table's cell."""
    kinds = [about, *about.get("anyOf", [])]
    names = [type_name(kind) for kind in kinds]
    text = " ".join(str(about.get("description", "")).split()).replace("|", "\\|")
    return f"{' or '.join(name for name in names if name)}. {text}".strip()


def documented(thing: object) -> bool:
    """Whether it is a class or a function: aliases and constants have no docstring of their own."""
    return inspect.isclass(thing) or inspect.isfunction(thing)


def members(kind: type) -> Iterator[str]:
    """The public methods and properties that a class itself defines."""
    for name, member in vars(kind).items():
        found = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
        if name.startswith("_") or not inspect.isfunction(found):
            continue
        head = f"{name}" if isinstance(member, property) else signature(name, found)
        yield f"#### {name}\n\n```python\n{head}\n```\n\n{markdown_of(found)}\n"


def signature(name: str, thing: Any) -> str:
    """How it is called, types without their modules, one parameter a line where a line would be long."""
    try:
        found = inspect.signature(thing)
    except ValueError:  # a class of the standard library's making
        return name
    if inspect.isfunction(thing):
        found = as_written(thing, found)
    written = [str(parameter) for parameter in found.parameters.values() if parameter.name != "self"]
    back = "" if found.return_annotation is inspect.Signature.empty else f" -> {found.return_annotation}"
    line = short(f"{name}({', '.join(written)}){back}")
    if len(line) <= MOST_LETTERS:
        return line
    return short(f"{name}(\n    " + ",\n    ".join(written) + f",\n){back}")


class Words(str):
    """A type as its text, without quotation marks."""

    __slots__ = ()
    __repr__ = str.__str__


def as_written(thing: Any, found: inspect.Signature) -> inspect.Signature:
    """The signature with types as the source writes them: aliases by their names."""
    node = ast.parse(textwrap.dedent(inspect.getsource(thing))).body[0]
    types = {
        arg.arg: Words(ast.unparse(arg.annotation))
        for arg in ast.walk(node)
        if isinstance(arg, ast.arg) and arg.annotation
    }
    back = (
        Words(ast.unparse(node.returns))
        if isinstance(node, ast.FunctionDef) and node.returns
        else found.return_annotation
    )
    parameters = [one.replace(annotation=types.get(one.name, one.annotation)) for one in found.parameters.values()]
    return found.replace(parameters=parameters, return_annotation=back)


def short(text: str) -> str:
    """Types by their last names and by the names that the code gives them."""
    text = re.sub(r"<class '([^']+)'>", r"\1", text)
    text = re.sub(r"(?:[a-z_]+\.)+(?=[A-Za-z])", "", text)
    text = text.replace("ndarray[tuple[Any, ...], dtype[float64]]", "FloatArray")
    return text.replace("int | float | str | Fraction | Decimal", "Number")


def markdown_of(thing: Any) -> str:
    """A docstring as Markdown: sections as lists, examples fenced, formulas with bars and stars as they are written."""
    return "\n\n".join(part for block in blocks(inspect.getdoc(thing) or "") for part in markdown_block(block) if part)


def blocks(docstring: str) -> Iterator[str]:
    """The paragraphs of a docstring; a fence is one paragraph."""
    fences = re.split(r"(?ms)(^```.*?^```$)", docstring)
    for part in fences:
        yield from [part] if part.startswith("```") else part.strip("\n").split("\n\n")


def markdown_block(block: str) -> Iterator[str]:
    """One paragraph, section or example of a docstring as Markdown."""
    lines = block.split("\n")
    if block.startswith("```"):
        yield block
    elif SECTION.fullmatch(lines[0]):
        yield f"**{lines[0]}**"
        yield "\n".join(entries(lines[1:]))
    else:
        example = next((i for i, line in enumerate(lines) if line.lstrip().startswith(">>>")), len(lines))
        yield "\n".join(map(escaped, lines[:example]))
        if example < len(lines):
            yield "```pycon\n" + "\n".join(lines[example:]) + "\n```"


def entries(lines: list[str]) -> Iterator[str]:
    """The entries of a section as items of a list, each name as code."""
    for line in lines:
        name, colon, text = line.strip().partition(": ")
        if line.startswith("     "):
            yield "  " + escaped(line.strip())
        elif colon and re.fullmatch(r"\*{0,2}\w+", name):
            yield f"- `{name}`: {escaped(text)}"
        else:
            yield "- " + escaped(line.strip())


def escaped(text: str) -> str:
    """Text in which Markdown leaves stars, bars and signs as they are written; code stays."""

    def sign(match: re.Match[str]) -> str:
        code, mark = match.groups()
        return str(code or {"<": "&lt;"}.get(mark, f"\\{mark}"))

    return re.sub(r"(`[^`]*`)|([*_<])", sign, text)


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
