from __future__ import annotations

import urllib.request
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http

from tests.conformance.rules import rule
from tests.models import ADD_SUB, ADD_SUB_CONFIG
from tests.serving import Lab, lab
from tritonlab.core.config.model_config import parse_pbtxt
from tritonlab.core.inference.data_type import DataType
from tritonlab.core.inference.infer_request import InferenceRequest
from tritonlab.core.inference.infer_response import InferenceResponse
from tritonlab.core.inference.request_rules import RequestRules
from tritonlab.core.inference.tensor import Tensor
from tritonlab.core.status import InternalError, InvalidArgumentError, TritonError, UnsupportedError
from tritonlab.frontends.endpoints import EndpointOptions, Endpoints
from tritonlab.frontends.shared.infer_exchange import InferExchange, OneResponse, OutputPlan
from tritonlab.frontends.shared.shared_memory_manager import SharedMemoryManager
from tritonlab.server.inference_server import InferenceServer
from tritonlab.server.models.model_lifecycle import ModelVersion

__all__ = ["lab"]


class Memory(SharedMemoryManager):
    """A manager that records what is written."""

    def __init__(self) -> None:
        super().__init__(allowed=True)
        self.written: list[tuple[str, int, bytes]] = []

    def write(self, name: str, offset: int, data: Any) -> Any:
        self.written.append((name, offset, data.tobytes()))
        return None


class Core:
    """A core with one version, which fails with `refuses`."""

    def __init__(self, version: ModelVersion) -> None:
        self.version = version
        self.refuses: BaseException | None = None
        self.submitted: list[tuple[InferenceRequest, ModelVersion | None]] = []
        self.waited_for: list[InferenceRequest] = []
        self.looked_up = 0

    def find(self, name: str, number: int) -> ModelVersion:
        self.looked_up += 1
        return self.version

    def infer(self, request: InferenceRequest, version: ModelVersion | None = None) -> None:
        self.submitted.append((request, version))
        if self.refuses is not None:
            raise self.refuses

    def infer_here(self, request: InferenceRequest, version: ModelVersion | None = None) -> None:
        self.waited_for.append(request)
        self.infer(request, version)


def version_of(text: str = "", **labels: tuple[str, ...]) -> ModelVersion:
    rules = RequestRules(parse_pbtxt(text, "config.pbtxt"), model_name="m")
    return cast(ModelVersion, SimpleNamespace(rules=rules, labels=labels))


@pytest.fixture
def memory() -> Memory:
    return Memory()


def exchange_of(version: ModelVersion, memory: SharedMemoryManager | None = None) -> tuple[InferExchange, Core]:
    core = Core(version)
    return InferExchange(cast(InferenceServer, core), memory or SharedMemoryManager()), core


FLOATS = Tensor(DataType.FP32, (2, 2), np.array([1, 4, 3, 2], np.float32))
REQUEST = InferenceRequest("m", {})


def test_a_version_is_looked_up_once() -> None:
    version = version_of()
    exchange, core = exchange_of(version)
    request = InferenceRequest("m", {})
    exchange.submit_single(exchange.find("m", -1), request)
    exchange.submit(exchange.find("m", -1), stream := InferenceRequest("m", {}))
    assert core.looked_up == 2 and core.submitted == [(request, version), (stream, version)]


def test_who_gets_one_response_is_not_let_to_a_decoupled_model() -> None:
    decoupled, _ = exchange_of(version_of("model_transaction_policy { decoupled: true }"))
    assert decoupled.find("m", -1).rules.decoupled
    with pytest.raises(UnsupportedError, match=r"^ModelInfer RPC doesn't support models with decoupled transaction"):
        decoupled.find("m", -1, single="ModelInfer RPC")
    coupled, _ = exchange_of(version_of())
    assert not coupled.find("m", -1, single="ModelInfer RPC").rules.decoupled


def test_only_a_request_that_is_alone_is_worth_waiting_for() -> None:
    exchange, core = exchange_of(version_of())
    first, second = InferenceRequest("m", {}), InferenceRequest("m", {})
    exchange.submit_single(version_of(), first)
    exchange.submit_single(version_of(), second)
    assert core.waited_for == [first]


def test_who_has_no_time_does_not_wait() -> None:
    exchange, core = exchange_of(version_of())
    exchange.submit_single(version_of(), InferenceRequest("m", {}), waits=False)
    assert len(core.submitted) == 1 and not core.waited_for


