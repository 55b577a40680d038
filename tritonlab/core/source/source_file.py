"""A Python file of the author, and the errors of Python's parser for it."""

from __future__ import annotations

import ast
from typing import NamedTuple

#: What `ast.parse` and `compile` raise for a text that is not Python, and for one that is nested too deeply.
UNPARSABLE = (SyntaxError, ValueError, RecursionError, MemoryError, SystemError)


class SourceFile(NamedTuple):
    """A Python file of the model. `tree` is None if this Python cannot parse it."""

    path: str
    text: str
    tree: ast.Module | None
