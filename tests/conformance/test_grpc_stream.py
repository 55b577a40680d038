"""ModelStreamInfer, message by message (rules 3.7.5, 6.13)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import grpc
import numpy as np
import pytest

from .clients import Client
from .grpc_messages import PAIR, Rpc, message, ok, output, tensor
from .models import CPU, ECHO, SCRIPTED, config, model
from .rules import rule
from .scripts import code, marked
from .test_grpc_infer import DECOUPLED, RESERVED, SENDER, SENDER_CONFIG

TENSORS = ("CODE STRING 1", "OUT STRING 1; A STRING 1; B STRING 1")
MODELS = {
    "echo": model(ECHO, config("IN FP32 -1", "IN FP32 -1")),
    "sender": model(SENDER, SENDER_CONFIG),
    "decoupled": model(SENDER, config("IN FP32 -1", "OUT FP32 -1", CPU, DECOUPLED)),
    "script": model(SCRIPTED, config(*TENSORS, CPU, DECOUPLED)),
    "one": model(SCRIPTED, config(*TENSORS)),
}
FINAL = "triton_final_response"
STRICT = (("triton_grpc_error", "true"),)
BAD = (
    "Failed to process the request(s) for model '{0}_0_0', message: ValueError: bad\n\nAt:\n"
    "  <repository>/{0}/1/model.py(12): execute\n"
)


class Open:
    """A stream whose requests are sent one by one."""

    def __init__(self, rpc: Rpc, timeout: float = 20, metadata: Any = ()) -> None:
        self._requests: SimpleQueue[Any] = SimpleQueue()
        self.call = rpc.stub.ModelStreamInfer(iter(self._requests.get, None), timeout=timeout, metadata=metadata)

    def send(self, request: Any) -> None:
        self._requests.put(request)

    def exchange(self, request: Any, count: int = 1) -> list[Any]:
        """Send a request and return its first `count` responses. 2.51 crashes now and then where requests to several
        models run at the same time on one stream (measured)."""
        self.send(request)
        return [next(self.call) for _ in range(count)]

    def close(self) -> None:
        self._requests.put(None)


def request_for(model: str, count: int, empty_final: bool = False, id: str = "a") -> Any:
    """Return a request for `count` responses of `sender` or `decoupled`."""
    extra: dict[str, Any] = {"triton_enable_empty_final_response": True} if empty_final else {}
    return message(model, [tensor(shape=[1])], [np.float32(count).tobytes()], id=id, **extra)


def echo(id: str = "x") -> Any:
    return message("echo", [tensor()], [PAIR], id=id)


def summary(found: Any, client: Client) -> Any:
    """Return a message in short: (error, id, model, version, final or None, first output value or None)."""
    if isinstance(found, tuple):
        return found[0], client.plain(found[1])
    reply = found.infer_response
    final = reply.parameters[FINAL].bool_param if FINAL in reply.parameters else None
    value = float(np.frombuffer(reply.raw_output_contents[0], np.float32)[0]) if reply.outputs else None
    return client.plain(found.error_message), reply.id, reply.model_name, reply.model_version, final, value


def data(model: str, value: float, final: bool = False) -> Any:
    return "", "a", model, "1", final, value


def empty(model: str) -> Any:
    return "", "a", model, "", True, None


D = "decoupled"
RESPONSES: dict[str, tuple[Any, list[Any]]] = {
    "two": (request_for(D, 2), [data(D, 0), data(D, 1)]),
    "two and the empty final": (request_for(D, 2, True), [data(D, 0), data(D, 1), empty(D)]),
    "none": (request_for(D, 0), []),
    "none but the empty final": (request_for(D, 0, True), [empty(D)]),
    "the final with the last": (request_for(D, 7), [data(D, i, i == 6) for i in range(7)]),
    "the final with the last, asked for": (request_for(D, 7, True), [data(D, i, i == 6) for i in range(7)]),
    "an exception": (request_for(D, -1), [(BAD.format(D), "a", D, "", True, None)]),
    "an exception, final asked for": (request_for(D, -1, True), [(BAD.format(D), "a", D, "", True, None)]),
    "an error, then a response": (request_for(D, -2), [("nope", "a", D, "", False, None), data(D, 0)]),
    "the same and the empty final": (
        request_for(D, -2, True),
        [("nope", "a", D, "", False, None), data(D, 0), empty(D)],
    ),
    "a model that is not decoupled": (request_for("sender", 1), [data("sender", 0)]),
    "its separate final is never shown": (request_for("sender", 1, True), [data("sender", 0)]),
    "its exception": (request_for("sender", -1), [(BAD.format("sender"), "a", "sender", "", True, None)]),
    "its error after a response is not shown": (request_for("sender", 2), [data("sender", 0)]),
    "one at once": (echo("a"), [("", "a", "echo", "1", True, 1.0)]),
}


@rule("3.7.1", "3.7.3", "3.7.5", "6.13.2", "6.13.5")
@pytest.mark.parametrize("case", RESPONSES)
def test_responses_of_one_request(rpc: Rpc, client: Client, case: str) -> None:
    request, expected = RESPONSES[case]
    assert [summary(found, client) for found in rpc.stream([request])] == expected


@rule("6.13.2", "3.7.5")
@pytest.mark.parametrize("version", ["1", " 1", "1x"])
def test_errors_and_empty_finals_have_the_version_that_was_requested(rpc: Rpc, client: Client, version: str) -> None:
    def responses(model: str, count: int, empty_final: bool = False) -> Any:
        request = request_for(model, count, empty_final)
        request.model_version = version
        return rpc.stream([request])

    for found in (responses(D, -1), responses("sender", -1), responses(D, 0, True)):
        assert [summary(m, client)[3] for m in found] == [version]
    assert [summary(m, client)[3] for m in responses(D, -2, True)] == [version, "1", version]


@rule("6.13.2", "6.13.3")
@pytest.mark.parametrize("version", ["", "1"])
def test_a_cut_element_is_the_error_of_a_response(rpc: Rpc, client: Client, version: str) -> None:
    cut = message("one", [tensor("CODE", "BYTES", [1])], [b"\5\0\0\0ab"], id="q", version=version)
    text = "incomplete string data for inference input 'CODE', expecting string of length 5 but only 2 bytes available"
    found = [summary(reply, client) for reply in rpc.stream([cut])]
    assert found == [(text, "q", "one", version, True, None)]
    assert [summary(reply, client) for reply in rpc.stream([cut], STRICT)] == [("INVALID_ARGUMENT", text)]


REFUSED: dict[str, tuple[Any, str]] = {
    "unknown model": (message("nope", id="q"), "Request for unknown model: 'nope' is not found"),
    "bad version": (
        message(version="x", id="q"),
        "failed to get model version from specified version string 'x' (details: stol), version should be an integral "
        "value > 0",
    ),
    "bad shape": (
        message("echo", [tensor(shape=[3])], [PAIR], id="q"),
        "[request id: q] input byte size mismatch for input 'IN' for model 'echo'. Expected 12, got 8",
    ),
    "bad parameter": (message("echo", [tensor()], [PAIR], id="q", triton_x=1), RESERVED),
    "no data": (
        message("echo", [tensor()], id="q"),
        "unable to find data for input tensor 'IN' for model 'echo' in request.",
    ),
    "unknown output": (
        message("echo", [tensor()], [PAIR], id="q", outputs=[output("X")]),
        "unexpected inference output 'X' for model 'echo'",
    ),
}


@rule("6.13.2", "3.6.1")
@pytest.mark.parametrize("metadata", [(), STRICT])
@pytest.mark.parametrize("case", REFUSED)
def test_a_refused_request_is_reported_by_its_id_and_the_stream_goes_on(
    rpc: Rpc, client: Client, case: str, metadata: Any
) -> None:
    """Strict or not: what was never executed does not end a stream."""
    request, text = REFUSED[case]
    stream = Open(rpc, metadata=metadata)
    assert [summary(m, client) for m in stream.exchange(request)] == [(text, "q", "", "", None, None)]
    assert [summary(m, client) for m in stream.exchange(echo())] == [("", "x", "echo", "1", True, 1.0)]
    stream.close()
    assert list(stream.call) == []


@rule("6.13.3")
@pytest.mark.parametrize(
    ("value", "strict"), [("true", True), ("True", False), ("TRUE", False), ("1", False), ("false", False)]
)
def test_the_first_error_of_a_model_ends_a_strict_stream(rpc: Rpc, client: Client, value: str, strict: bool) -> None:
    found = [summary(m, client) for m in rpc.stream([request_for(D, -1)], [("triton_grpc_error", value)])]
    error = BAD.format(D)
    assert found == ([("INTERNAL", error)] if strict else [(error, "a", D, "", True, None)])


@rule("6.13.3")
def test_a_strict_stream_without_errors_is_like_any(rpc: Rpc, client: Client) -> None:
    found = [summary(m, client) for m in rpc.stream([request_for(D, 2)], STRICT)]
    assert found == [data(D, 0), data(D, 1)]


@rule("6.13.1", "6.13.4")
def test_requests_to_any_models_share_a_stream(stream: Open, client: Client) -> None:
    requests = [
        (request_for(D, 6, id="six"), 6),
        (echo("one"), 1),
        (request_for("sender", 1, id="two"), 1),
        (request_for(D, 3, id="three"), 3),
    ]
    found = [[summary(m, client)[1] for m in stream.exchange(request, count)] for request, count in requests]
    assert found == [["six"] * 6, ["one"], ["two"], ["three"] * 3]


@rule("6.13.1", "6.13.4", "3.7.1")
def test_requests_of_a_stream_run_at_once_and_each_keeps_its_order(rpc: Rpc, client: Client) -> None:
    requests = [request_for(D, 6, id="six"), request_for(D, 2, id="two"), request_for(D, 3, id="three")]
    if client.side == "lab":
        requests += [echo("one"), request_for("sender", 1, id="again"), message("nope", id="none")]
    by_id: dict[str, list[Any]] = {}
    for found in rpc.stream(requests):
        _, id, *_, value = summary(found, client)
        by_id.setdefault(id, []).append(value)
    if client.side == "lab":
        assert [by_id.pop(id) for id in ("one", "again", "none")] == [[1], [0], [None]]
    assert by_id == {"six": [0, 1, 2, 3, 4, 5], "two": [0, 1], "three": [0, 1, 2]}


@rule("3.7.5")
@pytest.mark.parametrize("empty_final", [False, True])
@pytest.mark.parametrize("outputs", [[], ["B"]])
@pytest.mark.parametrize("name", ["script", "one"])
def test_a_last_response_without_outputs_is_a_response_and_no_mere_end(
    rpc: Rpc, client: Client, name: str, outputs: list[str], empty_final: bool
) -> None:
    """The model has no output, or none that the client requested."""
    tensors = "T('A', np.array([b'x'], object))" if outputs else ""
    body = f"requests[0].get_response_sender().send(R([{tensors}]), flags=1)\nreturn " + ("[None]" * (name == "one"))
    extra: dict[str, Any] = {"triton_enable_empty_final_response": True} if empty_final else {}
    script_ = tensor("CODE", "BYTES", [1], bytes_contents=[code(body).encode()])
    request = message(name, [script_], id="a", outputs=[output(o) for o in outputs], **extra)
    assert [summary(found, client) for found in rpc.stream([request])] == [("", "a", name, "1", True, None)]


@rule("6.13.1")
def test_a_request_does_not_wait_for_the_one_before_it(rpc: Rpc, client: Client) -> None:
    """The first is answered when the second has been."""
    body = (
        "sender = requests[0].get_response_sender()\n"
        'if requests[0].request_id() == "first":\n'
        "    self.first = sender\n"
        "else:\n"
        "    for each in (sender, self.first):\n"
        '        each.send(R([T("OUT", np.array([b"x"], dtype=object))]), flags=1)\n'
        "return None"
    )

    def request(id: str) -> Any:
        return message("script", [tensor("CODE", "BYTES", [1], bytes_contents=[code(body).encode()])], id=id)

    found = rpc.stream([request("first"), request("second")])
    assert [m.infer_response.id for m in found] == ["second", "first"]


@rule("6.13.4")
def test_a_stream_without_requests_ends(rpc: Rpc) -> None:
    assert rpc.stream([]) == []


@rule("6.13.5")
def test_what_is_no_message_ends_the_reading_and_no_more(rpc: Rpc) -> None:
    method = rpc.channel.stream_stream("/inference.GRPCInferenceService/ModelStreamInfer", None, None)
    messages = [request_for(D, 2).SerializeToString(), b"\xff\xff", echo().SerializeToString()]
    assert len(list(method(iter(messages), timeout=5))) == 2
    ok(rpc.infer("echo", [tensor()], [PAIR]))


#: Answers once, then waits until its client is gone, and says so in a file.
WATCH = """
sender = requests[0].get_response_sender()
sender.send(R([T("OUT", np.array([b"x"], dtype=object))]))
end = time.time() + 10
while not sender.is_cancelled() and time.time() < end:
    time.sleep(0.005)
