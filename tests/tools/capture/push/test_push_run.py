"""A push to servers that load and answer as a test wants: what is refused, undone, and said."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.models import answers
from tests.serving import config
from tritonlab.core.inference.infer_request import InferenceRequest
from tritonlab.core.inference.tensor import Tensor
from tritonlab.core.status import InternalError, NotFoundError, TritonError, UnavailableError, UnsupportedError
from tritonlab.exchanges.exchange import Exchange, arrivals_of
from tritonlab.exchanges.golden import GoldenSet
from tritonlab.notebook.authoring.workspace import Workspace
from tritonlab.notebook.model import Model
from tritonlab.tools.capture.capture_file import Capture, CapturedRequest, CaptureFile, Withheld
from tritonlab.tools.capture.push import push_run
from tritonlab.tools.capture.push.push_result import Push, PushState
from tritonlab.tools.capture.push.pushed_model import PushRecord, mark_of


@dataclass
class FakeTriton:
    """A server with an explicit model repository. `factor`: what a model multiplies with, by its configuration and
    files; `repository`: the factors of the models on its disk."""

    address: str = "fake:8001"
    repository: dict[str, int] = field(default_factory=dict)
    control: str = ""
    refuses: str = ""
    stops: str = ""
    protocol: str = "gRPC"
    served: dict[str, tuple[int, dict[str, Any]]] = field(default_factory=dict)
    requests: int = 0
    loads: int = 0

    def index(self) -> list[dict[str, Any]]:
        return [{"name": name, "version": "1", "state": "READY"} for name in self.served]

    def load(self, name: str, config: str | None = None, files: Mapping[str, bytes] | None = None, **_: Any) -> None:
        self.loads += 1
        if config is None:
            self.served[name] = self.repository[name], {"name": name}
            return
        if self.refuses:
            raise InternalError(self.refuses)
        assert files is not None and "config.pbtxt" not in files
        source = files["1/model.py"].decode()
        self.served.pop(self.stops, None)
        self.served[name] = int(source.partition("x * ")[2].partition(")")[0]), json.loads(config)

    def unload(self, name: str) -> None:
        if self.control:
            raise UnavailableError(self.control)
        self.served.pop(name, None)

    def model(self, name: str) -> FakeTriton._Model:
        return FakeTriton._Model(self, name)

    @dataclass
    class _Model:
        server: FakeTriton
        name: str

        def metadata(self) -> dict[str, Any]:
            if self.name not in self.server.served:
                raise NotFoundError(f"Request for unknown model: '{self.name}' is not found")
            return {"versions": ["1"]}

        def config(self) -> dict[str, Any]:
            return self.server.served[self.name][1]

        def send(self, request: InferenceRequest) -> Exchange:
            self.server.requests += 1
            x = request.inputs["IN"].numpy() * self.server.served[self.name][0]
            return Exchange(request, arrivals_of([{"OUT": Tensor.from_numpy(x)}]))


def source(factor: int) -> str:
    return answers(f"x * {factor}")


@pytest.fixture
def load(workspace: Workspace) -> Callable[[int], Model]:
    """Return a function that loads the notebook's model with a factor."""

    def load(factor: int) -> Model:
        workspace.load("scale", source(factor), config=config("IN INT32 1", "OUT INT32 1"))
        return workspace.server.model("scale")

    return load


@pytest.fixture
def golden(tmp_path: Path) -> GoldenSet:
    """Return a golden set with one case: 2 becomes 6."""
    found = GoldenSet(tmp_path / "golden")
    request = InferenceRequest("scale", {"IN": Tensor.from_numpy(np.array([2], np.int32))})
    found.add(Exchange(request, arrivals_of([{"OUT": Tensor.from_numpy(np.array([6], np.int32))}])))
    return found


Pushed = Callable[..., Push]


@pytest.fixture
def push(tmp_path: Path) -> Iterator[Pushed]:
    record = PushRecord(tmp_path / "pushes")

    def run(server: FakeTriton, model: Model, proof: Any, targets: Any = (), timeout: float = 60) -> Push:
        steps: list[str] = []
        every: Any = [server, *targets]
        result = push_run.push(
            every[0], model, targets=every[1:], proof=proof, timeout=timeout, say=steps.append, record=record
        )
        assert steps[-1] == result.verdict
        return result

    yield run


def test_a_push_is_proved_and_undone(load: Callable[[int], Model], golden: GoldenSet, push: Pushed) -> None:
    triton = FakeTriton(repository={"scale": 10})
    triton.load("scale")
    result = push(triton, load(3), golden)
    (target,) = result.targets
    assert (result.ok, target.state, triton.served["scale"][0]) == (True, PushState.PROVED, 3)
    assert "golden: 1 of 1 answers are the same" in result.text()
    assert "version 1, as the server's repository has it" in result.text()
    assert mark_of(triton.served["scale"][1]) == result.mark
    assert result.undo().targets[0].state is PushState.UNDONE and triton.served["scale"][0] == 10
    assert "as before: 1 of 1 answers are the same" in result.text()
    facts = json.loads(json.dumps(result.to_dict()))
    assert facts["ok"] is False and facts["targets"][0]["state"] == "UNDONE"
    assert "undone by hand" in result._repr_html_()
    loads = triton.loads
    result.undo()
    assert triton.loads == loads  # nothing is left to undo


