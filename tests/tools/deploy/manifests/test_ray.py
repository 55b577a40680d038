from __future__ import annotations

from inspect import signature
from typing import Any

import pytest

from tests.ray_modules import fake_ray
from tritonlab.tools.deploy.manifests.facts import DeployedModel
from tritonlab.tools.deploy.manifests.files import deploy_files

from .deployments import CONFIG, deployment, on_gpu, read

PATH = "deploy/ray/serve.yaml"


def application(**more: Any) -> dict[str, Any]:
    document = read(deploy_files(deployment(**more), ["ray"])[PATH])
    assert document["http_options"] == {"host": "127.0.0.1", "port": 8000}
    (found,) = document["applications"]
    return dict(found)


def test_the_arguments_are_those_of_the_application(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_ray(monkeypatch)
    from tritonlab.ray import make_application

    found = application()
    assert found["import_path"] == "tritonlab.ray:application"
    assert set(found["args"]) < set(signature(make_application).parameters)
    assert found["args"]["models"] == ["digits.v2", "counter"]
    assert found["args"]["target_ongoing_requests"] == 8 * 2


def test_a_model_on_a_gpu_reserves_one() -> None:
    assert application()["args"]["num_gpus"] == 0
    assert application(models=on_gpu().models)["args"]["num_gpus"] == 1


def test_a_model_that_keeps_sequences_is_refused() -> None:
    keeps = DeployedModel("total", {**CONFIG, "sequence_batching": {}})
    with pytest.raises(ValueError, match="the model 'total' keeps sequences"):
        deploy_files(deployment(models=[keeps]), ["ray"])
