from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from tritonlab.core.inference.data_type import DataType
from tritonlab.core.inference.infer_request import InferenceRequest
from tritonlab.core.inference.infer_response import InferenceResponse
from tritonlab.core.inference.tensor import Tensor
from tritonlab.core.status import CancelledError, InvalidArgumentError, ModelError
from tritonlab.exchanges.exchange import Arrival, Exchange, PhaseTimes
from tritonlab.ipc.processes.stub_log import LogRecord
from tritonlab.notebook.views.playground.result_view import outcomes_html
from tritonlab.notebook.views.playground.tensor_text import line_text, value_text

REQUEST = InferenceRequest("m", {})
SPLIT = PhaseTimes(queue=1_000, compute_input=20_000, compute_infer=3_000_000, compute_output=40_000)


def response(final: bool = True, empty: bool = False, **outputs: object) -> InferenceResponse:
    tensors = {name: Tensor.from_numpy(np.asarray(value)) for name, value in outputs.items()}
    return InferenceResponse("m", 1, outputs=tensors, final=final, empty=empty)


def text_of(html: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", html).replace("&ensp;", " ").split())


def test_outputs_have_type_shape_and_values() -> None:
    outcome = Exchange(REQUEST, (Arrival(response(OUT=np.float32([[1.5, 2]])), 4_000_000),), split=SPLIT)
    text = text_of(outcomes_html([outcome], finished=True))
    assert "OUT FP32 [1, 2] [[1.5 2. ]]" in text
    assert text.startswith("4 ms queue 1 µs input 20 µs execute 3 ms output 40 µs transport 939 µs")


def test_an_error_is_what_the_client_gets() -> None:
    error = ModelError("Failed: ValueError: <no>\n\nAt:\n  model.py(3): execute\n", reason="killed by signal 9")
    text = outcomes_html([Exchange(REQUEST, error=error)], finished=True)
    assert "INTERNAL" in text and "killed by signal 9" in text
    assert "Failed: ValueError: &lt;no&gt;\n\nAt:\n  model.py(3): execute" in text
    hinted = outcomes_html([Exchange(REQUEST, error=InvalidArgumentError("bad"))], finished=True, hint="do better")
    assert "INVALID_ARG" in hinted and "Hint: do better." in hinted


def test_what_the_model_printed_stands_below_the_outputs() -> None:
    lines = tuple(LogRecord(0, "m", 1, "m_0_0", "stdout", "INFO", f"<line> {n}", serials=(1,)) for n in range(202))
    outcome = Exchange(REQUEST, (Arrival(response(OUT=np.float32([[1]])), 1),), printed=lines[:1])
    html = outcomes_html([outcome], finished=True)
    assert text_of(html).endswith("1 line printed &lt;line&gt; 0")
    assert "<details class='tl-log tl-printed' open>" in html
    text = text_of(outcomes_html([replace(outcome, printed=lines)], finished=True))
    assert "202 lines printed 2 lines before: %triton logs m &lt;line&gt; 2" in text
    assert replace(outcome, printed=lines[:2]).to_dict()["printed"] == ["<line> 0", "<line> 1"]


def test_a_stream_lists_its_responses() -> None:
    arrivals = (
        Arrival(response(final=False, I=np.int32([1])), 1_000_000),
        Arrival(response(final=False, I=np.int32([2])), 2_000_000),
        Arrival(response(empty=True), 3_000_000),
    )
    text = text_of(outcomes_html([Exchange(REQUEST, arrivals)], finished=True))
    assert "1 1 ms I INT32 [1] [1] 2 2 ms I INT32 [1] [2] 3 3 ms FINAL empty" in text


def test_many_requests_are_summed_up() -> None:
    good = Exchange(REQUEST, (Arrival(response(), 2_000_000),), split=SPLIT, batch_size=4)
    bad = Exchange(REQUEST, error=InvalidArgumentError("bad"))
    text = text_of(outcomes_html([good, good, bad], finished=True))
    assert text.startswith("2 of 3 requests answered, 1 failed, 1,000 requests/s, batches: 1 of 4")
    assert "total 2 ms 2 ms - - 2 ms" in text
    assert "bad" in text


def test_what_is_under_way_says_so() -> None:
    text = text_of(outcomes_html([Exchange(REQUEST)], finished=False, waited=12.7, why="in <execute>, line 3"))
    assert text == "waiting for the final response for 12 s … in &lt;execute&gt;, line 3"


def test_cancelled_is_not_failed() -> None:
    html = outcomes_html([Exchange(REQUEST, error=CancelledError("the client has gone"))], finished=True)
    assert text_of(html) == "CANCELLED the client has gone" and "tl-bad" not in html


def test_values_are_previews() -> None:
    assert "..." in value_text(Tensor.from_numpy(np.arange(1000)))
    bits = Tensor(DataType.BF16, (1,), np.array([0x3FC0], np.uint16))
    assert value_text(bits) == "[1.5]"


def test_text_is_readable_and_says_what_is_left_out() -> None:
    assert value_text(text_tensor("é\n", b"\xff")) == r"['é\n' b'\xff']"
    assert value_text(text_tensor("x" * 10_000)).endswith("x … (10,000 bytes)]")
    assert line_text(text_tensor("a  b"), 96) == "['a  b']"
    assert line_text(text_tensor("x" * 100), 96) == "['" + "x" * 92 + " …"


def test_a_stream_that_was_cancelled_says_so() -> None:
    request = InferenceRequest("m", {})
    request.cancel()
    arrivals = (Arrival(response(final=False, I=np.int32([1])), 1_000_000), Arrival(response(empty=True), 3_000_000))
    assert text_of(outcomes_html([Exchange(request, arrivals)], finished=True)).startswith("3 ms cancelled # after")


def text_tensor(*elements: str | bytes) -> Tensor:
    return Tensor.from_numpy(np.array(elements, dtype=object))
