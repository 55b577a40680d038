"""Hints: one line each on what to do about an error, by its text, and by the author's own lines and the config."""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ...core.config.load_advice import LOAD_PATTERNS, load_advice
from ...core.error_pages import topic_of
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
_COMPILED = "|".join(_JOINS_LATE)
#: What `import triton_python_backend_utils as pb_utils` gives a model (rule 1.1.3).
PB_UTILS = sorted({*_JOINS_LATE, *(name for name in dir(triton_python_backend_utils) if not name.startswith("_"))})

#: What the author's own metrics have.
_MEMBERS = {
    "MetricFamily": ("Metric", "COUNTER", "GAUGE", "HISTOGRAM"),
    "Metric": ("increment", "set", "observe", "value"),
}

#: How the methods of `TritonPythonModel` are written.
_METHODS = {
    "__init__": "def __init__(self); it is initialize(self, args) that gets the arguments",
    "auto_complete_config": "@staticmethod, and below it def auto_complete_config(auto_complete_model_config)",
    "initialize": "def initialize(self, args)",
    "execute": "def execute(self, requests)",
    "finalize": "def finalize(self)",
}

#: What a parameter of the config is, since many take it for its text.
PARAMETER = "a parameter of the config is an object: config['parameters'][KEY]['string_value'] is its text"


def hint(text: str, config_of: ConfigOf, names: Callable[[], Iterable[str]] = tuple) -> str:
    """Return one line of advice for an error's `text`, or "". `config_of` gives a loaded model's config by name,
    `names` those of all models there are.

    `text` is what a client gets, or `<type>: <text>` of the author's exception.
    """
    for pattern, advise in _ADVICE:
        found = pattern.search(text)
        if found is None:
            continue
        if isinstance(advise, str):
            return advise
        words = _nearest(found, config_of, list(names())) if "absent" in found.groupdict() else ""
        return words or advise(found, config_of)
    return load_advice(text)


def _nearest(found: re.Match[str], config_of: ConfigOf, known: list[str]) -> str:
    """Return what to do instead of calling the model `absent`, if one of `known` models is it, or has nearly its
    name."""
    absent = found["absent"]
    if absent in known and found.re is _UNKNOWN_MODEL:
        if config_of(absent) is not None:
            return f"{absent} serves, but not the version that was requested: leave model_version out for the highest"
        return f"it is not loaded: {magic_line('%triton', 'load', absent)}"
    return did_you_mean(absent, [name for name in known if name != absent])


def _shape(found: re.Match[str], config_of: ConfigOf) -> str:
    config = config_of(found["model"]) or {}
    expected, got = _dims(found["expected"]), _dims(found["got"])
    row = len(got) == len(expected) - 1 and all(want in (-1, d) for want, d in zip(expected[1:], got, strict=True))
    if config.get("max_batch_size", 0) > 0 and row:
        shape = ", ".join(str(d) for d in [1, *got])
        return f"the first dimension is the batch: array[None], or a list within a list, has shape [{shape}]"
    return _send(expected, config)


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


def _unknown_tensor(found: re.Match[str], config_of: ConfigOf) -> str:
    config = config_of(found["model"]) or {}
    names = [str(tensor["name"]) for tensor in config.get(found["kind"], ())]
    if not names:
        return ""
    nearest = did_you_mean(found["tensor"], names)
    return f"{nearest} {'Its' if nearest else 'its'} {found['kind']}s are {', '.join(names)}".lstrip()


def _unknown_model(found: re.Match[str], config_of: ConfigOf) -> str:
    cell = magic_line("%%triton_model", found["absent"])
    return f"run the {cell} cell first; %triton status lists the models that are loaded"


def _unknown_step(found: re.Match[str], config_of: ConfigOf) -> str:
    return f"load {found['absent']} first, or name another model in the step"


def _pickled_in_main(found: re.Match[str], config_of: ConfigOf) -> str:
    name = found["name"] or found["other"] or found["third"]
    file = f"{name.partition('.')[0].lower()}.py"
    return (
        f"{name} was pickled as a class of the notebook, which the model's process does not have: define it in a "
        f"helper file ({magic_line('%%triton_file', 'MODEL', file)}), import it from there, pickle it again"
    )


def _no_input(found: re.Match[str], config_of: ConfigOf) -> str:
    names = re.findall(r"'(.*?)'", found["given"])
    fields = {**{name: f"{name}=…" for name in RequestFields.__annotations__}, **OWN_FIELDS}
    words = [word for word in names if word in OWN_FIELDS] or [word for word in names if word in fields]
    return f"{words[0]} is not an input: {_variable(found)}.infer(inputs={{…}}, {fields[words[0]]})" if words else ""


def _variable(found: re.Match[str]) -> str:
    """Return the name that the model has in a notebook, as far as that can be its own."""
    name: str = found["model"]
    return name if name.isidentifier() else "model"


