"""Completion of config.pbtxt while it is typed: the fields of the message at the cursor, the values of enums, and the
models for a step."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from ...core.config.model_config import ModelConfig

_TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"?|#[^\n]*|\w+|[^\s\w]')
_WORD = re.compile(r"\w*\Z")
#: The name of a step's model, as far as it is typed.
_STEP = re.compile(r'\bmodel_name\s*:\s*"([^"\n]*)\Z')


@dataclass
class _Message:
    """An open message. `field`: the field whose value, or list in brackets, is next; "" if a name is expected."""

    descriptor: Any
    field: str = ""
    listed: bool = False

    def read(self, token: str) -> None:
        """Read one token that does not open or close a message."""
        if token == "[":
            self.listed = True
        elif token == "]" or (self.field and not self.listed and token != ":"):
            self.field, self.listed = "", False  # the value is complete
        elif not self.field and token.isidentifier():
            self.field = token

    def opened(self) -> _Message:
        """Return the message in the field that is open."""
        field = self.descriptor.fields_by_name.get(self.field) if self.descriptor is not None else None
        return _Message(field.message_type if field is not None else None)


def config_words(text: str, models: Callable[[], Iterable[str]]) -> tuple[str, list[str]] | None:
    """Return the word at the end of `text` and its completions; None inside another string, a comment, or an unknown
    message. `models` returns the names that a step may have."""
    if step := _STEP.search(text):
        return step[1], [name for name in models() if name.startswith(step[1])]
    message, fragment = _at_end(text)
    if message.descriptor is None:
        return None
    if message.field:
        words = _values(message.descriptor.fields_by_name.get(message.field))
    else:
        fields = message.descriptor.fields
        words = [f"{field.name} {{" if field.message_type is not None else f"{field.name}: " for field in fields]
    return fragment, [word for word in words if word.startswith(fragment)]


def field_at(text: str) -> tuple[Any, str]:
    """Return the message at the end of `text`, as a descriptor, and the field name with which `text` ends. The
    descriptor is None if no name is expected: in a string, a comment, or a value."""
    message, name = _at_end(text)
    return None if message.field else message.descriptor, name


def _at_end(text: str) -> tuple[_Message, str]:
    """Return the message and the word at the end of `text`; in a string or a comment a message without descriptor."""
    line = text.rpartition("\n")[2]
    before = _WORD.sub("", text)
    is_config = "#" not in line and line.count('"') % 2 == 0
    return _innermost(before) if is_config else _Message(None), text[len(before) :]


def _innermost(text: str) -> _Message:
    """Return the message at the end of `text`."""
    stack = [_Message(ModelConfig.DESCRIPTOR)]
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token in "{<":
            stack.append(stack[-1].opened())
        elif token in "}>" and len(stack) > 1:
            stack.pop()
            if not stack[-1].listed:  # in a list, more values may follow
                stack[-1].field = ""
        elif not token.startswith("#"):
            stack[-1].read(token)
    return stack[-1]


def _values(field: Any) -> list[str]:
    if field is not None and field.enum_type is not None:
        return [value.name for value in field.enum_type.values]
    return ["true", "false"] if field is not None and field.type == field.TYPE_BOOL else []
