from __future__ import annotations

import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import grpc
import pytest
from tritonclient.grpc import service_pb2, service_pb2_grpc

from tests.serving import eventually
from tritonlab.core.status import InvalidArgumentError, UnavailableError
from tritonlab.frontends import endpoints as endpoints_module
from tritonlab.frontends.endpoints import EndpointOptions, Endpoints, ListenAddress
from tritonlab.frontends.http.http_server import HTTPOptions, HTTPServer
from tritonlab.frontends.shared.access import AccessRules
from tritonlab.frontends.shared.grpc_options import GRPCOptions
from tritonlab.frontends.shared.listener import listen
from tritonlab.server.inference_server import InferenceServer
from tritonlab.server.options import Options


@pytest.fixture(scope="module")
def core() -> Iterator[InferenceServer]:
    core = InferenceServer([], Options(model_control_mode="explicit", warm=0))
    yield core
    core.stop()


def any_ports(**more: object) -> EndpointOptions:
    return EndpointOptions(http_port=0, grpc_port=0, metrics_port=0, **more)  # type: ignore[arg-type]


def status(place: str, path: str, **headers: str) -> int:
    request = urllib.request.Request(f"http://{place}{path}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code


def live(place: str, metadata: tuple[tuple[str, str], ...] = ()) -> bool:
    with grpc.insecure_channel(place) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        return bool(stub.ServerLive(service_pb2.ServerLiveRequest(), metadata=metadata, timeout=10).live)


def taken(place: str) -> bool:
    host, _, port = place.rpartition(":")
    with socket.socket() as caller:
        return caller.connect_ex((host, int(port))) == 0


def test_all_three_are_open_until_they_are_stopped(core: InferenceServer) -> None:
    opened: list[tuple[str, str]] = []
    endpoints = Endpoints(core, any_ports(), lambda service, place: opened.append((service, place)))
    places = dict(endpoints.places)
    assert opened == list(places.items()) and list(places) == ["GRPC", "HTTP", "Metrics"]
    assert status(places["HTTP"], "/v2/health/live") == status(places["Metrics"], "/metrics") == 200
    assert live(places["GRPC"])
    endpoints.stop()
    endpoints.stop()
    assert not any(taken(place) for place in places.values())


def test_they_end_with_a_block_and_leave_no_thread(core: InferenceServer) -> None:
    before = set(threading.enumerate())
    with Endpoints(core, any_ports()) as endpoints:
        place = endpoints.http
        status(place, "/v2")
    assert not taken(place)
    eventually(lambda: set(threading.enumerate()) <= before)


def test_those_that_are_not_wanted_are_not_opened(core: InferenceServer) -> None:
    with Endpoints(core, any_ports(grpc=False, metrics=False)) as endpoints:
        assert list(endpoints.places) == ["HTTP"]
    with Endpoints(core, any_ports(http=False, grpc=False, metrics=False)) as endpoints:
        assert (endpoints.places, repr(endpoints)) == ({}, "no endpoints")


def test_two_sets_of_ports_on_one_server(core: InferenceServer) -> None:
    with Endpoints(core, any_ports()) as one, Endpoints(core, any_ports()) as two:
        assert len({*one.places.values(), *two.places.values()}) == 6


@pytest.mark.parametrize(("name", "service"), [("http", "HTTP"), ("grpc", "GRPC"), ("metrics", "Metrics")])
def test_a_port_in_use_opens_none(core: InferenceServer, name: str, service: str) -> None:
    with listen("127.0.0.1", 0) as other:
        port = other.getsockname()[1]
        ports = {"http_port": 0, "grpc_port": 0, "metrics_port": 0, f"{name}_port": port}
        before = threading.active_count()
        with pytest.raises(UnavailableError) as refusal:
            Endpoints(core, EndpointOptions(**ports))  # type: ignore[arg-type]
        eventually(lambda: threading.active_count() <= before)
    text = str(refusal.value)
    assert text.startswith(f"failed to start {service} service: Unavailable - Socket '127.0.0.1:{port}' already in use")
    assert f"--{name}-port" in text and f"--allow-{name}=false" in text


def test_a_tools_port_in_use_is_named_by_the_flags_there_are(core: InferenceServer) -> None:
    with listen("127.0.0.1", 0) as other:
        port = other.getsockname()[1]
        with pytest.raises(UnavailableError, match=r"failed to start OpenAI service: .* already in use") as refusal:
            Endpoints(core, any_ports(tool_ports={"openai": port}))
    text = str(refusal.value)
    assert "another port: --openai-port (0: any free one), without it: leave that out" in text and "--allow" not in text


def test_ports_are_shared_by_those_that_all_say_so(core: InferenceServer) -> None:
    sharing = {"http_options": HTTPOptions(reuse_port=True), "grpc_options": GRPCOptions(reuse_port=True)}
    with Endpoints(core, any_ports(metrics=False, **sharing)) as one:
        http_port, grpc_port = (int(place.rpartition(":")[2]) for place in (one.http, one.grpc))
        same = replace(any_ports(metrics=False, **sharing), http_port=http_port, grpc_port=grpc_port)
        with Endpoints(core, same) as other:
            assert other.places == one.places
            assert status(one.http, "/v2/health/live") == 200
            assert live(one.grpc)
        for alone in ({"http_options": HTTPOptions()}, {"grpc_options": GRPCOptions()}):
            with pytest.raises(UnavailableError, match="already in use"):
                Endpoints(core, replace(same, **alone))  # type: ignore[arg-type]


def test_the_same_port_twice_closes_what_was_opened(core: InferenceServer) -> None:
    with listen("127.0.0.1", 0) as other:
        port = other.getsockname()[1]
    with pytest.raises(UnavailableError, match="failed to start Metrics service"):
        Endpoints(core, EndpointOptions(http_port=port, grpc_port=0, metrics_port=port, metrics_address="localhost"))
    assert not taken(f"127.0.0.1:{port}")


def test_a_port_for_two_services_is_refused_before_any_is_open() -> None:
    """Rule 6.15.4."""
    text = "The server cannot listen to HTTP requests and GRPC requests at the same address and port 127.0.0.1:8000"
    with pytest.raises(InvalidArgumentError, match=f"^{text}$"):
        EndpointOptions(grpc_port=8000).check_free()
    any_ports().check_free()
    EndpointOptions(http_port=9, grpc_port=9, http=False, metrics=False, grpc=False).check_free()


def test_metrics_are_where_http_is_unless_set_otherwise() -> None:
    assert EndpointOptions(http_address="0.0.0.0").places()["Metrics"] == ListenAddress("0.0.0.0", 8002)
    options = EndpointOptions(http_address="0.0.0.0", metrics_address="127.0.0.2")
    assert options.places()["Metrics"] == ListenAddress("127.0.0.2", 8002)


def test_an_address_that_is_none_of_ours(core: InferenceServer) -> None:
    with pytest.raises(InvalidArgumentError, match=r"failed to start GRPC service: Invalid argument - .*192\.0\.2\.1"):
        Endpoints(core, any_ports(grpc_address="192.0.2.1"))


def test_http_and_metrics_are_behind_the_same_door(core: InferenceServer) -> None:
    with Endpoints(core, any_ports(access=AccessRules(hosts=("lab.example",)))) as endpoints:
        for service, path in (("HTTP", "/v2"), ("Metrics", "/metrics")):
            place = endpoints.places[service]
            assert status(place, path, Host="lab.example") == 200
            assert status(place, path, Host="evil.example") == 403
            assert status(place, path, Origin="https://evil.example") == 403


def test_the_name_it_listens_under_is_let_in() -> None:
    assert EndpointOptions(http_address="lab.example").guarded() == AccessRules(hosts=("lab.example",))
    options = EndpointOptions(metrics_address="lab.example", access=AccessRules(hosts=("other.example",)))
    assert options.guarded().hosts == ("other.example", "127.0.0.1", "lab.example")


def test_a_connection_that_was_let_in_is_checked_again(core: InferenceServer) -> None:
    """A rebound name may share a connection with nobody, but a page may keep its own open."""
    with (
        Endpoints(core, any_ports(grpc=False, metrics=False)) as endpoints,
        socket.create_connection(tuple(endpoints.http.split(":")), timeout=10) as caller,  # type: ignore[arg-type]
    ):
        for host, code in ((b"localhost", b"200"), (b"evil.example", b"403"), (b"localhost", b"200")):
            caller.sendall(b"GET /v2 HTTP/1.1\r\nHost: " + host + b"\r\n\r\n")
            assert caller.recv(65536).split()[1] == code


def test_a_restriction_holds_for_both(core: InferenceServer) -> None:
    options = any_ports(
        http_options=HTTPOptions(restricted_api={"health": ("key", "value")}),
        grpc_options=GRPCOptions(restricted={"health": ("key", "value")}),
    )
    with Endpoints(core, options) as endpoints:
        assert status(endpoints.http, "/v2/health/live") == 403
        assert status(endpoints.http, "/v2/health/live", key="value") == 200
        with pytest.raises(grpc.RpcError, match="This protocol is restricted, expecting header"):
            live(endpoints.grpc)
        assert live(endpoints.grpc, (("triton-grpc-protocol-key", "value"),))


def test_shared_memory_of_clients_is_off_unless_it_is_allowed(core: InferenceServer) -> None:
    for allowed, code in ((False, 501), (True, 200)):
        with Endpoints(core, any_ports(client_shm=allowed, grpc=False)) as endpoints:
            assert status(endpoints.http, "/v2/systemsharedmemory/status") == code


def test_large_messages_are_refused_as_the_endpoints_say_or_else_the_server() -> None:
    core = InferenceServer([], Options(model_control_mode="explicit", warm=0, max_message_size=2000))
    try:
        for limit, most in ((None, 2000), (1000, 1000)):
            with Endpoints(core, any_ports(max_message_size=limit)) as endpoints:
                for place in (endpoints.http, endpoints.metrics):
                    assert status(place, "/", **{"Content-Length": str(most + 1)}) == 413
                request = service_pb2.ModelInferRequest(model_name="m", id="x" * most)
                with grpc.insecure_channel(endpoints.grpc) as channel, pytest.raises(grpc.RpcError) as raised:
                    service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer(request, timeout=10)
                assert f"vs. {most})" in str(raised.value.details())
    finally:
        core.stop()


def test_what_may_wait_for_a_slow_reader_is_as_the_endpoints_say_or_else_the_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    core = InferenceServer([], Options(model_control_mode="explicit", warm=0, max_unread_size=2000))
    limits: list[int] = []

    def noted(*arguments: Any) -> HTTPServer:
        limits.append(arguments[2].max_unread_size)
        return HTTPServer(*arguments)

    monkeypatch.setattr(endpoints_module, "HTTPServer", noted)
    try:
        for size in (None, 1000):
            Endpoints(core, any_ports(max_unread_size=size)).stop()
    finally:
        core.stop()
    assert limits == [2000, 1000]
