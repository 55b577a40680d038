"""The text of a program; that it runs, on both sides, is in `tests/conformance/test_snippets.py`."""

from __future__ import annotations

import ast
import json
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tritonlab.core.inference.data_type import DataType
from tritonlab.core.inference.infer_request import InferenceRequest
from tritonlab.core.inference.infer_response import InferenceResponse
from tritonlab.core.inference.tensor import Tensor
from tritonlab.core.status import InternalError
from tritonlab.exchanges.exchange import Arrival, Exchange
from tritonlab.exchanges.literal import TooLarge, numpy_expression
from tritonlab.exchanges.snippets import KINDS, Address, NotSendable, copy_as

CONFIG: dict[str, Any] = {"max_batch_size": 8, "output": [{"name": "OUT", "data_type": "TYPE_FP32"}]}


def request(array: Any, *responses: InferenceResponse, **more: Any) -> Exchange:
    sent = InferenceRequest("m", {"IN": Tensor.from_numpy(array)}, **more)
    error = next((response.error for response in responses if response.error is not None), None)
    return Exchange(sent, tuple(map(Arrival, responses)), error)


@pytest.mark.parametrize(
    "array",
    [
        np.float32([[0.1, 1e-20], [3.4e38, -0.0]]),
        np.float64([1 / 3]),
        np.float16([0.1]),
        np.int8([[-128], [127]]),
        np.uint64([2**64 - 1]),
        np.array([True, False]),
        np.float32([np.nan, np.inf]),
        np.zeros((0, 3), np.float32),
        np.arange(1000, dtype=np.int32).reshape(10, 100),
        np.float32(1.5),
    ],
)
def test_numbers_are_written_without_loss(array: Any) -> None:
    text = numpy_expression(Tensor.from_numpy(np.asarray(array)))
    names = {"np": np, "base64": __import__("base64")}
    found = eval(text, names)
    assert found.dtype == array.dtype and found.shape == array.shape and found.tobytes() == array.tobytes()
    assert len(text) < 6000


def test_few_numbers_can_be_read() -> None:
    assert numpy_expression(Tensor.from_numpy(np.float32([[0.1, 2]]))) == "np.array([[0.1, 2.0]], dtype=np.float32)"
    assert numpy_expression(Tensor.from_numpy(np.array([True]))) == "np.array([True], dtype=bool)"
    bits = Tensor(DataType.BF16, (1,), np.array([0x3FC0], np.uint16))
    assert numpy_expression(bits) == "np.array([1.5], dtype=ml_dtypes.bfloat16)"


def test_what_is_too_large_for_a_text_is_refused() -> None:
    with pytest.raises(TooLarge, match="bytes are too many for the text of a program"):
        copy_as("curl", request(np.zeros((1, 1_000_000), np.float32)), CONFIG)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "client" in kind])
def test_programs_are_python_and_have_only_what_the_request_has(kind: str) -> None:
    text = copy_as(kind, request(np.float32([[1]])), CONFIG).text
    ast.parse(text)
    assert 'client.infer("m", inputs)' in text and "base64" not in text
    full = copy_as(kind, request(np.float32([[1]]), model_version=3, priority=2, flags=1, correlation_id="s"), CONFIG)
    assert 'model_version="3", sequence_id="s", sequence_start=True, priority=2)' in full.text


def test_the_header_s_file_is_named_and_its_token_is_not_written() -> None:
    sent, address = request(np.float32([[1]]), InferenceResponse("m", 1)), Address("h:1", "g:2", "/the file")
    texts = {kind: copy_as(kind, sent, CONFIG, address).text for kind in KINDS}
    for kind in ("tritonclient HTTP", "tritonclient gRPC"):
        assert 'with open("/the file") as file:' in texts[kind] and ", headers=headers)" in texts[kind]
    assert "curl -sS --fail-with-body -H '@/the file' http" in texts["curl"]
    assert 'HEADER_FILE = pathlib.Path("/the file")' in texts["pytest"] and ", headers=headers)" in texts["pytest"]
    for kind in KINDS:
        assert "eader" not in copy_as(kind, sent, CONFIG, Address("h:1", "g:2")).text


def test_a_batch_is_an_entry_of_perf_analyzer_for_each_row() -> None:
    text = copy_as("perf_analyzer input", request(np.int32([[1, 2], [3, 4]])), CONFIG).text
    assert json.loads(text) == {"data": [{"IN": {"content": row, "shape": [2]}} for row in ([1, 2], [3, 4])]}
    with pytest.raises(NotSendable, match="not UTF-8"):
        copy_as("perf_analyzer input", request(np.array([[b"\xff"]], dtype=object)), CONFIG)


def test_an_answer_without_outputs_is_an_answer() -> None:
    made = copy_as("pytest", request(np.float32([[1]]), InferenceResponse("m", 1)), CONFIG)
    assert "assert len(answers) == 1" in made.text


def test_a_test_needs_an_answer() -> None:
    with pytest.raises(NotSendable, match="send the request first"):
        copy_as("pytest", request(np.float32([[1]])), CONFIG)
    failed = InferenceResponse(error=InternalError("no"))
    with pytest.raises(NotSendable, match="this request failed"):
        copy_as("pytest", request(np.float32([[1]]), failed), CONFIG)


@pytest.mark.parametrize("datatype", [np.float32, np.float16], ids=["printed", "saved"])
def test_curl_fails_with_the_text_of_an_error(datatype: type, tmp_path: Path) -> None:
    class Refusing(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            body = b'{"error":"it is negative"}'
            self.send_response(400)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: object) -> None: ...

    config = {**CONFIG, "output": [{"name": "OUT", "data_type": "TYPE_FP16", "dims": [-1]}]}
    with HTTPServer(("127.0.0.1", 0), Refusing) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        address = Address(http=f"127.0.0.1:{server.server_port}")
        wrong = request(np.zeros((1, 3), np.float32))
        text = copy_as("curl", wrong, config if datatype is np.float16 else CONFIG, address=address).text
        ended = subprocess.run(["sh", "-c", text], cwd=tmp_path, capture_output=True, text=True, timeout=30)
    assert ended.returncode != 0 and "it is negative" in ended.stdout + ended.stderr, ended
