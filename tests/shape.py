"""What a reader of the package has to carry: public attributes of the classes that users hold, modules that one other
imports, Protocols without a choice, docstrings, and the same of the tests. Rows of `make sizes`.

    python -m tests.shape --docstrings 30 --seed 7    # a sample of docstrings to read
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.test_layering import PACKAGE, ROOT, Import, imports_of, module_name

#: The classes that users hold and extensions call, and the most public attributes that each should have. Documented
#: ones are names that users have, so their number is the least.
#: What keeps each above its aim (2026-11-29): all of `Server` and `Options` are documented; of `Model` all but its
#: name, version and server. Of `InferenceRequest` 23 are for senders and listeners. The other 14 are the engine's; an
#: object of their own for the 7 fields among them costs each request 0.1 us of 65, to make and to use it.
PUBLIC = {"InferenceRequest": 20, "Model": 25, "Server": 20, "Options": 32}
#: A module of fewer lines that only one other imports may be a part of that one.
SMALL = 60
#: The line of a program.
_MAIN = '\nif __name__ == "__main__":\n'
_PROTOCOL_BASES = ("Protocol", "typing.Protocol")

_COUNT_MODULES = "import sys, tritonlab; print(sum(name.split('.')[0] == 'tritonlab' for name in sys.modules))"


class Class(NamedTuple):
    """A class of the package: its module, the names of its bases as they are imported, its public attributes, and how
    many of its methods only pass on what they are called with. `documented`: the attributes with a docstring or a `#:`
    comment, or in the class's own docstring.
    """

    module: str
    name: str
    bases: tuple[str, ...]
    attributes: frozenset[str]
    passing: int
    is_protocol: bool
    documented: frozenset[str]


def classes(package: Path, root: Path) -> list[Class]:
    """Return the classes at the top of the package's modules."""
    found = []
    for path in sorted(package.rglob("*.py")):
        module = module_name(path, root)
        text = path.read_text(encoding="utf-8")
        tree, lines = ast.parse(text), text.splitlines()
        imported = {item.target.rpartition(".")[2]: item.target for item in imports_of(path, root)}
        for alias in (node for node in ast.walk(tree) if isinstance(node, ast.alias) and node.asname):
            if alias.name in imported:
                imported[alias.asname] = imported[alias.name]
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                bases = tuple(ast.unparse(base).partition("[")[0] for base in node.bases)
                resolved = tuple(_resolved(base, imported, module) for base in bases)
                is_protocol = any(base in _PROTOCOL_BASES for base in bases)
                attributes = _attributes(node)
                documented = frozenset(attributes & _documented(node, lines))
                found.append(Class(module, node.name, resolved, attributes, _passing(node), is_protocol, documented))
    return found


def _resolved(name: str, imported: dict[str, str], module: str) -> str:
    """Return the full name of a class that a module knows by `name`."""
    first, dot, rest = name.partition(".")
    return f"{imported[first]}{dot}{rest}" if first in imported else f"{module}.{name}"


def _attributes(node: ast.ClassDef) -> frozenset[str]:
    """Return the public names that a class defines or assigns to itself in its methods."""
    names: set[str] = set()
    for part in node.body:
        if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(part.name)
        elif isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
            names.add(part.target.id)
        elif isinstance(part, ast.Assign):
            names |= {target.id for target in part.targets if isinstance(target, ast.Name)}
    for inner in ast.walk(node):
        if isinstance(inner, ast.Attribute) and isinstance(inner.ctx, ast.Store) and ast.unparse(inner.value) == "self":
            names.add(inner.attr)
    return frozenset(name for name in names if not name.startswith("_"))


