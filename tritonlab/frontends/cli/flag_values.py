"""The values of flags: one reader per kind. The errors for invalid values are Triton's (measured)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from ...core.status import InvalidArgumentError
from ..shared.access import CATEGORIES
from ..shared.header_pattern import compile_pattern

_TRUE = ("true", "1", "on")
_FALSE = ("false", "0", "off")
_INT32 = 1 << 31
_INT64 = 1 << 63


class CommandLineError(Exception):
    """A command line that cannot be read, with the reason."""


@dataclass(frozen=True)
class Kind:
    """A kind of flag. `placeholder` stands for the value in the help; `read(flag, text)` returns the value, or raises
    CommandLineError. With `many`, repeated flags add up; otherwise the last one counts."""

    placeholder: str
    read: Callable[[str, str], Any]
    many: bool = False


def _name(flag: str, text: str) -> str:
    if not text:
        raise CommandLineError(f'Bad option: "{flag}".\nError: empty argument for {flag}')
    return text


def _boolean(flag: str, text: str) -> bool:
    value = text.lower()
    if value not in _TRUE + _FALSE:
        raise CommandLineError(f'Bad option: "{flag}".\ninvalid value for bool option: {text}')
    return value in _TRUE


def _integer(flag: str, text: str) -> int:
    """Refuse `8000x`, which Triton reads as 8000, with the text that both give for `x`."""
    value = int(_number(int, text))
    if not -_INT32 <= value < _INT32:
        raise CommandLineError(f"Provided option value is out of bound. Got {text}")
    return value


def _size(flag: str, text: str) -> int:
    value = int(_number(int, text))
    if not -_INT64 <= value < _INT64:
        raise CommandLineError(f"Provided option value is out of bound. Got {text}")
    return value


def _number(kind: type[int] | type[float], text: str) -> float:
    """Read a number as C does, which refuses some of Python's forms, such as `1_0` and digits of other scripts."""
    try:
        value = kind(text)
        if not text.isascii() or "_" in text or value != value:
            raise ValueError
    except ValueError:
        raise CommandLineError(f"Invalid option value. Got {text}") from None
    return value


def _float(flag: str, text: str) -> float:
    value = _number(float, text)
    if math.isinf(value):
        digits = any(character.isdigit() for character in text)
        raise CommandLineError(
            f"Provided option value is out of bound. Got {text}" if digits else f"Invalid option value. Got {text}"
        )
    return value


def _pattern(flag: str, text: str) -> str:
    """Read a regular expression. Triton takes any text, and an invalid pattern then matches nothing."""
    try:
        compile_pattern(text)
    except InvalidArgumentError as error:
        raise CommandLineError(f"{flag}: {error.message}") from None
    return text


def one_of(*choices: str, exact: bool = False) -> Kind:
    """Make the reader of one word out of several. With `exact`, capital and small letters differ."""

    def read(flag: str, text: str) -> str:
        for choice in choices:
            if text == choice or (not exact and text.lower() == choice.lower()):
                return choice
        raise CommandLineError(f'Bad option: "{flag}".\ninvalid argument for {flag}')

    return Kind("{" + ",".join(choices) + "}", read)


