"""The global names that a file of the author reads and does not define."""

from __future__ import annotations

import ast
import builtins
import re
import symtable
from collections.abc import Iterator

from .guards import guarded
from .source_file import SourceFile

#: The names that every module has.
_MODULE_NAMES = {"__file__", "__name__", "__doc__", "__package__", "__spec__", "__loader__", "__path__", "__builtins__"}
_MODULE_NAMES |= {"__annotations__", "__cached__", "__dict__", "__debug__", "__class__"}
#: The additional names in the body of a class.
_MODULE_NAMES |= {"__module__", "__qualname__"}


def undefined_names(source: SourceFile) -> dict[str, int]:
    """Return the global names that a file reads and does not define, with the first line of each."""
    defined = defined_names(source)
    if source.tree is None or defined is None:
        return {}
    top = symtable.symtable(source.text, source.path, "exec")
    read = {s.get_name() for s in top.get_symbols() if s.is_referenced()}
    for table in _below(top):
        for symbol in table.get_symbols():
            if symbol.is_declared_global() and (symbol.is_assigned() or symbol.is_imported()):
                defined.add(symbol.get_name())
            if symbol.is_global() and symbol.is_referenced():
                read.add(symbol.get_name())
    missing = {name for name in read - defined - _MODULE_NAMES if not hasattr(builtins, name)}
    not_run = guarded(source.tree, "NameError") | _annotations_of_locals(source.tree)
    lines: dict[str, int] = {}
    for node in ast.walk(source.tree) if missing else ():
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in missing and node not in not_run:
            lines[node.id] = min(node.lineno, lines.get(node.id, node.lineno))
    return dict(sorted(lines.items(), key=lambda each: each[1]))


def defined_names(source: SourceFile) -> set[str] | None:
    """Return the global names that a file defines; None if some of them are not spelled out."""
    if source.tree is None or _defines_unseen(source.tree):
        return None
    top = symtable.symtable(source.text, source.path, "exec")
    defined = {s.get_name() for s in top.get_symbols() if s.is_assigned() or s.is_imported() or s.is_namespace()}
    for table in _below(top):
        defined |= {s.get_name() for s in table.get_symbols() if s.is_declared_global() and s.is_assigned()}
    return defined


def _below(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    for child in table.get_children():
        yield child
        yield from _below(child)


def _defines_unseen(tree: ast.Module) -> bool:
    """Return whether names are defined that the source does not spell out: by `import *`, or through `globals()`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names):
            return True
        is_target = isinstance(node, (ast.Subscript, ast.Attribute)) and isinstance(node.ctx, ast.Store)
        if (is_target or isinstance(node, ast.Call)) and _UNSEEN.match(ast.unparse(node)):
            return True
        if isinstance(node, ast.Assign) and ast.unparse(node.value) in ("globals()", "vars()"):
            return True
    return False


_UNSEEN = re.compile(
    r"(globals|vars)\(\)(\[|\.(update|setdefault)\()|exec\(|setattr\(sys\.modules\[|sys\.modules\[.*\]\.|builtins\."
)


def _annotations_of_locals(tree: ast.Module) -> set[ast.AST]:
    """Return the nodes of annotations of local variables, which Python does not evaluate."""
    functions = (node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))
    annotated = (node for function in functions for node in ast.walk(function) if isinstance(node, ast.AnnAssign))
    return {part for node in annotated for part in ast.walk(node.annotation)}
