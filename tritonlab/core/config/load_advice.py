"""Advice for failed loads whose reason is enough to give it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator
from typing import Any

from ..error_pages import find_advice
from .model_config import ModelConfig

#: A place in a config.pbtxt, as the reason of a failed poll names it.
_CONFIG_PLACE = re.compile(r"from (?P<file>\S+\.pbtxt) \((?P<line>\d+):\d+")
#: The packages that have another name than their modules, as NVIDIA's examples import them.
_PACKAGES = {"cv2": "opencv-python-headless", "PIL": "pillow", "sklearn": "scikit-learn", "yaml": "pyyaml"}
#: Phrases that several texts of advice share.
_SHARED = {
    "simulate": "on a machine without a GPU such a model loads where GPUs are simulated: "
    "tritonlab.reset(simulated_gpus=1), Options(simulated_gpus=1), tritonlab serve --simulated-gpus=1",
    "make_environment": "EXECUTION_ENV_PATH is a directory of an environment, or what conda-pack made of one, on the "
    "machine that serves: put it into the model's directory and write $$TRITON_MODEL_DIRECTORY/<its name>, or leave "
    "the parameter out, and the model runs in the Python of the server",
}


def load_advice(reason: str) -> str:
    """Return advice about a load that failed for this reason; "" if there is none."""
    return _advise(reason, "load", "config")


def config_advice(complaint: str) -> str:
    """Return advice about a misspelt field or enum value of a config, or about a template's placeholders, or ""."""
    return _advise(complaint, "config")


def _advise(text: str, *kinds: str) -> str:
    match find_advice(text, *kinds):
        case None:
            return ""
        case advice, found:
            return advice.fill(found, lambda word: _SHARED[word] if word in _SHARED else _COMPUTED[word](found))


def config_place(reason: str) -> str:
    """Return the place of the config.pbtxt's line in the reason, in Python's form; empty if the reason has none."""
    found = _CONFIG_PLACE.search(reason)
    return f'File "{found["file"]}", line {found["line"]}' if found else ""


def _package(found: re.Match[str]) -> str:
    return _PACKAGES.get(found["module"], found["module"])


def _nearest_field(found: re.Match[str]) -> str:
    messages = [message for message in _messages() if message.name == found["message"]]
    return _nearest(found["name"], [field.name for message in messages for field in message.fields])


def _nearest_value(found: re.Match[str]) -> str:
    enums = [*ModelConfig.DESCRIPTOR.file.enum_types_by_name.values(), *(e for m in _messages() for e in m.enum_types)]
    return _nearest(found["name"], [value.name for e in enums if e.name == found["enum"] for value in e.values])


def _nearest(word: str, names: list[str]) -> str:
    if word in names:
        return ""  # a known name, used twice
    close = [name for name in names if name.endswith(f"_{word}")] or difflib.get_close_matches(word, names, n=2)
    return f"Did you mean {' or '.join(close)}?" if close else ""


def _messages() -> Iterator[Any]:
    """Yield every message type of model_config.proto, nested ones too."""
    pending = list(ModelConfig.DESCRIPTOR.file.message_types_by_name.values())
    while pending:
        message = pending.pop()
        yield message
        pending.extend(message.nested_types)


#: The values of the braces in the advice of errors.md.
_COMPUTED: dict[str, Callable[[re.Match[str]], str]] = {
    "package": _package,
    "nearest_field": _nearest_field,
    "nearest_value": _nearest_value,
}
