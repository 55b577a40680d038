from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import triton_python_backend_utils as pb_utils

from tritonlab.stub._pb_stub.api.simulated_array import SimulatedArray
from tritonlab.testing import FakeTriton, build_args, build_request, load_class

MODEL = """\
import json

import numpy as np
import scaling
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.args = args
        self.decoupled = pb_utils.using_decoupled_model_transaction_policy(json.loads(args["model_config"]))

    def execute(self, requests):
        responses = []
        for request in requests:
            data = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", scaling.scale(data))]))
        return responses
"""
CONFIG = """\
max_batch_size: 4
input { name: "IN" data_type: TYPE_FP32 dims: [ -1 ] }
output { name: "OUT" data_type: TYPE_FP32 dims: [ -1 ] }
instance_group { kind: KIND_CPU count: 2 }
"""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Write a model directory; version 2 doubles, version 10 multiplies by ten."""
    for version, factor in ((2, 2), (10, 10)):
        folder = tmp_path / "scaler" / str(version)
        folder.mkdir(parents=True)
        (folder / "model.py").write_text(MODEL.replace("scaling", f"scaling_{factor}"))
        (folder / f"scaling_{factor}.py").write_text(f"def scale(x):\n    return x * {factor}\n")
    (tmp_path / "scaler" / "config.pbtxt").write_text(CONFIG)
    return tmp_path / "scaler"


def output(response: Any, name: str = "OUT") -> list[Any]:
    found: list[Any] = pb_utils.get_output_tensor_by_name(response, name).as_numpy().tolist()
    return found


def test_a_model_directory_in_this_process(directory: Path) -> None:
    model = load_class(directory)()
    model.initialize(build_args(directory))
    requests = [build_request({"IN": np.array([[1, 2]], "f4")}), build_request({"IN": np.array([[3]], "f4")})]
    assert [output(r) for r in model.execute(requests)] == [[[10.0, 20.0]], [[30.0]]]
    assert model.decoupled is False
    older = load_class(directory / "2" / "model.py")()
    assert output(older.execute(requests)[1]) == [[6.0]]


def test_the_text_of_a_config_may_be_one_line() -> None:
    config = json.loads(build_args("max_batch_size: 4")["model_config"])
    assert (config["name"], config["max_batch_size"]) == ("model", 4)


def test_a_directory_that_triton_ignores_is_no_version(directory: Path) -> None:
    (directory / "012").mkdir()
    (directory / "012" / "model.py").write_text("")
    assert build_args(directory)["model_version"] == "10"


def test_the_class_can_find_its_source(directory: Path) -> None:
    import inspect

    newer, older = load_class(directory), load_class(directory / "2" / "model.py")
    assert inspect.getsourcefile(newer) == str(directory / "10" / "model.py")
    assert inspect.getsourcefile(older) == str(directory / "2" / "model.py")


def test_what_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"is not a model directory: it has no <version>/model\.py"):
        load_class(tmp_path)
    (tmp_path / "model.py").write_text("class Model: pass\n")
    with pytest.raises(AttributeError, match="TritonPythonModel"):
        load_class(tmp_path / "model.py")


@pytest.mark.rule("2.3.1", "2.3.2")
def test_the_arguments_of_initialize(directory: Path) -> None:
    args = build_args(directory, instance=1)
    config = json.loads(args.pop("model_config"))
    assert (config["name"], config["max_batch_size"]) == ("scaler", 4)
    assert args == {
        "model_instance_kind": "CPU",
        "model_instance_name": "scaler_0_1",
        "model_instance_device_id": "0",
        "model_repository": str(directory),
        "model_version": "10",
        "model_name": "scaler",
    }
    assert build_args(CONFIG, name="m", instance=1)["model_instance_name"] == "m_0_1"


@pytest.mark.rule("1.4.11", "1.7.5", "1.7.6")
def test_a_request_is_as_a_stub_delivers_it() -> None:
    array = np.array([1.0, 2.0], "f4")
    request = build_request(
        {"A": array, "B": ["x", "yz"], "C": 5},
        request_id="r",
        correlation_id="s",
        flags=3,
        timeout=7,
        parameters={"k": 1},
        requested_outputs=["OUT"],
    )
    a = pb_utils.get_input_tensor_by_name(request, "A").as_numpy()
    a += 1
    assert array.tolist() == [1.0, 2.0]
    assert pb_utils.get_input_tensor_by_name(request, "B").as_numpy().tolist() == [b"x", b"yz"]
    assert pb_utils.get_input_tensor_by_name(request, "C").shape() == []
    assert (request.request_id(), request.correlation_id(), request.flags(), request.timeout()) == ("r", "s", 3, 7)
    assert json.loads(request.parameters()) == {"k": 1}
    assert request.requested_output_names() == {"OUT"}


def test_a_decoupled_model_sends_to_the_fake() -> None:
    class Repeat:
        def execute(self, requests: list[Any]) -> None:
            for request in requests:
                sender = request.get_response_sender()
                for value in pb_utils.get_input_tensor_by_name(request, "IN").as_numpy():
                    if sender.is_cancelled():
                        break
                    sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([value]))]))
                sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)

    first = build_request({"IN": [1, 2]}, decoupled=True)
    second = build_request({"IN": [3]}, decoupled=True)
    third = build_request({"IN": [4]}, decoupled=True)
    with FakeTriton() as fake:
        fake.cancel(third)
        Repeat().execute([first, second, third])
    assert [output(r) for r in fake.responses(first)] == [[1], [2]]
    assert [output(r) for r in fake.responses(second)] == [[3]]
    assert fake.responses(third) == []
    assert all(fake.closed(request) for request in (first, second, third))


def test_the_rules_of_the_default_mode_hold() -> None:
    request = build_request({"IN": [1]})
    with FakeTriton():
        sender = request.get_response_sender()
        sender.send(pb_utils.InferenceResponse([]))
        with pytest.raises(pb_utils.TritonModelException, match="cannot send more than one response"):
            sender.send(pb_utils.InferenceResponse([]))


def test_logs_and_metrics() -> None:
    with FakeTriton(model_dir="repository/m/3") as fake:
        pb_utils.Logger.log_warn("careful")
        family = pb_utils.MetricFamily("calls", "how often", pb_utils.MetricFamily.COUNTER)
        metric = family.Metric(labels={"a": "b"})
        metric.increment(2)
        with pytest.raises(pb_utils.TritonModelException, match="non-negative"):
            metric.increment(-1)
        assert 'calls{a="b"} 2' in fake.metrics()
        assert pb_utils.get_model_dir() == "repository/m/3"
    assert fake.logs == [("WARNING", "careful")]


def call(name: str, **settings: Any) -> Any:
    return pb_utils.InferenceRequest(
        inputs=[pb_utils.Tensor("IN", np.array(["a"], dtype=object))],
        requested_output_names=settings.pop("outputs", []),
        model_name=name,
        **settings,
    )


@pytest.mark.rule("4.2.1", "4.3.2")
def test_bls_calls_reach_functions_and_models() -> None:
    def shout(request: Any) -> Any:
        text = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()[0].decode().upper()
        tensors = [pb_utils.Tensor(name, np.array([text], dtype=object)) for name in ("OUT", "COPY")]
        return pb_utils.InferenceResponse(tensors)

    class Fails:
        def execute(self, requests: list[Any]) -> list[Any]:
            return [pb_utils.InferenceResponse([], error=pb_utils.TritonError("no", pb_utils.TritonError.NOT_FOUND))]

    def twice(request: Any) -> Any:
        return [shout(request), shout(request)]

    with FakeTriton({"shout": shout, "fails": Fails(), "twice": twice}):
        answer = call("shout", outputs=["OUT"]).exec()
        assert [tensor.name() for tensor in answer.output_tensors()] == ["OUT"]
        assert output(answer) == [b"A"]  # bytes, as they come through a server
        assert call("fails").exec().error().code() == pb_utils.TritonError.NOT_FOUND
        assert [output(r) for r in call("twice").exec(decoupled=True)] == [[b"A"], [b"A"]]
        unknown = call("other").exec().error().message()
        refused = "Failed for execute the inference request. Model 'other' is not ready."
        assert unknown == f"Model other - Error when running inference: {refused}"
        assert (pb_utils.is_model_ready("shout"), pb_utils.is_model_ready("other")) == (True, False)


def test_outside_of_the_fake_nothing_has_changed() -> None:
    with FakeTriton(), FakeTriton():
        pass
    with pytest.raises(pb_utils.TritonModelException, match=r"tritonlab\.testing\.FakeTriton"):
        pb_utils.load_model("m")
    with FakeTriton(), pytest.raises(pb_utils.TritonModelException, match=r"load_model\(\) needs a running model"):
        pb_utils.load_model("m")


def test_an_array_on_a_gpu_comes_as_models_get_it_by_default() -> None:
    request = build_request({"X": SimulatedArray(np.arange(3, dtype=np.float32))})
    (tensor,) = request.inputs()
    assert tensor.is_cpu() and tensor.as_numpy().tolist() == [0, 1, 2]


def test_a_config_that_names_the_file(tmp_path: Path) -> None:
    for version in ("1", "3", "next"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "postprocess.py").write_text(f"class TritonPythonModel:\n    version = {version!r}\n")
    (tmp_path / "1" / "model.py").write_text("class TritonPythonModel:\n    version = 'not this'\n")
    (tmp_path / "config.pbtxt").write_text('backend: "python" default_model_filename: "postprocess.py"\n' + CONFIG)
    assert load_class(tmp_path).version == "3"
    args = build_args(tmp_path)
    assert args["model_version"] == "3"
    assert json.loads(args["model_config"])["default_model_filename"] == "postprocess.py"
    (tmp_path / "config.pbtxt").write_text('default_model_filename: "absent.py"\n' + CONFIG)
    with pytest.raises(FileNotFoundError, match=r"it has no <version>/absent\.py"):
        load_class(tmp_path)
