"""The entries of a trace; `tests/conformance/test_trace.py` compares them with Triton's."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from tritonlab.core.inference.data_type import DataType
from tritonlab.core.inference.infer_request import InferenceRequest
from tritonlab.core.inference.infer_response import InferenceResponse
from tritonlab.core.inference.tensor import Tensor
from tritonlab.core.metrics.infer_stats import ExecuteTimes
from tritonlab.core.observe.trace import Trace, TraceTree
from tritonlab.core.observe.trace_settings import TraceSetting

BOTH = ("TIMESTAMPS", "TENSORS")


class Traces:
    """Trees of traces, with the events of their begin and end."""

    def __init__(self, level: tuple[str, ...] = BOTH) -> None:
        self.setting = TraceSetting(level, 1, file="t")
        self.ids = itertools.count(1)
        self.events: list[tuple[str, int]] = []

    def tree(self) -> TraceTree:
        return TraceTree(
            self.setting,
            lambda tree, parent: Trace(tree, next(self.ids), parent.ident if parent else 0, None),
            lambda trace: self.events.append(("began", trace.ident)),
            lambda trace: self.events.append(("ended", trace.ident)),
        )


def made(value: Any = (1, 2), **fields: Any) -> InferenceRequest:
    request = InferenceRequest("m", {"IN": Tensor.from_numpy(np.array([value]))}, **fields)
    request.request_start, request.queue_start, request.execute_start = 10, 20, 30
    return request


def names(trace: Trace) -> list[str]:
    return [e["timestamps"][0]["name"] if "timestamps" in e else e.get("activity", "head") for e in trace.entries()]


def test_a_request_from_its_start_to_its_end() -> None:
    traces = Traces()
    trace, request = traces.tree().new(None), made(request_id="r")
    trace.take(request)
    trace.executed(ExecuteTimes(1, 2, 3))
    trace.answered(InferenceResponse("m", 4, outputs={"OUT": Tensor.from_numpy(np.array([5]))}))
    assert traces.events == [("began", 1)]
    trace.ended(request, 99)
    assert traces.events == [("began", 1), ("ended", 1)]
    moments = {
        "REQUEST_START": 10,
        "QUEUE_START": 20,
        "COMPUTE_START": 30,
        "COMPUTE_INPUT_END": 31,
        "COMPUTE_OUTPUT_START": 33,
        "COMPUTE_END": 36,
        "REQUEST_END": 99,
    }
    stamps = [{"id": 1, "timestamps": [{"name": name, "ns": ns}]} for name, ns in moments.items()]
    assert trace.entries() == [
        {"id": 1, "model_name": "m", "model_version": 4, "request_id": "r"},
        *stamps[:2],
        {
            "id": 1,
            "activity": "TENSOR_QUEUE_INPUT",
            "tensor": {"name": "IN", "data": "1,2", "shape": "1,2", "dtype": "INT64"},
        },
        {
            "id": 1,
            "activity": "TENSOR_BACKEND_OUTPUT",
            "tensor": {"name": "OUT", "data": "5", "shape": "1", "dtype": "INT64"},
        },
        *stamps[2:],
    ]


def test_a_decoupled_request_ends_with_its_execution() -> None:
    traces = Traces(("TIMESTAMPS",))
    trace, request = traces.tree().new(None), made()
    trace.take(request)
    trace.ended(request, 99)
    assert traces.events == [("began", 1)]
    trace.executed(ExecuteTimes(1, 2, 3))
    assert traces.events[-1] == ("ended", 1)


def test_a_request_that_never_left_the_queue() -> None:
    trace, request = Traces().tree().new(None), made()
    trace.ended(request, 99)
    assert names(trace) == ["head", "REQUEST_START", "QUEUE_START", "TENSOR_QUEUE_INPUT", "REQUEST_END"]


def test_every_execution_of_a_rescheduled_request() -> None:
    trace, request = Traces(("TIMESTAMPS",)).tree().new(None), made()
    for _ in range(2):
        trace.take(request)
        trace.executed(ExecuteTimes(1, 2, 3))
    trace.ended(request, 99)
    compute = ["COMPUTE_START", "COMPUTE_INPUT_END", "COMPUTE_OUTPUT_START", "COMPUTE_END"]
    assert names(trace) == ["head", "REQUEST_START", "QUEUE_START", *compute, "QUEUE_START", *compute, "REQUEST_END"]


def test_what_a_frontend_says_comes_first_and_last_and_is_waited_for() -> None:
    traces = Traces(("TIMESTAMPS",))
    trace, request = traces.tree().new(None), made()
    trace.hold()
    trace.stamp("HTTP_RECV_START", 1)
    trace.ended(request, 99)
    trace.stamp("HTTP_SEND_END", 100)
    assert traces.events == [("began", 1)]
    trace.release()
    assert traces.events[-1] == ("ended", 1)
    assert (names(trace)[0], names(trace)[-1]) == ("HTTP_RECV_START", "HTTP_SEND_END")


@pytest.mark.parametrize(("level", "first"), [("TENSORS", "TENSOR_QUEUE_INPUT"), ("TIMESTAMPS", "head")])
def test_one_level_alone(level: str, first: str) -> None:
    trace = Traces((level,)).tree().new(None)
    trace.ended(made(), 99)
    assert names(trace)[0] == first


def test_a_tree_is_finished_when_all_of_it_has_ended_newest_first() -> None:
    traces = Traces()
    root = traces.tree().new(None)
    request, inner = made(), made()
    root.take(request)
    child = root.child()
    never = root.child()  # its request was refused
    child.ended(inner, 50)
    assert root.tree.finished() == []
    root.executed(ExecuteTimes(0, 0, 0))
    root.ended(request, 99)
    assert root.tree.finished() == [child, root]
    assert root.tree.finished() == []
    assert child.entries()[0]["parent_id"] == root.ident
    assert never.ident == 3


@pytest.mark.parametrize(
    ("tensor", "text"),
    [
        (Tensor.from_numpy(np.array([200, 7], np.uint8)), "200,7"),  # Triton prints the bytes
        (Tensor.from_numpy(np.array([0.5], np.float16)), "0.5"),  # Triton prints nothing
        (Tensor(DataType.BF16, (2,), np.array([0x3F80, 0xC000], np.uint16)), "1,-2"),
        (Tensor.from_numpy(np.array(['q"', "ü"], object)), '"q"","ü"'),
        (Tensor.from_numpy(np.array([], np.float32)), ""),
    ],
)
def test_values_that_differ_from_triton_on_purpose(tensor: Tensor, text: str) -> None:
    request = InferenceRequest("m", {"IN": tensor})
    request.queue_start = 1
    trace = Traces(("TENSORS",)).tree().new(None)
    trace.ended(request, 2)
    assert trace.entries()[0]["tensor"]["data"] == text
