"""JSON documents that are elements of BYTES tensors (TYPE_STRING in a config), read and shown."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ....core.inference.data_type import DataType
from ....core.inference.tensor import Tensor

#: How many documents of one tensor are shown, how many characters of one, and the size up to which a tensor is read.
_MOST_SHOWN = 4
_MOST_LETTERS = 8_000
_MOST_BYTES = 2_000_000


def json_document(text: str | bytes) -> Any:
    """Return the object or list in a JSON text; None for any other text."""
    bare = text.strip()
    if bare[:1] not in ("{", "[", b"{", b"["):
        return None
    try:
        return json.loads(bare)
    except (ValueError, RecursionError):
        return None


def json_note(text: str) -> str:
    """Describe a typed text that looks like JSON: which document it is, or where it ceases to be one."""
    bare = text.strip()
    if not bare.startswith(("{", "[")):
        return ""
    try:
        found = json.loads(bare)
    except json.JSONDecodeError as error:
        return f"not JSON: {error.msg.lower()} in line {error.lineno}, column {error.colno}" if bare[0] == "{" else ""
    except RecursionError:
        return "not JSON: it is nested too deeply"
    if isinstance(found, dict):
        return f"a JSON object with {len(found)} key{'s' * (len(found) != 1)}"
    documents = [one for one in found if isinstance(one, (dict, list))]
    return f"a JSON list of {len(found)}" if documents else ""


def json_texts(tensor: Tensor) -> list[str]:
    """Return the documents in a tensor as a person reads them, if all of its first elements are documents."""
    if tensor.datatype is not DataType.BYTES or tensor.byte_size > _MOST_BYTES:
        return []
    elements = tensor.numpy().reshape(-1)
    texts = list(_indented(elements[:_MOST_SHOWN]))
    if not texts or len(texts) < min(len(elements), _MOST_SHOWN):
        return []
    left = len(elements) - len(texts)
    return [*texts, f"… and {left} more"] if left else texts


def _indented(elements: Any) -> Iterator[str]:
    for element in elements:
        found = json_document(element)
        if found is not None:
            text = json.dumps(found, indent=2, ensure_ascii=False)
            yield text if len(text) <= _MOST_LETTERS else f"{text[:_MOST_LETTERS]} …"