def _documented(node: ast.ClassDef, lines: Sequence[str]) -> set[str]:
    """Return the names of a class that its reference page has; `lines`: the text of its file."""
    names = set(re.findall(r"^ *(\w+(?:, \w+)*):", ast.get_docstring(node) or "", re.MULTILINE))
    found = {name for each in names for name in each.split(", ")}
    for inner in ast.walk(node):
        if isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef)) and ast.get_docstring(inner):
            found.add(inner.name)
        elif isinstance(inner, (ast.Assign, ast.AnnAssign)) and lines[inner.lineno - 2].strip().startswith("#:"):
            targets = inner.targets if isinstance(inner, ast.Assign) else [inner.target]
            found |= {ast.unparse(target).removeprefix("self.") for target in targets}
    return found


def _passing(node: ast.ClassDef) -> int:
    """Count the public methods that only return a call of something that the object has."""
    found = 0
    for method in node.body:
        if not isinstance(method, (ast.FunctionDef, ast.AsyncFunctionDef)) or method.name.startswith("_"):
            continue
        body = method.body[1:] if ast.get_docstring(method) is not None else method.body
        if len(body) == 1 and isinstance(body[0], (ast.Return, ast.Expr)):
            value = body[0].value
            value = value.value if isinstance(value, ast.Await) else value
            found += isinstance(value, ast.Call) and re.match(r"self(\.\w+){2,}$", ast.unparse(value.func)) is not None
    return found


class Face(NamedTuple):
    """The public attributes of a class and its bases, the documented ones, and how many methods only pass on."""

    attributes: frozenset[str] = frozenset()
    documented: frozenset[str] = frozenset()
    passing: int = 0


def whole(found: Iterable[Class], target: str) -> Face:
    """Return the public face of a class with those of its bases in the package."""
    by_name = {f"{each.module}.{each.name}": each for each in found}
    own = by_name.get(target)
    if own is None:
        return Face()
    face = Face(own.attributes, own.documented, own.passing)
    for base in own.bases:
        more = whole(by_name.values(), base)
        face = Face(
            face.attributes | more.attributes, face.documented | more.documented, face.passing + more.passing
        )
    return face


