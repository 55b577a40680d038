"""The errors of the server core, with Triton's codes and texts; the class shows whose fault an error is.

    TritonError                     code + text, as a client sees it
    ├── UnknownError                one class per code (names of NVIDIA's `tritonserver` package)
    ├── InternalError
    ├── NotFoundError
    ├── InvalidArgumentError
    ├── UnavailableError
    ├── UnsupportedError
    ├── AlreadyExistsError
    ├── CancelledError
    └── ModelError                  the author's model failed; has the Python traceback
        ├── ModelLoadError          the model could not be loaded; has the hidden reason and log
        └── EnsembleError           a step of an ensemble failed; has the step and its inputs

Each ModelError is also an instance of its code's class: `except InvalidArgumentError` catches a load that failed with
INVALID_ARG, and `except ModelLoadError` catches every failed load.

The core knows codes only; each frontend maps them once to its own status (`frontends/*/errors.py`).
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from .explained import Explained, blank

#: The field that a text of Triton's names.
_FIELD = re.compile(r"\b(?P<role>input|output)s? '(?P<name>[^']*)'")


class Code(enum.Enum):
    """Triton's error codes. The values are those of `TritonError` in the Python backend (rule 1.2).

    A member is not an int, but can be converted to one: NVIDIA Dynamo mistakes an exception with an integer `code` and
    a `message` for its own HTTP error, and sends both as JSON inside another text.
    """

    UNKNOWN = 0
    INTERNAL = 1
    NOT_FOUND = 2
    INVALID_ARG = 3
    UNAVAILABLE = 4
    UNSUPPORTED = 5
    ALREADY_EXISTS = 6
    CANCELLED = 7

    def __int__(self) -> int:
        return int(self.value)

    @property
    def text(self) -> str:
        """The word that Triton prints before a message in load errors and logs (rule 2.5.1)."""
        return _CODE_TEXT[self]


_CODE_TEXT = {
    Code.UNKNOWN: "Unknown",
    Code.INTERNAL: "Internal",
    Code.NOT_FOUND: "Not found",
    Code.INVALID_ARG: "Invalid argument",
    Code.UNAVAILABLE: "Unavailable",
    Code.UNSUPPORTED: "Unsupported",
    Code.ALREADY_EXISTS: "Already exists",
    Code.CANCELLED: "Cancelled",
}


class TritonError(Explained, Exception):
    """An error with one of Triton's codes and the text that a client sees."""

    code: Code = Code.UNKNOWN  # set by each class
    _by_code: ClassVar[dict[Code, type[TritonError]]] = {}

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    def __str__(self) -> str:
        return self.message  # the other items of `args`

    def place(self) -> str:
        found = _FIELD.search(self.message)
        return f"{found['role']} '{found['name']}'" if found else ""

    def line(self) -> str:
        """Return the failure and its place in one line, for a log or a report."""
        symptom, place = self.symptom().strip().partition("\n")[0], self.place()
        return f"{symptom}, in {place}" if place and place not in symptom else symptom

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "code" in cls.__dict__:
            TritonError._by_code.setdefault(cls.code, cls)

    @staticmethod
    def from_code(code: Code, message: str) -> TritonError:
        """Return an error of the class for `code`."""
        return TritonError._by_code[code](message)


class UnknownError(TritonError):
    code = Code.UNKNOWN


class InternalError(TritonError):
    code = Code.INTERNAL


class NotFoundError(TritonError):
    code = Code.NOT_FOUND


class InvalidArgumentError(TritonError):
    code = Code.INVALID_ARG


class UnavailableError(TritonError):
    code = Code.UNAVAILABLE


class UnsupportedError(TritonError):
    code = Code.UNSUPPORTED


class AlreadyExistsError(TritonError):
    code = Code.ALREADY_EXISTS


class CancelledError(TritonError):
    code = Code.CANCELLED


@dataclass(frozen=True)
class Frame:
    """One level of a Python traceback in the stub. `line` counts from 1."""

    file: str
    line: int
    function: str


@dataclass(frozen=True)
class RemoteException:
    """An exception that left the author's code in the stub process.

    `frames` are outermost first, as Python prints them, without the stub's own. `cause` is the exception named by
    `raise ... from`, or the one that was being handled; `is_context` is True for the second. `detail` is the further
    text that its type prints (a SyntaxError's file, line, offset and source line). `exceptions` are the first ones of
    an exception group.
    """

    type_name: str
    text: str
    frames: tuple[Frame, ...] = ()
    cause: RemoteException | None = None
    is_context: bool = False
    detail: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    exceptions: tuple[RemoteException, ...] = ()

    def __str__(self) -> str:
        return f"{self.type_name}: {self.text}" if self.text else self.type_name

    @property
    def place(self) -> str:
        """Return the line that raised it or is not valid Python, in Python's form; "" if it has none."""
        file, line = self.detail.get("filename"), self.detail.get("lineno")
        if not file and self.frames:
            file, line = self.frames[-1].file, self.frames[-1].line
        return f'File "{file}", line {line}' if file and line else ""

    def to_wire(self) -> dict[str, Any]:
        return {
            "type": self.type_name,
            "text": self.text,
            "frames": [[f.file, f.line, f.function] for f in self.frames],
            "cause": self.cause.to_wire() if self.cause else None,
            "is_context": self.is_context,
            "detail": self.detail,
            "notes": list(self.notes),
            "exceptions": [exception.to_wire() for exception in self.exceptions],
        }

    @staticmethod
    def from_wire(wire: dict[str, Any]) -> RemoteException:
        cause = wire.get("cause")
        return RemoteException(
            type_name=str(wire["type"]),
            text=str(wire["text"]),
            frames=tuple(Frame(str(f), int(n), str(fn)) for f, n, fn in wire["frames"]),
            cause=RemoteException.from_wire(cause) if cause else None,
            is_context=bool(wire.get("is_context")),
            detail=dict(wire.get("detail") or {}),
            notes=tuple(wire.get("notes") or ()),
            exceptions=tuple(map(RemoteException.from_wire, wire.get("exceptions") or ())),
        )


