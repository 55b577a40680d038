"""How large the package is, and what holds it together: `python -m tests.sizes` prints the table.

Counts lines of files, functions and classes, circles of imports (those for type checkers too), calls upward that no
import at the head of a file shows, and uses of other packages' private names, file by file; these are read from the
sources. `tests/shape.py` has the rows about public attributes, Protocols, small modules, docstrings and tests; the walk
of a cell and the time of a start are measured in processes of their own (`tests/walks.py`).
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from tests import shape, walks
from tests.test_layering import LAZY, PACKAGE, ROOT, Import, imports_of, own_imports

#: Names that begin with an underscore and are documented, public ones of the standard library.
DOCUMENTED = {"os._exit", "sys._getframe", "sys._current_frames"}
#: The same of objects: what a NamedTuple has.
DOCUMENTED_ATTRIBUTES = {"_asdict", "_fields", "_make", "_replace"}

#: What a library looks for on classes, and nothing else offers: IPython's protocol of tracebacks.
PROTOCOLS = {"'_render_traceback_'"}

#: Lines of a file, of a function and of a class that are a hint to look whether a noun is missing. Only that of
#: functions is a limit: as one, the others had cut what belongs together into 39 files of less than 60 lines.
HINTS = {"files": 400, "functions": 60, "classes": 200}
#: What the house does without.
TOOLS = tuple(f"tritonlab/{name}" for name in ("tools/", "tritonserver/", "dynamo/", "ray/"))
#: Positional arguments of a call that a reader has to look up, and so many that each call is listed.
POSITIONAL, TOO_MANY = 5, 7


class Size(NamedTuple):
    """The lines of a file, function or class, and where it is."""

    lines: int
    name: str


class Use(NamedTuple):
    """A private name of another package, and the line that uses it."""

    file: str
    line: int
    name: str


def measured(path: Path, root: Path) -> dict[str, list[Size]]:
    """Return the sizes in one file, by kind."""
    text = path.read_text(encoding="utf-8")
    place = str(path.relative_to(root))
    found: dict[str, list[Size]] = {"files": [Size(text.count("\n"), place)], "functions": [], "classes": []}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            kind = "classes" if isinstance(node, ast.ClassDef) else "functions"
            assert node.end_lineno is not None
            lines = node.end_lineno - node.lineno + 1
            if kind == "functions" and (text_of := ast.get_docstring(node, clean=False)) is not None:
                lines -= text_of.count("\n") + 1  # a line for each argument is no reason to cut a function
            found[kind].append(Size(lines, f"{place}:{node.lineno} {node.name}"))
    return found


def circles(items: Iterable[Import]) -> list[list[str]]:
    """Return the sets of modules that import each other, directly or not. Imports for type checkers and those inside
    functions count."""
    graph: dict[str, set[str]] = {}
    for item in items:
        if item.module != item.target:
            graph.setdefault(item.module, set()).add(item.target)
    reached = {module: _reach(graph, module) for module in graph}
    found: list[list[str]] = []
    for module in sorted(graph):
        circle = sorted(other for other in reached[module] if module in reached.get(other, ()))
        if circle and circle not in found:
            found.append(circle)
    return found


def _reach(graph: dict[str, set[str]], module: str) -> set[str]:
    seen: set[str] = set()
    left = [module]
    while left:
        for target in graph.get(left.pop(), ()):
            if target not in seen:
                seen.add(target)
                left.append(target)
    return seen


def private_uses(path: Path, root: Path) -> Iterator[Use]:
    """Yield the private names of other packages that a file imports, or reads from a module that it imports."""
    place = str(path.relative_to(root))
    tree = ast.parse(path.read_text(encoding="utf-8"))
    modules: dict[str, str] = {}
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
            modules |= {(alias.asname or alias.name).split(".")[0]: alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            modules |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
        line = getattr(node, "lineno", 0)
        yield from (Use(place, line, name) for name in names if _is_private(name) and not _is_ours(name))
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            name = f"{modules.get(node.value.id, '')}.{node.attr}"
            if node.value.id in modules and _is_private(name) and not _is_ours(name):
                yield Use(place, node.lineno, name)


def private_attributes(paths: Sequence[Path], root: Path) -> Iterator[Use]:
    """Yield the private attributes read of objects that none of these files defines, so they are others'."""
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in paths}
    ours = set(DOCUMENTED_ATTRIBUTES)
    for node in (node for tree in trees.values() for node in ast.walk(tree)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            ours.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            ours.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            ours.add(node.attr)
        elif isinstance(node, ast.ImportFrom):
            ours |= {alias.name for alias in node.names}
    for path, tree in trees.items():
        for node in ast.walk(tree):
            name = _attribute_read(node)
            if name not in ours and _is_private(name):
                yield Use(str(path.relative_to(root)), getattr(node, "lineno", 0), f"….{name}")


def _attribute_read(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        module = node.value.id if isinstance(node.value, ast.Name) else ""
        return "" if f"{module}.{node.attr}" in DOCUMENTED else node.attr
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "getattr":
        name = node.args[1]
        return name.value if isinstance(name, ast.Constant) and isinstance(name.value, str) else ""
    return ""


def _is_private(name: str) -> bool:
    parts = [part for part in name.split(".") if part != "_"]
    return name not in DOCUMENTED and any(part.startswith("_") and not part.startswith("__") for part in parts)


def _is_ours(name: str) -> bool:
    """Return whether a name is this package's, or the stub's own, which are found by path; `__future__` is nobody's."""
    return name.split(".")[0] in {"tritonlab", "_pb_stub", "c_python_backend_utils", "__future__"}


def late_imports(items: Iterable[Import]) -> list[Use]:
    """Return imports of our own modules inside functions. Those in LAZY are for import time; there are no others."""
    return [Use(item.module, item.line, item.target) for item in items if item.in_function]


def assigned_from_elsewhere(path: Path, root: Path) -> Iterator[Use]:
    """Yield the attributes of classes of other packages of ours that a file assigns, so that they are called upward."""
    place, package = str(path.relative_to(root)), path.relative_to(root).parts[1]
    tree = ast.parse(path.read_text(encoding="utf-8"))
    classes: set[str] = set()
    for item in imports_of(path, root):
        name = item.target.rpartition(".")[2]
        parts = item.target.split(".")
        if parts[0] == "tritonlab" and len(parts) > 2 and parts[1] != package and name[:1].isupper():
            classes.add(name)
    for node in ast.walk(tree):
        for target in node.targets if isinstance(node, ast.Assign) else ():
            if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id in classes:
                yield Use(place, target.lineno, f"{target.value.id}.{target.attr}")
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "setattr":
            owner = node.args[0]
            name = ast.unparse(node.args[1])
            if isinstance(owner, ast.Name) and owner.id in classes and name not in PROTOCOLS:
                yield Use(place, node.lineno, f"{owner.id}.{name}")


def long_calls(path: Path, root: Path) -> Iterator[Use]:
    """Yield the calls with so many positional arguments that a reader has to look up what each of them is."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and len(node.args) >= POSITIONAL:
            name = ast.unparse(node.func).partition("(")[0]
            if not any(isinstance(argument, ast.Starred) for argument in node.args):
                yield Use(str(path.relative_to(root)), node.lineno, f"{name} ({len(node.args)})")


def _is_too_long(call: Use) -> bool:
    return int(call.name.rpartition("(")[2].rstrip(")")) >= TOO_MANY


def over(sizes: Sequence[Size], hint: int) -> list[Size]:
    return sorted((size for size in sizes if size.lines > hint), reverse=True)


def table(root: Path = ROOT, package: Path = PACKAGE) -> str:
    """Return the whole table as text."""
    sizes: dict[str, list[Size]] = {kind: [] for kind in HINTS}
    uses: list[Use] = []
    assigned: list[Use] = []
    calls: list[Use] = []
    for path in sorted(package.rglob("*.py")):
        for kind, found in measured(path, root).items():
            sizes[kind] += found
        uses += private_uses(path, root)
        assigned += assigned_from_elsewhere(path, root)
        calls += long_calls(path, root)
    uses += private_attributes(sorted(package.rglob("*.py")), root)
    house = sum(size.lines for size in sizes["files"] if not size.name.startswith(TOOLS))
    lines = [f"{sum(size.lines for size in sizes['files'])} lines in {package.name}/, {house} without its tools"]
    for kind, hint in HINTS.items():
        numbers = [size.lines for size in sizes[kind] if size.lines] or [0]
        large = over(sizes[kind], hint)
        lines.append(
            f"{kind}: {len(numbers)}, median {median(numbers):.0f} lines, longest {max(numbers)}, "
            f"{len(large)} over {hint}"
        )
        lines += [f"    {size.lines}  {size.name}" for size in large]
    imports = own_imports(root, package)
    late = late_imports(imports)
    lines.append(f"imports of our own modules inside a function: {len(late)}, {len(LAZY)} pairs listed as LAZY")
    lines += [f"    {use.file}:{use.line} {use.name}" for use in late]
    lines.append(f"class attributes assigned from another package: {len(assigned)}")
    lines += [f"    {use.file}:{use.line} {use.name}" for use in assigned]
    most = [call for call in calls if _is_too_long(call)]
    lines.append(
        f"calls with {POSITIONAL} or more positional arguments: {len(calls)}, with {TOO_MANY} or more: {len(most)}"
    )
    lines += [f"    {use.file}:{use.line} {use.name}" for use in most]
    rounds = circles(imports)
    lines.append(f"circles of imports: {len(rounds)}")
    lines += [f"    {' '.join(circle)}" for circle in rounds]
    lines.append(f"private names of other packages: {len(uses)} in {len({use.file for use in uses})} files")
    lines += [f"    {use.file}:{use.line} {use.name}" for use in uses]
    lines += shape.rows(imports, root, package)
    return "\n".join(lines)


if __name__ == "__main__":
    notes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    rows = [table(), *shape.rows_of_tests(ROOT / "tests"), shape.changelog_row(notes), shape.start_row(ROOT)]
    sys.stdout.write("\n".join([*rows, walks.row()]) + "\n")
