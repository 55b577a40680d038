from __future__ import annotations

import pickle
from collections.abc import Iterator
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tritonlab
from tests.models import answers, executes, streams
from tests.serving import Lab, config, eventually
from tests.tools.capture.captures import texts
from tritonlab.core.inference.data_type import DataType
from tritonlab.core.inference.infer_request import SEQUENCE_START
from tritonlab.core.inference.infer_response import InferenceResponse
from tritonlab.core.inference.tensor import Tensor
from tritonlab.core.status import NotFoundError, TritonError, UnavailableError
from tritonlab.server.api.server import Server
from tritonlab.tools.capture import server_capture
from tritonlab.tools.capture.capture_file import Capture, CapturedRequest
from tritonlab.tools.capture.capture_rules import CaptureRules
from tritonlab.tools.capture.capture_writer import CaptureReport
from tritonlab.tools.capture.server_capture import NO_ROOM, OPEN_AT_END, RunningCapture

ADD = answers("x + 1")
STREAM = streams("x + n", over="range(3)")
FAILS = executes('return [pb_utils.InferenceResponse(error=pb_utils.TritonError("no such thing")) for _ in requests]')
CALLS = executes(
    "found = []\n"
    "for request in requests:\n"
    '    call = pb_utils.InferenceRequest(model_name="add", requested_output_names=["OUT"], inputs=request.inputs())\n'
    "    found.append(pb_utils.InferenceResponse(call.exec().output_tensors()))\n"
    "return found"
)
RESHAPED = 'input { name: "IN" data_type: TYPE_FP32 dims: 4 reshape { shape: [2, 2] } } '
RESHAPED += 'output { name: "OUT" data_type: TYPE_FP32 dims: 4 reshape { shape: [2, 2] } }'
HOLDS = """
import os, time
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        while os.path.exists({path!r}):
            time.sleep(0.005)
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", r.inputs()[0].as_numpy())]) for r in requests]
"""


MODELS: dict[str, tuple[str, str]] = {
    "add": (ADD, config("IN FP32 -1", "OUT FP32 -1")),
    "stream": (STREAM, config("IN FP32 -1", "OUT FP32 -1", "model_transaction_policy { decoupled: true }")),
    "fails": (FAILS, config("TEXT STRING -1", "OUT FP32 -1")),
    "calls": (CALLS, config("IN FP32 -1", "OUT FP32 -1")),
    "reshaped": (answers("x * 2"), f"{config()}{RESHAPED}"),
    "cached": (ADD, config("IN FP32 -1", "OUT FP32 -1", "max_batch_size: 4 response_cache { enable: true }")),
}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    lab = Lab(tmp_path_factory.mktemp("repository"), cache_config="local,size=1048576")
    for name, (source, text) in MODELS.items():
        lab.load(name, source, text)
    yield lab
    lab.server.stop()


def send(lab: Lab, name: str, value: Any = (1.0, 2.0), **settings: Any) -> None:
    """Send a request whose array the client changes as soon as it is answered."""
    array = np.array(value, np.float32)
    list(lab.server.model(name).infer(inputs={"IN": array}, raise_on_error=False, **settings))
    array[:] = -1


def begin(lab: Lab, path: Path, models: Any = None, **rules: Any) -> RunningCapture:
    server: Any = lab.server
    return tritonlab.capture(path, models, server=server, **rules)


def values(tensors: dict[str, Tensor]) -> dict[str, Any]:
    return {name: tensor.numpy().tolist() for name, tensor in tensors.items()}


def content_of(one: CapturedRequest) -> tuple[Any, ...]:
    """Return the model, the inputs and the outputs of each response."""
    exchange = one.exchange
    return exchange.model, values(exchange.request.inputs), [values(each.outputs) for each in exchange.responses]


