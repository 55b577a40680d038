"""The enumerations of Triton's compiled module (rule 1.2), with the behaviour of its binding generator.

They are not `enum.Enum`: members equal plain integers and have no order. Any integer makes a member, which is called
`???` if it has no name.
"""

from __future__ import annotations

from typing import Any, ClassVar, Dict, Tuple

from .native_type import NativeType, show_as_base


class NativeEnum(metaclass=NativeType):
    """The base of all enumerations here. `repr` is `<Name.MEMBER: value>` (rule 1.1.6)."""

    __slots__ = ("_value",)
    _value: int
    __members__: ClassVar[Dict[str, Any]] = {}

    def __init__(self, value: int) -> None:
        if not isinstance(value, int):
            raise TypeError(
                "__init__(): incompatible constructor arguments. The following argument types are supported:\n"
                "    1. %s.%s(value: int)\n\nInvoked with: %r" % (type(self).__module__, type(self).__qualname__, value)
            )
        self._value = int(value)

    @property
    def name(self) -> str:
        for name, member in self.__members__.items():
            if member._value == self._value:
                return name
        return "???"

    @property
    def value(self) -> int:
        return self._value

    def __int__(self) -> int:
        return self._value

    __index__ = __int__

    def __eq__(self, other: object) -> bool:
        # also across enumerations: Triton compares the converted values
        return self._value == (other._value if isinstance(other, NativeEnum) else other)

    def __hash__(self) -> int:
        return self._value

    def __repr__(self) -> str:
        return "<%s.%s: %d>" % (type(self).__name__, self.name, self._value)

    def __str__(self) -> str:
        return "%s.%s" % (type(self).__name__, self.name)

    def __reduce__(self) -> Tuple[Any, ...]:
        return type(self), (self._value,)


show_as_base(NativeEnum)


def _fill(kind: type, names: str) -> None:
    members = {name: kind(value) for value, name in enumerate(names.split())}
    for name, member in members.items():
        setattr(kind, name, member)
    kind.__members__ = members  # type: ignore[attr-defined]


class ErrorCode(NativeEnum):
    """The codes of a TritonError, reached as `TritonError.INTERNAL` and so on."""

    __slots__ = ()
    UNKNOWN: ClassVar[ErrorCode]
    INTERNAL: ClassVar[ErrorCode]
    NOT_FOUND: ClassVar[ErrorCode]
    INVALID_ARG: ClassVar[ErrorCode]
    UNAVAILABLE: ClassVar[ErrorCode]
    UNSUPPORTED: ClassVar[ErrorCode]
    ALREADY_EXISTS: ClassVar[ErrorCode]
    CANCELLED: ClassVar[ErrorCode]


class LogLevel(NativeEnum):
    """The severity of a log record, reached as `Logger.INFO` and so on."""

    __slots__ = ()
    INFO: ClassVar[LogLevel]
    WARNING: ClassVar[LogLevel]
    ERROR: ClassVar[LogLevel]
    VERBOSE: ClassVar[LogLevel]


class MemoryType(NativeEnum):
    """The memory for BLS outputs. The numbers are the reverse of the C API's (rule 1.2.1)."""

    __slots__ = ()
    TRITONSERVER_MEMORY_GPU: ClassVar[MemoryType]
    TRITONSERVER_MEMORY_CPU: ClassVar[MemoryType]


class MetricKind(NativeEnum):
    """The kind of a metric family, reached as `MetricFamily.COUNTER` and so on."""

    __slots__ = ()
    COUNTER: ClassVar[MetricKind]
    GAUGE: ClassVar[MetricKind]
    HISTOGRAM: ClassVar[MetricKind]


_fill(ErrorCode, "UNKNOWN INTERNAL NOT_FOUND INVALID_ARG UNAVAILABLE UNSUPPORTED ALREADY_EXISTS CANCELLED")
_fill(LogLevel, "INFO WARNING ERROR VERBOSE")
_fill(MemoryType, "TRITONSERVER_MEMORY_GPU TRITONSERVER_MEMORY_CPU")
_fill(MetricKind, "COUNTER GAUGE HISTOGRAM")

# the names in Triton's reprs (rule 1.1.6)
ErrorCode.__name__ = "__ErrorCode"
ErrorCode.__qualname__ = "TritonError.__ErrorCode"
LogLevel.__qualname__ = "Logger.LogLevel"
