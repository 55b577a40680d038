"""A text file that a cell shows and edits, while every unchanged line keeps its bytes."""

from __future__ import annotations

import codecs
import difflib
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from .errors import FileError

_LINE = re.compile(rb"([^\r\n]*)(\r\n|\n|\r|\Z)")


class Line(NamedTuple):
    """A line of a file, and the bytes that end it; none at the end of a file without a line break there."""

    content: bytes
    end: bytes


class OriginalText:
    """The lines of a file of any encoding and any line breaks.

    A cell cannot hold all of them: it has one kind of line break and only Unicode, and IPython removes the blanks of
    blank lines and the blank end. So a cell shows `text`, and `edited` finds the changes by comparison.
    """

    def __init__(self, content: bytes, *, is_python: bool = False) -> None:
        self._mark = codecs.BOM_UTF8 if content.startswith(codecs.BOM_UTF8) else b""
        self._content = content
        self._encoding = _python_encoding(content) if is_python else "utf-8"
        self._lines = list(_split(content[len(self._mark) :]))
        self._texts = [line.content.decode(self._encoding, "replace") for line in self._lines]

    @property
    def text(self) -> str:
        """The text as a cell shows it, without the line break at its end."""
        return "\n".join(self._texts)

    def edited(self, text: str) -> bytes:
        """Return the file with the text of a cell: equal lines keep their bytes, others get the file's encoding and the
        line break of most of its lines. Blank lines at the end of the file stay.

        Raises FileError for a character that the file's encoding lacks.
        """
        lines = [_as_ipython_has_it(line) for line in re.split("\r\n|\n|\r", text)]
        used, former = _without_blank_end(lines), _without_blank_end([_as_ipython_has_it(line) for line in self._texts])
        if used and former and used[-1].rstrip() == former[-1].rstrip():
            used[-1] = former[-1]
        if used == former:
            return self._content
        if not former:
            return self._mark + self._encode(text)
        return self._mark + self._written(used, former) + self._rest(len(former))

    def _written(self, used: Sequence[str], former: Sequence[str]) -> bytes:
        written: list[Line] = []
        matcher = difflib.SequenceMatcher(None, former, used, autojunk=False)
        for operation, first, last, start, stop in matcher.get_opcodes():
            if operation == "equal":
                written += self._lines[first:last]
            elif operation != "delete":
                written += [Line(self._encode(line), self._usual_end) for line in used[start:stop]]
        *before, end = written or [Line(b"", b"")]
        # the last line ends as the file's last line does, wherever that is now
        closing = self._lines[len(former) - 1].end
        return b"".join(line.content + (line.end or self._usual_end) for line in before) + end.content + closing

    def _rest(self, first: int) -> bytes:
        """Return the blank lines at the end of the file."""
        return b"".join(line.content + line.end for line in self._lines[first:])

    @cached_property
    def _usual_end(self) -> bytes:
        ends = Counter(line.end for line in self._lines if line.end)
        return max(ends, key=ends.__getitem__, default=b"\n")

    def _encode(self, text: str) -> bytes:
        try:
            return text.encode(self._encoding)
        except UnicodeEncodeError as error:
            character = text[error.start]
            fix = f"leave it out, or change the encoding on the file's first line from {self._encoding}"
            raise FileError(f"{character!r} cannot be written in {self._encoding}: {fix}", fix=fix) from None


def is_text(content: bytes) -> bool:
    """Return whether a cell can show the file."""
    return b"\0" not in content


def _split(content: bytes) -> Iterator[Line]:
    for found in _LINE.finditer(content):
        if found[0]:
            yield Line(found[1], found[2])


def _as_ipython_has_it(line: str) -> str:
    return line if line.strip() else ""


def _without_blank_end(lines: Sequence[str]) -> list[str]:
    end = len(lines)
    while end and not lines[end - 1]:
        end -= 1
    return list(lines[:end])


def _python_encoding(content: bytes) -> str:
    """Return the encoding that the first lines of a Python file name; UTF-8 without a known one."""
    try:
        return tokenize.detect_encoding(io.BytesIO(content).readline)[0].removesuffix("-sig")
    except SyntaxError:
        return "utf-8"
