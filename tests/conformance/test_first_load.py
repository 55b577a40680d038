"""A model that loads for the first time, or that nothing can be loaded of, as clients see it meanwhile (rules 5.11.6,
5.11.7, 5.11.9, 5.13.1)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from .clients import Client, Failure
from .grpc_messages import Rpc
from .lab_client import LabClient
from .models import model
from .raw_http import RawHTTP
from .rules import rule
from .scripts import eventually
from .test_load import ANSWERING, ANSWERING_CONFIG
from .test_model_control import READY, answers, ensemble, settled, states, write

#: A server of its own: what other modules' models have left there makes theirs unready.
OPTIONS: tuple[list[str], dict[str, Any]] = ([], {})
MODELS: dict[str, Any] = {}


def held(then: str = "self.answer = 'loaded'") -> str:
    """Return a model whose `initialize` begins with waiting until the test lets this version go."""
    lines = [
        "import pathlib, time",
        "here = args['model_repository'] + '/{}.' + args['model_version']",
        "pathlib.Path(here.format('begun')).touch()",
        "while not os.path.exists(here.format('go')): time.sleep(0.005)",
        then,
    ]
    return ANSWERING.format("\n        ".join(lines))


class FirstLoad:
    """The first load of a model of several versions, each of which waits."""

    def __init__(self, client: Client, name: str) -> None:
        self.client = client
        self.name = name
        self._threads = ThreadPoolExecutor(4)

    def load(self, name: str = "") -> Future[Failure | None]:
        return self._threads.submit(self.client.load, name or self.name)

    def unload(self) -> Future[Failure | None]:
        return self._threads.submit(self.client.unload, self.name)

    def await_begun(self, version: int = 1) -> None:
        eventually((self.client.repository / self.name / f"begun.{version}").exists)

    def go(self, *versions: int) -> None:
        for version in versions or (1,):
            (self.client.repository / self.name / f"go.{version}").touch()

    def states(self) -> list[tuple[str, ...]]:
        return states(self.client, self.name)[self.name]

    def close(self) -> None:
        self.go(1, 2, 3)
        self._threads.shutdown()


@pytest.fixture
def first(side: Client, request: pytest.FixtureRequest) -> Iterator[Callable[[Mapping[str, str]], FirstLoad]]:
    """Place a model, whose name is the test's, and let its load go on at the end."""
    made: list[FirstLoad] = []

    def first(files: Mapping[str, str]) -> FirstLoad:
        name = request.node.originalname.removeprefix("test_")[:40]
        side.place(name, files)
        made.append(FirstLoad(side, name))
        return made[-1]

    yield first
    for each in made:
        each.close()


def about(name: str) -> dict[str, tuple[str, str]]:
    """Return what is said of the model and its versions 1 and 7 during its first load."""
    text = f"Request for unknown model: '{name}'"
    return {
        "": ("NOT_FOUND", f"{text} has no available versions"),
        "1": ("UNAVAILABLE", f"{text} version 1 is not at ready state"),
        "7": ("NOT_FOUND", f"{text} version 7 is not found"),
    }


def counted(side: Client, name: str) -> dict[str, float]:
    """Return the metrics of a model: the value of each sample."""
    lines = [line.rpartition(" ") for line in side.metrics().splitlines() if f'model="{name}",' in line]
    newer = "nv_model_load_duration_secs"  # than 2.51
    return {sample: float(value) for sample, _, value in lines if not sample.startswith(newer)}


LOADING = [("1", "LOADING")]


