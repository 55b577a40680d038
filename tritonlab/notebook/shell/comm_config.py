"""What an editor shows of the config.pbtxt that is typed into it: what Triton would refuse, where, what the
fields are for, and what may be typed next. Nothing is kept and nothing is loaded."""

from __future__ import annotations

import re
from typing import Any

from ..authoring.config_fields import sentence_of
from ..authoring.config_text import ConfigText, ConfigTextError, faults
from ..authoring.workspace import Workspace
from .config_completion import config_words, field_at

_WORD = re.compile(r"[^\s{}\[\]:,]+|\S")
#: A file's own name is taken for the model's, whose directory it may not be in yet.
_NAME = re.compile(r'^\s*name\s*:\s*"([^"]*)"', re.MULTILINE)


def check(workspace: Workspace, text: str, model: str = "") -> list[dict[str, Any]]:
    """Return what `%%triton_config` would refuse in this text: `text`, the `line` (from 1; 0 for the whole), and the
    columns `start` and `end` (from 0).
    """
    if not model and (named := _NAME.search(text)):
        model = named[1]
    return [
        {"text": f"{error.complaint} {error.advice}".strip(), "line": error.line, **_columns(text, error)}
        for error in faults(ConfigText(text, model=model or "model"))
    ]


def _columns(text: str, error: ConfigTextError) -> dict[str, int]:
    """Return where the word that is to blame stands in its line; without a column the line, from its first letter."""
    lines = text.splitlines()
    line = lines[error.line - 1] if 0 < error.line <= len(lines) else ""
    if not error.column:
        return {"start": len(line) - len(line.lstrip()), "end": len(line.partition("#")[0].rstrip())}
    found = _WORD.match(line, error.column - 1)
    return {"start": error.column - 1, "end": found.end() if found else len(line)}


def complete(workspace: Workspace, text: str) -> dict[str, Any]:
    """Return what may stand at the end of `text`: `typed`, the part of it that is there, and the `words` that begin
    so: fields, values of enums, models of this notebook for a step."""
    typed, words = config_words(text, workspace.names) or ("", [])
    return {"typed": typed, "words": words}


def explain(workspace: Workspace, text: str) -> dict[str, str]:
    """Return the `field` whose name `text` ends with, its `type`, and what it is for; "" where that is not a field."""
    descriptor, name = field_at(text)
    field = descriptor.fields_by_name.get(name) if descriptor is not None else None
    if field is None:
        return {"field": "", "type": "", "says": ""}
    return {"field": name, "type": _type(field), "says": sentence_of(descriptor, name)}


def _type(field: Any) -> str:
    if field.message_type is not None:
        kind = "map" if field.message_type.GetOptions().map_entry else field.message_type.name
    elif field.enum_type is not None:
        kind = " or ".join(value.name for value in field.enum_type.values if value.name != "TYPE_INVALID")
    else:
        kind = _SCALARS[field.cpp_type]
    return f"{kind}, repeated" if field.is_repeated and kind != "map" else kind


#: protobuf's numbers of kinds of scalars, in Triton's words
_SCALARS = {
    1: "integer",
    2: "integer",
    3: "integer",
    4: "integer",
    5: "number",
    6: "number",
    7: "true or false",
    9: "text",
}
