"""These errors refuse what an author asks for and cannot get; each is shown as one text, without a traceback of ours.

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
    """The base of the errors above. The text ends with what to do instead; `fix` is the part of it that does, `field`
    the option, file or cell that is wrong.
    """

    code = Code.INVALID_ARG

    def __init__(self, text: str, *, fix: str = "", field: str = "") -> None:
        super().__init__(text)
        self._fix = fix
        self._field = field

    def place(self) -> str:
        return self._field

    def remedy(self) -> str:
        return self._fix


class OptionError(NotebookError):
    """An option whose value is not allowed, or contradicts the model's config text."""


class ExpressionError(OptionError):
    """An exception of an expression in the line of a magic. It was raised in the notebook, so advice about the same
    exception of a model would mislead.
    """

    @staticmethod
    def from_exception(expression: str, error: Exception) -> ExpressionError:
        """Return the error, without our frames, which tell nothing."""
        fix = f"import or define {error.name} in a cell" if isinstance(error, NameError) and error.name else ""
        parts = (repr(expression), type(error).__name__, str(error), fix)
        return ExpressionError(": ".join(filter(None, parts)), fix=fix)

    def symptom(self) -> str:
        return ""


class FileError(NotebookError):
    """A file that cannot be part of a model, or does not exist."""


class SourceError(NotebookError):
    """A model's source that cannot be made into a model.py that stands alone."""


@contextmanager
def refused_files() -> Iterator[None]:
    """Make what the system says of a file a FileError: for a path that somebody typed, our frames tell nothing."""
    try:
        yield
    except OSError as error:
        if isinstance(error, Explained):
            raise  # it says more than where
        text = f"{error.strerror}: {error.filename}" if error.strerror and error.filename else str(error)
        text = explained(error) or text
        raise FileError(text, field=str(error.filename or "")) from None
