"""The requests in trace files of Triton (`--trace-config mode=triton`, levels TIMESTAMPS and TENSORS).

Triton writes tensors as text (2.51, measured on 2026-11-28). Integers, BOOL and BYTES come back as they were, INT8 and
UINT8 from a byte for each number. Of FP32 and FP64 it writes six digits, so they are marked `inexact`, and of FP16 and
BF16 nothing. A trace has no errors, parameters, sequences, priorities, timeouts or requested outputs.
"""

from __future__ import annotations

import math
import mmap
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ...core.foreign_file import open_file
from ...core.inference.data_type import DataType
from ...core.inference.infer_request import InferenceRequest
from ...core.inference.infer_response import InferenceResponse
from ...core.inference.tensor import Tensor
from ...exchanges.exchange import Arrival, Exchange
from .capture_file import CapturedRequest, Withheld

#: The first entry of a trace file.
BEGINNING = re.compile(rb'\s*\[\s*\{"id":\d+,')
#: The entries of a trace file. Triton escapes nothing in texts, so they are not always JSON.
_ENTRY = re.compile(
    rb'\{"id":(?P<id>\d{1,19}),(?:'
    rb'"model_name":"(?P<model>[^"]*)","model_version":(?P<version>-?\d{1,18})(?:,"request_id":"(?P<ident>.*?)")?'
    rb'(?:,"parent_id":(?P<parent>\d{1,19}))?\}'
    rb'|"timestamps":\[\{"name":"(?P<stamp>\w+)","ns":(?P<ns>\d{1,18})\}\]\}'
    rb'|"activity":"(?P<activity>\w+)","tensor":\{"name":"(?P<name>.*?)","data":"(?P<data>.*?)",'
    rb'"shape":"(?P<shape>[\d,]{0,999})","dtype":"(?P<datatype>\w+)"\}\})',
    re.DOTALL,
)
_NO_ANSWER = "the trace has no outputs of it: it failed, or had none"
_NO_VALUES = "the trace has no values of its input '{name}': Triton writes none of FP16 and BF16"
_INEXACT = (DataType.FP32, DataType.FP64)
#: Triton writes the byte itself for each element of these.
_AS_BYTES = (DataType.INT8, DataType.UINT8)
#: The values of these are not read: of Triton and tritonlab, only tritonlab writes any.
_NOT_READ = (DataType.FP16, DataType.BF16)


class TraceFault(ValueError):
    """A tensor in a trace that cannot be read."""


@dataclass
class _TracedTensor:
    """A tensor of a trace; `begin` and `end` are the place of its values in the file."""

    is_output: bool
    name: str
    begin: int
    end: int
    shape: tuple[int, ...]
    datatype: str


@dataclass
class _TracedRequest:
    model: str = ""
    version: int = -1
    request_id: str = ""
    is_made: bool = False
    stamps: dict[str, int] = field(default_factory=dict)
    tensors: list[_TracedTensor] = field(default_factory=list)


def read_requests(path: str | Path) -> Iterator[CapturedRequest | TraceFault]:
    """Yield the clients' requests in a trace file, in order of their start, and a fault for each that cannot be read.
    `at_ns` is the time of Triton's clock. Raises OSError, and ValueError for a file that is not such a trace."""
    with open_file(path) as file:
        try:
            text = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError:
            raise ValueError(f"{path} is not a trace file of Triton, but empty") from None
        with text:
            found = _found(text)
            if not any(traced.model for traced in found):
                raise ValueError(
                    f"{path} has no requests of a trace: trace with --trace-config level=TIMESTAMPS and level=TENSORS"
                )
            for traced in sorted(found, key=lambda each: each.stamps.get("REQUEST_START", 0)):
                if not traced.model or traced.is_made:
                    continue
                try:
                    yield _captured(traced, text)
                except TraceFault as fault:
                    yield fault


