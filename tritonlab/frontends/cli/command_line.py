"""The command line, read as tritonserver's getopt does: `--flag value`, `--flag=value`, repeated flags, and
flags shortened to an unambiguous beginning. One table lists the flags (`flags.py`)."""

from __future__ import annotations

import difflib
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .flag_values import SWITCH, CommandLineError, Kind


@dataclass(frozen=True)
class Flag:
    """One flag.

    `place`: the target of its value, `<part>.<field>`, shared by flags of one meaning; empty for a flag without effect
    here, whose `about` gives the reason. Without a `default`, a flag that is not given has no value, or an empty list.
    `ours` marks a flag that tritonserver lacks: it cannot be shortened, so that the beginnings of tritonserver's flags
    stay unambiguous.
    """

    name: str
    kind: Kind
    place: str
    about: str
    default: Any = None
    ours: bool = False


#: The flags by the title of their group in the help.
Groups = Mapping[str, Sequence[Flag]]


class CommandLine:
    """A command line.

    `values` maps part -> field -> value, with the defaults of flags that were not given; `inert` has the given flags
    that have no effect here, `flags_used` the names of all given flags.
    """

    def __init__(self, groups: Groups, arguments: Sequence[str]) -> None:
        """Read the words. Raises CommandLineError with Triton's text; for an unknown flag it names the nearest one."""
        self._flags = {flag.name: flag for flags in groups.values() for flag in flags}
        self.values: dict[str, dict[str, Any]] = {}
        self.inert: list[Flag] = []
        self.flags_used: set[str] = set()
        for flag in self._flags.values():
            if flag.place and flag.kind.many:
                self._put(flag, [])
            elif flag.place and flag.default is not None:
                self._put(flag, flag.default)
        for flag, value in self._read(list(arguments)):
            self._take(flag, flag.kind.read(f"--{flag.name}", value))

    def _read(self, arguments: list[str]) -> Iterator[tuple[Flag, str]]:
        while arguments:
            word = arguments.pop(0)
            if not word.startswith("--"):
                raise CommandLineError(
                    f"unrecognized option '{word}'" if word.startswith("-") else f"Unexpected argument: {word}"
                )
            name, equals, value = word[2:].partition("=")
            flag = self._find(name, word)
            if flag.kind is SWITCH:
                if equals:
                    raise CommandLineError(f"option '--{flag.name}' doesn't allow an argument")
            elif not equals:
                if not arguments:
                    raise CommandLineError(f"option '--{flag.name}' requires an argument")
                value = arguments.pop(0)
            yield flag, value

    def _find(self, name: str, word: str) -> Flag:
        if name in self._flags:
            return self._flags[name]
        begun = [known for known, flag in self._flags.items() if known.startswith(name) and not flag.ours]
        if len(begun) == 1:
            return self._flags[begun[0]]
        if begun:
            names = " ".join(f"'--{known}'" for known in begun)
            raise CommandLineError(f"option '{word}' is ambiguous; possibilities: {names}")
        nearest = difflib.get_close_matches(name, self._flags, n=1)
        hint = f"; did you mean '--{nearest[0]}'?" if nearest else ""
        raise CommandLineError(f"unrecognized option '{word}'{hint}")

    def _take(self, flag: Flag, value: Any) -> None:
        if not flag.place:
            if flag not in self.inert:
                self.inert.append(flag)
        elif flag.kind.many:
            part, field = flag.place.split(".")
            self.values[part][field].append(value)
        else:
            self._put(flag, value)
        self.flags_used.add(flag.name)

    def _put(self, flag: Flag, value: Any) -> None:
        part, field = flag.place.split(".")
        self.values.setdefault(part, {})[field] = value


def usage(groups: Groups) -> Iterator[str]:
    """Return the table as `--help` prints it, line by line."""
    for title, flags in groups.items():
        yield f"\n{title}:"
        for flag in flags:
            yield f"  --{flag.name} {flag.kind.placeholder}".rstrip()
            default = _default_text(flag.default)
            text = f"{flag.about}{f' Default: {default}.' if default else ''}"
            yield from textwrap.wrap(
                text if flag.place else f"No effect here: {text}",
                76,
                initial_indent="      ",
                subsequent_indent="      ",
                break_on_hyphens=False,
            )


def _default_text(default: Any) -> str:
    if isinstance(default, bool):
        return str(default).lower()
    return "" if default is None or default == () else str(default)
