"""The parts of a source that do not run on the target, or run only if their imports are present."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator
from typing import Any

_BROAD = {"Exception", "BaseException"}
#: Conditions on the version of Python, a package, the system, or on being run as a program.
_CONDITION = re.compile(
    r"\b(version_info|hexversion|__version__|PY[23]\d*|TYPE_CHECKING|hasattr|sys\.platform|os\.name|platform\.system"
    r"|__name__)\b|\bin (globals|locals|vars|dir)\("
)


def guarded(
    tree: ast.Module, *errors: str, broad_in_functions: bool = False, python: tuple[int, ...] = ()
) -> set[ast.AST]:
    """Return the nodes that are optional on the target.

    They are in a `try` that handles one of `errors`, do not run with the target's `python`, or are in a branch of a
    condition that cannot be decided here. A handler of every Exception counts only outside of functions, unless
    `broad_in_functions`: in `execute` it answers with the error. A handler that raises again never counts.
    """
    found = never_run(tree, python)
    within = {part for node in ast.walk(tree) if isinstance(node, _FUNCTIONS) for part in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, (ast.If, ast.IfExp)) and _CONDITION.search(ast.unparse(node.test)):
            if _value(node.test, python) is None:
                found.update(_parts(node.body), _parts(node.orelse))
        elif isinstance(node, ast.Try):
            wanted = set(errors) | (_BROAD if broad_in_functions or node not in within else set())
            handlers = [handler for handler in node.handlers if not isinstance(handler.body[-1], ast.Raise)]
            if any(_catches(handler, wanted) for handler in handlers):
                found.update(_parts(node.body))
    return found


def never_run(tree: ast.Module, python: tuple[int, ...] = ()) -> set[ast.AST]:
    """Return the nodes in branches that do not run in a model on Linux, with the given version of Python if any."""
    found: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.If, ast.IfExp)) and (holds := _value(node.test, python)) is not None:
            found.update(_parts(node.orelse if holds else node.body))
    return found


def _value(node: ast.expr, python: tuple[int, ...]) -> Any:
    """Return the value of an expression on Python and the system; None if it is unknown."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        value = _value(node.operand, python)
        return None if value is None else not value
    if isinstance(node, ast.BoolOp):
        values = [_value(each, python) for each in node.values]
        decides = isinstance(node.op, ast.Or)
        if any(value is not None and bool(value) is decides for value in values):
            return decides
        return None if None in values else not decides
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        left, right = _value(node.left, python), _value(node.comparators[0], python)
        compare = _COMPARISONS.get(type(node.ops[0]))
        if left is None or right is None or compare is None or type(left) is not type(right):
            return None
        return compare(left, right)
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, (str, int)) else None
    if isinstance(node, ast.Tuple):
        parts = tuple(_value(each, python) for each in node.elts)
        return None if None in parts else parts
    text = ast.unparse(node)
    if python and (found := _VERSION.fullmatch(text)):
        numbers = (*python[:2], 99)  # the third number is unknown; the newest is likely
        if found[1]:
            return numbers[: int(found[1])]
        return numbers[int(found[2])] if found[2] else numbers[found[3] == "minor"] if found[3] else numbers
    if (prefix := _STARTS.fullmatch(text)) is not None:
        return "linux".startswith(prefix[1])
    return _KNOWN.get(text)


_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    **{ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt},
    **{ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge},
}
_VERSION = re.compile(r"(?:sys\.)?version_info(?:\[:([123])\]|\[([01])\]|\.(major|minor))?")
_STARTS = re.compile(r"(?:sys\.)?platform\.startswith\('(\w+)'\)")
#: The facts that are the same in every model.
_KNOWN = {"__name__": "model", "TYPE_CHECKING": False, "typing.TYPE_CHECKING": False, "os.name": "posix"}
_KNOWN |= {"sys.platform": "linux", "platform.system()": "Linux"}
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def _parts(nodes: list[ast.stmt] | ast.expr) -> Iterator[ast.AST]:
    for node in nodes if isinstance(nodes, list) else [nodes]:
        yield from ast.walk(node)


def _catches(handler: ast.ExceptHandler, errors: set[str]) -> bool:
    if handler.type is None:
        return bool(errors & _BROAD)
    return any(isinstance(part, ast.Name) and part.id in errors for part in ast.walk(handler.type))