def one_importer(imports: Iterable[Import], package: Path, root: Path) -> list[tuple[str, int, str]]:
    """Return the small modules that only one other imports, with their lines and that one.

    One that another process runs as a program is a file for that: an editor starts a copy of `editor_adapter.py`.
    """
    importers: dict[str, set[str]] = {}
    for item in imports:
        if item.module != item.target:
            importers.setdefault(item.target, set()).add(item.module)
    found = []
    for path in sorted(package.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        lines, name = text.count("\n"), module_name(path, root)
        if path.name == "__init__.py" or _MAIN in text:
            continue
        if 0 < lines < SMALL and len(by := importers.get(name, set())) == 1:
            found.append((name, lines, *by))
    return found


def single_protocols(found: Iterable[Class]) -> list[tuple[str, list[str]]]:
    """Return the Protocols that at most one class of the package implements: inherits, or has all attributes of.

    One of a callable alone is left out: functions implement it.
    """
    found = list(found)
    result = []
    for each in found:
        if each.is_protocol and each.attributes:
            name = f"{each.module}.{each.name}"
            is_met = [
                other.name
                for other in found
                if not other.is_protocol
                and (name in other.bases or each.attributes <= whole(found, f"{other.module}.{other.name}").attributes)
            ]
            if len(is_met) <= 1:
                result.append((name, is_met))
    return result


def docstrings(package: Path, root: Path) -> list[tuple[str, str]]:
    """Return the docstrings of the package with their places."""
    found = []
    for path in sorted(package.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                continue
            if text := ast.get_docstring(node):
                name = getattr(node, "name", "")
                found.append((f"{path.relative_to(root)}:{getattr(node, 'lineno', 1)} {name}".rstrip(), text))
    return found


def rows_of_tests(tests: Path) -> list[str]:
    """Return the rows about the tests: lines, sleeps, stateful machines, transcripts."""
    lines = machines = own = 0
    in_models: Counter[str] = Counter()
    places = []
    for path in sorted(tests.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        lines += text.count("\n")
        try:
            tree = ast.parse(text)
        except SyntaxError:
            continue  # one that a check has to find
        before = own
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "sleep":
                if path.name.startswith("test_"):
                    places.append(f"{path.relative_to(tests.parent)}:{node.lineno} {ast.unparse(node)}")
                own += 1
            machines += isinstance(node, ast.ClassDef) and any("StateMachine" in ast.unparse(b) for b in node.bases)
        in_models[str(path)] = text.count("sleep(") - (own - before)
    transcripts = [path.read_text(encoding="utf-8") for path in sorted(tests.rglob("cases/*.md"))]
    cells = sum(len(re.findall(r"^```python", text, re.MULTILINE)) for text in transcripts)
    return [
        f"{lines} lines in {tests.name}/",
        f"sleeps in tests: {len(places)} in test files, {own} with tools and benchmarks, "
        f"{in_models.total()} in the text of models",
        *(f"    {place}" for place in places),
        f"stateful machines: {machines}; transcripts: {len(transcripts)} files, {cells} cells",
    ]


def changelog_row(text: str, version: str = "0.1.0") -> str:
    """Return the row about the notes of a release."""
    notes = text.partition(f"## [{version}]")[2].partition("\n## ")[0].partition("\n[")[0]
    lines = [line for line in notes.splitlines()[1:] if line.strip()]
    items = sum(line.startswith("- ") for line in lines)
    return f"notes of {version}: {items} items in {len(lines)} lines, {len(' '.join(lines).split())} words"


def start_row(root: Path) -> str:
    """Return the row about starting, measured in processes of their own; seconds are of a processor."""
    count = subprocess.run([sys.executable, "-c", _COUNT_MODULES], cwd=root, check=True, stdout=subprocess.PIPE)
    bare = _seconds(["-c", "pass"], root)
    imported = _seconds(["-c", "import tritonlab"], root)
    version = _seconds(["-m", "tritonlab", "--version"], root)
    return (
        f"import tritonlab: {int(count.stdout)} modules of ours, {imported - bare:.2f} s; "
        f"tritonlab --version: {version:.2f} s, of which Python {bare:.2f} s"
    )


def _seconds(arguments: list[str], root: Path) -> float:
    """Return the processor time of Python with these arguments: the least of three."""
    times = []
    for _ in range(3):
        before = os.times()
        subprocess.run([sys.executable, *arguments], cwd=root, check=True, stdout=subprocess.DEVNULL)
        after = os.times()
        used = after.children_user + after.children_system
        times.append(used - before.children_user - before.children_system)
    return min(times)


def rows(imports: Iterable[Import], root: Path = ROOT, package: Path = PACKAGE) -> Iterator[str]:
    """Yield the rows about the package."""
    found = classes(package, root)
    for name, aim in PUBLIC.items():
        for each in found:
            if each.name == name:
                face = whole(found, f"{each.module}.{name}")
                yield (
                    f"public attributes of {each.module}.{name}: {len(face.attributes)} (aim {aim}), "
                    f"{len(face.documented)} of them documented, {face.passing} methods only pass on"
                )
    small = one_importer(imports, package, root)
    yield f"modules of less than {SMALL} lines that one other imports: {len(small)}"
    yield from (f"    {lines}  {name}, by {importer}" for name, lines, importer in small)
    single = single_protocols(found)
    yield f"Protocols with at most one class: {len(single)}"
    yield from (f"    {name}: {', '.join(others) or 'none'}" for name, others in single)
    yield f"docstrings: {len(docstrings(package, root))}; a sample: python -m tests.shape --docstrings 120 --seed N"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--docstrings", type=int, default=30, metavar="N")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    texts = docstrings(PACKAGE, ROOT)
    for place, text in random.Random(arguments.seed).sample(texts, min(arguments.docstrings, len(texts))):
        sys.stdout.write(f"{place}\n{text}\n\n")


if __name__ == "__main__":
    main()
