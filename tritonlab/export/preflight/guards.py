"""The parts of a source that run only where it is prepared for what they need to be missing."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

_BROAD = {"Exception", "BaseException"}
#: Conditions that ask which Python, package or system it is, or whether the module is run as a program.
_CONDITION = re.compile(
    r"\b(version_info|hexversion|__version__|PY[23]\d*|TYPE_CHECKING|hasattr|sys\.platform|os\.name|platform\.system"
    r"|__name__)\b|\bin (globals|locals|vars|dir)\("
)


def guarded(tree: ast.Module, *errors: str, broad_in_functions: bool = False) -> set[ast.AST]:
    """Return the nodes that are in a `try` which does without them if one of `errors` is raised, or in a branch of a
    condition on what is there.

    A handler of every Exception counts outside of functions only, unless `broad_in_functions`: in `execute` it
    answers with the error. One that raises again never counts.
    """
    found: set[ast.AST] = set()
    within = {part for node in ast.walk(tree) if isinstance(node, _FUNCTIONS) for part in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, (ast.If, ast.IfExp)) and _CONDITION.search(ast.unparse(node.test)):
            found.update(_parts(node.body), _parts(node.orelse))
        elif isinstance(node, ast.Try):
            wanted = set(errors) | (_BROAD if broad_in_functions or node not in within else set())
            if any(_catches(handler, wanted) and not _raises(handler) for handler in node.handlers):
                found.update(_parts(node.body))
    return found


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def _parts(nodes: list[ast.stmt] | ast.expr) -> Iterator[ast.AST]:
    for node in nodes if isinstance(nodes, list) else [nodes]:
        yield from ast.walk(node)


def _catches(handler: ast.ExceptHandler, errors: set[str]) -> bool:
    if handler.type is None:
        return bool(errors & _BROAD)
    return any(isinstance(part, ast.Name) and part.id in errors for part in ast.walk(handler.type))


def _raises(handler: ast.ExceptHandler) -> bool:
    return isinstance(handler.body[-1], ast.Raise)
