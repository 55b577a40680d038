"""`Outputs`, the outputs of a response by name."""

from __future__ import annotations

from typing import NoReturn, TypeVar

from ..explained import Explained
from ..status import Code
from ..unknown_option import did_you_mean

Value = TypeVar("Value")


class NoSuchOutput(Explained, KeyError):
    """An output that a response does not have. The text lists those it has. It is a KeyError, as that of any dict."""

    code = Code.NOT_FOUND

    def __init__(self, name: object, there: list[str]) -> None:
        super().__init__(name)
        has = f"it has {', '.join(map(repr, there))}" if there else "it has none"
        self._advice = did_you_mean(str(name), there) or has
        self._text = f"the response has no output {name!r}: {self._advice}"

    def __str__(self) -> str:
        return self._text  # not the name alone, as of a KeyError

    def remedy(self) -> str:
        return self._advice


class Outputs(dict[str, Value]):
    """A dict whose KeyError lists the outputs that it has."""

    def __missing__(self, name: object) -> NoReturn:
        raise NoSuchOutput(name, list(self))
