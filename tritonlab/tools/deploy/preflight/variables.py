"""The environment variables that a model reads, with their defaults in its code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from .reads import USUAL
from .subject import Subject

#: Parts of the names of variables whose values are secrets.
_SECRET = re.compile(
    r"token|secret|passw|pwd|api_?key|access_?key|private|credential|(^|_)(auth|dsn|key)$", re.IGNORECASE
)


class Variable(NamedTuple):
    """A variable that a model reads. `default`: its text in the code, None without one that is constant;
    `is_required`: whether the model fails without it."""

    name: str
    default: str | None = None
    is_required: bool = False

    @property
    def is_secret(self) -> bool:
        """Whether its name says that the value is a secret."""
        return _SECRET.search(self.name) is not None


def variables_of(subjects: Iterable[Subject]) -> list[Variable]:
    """Return the variables that the models read, in their code and in the code that their stubs were seen to run. They
    are sorted by their names; a variable that one model needs is required."""
    found: dict[str, Variable] = {}
    for subject in subjects:
        seen = (Variable(each.name) for reads in subject.reads for each in reads.variables)
        for each in (*_written(subject), *seen):
            other = found.setdefault(each.name, each)
            found[each.name] = Variable(
                each.name,
                other.default if other.default is not None else each.default,
                other.is_required or each.is_required,
            )
    return [found[name] for name in sorted(found) if name not in USUAL]


def _written(subject: Subject) -> Iterator[Variable]:
    """Yield the variables that the code names, `os.environ[NAME]`, `os.environ.get(NAME)` and `os.getenv(NAME)`,
    without those that it sets itself."""
    own: set[str] = set()
    used: list[Variable] = []
    for source in subject.sources:
        for node in ast.walk(source.tree) if source.tree is not None else ():
            if isinstance(node, ast.Subscript) and _ends(node.value, "environ") and (name := _text(node.slice)):
                if isinstance(node.ctx, ast.Load):
                    used.append(Variable(name, is_required=True))
                else:
                    own.add(name)
            elif isinstance(node, ast.Call) and node.args and (name := _text(node.args[0])):
                get = isinstance(node.func, ast.Attribute) and _ends(node.func.value, "environ")
                if get and _ends(node.func, "setdefault"):
                    own.add(name)
                elif (get and _ends(node.func, "get")) or _ends(node.func, "getenv"):
                    used.append(Variable(name, _text(node.args[1]) if len(node.args) > 1 else None))
    yield from (each for each in used if each.name not in own)


def _ends(node: ast.AST, name: str) -> bool:
    """Return whether an expression is the name, or an attribute of that name."""
    return (isinstance(node, ast.Name) and node.id == name) or (isinstance(node, ast.Attribute) and node.attr == name)


def _text(node: ast.AST) -> str | None:
    return str(node.value) if isinstance(node, ast.Constant) and isinstance(node.value, str) else None
