"""The walls of the package: the size of a folder, circles of imports, and the places of type checks (`make check`).

    python tools/walls.py            folders, circles, type checks on closed families; exit code 1 for any fault
    python tools/walls.py --types    type checks on every family outside its one place

**Folders.** A folder holds at most 20 modules of its own; `__init__.py` does not count.

**Circles.** Module A imports module B when a statement anywhere in A names B: at the top, in a function, in a class, or under
TYPE_CHECKING. `from neartwin.room import name` names the module `neartwin.room.name` where there is one, and otherwise the face
`neartwin/room/__init__.py`. The face in turn imports whatever its own statements name, so a circle through a face is seen.
The modules that a face opens at first use count as its imports: each string of an `__init__.py` that is a module's full name.
So does the string that any module gives to `import_module`. `from neartwin.room.part import name` names `neartwin.room.part`
alone. Python does run the room's face first. But an edge to it would forbid a face that collects its own room's names.

**Type checks.** A family is a set of classes: those below its roots in FAMILIES and all their subclasses. A type check is
`isinstance`, `issubclass`, a comparison of `type(x)` or `x.__class__`, a class pattern of `match`, a registration of
`singledispatch`, or a dictionary with classes as keys. Each family has one file that may ask; every other value is asked by
a method. Names are followed through imports, faces, unions (`Plan = GroupPlan | ChoicePlan`) and tuples.
"""

import ast
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path

MOST_FILES = 20
SOURCE = Path(__file__).parent.parent / "src"


@dataclass(frozen=True, slots=True)
class Family:
    """Classes that no code outside one file may tell apart.

    Attributes:
        name: Its name in a message.
        roots: Dotted names of classes, unions of classes, modules and packages. The last two stand for their classes.
        place: The one file that may ask for the type, relative to the source folder.
        closed: Whether a check elsewhere is a fault. Others are listed by `--types` until none is left.
    """

    name: str
    roots: tuple[str, ...]
    place: str
    closed: bool = False


FAMILIES = (
    Family("statistics", ("neartwin.statistics.base.Statistic",), "neartwin/queries/query.py", closed=True),
    Family(
        "plans",
        ("neartwin.planning.plan.Plan", "neartwin.planning.planner.SeriesPlan"),
        "neartwin/planning/groups.py",
        closed=True,
    ),
    Family("mechanisms", ("neartwin.mechanisms",), "neartwin/mechanisms/noise_laws.py", closed=True),
    Family("summands", ("neartwin.losses.summands.base.Summand",), "neartwin/losses/composition.py", closed=True),
)


@dataclass(frozen=True)
class Module:
    """One file of the package."""

    name: str
    path: Path
    tree: ast.Module

    @property
    def is_face(self) -> bool:
        """Whether the file is the face of a package."""
        return self.path.name == "__init__.py"

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """Every node of its syntax tree."""
        return tuple(ast.walk(self.tree))

    @property
    def package(self) -> str:
        """The package from which its relative imports start."""
        return self.name if self.is_face else self.name.rpartition(".")[0]

    def base(self, node: ast.ImportFrom) -> str:
        """The full name after `from`."""
        if not node.level:
            return node.module or ""
        up = self.package.split(".")
        kept = up[: len(up) - (node.level - 1)]
        return ".".join([*kept, *([node.module] if node.module else [])])


def read(source: Path) -> dict[str, Module]:
    """Every module below a folder, by full name."""
    found = {}
    for path in sorted(source.rglob("*.py")):
        parts = path.relative_to(source).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = Module(name, path, ast.parse(path.read_text(encoding="utf-8"), str(path)))
    return found


def full_folders(source: Path, most: int = MOST_FILES) -> list[str]:
    """One line for each folder with too many modules of its own."""
    counts = Counter(path.parent for path in source.rglob("*.py") if path.name != "__init__.py")
    return [
        f"{folder.relative_to(source).as_posix()}: {count} files, at most {most}"
        for folder, count in sorted(counts.items())
        if count > most
    ]


def imports(modules: Mapping[str, Module]) -> dict[str, dict[str, int]]:
    """The modules that each module imports, with the line of the first import."""
    edges: dict[str, dict[str, int]] = {name: {} for name in modules}
    for module in modules.values():
        for target, line in _named(module, modules):
            if target in modules and target != module.name:
                edges[module.name].setdefault(target, line)
    return edges


def _named(module: Module, modules: Mapping[str, Module]) -> Iterator[tuple[str, int]]:
    for node in module.nodes:
        match node:
            case ast.Import(names=names):
                yield from ((alias.name, node.lineno) for alias in names)
            case ast.ImportFrom(names=names):
                base = module.base(node)
                for alias in names:
                    inner = f"{base}.{alias.name}"
                    yield inner if inner in modules else base, node.lineno
                    if inner in modules and alias.name in _bound(modules.get(base)):
                        yield base, node.lineno  # the face has a name of its own that hides the module
            case ast.Constant(value=str(text)) if module.is_face and "." in text:
                yield text, node.lineno
            case ast.Call(
                func=ast.Name(id=called) | ast.Attribute(attr=called), args=[ast.Constant(value=str(text)), *_]
            ):
                if called in {"import_module", "__import__"}:
                    yield module.package + text if text.startswith(".") else text, node.lineno