def test_no_request_proves_nothing(load: Callable[[int], Model], tmp_path: Path, push: Pushed) -> None:
    triton = FakeTriton()
    for proof in (False, GoldenSet(tmp_path / "empty")):
        result = push(triton, load(3), proof)
        assert (result.ok, result.targets[0].state, triton.requests) == (True, PushState.LOADED, 0)
        assert "loaded; no request was sent" in result.verdict and "proved" not in result.text()
    assert push(triton, load(3), "last").targets[0].state is PushState.LOADED  # there were none


def test_a_capture_proves_it(
    load: Callable[[int], Model], golden: GoldenSet, tmp_path: Path, push: Pushed, monkeypatch: pytest.MonkeyPatch
) -> None:
    (case,) = golden.cases()
    hidden = CapturedRequest(case, withheld={"input.OTHER": Withheld("dropped")})
    unanswered = CapturedRequest(replace(case, arrivals=()))
    file = CaptureFile(tmp_path / "day.arrow", {})
    file.append([CapturedRequest(case), hidden, unanswered])
    file.close()
    result = push(FakeTriton(), load(3), tmp_path / "day.arrow")
    assert result.ok and "captured: 1 of 1 answers are the same" in result.text()
    assert result.notes == ("left out of the proof, as it cannot be sent or compared: 2 requests",)
    assert push(FakeTriton(), load(4), Capture(tmp_path / "day.arrow")).targets[0].state is PushState.REMOVED
    monkeypatch.setattr("tritonlab.tools.capture.push.push_proof.answered_cases", lambda models: iter([case]))
    assert "last: 1 of 1 answers are the same" in push(FakeTriton(), load(3), "last").text()
    with pytest.raises(FileNotFoundError):
        push(FakeTriton(), load(3), tmp_path / "none.arrow")


def test_wrong_answers_undo_it(load: Callable[[int], Model], golden: GoldenSet, push: Pushed) -> None:
    triton = FakeTriton()
    result = push(triton, load(4), golden)
    assert (result.ok, result.targets[0].state, triton.served) == (False, PushState.REMOVED, {})
    assert "golden: 0 of 1 answers are the same; different: scale/001" in result.text()
    triton = FakeTriton(repository={"scale": 3})
    first = push(triton, load(3), golden)
    second = push(triton, load(5), golden)  # in place of the first push, whose files are in the record
    assert second.targets[0].before.startswith("version 1, pushed 20")
    assert (second.targets[0].state, mark_of(triton.served["scale"][1])) == (PushState.UNDONE, first.mark)
    assert triton.served["scale"][0] == 3


def test_a_failed_load_leaves_the_former_model(load: Callable[[int], Model], golden: GoldenSet, push: Pushed) -> None:
    triton = FakeTriton(repository={"scale": 10}, refuses="failed to load 'scale'")
    triton.load("scale")
    result = push(triton, load(3), golden)
    assert (result.targets[0].state, triton.served["scale"][0], triton.loads) == (PushState.REFUSED, 10, 2)
    assert "the load failed: failed to load 'scale'" in result.text()
    result = push(triton, load(3), golden, timeout=0)
    assert (result.targets[0].state, triton.loads) == (PushState.UNDONE, 4)  # the load may have been under way


def test_another_model_that_stops_undoes_it(load: Callable[[int], Model], golden: GoldenSet, push: Pushed) -> None:
    triton = FakeTriton(repository={"scale": 10}, stops="around")
    triton.served = {"around": (1, {}), "scale": (10, {"name": "scale"})}
    result = push(triton, load(3), golden)
    assert "with it around stopped being READY" in result.text() and triton.served["scale"][0] == 10
    assert not result.ok


def test_replicas_come_one_by_one(load: Callable[[int], Model], golden: GoldenSet, push: Pushed) -> None:
    one, two, three = (FakeTriton(f"{n}:8001", {"scale": 10}) for n in ("one", "two", "three"))
    for each in (one, two, three):
        each.load("scale")
    two.refuses = "no room"
    result = push(one, load(3), golden, targets=[two, three])
    states = [target.state for target in result.targets]
    assert states == [PushState.UNDONE, PushState.REFUSED, PushState.NOT_TRIED]
    assert "undone, because gRPC two:8001 failed" in result.text() and three.loads == 1
    assert [each.served["scale"][0] for each in (one, two, three)] == [10, 10, 10]
    two.refuses = ""
    assert push(one, load(3), golden, targets=[two, three]).ok


