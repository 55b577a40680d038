"""Errors for requests of an author that cannot be fulfilled, each shown as one text, without a traceback of ours.

    ValueError
    └── NotebookError
        ├── OptionError     an option no config can hold, or that contradicts the model's config text
        │   └── ExpressionError  an expression of a line that failed in the notebook
        ├── FileError       a file that cannot be part of a model, or is not there
        └── SourceError     a class that cannot become a model.py that stands alone

A config text that Triton would refuse is a `ConfigTextError` (`config_text.py`), a `core.model_config.ConfigError`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ...core.explained import Explained
from ...core.os_limits import explained
from ...core.status import Code

#: The author's traceback of an error as plain text, "" if there is none.
DescribeError = Callable[[BaseException], str]


class NotebookError(Explained, ValueError):
    """The base of the errors above. The text ends with `fix`, the advice what to do instead; `field` is the wrong
    option, file or cell.
    """

    code = Code.INVALID_ARG

    def __init__(self, text: str, *, fix: str = "", field: str = "") -> None:
        super().__init__(text)
        self.own_place, self.own_remedy = field, fix


class OptionError(NotebookError):
    """An option whose value is not allowed, or contradicts the model's config text."""


class ExpressionError(OptionError):
    """An exception of an expression in the line of a magic. It was raised in the notebook, so advice for a model's
    exception would mislead.
    """

    @staticmethod
    def from_exception(expression: str, error: Exception) -> ExpressionError:
        """Return the error without our frames, which do not help."""
        fix = f"import or define {error.name} in a cell" if isinstance(error, NameError) and error.name else ""
        parts = (repr(expression), type(error).__name__, str(error), fix)
        return ExpressionError(": ".join(filter(None, parts)), fix=fix)

    def symptom(self) -> str:
        return ""


class FileError(NotebookError):
    """A file that cannot be part of a model, or does not exist."""


class SourceError(NotebookError):
    """A model's source that cannot become a model.py of its own."""


@contextmanager
def refused_files() -> Iterator[None]:
    """Turn the system's error for a file into a FileError: for a path that an author typed, our frames do not help."""
    try:
        yield
    except OSError as error:
        if isinstance(error, Explained):
            raise  # its text has more than the place
        text = f"{error.strerror}: {error.filename}" if error.strerror and error.filename else str(error)
        text = explained(error) or text
        raise FileError(text, field=str(error.filename or "")) from None