class LoadInterrupted(Explained, KeyboardInterrupt):
    """An interrupt that ended the wait for a model to load. `exception` has the frames of the model's code; None if the
    stub did not report them.
    """

    code = Code.CANCELLED

    def __init__(self, text: str, exception: RemoteException | None = None) -> None:
        super().__init__(text)
        self.exception = exception

    def place(self) -> str:
        return self.exception.place if self.exception is not None else ""


class ModelError(TritonError):
    """A failure of the author's model. The text is Triton's; the fields are for the author.

    `code` is Triton's, INTERNAL by default; the error is also an instance of that code's class. `exception` is the
    Python exception, if there was one. `reason` is the cause if Triton's text lacks it (the signal that killed the
    stub). `log` has the model's last output lines. `capsule` is the `FailureCapsule` of the failure, if one was kept.
    `was_killed`: an outside signal ended the stub, not a lack of memory.
    """

    capsule: Any = None  # the module of its type imports this one
    was_killed: bool = False
    _added: Sequence[str] = ()

    _default_code: ClassVar[Code] = Code.INTERNAL

    def __new__(cls, *args: Any, code: Code | None = None, **kwargs: Any) -> Self:
        kind: type[Self] = _coded(cls, cls._default_code if code is None else code)
        return super().__new__(kind)

    def __init__(
        self,
        message: str,
        *,
        code: Code | None = None,  # used by __new__ to choose the class
        reason: str = "",
        exception: RemoteException | None = None,
        log: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.exception = exception
        self.log = log

    def __reduce__(self) -> tuple[Any, ...]:
        _, (kind,), state = super().__reduce__()
        return blank, (vars(kind).get("_declared", kind), self.code), state  # the class itself cannot be imported

    def place(self) -> str:
        return (self.exception.place if self.exception is not None else "") or super().place()

    def symptom(self) -> str:
        return str(self.exception if self.exception is not None else self)

    def add_note(self, note: str) -> None:
        """Add a line that Python prints below the message. Raises TypeError if it is not a text."""
        if not isinstance(note, str):
            raise TypeError(f"note must be a str, not '{type(note).__name__}'")
        self._added = [*self._added, note]

    @property
    def __notes__(self) -> list[str]:
        """The lines that Python prints below the message: the reason, unless the message has it, and the added notes.

        Each read makes a new list, so that `reason` may change; Python's own `add_note` would append to the list.
        """
        return [*([] if self.reason in self.message else [self.reason]), *self._added]

    @__notes__.setter
    def __notes__(self, notes: list[str]) -> None:
        self._added = [note for note in notes if note != self.reason or note in self.message]


_CODED: dict[tuple[type[Any], Code], type[Any]] = {}


def _coded(kind: type[Any], code: Code) -> type[Any]:
    """Return a class that inherits from `kind` and the class of `code`, under the name of `kind`."""
    found = _CODED.get((kind, code))
    if found is None:
        of_code = TritonError._by_code[code]
        names = {
            "__module__": kind.__module__,
            "__qualname__": kind.__qualname__,
            "__doc__": kind.__doc__,
            "_default_code": code,
            "_declared": kind,
        }
        made = kind if issubclass(kind, of_code) else type(kind.__name__, (kind, of_code), names)
        found = _CODED.setdefault((kind, code), made)
    return found


class ModelLoadError(ModelError):
    """A model that could not be loaded; the code is INVALID_ARG by default. `reason` is the cause that Triton writes
    only to its server log (rule 2.5.3), or the text itself.
    """

    _default_code = Code.INVALID_ARG

    def __init__(
        self,
        message: str,
        *,
        code: Code | None = None,
        reason: str = "",
        exception: RemoteException | None = None,
        log: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message, reason=reason or message, exception=exception, log=log)

    def symptom(self) -> str:
        return str(self.exception) if self.exception is not None else self.reason

    @staticmethod
    def joined(failed: Sequence[ModelLoadError]) -> ModelLoadError:
        """Return one error for several models of one name.

        It has the texts of all errors that are not INTERNAL (such a model could not be read at all), and `reason`,
        `exception` and `log` of the first of these. If all are INTERNAL it equals the first.
        """
        reported = [error for error in failed if error.code is not Code.INTERNAL] or failed[:1]
        first, text = reported[0], "".join(error.message for error in reported)
        return ModelLoadError(text, code=first.code, reason=first.reason, exception=first.exception, log=first.log)

    @staticmethod
    def at_start(failed: Mapping[str, TritonError]) -> ModelLoadError:
        """Return the error of a server whose models partly failed at the start: Triton's text, followed by the models'
        texts. `reason`, `exception` and `log` are the first error's.
        """
        first = next(iter(failed.values()))
        texts = "".join(f"\n{error.message.rstrip()}" for error in failed.values())
        error = ModelLoadError(f"failed to load all models{texts}", code=Code.INTERNAL, reason=first.message)
        if isinstance(first, ModelLoadError):
            error.reason, error.exception, error.log = first.reason, first.exception, first.log
        return error


class EnsembleError(ModelError):
    """A step of an ensemble that failed; the code is the step's. `reason` names the step and its tensors, which
    Triton's text leaves out.
    """

    def symptom(self) -> str:
        # clients do not send the inputs of a step, so advice for clients would not help
        return str(self.exception) if self.exception is not None else ""
