"""P1: names that the model's files use and nothing in them defines, such as those of other cells."""

from __future__ import annotations

import ast
import builtins
import symtable
from collections.abc import Iterator

from .finding import Finding, Prediction
from .subject import SourceFile, Subject

#: What a module has without defining it.
_MODULE_NAMES = {"__file__", "__name__", "__doc__", "__package__", "__spec__", "__loader__", "__path__", "__builtins__"}
_MODULE_NAMES |= {"__annotations__", "__cached__", "__dict__", "__debug__", "__class__"}


def names_of_other_cells(subject: Subject) -> Iterator[Finding]:
    """Yield the names without a definition, one finding for each file."""
    for source in subject.sources:
        names = undefined_names(source)
        if not names:
            continue
        (first, line), *_ = names.items()
        listed = ", ".join(names)
        plural = len(names) > 1
        yield Finding(
            row="P1",
            sentence=f"{listed} {'are' if plural else 'is'} used and not defined in the model's own files, so a "
            f"request that comes to {first} fails with NameError",
            remedy=f"define {'them' if plural else 'it'} in the model's cell; --capture writes what other cells define "
            "in front of the model",
            source_line=f"{source.path}:{line}",
            outcome=Prediction.FAILS,
        )


def undefined_names(source: SourceFile) -> dict[str, int]:
    """Return the global names that a file reads and does not define, with the first line of each."""
    if source.tree is None or _imports_everything(source.tree):
        return {}
    top = symtable.symtable(source.text, source.path, "exec")
    defined = {s.get_name() for s in top.get_symbols() if s.is_assigned() or s.is_imported() or s.is_namespace()}
    read = {s.get_name() for s in top.get_symbols() if s.is_referenced()}
    for table in _below(top):
        for symbol in table.get_symbols():
            if symbol.is_declared_global() and symbol.is_assigned():
                defined.add(symbol.get_name())
            if symbol.is_global() and symbol.is_referenced():
                read.add(symbol.get_name())
    missing = {name for name in read - defined - _MODULE_NAMES if not hasattr(builtins, name)}
    missing -= _guarded(source.tree)
    lines: dict[str, int] = {}
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in missing:
            lines[node.id] = min(node.lineno, lines.get(node.id, node.lineno))
    return dict(sorted(lines.items(), key=lambda each: each[1]))


def _below(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    for child in table.get_children():
        yield child
        yield from _below(child)


def _imports_everything(tree: ast.Module) -> bool:
    froms = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
    return any(alias.name == "*" for node in froms for alias in node.names)


def _guarded(tree: ast.Module) -> set[str]:
    """Return the names that are read where a NameError is caught."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Try) and any(_catches_name_error(handler) for handler in node.handlers):
            names = (part for each in node.body for part in ast.walk(each))
            found |= {part.id for part in names if isinstance(part, ast.Name)}
    return found


def _catches_name_error(handler: ast.ExceptHandler) -> bool:
    return handler.type is None or any(
        isinstance(part, ast.Name) and part.id in ("NameError", "Exception") for part in ast.walk(handler.type)
    )
