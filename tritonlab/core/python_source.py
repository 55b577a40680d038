"""The errors of Python's parser for a file of the author."""

from __future__ import annotations

#: What `ast.parse` and `compile` raise for a text that is not Python, and for one that is nested too deeply.
UNPARSABLE = (SyntaxError, ValueError, RecursionError, MemoryError, SystemError)