@rule("5.11.6", "5.11.7", "5.11.9", "5.13.1")
def test_a_model_is_known_from_the_beginning_of_its_first_load(side: Client, first: Callable[..., FirstLoad]) -> None:
    found = first(model(held(), ANSWERING_CONFIG))
    name = found.name
    assert side.ready()
    assert states(side, name) == {name: [()]}
    loading = found.load()
    found.await_begun()
    assert not side.ready()
    assert found.states() == LOADING
    assert name not in str(side.index(ready=True))
    for version, (code, text) in about(name).items():
        number = int(version or -1)
        assert answers(side, name, number) == (code, text)
        assert not side.ready(name, number)
        for document in (side.metadata(name, number), side.config(name, number)):
            assert isinstance(document, Failure) and document.text == text
        statistics = side.statistics(name, number)
        assert isinstance(statistics, Failure) and statistics.text == f"requested model '{name}' is not available"
    counts = counted(side, name)
    assert {sample.partition("{")[0] for sample in counts} == {
        *("nv_inference_request_success", "nv_inference_request_failure", "nv_inference_count"),
        *("nv_inference_exec_count", "nv_inference_request_duration_us", "nv_inference_queue_duration_us"),
        *("nv_inference_compute_input_duration_us", "nv_inference_compute_infer_duration_us"),
        *("nv_inference_compute_output_duration_us", "nv_inference_pending_request_count"),
    }
    assert set(counts.values()) == {0}
    found.go()
    assert loading.result() is None
    assert side.ready()
    assert found.states() == READY
    assert answers(side, name) == "loaded"


def check_loading(rpc: Rpc, name: str) -> None:
    """Check what a server says over gRPC of a model during its first load."""
    assert not rpc("ServerReady").ready
    for version, answer in about(name).items():
        assert not rpc("ModelReady", name=name, version=version).ready
        assert rpc("ModelMetadata", name=name, version=version) == answer
        assert rpc("ModelConfig", name=name, version=version) == answer
        assert rpc("ModelInfer", model_name=name, model_version=version) == answer
    index = [{field.name: value for field, value in entry.ListFields()} for entry in rpc("RepositoryIndex").models]
    assert {"name": name, "version": "1", "state": "LOADING"} in index


@rule("5.11.6", "5.11.9", "6.1")
def test_both_protocols_know_a_model_that_loads(
    side: Client, http: RawHTTP, rpc: Rpc, first: Callable[..., FirstLoad]
) -> None:
    found = first(model(held(), ANSWERING_CONFIG))
    name = found.name
    loading = found.load()
    found.await_begun()
    assert http.get("/v2/health/ready").status == 400
    statuses = {"NOT_FOUND": 404, "UNAVAILABLE": 503}
    for version, (code, text) in about(name).items():
        path = f"/v2/models/{name}" + f"/versions/{version}" * bool(version)
        assert http.get(f"{path}/ready").error == "Model version not ready"
        for reply in (http.get(path), http.get(f"{path}/config"), http.post(f"{path}/infer", {"inputs": []})):
            assert (reply.status, reply.error) == (statuses[code], text)
    assert {"name": name, "version": "1", "state": "LOADING"} in http.post("/v2/repository/index").document
    check_loading(rpc, name)
    found.go()
    assert loading.result() is None


@rule("5.11.7", "5.11.9")
def test_calls_for_a_model_that_loads_wait(side: Client, first: Callable[..., FirstLoad]) -> None:
    found = first(model(held(), ANSWERING_CONFIG))
    loading = found.load()
    found.await_begun()
    calls = [found.load(), found.unload()]
    assert not side.ready()
    assert not any(call.done() for call in calls)
    assert found.states() == LOADING
    found.go()
    assert [call.result() for call in (loading, *calls)] == [None] * 3
    side.unload(found.name)


@rule("5.11.7", "5.11.9", "2.5.1")
def test_versions_load_until_the_last_has(side: Client, first: Callable[..., FirstLoad]) -> None:
    files = {f"{number}/model.py": held() for number in (1, 3)}
    files["2/model.py"] = held("raise ValueError('no')")
    found = first({"config.pbtxt": ANSWERING_CONFIG + "version_policy { all { } }", **files})
    loading = found.load()
    found.await_begun()
    assert found.states() == [("1", "LOADING"), ("2", "LOADING"), ("3", "LOADING")]
    found.go(1, 2)
    eventually(lambda: found.states()[1][1] == "UNAVAILABLE")
    assert found.states() == [("1", "LOADING"), ("2", "UNAVAILABLE", "Internal: ValueError: no"), ("3", "LOADING")]
    assert answers(side, found.name, 1)[0] == "UNAVAILABLE"
    found.go(3)
    failure = loading.result()
    assert failure is not None and "version 2 is at UNAVAILABLE state" in failure.text
    unloaded = ("UNAVAILABLE", "unloaded")
    assert settled(side, found.name)[found.name] == [("1", *unloaded), found.states()[1], ("3", *unloaded)]
    assert not side.ready()
    for number in (1, 2, 3):
        (side.repository / found.name / f"go.{number}").unlink()
    write(side, found.name, "2/model.py", held())
    again = found.load()
    eventually(lambda: "LOADING" in str(found.states()))
    assert found.states() == [("1", "LOADING"), ("2", "LOADING"), ("3", "LOADING")]
    found.go(1, 2, 3)
    assert again.result() is None
    assert side.ready()


