"""Instance groups of every kind, and settings that have no effect on a Python model, seen by the instances."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from tests.models import executes

from .clients import Client
from .models import CPU, config, model
from .rules import rule

#: Writes down who it is; answers with the number of requests in the call, the instance and the names of the inputs.
ANSWERING = executes(
    """
    names = sorted(tensor.name() for tensor in requests[0].inputs())
    text = np.array([[json.dumps([len(requests), self.name, names]).encode()]], dtype=object)
    rows = pb_utils.Tensor("ROWS", np.ones((1, 1), np.int32))
    return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", text), rows]) for _ in requests]
    """,
    initialize="""
    self.name = args["model_instance_name"]
    with open(args["model_repository"] + "/instances", "a") as file:
        file.write(json.dumps([self.name, args["model_instance_kind"], args["model_instance_device_id"]]) + "\\n")
    """,
    imports="import json",
)


def telling(groups: str, *rest: str) -> Any:
    outputs = "OUT STRING 1;ROWS INT32 -1"
    return model(ANSWERING, config("IN INT32 -1", outputs, "max_batch_size: 4", f"instance_group [ {groups} ]", *rest))


ONE = "{ kind: KIND_CPU }"
BATCHER = "dynamic_batching { max_queue_delay_microseconds: 3000000 }"
MODELS = {
    "of_model": telling("{ kind: KIND_MODEL count: 2 }"),
    "automatic": telling("{ kind: KIND_AUTO }"),
    "few": telling("{ kind: KIND_CPU count: -2 }"),
    "same_name": telling('{ name: "x" kind: KIND_CPU count: 2 }, { name: "x" kind: KIND_CPU }'),
    "mixed": telling(
        "{ kind: KIND_CPU passive: true count: 2 }, { kind: KIND_CPU }, { kind: KIND_MODEL passive: true }"
    ),
    "passive": telling("{ kind: KIND_CPU passive: true }"),
    "second": telling("{ kind: KIND_CPU secondary_devices { kind: KIND_NVDLA device_id: 1 } host_policy: 'p' }"),
    "batch_input": telling(
        ONE,
        BATCHER,
        'batch_input { kind: BATCH_ELEMENT_COUNT target_name: "COUNT" data_type: TYPE_FP32 source_input: "IN" }',
        'batch_output { kind: BATCH_SCATTER_WITH_INPUT_SHAPE target_name: "ROWS" source_input: "IN" }',
    ),
}


def instances(client: Client, name: str) -> list[Any]:
    lines = (client.repository / name / "instances").read_text().splitlines()
    return sorted(json.loads(line) for line in lines)


def infer(client: Client, name: str, count: int = 1) -> list[Any]:
    pending = [client.submit(name, {"IN": np.zeros((1, 2), np.int32)}) for _ in range(count)]
    answers = [p.answer.result(60) for p in pending]
    assert [a.error for a in answers] == [""] * count
    assert all(a.outputs["ROWS"].tolist() == [[1]] for a in answers)
    return [json.loads(a.outputs["OUT"].flat[0]) for a in answers]


@pytest.mark.parametrize(
    ("name", "who"),
    [
        ("of_model", [["of_model_0_0", "MODEL", "0"], ["of_model_0_1", "MODEL", "0"]]),
        ("automatic", [["automatic_0_0", "CPU", "0"]]),
        ("few", [["few_0_0", "CPU", "0"]]),
        ("same_name", [["x_0", "CPU", "0"], ["x_0", "CPU", "0"], ["x_1", "CPU", "0"]]),
        ("second", [["second_0_0", "CPU", "0"]]),
    ],
)
@rule("5.1.4", "2.3.2")
def test_every_kind_is_served(client: Client, name: str, who: Any) -> None:
    assert instances(client, name) == who
    assert infer(client, name)[0][1] in [instance for instance, _, _ in who]


@rule("5.1.4")
def test_passive_instances_start_and_execute_nothing(client: Client) -> None:
    assert len(instances(client, "mixed")) == 4
    assert {instance for _, instance, _ in infer(client, "mixed", 6)} == {"mixed_1_0"}
    assert client.ready("passive")  # its first request crashes 2.51
    assert instances(client, "passive") == [["passive_0_0", "CPU", "0"]]


@rule("5.1.4", "5.5.5")
def test_batch_inputs_and_outputs_are_for_other_backends(client: Client) -> None:
    assert infer(client, "batch_input", 4) == [[4, "batch_input_0_0", ["IN"]]] * 4


@rule("5.3.2")
def test_profiles_are_for_tensorrt(side: Client) -> None:
    failure = side.placed(
        "profiled", telling(f"{{ kind: KIND_CPU profile: 'p' }}, {CPU.removeprefix('instance_group')}")
    )
    assert failure is not None
    assert failure.text == (
        "load failed for model 'profiled': version 1 is at UNAVAILABLE state: Invalid argument: instance group "
        "profiled_0 of model profiled and platform specifies profile field which is only supported for TensorRT "
        "models;\n"
    )
    side.unload("profiled")


@rule("5.3.3")
@pytest.mark.parametrize("wrong", ["environment", "import", "auto complete", "no file"])
def test_a_wrong_group_is_reported_before_anything_else_of_the_model(side: Client, wrong: str) -> None:
    files = telling("{ kind: KIND_CPU gpus: [ 0 ] }")
    if wrong == "environment":
        files["config.pbtxt"] += 'parameters { key: "EXECUTION_ENV_PATH" value: { string_value: "/nowhere" } }\n'
    elif wrong == "no file":
        files["1/other.py"] = files.pop("1/model.py")
    else:
        raising = (
            "\n    @staticmethod\n    def auto_complete_config(config):\n        raise RuntimeError('told later')\n"
        )
        files["1/model.py"] += "raise RuntimeError('told later')\n" if wrong == "import" else raising
    failure = side.placed("wrong", files)
    side.unload("wrong")
    assert failure is not None
    assert failure.text == (
        "load failed for model 'wrong': version 1 is at UNAVAILABLE state: Invalid argument: instance group wrong_0 of "
        "model wrong has kind KIND_CPU but specifies one or more GPUs;\n"
    )
