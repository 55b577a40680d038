"""What subcommands of `%triton` return: texts for people that are JSON for programs, too."""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape
from typing import Any

from ...core.plain_facts import few_lines, plain
from ..views.theme import stored_html


class Text:
    """A text that a cell shows as it is, and the facts in it: `facts`, or the text itself.

    A program that reads the output gets the first lines; a person in a browser all of them.
    """

    def __init__(self, text: str, facts: Mapping[str, Any] | None = None) -> None:
        self.text = text
        self._facts = facts

    def to_dict(self) -> dict[str, Any]:
        found: dict[str, Any] = plain(self._facts if self._facts is not None else {"text": self.text})
        return found

    def __repr__(self) -> str:
        text = few_lines(self.text)
        return text if text == self.text else f"{text}: print(_.text) shows them"

    def _repr_html_(self) -> str | None:
        """Return a long text whole; a short one is shown as it is."""
        if repr(self) == self.text:
            return None
        return stored_html(f"<div class='tl-panel'><pre class='tl-lines'>{escape(self.text)}</pre></div>")


class JsonFacts(dict[str, Any]):
    """What `--json` returns: a dict whose text is JSON, on one line."""

    @staticmethod
    def from_result(result: Any) -> JsonFacts:
        """Return what a subcommand would show; nothing is an empty object."""
        return JsonFacts(plain(result) if result is not None else {})

    def __repr__(self) -> str:
        return json.dumps(self, ensure_ascii=False, allow_nan=False)


def without_json(rest: str) -> tuple[str, bool]:
    """Return a line without `--json` at its begin or end, and whether that was there; for lines with an expression,
    which no parser reads.
    """
    words = rest.strip()
    if words == "--json" or words.startswith("--json "):
        return words.removeprefix("--json").strip(), True
    if words.endswith(" --json"):
        return words.removesuffix("--json").strip(), True
    return rest, False