def _of_sequence(found: re.Match[str], config_of: ConfigOf) -> str:
    call = f"{_variable(found)}.infer(inputs={{…}}, correlation_id=1, flags=1)"
    return f"{call} begins a sequence; flags=2 ends it, 3 does both"


def _interrupted(found: re.Match[str], config_of: ConfigOf) -> str:
    return (
        f"the request was cancelled, which a model that asks is_cancelled() notices; if it goes on, "
        f"{magic_line('%triton', 'kill', found['model'])} ends it"
    )


def _too_early(found: re.Match[str], config_of: ConfigOf) -> str:
    return (  # rule 1.1.2
        f"on a Triton server too, {found['name']} is there only once model.py has been imported: use it inside the "
        f"methods; for annotations begin with `from __future__ import annotations`"
    )


def _misspelt(found: re.Match[str], config_of: ConfigOf) -> str:
    near = difflib.get_close_matches(found["name"], PB_UTILS, n=2, cutoff=0.7)
    return f"did you mean {' or '.join(map(repr, near))}?" if near else ""


def _no_attribute(found: re.Match[str], config_of: ConfigOf) -> str:
    return did_you_mean(found["name"], _MEMBERS[found["type"]])


def _no_module(found: re.Match[str], config_of: ConfigOf) -> str:
    module = found["module"]
    beside = f"{magic_line('%%triton_file', 'MODEL', f'{module}.py')} writes a module beside model.py"
    return beside if found["version"] else f"%pip install brings one that others wrote, {beside}"


def _undefined(found: re.Match[str], config_of: ConfigOf) -> str:
    return f"model.py does not see what other cells define: import or define {found['name']} in the model's own cell"


def _unfilled(found: re.Match[str], config_of: ConfigOf) -> str:
    return (
        f"{found['placeholder']} is a placeholder that config.pbtxt still has from its template: write a value for it"
    )


def _method(found: re.Match[str], config_of: ConfigOf) -> str:
    return f"write {_METHODS[found['method']]}"


def _no_hint(found: re.Match[str], config_of: ConfigOf) -> str:
    return ""  # the error says what to do


def _dims(text: str) -> list[int]:
    return [int(part) for part in text.split(",") if part.strip()]


_UNKNOWN_MODEL = re.compile(
    r"(?:Request for unknown model: |Failed for execute the inference request\. Model )'(?P<absent>.*?)' "
    r"(?:is not found|has no available versions|is not ready)"
)

