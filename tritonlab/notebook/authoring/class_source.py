"""A model.py made from a class of a notebook or module, or from a source with definitions of other cells first."""

from __future__ import annotations

import ast
import builtins
import dis
import inspect
import linecache
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from ...core.source.source_file import SourceFile
from ...core.source.undefined_names import undefined_names
from .errors import SourceError
from .source_map import Segment, whole

CLASS_NAME = "TritonPythonModel"  # rule 2.1.3
_LITERAL_LIMIT = 100_000  # characters of repr: a larger constant is data and belongs in a file


def model_file_of(cls: type) -> tuple[str, tuple[Segment, ...]]:
    """Return the text of a model.py that defines `cls` as TritonPythonModel, and the origins of its lines.

    A class of an importable module brings its whole file. A class of a notebook brings its own source and the imports,
    functions and classes (their sources) and plain constants (their values) that it uses. Raises SourceError for any
    other value that it uses, such as a trained network: a model.py has to load that itself.
    """
    module = sys.modules.get(cls.__module__)
    path = getattr(module, "__file__", None)
    alias = "" if cls.__name__ == CLASS_NAME else f"\n\n{CLASS_NAME} = {cls.__name__}\n"
    if path is not None and cls.__module__ != "__main__" and cls.__qualname__ == cls.__name__:
        text = Path(path).read_text(encoding="utf-8")
        return text + alias, whole(text, str(path), 0)
    assembled = Assembler(vars(module) if module is not None else {}, cls.__module__)
    assembled.add(cls.__name__, cls)
    return assembled.text(alias)


class Assembler:
    """The pieces of one model.py: import lines, constants, and sources in the order of their use."""

    def __init__(self, namespace: dict[str, Any], module: str) -> None:
        self._namespace = namespace
        self._module = module
        self._imports: list[str] = []
        self._constants: list[str] = []
        self._sources: list[tuple[str, str, int]] = []  # text, origin or "", its first line there
        self._seen: set[str] = set()

    def add(self, name: str, value: Any, used_by: str = "") -> None:
        if name in self._seen:
            return
        self._seen.add(name)
        if isinstance(value, ModuleType):
            plain = value.__name__ == name
            self._imports.append(f"import {value.__name__}" + ("" if plain else f" as {name}"))
        elif isinstance(value, (type, FunctionType)) and value.__module__ == self._module:
            self._add_source(value)
            if value.__name__ != name:
                self._sources.append((f"{name} = {value.__name__}\n", "", 0))
        elif (line := _import_line(name, value)) is not None:
            self._imports.append(line)
        elif (text := _literal(value)) is not None:
            self._constants.append(f"{name} = {text}")
        else:
            kind = f"{type(value).__module__}.{type(value).__qualname__}"
            raise SourceError(
                f"{used_by} uses the notebook's variable {name!r} (a {kind}), which a model.py cannot carry. "
                f"Save it to a file, give it with files=[...], and load it in initialize(); %triton artifact does both."
            )

    def _add_source(self, value: Any) -> None:
        text, origin, first = _source_of(value)
        for name in _global_names(textwrap.dedent(text)):
            if name in self._namespace and name != value.__name__:
                self.add(name, self._namespace[name], used_by=value.__name__)
        self._sources.append((textwrap.dedent(text).rstrip() + "\n", origin, first))

    def text(self, ending: str) -> tuple[str, tuple[Segment, ...]]:
        """Return the text of a model.py of these pieces and `ending`, and the origins of its lines."""
        head, segments = self.head(3)
        return "from __future__ import annotations\n\n" + head + ending, segments

    def head(self, line: int) -> tuple[str, tuple[Segment, ...]]:
        """Return the text of these pieces, which begins at that line of a file, and the origins of its lines."""
        head = "".join(f"{line}\n" for line in sorted(self._imports))
        head += "\n" + "".join(f"{line}\n" for line in self._constants) if self._constants else ""
        segments = []
        for source, origin, first in self._sources:
            head += "\n\n"
            start = head.count("\n") + line
            if origin:
                segments.append(Segment(start, start + source.count("\n") - 1, origin, first - start))
            head += source
        return head, tuple(segments)