def test_what_is_refused_before_anything_is_done(
    load: Callable[[int], Model], golden: GoldenSet, push: Pushed, monkeypatch: pytest.MonkeyPatch
) -> None:
    fine = FakeTriton()
    closed = FakeTriton("closed:8001", control="explicit model load / unload is not allowed if polling is enabled")
    with pytest.raises(UnsupportedError, match="closed:8001 does not allow the control of its models: explicit model"):
        push(fine, load(3), golden, targets=[closed])
    monkeypatch.setattr("tritonlab.tools.capture.push.pushed_model._MOST_GRPC", 100)
    with pytest.raises(UnsupportedError, match=r"over gRPC 0\.0 MB are the most: put the large ones where"):
        push(fine, load(3), golden)
    monkeypatch.setattr("tritonlab.tools.capture.push.pushed_model.MOST_LOAD_BYTES", 100)
    with pytest.raises(UnsupportedError, match=r"over HTTP 0\.0 MB are the most: connect over gRPC"):
        push(FakeTriton(protocol="HTTP"), load(3), golden)
    assert fine.loads == 0


def test_a_later_push_is_left_alone(load: Callable[[int], Model], golden: GoldenSet, push: Pushed) -> None:
    triton = FakeTriton(repository={"scale": 10})
    triton.load("scale")
    first = push(triton, load(3), golden)
    second = push(triton, load(3), golden)
    assert first.undo().targets[0].state is PushState.UNKNOWN
    assert "it was replaced meanwhile (version 1, pushed " in first.text()
    assert mark_of(triton.served["scale"][1]) == second.mark


def test_a_failed_undo(
    load: Callable[[int], Model], golden: GoldenSet, push: Pushed, monkeypatch: pytest.MonkeyPatch
) -> None:
    triton = FakeTriton()
    result = push(triton, load(3), golden)

    def fail(name: str) -> None:
        raise TritonError("gone")

    monkeypatch.setattr(triton, "unload", fail)
    assert result.undo().targets[0].state is PushState.UNKNOWN
    assert "the undo failed: gone" in result.text()


def test_an_interrupt_undoes_it(
    load: Callable[[int], Model], golden: GoldenSet, push: Pushed, monkeypatch: pytest.MonkeyPatch
) -> None:
    triton = FakeTriton(repository={"scale": 10})
    triton.load("scale")
    load_there = triton.load

    def interrupt(name: str, *sent: Any, **options: Any) -> None:
        load_there(name, *sent, **options)
        if sent:
            raise KeyboardInterrupt

    monkeypatch.setattr(triton, "load", interrupt)
    with pytest.raises(KeyboardInterrupt):
        push(triton, load(3), golden)
    assert triton.served["scale"][0] == 10


def test_an_answer_that_cannot_be_read_undoes_it(
    load: Callable[[int], Model], golden: GoldenSet, push: Pushed, monkeypatch: pytest.MonkeyPatch
) -> None:
    triton = FakeTriton()

    def fail(model: Any, request: InferenceRequest) -> Exchange:
        raise ValueError("no JSON")

    monkeypatch.setattr(FakeTriton._Model, "send", fail)
    with pytest.raises(ValueError, match="no JSON"):
        push(triton, load(3), golden)
    assert (triton.served, triton.loads) == ({}, 1)


def test_a_model_that_serves_without_its_configuration_is_left_alone(
    load: Callable[[int], Model], golden: GoldenSet, push: Pushed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not known before, it would be unloaded by an undo."""
    triton = FakeTriton(repository={"scale": 10})
    triton.load("scale")

    def fail(model: Any) -> dict[str, Any]:
        raise UnavailableError("not now")

    monkeypatch.setattr(FakeTriton._Model, "config", fail)
    with pytest.raises(UnavailableError, match="not now"):
        push(triton, load(3), golden)
    assert (triton.served["scale"][0], triton.loads) == (10, 1)


def test_a_push_from_elsewhere(load: Callable[[int], Model], golden: GoldenSet, push: Pushed) -> None:
    marked = {"name": "scale", "parameters": {"tritonlab_push": {"string_value": "abc 2026-01-01T00:00:00.000Z"}}}
    triton = FakeTriton(repository={"scale": 10}, served={"scale": (7, marked)})
    result = push(triton, load(3), golden)
    assert result.ok and "pushed 2026-01-01T00:00:00.000Z, and its files are not kept here" in result.notes[0]
    assert result.undo().targets[0].state is PushState.UNKNOWN and triton.served["scale"][0] == 10
    assert "before it was: version 1, pushed 2026" in result.text()


def test_the_record_forgets_old_pushes(load: Callable[[int], Model], tmp_path: Path, push: Pushed) -> None:
    triton = FakeTriton()
    marks = [push(triton, load(3), False).mark for _ in range(10)]
    record = PushRecord(tmp_path / "pushes")
    assert [record.find(mark) is not None for mark in marks] == [False] * 2 + [True] * 8
    kept = record.find(marks[-1])
    assert kept is not None and kept.files["1/model.py"].decode().strip() == source(3).strip()
    assert all(path.stat().st_mode & 0o077 == 0 for path in (tmp_path / "pushes").iterdir())


def test_a_full_disk_leaves_no_part_of_a_push(
    load: Callable[[int], Model], tmp_path: Path, push: Pushed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fchmod", fail)
    assert "it is not kept" in push(FakeTriton(), load(3), False).notes[0]
    assert [*(tmp_path / "pushes").iterdir()] == []
