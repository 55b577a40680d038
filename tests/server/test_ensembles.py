"""Ensembles of real models: what the life of a version and the server around it add to the scheduler."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.conformance.rules import rule
from tests.ensembles import ensemble_text, model_text, step
from tests.models import executes
from tests.serving import eventually
from tritonlab.core.status import EnsembleError, ModelLoadError
from tritonlab.server.api.server import Server
from tritonlab.server.observe.watchdog import WaitReport

#: Waits for the file GATE, if there is one to wait for; adds 1.
ADD = executes(
    """
    return [self.answer(request) for request in requests]
    """,
    initialize='self.directory = args["model_repository"]',
    more="""
    def answer(self, request):
        x = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
        if x[0] == 666:
            raise ValueError("the number of the beast")
        while x[0] == 9 and not os.path.exists(os.path.join(self.directory, "gate")):
            time.sleep(0.005)
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", x + 1)])
    """,
    imports="import os, time",
)

CALL = executes(
    """
    return [self.answer(request) for request in requests]
    """,
    more="""
    def answer(self, request):
        x = pb_utils.Tensor("X", pb_utils.get_input_tensor_by_name(request, "IN").as_numpy())
        answer = pb_utils.InferenceRequest(model_name="inner", requested_output_names=["Y"], inputs=[x]).exec()
        if answer.has_error():
            return pb_utils.InferenceResponse(error=answer.error())
        y = pb_utils.get_output_tensor_by_name(answer, "Y").as_numpy()
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", y)])
    """,
)


def place(repository: Path, name: str, config: str, source: str = "") -> None:
    version = repository / name / "1"
    version.mkdir(parents=True)
    (repository / name / "config.pbtxt").write_text(config)
    if source:
        (version / "model.py").write_text(source)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    repository = tmp_path_factory.mktemp("models")
    place(repository, "add", model_text(), ADD)
    place(repository, "slow", model_text(), ADD)
    place(repository, "call", model_text(), CALL)
    place(repository, "inner", ensemble_text(step("add", "IN=X", "OUT=Z"), step("add", "IN=Z", "OUT=Y")))
    place(repository, "waits", ensemble_text(step("slow", "IN=X", "OUT=Z"), step("slow", "IN=Z", "OUT=Y")))
    place(repository, "outer", ensemble_text(step("inner", "X=X", "Y=Z"), step("call", "IN=Z", "OUT=Y")))
    with Server(repository, model_control_mode="explicit") as server:
        server.load("outer")
        yield server


def x(number: float) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return np.array([number], np.float32)


def test_ensembles_within_ensembles_and_behind_bls_run(server: Server) -> None:
    assert server.model("outer")(X=x(1))["Y"].tolist() == [5]
    counts = {
        name: server.model(name).statistics()["model_stats"][0]["inference_stats"]["success"]["count"]
        for name in ("outer", "inner", "call", "add")
    }
    assert counts == {"outer": 1, "inner": 2, "call": 1, "add": 4}


def test_an_ensemble_reports_the_times_of_its_steps(server: Server) -> None:
    server.model("inner")(X=x(1))
    stats = {n: server.model(n).statistics()["model_stats"][0]["inference_stats"] for n in ("inner", "add")}
    assert stats["inner"]["compute_infer"]["ns"] == stats["add"]["compute_infer"]["ns"] > 0


def test_an_ensemble_has_no_instances_and_is_ready(server: Server) -> None:
    model = server.model("inner")
    assert (model.state, model.instances()) == ("READY", [])
    assert model.ready()


def test_an_exception_in_a_step_keeps_its_traceback_and_names_the_step(server: Server) -> None:
    with pytest.raises(EnsembleError, match="in ensemble 'inner', Failed to process") as failure:
        server.model("inner")(X=x(666))
    assert failure.value.exception is not None
    assert failure.value.exception.text == "the number of the beast"
    assert failure.value.reason.startswith("step 0 (model 'add') of ensemble 'inner' failed; its inputs: IN is X")
    assert any("step 0 (model 'add')" in record.text for record in server.logs("inner"))


def test_requests_in_flight_are_answered_although_a_composing_model_is_unloaded(server: Server) -> None:
    server.load("waits")
    gate = Path(server.core.repository.repositories[0]) / "slow" / "gate"
    responses = server.model("waits").infer(inputs={"X": x(9)})
    unloads = threading.Thread(target=lambda: server.unload("slow"))
    unloads.start()
    eventually(lambda: "READY" not in [e.get("state") for e in server.index() if e["name"] in ("slow", "waits")])
    assert unloads.is_alive()
    gate.touch()
    assert next(responses).outputs["Y"].numpy().tolist() == [11]
    unloads.join()
    states = {e["name"]: (e["state"], e["reason"]) for e in server.index() if e["name"] in ("slow", "waits")}
    assert states == {"slow": ("UNAVAILABLE", "unloaded"), "waits": ("UNAVAILABLE", "unloaded")}


def test_an_ensemble_in_flight_is_listed_with_its_step(server: Server, tmp_path: Path) -> None:
    server.load("waits")
    gate = Path(server.core.repository.repositories[0]) / "slow" / "gate"
    gate.unlink(missing_ok=True)
    responses = server.model("waits").infer(inputs={"X": x(9)})
    held = {one.version.name: one.to_dict()["state"] for one in server.core.requests()}
    gate.touch()
    list(responses)
    assert held == {"waits": "executing", "slow": "executing"}


def test_the_way_of_a_request_leads_through_the_steps_of_ensembles(server: Server) -> None:
    server.load("waits")
    gate = Path(server.core.repository.repositories[0]) / "slow" / "gate"
    gate.unlink(missing_ok=True)
    responses = server.model("waits").infer(inputs={"X": x(9)})
    held = server.core.requests()
    way = WaitReport([one for one in held if one.version.name == "waits"], held, [])
    gate.touch()
    list(responses)
    assert [line.partition(": request")[0] for line in way.lines] == ["  Ensemble 'waits' waits for model 'slow'"]
    assert "with slow_0 for" in way.lines[0]
    assert [instance.plan.name for instance in way.instances] == ["slow_0"]


def test_a_refused_ensemble_says_why_and_has_no_version(server: Server, tmp_path: Path) -> None:
    place(Path(server.core.repository.repositories[0]), "wrong", ensemble_text(step("add", "NO=X", "OUT=Y")))
    with pytest.raises(ModelLoadError, match="ensemble tensor X is mapping to non-existing input NO in model add"):
        server.load("wrong")
    assert {"name": "wrong"} in server.index()


def test_a_call_that_waits_for_itself_through_an_ensemble_is_reported(tmp_path: Path) -> None:
    place(tmp_path, "call", model_text(), CALL)
    place(tmp_path, "inner", ensemble_text(step("call", "IN=X", "OUT=Y")))
    server = Server(tmp_path, warm=0, watchdog_seconds=0.2)
    try:
        responses = server.model("call").infer(inputs={"IN": x(1)}, raise_on_error=False)
        report = eventually(lambda: next((r.text for r in server.logs("call") if "one another" in r.text), ""))
    finally:
        server.core.stop(timeout=0)
    assert "Ensemble 'inner' waits for model 'call': request 3, in the queue for" in report
    assert "They may wait for one another: call -> call." in report
    assert str(next(responses).error) == "Server exited before the request completed"


@rule("5.11.4")
def test_an_ensembles_models_lie_in_the_repository_and_start_up_models_where_their_names_lead(tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    name = 'name: "{}"\n'
    place(repository, "team/add", name.format("team/add") + model_text(), ADD)
    place(repository, "one", ensemble_text(step("team/add", "IN=X", "OUT=Y")))
    place(repository, "other", ensemble_text(step("../beside", "IN=X", "OUT=Y")))
    place(tmp_path, "beside", name.format("../beside") + model_text(), ADD)
    with Server(repository, model_control_mode="explicit", startup_models=["team/add"]) as server:
        assert server.model("team/add").state == "READY"
        server.load("one")
        with pytest.raises(ModelLoadError, match=r"contains models that are not available.*: '?\.\./beside"):
            server.load("other")