def test_requests_of_clients_are_captured_with_their_answers(lab: Lab, tmp_path: Path) -> None:
    send(lab, "add")
    with begin(lab, tmp_path / "a") as running:
        settings = {"request_id": "r", "correlation_id": 7, "flags": SEQUENCE_START, "priority": 2}
        send(lab, "add", parameters={"user": "ann", "n": 3}, timeout=5_000_000, **settings)
        send(lab, "stream")
        lab.server.model("fails").infer(inputs={"TEXT": texts("ü")}, raise_on_error=False).__next__()
        send(lab, "calls", [5.0])
        send(lab, "reshaped", [1, 2, 3, 4])
        for _ in range(2):
            send(lab, "cached", [[1.0]])
        eventually(lambda: running.report.requests == 7)
        assert running.is_running and repr(running).startswith("captures all models\n")
    send(lab, "add")
    found = list(Capture(tmp_path / "a"))
    assert [content_of(each) for each in found] == [
        ("add", {"IN": [1, 2]}, [{"OUT": [2, 3]}]),
        ("stream", {"IN": [1, 2]}, [{"OUT": [1, 2]}, {"OUT": [2, 3]}, {"OUT": [3, 4]}, {}]),
        ("fails", {"TEXT": ["ü".encode()]}, [{}]),
        ("calls", {"IN": [5]}, [{"OUT": [6]}]),  # without the model's own call
        ("reshaped", {"IN": [1, 2, 3, 4]}, [{"OUT": [2, 4, 6, 8]}]),  # as its client sees it
        *[("cached", {"IN": [[1]]}, [{"OUT": [[2]]}])] * 2,
    ]
    request = found[0].exchange.request
    assert {name: getattr(request, name) for name in settings} == settings
    assert (request.parameters, request.timeout, request.inputs["IN"].shape) == (
        {"user": "ann", "n": 3},
        5_000_000,
        (2,),
    )
    times = [arrival.after_ns for arrival in found[1].exchange.arrivals]
    assert times[0] > 0 and times == sorted(times) and found[1].exchange.responses[-1].empty
    error = found[2].exchange.error
    assert error is not None and error.message == "no such thing"
    assert [each.at_ns for each in found] == sorted(each.at_ns for each in found) and found[0].at_ns > 0
    assert running.report.left_out == {} and not running.is_running
    assert Capture(tmp_path / "a").facts["source"] == "server"


def test_one_model_a_filter_and_the_card(lab: Lab, tmp_path: Path) -> None:
    """Also what a program reads of the handle, and what cannot be done with it."""
    one = begin(lab, tmp_path / "one", "add", redact={"IN": "shape"})
    errors = begin(lab, tmp_path / "errors", ["fails", lab.server.model("stream")], only_errors=True)
    send(lab, "add")
    send(lab, "stream")
    with pytest.raises(TritonError, match="unexpected inference input 'IN'"):  # it never reaches a queue
        send(lab, "fails")
    lab.server.model("fails").infer(inputs={"TEXT": texts("a")}, raise_on_error=False).__next__()
    reports = [one.stop(), errors.stop(), errors.stop()]
    assert [each.requests for each in reports] == [1, 1, 1]
    (found,) = Capture(tmp_path / "one")
    assert not found.exchange.request.inputs and found.withheld["input.IN"] == ("shape", "FP32", (2,))
    assert repr(errors).splitlines() == [
        "has captured fails, stream",
        f"{tmp_path / 'errors'}: 1 requests, {reports[1].file_bytes:,} bytes",
        "left out: 1, neither failed nor slow",
    ]
    assert "<div class='tl-dim'" in errors._repr_html_() and errors.to_dict()["requests"] == 1
    assert isinstance(pickle.loads(pickle.dumps(reports[0])), CaptureReport)
    with pytest.raises(TypeError, match="pickle its `report`"):
        pickle.dumps(errors)
    with pytest.raises(FileExistsError):
        begin(lab, tmp_path / "one")
    with pytest.raises(ValueError, match="share=2 is not a share"):
        begin(lab, tmp_path / "no", share=2)
    with pytest.raises(NotFoundError, match="no model 'stram' to capture: did you mean 'stream'"):
        begin(lab, tmp_path / "no", ["add", "stram"])
    assert not (tmp_path / "no").exists() and not any(isinstance(e, RunningCapture) for e in lab.server.instruments)