def _source_of(value: Any) -> tuple[str, str, int]:
    """Return (text, name of its file, first line) of a function or class, which may be defined in a cell."""
    function = value if isinstance(value, FunctionType) else _first_method(value)
    if function is None:
        raise SourceError(
            f"the class {value.__name__} has no methods, by which to find it: give load() its text or a path"
        )
    file = function.__code__.co_filename
    lines = linecache.getlines(file)
    try:
        tree = ast.parse("".join(lines))
    except SyntaxError as error:
        raise SourceError(f"the source of {value.__name__} in {file} is not plain Python: {error}") from None
    wanted = ast.FunctionDef if isinstance(value, FunctionType) else ast.ClassDef
    code_line = function.__code__.co_firstlineno
    for node in ast.walk(tree):
        if isinstance(node, (wanted, ast.AsyncFunctionDef)) and node.name == value.__name__:
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            if first <= code_line <= (node.end_lineno or first):
                return "".join(lines[first - 1 : node.end_lineno]), file, first
    raise SourceError(f"the source of {value.__name__} is not to be found; give load() its text or a path")


def _first_method(cls: type) -> FunctionType | None:
    for member in vars(cls).values():
        function = inspect.unwrap(getattr(member, "__func__", member))
        if isinstance(function, FunctionType) and function.__module__ == cls.__module__:
            return function
    return None


def _global_names(text: str) -> Iterator[str]:
    """Return the global names that `text` reads when it runs; a local of a notebook variable's name does not count."""
    codes = [compile(text, "<source>", "exec", dont_inherit=True)]
    seen: set[str] = set()
    while codes:
        code = codes.pop()
        codes.extend(constant for constant in code.co_consts if isinstance(constant, CodeType))
        instructions = list(dis.get_instructions(code))
        stored = {i.argval for i in instructions if i.opname == "STORE_NAME"}
        for instruction in instructions:
            name = instruction.argval
            if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME") and name not in stored | seen:
                seen.add(name)
                if not hasattr(builtins, name):
                    yield name


def _import_line(name: str, value: Any) -> str | None:
    """Return `from m import x [as name]`, if that line gives `value` in a process with only the libraries."""
    module, original = getattr(value, "__module__", None), getattr(value, "__name__", None)
    if not isinstance(module, str) or not isinstance(original, str) or module in ("__main__", "builtins"):
        return None
    if getattr(sys.modules.get(module), original, None) is not value:
        return None
    return f"from {module} import {original}" + ("" if original == name else f" as {name}")


def _literal(value: Any) -> str | None:
    text = repr(value)
    if len(text) > _LITERAL_LIMIT:
        return None
    try:
        return text if ast.literal_eval(text) == value else None
    except (ValueError, SyntaxError, TypeError, MemoryError):
        return None


def with_captured_names(
    text: str, segments: Sequence[Segment], namespace: Mapping[str, Any], file: str
) -> tuple[str, tuple[Segment, ...]]:
    """Return the text of a model.py, preceded by the imports, constants, functions and classes of `namespace` that it
    uses and does not define, and the origins of its lines.

    They follow the docstring and the imports from `__future__`. Names that are not in the namespace are kept as they
    are. Raises SourceError for a value that a model.py cannot carry.
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return text, tuple(segments)  # the load reports the fault
    assembled = Assembler(dict(namespace), str(namespace.get("__name__", "__main__")))
    wanted = [name for name in undefined_names(SourceFile(file, text, tree)) if name in namespace]
    if not wanted:
        return text, tuple(segments)
    for name in wanted:
        assembled.add(name, namespace[name], used_by=file)
    lines = text.splitlines(keepends=True)
    before = _last_line_of_the_beginning(tree)
    if before and not lines[before - 1].endswith("\n"):
        lines[before - 1] += "\n"
    head, captured = assembled.head(before + 1)
    added = head + "\n\n"
    count = added.count("\n")
    moved = [part for each in segments for part in _moved(each, before, count)]
    return "".join([*lines[:before], added, *lines[before:]]), (*captured, *moved)


def _last_line_of_the_beginning(tree: ast.Module) -> int:
    """Return the last line of the docstring and of the imports from `__future__`; 0 if there are none."""
    last = 0
    for number, node in enumerate(tree.body):
        is_docstring = number == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if not is_docstring and not (isinstance(node, ast.ImportFrom) and node.module == "__future__"):
            break
        last = node.end_lineno or last
    return last


def _moved(segment: Segment, before: int, count: int) -> list[Segment]:
    """Return the parts of a segment before and after `count` lines that are inserted after line `before`."""
    parts = []
    if segment.first <= before:
        parts.append(replace(segment, last=min(segment.last, before)))
    if segment.last > before:
        first = max(segment.first, before + 1)
        parts.append(replace(segment, first=first + count, last=segment.last + count, offset=segment.offset - count))
    return parts
