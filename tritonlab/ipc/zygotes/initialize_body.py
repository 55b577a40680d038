"""The statements that a model's `initialize` begins with, for `first_imports`, where nothing of
the author's that another import could notice runs between the import of model.py and them.

Measured with torch imported there, cells edited on a busy machine: READY in 0.3 s where a zygote has it, 6 s where not.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import NamedTuple

_CLASS = "TritonPythonModel"
#: What an auto_complete_config may call besides methods of what it is given.
_BUILTINS = frozenset(
    {"bool", "dict", "enumerate", "float", "int", "len", "list", "range", "set", "sorted", "str", "zip"}
)
#: Statements and expressions with which it may reach more than what it is given.
_REACHING = (ast.Import, ast.ImportFrom, ast.Global, ast.Nonlocal, ast.ClassDef)


class InitializeBody(NamedTuple):
    """The statements of `initialize`, and the definition of what may do something before; None if nothing
    does."""

    statements: Sequence[ast.stmt]
    before: ast.stmt | None


def initialize_body(module: Sequence[ast.stmt]) -> InitializeBody:
    """Return the body for the statements of model.py, all of which only import and define. It is empty where it is not
    plain which function `initialize` is."""
    nothing = InitializeBody((), None)
    named = [each for each in module if {_CLASS, "*"} & _bound(each)]
    if len(named) != 1 or not isinstance(named[0], ast.ClassDef):
        return nothing
    kind = named[0]
    methods = [each for each in kind.body if "initialize" in _bound(each)]
    if kind.bases or kind.keywords or kind.decorator_list or len(methods) != 1:
        return nothing
    method = methods[0]
    if not isinstance(method, ast.FunctionDef) or method.decorator_list:
        return nothing
    return InitializeBody(method.body, next((each for each in kind.body if _may_run_before(each)), None))


def _bound(statement: ast.stmt) -> set[str]:
    """Return the names that a statement binds, and `*`."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return {statement.name}
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return {alias.asname or alias.name.partition(".")[0] for alias in statement.names}
    parts = list(ast.walk(statement))
    names = {node.id for node in parts if isinstance(node, ast.Name) and _is_stored(node)}
    return names.union(*(_bound(each) for each in parts if each is not statement and isinstance(each, ast.stmt)))


def _may_run_before(member: ast.stmt) -> bool:
    """Return whether a member of the class may run before `initialize`, and do something that an import could
    notice."""
    decorators = {getattr(each, "id", "") for each in getattr(member, "decorator_list", ())}
    if decorators - {"staticmethod", "classmethod"}:  # such as a property, which `self.device` calls
        return True
    names = _bound(member)
    if "auto_complete_config" in names:
        return not (isinstance(member, ast.FunctionDef) and _only_tells(member))
    return any(name.startswith("__") and name.endswith("__") for name in names)


def _only_tells(function: ast.FunctionDef) -> bool:
    """Return whether a function reaches nothing but its arguments, values of its own and harmless builtins."""
    nodes = [node for statement in function.body for node in ast.walk(statement)]
    own = {node.arg for node in ast.walk(function) if isinstance(node, ast.arg)}
    own |= {node.id for node in nodes if isinstance(node, ast.Name) and _is_stored(node)}
    for node in nodes:
        if isinstance(node, _REACHING):
            return False
        if isinstance(node, ast.Name) and node.id not in own | _BUILTINS:
            return False
        if isinstance(node, ast.Attribute) and node.attr.startswith("__"):
            return False
    return True


def _is_stored(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Store)
