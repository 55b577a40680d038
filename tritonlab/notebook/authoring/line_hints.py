"""Advice that the author's own lines and the model's config decide: names in them that the config does not have."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ...core.status import RemoteException
from ...core.unknown_option import did_you_mean

#: What a parameter of the config is, since many take it for its text.
PARAMETER = "a parameter of the config is an object: config['parameters'][KEY]['string_value'] is its text"

_GET_INPUT = re.compile(r"""get_input_tensor_by_name\(\s*\w+\s*,\s*(["'])(?P<name>[^"'\n]+)\1""")
#: What only a notebook reads, at the beginning of a line that is not valid Python.
_MAGIC = re.compile(r"\s*(%{1,2}\w+|!\w\S*)")
_OF_NONE = re.compile(r"'NoneType' object has no attribute '(as_numpy|is_cpu|to_dlpack|triton_dtype|shape)'")


def line_hint(exception: RemoteException, config: Mapping[str, Any], lines: Sequence[str]) -> str:
    """Return one line of advice about an exception of a model of this config, "" if there is none. `lines`: the text of
    the file that its innermost frame is in."""
    if written := _MAGIC.match(str(exception.detail.get("text") or "")):
        return f"model.py is plain Python: {written[0].strip()} belongs in a cell of its own"
    line = exception.frames[-1].line if exception.frames else 0
    raised = lines[line - 1] if 0 < line <= len(lines) else ""
    if exception.type_name == "KeyError":
        return _no_key(_key(exception.text), raised, config)
    if exception.type_name == "TypeError" and "'dict'" in exception.text and "param" in raised.lower():
        return PARAMETER
    if exception.type_name == "AttributeError" and _OF_NONE.search(exception.text):
        return _no_input([raised, *lines], config)
    return ""


def _key(text: str) -> str:
    try:
        key = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return ""
    return key if isinstance(key, str) else ""


def _no_key(key: str, raised: str, config: Mapping[str, Any]) -> str:
    quoted = rf"""\[\s*["']{re.escape(key)}["']\s*\]"""
    parameters = list(config.get("parameters", ()))
    outer = re.search(rf"""\[\s*["']([^"']+)["']\s*\]\s*{quoted}""", raised)
    if outer is not None and outer[1] in parameters:
        return PARAMETER
    if key not in parameters and "param" in raised.lower():
        if not parameters:
            name = "KEY" if key == "parameters" else key
            return f"the config has no parameters: --param {name}=VALUE at %%triton_model writes one"
        return _instead(f"the config has no parameter {key!r}", key, parameters)
    if key not in config and re.search(rf"(?:cfg|conf)\w*\s*{quoted}", raised):
        nearest = did_you_mean(key, config)
        return f"the config has no field {key!r}: {nearest}" if nearest else ""
    return ""


def _no_input(lines: Sequence[str], config: Mapping[str, Any]) -> str:
    """Return which of the names of inputs in the lines the config does not have; the first one counts."""
    sequence = config.get("sequence_batching", {})
    names = [str(tensor["name"]) for tensor in (*config.get("input", ()), *sequence.get("control_input", ()))]
    names += [str(state.get("input_name")) for state in sequence.get("state", ())]
    read = (found["name"] for line in lines for found in _GET_INPUT.finditer(line))
    missing = next((name for name in read if name not in names), None)
    return _instead(f"the config has no input {missing!r}", missing, names) if missing is not None and names else ""


def _instead(what: str, word: str, known: Sequence[str]) -> str:
    return f"{what}: {did_you_mean(word, known) or 'it has ' + ', '.join(known)}"
