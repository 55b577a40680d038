"""These errors refuse what an author asks for and cannot get; each is shown as one text, without a traceback of ours.

    ValueError
    └── NotebookError
        ├── OptionError     an option no config can hold, or that contradicts the model's config text
        ├── FileError       a file that cannot be part of a model, or is not there
        └── SourceError     a class that cannot become a model.py that stands alone

A config text that Triton would refuse is a `ConfigTextError` (`config_text.py`), a `core.model_config.ConfigError`.
"""

from __future__ import annotations


class NotebookError(ValueError):
    """Is the base of the errors above. The text says what to do instead."""


class OptionError(NotebookError):
    """An option has a value that is not allowed, or contradicts the model's config text."""


class FileError(NotebookError):
    """A file cannot be part of a model, or is not there."""


class SourceError(NotebookError):
    """A model's source cannot be made into a model.py that stands alone."""
