"""The check whether a model.py is Python at all, before a stub gets it."""

from __future__ import annotations

import warnings

from ...core.status import ModelLoadError, RemoteException
from .source_map import SourceMap, located


def check_syntax(text: str, path: str, *, model: str, version: int, sources: SourceMap) -> None:
    """Raise the ModelLoadError that loading `text` from `path` would end in; its place is where the author
    wrote it.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the stub shows them, once
            compile(text, path, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:  # ValueError: a NUL in the text
        message = f"load failed for model '{model}': version {version} is at UNAVAILABLE state: Internal: "
        message += f"{type(error).__name__}: {error};\n"  # rule 2.5.1
        raise ModelLoadError(message, exception=located(_as_remote(error), sources.locate)) from None


def _as_remote(error: Exception) -> RemoteException:
    detail = {}
    if isinstance(error, SyntaxError):
        detail = {
            "msg": error.msg,
            "filename": error.filename,
            "lineno": error.lineno,
            "offset": error.offset,
            "text": error.text,
            "end_lineno": error.end_lineno,
            "end_offset": error.end_offset,
        }
    return RemoteException(type(error).__name__, str(error), detail=detail)