def test_a_request_in_flight_at_the_end_and_one_without_room(lab: Lab, tmp_path: Path) -> None:
    hold = tmp_path / "hold"
    hold.touch()
    model = lab.load("holds", HOLDS.format(path=str(hold)), config("IN FP32 -1", "OUT FP32 -1"))
    running = begin(lab, tmp_path / "a")
    answer = model.infer(inputs={"IN": np.zeros(3, np.float32)})
    report = running.stop()
    hold.unlink()
    assert next(iter(answer)).error is None
    assert (report.requests, report.left_out) == (0, {OPEN_AT_END: 1})
    small = RunningCapture(lab.server, tmp_path / "b", [], CaptureRules(queue_bytes=20_000))
    send(lab, "add", np.zeros(100))
    send(lab, "add", np.zeros(10_000))
    assert small.stop().left_out == {NO_ROOM: 1} and len(Capture(tmp_path / "b")) == 1
    assert small._open == {} and small._open_bytes == 0


def test_memory_that_is_shared_with_the_client_is_captured_by_value(lab: Lab, tmp_path: Path) -> None:
    memory = SharedMemory(create=True, size=8)
    try:
        view = np.frombuffer(memory.buf, np.float32)
        with begin(lab, tmp_path / "a"):
            request = lab.server.model("add").create_request(inputs={"IN": Tensor(DataType.FP32, (2,), view)})
            view[:] = [3, 4]
            list(lab.server.model("add").infer(request))
            view[:] = 0
            del request, view
        assert content_of(next(iter(Capture(tmp_path / "a"))))[1:] == ({"IN": [3, 4]}, [{"OUT": [4, 5]}])
    finally:
        memory.close()
        memory.unlink()


def test_the_end_of_the_server_ends_a_capture(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    with Server(tmp_path / "models", model_control_mode="explicit") as server:
        running = RunningCapture(server, tmp_path / "a", [], CaptureRules())
        assert running.is_running and running._writer._thread.is_alive()
    assert not running.is_running and not running._writer._thread.is_alive() and running.report.is_complete


def test_without_a_capture_a_request_pays_nothing(lab: Lab, tmp_path: Path) -> None:
    instruments = lab.server.instruments
    before = list(instruments)
    with begin(lab, tmp_path / "a") as running:
        assert list(instruments) == [*before, running]
    assert list(instruments) == before


def test_a_capture_that_raises_harms_no_request(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    running = begin(lab, tmp_path / "a")
    monkeypatch.setattr(running, "_copies", lambda *tensors: 1 / 0)
    answer = lab.server.model("add")(IN=np.zeros(1, np.float32))
    assert answer["OUT"].tolist() == [1] and not running.is_running
    running.stop()


def test_an_answer_while_its_inputs_are_copied_is_counted_once(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = begin(lab, tmp_path / "a", per_minute=1)
    request = lab.server.model("add").create_request(inputs={"IN": np.zeros(1, np.float32)})
    request.serial, request.request_start = 1, lab.server.core.clock.now()
    copy = running._copies

    def answered_meanwhile(*arguments: Any) -> Any:
        monkeypatch.undo()
        running.response_sent(request, InferenceResponse("add", final=True), 0)
        return copy(*arguments)

    monkeypatch.setattr(running, "_copies", answered_meanwhile)
    running.request_queued(request, 0)
    report = running.stop()
    assert (report.requests, report.left_out) == (1, {})


def test_a_request_that_is_released_while_its_inputs_are_copied_leaves_nothing(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = begin(lab, tmp_path / "a")
    request = lab.server.model("add").create_request(inputs={"IN": np.zeros(1, np.float32)})
    request.serial, request.request_start = 1, lab.server.core.clock.now()

    def released_meanwhile(tensor: Tensor) -> Tensor:
        running.request_released(request, 0)
        raise UnavailableError("the GPU is gone")

    monkeypatch.setattr(server_capture, "_copy", released_meanwhile)
    running.request_queued(request, 0)
    assert running._open == {} and running._open_bytes == 0
    running.stop()