def _bound(face: Module | None) -> set[str]:
    """The names that the face of a package takes from elsewhere."""
    if face is None:
        return set()
    return {
        alias.asname or alias.name
        for node in face.tree.body
        if isinstance(node, ast.ImportFrom) and face.base(node) != face.name
        for alias in node.names
    }


def circles(edges: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """Groups of modules that reach each other, largest first.

    Two sweeps in depth, along the imports and against them in the reverse order of leaving (Kosaraju 1978).
    """
    against: dict[str, list[str]] = {name: [] for name in edges}
    for name, targets in edges.items():
        for target in targets:
            against[target].append(name)
    left = [name for group in _swept(edges, edges) for name in group]
    groups = _swept(against, reversed(left))
    return sorted((sorted(group) for group in groups if len(group) > 1), key=lambda group: (-len(group), group))


def _swept(edges: Mapping[str, Iterable[str]], starts: Iterable[str]) -> list[list[str]]:
    """What each start reaches and no earlier start did, in the order of leaving."""
    seen: set[str] = set()
    groups = []
    for start in starts:
        if start in seen:
            continue
        seen.add(start)
        group = []
        walk = [(start, iter(edges[start]))]
        while walk:
            node, targets = walk[-1]
            following = next((target for target in targets if target not in seen), None)
            if following is None:
                group.append(node)
                walk.pop()
            else:
                seen.add(following)
                walk.append((following, iter(edges[following])))
        groups.append(group)
    return groups


def shortest_circle(edges: Mapping[str, Iterable[str]], group: Iterable[str]) -> list[str]:
    """A circle of the fewest modules within a group, its first module repeated at its end."""
    inside = set(group)
    ways = (_way_back(edges, inside, start) for start in sorted(inside))
    return min((way for way in ways if way), key=len)


def _way_back(edges: Mapping[str, Iterable[str]], inside: set[str], start: str) -> list[str]:
    """The shortest way from a module to itself."""
    before: dict[str, str] = {}
    queue = [start]
    while queue and start not in before:
        reached = []
        for node in queue:
            for target in edges[node]:
                if target in inside and target not in before:
                    before[target] = node
                    reached.append(target)
        queue = reached
    way = [start]
    while start in before and (len(way) == 1 or way[-1] != start):
        way.append(before[way[-1]])
    return way[::-1]


def import_circles(modules: Mapping[str, Module]) -> list[str]:
    """One line for each circle of imports: its size, and a shortest way round with lines."""
    edges = imports(modules)
    lines = []
    for group in circles(edges):
        way = shortest_circle(edges, group)
        steps = [f"{one}:{edges[one][two]}" for one, two in pairwise(way)]
        lines.append(f"circle of {len(group)} files: {' > '.join([*steps, way[-1]])}")
    return lines


class Names:
    """The meaning of names: classes by full name, followed through imports, faces, unions and tuples."""

    def __init__(self, modules: Mapping[str, Module]) -> None:
        self.modules = modules
        self.imported = {name: dict(self._imports_of(module)) for name, module in modules.items()}
        self.classes: dict[str, ast.ClassDef] = {}
        self.values: dict[str, ast.expr] = {}
        for module in modules.values():
            for node in module.nodes:
                match node:
                    case ast.ClassDef(name=name):
                        self.classes[f"{module.name}.{name}"] = node
                    case (
                        ast.Assign(targets=[ast.Name(id=name)], value=value)
                        | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
                    ):
                        self.values.setdefault(f"{module.name}.{name}", value)
        self.children: dict[str, set[str]] = defaultdict(set)
        for full, node in self.classes.items():
            home = full.rpartition(".")[0]
            for base in node.bases:
                bare = base.value if isinstance(base, ast.Subscript) else base
                for parent in self.meaning(bare, home):
                    self.children[parent].add(full)

    def _imports_of(self, module: Module) -> Iterator[tuple[str, str]]:
        for node in module.nodes:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield (alias.asname, alias.name) if alias.asname else (alias.name.partition(".")[0],) * 2
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    yield alias.asname or alias.name, f"{module.base(node)}.{alias.name}"
            elif module.is_face and isinstance(node, ast.Dict):  # names that are imported at first use
                for key, value in zip(node.keys, node.values, strict=True):
                    match key, value:
                        case ast.Constant(value=str(name)), ast.Constant(value=str(home)) if home in self.modules:
                            yield name, f"{home}.{name}"

    def meaning(self, node: ast.expr, home: str) -> set[str]:
        """The full names of the classes that an expression of a module stands for."""
        return self._classes_of(node, home, frozenset())

    def _classes_of(self, node: ast.expr, home: str, seen: frozenset[str]) -> set[str]:
        match node:
            case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
                return set().union(*(self._classes_of(part, home, seen) for part in parts))
            case ast.BinOp(left=left, right=right):
                return self._classes_of(left, home, seen) | self._classes_of(right, home, seen)
            case ast.Starred(value=inner):
                return self._classes_of(inner, home, seen)
            case ast.Call(func=ast.Name(id="get_args" | "tuple" | "frozenset" | "set"), args=[inner, *_]):
                return self._classes_of(inner, home, seen)
            case ast.Subscript(value=ast.Name(id="Union"), slice=inner):
                return self._classes_of(inner, home, seen)
            case ast.Constant(value=str(text)) if text.isidentifier():
                return self._named(f"{home}.{text}", seen)
            case ast.Name(id=name):
                return self._named(f"{home}.{name}", seen)
            case ast.Attribute(value=ast.expr() as owner, attr=attr):
                full = _dotted(owner)
                if full is None:
                    return set()
                first, _, rest = full.partition(".")
                start = self.imported[home].get(first, f"{home}.{first}")
                return self._named(".".join(filter(None, (start, rest, attr))), seen)
            case _:
                return set()

    def _named(self, full: str, seen: frozenset[str]) -> set[str]:
        if full in seen:
            return set()
        seen |= {full}
        if full in self.classes:
            return {full}
        home, _, name = full.rpartition(".")
        if full in self.values:
            return self._classes_of(self.values[full], home, seen)
        if home in self.imported and name in self.imported[home]:
            return self._named(self.imported[home][name], seen)
        return set()

    def family(self, roots: Iterable[str]) -> set[str]:
        """Every class below some roots, subclasses of other modules among them."""
        found: set[str] = set()
        for root in roots:
            inside = {full for full in self.classes if root in self.modules and full.startswith(f"{root}.")}
            below = inside or self._named(root, frozenset())
            if not below:
                raise SystemExit(f"walls: FAMILIES names {root}, and no class has that name")
            found |= below
        queue = list(found)
        while queue:
            for child in self.children[queue.pop()] - found:
                found.add(child)
                queue.append(child)
        return found


def _dotted(node: ast.expr) -> str | None:
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=owner, attr=attr):
            before = _dotted(owner)
            return before and f"{before}.{attr}"
        case _:
            return None


