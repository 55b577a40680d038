"""The life of a worker, with a fleet and a runtime made here; `make engines` has Dynamo's own."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.engines.models import DOUBLE, DOUBLE_CONFIG, TOTAL, TOTAL_CONFIG
from tests.serving import write_model
from tritonlab import Server
from tritonlab.dynamo import worker as workers
from tritonlab.dynamo.served_model import ASK
from tritonlab.dynamo.worker import Refused, Worker, WorkerOptions


class Client:
    """The workers that serve an endpoint already: what each answers, None for one that is gone."""

    def __init__(self, digests: list[str | None]) -> None:
        self._digests = digests

    def instance_ids(self) -> list[int]:
        return list(range(len(self._digests)))

    async def direct(self, request: Any, instance: int) -> Any:
        digest = self._digests[instance]
        if digest is None:
            raise RuntimeError("TCP connection to 127.0.0.1:1 failed")
        if not digest:
            raise ValueError("missing 'tensors' key")
        assert request == {ASK: True}

        async def answers() -> Any:
            yield SimpleNamespace(data=lambda: {"parameters": {ASK: {"string": digest}}})

        return answers()


class Runtime:
    """A runtime whose every endpoint is served by workers of `digests` already."""

    def __init__(self, *digests: str | None) -> None:
        self.events: list[str] = []
        self.metrics = SimpleNamespace(register_prometheus_expfmt_callback=lambda call: self.events.append("metrics"))
        self._client = Client(list(digests))
        self._ends = asyncio.Event()

    def endpoint(self, path: str) -> Any:
        self.path = path
        return self

    def connection_id(self) -> int:
        return -1

    async def client(self) -> Client:
        return self._client

    async def serve_endpoint(self, handler: Any, **options: Any) -> None:
        self.handler = handler
        self.events.append("serves")
        await self._ends.wait()

    async def unregister_endpoint_instance(self) -> None:
        self.events.append("leaves")

    def shutdown(self) -> None:
        self.events.append("ends")
        self._ends.set()


class SlowFleet(Runtime):
    """A runtime whose frontend sends some more requests to a worker that has left."""

    async def unregister_endpoint_instance(self) -> None:
        await super().unregister_endpoint_instance()
        self._sending = asyncio.ensure_future(self._send())

    async def _send(self) -> None:
        tensor = {"metadata": {"name": "IN", "shape": [1, 1], "data_type": "Float32"}, "data": {"values": [1]}}
        context = SimpleNamespace(async_killed_or_stopped=lambda: asyncio.ensure_future(asyncio.sleep(3600)))
        for _ in range(6):
            await asyncio.sleep(0.1)
            async for _ in self.handler({"model": "double", "tensors": [tensor]}, context):
                self.events.append("answers")


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("worker")


@pytest.fixture(scope="module")
def server(repository: Path) -> Iterator[Server]:
    write_model(repository, "double", DOUBLE, DOUBLE_CONFIG)
    write_model(repository, "total", TOTAL, TOTAL_CONFIG)
    with Server(repository, model_control_mode="explicit", warm=0) as found:
        yield found


@pytest.fixture(autouse=True)
def fake_dynamo(monkeypatch: pytest.MonkeyPatch) -> None:
    async def register_model(*args: Any, **more: Any) -> None:
        args[2].events.append(f"registers {args[3]}")

    kinds = SimpleNamespace(Tensor=1, TensorBased=2, Aggregated=3)
    modules = {
        "dynamo": {},
        "dynamo.health_check": {"HEALTH_CHECK_KEY": "_HEALTH_CHECK"},
        "dynamo.llm": {"ModelInput": kinds, "ModelType": kinds, "WorkerType": kinds, "register_model": register_model},
    }
    for name, values in modules.items():
        module = ModuleType(name)
        vars(module).update(values)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(workers, "_LEAVING", 0.01)
    monkeypatch.setattr(workers, "_LOOKING", 0.0)


def serve(server: Server, model: str, *digests: str | None, fleet: type[Runtime] = Runtime) -> tuple[int, list[str]]:
    """Serve one model until SIGTERM comes, and return the status and what happened."""
    server.load(model)

    async def run() -> tuple[int, list[str]]:
        runtime = fleet(*digests)
        worker = Worker(runtime, server, WorkerOptions(Path("unused")))
        serving = asyncio.ensure_future(worker.serve())
        while "serves" not in runtime.events and not serving.done():
            await asyncio.sleep(0.01)
        if not serving.done():
            os.kill(os.getpid(), signal.SIGTERM)
        return await serving, runtime.events

    try:
        return asyncio.run(run())
    finally:
        server.unload(model)


def test_it_joins_and_on_a_signal_leaves_before_it_ends(server: Server) -> None:
    assert serve(server, "double") == (0, ["metrics", "registers double", "serves", "leaves", "ends"])


def test_it_ends_when_requests_have_stopped_coming(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_LEAVING", 0.3)
    assert serve(server, "double", fleet=SlowFleet)[1][3:] == ["leaves", *["answers"] * 6, "ends"]


def test_a_repository_without_models_is_refused(server: Server) -> None:
    worker = Worker(Runtime(), server, WorkerOptions(Path("here")))
    with pytest.raises(Refused, match="no model is loaded of 'here': a worker serves what is there when it starts"):
        asyncio.run(worker.serve())


def test_a_fleet_with_another_config_is_not_joined(server: Server) -> None:
    with pytest.raises(Refused, match="the fleet serves the model 'double' with another config"):
        serve(server, "double", "other")


def test_workers_that_are_gone_or_do_not_say_are_no_reason(server: Server) -> None:
    assert serve(server, "double", None, "")[0] == 0


def test_a_second_worker_for_sequences_is_refused(server: Server) -> None:
    assert serve(server, "total", None)[0] == 0
    for digest in ("other", ""):
        with pytest.raises(Refused, match="'total' keeps sequences and another worker serves it already"):
            serve(server, "total", digest)


def test_a_worker_that_stood_still_ends_to_be_started_again(
    server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(workers, "_BEAT", 0.01)
    clock = iter([0.0, 100.0])
    real = workers.time.monotonic

    async def run() -> int:
        worker = Worker(Runtime(), server, WorkerOptions(Path("unused")))
        monkeypatch.setattr(workers, "time", SimpleNamespace(monotonic=lambda: next(clock, real())))
        return await asyncio.wait_for(worker._watch(), 10) or worker._status

    assert asyncio.run(run()) == os.EX_TEMPFAIL
    assert "stood still for 100 seconds" in capsys.readouterr().out


def test_workers_that_started_together_are_seen_later(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_BEAT", 0.01)
    monkeypatch.setattr(workers, "_AGAIN", 0.05)
    server.load("double")

    async def run() -> list[str]:
        runtime = Runtime()
        worker = Worker(runtime, server, WorkerOptions(Path("unused")))
        serving = asyncio.ensure_future(worker.serve())
        while "serves" not in runtime.events:
            await asyncio.sleep(0.01)
        runtime._client._digests.append("other")
        with pytest.raises(Refused, match="with another config"):
            await asyncio.wait_for(serving, 20)
        return runtime.events[-2:]

    assert asyncio.run(run()) == ["leaves", "ends"]
