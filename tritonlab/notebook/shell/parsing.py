"""This module reads the lines of magics. An unknown word is an error that names the nearest known one."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterable
from typing import Any

from IPython.core.error import UsageError

from ..authoring.hints import did_you_mean

_UNKNOWN = re.compile(r"unrecognized arguments: (?P<word>--?[\w-]+)")
_CHOICE = re.compile(r"invalid choice: '(?P<word>[^']*)' \(choose from (?P<known>.*)\)")


def parse(parser: Any, line: str) -> argparse.Namespace:
    """Returns the arguments of `line`. Raises UsageError."""
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise UsageError(f"{line!r} cannot be read: {error}") from None
    try:
        arguments: argparse.Namespace = parser.parse_args(words)
    except UsageError as error:
        if advice := _advice(str(error), parser):
            raise UsageError(f"{error}: {advice}") from None
        raise
    return arguments


def unknown(what: str, word: str, known: Iterable[str]) -> UsageError:
    """Returns the error for a word that is not among `known`."""
    known = list(known)
    nearest = did_you_mean(word, known)
    return UsageError(f"{what} {word!r}{': ' + nearest if nearest else '; it has ' + ', '.join(known)}")


def _advice(error: str, parser: Any) -> str:
    if found := _UNKNOWN.search(error):
        return did_you_mean(found["word"], [flag for action in parser._actions for flag in action.option_strings])
    if found := _CHOICE.search(error):
        return did_you_mean(found["word"], re.findall(r"[\w-]+", found["known"]))
    return ""