@pytest.mark.parametrize("error", [InvalidArgumentError("no"), ValueError("a defect"), KeyboardInterrupt()])
def test_what_is_refused_is_over(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    exchange, core = exchange_of(version_of())
    core.refuses = error
    request = InferenceRequest("m", {})
    with pytest.raises(type(error)):
        exchange.submit_single(version_of(), request)
    assert exchange._sole._under_way == set()


class Lookups(NamedTuple):
    lab: Lab
    endpoints: Endpoints
    found: list[str]  # the model of each look-up


@pytest.fixture
def lookups(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lookups]:
    lab.load("add_sub", ADD_SUB, ADD_SUB_CONFIG)
    core = lab.server.core
    found: list[str] = []
    find = core.find

    def count(name: str, version: int = -1) -> ModelVersion:
        found.append(name)
        return find(name, version)

    monkeypatch.setattr(core, "find", count)
    with Endpoints(core, EndpointOptions(http_port=0, grpc_port=0, metrics=False)) as endpoints:
        yield Lookups(lab, endpoints, found)


ONES = np.ones(1, np.float32)


def in_kernel(lookups: Lookups) -> None:
    lookups.lab.server.model("add_sub")(INPUT0=ONES, INPUT1=ONES)


def in_kernel_iterated(lookups: Lookups) -> None:
    list(lookups.lab.server.model("add_sub").infer(inputs={"INPUT0": ONES, "INPUT1": ONES}))


def over_http(lookups: Lookups) -> None:
    with tritonclient.http.InferenceServerClient(lookups.endpoints.http) as client:
        client.infer("add_sub", client_inputs(tritonclient.http))


def over_grpc(lookups: Lookups) -> None:
    with tritonclient.grpc.InferenceServerClient(lookups.endpoints.grpc) as client:
        client.infer("add_sub", client_inputs(tritonclient.grpc))


def over_a_stream(lookups: Lookups) -> None:
    answers: SimpleQueue[Any] = SimpleQueue()
    with tritonclient.grpc.InferenceServerClient(lookups.endpoints.grpc) as client:
        client.start_stream(lambda result, error: answers.put(error))
        client.async_stream_infer("add_sub", client_inputs(tritonclient.grpc))
        assert answers.get(timeout=60) is None


def generated(lookups: Lookups) -> None:
    body = b'{"INPUT0": [1], "INPUT1": [1]}'
    url = f"http://{lookups.endpoints.http}/v2/models/add_sub/generate"
    with urllib.request.urlopen(url, body, timeout=10) as reply:
        assert reply.status == 200


def client_inputs(protocol: Any) -> list[Any]:
    found = [protocol.InferInput(name, [1], "FP32") for name in ("INPUT0", "INPUT1")]
    for each in found:
        each.set_data_from_numpy(ONES)
    return found


@pytest.mark.parametrize("infer", [in_kernel, in_kernel_iterated, over_http, over_grpc, over_a_stream, generated])
def test_each_way_looks_the_version_up_once(lookups: Lookups, infer: Callable[[Lookups], None]) -> None:
    infer(lookups)
    assert lookups.found == ["add_sub"]


@rule("5.11.2")
def test_a_version_that_is_replaced_meanwhile_is_looked_up_again(lab: Lab) -> None:
    """A large body takes long to read; nobody may see a gap."""
    lab.load("swapped", ADD_SUB, ADD_SUB_CONFIG)
    exchange = InferExchange(lab.server.core, SharedMemoryManager())
    version = exchange.find("swapped", -1)
    lab.load("swapped", ADD_SUB.replace("a + b", "a * 10"), ADD_SUB_CONFIG)
    answers: SimpleQueue[InferenceResponse] = SimpleQueue()
    tensors = {name: Tensor(DataType.FP32, (1,), np.full(1, 7, np.float32)) for name in ("INPUT0", "INPUT1")}
    request = InferenceRequest("swapped", tensors, on_response=lambda request, response: answers.put(response))
    exchange.submit(version, request)
    assert answers.get(timeout=60).outputs["OUTPUT0"].numpy().tolist() == [70]


# -- outputs


def test_an_output_without_a_wish_is_as_it_is(memory: Memory) -> None:
    exchange, _ = exchange_of(version_of(), memory)
    assert exchange.place("A", FLOATS, OutputPlan(binary=True), version_of(), REQUEST) is FLOATS
    assert memory.written == []


def test_an_output_in_shared_memory(memory: Memory) -> None:
    exchange, _ = exchange_of(version_of(), memory)
    assert exchange.place("A", FLOATS, OutputPlan("r", 8, 16), version_of(), REQUEST) is None
    assert memory.written == [("r", 8, FLOATS.data.tobytes())]
    text = r"for output 'A' \(15 bytes\) should be at least 16 bytes to hold the results"
    with pytest.raises(InternalError, match=text):
        exchange.place("A", FLOATS, OutputPlan("r", 8, 15), version_of(), REQUEST)


@pytest.mark.parametrize(
    ("config", "shape", "texts"),
    [("max_batch_size: 4", (2, 1), [b"4.000000:1:b", b"3.000000:0:a"]), ("", (1,), [b"4.000000:1:b"])],
)
def test_an_output_as_its_classes(config: str, shape: tuple[int, ...], texts: list[bytes]) -> None:
    version = version_of(config, A=("a", "b"))
    exchange, _ = exchange_of(version)
    placed = exchange.place("A", FLOATS, OutputPlan(classes=1), version, REQUEST)
    assert placed is not None
    assert (placed.datatype, placed.shape, placed.numpy().reshape(-1).tolist()) == (DataType.BYTES, shape, texts)


# -- one response


def collected(*responses: InferenceResponse) -> InferenceResponse:
    one = OneResponse()
    for response in responses:
        one.add(response)
    return one.take()


def answer(final: bool = True) -> InferenceResponse:
    return InferenceResponse("m", 1, outputs={"A": FLOATS}, final=final)


EMPTY = InferenceResponse("m", 1, empty=True)


def test_one_response_however_it_ends() -> None:
    alone, earlier = answer(), answer(final=False)
    assert collected(alone) is alone
    assert collected(earlier, EMPTY) is earlier


@pytest.mark.parametrize(
    ("responses", "count"),
    [([EMPTY], 0), ([answer(False), answer()], 2), ([answer(False), answer(False), EMPTY], 2), ([answer()] * 5, 5)],
)
def test_none_or_several_are_an_error(responses: list[InferenceResponse], count: int) -> None:
    error = collected(*responses).error
    assert isinstance(error, TritonError) and error.message == f"expected a single response, got {count}"
    if not count:
        assert str(OneResponse().take("nothing").error) == "nothing"


def test_an_error_is_a_response() -> None:
    failed = InferenceResponse(error=InternalError("bad"))
    assert collected(failed) is failed
