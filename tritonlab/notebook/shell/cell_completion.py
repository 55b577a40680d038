"""Completion of Python in the body of a `%%triton_model` cell, whose names no other cell defines, and of the names of
inputs in a request's dict."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...core.config.model_config_rules import MODEL_ARGS
from ...core.status import TritonError
from ...server.api.model import Model
from ...stub.c_python_backend_utils import InferenceRequest
from ..authoring.hints import PB_UTILS

#: A name with `.` and the beginning of an attribute, at the end of the text.
_ATTRIBUTE = re.compile(r"(?<![\w.])(?P<object>\w+(?:\[[\w-]+\])?)\.(?P<typed>\w*)\Z")
_INPUT = re.compile(r"""get_input_tensor_by_name\(\s*[\w.\[\]]+\s*,\s*["'](?P<typed>[^"'\n]*)\Z""")
_OUTPUT = re.compile(r"""\bTensor\(\s*["'](?P<typed>[^"'\n]*)\Z""")
_ARGS = re.compile(r"""\bargs\[\s*["'](?P<typed>[^"'\n]*)\Z""")
_REQUESTS = re.compile(r"\bfor\s+(?:\w+\s*,\s*)?(\w+)\s+in\s+(?:enumerate\()?requests\b")
#: The beginning of a key in the dict of a request's inputs.
_KEY = re.compile(
    r"""(?<![\w.])(?P<model>\w+)\.(?:infer|async_infer|create_request)\(\s*(?:[^{}]*,\s*)?inputs\s*=\s*\{"""
    r"""(?P<before>(?:[^{}]*,)?\s*)["'](?P<typed>[^"'\n]*)\Z"""
)
_GIVEN = re.compile(r"""["']([^"'\n]*)["']\s*:""")

_REQUEST = [name for name in dir(InferenceRequest) if not name.startswith("_")]

Found = tuple[str, list[str]]


def model_cell(text: str, tensors_of: Callable[[str, str], Sequence[str]]) -> Found | None:
    """Return the word at the end of the text of a `%%triton_model` cell and what it may become, None where nothing of
    ours is expected. `tensors_of` returns the names of the tensors of a kind, `input` or `output`, of the model that
    such a line writes."""
    line, newline, body = text.lstrip().partition("\n")
    if not newline or not line.startswith("%%triton_model "):
        return None
    if found := _ATTRIBUTE.search(body):
        return _fitting(found["typed"], _attributes(found["object"], body))
    if found := _ARGS.search(body):
        return _fitting(found["typed"], MODEL_ARGS)
    for pattern, kind in ((_INPUT, "input"), (_OUTPUT, "output")):
        if found := pattern.search(body):
            return _fitting(found["typed"], tensors_of(line, kind))
    return None


def input_keys(text: str, namespace: Mapping[str, Any]) -> Found | None:
    """Return the same for a key of the inputs in a call such as `model.infer(inputs={"`, of a model in `namespace`."""
    found = _KEY.search(text)
    model = namespace.get(found["model"]) if found is not None else None
    if found is None or not isinstance(model, Model):
        return None
    try:
        names = [str(tensor["name"]) for tensor in model.config()["input"]]
    except TritonError:
        return None
    present = _GIVEN.findall(found["before"])
    return _fitting(found["typed"], [name for name in names if name not in present])


def _attributes(name: str, body: str) -> Sequence[str]:
    if name == "pb_utils":
        return PB_UTILS
    loops = _REQUESTS.findall(body)
    return _REQUEST if name == "request" or name.startswith("requests[") or name in loops else ()


def _fitting(typed: str, words: Sequence[str]) -> Found | None:
    fitting = [word for word in words if word.startswith(typed)]
    return (typed, fitting) if fitting else None