@rule("5.11.7", "5.11.9", "5.13.1")
def test_a_version_that_loads_while_the_one_before_ends_is_loading(
    side: Client, first: Callable[..., FirstLoad]
) -> None:
    ends = "\n    def finalize(self):\n        while not os.path.exists(self.end): time.sleep(0.005)\n"
    source = held("self.end, self.answer = here.format('end'), 'loaded'") + ends
    found = first(model(source.replace("import json\n", "import json\nimport time\n"), ANSWERING_CONFIG))
    directory = side.repository / found.name
    loading = found.load()
    found.go()
    assert loading.result() is None
    assert answers(side, found.name) == "loaded"
    serving = counted(side, found.name)
    assert 1 in serving.values()
    assert found.unload().result() is None
    assert found.states() == [("1", "UNLOADING")]
    assert counted(side, found.name).keys() == serving.keys()
    assert 1 in counted(side, found.name).values()
    for name in ("begun.1", "go.1"):
        (directory / name).unlink()
    again = found.load()
    found.await_begun()
    assert found.states() == LOADING
    assert counted(side, found.name).keys() == serving.keys()
    (directory / "end.1").touch()
    eventually(lambda: not draining(side))
    assert found.states() == LOADING
    found.go()
    assert again.result() is None
    assert found.states() == READY


def draining(side: Client) -> Any:
    """Return whether versions end, as far as this side tells."""
    return isinstance(side, LabClient) and side.server.draining()


@rule("5.11.7", "5.7.4")
def test_an_ensemble_is_unknown_while_its_model_loads(side: Client, first: Callable[..., FirstLoad]) -> None:
    found = first(model(held(), ANSWERING_CONFIG))
    side.place("around", ensemble(found.name))
    loading = found.load("around")
    found.await_begun()
    assert states(side, found.name, "around") == {found.name: LOADING, "around": [()]}
    assert answers(side, "around") == ("NOT_FOUND", "Request for unknown model: 'around' is not found")
    found.go()
    assert loading.result() is None
    assert states(side, found.name, "around") == {found.name: READY, "around": READY}
    side.unload("around")


@rule("5.11.7", "5.11.9", "5.11.6", "2.5.8")
def test_a_model_without_a_version_is_not_ready_and_not_listed(fresh: Client) -> None:
    fresh.place("bare", {"config.pbtxt": ANSWERING_CONFIG, "kept": ""})
    fresh.place("around", ensemble("bare"))
    assert fresh.ready()
    failure = fresh.load("around")
    assert failure is not None and "depends on 'bare' which has no loaded version" in failure.text
    assert not fresh.ready()
    assert states(fresh, "bare", "around") == {"around": [()]}
    about = "Request for unknown model: 'bare'"
    assert answers(fresh, "bare") == ("NOT_FOUND", f"{about} has no available versions")
    assert answers(fresh, "bare", 1) == ("NOT_FOUND", f"{about} version 1 is not found")
    assert fresh.unload("bare") is None
    assert not fresh.ready()
    source = ANSWERING.format("self.answer = 'filled'")
    (fresh.repository / "bare" / "1").mkdir()
    write(fresh, "bare", "1/model.py", source)
    assert fresh.load("bare") is None
    assert fresh.ready()
    assert fresh.unload("bare") is None
    assert settled(fresh, "bare") == {"bare": [("1", "UNAVAILABLE", "unloaded")]}
    (fresh.repository / "bare" / "1").rename(fresh.repository / "away")
    assert fresh.load("bare") is not None
    assert states(fresh, "bare") == {"bare": [("1", "UNAVAILABLE", "unloaded")]}
    assert fresh.ready()
