"""Checks of arguments like in Triton's compiled module: a wrong one raises TypeError before anything else happens (rule
0.4).

Valid arguments rarely come here: callers first test `type(x) is str` and the like. The convertible types were measured
on Triton; the texts have the form of Triton's, but not every detail of its signatures.
"""

from __future__ import annotations

import operator
from typing import Any, Dict, Optional, Sequence

_FORM = "%s(): incompatible %s arguments. The following argument types are supported:\n    1. %s\n\nInvoked with: %s"

UINT32_MAX = (1 << 32) - 1
UINT64_MAX = (1 << 64) - 1
INT64_MAX = (1 << 63) - 1

#: The method that makes a type a number for the binding; text has none of them.
_NUMBER = ("__index__", "__int__", "__float__")

#: Triton's text if a function converts a value itself; an argument of the wrong type is a TypeError.
CAST_ERROR = (
    "Unable to cast Python instance to C++ type (#define PYBIND11_DETAILED_ERROR_MESSAGES or compile in debug mode for "
    "details)"
)


def mismatch(
    function: str, signature: str, args: Sequence[Any] = (), kwargs: Optional[Dict[str, Any]] = None
) -> TypeError:
    """Return the TypeError of a call that fits no signature. `function` is `__init__` for a constructor."""
    pieces = [", ".join(map(repr, args))] if args else []
    if kwargs:
        pieces.append("kwargs: " + ", ".join("%s=%r" % item for item in kwargs.items()))
    kind = "constructor" if function == "__init__" else "function"
    return TypeError(_FORM % (function, kind, signature, "; ".join(pieces)))


def no_constructor(name: str) -> TypeError:
    """Return the TypeError of a class that models cannot construct (rule 1.1.4)."""
    return TypeError("c_python_backend_utils.%s: No constructor defined!" % name)


def as_text(value: Any) -> Optional[str]:
    """Return `value` as a string argument, which may also be UTF-8 bytes; None if it does not fit.

    Raises UnicodeDecodeError for other bytes. Triton accepts them, and raises the error when the text is read (rule
    0.6).
    """
    if isinstance(value, str):
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            return None
        return str(value)
    return value.decode("utf-8") if isinstance(value, (bytes, bytearray)) else None


def as_int(value: Any, low: int, high: int) -> Optional[int]:
    """Return `value` as an integer between `low` and `high`; None if it does not fit. Bools, numpy's scalars and
    convertible arrays fit, floats do not (rule 0.7).
    """
    kind = type(value)
    if isinstance(value, float) or not any(hasattr(kind, name) for name in _NUMBER):
        return None
    try:
        try:
            number = operator.index(value)
        except TypeError:
            number = int(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if low <= number <= high else None


def as_float(value: Any) -> Optional[float]:
    """Return `value` as a float, if its type can be converted to a number (a str cannot); None if it does not fit."""
    kind = type(value)
    if not (hasattr(kind, "__float__") or hasattr(kind, "__index__")):
        return None
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def as_flag(value: Any) -> Optional[bool]:
    """Return `value` as a bool, if it is not None and its type defines `__bool__`, as numbers do (rule 4.1.1); None if
    it does not fit.
    """
    return bool(value) if value is not None and hasattr(type(value), "__bool__") else None


def is_sequence(value: Any) -> bool:
    """Return whether `value` fits a list argument: sequences do; text, sets, dicts and iterators do not (rule
    1.7.3)."""
    kind = type(value)
    return not isinstance(value, (str, bytes, dict)) and hasattr(kind, "__getitem__") and hasattr(kind, "__len__")
