"""Plain values as YAML in block style: the same text for the same values, and no library for it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_PLAIN = re.compile(r"[A-Za-z/][\w./-]*( [\w./-]+)*")
#: Words that some readers of YAML take for a boolean or null.
_WORDS = {"true", "false", "yes", "no", "on", "off", "y", "n", "null"}


def yaml_text(*documents: Mapping[str, Any], about: str = "") -> str:
    """Return the documents as one file. `about`: lines of comment at its top."""
    head = "".join(f"# {line}\n" for line in about.splitlines())
    return head + "---\n".join("\n".join(_lines(document, "")) + "\n" for document in documents)


def _lines(value: Mapping[str, Any] | Sequence[Any], indent: str) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _entry(f"{indent}{_scalar(key)}:", item, indent + "  ")
        return
    for item in value:
        if isinstance(item, Mapping) and item:
            first, *others = _lines(item, indent + "  ")
            yield f"{indent}- {first.strip()}"
            yield from others
        else:
            yield from _entry(f"{indent}-", item, indent + "  ")


def _entry(head: str, item: Any, indent: str) -> Iterator[str]:
    if isinstance(item, Mapping) or (isinstance(item, Sequence) and not isinstance(item, str)):
        if item:
            yield head
            yield from _lines(item, indent)
        else:
            yield f"{head} {'{}' if isinstance(item, Mapping) else '[]'}"
    else:
        yield f"{head} {_scalar(item)}"


def _scalar(value: str | int | float | bool) -> str:
    if not isinstance(value, str):
        return json.dumps(value)
    if _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return value
    if '"' in value and value.isprintable():
        return "'" + value.replace("'", "''") + "'"
    quoted = json.dumps(value, ensure_ascii=False)
    return "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in quoted)