#: (what to look for, the advice or what makes it); the first that is found counts
_ADVICE: list[tuple[re.Pattern[str], str | Callable[[re.Match[str], ConfigOf], str]]] = [
    # a client's mistakes
    (
        re.compile(
            r"unexpected shape for input '.*?' for model '(?P<model>.*?)'\. "
            r"Expected \[(?P<expected>[-\d,]*)\], got \[(?P<got>[-\d,]*)\]"
        ),
        _shape,
    ),
    (re.compile(r"data-type is '(?P<got>\w+)', but model '(?P<model>.*?)' expects '(?P<expected>\w+)'"), _data_type),
    (
        re.compile(r"inference request batch-size must be <= \d+ for '"),
        "send it in several requests, or raise max_batch_size",
    ),
    (
        re.compile(r"input '(?P<input>.*?)' has no shape but model requires batch dimension for '(?P<model>.*?)'"),
        _no_shape,
    ),
    (
        re.compile(r"unexpected inference (?P<kind>input|output) '(?P<tensor>.*?)' for model '(?P<model>.*?)'"),
        _unknown_tensor,
    ),
    (re.compile(r"non-existing (?P<kind>input|output) (?P<tensor>\S+) in model (?P<model>\S+)"), _unknown_tensor),
    (_UNKNOWN_MODEL, _unknown_model),
    (re.compile(r"contains models that are not available or ambiguous: (?P<absent>\S+)$"), _unknown_step),
    (
        re.compile(r"inputs for model '(?P<model>.*?)'\. Got input\(s\) \[(?P<given>.*?)\], but missing"),
        _no_input,
    ),
    (re.compile(r"to model '(?P<model>.*?)' must specify a non-zero or non-empty correlation ID"), _of_sequence),
    (re.compile(r"to model '(?P<model>.*?)' must specify the START flag on the first request"), _of_sequence),
    (
        re.compile(r"doesn't support models with decoupled transaction policy(?!: iterate)"),
        "iterate over model.infer(inputs={...}): a decoupled model may answer many times, or never",
    ),
    (re.compile(r"^request \d+ of model '(?P<model>.*?)' waits for "), _interrupted),
    # names that are not there
    (re.compile(r"there is no model\.py for '(?P<absent>.*?)' yet"), _no_hint),
    (re.compile(r"this notebook has no source of '(?P<absent>.*?)'"), _no_hint),
    (re.compile(r"has no attribute 'TritonPythonModel'"), "call the class of the model TritonPythonModel"),  # 2.1.3
    (re.compile(rf"module 'triton_python_backend_utils' has no attribute '(?P<name>{_COMPILED})'"), _too_early),
    (re.compile(rf"cannot import name '(?P<name>{_COMPILED})' from 'triton_python_backend_utils'"), _too_early),
    (
        re.compile(r"module 'triton_python_backend_utils' has no attribute '(deserialize_bytes|serialize_byte)_t"),
        "Triton's stub took a triton_python_backend_utils.py of the model for its own: delete or rename that file",
    ),
    (re.compile(r"module 'triton_python_backend_utils' has no attribute '(?P<name>\w+)'"), _misspelt),
    (
        re.compile(r"AttributeError: type object 'Logger' has no attribute '"),
        "it has log_info, log_warn, log_error and log_verbose",
    ),
    (
        re.compile(r"AttributeError: '(?P<type>MetricFamily|Metric)' object has no attribute '(?P<name>\w+)'"),
        _no_attribute,
    ),
    (
        re.compile(r"TypeError: (float|int)\(\) argument must be .*, not 'dict'|JSON object must be .*, not dict"),
        PARAMETER,
    ),
    (re.compile(r"NameError: name '(?P<name>\w+)' is not defined"), _undefined),
    (
        re.compile(
            r"Can't get attribute '(?P<name>[\w.]+)' on <module '__main__'"
            r"|AttributeError: module '__main__' has no attribute '(?P<other>\w+)'|GLOBAL __main__\.(?P<third>[\w.]+)"
        ),
        _pickled_in_main,
    ),
    (
        re.compile(r"AttributeError: 'str' object has no attribute 'get'|TypeError: string indices must be integers"),
        "args['model_config'] is a JSON text: json.loads(args['model_config']) reads it",
    ),
    (re.compile(r"ModuleNotFoundError: No module named '(?P<version>\d+\.)?(?P<module>\w+)"), _no_module),
    (re.compile(r"^\w*(?:Error|Exception): .*?(?P<placeholder>\$\{\w+\})"), _unfilled),
    (
        re.compile(r"FileNotFoundError: .*: '[^/]"),
        "a relative path starts where the server runs: os.path.join(args['model_repository'], args['model_version']) "
        "is the directory of model.py, and --file at %%triton_model copies files there",
    ),
    (
        re.compile(r"EOFError: EOF when reading a line"),
        "nobody can type into a model's process: breakpoint() there lets you, below the cell that calls the model",
    ),
    # methods that do not have the form that Triton calls
    (
        re.compile(
            rf"TypeError: (TritonPythonModel\.)?(?P<method>{'|'.join(_METHODS)})\(\) "
            r"(takes \d+ positional|missing \d+ required positional)"
        ),
        _method,
    ),
    (
        re.compile(
            r"Expected a list in the execute return|InferenceResponse' object in the execute function return list|"
            r"Number of InferenceResponse objects do not match"
        ),
        "return a list with one pb_utils.InferenceResponse for each request, in their order",
    ),
    (
        re.compile(r"is using the decoupled mode and the execute function must return None"),
        "a decoupled model answers with request.get_response_sender().send(…), the last time with "
        "flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL",
    ),
    (
        re.compile(r"Non-decoupled model cannot send more than one response"),
        "only a decoupled model may send several: --decoupled at %%triton_model",
    ),
    (
        re.compile(r"must return a valid pb\.ModelConfig object"),
        "let auto_complete_config end with a return of the config that it was given",
    ),
    # tensors, and what goes into them
    (
        re.compile(r"'NoneType' object has no attribute '(as_numpy|is_cpu|to_dlpack|triton_dtype)'"),
        "get_input_tensor_by_name and get_output_tensor_by_name return None where there is no tensor of that name; "
        "check has_error() of a BLS response first",
    ),
    (
        re.compile(r"c_python_backend_utils\.Tensor\(arg0: str, arg1: numpy\.ndarray\)\s+Invoked with: .*\btensor\("),
        "Tensor.from_dlpack(name, tensor) takes a torch tensor; Tensor(name, array) takes a numpy array",
    ),
    (
        re.compile(
            r"Tensor\(arg0: str, arg1: numpy\.ndarray\)\s+Invoked with: .*<c_python_backend_utils\.Tensor object|"
            r"unsupported operand type\(s\) for .*'Tensor'"
        ),
        "the array of a tensor is tensor.as_numpy()",
    ),
    (
        re.compile(r"c_python_backend_utils\.Tensor\(arg0: str, arg1: numpy\.ndarray\)|\bTensor\.__init__\(\)"),
        "Tensor(name, array) takes a numpy array, such as numpy.array([value]), and no keywords",
    ),
    (
        re.compile(r"c_python_backend_utils\.InferenceResponse\(output_tensors: "),
        "write InferenceResponse([pb_utils.Tensor(name, array), …]), or of a failure "
        "InferenceResponse(error=pb_utils.TritonError(text))",
    ),
    (
        re.compile(r"AttributeError: 'numpy\.ndarray' object has no attribute 'c_contiguous'"),
        "Triton has no masked arrays: send array.filled(value)",
    ),
    (
        re.compile(r"TritonModelException: NumPy dtype is not supported"),
        "text goes as objects: numpy.array([...], dtype=object); Triton has no complex numbers, dates and records",
    ),
    (
        re.compile(r"AttributeError: 'list' object has no attribute '(inputs|get_response_sender|parameters)'"),
        "execute gets a list of requests: for request in requests: …",
    ),
    (re.compile(r"AttributeError: 'str' object has no attribute 'inputs'"), "the request comes first, then the name"),
    (
        re.compile(
            r"can only concatenate str \(not \"bytes\"\) to str|can't concat str to bytes|expected str instance, bytes|"
            r"bytes-like object( is required)?, not 'str'|a string pattern on a bytes-like|first arg must be bytes|"
            r"requires string as left operand, not bytes|Object of type bytes is not JSON|"
            r"'bytes' object has no attribute '"
        ),
        "text arrives as bytes: value.decode()",
    ),
    (
        re.compile(
            r"'numpy\.ndarray' object has no attribute "
            r"'(decode|encode|split|splitlines|lower|upper|strip|replace|startswith|endswith)'"
        ),
        "a tensor of text is an array of bytes: [text.decode() for text in array.ravel()]",
    ),
    # BLS
    (
        re.compile(r"RuntimeError: no running event loop"),
        "async_exec() is for `async def execute`; elsewhere call exec()",
    ),
    (re.compile(r"'_asyncio\.Future' object "), "await it: answer = await request.async_exec()"),
    # metrics
    (
        re.compile(r"Family name already exists with different type"),  # rule 1.14.6
        "a loaded model has this metric with another kind, perhaps the version that still serves: %triton unload it "
        "and run the cell again, or give the metric another name",
    ),
    (
        re.compile(r"as the corresponding 'MetricFamily' has been deleted"),
        "keep the MetricFamily for as long as its metrics, as in self.family = pb_utils.MetricFamily(…)",
    ),
    # GPUs
    (
        re.compile(
            r"invalid or unsupported gpu id \d+\..* are: (?:;|$)|has kind KIND_CPU but specifies one or more GPUs"
        ),
        "this machine has no such GPU: tritonlab.reset(simulated_gpus=1) simulates one; then run the cells again",
    ),
    (
        re.compile(r"has kind KIND_GPU but no GPUs are available"),
        "this machine has no GPU: leave kind out of instance_group, which then takes GPUs where there are some and the "
        "CPU here; or tritonlab.reset(simulated_gpus=1) simulates one, and the cells are run again",
    ),
    (
        re.compile(r"Tensor is stored in GPU and cannot be converted to NumPy"),
        "is_cpu() tells where a tensor is, and torch.from_dlpack(tensor) reads it there",
    ),
    (
        re.compile(r"Torch not compiled with CUDA enabled|Found no NVIDIA driver on your system"),
        "torch finds no GPU here: initialize gets what the instance runs on in args['model_instance_kind'], 'GPU' or "
        "'CPU', and its number in args['model_instance_device_id']",
    ),
]

#: What is looked for in a text, in this order.
PATTERNS = [*(pattern for pattern, _ in _ADVICE), *LOAD_PATTERNS]


def topic(text: str) -> str:
    """Return the topic of the page about an error of this text (`%triton help TOPIC`); "" if there is none."""
    return topic_of(text, PATTERNS)


# -- advice that the author's own lines and the model's config decide: names in them that the config does not have

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


def _absent_input(lines: Sequence[str], config: Mapping[str, Any]) -> str:
    """Return which of the names of inputs in the lines the config does not have; the first one counts."""
    sequence = config.get("sequence_batching", {})
    names = [str(tensor["name"]) for tensor in (*config.get("input", ()), *sequence.get("control_input", ()))]
    names += [str(state.get("input_name")) for state in sequence.get("state", ())]
    read = (found["name"] for line in lines for found in _GET_INPUT.finditer(line))
    missing = next((name for name in read if name not in names), None)
    return _instead(f"the config has no input {missing!r}", missing, names) if missing is not None and names else ""


def _instead(what: str, word: str, known: Sequence[str]) -> str:
    return f"{what}: {did_you_mean(word, known) or 'it has ' + ', '.join(known)}"
