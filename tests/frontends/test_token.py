"""Ports that want a token, and ports without control of the server, over real sockets with real clients."""

from __future__ import annotations

import base64
import http.client
import json
import socket
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import InferenceServerException

from tests.conformance.rules import rule
from tests.models import executes
from tests.serving import DECOUPLED, Lab, config, lab
from tritonlab.frontends.endpoints import EndpointOptions, Endpoints
from tritonlab.frontends.grpc.control_handlers import RPCS
from tritonlab.frontends.grpc.grpc_server import HEALTH_CHECK, SERVICE
from tritonlab.frontends.http.http_app import HTTPOptions
from tritonlab.frontends.shared.access import AccessRules, new_token
from tritonlab.frontends.shared.grpc_options import GRPCOptions

__all__ = ["lab"]

TOKEN = new_token()
RIGHT = {"authorization": f"Bearer {TOKEN}"}
SECONDS = 10

#: A response with the input and the parameters of its request: once from SINGLE, twice from ECHO.
RESPONSE = """pb_utils.InferenceResponse([
    pb_utils.Tensor("OUT", request.inputs()[0].as_numpy()),
    pb_utils.Tensor("SAID", np.array([request.parameters().encode()], object)),
])"""
SINGLE = executes(f"return [{RESPONSE} for request in requests]")
ECHO = executes(
    "for request in requests:\n"
    "    sender = request.get_response_sender()\n"
    "    for _ in range(2):\n"
    f"        sender.send({RESPONSE})\n"
    "    sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)"
)


@pytest.fixture(scope="module")
def endpoints(lab: Lab) -> Iterator[Endpoints]:
    """Yield endpoints with the options that a notebook uses."""
    lab.load("echo", ECHO, config("IN FP32 -1", "OUT FP32 -1; SAID STRING 1", DECOUPLED))
    lab.load("single", SINGLE, config("IN FP32 -1", "OUT FP32 -1; SAID STRING 1"))
    options = EndpointOptions(
        http_port=0,
        grpc_port=0,
        metrics_port=0,
        access=AccessRules(token=TOKEN, model_control=False, settings=False),
        http_options=HTTPOptions(header_forward_pattern=".*"),
        grpc_options=GRPCOptions(header_forward_pattern=".*"),
    )
    with Endpoints(lab.server.core, options) as found:
        yield found