def _is_type_of(node: ast.expr) -> bool:
    match node:
        case ast.Call(func=ast.Name(id="type"), args=[_]) | ast.Attribute(attr="__class__"):
            return True
        case ast.Attribute(value=inner, attr="__name__" | "__qualname__"):
            return _is_type_of(inner)
        case _:
            return False


def askers(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """The expressions that one node of a syntax tree tells types apart by, each with the word for how."""
    match node:
        case ast.Call(func=ast.Name(id="isinstance" | "issubclass" as word), args=[_, kinds]):
            yield word, kinds
        case ast.Compare(left=left, comparators=others) if any(_is_type_of(side) for side in (left, *others)):
            yield from (("type()", side) for side in (left, *others) if not _is_type_of(side))
        case ast.MatchClass(cls=kind):
            yield "case", kind
        case ast.Dict(keys=keys):
            yield from (("dictionary of classes", key) for key in keys if isinstance(key, ast.Name | ast.Attribute))
        case ast.FunctionDef(decorator_list=decorators, args=ast.arguments(args=parameters)):
            for decorator in decorators:
                match decorator:
                    case ast.Call(func=ast.Attribute(attr="register"), args=[kind, *_]):
                        yield "register", kind
                    case ast.Attribute(attr="register") if parameters and parameters[0].annotation is not None:
                        yield "register", parameters[0].annotation


def type_checks(
    modules: Mapping[str, Module], families: Sequence[Family] = FAMILIES, source: Path = SOURCE
) -> list[str]:
    """One line for each type check on a family outside its place."""
    for family in families:
        if not (source / family.place).exists():
            raise SystemExit(f"walls: FAMILIES names {family.place}, and there is no such file")
    names = Names(modules)
    members = [(family, names.family(family.roots)) for family in families]
    lines = []
    for module in modules.values():
        path = module.path.relative_to(source).as_posix()
        for node in module.nodes:
            for word, expression in askers(node):
                kinds = names.meaning(expression, module.name)
                for family, classes in members:
                    if path != family.place and (checks := sorted(kind.rpartition(".")[2] for kind in kinds & classes)):
                        lines.append(
                            f"{path}:{expression.lineno}: {family.name}: {word} {', '.join(checks)}; ask in {family.place}"
                        )
    return lines


def main(arguments: Sequence[str]) -> int:
    """Print every fault; 1 where there is one."""
    modules = read(SOURCE)
    if "--types" in arguments:
        faults = type_checks(modules)
        files = {(line.split(": ")[1], line.partition(":")[0]) for line in faults}
        counts = Counter(family for family, _ in files)
        faults += [f"{family}: asked in {counts[family]} files beside its place" for family in sorted(counts)]
    else:
        closed = [family for family in FAMILIES if family.closed]
        faults = full_folders(SOURCE) + import_circles(modules) + type_checks(modules, closed)
    print("\n".join(faults) or "walls: fine")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
