from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.engines.models import TOTAL, TOTAL_CONFIG, write_plain
from tests.frontends.http.asgi_host import Answer, AsgiHost
from tests.ray_modules import fake_ray
from tests.serving import eventually, write_model
from tritonlab.core.status import InvalidArgumentError


@pytest.fixture(scope="module")
def replica(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    repository = tmp_path_factory.mktemp("replica") / "models"
    repository.mkdir()
    write_plain(repository)
    with pytest.MonkeyPatch.context() as patch:
        fake_ray(patch)
        from tritonlab.ray.replica import Replica

    found = Replica(str(repository))
    yield found
    found.stop()


def request(replica: Any, path: str, document: Any = None) -> Answer:
    body = b"" if document is None else json.dumps(document).encode()
    host = AsgiHost(replica.__serve_build_asgi_app__())
    return asyncio.run(host.request("GET" if document is None else "POST", path, body))


DATA = {"name": "IN", "datatype": "FP32", "shape": [1, 2], "data": [1, 2]}
REGION = {"shared_memory_region": "r", "shared_memory_byte_size": 8}


def test_it_answers_the_protocol(replica: Any) -> None:
    assert request(replica, "/v2/health/ready").status == 200
    answer = request(replica, "/v2/models/double/infer", {"id": "a", "inputs": [DATA]}).json()
    assert answer["outputs"][0]["data"] == [2, 4]
    assert request(replica, "/v2/models/stream/generate_stream", {"IN": [2]}).body.count(b"data: ") == 2
    assert request(replica, "/v2/models/none/infer", {"inputs": []}).status == 404


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/v2/systemsharedmemory/region/r/register", "shared memory cannot be used with Ray Serve"),
        ("/v2/cudasharedmemory/status", "shared memory cannot be used with Ray Serve"),
        ("/v2/repository/models/double/unload", "would change one replica"),
        ("/v2/logging", "would change one replica"),
    ],
)
def test_what_would_reach_one_replica_is_refused(replica: Any, path: str, text: str) -> None:
    answer = request(replica, path, {})
    assert answer.status == 501 and text in answer.json()["error"]


def test_a_request_that_names_shared_memory_is_refused(replica: Any) -> None:
    inputs = [{**{key: DATA[key] for key in ("name", "datatype", "shape")}, "parameters": REGION}]
    answer = request(replica, "/v2/models/double/infer", {"inputs": inputs})
    assert "shared memory cannot be used with Ray Serve" in answer.json()["error"]


def test_it_is_healthy_until_a_process_is_dead_and_none_comes_up(replica: Any) -> None:
    replica.check_health()
    (version,) = (m for m in replica._server.core.models.known() if m.name == "double")
    instance = version.versions[1].instances[0]
    os.kill(instance.pid, signal.SIGKILL)
    eventually(lambda: instance.pid is not None and not version.versions[1].failed())
    replica.check_health()


def test_a_model_whose_process_is_dead_is_not_healthy(replica: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (model,) = (m for m in replica._server.core.models.known() if m.name == "double")
    monkeypatch.setattr(type(model.versions[1]), "failed", lambda version: version.name == "double")
    with pytest.raises(RuntimeError, match="no process runs for double version 1"):
        replica.check_health()


def test_a_repository_with_a_model_that_keeps_sequences_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_model(tmp_path, "total", TOTAL, TOTAL_CONFIG)
    fake_ray(monkeypatch)
    from tritonlab.ray.replica import Replica

    with pytest.raises(InvalidArgumentError, match="'total' keeps sequences"):
        Replica(str(tmp_path))
