"""A hint says in one line what to do about an error whose text is known."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable
from typing import Any

from ...core.data_type import DataType
from ...server.api.request_maker import RequestFields
from ...stub.c_python_backend_utils import JOINS_LATE

ConfigOf = Callable[[str], "dict[str, Any] | None"]

#: A pattern of the names that join triton_python_backend_utils late.
_COMPILED = "|".join((*JOINS_LATE, "get_model_dir"))


def hint(text: str, config_of: ConfigOf, names: Callable[[], Iterable[str]] = tuple) -> str:
    """Returns one line of advice for an error's `text`, or "". `config_of` gives a loaded model's config by name,
    `names` those of all models there are.

    `text` is what a client gets, or `<type>: <text>` of the author's exception.
    """
    for pattern, advise in _ADVICE:
        if found := pattern.search(text):
            absent = found.groupdict().get("absent")
            known = list(names()) if absent is not None else []
            if absent in known and advise is _unknown_model:
                return f"it is not loaded: %triton load {absent}"
            others = [name for name in known if name != absent]
            return (
                (did_you_mean(absent or "", others) or advise(found, config_of)) if others else advise(found, config_of)
            )
    return ""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Returns "did you mean 'add_sub'?" if one of `known` is near, else ""."""
    nearest = difflib.get_close_matches(word, list(known), n=1)
    return f"did you mean {nearest[0]!r}?" if nearest else ""


def _shape(found: re.Match[str], config_of: ConfigOf) -> str:
    config = config_of(found["model"]) or {}
    expected, got = _dims(found["expected"]), _dims(found["got"])
    row = len(got) == len(expected) - 1 and all(want in (-1, d) for want, d in zip(expected[1:], got, strict=True))
    if config.get("max_batch_size", 0) > 0 and row:
        shape = ", ".join(str(d) for d in [1, *got])
        return f"the first dimension is the batch: array[None] has shape [{shape}]"
    variable = [str(d) if d >= 0 else "any" for d in expected]
    if config.get("max_batch_size", 0) > 0:
        variable[0] = f"batch ≤ {config['max_batch_size']}"
    return f"send [{', '.join(variable)}]"


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


def _batch_size(found: re.Match[str], config_of: ConfigOf) -> str:
    return "send it in several requests, or raise max_batch_size"


def _unknown_input(found: re.Match[str], config_of: ConfigOf) -> str:
    config = config_of(found["model"]) or {}
    names = [str(tensor["name"]) for tensor in config.get("input", ())]
    if not names:
        return ""
    nearest = did_you_mean(found["input"], names)
    return f"{nearest} {'Its' if nearest else 'its'} inputs are {', '.join(names)}".lstrip()


def _unknown_model(found: re.Match[str], config_of: ConfigOf) -> str:
    return f"run the %%triton_model {found['absent']} cell first; %triton status lists the models that are loaded"


def _no_input(found: re.Match[str], config_of: ConfigOf) -> str:
    said = [word for word in re.findall(r"'(.*?)'", found["given"]) if word in RequestFields.__annotations__]
    return f"{said[0]} is no input: {found['model']}.infer(inputs={{…}}, {said[0]}=…)" if said else ""


def _of_sequence(found: re.Match[str], config_of: ConfigOf) -> str:
    call = f"{found['model']}.infer(inputs={{…}}, correlation_id=1, flags=1)"
    return f"{call} begins a sequence; flags=2 ends it, 3 does both"


def _no_class(found: re.Match[str], config_of: ConfigOf) -> str:
    return "call the class of the model TritonPythonModel"  # rule 2.1.3


def _not_written(found: re.Match[str], config_of: ConfigOf) -> str:
    return ""  # the error says what to do


def _decoupled(found: re.Match[str], config_of: ConfigOf) -> str:
    return "iterate over model.infer(inputs={...}): a decoupled model may answer many times, or never"


