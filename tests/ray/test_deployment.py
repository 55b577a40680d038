from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.engines.models import DOUBLE, DOUBLE_CONFIG, TOTAL, TOTAL_CONFIG
from tests.ray_modules import fake_ray
from tests.serving import write_model
from tritonlab.core.status import InvalidArgumentError


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Any:
    fake_ray(monkeypatch)
    from tritonlab.ray import deployment

    return deployment


def test_it_scales_on_what_the_models_execute_at_once(make: Any, tmp_path: Path) -> None:
    write_model(tmp_path, "double", DOUBLE, DOUBLE_CONFIG)
    found = make.make_application(tmp_path, num_cpus=2, num_gpus=0.5, max_replicas=3)
    assert found.args == (str(tmp_path), ())
    assert found.options["ray_actor_options"] == {"num_cpus": 2, "num_gpus": 0.5}
    scaling = found.options["autoscaling_config"]
    assert (scaling["min_replicas"], scaling["max_replicas"], scaling["target_ongoing_requests"]) == (1, 3, 8)
    assert found.options["max_ongoing_requests"] == 32
    assert make.make_application("/not/here").options["autoscaling_config"]["target_ongoing_requests"] == 2
    overridden = make.make_application(tmp_path, autoscaling_config={"upscale_delay_s": 9.0})
    assert overridden.options["autoscaling_config"]["upscale_delay_s"] == 9.0


def test_a_model_that_keeps_sequences_is_refused_unless_it_is_left_out(make: Any, tmp_path: Path) -> None:
    write_model(tmp_path, "total", TOTAL, TOTAL_CONFIG)
    write_model(tmp_path, "double", DOUBLE, DOUBLE_CONFIG)
    with pytest.raises(InvalidArgumentError, match="the model 'total' keeps sequences, and Ray Serve"):
        make.make_application(tmp_path, target_ongoing_requests=2)
    assert make.make_application(tmp_path, ["double"]).args[1] == ("double",)


def test_the_arguments_of_a_serve_yaml(make: Any) -> None:
    assert make.application({"model_repository": "/models", "num_cpus": 1}).args == ("/models", ())
    with pytest.raises(InvalidArgumentError, match="'cpus' is not one of them"):
        make.application({"model_repository": "/models", "cpus": 1})
    with pytest.raises(InvalidArgumentError, match="model_repository is missing"):
        make.application({})


def test_without_ray_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[:2] == ["tritonlab", "ray"]]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ModuleNotFoundError, match=r"tritonlab\.ray needs Ray: pip install 'tritonlab\[ray\]'"):
        importlib.import_module("tritonlab.ray")
