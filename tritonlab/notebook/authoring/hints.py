"""Hints: one line of advice each about an error, by its text, and by the author's own lines and the config."""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ...core.config.load_advice import load_advice
from ...core.error_pages import find_advice
from ...core.inference.data_type import DataType
from ...core.quoting import magic_line
from ...core.status import RemoteException
from ...core.unknown_option import did_you_mean
from ...server.api.request_check import OWN_FIELDS
from ...server.api.request_maker import RequestFields
from ...stub import triton_python_backend_utils
from ...stub.c_python_backend_utils import JOINS_LATE

ConfigOf = Callable[[str], "dict[str, Any] | None"]

_JOINS_LATE = (*JOINS_LATE, "get_model_dir")
#: What `import triton_python_backend_utils as pb_utils` provides to a model (rule 1.1.3).
PB_UTILS = sorted({*_JOINS_LATE, *(name for name in dir(triton_python_backend_utils) if not name.startswith("_"))})

#: The methods of the author's own metrics.
_MEMBERS = {
    "MetricFamily": ("Metric", "COUNTER", "GAUGE", "HISTOGRAM"),
    "Metric": ("increment", "set", "observe", "value"),
}

#: The signatures of the methods of `TritonPythonModel`.
_METHODS = {
    "__init__": "def __init__(self); it is initialize(self, args) that gets the arguments",
    "auto_complete_config": "@staticmethod, and below it def auto_complete_config(auto_complete_model_config)",
    "initialize": "def initialize(self, args)",
    "execute": "def execute(self, requests)",
    "finalize": "def finalize(self)",
}

#: The content of a config parameter, since many take it for its text.
PARAMETER = "a parameter of the config is an object: config['parameters'][KEY]['string_value'] is its text"


def hint(text: str, config_of: ConfigOf, names: Callable[[], Iterable[str]] = tuple) -> str:
    """Return one line of advice for an error's `text`, or "". `config_of` returns a loaded model's config by name,
    `names` the names of all models.

    `text`: the client's error, or `<type>: <text>` of the author's exception.
    """
    match find_advice(text, "hint"):
        case None:
            return load_advice(text)
        case advice, found:
            words = ""
            if "absent" in found.re.groupindex:
                words = _nearest_model(found["absent"], advice.topic, config_of, list(names()))
            return words or advice.fill(found, lambda word: _COMPUTED[word](found, config_of))


def _nearest_model(absent: str, topic: str, config_of: ConfigOf, known: list[str]) -> str:
    """Return what to do instead of calling the model `absent`, if a model of `known` has its name or a similar one."""
    if absent in known and topic == "unknown-model":
        if config_of(absent) is not None:
            return f"{absent} serves, but not the version that was requested: leave model_version out for the highest"
        return f"it is not loaded: {magic_line('%triton', 'load', absent)}"
    return did_you_mean(absent, [name for name in known if name != absent])


def _shape(found: re.Match[str], config_of: ConfigOf) -> str:
    config = config_of(found["model"]) or {}
    expected, got = _dims(found["expected"]), _dims(found["got"])
    if config.get("max_batch_size", 0) > 0 and _fits(got, expected[1:]):
        shape = ", ".join(str(d) for d in [1, *got])
        return f"the first dimension is the batch: array[None], or a list within a list, has shape [{shape}]"
    if not got and _fits([1], expected):
        return "a value by itself has no dimensions, and [value] has shape [1]"
    if config.get("max_batch_size") == 0 and _fits(got[1:], expected):
        return f"{_send(expected, config)}, or set max_batch_size (--max-batch-size N) for batches of them"
    return _send(expected, config)


def _fits(shape: list[int], expected: list[int]) -> bool:
    return len(shape) == len(expected) and all(want in (-1, d) for want, d in zip(expected, shape, strict=True))


def _no_shape(found: re.Match[str], config_of: ConfigOf) -> str:
    config = config_of(found["model"]) or {}
    dims = next((tensor["dims"] for tensor in config.get("input", ()) if tensor["name"] == found["input"]), None)
    return _send([-1, *map(int, dims)], config) if dims is not None else ""


def _send(expected: list[int], config: dict[str, Any]) -> str:
    variable = [str(d) if d >= 0 else "any" for d in expected]
    if config.get("max_batch_size", 0) > 0:
        variable[0] = f"batch ≤ {config['max_batch_size']}"
    return f"send an array of shape [{', '.join(variable)}]"


def _data_type(found: re.Match[str], config_of: ConfigOf) -> str:
    try:
        wanted = DataType[found["expected"]]
    except KeyError:
        return ""
    if wanted is DataType.BF16:
        return "send a torch tensor: tensor.to(torch.bfloat16)"
    if wanted is DataType.BYTES:
        return "send text: an array of str, bytes or objects"
    return f"convert it: array.astype(numpy.{wanted.numpy.name})"


def _nearest_tensor(found: re.Match[str], config_of: ConfigOf) -> str:
    config = config_of(found["model"]) or {}
    names = [str(tensor["name"]) for tensor in config.get(found["kind"], ())]
    if not names:
        return ""
    nearest = did_you_mean(found["tensor"], names)
    return f"{nearest} {'Its' if nearest else 'its'} {found['kind']}s are {', '.join(names)}".lstrip()


