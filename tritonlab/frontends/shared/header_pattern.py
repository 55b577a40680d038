r"""The pattern of forwarded headers, in the syntax of RE2, which Triton uses, translated for Python's `re`.

A header's name is ASCII, and whether a pattern is found in it does not depend on greediness or groups. So each part
that stands for one character, `k`, `[^a-z]`, `\PN` or `\C`, becomes the set of the ASCII characters that it matches, in
both cases unless the pattern has `(?-i)`: this removes flags and classes, which the two languages write differently.
The errors are RE2's (measured on 2.51, whose RE2 lacks `(?<name>`).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from typing import NamedTuple

from ...core.status import InvalidArgumentError

_ASCII = "".join(map(chr, range(128)))
#: Characters beyond ASCII that equal letters of ASCII if case is ignored.
_FOLDED = {"k": "\u212a", "s": "\u017f"}
#: The most copies of a part that nested `{n}` may request.
_MOST_COPIES = 1000

_CONTROLS = dict(zip("nrtafv", "\n\r\t\a\f\v", strict=True))
_CLASSES = {
    "d": "0-9",
    "s": r"\t\n\f\r ",
    "w": "0-9A-Za-z_",
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": r"\0-\x7f",
    "blank": r"\t ",
    "cntrl": r"\0-\x1f\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\t-\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
_CATEGORY = re.compile("C[cfos]?|L[lmotu]?|M[cen]?|N[dlo]?|P[cdefios]?|S[ckmo]?|Z[lps]?")
#: The beginning of a category. Within ASCII, all letters and no other characters are Latin.
_SCRIPTS = {"Any": "", "Latin": "L", "Common": "L"}

_NUMBER = "0|[1-9][0-9]{0,8}"
_TOKEN = re.compile(
    rf"""
    \\Q(?P<quoted>.*?)(?:\\E|\Z)
    |(?P<repeat>(?:[*+?]|\{{(?P<least>{_NUMBER})(?P<to>,(?P<most>{_NUMBER})?)?\}})\??)
    |(?P<flags>\(\?(?P<on>[imsU]*)(?:-(?P<off>[imsU]+))?(?P<scope>[:)]))
    |(?P<open>\((?!\?)|\(\?P<(?u:\w+)>)
    |(?P<close>\))
    |(?P<either>\|)
    |(?P<edge>[\^$]|\\[AzbB])
    |(?P<any>\.|\\C)
    |(?P<set>\[)(?P<negated>\^?)
    |(?P<one>(?!\(\?))
    """,
    re.X | re.S | re.A,
)
_POSIX = re.compile(r"\[:(\^?)(.*?):\]", re.S)
_PROPERTY = re.compile(r"\\([pP])(?:\{(\^?)([^}]*)\}|([^{]))", re.S)
_ESCAPE = re.compile(
    r"\\(?:([1-7][0-7]{1,2}|0[0-7]{0,2})|x(?:\{([0-9A-Fa-f]+)\}|([0-9A-Fa-f]{2}))|([nrtafv])|((?![0-9A-Za-z])[\0-\x7f]))",
    re.S,
)
_EDGES = {"^": r"(?:\A)", "$": r"(?:\Z)", "\\A": r"(?:\A)", "\\z": r"(?:\Z)", "\\b": r"(?:\b)", "\\B": r"(?:\B)"}


def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Return the regular expression found in the same names as Triton's pattern. Raises InvalidArgumentError."""
    try:
        return re.compile(_Translation(pattern).text(), re.A)
    except _RefusedError as error:
        reason = str(error)
    except RecursionError:
        reason = "its groups are nested too deep"
    raise InvalidArgumentError(f"'{pattern}' is not a regular expression of RE2: {reason}")


class _RefusedError(Exception):
    """An error for an expression that RE2 does not accept."""


class _Part(NamedTuple):
    """A part of a pattern, for `re`, and how many copies of another part it requests."""

    text: str
    copies: int = 1


_EITHER = _Part("|")


class _Translation:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._folds = True  # case is ignored
        self._parts: list[_Part] = []  # of the innermost open group
        self._groups: list[tuple[list[_Part], bool]] = []  # around it: parts, and whether case was ignored

    def text(self) -> str:
        try:
            self._pattern.encode()
        except UnicodeEncodeError:
            raise _RefusedError("invalid UTF-8") from None
        before = ""  # the operator just before, which no other may follow
        while self._at < len(self._pattern):
            begin = self._at
            found = _TOKEN.match(self._pattern, begin)
            if found is None:
                raise _RefusedError(f"invalid perl operator: {self._pattern[begin : begin + 3]}")
            self._at = found.end()
            if (operator := found["repeat"]) is not None:
                if before:
                    raise _RefusedError(f"bad repetition operator: {before}{operator}")
                self._repeat(found)
            else:
                self._read(found)
            before = operator or ""
        if self._groups:
            raise _RefusedError(f"missing ): {self._pattern}")
        return self._join().text

    def _read(self, found: re.Match[str]) -> None:
        if (quoted := found["quoted"]) is not None:
            self._parts += [self._set(letter.__eq__) for letter in quoted]
        elif found["flags"] is not None:
            if found["scope"] == ":":
                self._open()
            if "i" in found["on"]:
                self._folds = True
            if "i" in (found["off"] or ""):
                self._folds = False
        elif found["open"] is not None:
            self._open()
        elif found["close"] is not None:
            if not self._groups:
                raise _RefusedError(f"unexpected ): {self._pattern}")
            group = self._join()
            self._parts, self._folds = self._groups.pop()
            self._parts.append(group)
        elif found["either"] is not None:
            self._parts.append(_EITHER)
        elif (edge := found["edge"]) is not None:
            self._parts.append(_Part(_EDGES[edge]))
        elif found["any"] is not None:
            self._parts.append(_one_of(_ASCII))
        elif found["set"] is not None:
            self._parts.append(self._read_brackets(found.start(), bool(found["negated"])))
        else:
            members = self._several()
            self._parts.append(_one_of(members) if members is not None else self._set(self._character().__eq__))

    def _open(self) -> None:
        self._groups.append((self._parts, self._folds))
        self._parts = []

    def _join(self) -> _Part:
        copies = max((part.copies for part in self._parts), default=1)
        return _Part(f"(?:{''.join(part.text for part in self._parts)})", copies)

    def _repeat(self, found: re.Match[str]) -> None:
        operator, most = found["repeat"], 1
        if found["least"] is not None:
            least = int(found["least"])
            most = int(found["most"] or 0) if found["to"] and found["most"] else least
            if most < least or max(least, most) > _MOST_COPIES:
                raise _RefusedError(f"invalid repetition size: {operator}")
        if not self._parts or self._parts[-1] is _EITHER:
            raise _RefusedError(f"no argument for repetition operator: {operator}")
        part = self._parts[-1]
        copies = part.copies * max(most, 1)
        if copies > _MOST_COPIES:
            raise _RefusedError(f"invalid repetition size: {operator}")
        self._parts[-1] = _Part(f"(?:{part.text}){operator}", copies)

    def _read_brackets(self, begin: int, negated: bool) -> _Part:
        """Read the text after `[`, including `]`."""
        members: set[str] = set()
        first = self._at
        while self._pattern[self._at : self._at + 1] != "]" or self._at == first:
            if self._at >= len(self._pattern):
                raise _RefusedError(f"missing ]: {self._pattern[begin:]}")
            found = _POSIX.match(self._pattern, self._at)
            several = self._several() if found is None else self._class(found[0], found[2], bool(found[1]))
            members |= several if several is not None else self._range()
        self._at += 1
        return _one_of(set(_ASCII) - members if negated else members)

    def _range(self) -> set[str]:
        begin = self._at
        low = high = self._character()
        if self._pattern[self._at : self._at + 1] == "-" and self._pattern[self._at + 1 : self._at + 2] != "]":
            self._at += 1
            high = self._character()
        if high < low:
            raise _RefusedError(f"invalid character class range: {self._pattern[begin : self._at]}")
        return self._members(lambda letter: low <= letter <= high)

    def _several(self) -> set[str] | None:
        r"""Return the class that `\d` or `\pN` stands for, if that is next."""
        next_two = self._pattern[self._at : self._at + 2]
        if next_two in ("\\d", "\\s", "\\w", "\\D", "\\S", "\\W"):
            return self._class(next_two, next_two[1].lower(), next_two[1].isupper())
        if next_two not in ("\\p", "\\P"):
            return None
        found = _PROPERTY.match(self._pattern, self._at)
        name = (found[3] if found[4] is None else found[4]) if found is not None else ""
        if found is None or not (name in _SCRIPTS or _CATEGORY.fullmatch(name)):
            text = found[0] if found is not None else self._pattern[self._at :]
            reason = "of scripts, only Latin and Common have characters that a header's name can have"
            raise _RefusedError(f"invalid character class range: {text} ({reason})")
        self._at = found.end()
        start = _SCRIPTS.get(name, name)
        negated = (found[1] == "P") ^ bool(found[2]) ^ (name == "Common")
        members = self._members(lambda letter: unicodedata.category(letter).startswith(start))
        return set(_ASCII) - members if negated else members

    def _class(self, text: str, name: str, negated: bool) -> set[str]:
        if name not in _CLASSES:
            raise _RefusedError(f"invalid character class range: {text}")
        self._at += len(text)
        has = re.compile(f"[{_CLASSES[name]}]").match
        members = self._members(has)
        return set(_ASCII) - members if negated else members

    def _character(self) -> str:
        if self._pattern[self._at : self._at + 1] != "\\":
            self._at += 1
            return self._pattern[self._at - 1 : self._at]
        found = _ESCAPE.match(self._pattern, self._at)
        if found is None:
            rest = self._pattern[self._at : self._at + 2]
            raise _RefusedError("trailing \\" if rest == "\\" else f"invalid escape sequence: {rest}")
        self._at = found.end()
        octal, long, short, control, itself = found.groups()
        if octal is not None:
            return chr(int(octal, 8))
        if control is not None:
            return _CONTROLS[control]
        if itself is not None:
            return str(itself)
        code = int(long or short, 16)
        if code > 0x10FFFF:
            raise _RefusedError(f"invalid escape sequence: {found[0]}")
        return chr(code)

    def _set(self, has: Callable[[str], object]) -> _Part:
        return _one_of(self._members(has))

    def _members(self, has: Callable[[str], object]) -> set[str]:
        return {letter for letter in _ASCII if any(map(has, self._cases(letter)))}

    def _cases(self, letter: str) -> str:
        return letter.lower() + letter.upper() + _FOLDED.get(letter.lower(), "") if self._folds else letter


def _one_of(members: Iterable[str]) -> _Part:
    return _Part("[" + "".join(f"\\x{ord(letter):02x}" for letter in sorted(members)) + "]" if members else "(?!)")