with open(path + ".new", "w") as file:
    file.write(repr([sender.is_cancelled()]))
os.rename(path + ".new", path)
sender.send(flags=1)
return None
"""


def watching(path: Path) -> Any:
    text = code(WATCH, path=str(path)).encode()
    return message("script", [tensor("CODE", "BYTES", [1], bytes_contents=[text])])


@pytest.fixture
def stream(rpc: Rpc) -> Iterator[Open]:
    found = Open(rpc)
    yield found
    found.close()
    found.call.cancel()


@rule("6.13.4", "3.10.1")
def test_cancelling_a_stream_cancels_its_requests(rpc: Rpc, stream: Open, tmp_path: Path) -> None:
    stream.send(watching(tmp_path / "seen"))
    next(stream.call)
    stream.call.cancel()
    assert marked(tmp_path / "seen") == [True]
    ok(rpc.infer("echo", [tensor()], [PAIR]))


@rule("3.10.1")
def test_a_deadline_cancels_its_requests(rpc: Rpc, tmp_path: Path) -> None:
    stream = Open(rpc, timeout=1)
    stream.send(watching(tmp_path / "seen"))
    next(stream.call)
    with pytest.raises(grpc.RpcError, match="DEADLINE_EXCEEDED"):
        next(stream.call)
    assert marked(tmp_path / "seen") == [True]
    stream.close()


@rule("6.13.4")
def test_responses_come_while_requests_may_still_follow(stream: Open) -> None:
    for number in range(20):
        stream.send(echo(str(number)))
        assert next(stream.call).infer_response.id == str(number)


@rule("6.13.1")
def test_many_streams_at_once(rpc: Rpc, client: Client) -> None:
    found: list[int] = []
    each = 5 if client.side == "lab" else 1
    requests = [request_for(D, 100 // each) for _ in range(each)]
    threads = [threading.Thread(target=lambda: found.append(len(rpc.stream(requests)))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [100] * 8