def _keyword(found: re.Match[str], config_of: ConfigOf) -> str:
    """Return what to do about options of the request among the inputs, or about names that are not inputs."""
    names = re.findall(r"'(.*?)'", found["given"])
    fields = {**{name: f"{name}=…" for name in RequestFields.__annotations__}, **OWN_FIELDS}
    words = [word for word in names if word in OWN_FIELDS] or [word for word in names if word in fields]
    if not words:
        known = [str(tensor["name"]) for tensor in (config_of(found["model"]) or {}).get("input", ())]
        extra = [name for name in names if name not in known]
        return f"leave {extra[0]} out: its inputs are {', '.join(known)}" if extra and known else ""
    return f"{words[0]} is not an input: {_variable(found, config_of)}.infer(inputs={{…}}, {fields[words[0]]})"


def _variable(found: re.Match[str], config_of: ConfigOf) -> str:
    """Return the model's name in a notebook, if it can have the name there."""
    name: str = found["model"]
    return name if name.isidentifier() else "model"


def _nearest_name(found: re.Match[str], config_of: ConfigOf) -> str:
    near = difflib.get_close_matches(found["name"], PB_UTILS, n=2, cutoff=0.7)
    return f"did you mean {' or '.join(map(repr, near))}?" if near else ""


def _nearest_member(found: re.Match[str], config_of: ConfigOf) -> str:
    return did_you_mean(found["name"], _MEMBERS[found["type"]])


def _dims(text: str) -> list[int]:
    return [int(part) for part in text.split(",") if part.strip()]


#: The values for the braces of a hint in errors.md.
_COMPUTED: dict[str, Callable[[re.Match[str], ConfigOf], str]] = {
    "shape": _shape,
    "no_shape": _no_shape,
    "data_type": _data_type,
    "nearest_tensor": _nearest_tensor,
    "keyword": _keyword,
    "variable": _variable,
    "nearest_name": _nearest_name,
    "nearest_member": _nearest_member,
    "parameter": lambda found, config_of: PARAMETER,
    "signature": lambda found, config_of: _METHODS[found["method"]],
    "helper_file": lambda found, config_of: f"{found['name'].partition('.')[0].lower()}.py",
}


# -- advice by the author's own lines and the model's config: names in the lines that the config lacks

_GET_INPUT = re.compile(r"""get_input_tensor_by_name\(\s*\w+\s*,\s*(["'])(?P<name>[^"'\n]+)\1""")
#: Notebook syntax at the beginning of a line that is not valid Python.
_MAGIC = re.compile(r"\s*(%{1,2}\w+|!\w\S*)")
_OF_NONE = re.compile(r"'NoneType' object has no attribute '(as_numpy|is_cpu|to_dlpack|triton_dtype|shape)'")


def line_hint(exception: RemoteException, config: Mapping[str, Any], lines: Sequence[str]) -> str:
    """Return one line of advice about an exception of a model with this config, "" if there is none. `lines`: the text
    of the file of its innermost frame."""
    if written := _MAGIC.match(str(exception.detail.get("text") or "")):
        return f"model.py is plain Python: {written[0].strip()} belongs in a cell of its own"
    line = exception.frames[-1].line if exception.frames else 0
    raised = lines[line - 1] if 0 < line <= len(lines) else ""
    if exception.type_name == "KeyError":
        return _no_key(_key(exception.text), raised, config)
    if exception.type_name == "TypeError" and "'dict'" in exception.text and "param" in raised.lower():
        return PARAMETER
    if exception.type_name == "AttributeError" and _OF_NONE.search(exception.text):
        return _absent_input([raised, *lines], config)
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


#: The usual names of the inputs by which the sequence batcher tells a model where it is in a sequence, with their type.
_CONTROLS = dict.fromkeys(("START", "END", "READY"), "int32_false_true: [0, 1]") | {"CORRID": "data_type: TYPE_UINT64"}


def _absent_input(lines: Sequence[str], config: Mapping[str, Any]) -> str:
    """Return the names of inputs in the lines that the config lacks; the first one counts."""
    sequence = config.get("sequence_batching", {})
    names = [str(tensor["name"]) for tensor in (*config.get("input", ()), *sequence.get("control_input", ()))]
    names += [str(state.get("input_name")) for state in sequence.get("state", ())]
    read = (found["name"] for line in lines for found in _GET_INPUT.finditer(line))
    missing = next((name for name in read if name not in names), None)
    if missing is None or not names:
        return ""
    what = f"the config has no input {missing!r}"
    control = _CONTROLS.get(missing.upper())
    if control is None or missing.upper() in map(str.upper, names):
        return _instead(what, missing, names)
    field = f'{{ name: "{missing}" control [ {{ kind: CONTROL_SEQUENCE_{missing.upper()} {control} }} ] }}'
    return f"{what}: sequence_batching {{ control_input [ {field} ] }} in a %%triton_config cell brings it"


def _instead(what: str, word: str, known: Sequence[str]) -> str:
    return f"{what}: {did_you_mean(word, known) or 'it has ' + ', '.join(known)}"