def _found(text: mmap.mmap) -> list[_TracedRequest]:
    """Return all requests of a file, without the values of their tensors."""
    found: dict[int, _TracedRequest] = {}
    for entry in _ENTRY.finditer(text):
        traced = found.setdefault(int(entry["id"]), _TracedRequest())
        if entry["model"] is not None:
            traced.model, traced.version = _text(entry["model"]), int(entry["version"])
            traced.request_id, traced.is_made = _text(entry["ident"] or b""), entry["parent"] is not None
        elif entry["stamp"] is not None:
            traced.stamps[_text(entry["stamp"])] = int(entry["ns"])
        elif (activity := entry["activity"]) in (b"TENSOR_QUEUE_INPUT", b"TENSOR_BACKEND_OUTPUT"):
            shape = tuple(int(size) for size in entry["shape"].split(b",") if size)
            begin, end = entry.span("data")
            is_output, datatype = activity == b"TENSOR_BACKEND_OUTPUT", _text(entry["datatype"])
            traced.tensors.append(_TracedTensor(is_output, _text(entry["name"]), begin, end, shape, datatype))
    return list(found.values())


def _captured(traced: _TracedRequest, text: mmap.mmap) -> CapturedRequest:
    unsent, withheld = "", dict[str, Withheld]()
    inputs: dict[str, Tensor] = {}
    answers: list[dict[str, Tensor]] = []
    for each in traced.tensors:
        if not each.is_output:
            tensors, prefix = inputs, "input."
        else:
            if not answers or each.name in answers[-1]:  # the next response of a stream
                answers.append({})
            tensors, prefix = answers[-1], f"output.{len(answers) - 1}."
        tensor = _tensor(each, text[each.begin : each.end])
        if tensor is not None:
            tensors[each.name] = tensor
        if tensor is None or tensor.datatype in _INEXACT:
            withheld[prefix + each.name] = Withheld("shape" if tensor is None else "inexact", each.datatype, each.shape)
            unsent = unsent or (_NO_VALUES.format(name=each.name) if tensor is None and not each.is_output else "")
    request = InferenceRequest(traced.model, inputs, request_id=traced.request_id)
    start = traced.stamps.get("REQUEST_START", 0)
    took = max(traced.stamps.get("INFER_RESPONSE_COMPLETE", traced.stamps.get("REQUEST_END", start)) - start, 0)
    arrivals = [
        Arrival(
            InferenceResponse(traced.model, traced.version, traced.request_id, outputs, final=number == len(answers)),
            took,
        )
        for number, outputs in enumerate(answers, 1)
    ]
    exchange = Exchange(request, tuple(arrivals), unanswered="" if answers else _NO_ANSWER, unsent=unsent)
    return CapturedRequest(exchange, start, withheld=withheld)


def _tensor(traced: _TracedTensor, data: bytes) -> Tensor | None:
    """Return a tensor of the text of its values, None if they are not read. Raises TraceFault."""
    try:
        datatype, count = DataType[traced.datatype], math.prod(traced.shape)
        if datatype in _NOT_READ:
            return None
        values = _elements(datatype, data, count)
        if len(values) != count:
            raise ValueError
        if datatype is DataType.BYTES:
            array = np.empty(count, object)
            array[:] = values
        elif datatype in _AS_BYTES:
            array = np.frombuffer(b"".join(values), datatype.numpy)
        else:
            number = float if datatype in _INEXACT else int
            array = np.array([*map(number, values)], None if datatype in _INEXACT else object).astype(datatype.numpy)
        return Tensor.from_numpy(array.reshape(traced.shape))
    except (KeyError, ValueError, OverflowError, TypeError) as error:
        raise TraceFault(f"a tensor of {traced.datatype} cannot be read: {type(error).__name__}") from None


def _elements(datatype: DataType, data: bytes, count: int) -> list[bytes]:
    r"""Return the texts of the elements. Triton writes `\"a\",\"b\"` for BYTES, without escapes in the elements."""
    if datatype is DataType.BYTES and count:
        if not (data.startswith(b'\\"') and data.endswith(b'\\"') and len(data) >= 4):
            raise ValueError
        return data[2:-2].split(b'\\",\\"')
    if datatype in _AS_BYTES:
        if len(data) != max(2 * count - 1, 0):
            raise ValueError
        return [data[at : at + 1] for at in range(0, len(data), 2)]
    return data.split(b",") if data else []


def _text(data: bytes) -> str:
    return data.decode(errors="surrogateescape")
