"""A Python file of the author, and the errors of Python's parser for it."""

from __future__ import annotations

import ast
from typing import NamedTuple

#: The errors of `ast.parse` and `compile` for a text that is not Python or is nested too deeply.
UNPARSABLE = (SyntaxError, ValueError, RecursionError, MemoryError, SystemError)


class SourceFile(NamedTuple):
    """A Python file of the model. `tree` is None if this Python cannot parse it."""

    path: str
    text: str
    tree: ast.Module | None
