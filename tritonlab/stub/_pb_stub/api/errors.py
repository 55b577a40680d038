"""The two error classes that an author sees: one to raise, one to put into a response.

TritonModelException   an exception; everything this package refuses is one (rule 0.5)
TritonError            a value: text and code of an InferenceResponse; not an exception (rule 1.3.2)
"""

from __future__ import annotations

from typing import Any, ClassVar

from .argument_check import as_text, mismatch
from .enums import ErrorCode
from .native_type import NativeType, show_as_base


class NativeObject(metaclass=NativeType):
    """The base of the author-facing classes. As with Triton's, instances can have weak references, but cannot be
    copied or pickled."""

    __slots__ = ("__weakref__",)

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError("cannot pickle '%s.%s' object" % (type(self).__module__, type(self).__qualname__))


show_as_base(NativeObject)


class TritonModelException(Exception):
    """A wrong use of this module.

    A model may raise it too; the server gives it no special treatment.
    """


class TritonError(NativeObject):
    """The error of one response: a text, which reaches the client without a prefix, and a code, which determines its
    HTTP or gRPC status.

    `InferenceResponse(error=TritonError("no such user", TritonError.NOT_FOUND))`. It is a value: raising it is a
    TypeError.
    """

    __slots__ = ("_code", "_message")

    UNKNOWN: ClassVar[ErrorCode] = ErrorCode.UNKNOWN
    INTERNAL: ClassVar[ErrorCode] = ErrorCode.INTERNAL
    NOT_FOUND: ClassVar[ErrorCode] = ErrorCode.NOT_FOUND
    INVALID_ARG: ClassVar[ErrorCode] = ErrorCode.INVALID_ARG
    UNAVAILABLE: ClassVar[ErrorCode] = ErrorCode.UNAVAILABLE
    UNSUPPORTED: ClassVar[ErrorCode] = ErrorCode.UNSUPPORTED
    ALREADY_EXISTS: ClassVar[ErrorCode] = ErrorCode.ALREADY_EXISTS
    CANCELLED: ClassVar[ErrorCode] = ErrorCode.CANCELLED

    def __init__(self, message: str, code: ErrorCode = ErrorCode.INTERNAL) -> None:
        """Raise TypeError if `message` is not a text or `code` is not a member of this class (an int is not one)."""
        text = as_text(message)
        if text is None or not isinstance(code, ErrorCode):
            raise mismatch(
                "__init__",
                "c_python_backend_utils.TritonError(message: str, code: "
                "c_python_backend_utils.TritonError.__ErrorCode = <__ErrorCode.INTERNAL: 1>)",
                (message,) if code is ErrorCode.INTERNAL else (message, code),
            )
        self._message = text
        self._code = code

    def message(self) -> str:
        """Return the text given at construction."""
        return self._message

    def code(self) -> ErrorCode:
        """Return the code given at construction; INTERNAL if none was."""
        return self._code

    @classmethod
    def _of_code(cls, message: str, code: int) -> TritonError:
        """Make the error that came over the wire as a text and a number."""
        return cls(message, ErrorCode(code))


setattr(TritonError, "__ErrorCode", ErrorCode)  # Triton's name of the class, which a class body would mangle


def code_of(error: TritonError) -> int:
    """Return the number of the error's code, as it crosses the wire."""
    return error._code._value
