"""A server that lets no model complete its configuration."""

from __future__ import annotations

from .clients import Client
from .models import config, model
from .rules import rule

OPTIONS = (["--strict-model-config=true"], {"strict_model_config": True})

COMPLETING = """
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    @staticmethod
    def auto_complete_config(auto_complete_model_config):
        auto_complete_model_config.set_max_batch_size(8)
        auto_complete_model_config.add_output({"name": "MORE", "data_type": "TYPE_FP32", "dims": [1]})
        return auto_complete_model_config

    def execute(self, requests):
        return [pb_utils.InferenceResponse([]) for _ in requests]
"""
MODELS = {
    "batching": model(COMPLETING, config("IN FP32 1", "OUT FP32 1", "max_batch_size: 4", "dynamic_batching { }")),
}


@rule("5.1.5", "5.1.3", "5.1.4")
def test_defaults_are_filled_in_all_the_same(client: Client) -> None:
    found = client.config("batching")
    assert isinstance(found, dict)
    assert (found["max_batch_size"], [output["name"] for output in found["output"]]) == (4, ["OUT"])
    assert found["dynamic_batching"]["preferred_batch_size"] == [4]
    assert found["version_policy"] == {"latest": {"num_versions": 1}}
    (group,) = found["instance_group"]
    assert (group["name"], group["kind"], group["count"]) == ("batching", "KIND_CPU", 1)


@rule("5.1.5", "2.5.3")
def test_there_must_be_a_configuration(side: Client) -> None:
    failure = side.placed("bare", model(COMPLETING))
    assert failure is not None
    assert (failure.code, failure.text) == ("INTERNAL", "failed to load 'bare', failed to poll from model repository")
    assert failure.reason == (
        "failed to open text file for read <repository>/bare/config.pbtxt: No such file or directory"
    )
