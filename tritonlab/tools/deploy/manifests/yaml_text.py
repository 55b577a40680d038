"""Plain values as YAML in block style: the same text for the same values, and no library for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ....core.quoting import yaml_scalar


def yaml_text(*documents: Mapping[str, Any], about: str = "") -> str:
    """Return the documents as one file. `about`: lines of comment at its top."""
    head = "".join(f"# {line}\n" for line in about.splitlines())
    return head + "---\n".join("\n".join(_lines(document, "")) + "\n" for document in documents)


def _lines(value: Mapping[str, Any] | Sequence[Any], indent: str) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _entry(f"{indent}{yaml_scalar(key)}:", item, indent + "  ")
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
        yield f"{head} {yaml_scalar(item)}"
