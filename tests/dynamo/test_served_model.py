"""A model as a worker of Dynamo serves it, with a request's context of Dynamo made here."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.engines.models import TOTAL, TOTAL_CONFIG, write_plain
from tests.serving import config, eventually, write_model
from tritonlab import Server
from tritonlab.core.status import InvalidArgumentError
from tritonlab.dynamo.served_model import ASK, ServedModel, WorkerError


class Context:
    """A client that goes after `seconds`, or never."""

    def __init__(self, seconds: float = 3600.0) -> None:
        self._seconds = seconds

    def async_killed_or_stopped(self) -> Any:
        return asyncio.ensure_future(asyncio.sleep(self._seconds))


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    repository = tmp_path_factory.mktemp("dynamo") / "models"
    repository.mkdir()
    write_model(repository, "total", TOTAL, TOTAL_CONFIG)
    for version in (1, 2):
        policy = "version_policy { all { } }"
        write_model(repository, "versions", TOTAL, config("IN FP32 1", "OUT FP32 1", policy), version=version)
    return write_plain(repository)


@pytest.fixture(scope="module")
def server(log: Path) -> Iterator[Server]:
    with Server(log.with_name("models"), warm=0) as found:
        yield found


def infer(server: Server, name: str, values: list[float] | None = None, context: Any = None, **more: Any) -> list[Any]:
    model = ServedModel(server.model(name), "_probe")
    shape = [1, len(values)] if values and name == "double" else [len(values or ())]
    tensor = {"metadata": {"name": "IN", "shape": shape, "data_type": "Float32"}, "data": {"values": values}}
    document = {"model": name, **({} if values is None else {"tensors": [tensor]}), **more}

    async def responses() -> list[Any]:
        found = [each async for each in model.generate(document, context or Context())]
        assert model.busy == 0
        return found

    return asyncio.run(responses())


def test_what_a_worker_of_nvidia_drops_is_carried(server: Server) -> None:
    parameters = {"p": {"string": "q"}, "timeout": {"int64": 5_000_000}}
    (answer,) = infer(server, "sleeper", [1, 2], id="a", parameters=parameters, outputs=[{"name": "SEEN"}])
    assert (answer["id"], answer["parameters"]) == ("a", {"rp": {"string": "7"}, "n": {"int64": 3}})
    (tensor,) = answer["tensors"]
    seen = json.loads(bytes(tensor["data"]["values"][0]))
    assert {name: seen[name] for name in ("id", "parameters", "timeout", "outputs")} == {
        "id": "a", "parameters": {"p": "q"}, "timeout": 5_000_000, "outputs": ["SEEN"],
    }  # fmt: skip


def test_a_stream_has_no_empty_last_response(server: Server) -> None:
    assert [each["tensors"][0]["data"]["values"] for each in infer(server, "stream", [3])] == [[0], [1], [2]]


def test_a_client_that_goes_cancels_its_request(server: Server, log: Path) -> None:
    log.write_text("")
    infer(server, "stream", [100], Context(0.2))
    eventually(lambda: log.read_text() != "")
    assert int(log.read_text().split()[0]) < 50


def test_an_error_has_its_code_in_its_text(server: Server) -> None:
    with pytest.raises(WorkerError, match="Internal: negative"):
        infer(server, "double", [-1])
    with pytest.raises(WorkerError, match=r"Invalid argument: .*takes tensors"):
        infer(server, "double")


def test_classes_are_made_of_outputs(server: Server) -> None:
    outputs = [{"name": "OUT", "parameters": {"classification": {"int64": 1}}}]
    (answer,) = infer(server, "double", [1, 3], outputs=outputs)
    assert [bytes(each) for each in answer["tensors"][0]["data"]["values"]] == [b"6.000000:1"]


def test_probes_and_other_workers_do_not_reach_the_model(server: Server) -> None:
    assert infer(server, "double", _probe=True) == [{"id": "", "model": "double", "tensors": []}]
    (answer,) = infer(server, "double", **{ASK: True})
    assert answer["parameters"][ASK]["string"] == ServedModel(server.model("double"), "").digest


def test_a_sequence_is_carried(server: Server) -> None:
    parameters = {"sequence_id": {"uint64": 5}, "sequence_start": {"bool": True}}
    (first,) = infer(server, "total", [2], parameters=parameters)
    (last,) = infer(server, "total", [3], parameters={"sequence_id": {"uint64": 5}, "sequence_end": {"bool": True}})
    assert [each["tensors"][0]["data"]["values"] for each in (first, last)] == [[2], [5]]
    assert ServedModel(server.model("total"), "").keeps_sequences


def test_a_model_with_several_versions_is_refused(server: Server) -> None:
    with pytest.raises(InvalidArgumentError, match="serves the versions 1, 2, and Dynamo tells a worker none"):
        ServedModel(server.model("versions"), "")
