"""The pages about errors in `tritonlab/errors.md`: their texts, and a line of advice for each."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from .quoting import magic_line

_BOOK = Path(__file__).resolve().parents[1] / "errors.md"
_COMMENT = re.compile(r"<!-- (.*?) ?-->\n*", re.DOTALL)
#: `{NAME}` or `{NAME!m}` in an advice
_WORD = re.compile(r"\{(\w+)(!m)?\}")


class ErrorPage(NamedTuple):
    """A page about one error. `topic`: its name; `examples`: texts of such errors; `body`: cause and fix, in
    Markdown."""

    topic: str
    examples: tuple[str, ...]
    body: str

    def __str__(self) -> str:
        return "\n\n".join([*self.examples, self.body])


class Advice(NamedTuple):
    """One line of advice. `topic`: its page, or ""; `kind`: `hint`, `load` or `config`; `patterns`: one of them matches
    the error's text.
    """

    topic: str
    kind: str
    patterns: tuple[str, ...]
    text: str

    def fill(self, found: re.Match[str], compute: Callable[[str], str]) -> str:
        """Return the text with its braces replaced by groups of the match, or by computed words."""

        def word(brace: re.Match[str]) -> str:
            name = brace[1]
            value = found[name] if name in found.re.groupindex else compute(name)
            return magic_line(value) if brace[2] else value

        return _WORD.sub(word, self.text)


@functools.cache
def _sections() -> dict[str, str]:
    """Return the sections of the book by topic; the text before the first topic is under ""."""
    parts = re.split(r"^## (.*)\n", f"## \n{_BOOK.read_text(encoding='utf-8')}", flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@functools.cache
def error_pages() -> dict[str, ErrorPage]:
    """Return the pages by topic, in the order of the book."""
    pages = {}
    for topic, section in [*_sections().items()][1:]:
        parts = re.split(r"\n{2,}", _COMMENT.sub("", section).strip())
        examples = [re.sub(r"^> ?", "", part, flags=re.MULTILINE) for part in parts if part.startswith(">")]
        body = "\n\n".join(part for part in parts if not part.startswith(">"))
        pages[topic] = ErrorPage(topic, tuple(examples), body)
    return pages


@functools.cache
def all_advice() -> tuple[Advice, ...]:
    """Return the advice in the order of the book."""
    return tuple(advice for topic, section in _sections().items() for advice in _read_advice(topic, section))


def _read_advice(topic: str, section: str) -> Iterator[Advice]:
    patterns: list[str] = []
    is_complete = True
    for line in "\n".join(_COMMENT.findall(section)).splitlines():
        kind, _, text = line.partition(":")
        if kind == "find":
            patterns = [text[1:]] if is_complete else [*patterns, text[1:]]
        else:
            yield Advice(topic, kind, tuple(patterns), text[1:])
        is_complete = kind != "find"


def find_advice(text: str, *kinds: str) -> tuple[Advice, re.Match[str]] | None:
    """Return the first advice about an error's text, and its match. Kinds go first, then the order of the book."""
    for kind in kinds:
        for advice in all_advice():
            if advice.kind == kind:
                for pattern in advice.patterns:
                    if found := re.search(pattern, text):
                        return advice, found
    return None


def topic_of(text: str) -> str:
    """Return the topic of the page about an error of this text (`%triton help TOPIC`); "" if there is none."""
    found = find_advice(text, "hint", "load", "config")
    return found[0].topic if found else ""
