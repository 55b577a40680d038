"""This module reads the lines of magics. An unknown word is an error that names the nearest known one."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterable
from typing import Any

from IPython.core.error import UsageError

from ...core.explained import Explained
from ...core.status import Code
from ..authoring.hints import did_you_mean

_UNKNOWN = re.compile(r"unrecognized arguments: (?P<word>--?[\w-]+)")
_CHOICE = re.compile(r"invalid choice: '(?P<word>[^']*)' \(choose from (?P<known>.*)\)")


class LineError(Explained, UsageError):
    """The line of a magic cannot be read. `advice` is the part of the text that says what to write instead."""

    code = Code.INVALID_ARG

    def __init__(self, text: str, advice: str = "") -> None:
        super().__init__(text)
        self._advice = advice

    def place(self) -> str:
        return "the line of the magic"

    def remedy(self) -> str:
        return self._advice

    def _render_traceback_(self) -> list[str]:
        return [f"UsageError: {self}"]  # IPython looks for that very class


def parse(parser: Any, line: str) -> argparse.Namespace:
    """Returns the arguments of `line`. Raises LineError, a UsageError."""
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise LineError(f"{line!r} cannot be read: {error}") from None
    try:
        arguments: argparse.Namespace = parser.parse_args(words)
    except UsageError as error:
        advice = _advice(str(error), parser)
        raise LineError(f"{error}: {advice}" if advice else str(error), advice) from None
    return arguments


def unknown(what: str, word: str, known: Iterable[str]) -> LineError:
    """Returns the error for a word that is not among `known`."""
    known = list(known)
    nearest = did_you_mean(word, known)
    advice = nearest or f"it has {', '.join(known)}"
    return LineError(f"{what} {word!r}{':' if nearest else ';'} {advice}", advice)


def _advice(error: str, parser: Any) -> str:
    if found := _UNKNOWN.search(error):
        return did_you_mean(found["word"], [flag for action in parser._actions for flag in action.option_strings])
    if found := _CHOICE.search(error):
        return did_you_mean(found["word"], re.findall(r"[\w-]+", found["known"]))
    return ""
