from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from tritonlab.core.data_type import DataType
from tritonlab.core.infer_request import InferenceRequest
from tritonlab.core.infer_response import InferenceResponse
from tritonlab.core.model_config import parse_pbtxt
from tritonlab.core.request_rules import RequestRules
from tritonlab.core.status import InternalError, InvalidArgumentError, TritonError, UnsupportedError
from tritonlab.core.tensor import Tensor
from tritonlab.frontends.shared.exchange import Exchange, OneResponse, OutputPlan
from tritonlab.frontends.shared.shared_memory_manager import SharedMemoryManager
from tritonlab.server.inference_server import InferenceServer
from tritonlab.server.models.model_lifecycle import ModelVersion


class Memory(SharedMemoryManager):
    """Keeps what is written."""

    def __init__(self) -> None:
        super().__init__(allowed=True)
        self.written: list[tuple[str, int, bytes]] = []

    def write(self, name: str, offset: int, data: Any) -> None:
        self.written.append((name, offset, data.tobytes()))


class Core:
    """Knows one version, and refuses what it is told to."""

    def __init__(self, version: ModelVersion) -> None:
        self.version = version
        self.refuses: BaseException | None = None
        self.asked: list[tuple[InferenceRequest, ModelVersion | None]] = []
        self.looked_up = 0

    def find(self, name: str, number: int) -> ModelVersion:
        self.looked_up += 1
        return self.version

    def infer(self, request: InferenceRequest, version: ModelVersion | None = None) -> None:
        self.asked.append((request, version))
        if self.refuses is not None:
            raise self.refuses


def version_of(text: str = "", **labels: tuple[str, ...]) -> ModelVersion:
    rules = RequestRules(parse_pbtxt(text, "config.pbtxt"), model_name="m")
    return cast(ModelVersion, SimpleNamespace(rules=rules, labels=labels))


@pytest.fixture
def memory() -> Memory:
    return Memory()


def exchange_of(version: ModelVersion, memory: SharedMemoryManager | None = None) -> tuple[Exchange, Core]:
    core = Core(version)
    return Exchange(cast(InferenceServer, core), memory or SharedMemoryManager()), core


FLOATS = Tensor(DataType.FP32, (2, 2), np.array([1, 4, 3, 2], np.float32))


def test_a_version_is_looked_up_once() -> None:
    version = version_of()
    exchange, core = exchange_of(version)
    request = InferenceRequest("m", {})
    assert exchange.submit_single(exchange.find("m", -1), request)
    exchange.submit(exchange.find("m", -1), stream := InferenceRequest("m", {}))
    assert core.looked_up == 2 and core.asked == [(request, version), (stream, version)]


def test_who_gets_one_response_is_not_let_to_a_decoupled_model() -> None:
    decoupled, _ = exchange_of(version_of("model_transaction_policy { decoupled: true }"))
    assert decoupled.find("m", -1).rules.decoupled
    with pytest.raises(UnsupportedError, match=r"^ModelInfer RPC doesn't support models with decoupled transaction"):
        decoupled.find("m", -1, single="ModelInfer RPC")
    coupled, _ = exchange_of(version_of())
    assert not coupled.find("m", -1, single="ModelInfer RPC").rules.decoupled


def test_only_a_request_that_is_alone_is_worth_waiting_for() -> None:
    exchange, _ = exchange_of(version_of())
    first, second = InferenceRequest("m", {}), InferenceRequest("m", {})
    assert exchange.submit_single(version_of(), first)
    assert not exchange.submit_single(version_of(), second)


@pytest.mark.parametrize("error", [InvalidArgumentError("no"), ValueError("a defect"), KeyboardInterrupt()])
def test_what_is_refused_is_over(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    exchange, core = exchange_of(version_of())
    core.refuses = error
    request = InferenceRequest("m", {})
    with pytest.raises(type(error)):
        exchange.submit_single(version_of(), request)
    assert exchange._lone._under_way == set()


# -- outputs


def test_an_output_without_a_wish_is_as_it_is(memory: Memory) -> None:
    exchange, _ = exchange_of(version_of(), memory)
    assert exchange.place("A", FLOATS, OutputPlan(binary=True), version_of()) is FLOATS
    assert memory.written == []


def test_an_output_in_shared_memory(memory: Memory) -> None:
    exchange, _ = exchange_of(version_of(), memory)
    assert exchange.place("A", FLOATS, OutputPlan("r", 8, 16), version_of()) is None
    assert memory.written == [("r", 8, FLOATS.data.tobytes())]
    text = r"for output 'A' \(15 bytes\) should be at least 16 bytes to hold the results"
    with pytest.raises(InternalError, match=text):
        exchange.place("A", FLOATS, OutputPlan("r", 8, 15), version_of())


@pytest.mark.parametrize(
    ("config", "shape", "texts"),
    [("max_batch_size: 4", (2, 1), [b"4.000000:1:b", b"3.000000:0:a"]), ("", (1,), [b"4.000000:1:b"])],
)
def test_an_output_as_its_classes(config: str, shape: tuple[int, ...], texts: list[bytes]) -> None:
    version = version_of(config, A=("a", "b"))
    exchange, _ = exchange_of(version)
    placed = exchange.place("A", FLOATS, OutputPlan(classes=1), version)
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
