"""The parsing of the lines of magics. An unknown word is an error that names the nearest known one."""

from __future__ import annotations

import argparse
import functools
import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic_arguments import MagicArgumentParser
from IPython.utils.text import DollarFormatter

from ...core.explained import Explained
from ...core.status import Code
from ...core.unknown_option import did_you_mean, nearest
from ..authoring.cells import raw_cell

_UNKNOWN = re.compile(r"unrecognized arguments: (?P<word>--?[\w-]+)")
_CHOICE = re.compile(r"invalid choice: '(?P<word>[^']*)' \(choose from (?P<known>.*)\)")


class LineParser(MagicArgumentParser):
    """The parser of the line of a magic, with its options by their flags, and the flags that may be repeated."""

    def __init__(self, *names: Any, **settings: Any) -> None:
        self.options: dict[str, argparse.Action] = {}
        self.repeated: set[str] = set()
        super().__init__(*names, **settings)  # type: ignore[no-untyped-call]

    def add_argument(self, *names: Any, **settings: Any) -> Any:
        action = super().add_argument(*names, **settings)
        self.options |= dict.fromkeys(action.option_strings, action)
        if settings.get("action") == "extend":
            self.repeated |= {*action.option_strings}
        return action


@functools.cache
def line_parser(magic: Any) -> LineParser:
    """Return the parser of the arguments with which the function of a cell magic was decorated."""
    parser = LineParser(magic.__name__)
    for decorator in reversed(magic.decorators):
        decorator.add_to_parser(parser, None)
    return parser


class LineError(Explained, UsageError):
    """A magic's line that cannot be read. `advice`: the part of the text about how to write it."""

    code = Code.INVALID_ARG
    own_place = "the line of the magic"

    def __init__(self, text: str, advice: str = "") -> None:
        super().__init__(text)
        self.own_remedy = advice

    def _render_traceback_(self) -> list[str]:
        return [f"UsageError: {self}"]  # IPython looks for exactly this class


def check_variables(shell: Any, line: str) -> None:
    """Refuse a line with an undefined variable in braces, which IPython would leave as it is typed.

    Raises LineError.
    """
    if "{" not in line or line not in raw_cell(shell):  # with its braces replaced it is another text
        return
    try:
        DollarFormatter().vformat(line, args=[], kwargs=shell.user_ns)
    except NameError as error:
        advice = "define it in a cell above this one, or write {{ and }} for braces"
        raise LineError(f"no variable `{error.name}`: {advice}", advice) from None
    except Exception:  # not an expression: JSON, for example
        return


def split_line(line: str) -> list[str]:
    """Return the words of `line`, as a shell reads them. Raises LineError."""
    try:
        return shlex.split(line)
    except ValueError as error:
        raise LineError(f"{line!r} cannot be read: {error}") from None


def parse(parser: LineParser, line: str) -> argparse.Namespace:
    """Return the arguments of `line`. Raises LineError, a UsageError."""
    words = split_line(line)
    try:
        arguments: argparse.Namespace = parser.parse_args(words)
    except UsageError as error:
        advice = _advice(str(error), parser)
        raise LineError(f"{error}: {advice}" if advice else str(error), advice) from None
    return arguments


def unknown(what: str, word: str, known: Iterable[str], words: Mapping[str, str] | None = None) -> LineError:
    """Return the error for a word that is not among `known`. `words`: other words for them, as `nearest` takes them."""
    known = list(known)
    meant = did_you_mean(word, known, words)
    advice = meant or f"it has {', '.join(known)}"
    return LineError(f"{what} {word!r}{':' if meant else ';'} {advice}", advice)


def _advice(error: str, parser: LineParser) -> str:
    if found := _UNKNOWN.search(error):
        # the dashes would make any two words similar
        options = {option.lstrip("-"): option for option in parser.options}
        near = nearest(found["word"].lstrip("-"), options)
        if near:
            return f"did you mean {options[near]!r}?"
        if "--config" not in parser.options:
            return ""
        return "%%triton_model? lists the options, and a %%triton_config cell takes what else a config.pbtxt says"
    if found := _CHOICE.search(error):
        return did_you_mean(found["word"], re.findall(r"[\w-]+", found["known"]))
    if error.startswith("unrecognized arguments") and parser.description:
        return f"%{parser.prog}: {parser.description}"
    return ""
