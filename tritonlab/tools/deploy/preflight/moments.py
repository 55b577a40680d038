"""The time at which parts of a model's sources run: while it loads, or later, with its requests."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from ....core.source.source_file import SourceFile
from .finding import Prediction
from .subject import Subject

_Function = ast.FunctionDef | ast.AsyncFunctionDef
#: Functions that run when the model is loaded.
_AT_LOAD = {"__init__", "auto_complete_config", "initialize"}


def outcome_of(subject: Subject, source: SourceFile, node: ast.AST) -> Prediction:
    """Return the effect of an exception in a part of a source."""
    assert source.tree is not None
    around = [each for each in _functions(source.tree) if any(node in ast.walk(part) for part in each.body)]
    return _outcome(subject, around)


def outcome_at(subject: Subject, source_line: str) -> Prediction:
    """Return the effect of an exception at `<file>:<line>`; the model does not load if the line is in none of its
    files."""
    file, _, number = source_line.rpartition(":")
    for source in subject.sources:
        if source.tree is not None and source.path == file:
            line, functions = int(number), _functions(source.tree)
            around = [each for each in functions if each.body[0].lineno <= line <= (each.end_lineno or 0)]
            return _outcome(subject, around)
    return Prediction.LOAD


def _outcome(subject: Subject, around: list[_Function]) -> Prediction:
    """Return the effect. `around`: the functions that contain a part, the outermost first."""
    return Prediction.LOAD if not around or around[-1].name in _names_at_load(subject) else Prediction.FAILS


def _functions(tree: ast.AST) -> Iterator[_Function]:
    """Yield the functions of a source, each before its inner functions."""
    return (node for node in ast.walk(tree) if isinstance(node, _Function))


def _names_at_load(subject: Subject) -> set[str]:
    """Return the names of the functions that run, or may run, while the model loads: the ones that modules and load
    functions mention, and the ones that these mention in turn."""
    trees = [source.tree for source in subject.sources if source.tree is not None]
    bodies: dict[str, list[_Function]] = {}
    for tree in trees:
        for function in _functions(tree):
            bodies.setdefault(function.name, []).append(function)
    found: set[str] = set()
    new = {*_AT_LOAD, *(name for tree in trees for name in _mentioned([tree]))}
    while new:
        found |= new
        new = {name for each in new for name in _mentioned(bodies.get(each, ()))} - found
    return found


def _mentioned(roots: Iterable[ast.AST]) -> Iterator[str]:
    """Yield the names and attributes in the trees, without the bodies of functions below their roots."""
    waiting = [child for root in roots for child in ast.iter_child_nodes(root)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        if isinstance(node, _Function):
            waiting += [*node.decorator_list, *node.args.defaults]
        else:
            waiting += ast.iter_child_nodes(node)