def _setting(flag: str, text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    if not name or not value or "," in name:
        raise CommandLineError(f"{flag} option format is <setting>=<value>. Got {text}")
    return name, value


def _backend_setting(flag: str, text: str) -> tuple[str, str, str]:
    """Return (backend, setting, value). The backend is "" if none is named: the setting applies to all."""
    if text.startswith(","):
        raise CommandLineError(
            f"No backend specified. {flag} option format is <backend name>,<setting>=<value> or <setting>=<value>. "
            f"Got {text}"
        )
    return _named_setting(flag, text, "backend name", optional=True)


def _cache_setting(flag: str, text: str) -> tuple[str, str, str]:
    if "," not in text or text.startswith(","):
        raise CommandLineError(
            f"No cache specified. {flag} option format is <cache name>,<setting>=<value>. Got {text}"
        )
    return _named_setting(flag, text, "cache name")


def _trace_setting(flag: str, text: str) -> tuple[str, str, str]:
    """Return (mode, setting, value). The mode is "" for settings of all modes. The level is a word of rule 5.14.1."""
    if text.startswith(","):
        raise CommandLineError(
            f"No trace mode specified. {flag} option format is <trace mode>,<setting>=<value> or <setting>=<value>. "
            f"Got {text}"
        )
    mode, setting, value = _named_setting(flag, text, "trace mode", optional=True)
    known = ("triton", "opentelemetry")
    where, named = (flag, mode) if mode else (f"{flag} mode", value if setting == "mode" else known[0])
    if named.lower() not in known:
        raise CommandLineError(
            f'Bad option: "{where}".\ninvalid value for trace mode option: {named}. '
            'Available options are "triton" and "opentelemetry"'
        )
    if setting == "level":
        value = _trace_level(f"{flag} level", value)
    if setting in ("rate", "count") or (mode and setting == "log-frequency"):
        _integer(flag, value)
    return mode.lower(), setting, value


def _trace_level(flag: str, text: str) -> str:
    if text.upper() in ("MIN", "MAX"):  # the former names
        return "TIMESTAMPS"
    if text.upper() not in ("OFF", "TIMESTAMPS", "TENSORS"):
        raise CommandLineError(f'Bad option: "{flag}".\ninvalid value for trace level option: {text.lower()}')
    return text


def _named_setting(flag: str, text: str, what: str, optional: bool = False) -> tuple[str, str, str]:
    """Return (name, setting, value). With `optional` the name may be left out."""
    head, equals, value = text.partition("=")
    name, comma, setting = head.partition(",")
    if not comma and optional:
        name, setting = "", head
    if not (equals and setting and value and (name or optional)):
        raise CommandLineError(f"{flag} option format is '<{what}>,<setting>=<value>'. Got {text}")
    return name, setting, value


def _pair(flag: str, text: str) -> tuple[int, int]:
    first, colon, second = text.partition(":")
    if not colon:
        raise CommandLineError(
            "Cannot parse pair option due to incorrect number of inputs."
            f"--<pair option> argument requires format <first>:<second>. Found: {text}"
        )
    return _integer(flag, first), _size(flag, second)


def _resource(flag: str, text: str) -> tuple[str, int, int]:
    """Return (name, count, device); device -1 stands for every device."""
    parts = text.split(":")
    if len(parts) not in (2, 3):
        raise CommandLineError(
            f'Bad option: "{flag}".\n{flag} option format is '
            f"'<resource_name>:<count>:<device>' or '<resource_name>:<count>'. Got {text}"
        )
    return parts[0], _integer(flag, parts[1]), _integer(flag, parts[2]) if len(parts) == 3 else -1


def _restriction(what: str) -> Callable[[str, str], tuple[tuple[str, ...], str, str]]:
    def read(flag: str, text: str) -> tuple[tuple[str, ...], str, str]:
        """Return (categories, header, value)."""
        names, colon, rest = text.partition(":")
        header, equals, value = rest.partition("=")
        if not (names and colon and header and equals and value):
            raise CommandLineError(f"{flag} option format is '<config name>:<setting>=<value>'. Got {text}")
        categories = tuple(names.split(","))
        for category in categories:
            if category not in CATEGORIES:
                raise CommandLineError(f"unknown restricted {what} '{category}' ")
        return categories, header, value

    return read


def restricted(what: str, restrictions: list[tuple[tuple[str, ...], str, str]]) -> dict[str, tuple[str, str]]:
    """Return category -> (header, value) that a request must carry. Raises CommandLineError for a category twice."""
    found: dict[str, tuple[str, str]] = {}
    for categories, header, value in restrictions:
        for category in categories:
            if category in found:
                raise CommandLineError(f"restricted {what} '{category}' can not be specified in multiple config groups")
            found[category] = (header, value)
    return found


TEXT = Kind("<string>", lambda flag, text: text)
NAME = Kind("<name>", _name)
TEXTS = Kind("<string>", TEXT.read, many=True)
BOOLEAN = Kind("<boolean>", _boolean)
PATTERN = Kind("<regex>", _pattern)
INTEGER = Kind("<integer>", _integer)
SIZE = Kind("<integer>", _size)
FLOAT = Kind("<float>", _float)
#: takes no value: given or not
SWITCH = Kind("", lambda flag, text: True)
SETTINGS = Kind("<setting>=<value>", _setting, many=True)
BACKEND_SETTINGS = Kind("<backend>,<setting>=<value>", _backend_setting, many=True)
CACHE_SETTINGS = Kind("<cache>,<setting>=<value>", _cache_setting, many=True)
POLICY_SETTINGS = Kind("<policy>,<setting>=<value>", partial(_named_setting, what="policy name"), many=True)
TRACE_LEVELS = Kind("{OFF,TIMESTAMPS,TENSORS}", _trace_level, many=True)
TRACE_SETTINGS = Kind("[<mode>,]<setting>=<value>", _trace_setting, many=True)
PAIRS = Kind("<device>:<integer>", _pair, many=True)
RESOURCES = Kind("<name>:<count>[:<device>]", _resource, many=True)
RESTRICTED_APIS = Kind("<api>[,…]:<header>=<value>", _restriction("api"), many=True)
RESTRICTED_PROTOCOLS = Kind("<protocol>[,…]:<header>=<value>", _restriction("protocol"), many=True)
