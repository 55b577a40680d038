"""The pages about errors, `tritonlab/errors.md`, and which of them an error is about."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

_BOOK = Path(__file__).resolve().parents[1] / "errors.md"


class ErrorPage(NamedTuple):
    """A page about one error. `topic`: its name; `examples`: texts of such errors; `body`: cause and mend, in
    Markdown."""

    topic: str
    examples: tuple[str, ...]
    body: str

    def __str__(self) -> str:
        return "\n\n".join([*self.examples, self.body])


@functools.cache
def error_pages() -> dict[str, ErrorPage]:
    """Return the pages by topic, in the order of the book."""
    pages = {}
    for section in re.split(r"^## ", _BOOK.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        topic, _, rest = section.partition("\n")
        parts = re.split(r"\n{2,}", rest.strip())
        examples = [re.sub(r"^> ?", "", part, flags=re.MULTILINE) for part in parts if part.startswith(">")]
        body = "\n\n".join(part for part in parts if not part.startswith(">"))
        pages[topic] = ErrorPage(topic, tuple(examples), body)
    return pages


def topic_of(text: str, patterns: Sequence[re.Pattern[str]]) -> str:
    """Return the topic of an error's text: that of the page with an example that the same one of `patterns` finds, each
    of which is for one advice; "" if there is none."""
    found = _first(text, patterns)
    if found is None:
        return ""
    for page in error_pages().values():
        if any(_first(example, patterns) is found for example in page.examples):
            return page.topic
    return ""


def _first(text: str, patterns: Sequence[re.Pattern[str]]) -> re.Pattern[str] | None:
    return next((pattern for pattern in patterns if pattern.search(text)), None)