def fetch(place: str, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection(place, timeout=SECONDS)
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def inputs(protocol: Any) -> list[Any]:
    tensor = protocol.InferInput("IN", [2], "FP32")
    tensor.set_data_from_numpy(np.array([1, 2], np.float32))
    return [tensor]


def parameters_of(result: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(result.as_numpy("SAID")[0] or "{}")
    return found


BOTH = pytest.mark.parametrize("protocol", [tritonclient.http, tritonclient.grpc], ids=["http", "grpc"])
WRONG = {
    "none": {},
    "empty": {"authorization": ""},
    "scheme-alone": {"authorization": "Bearer"},
    "other": {"authorization": f"Bearer {new_token()}"},
    "beginning": {"authorization": f"Bearer {TOKEN[:-1]}"},
    "other-scheme": {"authorization": f"Basic {TOKEN}"},
    "other-header": {"x-token": f"Bearer {TOKEN}"},
}


def place(endpoints: Endpoints, protocol: Any) -> str:
    return endpoints.http if protocol is tritonclient.http else endpoints.grpc


# -- who is let in


@rule("6.15.9")
@BOTH
@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_tritonclient_sends_it_as_headers(endpoints: Endpoints, protocol: Any, scheme: str) -> None:
    headers = {"authorization": f"{scheme} {TOKEN}"}
    with protocol.InferenceServerClient(place(endpoints, protocol)) as client:
        for _ in range(3):  # on one connection, whose heads are known from the second request on
            result = client.infer("single", inputs(protocol), headers=headers)
            assert result.as_numpy("OUT").tolist() == [1, 2]
        assert client.is_server_ready(headers=headers)
        assert client.get_server_metadata(headers=headers)
        assert client.get_model_repository_index(headers=headers)


def test_what_endpoints_call_headers_is_enough(endpoints: Endpoints) -> None:
    assert endpoints.headers == RIGHT
    with tritonclient.grpc.InferenceServerClient(endpoints.grpc) as client:
        assert client.is_server_ready(headers=endpoints.headers)
    assert fetch(endpoints.metrics, "GET", "/metrics", **endpoints.headers)[0] == 200


@BOTH
def test_the_variables_in_a_traceback_do_not_show_it(endpoints: Endpoints, protocol: Any) -> None:
    """As `%xmode Verbose` shows them, in tritonclient's frames too, which copy the headers."""
    with (
        protocol.InferenceServerClient(place(endpoints, protocol)) as client,
        pytest.raises(InferenceServerException) as raised,
    ):
        client.infer("unknown", inputs(protocol), headers=dict(endpoints.headers))
    report = traceback.TracebackException.from_exception(raised.value, capture_locals=True)
    text = "".join(report.format())
    assert "Bearer …" in text and TOKEN not in text


@rule("6.15.9")
@BOTH
@pytest.mark.parametrize("headers", WRONG.values(), ids=WRONG.keys())
def test_nobody_else_is_answered(endpoints: Endpoints, protocol: Any, headers: dict[str, str]) -> None:
    with protocol.InferenceServerClient(place(endpoints, protocol)) as client:
        sent = dict(headers) or None  # a copy: tritonclient writes into it, over HTTP
        calls: list[Callable[[], Any]] = [
            lambda: client.infer("single", inputs(protocol), headers=sent),
            lambda: client.get_server_metadata(headers=sent),
            lambda: client.get_model_config("single", headers=sent),
            lambda: client.load_model("single", headers=sent),
            lambda: client.get_inference_statistics(headers=sent),
        ]
        for call in calls:
            with pytest.raises(InferenceServerException) as refusal:
                call()
            assert "UNAUTHENTICATED" in str(refusal.value.status()) or refusal.value.status() == "401"
            assert "token" in refusal.value.message() and TOKEN not in str(refusal.value)
        assert client.is_server_live(headers=sent)


def test_a_connection_that_was_let_in_is_checked_with_each_request(endpoints: Endpoints) -> None:
    connection = http.client.HTTPConnection(endpoints.http, timeout=SECONDS)
    body = json.dumps({"inputs": [{"name": "IN", "shape": [1], "datatype": "FP32", "data": [1]}]})
    found = []
    for headers in (RIGHT, RIGHT, {}, RIGHT, WRONG["other"], RIGHT):
        connection.request("POST", "/v2/models/single/infer", body, headers)
        answer = connection.getresponse()
        answer.read()
        found.append(answer.status)
    connection.close()
    assert found == [200, 200, 401, 200, 401, 200]


@rule("6.15.9")
def test_every_rpc_but_liveness_asks(endpoints: Endpoints) -> None:
    methods = {SERVICE + name: rpc.request for name, rpc in RPCS.items()} | {
        SERVICE + "ModelInfer": service_pb2.ModelInferRequest,
        HEALTH_CHECK: service_pb2.ServerReadyRequest,
    }
    let_in = []
    with grpc.insecure_channel(endpoints.grpc) as channel:
        for method, request in methods.items():
            try:
                channel.unary_unary(method)(request().SerializeToString(), timeout=SECONDS)
                let_in.append(method)
            except grpc.RpcError as error:
                assert error.code() is grpc.StatusCode.UNAUTHENTICATED, method
    assert let_in == [f"{SERVICE}ServerLive"]


def test_a_stream_is_refused_or_taken_as_a_whole(endpoints: Endpoints) -> None:
    request = service_pb2.ModelInferRequest(model_name="echo", raw_input_contents=[bytes(4)])
    request.inputs.add(name="IN", datatype="FP32", shape=[1])
    with grpc.insecure_channel(endpoints.grpc) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        taken = stub.ModelStreamInfer(iter([request, request]), metadata=list(RIGHT.items()), timeout=SECONDS)
        assert len(list(taken)) == 4
        for headers in WRONG.values():
            refused = stub.ModelStreamInfer(iter([request]), metadata=list(headers.items()), timeout=SECONDS)
            with pytest.raises(grpc.RpcError) as refusal:
                list(refused)
            assert refusal.value.code() is grpc.StatusCode.UNAUTHENTICATED


def test_a_stream_of_events_too(endpoints: Endpoints) -> None:
    path, body = "/v2/models/echo/generate_stream", b'{"IN": [1]}'
    assert fetch(endpoints.http, "POST", path, body)[0] == 401
    status, text = fetch(endpoints.http, "POST", path, body, **RIGHT)
    assert (status, text.count("data: ")) == (200, 2)


def test_the_metrics_want_it_too(endpoints: Endpoints) -> None:
    for headers in WRONG.values():
        assert fetch(endpoints.metrics, "GET", "/metrics", **headers)[0] == 401
    assert 'nv_inference_count{model="single"' in fetch(endpoints.metrics, "GET", "/metrics", **RIGHT)[1]


def test_a_refusal_reads_no_body(endpoints: Endpoints) -> None:
    """A client without a token cannot fill the memory."""
    host, _, port = endpoints.http.partition(":")
    with socket.create_connection((host, int(port)), timeout=SECONDS) as caller:
        caller.sendall(b"POST /v2/models/m/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999999999\r\n\r\n")
        assert caller.recv(65536).startswith(b"HTTP/1.1 401 ")


# -- what is off


@rule("6.15.9")
@BOTH
def test_what_changes_the_server_is_off(endpoints: Endpoints, protocol: Any, lab: Lab) -> None:
    with protocol.InferenceServerClient(place(endpoints, protocol)) as client:
        source = b"raise SystemExit('owned')"
        off: dict[str, list[Callable[[], Any]]] = {
            "--allow-model-control=true": [
                lambda: client.load_model("evil", RIGHT, config="{}", files={"file:1/model.py": source}),
                lambda: client.load_model("single", RIGHT),
                lambda: client.unload_model("single", RIGHT),
            ],
            "--allow-settings=true": [
                lambda: client.update_trace_settings(settings={"trace_level": ["TIMESTAMPS"]}, headers=RIGHT),
                lambda: client.get_trace_settings(headers=RIGHT),
                lambda: client.update_log_settings({"log_verbose_level": 1}, RIGHT),
                lambda: client.get_log_settings(RIGHT),
            ],
            "--allow-client-shm=true": [
                lambda: client.register_system_shared_memory("r", "/r", 8, headers=RIGHT),
                lambda: client.get_system_shared_memory_status(headers=RIGHT),
                lambda: client.register_cuda_shared_memory("r", base64.b64encode(bytes(64)), 0, 8, headers=RIGHT),
            ],
        }
        for option, calls in off.items():
            for call in calls:
                with pytest.raises(InferenceServerException, match=option) as refusal:
                    call()
                assert "UNIMPLEMENTED" in str(refusal.value.status()) or refusal.value.status() == "501"
        assert client.is_model_ready("single", headers=RIGHT)
    assert "evil" not in {entry["name"] for entry in lab.server.index()}


@BOTH
def test_what_was_enabled_is_on(lab: Lab, protocol: Any) -> None:
    options = EndpointOptions(http_port=0, grpc_port=0, metrics=False, client_shm=True)
    with Endpoints(lab.server.core, options) as endpoints:
        assert endpoints.headers == {}
        with protocol.InferenceServerClient(place(endpoints, protocol)) as client:
            client.load_model("single")
            assert client.get_trace_settings() and client.get_log_settings()
            assert not client.get_system_shared_memory_status(as_json=True) if protocol is tritonclient.grpc else True
            assert client.is_model_ready("single")


# -- the token reaches nobody


@rule("6.14", "6.15.9")
@BOTH
def test_it_reaches_no_model(endpoints: Endpoints, protocol: Any) -> None:
    """Rule 6.14: though all headers are forwarded."""
    with protocol.InferenceServerClient(place(endpoints, protocol)) as client:
        headers = RIGHT if protocol is tritonclient.grpc else {"Authorization": RIGHT["authorization"]}
        found = parameters_of(client.infer("single", inputs(protocol), headers={**headers, "x-other": "y"}))
    assert found["x-other"] == "y"
    assert TOKEN not in str(found)


def test_it_is_in_no_log_repr_metric_or_trace(endpoints: Endpoints, lab: Lab) -> None:
    fetch(endpoints.http, "GET", "/v2", **RIGHT)
    fetch(endpoints.http, "GET", "/v2/models/no-such-model", **RIGHT)
    texts = [
        *(record.text for record in lab.server.logs()),
        repr(endpoints),
        str(EndpointOptions(access=AccessRules(token=TOKEN)).guarded()),
        repr(EndpointOptions(access=AccessRules(token=TOKEN))),
        repr(GRPCOptions(access=AccessRules(token=TOKEN))),
        repr(HTTPOptions(access=AccessRules(token=TOKEN))),
        lab.server.metrics(),
        json.dumps(lab.server.index()),
    ]
    assert not [text for text in texts if TOKEN in text]