def _too_early(found: re.Match[str], config_of: ConfigOf) -> str:
    return (  # rule 1.1.2
        f"on a Triton server too, {found['name']} is there only once model.py has been imported: use it inside the "
        f"methods; for annotations begin with `from __future__ import annotations`"
    )


def _no_array(found: re.Match[str], config_of: ConfigOf) -> str:
    return "Tensor(name, array) takes a numpy array, such as numpy.array([value]), and no keywords"


def _no_dtype(found: re.Match[str], config_of: ConfigOf) -> str:
    return "text goes as objects: numpy.array([...], dtype=object)"


def _other_kind(found: re.Match[str], config_of: ConfigOf) -> str:
    return (  # rule 1.14.6
        "a loaded model has this metric with another kind, perhaps the version that still serves: %triton unload it "
        "and run the cell again, or give the metric another name"
    )


def _simulate(found: re.Match[str], config_of: ConfigOf) -> str:
    return "this machine has no such GPU: tritonlab.reset(simulated_gpus=1) simulates one; then run the cells again"


def _on_gpu(found: re.Match[str], config_of: ConfigOf) -> str:
    return "is_cpu() tells where a tensor is, and torch.from_dlpack(tensor) reads it there"


def _dims(text: str) -> list[int]:
    return [int(part) for part in text.split(",") if part.strip()]


_ADVICE: list[tuple[re.Pattern[str], Callable[[re.Match[str], ConfigOf], str]]] = [
    (
        re.compile(
            r"unexpected shape for input '.*?' for model '(?P<model>.*?)'\. "
            r"Expected \[(?P<expected>[-\d,]*)\], got \[(?P<got>[-\d,]*)\]"
        ),
        _shape,
    ),
    (re.compile(r"data-type is '(?P<got>\w+)', but model '(?P<model>.*?)' expects '(?P<expected>\w+)'"), _data_type),
    (re.compile(r"inference request batch-size must be <= \d+ for '(?P<model>.*?)'"), _batch_size),
    (re.compile(r"unexpected inference input '(?P<input>.*?)' for model '(?P<model>.*?)'"), _unknown_input),
    (
        re.compile(r"Request for unknown model: '(?P<absent>.*?)' (is not found|has no available versions)"),
        _unknown_model,
    ),
    (re.compile(rf"module 'triton_python_backend_utils' has no attribute '(?P<name>{_COMPILED})'"), _too_early),
    (re.compile(rf"cannot import name '(?P<name>{_COMPILED})' from 'triton_python_backend_utils'"), _too_early),
    (re.compile(r"c_python_backend_utils\.Tensor\(arg0: str, arg1: numpy\.ndarray\)"), _no_array),
    (re.compile(r"TritonModelException: NumPy dtype is not supported"), _no_dtype),
    (re.compile(r"Family name already exists with different type"), _other_kind),
    (
        re.compile(
            r"has kind KIND_GPU but no GPUs are available|invalid or unsupported gpu id \d+\..* are: (?:;|$)|"
            r"has kind KIND_CPU but specifies one or more GPUs"
        ),
        _simulate,
    ),
    (re.compile(r"Tensor is stored in GPU and cannot be converted to NumPy"), _on_gpu),
    (
        re.compile(r"inputs for model '(?P<model>.*?)'\. Got input\(s\) \[(?P<given>.*?)\], but missing"),
        _no_input,
    ),
    (re.compile(r"to model '(?P<model>.*?)' must specify a non-zero or non-empty correlation ID"), _of_sequence),
    (re.compile(r"to model '(?P<model>.*?)' must specify the START flag on the first request"), _of_sequence),
    (re.compile(r"has no attribute 'TritonPythonModel'"), _no_class),
    (re.compile(r"there is no model\.py for '(?P<absent>.*?)' yet"), _not_written),
    (re.compile(r"this notebook has no source of '(?P<absent>.*?)'"), _not_written),
    (re.compile(r"doesn't support models with decoupled transaction policy(?!: iterate)"), _decoupled),
]
