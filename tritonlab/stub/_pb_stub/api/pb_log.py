"""Logger, which writes the author's lines into the server's log, with their file and line."""

from __future__ import annotations

import sys
from typing import Any, ClassVar, Optional

from ..wire.serialization import bounded
from . import bridge
from .argument_check import as_text, mismatch, no_constructor
from .bridge import BridgeError
from .enums import LogLevel
from .errors import NativeObject, TritonModelException


class Logger(NativeObject):
    """The author's log. All methods are static. Every record goes to the server, whose log settings select the visible
    ones (rule 1.13.3).
    """

    __slots__ = ()

    LogLevel: ClassVar[Any] = LogLevel
    INFO: ClassVar[LogLevel] = LogLevel.INFO
    WARNING: ClassVar[LogLevel] = LogLevel.WARNING
    ERROR: ClassVar[LogLevel] = LogLevel.ERROR
    VERBOSE: ClassVar[LogLevel] = LogLevel.VERBOSE

    def __new__(cls, *args: Any, **kwargs: Any) -> Logger:
        raise no_constructor("Logger")

    @staticmethod
    def log(message: str, level: LogLevel = LogLevel.INFO) -> None:
        """Log `message` at `level`, one of this class's members. Raises TypeError for other types."""
        if not isinstance(level, LogLevel):
            raise mismatch(
                "log",
                "(message: str, level: c_python_backend_utils.Logger.LogLevel = <LogLevel.INFO: 0>) -> None",
                (message, level),
            )
        _log("log", message, level._value)

    @staticmethod
    def log_info(message: str) -> None:
        """Log `message` as information."""
        _log("log_info", message, 0)

    @staticmethod
    def log_warn(message: str) -> None:
        """Log `message` as a warning."""
        _log("log_warn", message, 1)

    @staticmethod
    def log_error(message: str) -> None:
        """Log `message` as an error."""
        _log("log_error", message, 2)

    @staticmethod
    def log_verbose(message: str) -> None:
        """Log `message` if the server's verbose level is 1 or more."""
        _log("log_verbose", message, 3)


def _readable(message: Any) -> Optional[str]:
    """Return the text, with escapes for bytes that are not UTF-8, which Triton writes unchanged; None if it does not
    fit."""
    try:
        return as_text(message)
    except UnicodeDecodeError:
        return bytes(message).decode("utf-8", "backslashreplace")


def _log(function: str, message: Any, level: int) -> None:
    text = message if type(message) is str and message.isascii() else _readable(message)
    if text is None:
        raise mismatch(function, "(message: str) -> None", (message,))
    caller = sys._getframe(2)  # the author's frame, above the method of Logger
    try:
        bridge.current().log(level, bounded(text), caller.f_code.co_filename, caller.f_lineno)
    except BridgeError as error:
        raise TritonModelException(error.text) from None
