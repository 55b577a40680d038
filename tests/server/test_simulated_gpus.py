"""Placement on GPUs that this machine does not have."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.rules import rule
from tests.models import executes
from tests.serving import Lab
from tritonlab import Options, Server
from tritonlab.core.status import InvalidArgumentError, ModelLoadError
from tritonlab.server.api.model import Model
from tritonlab.testing import RecordingInstrument

#: Writes down the name and device that each instance gets.
TELLING = """
import json

class TritonPythonModel:
    def initialize(self, args):
        print("begins")
        arguments = [args[f"model_instance_{fact}"] for fact in ("name", "kind", "device_id")]
        with open(args["model_repository"] + "/arguments", "a") as file:
            file.write(json.dumps(arguments) + "\\n")

    def execute(self, requests):
        return [None for _ in requests]
"""


@pytest.fixture(scope="module")
def gpus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    lab = Lab(tmp_path_factory.mktemp("repository"), simulated_gpus=2)
    yield lab
    lab.server.stop()


def load(gpus: Lab, name: str, groups: str) -> Model:
    return gpus.load(name, TELLING, f'backend: "python" {groups}')


def read_arguments(gpus: Lab, name: str) -> list[list[str]]:
    return sorted(json.loads(line) for line in (gpus.repository / name / "arguments").read_text().splitlines())


@pytest.mark.parametrize(
    ("name", "groups", "instances"),
    [
        ("none", "", [["none_0", "GPU", "0"], ["none_0", "GPU", "1"]]),
        ("auto", "instance_group { gpus: [ 1 ] }", [["auto_0_0", "GPU", "1"]]),
        ("cpu", "instance_group { kind: KIND_CPU }", [["cpu_0_0", "CPU", "0"]]),
        ("model", "instance_group { kind: KIND_MODEL }", [["model_0_0", "MODEL", "0"]]),
        (
            "gpu",
            "instance_group [ { kind: KIND_GPU count: 2 gpus: [ 1 ] }, { kind: KIND_GPU } ]",
            [["gpu_0_0", "GPU", "1"], ["gpu_0_1", "GPU", "1"], ["gpu_1_0", "GPU", "0"], ["gpu_1_0", "GPU", "1"]],
        ),
    ],
)
@rule("5.1.4", "2.3.1", "2.3.2")
def test_instances_get_their_device(gpus: Lab, name: str, groups: str, instances: list[list[str]]) -> None:
    model = load(gpus, name, groups)
    assert read_arguments(gpus, name) == instances
    facts = model.instances()
    assert sorted([each["name"], each["kind"], str(each["device_id"])] for each in facts) == instances
    assert all(each["simulated"] and each["gpu_memory"] == {} for each in facts)


@pytest.mark.parametrize(
    ("groups", "reason"),
    [
        (
            "instance_group { kind: KIND_GPU gpus: [ 0, 5 ] }",
            "instance group m_0 of model m specifies invalid or unsupported gpu id 5. GPUs with at least the minimum "
            "required CUDA compute compatibility of 6.000000 are: 0, 1",
        ),
        (
            "instance_group { gpus: [ 5 ] }",
            "instance group m_0 of model m has kind KIND_CPU but specifies one or more GPUs",
        ),
    ],
)
@rule("5.3.2")
def test_a_gpu_that_is_not_there_fails_the_load(gpus: Lab, groups: str, reason: str) -> None:
    with pytest.raises(ModelLoadError) as failed:
        load(gpus, "m", groups)
    assert failed.value.reason == reason


@rule("5.11.2")
def test_a_reload_moves_instances_to_another_gpu(gpus: Lab) -> None:
    gpus.write("moved", executes("return []"))

    def placed(devices: str) -> list[tuple[int, int | None]]:
        text = f'backend: "python" instance_group {{ kind: KIND_GPU gpus: [ {devices} ] }}'
        (gpus.repository / "moved" / "config.pbtxt").write_text(text)
        gpus.server.load("moved")
        return [(each["device_id"], each["pid"]) for each in gpus.server.model("moved").instances()]

    (both,) = placed("0")
    first, second = placed("0, 1")
    assert first == both and second[0] == 1
    assert placed("1") == [second]


def test_instances_of_one_name_are_distinguished_by_their_gpu(gpus: Lab) -> None:
    load(gpus, "twins", "")
    instrument = RecordingInstrument()
    gpus.server.instruments.add(instrument)
    model = gpus.server.model("twins")
    list(model.infer(inputs={}, raise_on_error=False))
    assert {record.instance for record in model.logs() if record.text == "begins"} == set(model.stacks())
    gpus.server.instruments.remove(instrument)
    assert set(model.stacks()) == {"twins_0 on simulated GPU 0", "twins_0 on simulated GPU 1"}
    ((instance, *_),) = instrument.named("execute_started")
    assert instance in model.stacks()


@rule("5.13.1")
def test_the_metrics_name_the_gpu(gpus: Lab) -> None:
    load(gpus, "measured", "instance_group { kind: KIND_GPU gpus: [ 1 ] }")
    uuid = gpus.server.gpus()[1]["uuid"]
    lines = gpus.server.metrics().splitlines()
    assert f'nv_inference_count{{gpu_uuid="{uuid}",model="measured",version="1"}} 0' in lines
    (used,) = [line for line in lines if line.startswith(f'nv_gpu_memory_used_bytes{{gpu_uuid="{uuid}"}} ')]
    assert int(used.rpartition(" ")[2]) >= 0  # other tests of this process may hold some
    assert not [line for line in lines if line.startswith("nv_gpu_utilization{")]  # nobody can say


def test_a_server_takes_a_sensible_number_only(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="simulated_gpus is -1"):
        Server(tmp_path, Options(simulated_gpus=-1))
