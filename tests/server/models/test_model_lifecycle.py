"""Loads of models with warmup, cache, resources and passive groups."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from tests.models import executes
from tests.serving import Lab, config, eventually, in_threads, instances
from tritonlab.core.config.model_config import from_json
from tritonlab.core.status import InvalidArgumentError, ModelLoadError, UnavailableError
from tritonlab.ipc.processes.stub_log import LogBook
from tritonlab.server.api.model import Model
from tritonlab.server.models.model_lifecycle import TRANSITIONS, ModelEvent, ModelState, ModelVersion
from tritonlab.testing import MockClock

#: Answers with the number of its call; `IN` 13 fails, 14 kills the stub, warming up or not.
COUNTING = executes(
    """
    self.calls += 1
    value = pb_utils.get_input_tensor_by_name(requests[0], "IN").as_numpy().flat[0]
    if value == 13:
        raise ValueError("thirteen")
    if value == 14:
        os.kill(os.getpid(), signal.SIGKILL)
    return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.float32([self.calls]))]) for _ in requests]
    """,
    initialize="self.calls = 0",
    imports="import os, signal",
)


def warming(how: str = "zero_data: true", count: int = 2) -> str:
    value = f'inputs {{ key: "IN" value {{ data_type: TYPE_FP32 dims: [ 1 ] {how} }} }}'
    return f'model_warmup {{ name: "w" batch_size: 1 count: {count} {value} }}'


def resources(text: str) -> str:
    return f"instance_group {{ kind: KIND_CPU rate_limiter {{ resources {{ {text} }} }} }}"


PASSIVE = "instance_group { kind: KIND_CPU passive: true }"
CACHED = "response_cache { enable: true }"

MakeLab = Callable[..., Lab]


@pytest.fixture
def lab_with(tmp_path: Path) -> Iterator[MakeLab]:
    made: list[Lab] = []

    def make(**options: Any) -> Lab:
        made.append(Lab(tmp_path, warm=0, **options))
        return made[-1]

    yield make
    for lab in made:
        lab.server.stop()


def load(lab: Lab, *parts: str, name: str = "m") -> Model:
    text = config("IN FP32 1", "OUT FP32 1", *parts)
    if "instance_group" in "".join(parts):
        text = text.replace("instance_group { kind: KIND_CPU count: 1 }\n", "", 1)
    return lab.load(name, COUNTING, text)


def call(model: Model, value: float = 0.0) -> float:
    """Return the number of the call that answered."""
    return float(model(IN=np.float32([value]))["OUT"][0])


def counts(model: Model) -> tuple[int, int]:
    """Return the numbers of executions and of successes."""
    (stats,) = model.statistics()["model_stats"]
    return stats["execution_count"], stats["inference_stats"]["success"]["count"]


def warnings(lab: Lab) -> list[str]:
    return [record.text for record in lab.server.logs("m") if record.level == "WARNING"]


# -- warmup


@pytest.mark.parametrize("count_warmup", [True, False])
def test_warmup_has_run_when_the_model_is_ready(lab_with: MakeLab, count_warmup: bool) -> None:
    model = load(lab_with(count_warmup=count_warmup), warming(count=3))
    assert counts(model) == ((3, 3) if count_warmup else (0, 0))
    assert call(model) == 4
    assert counts(model) == ((4, 4) if count_warmup else (1, 1))


def test_a_new_stub_warms_up_before_it_gets_requests(lab_with: MakeLab) -> None:
    model = load(lab_with(), warming(count=3))
    (instance,) = instances(model)
    assert instance.pid is not None
    os.kill(instance.pid, signal.SIGKILL)
    eventually(lambda: instance.replacement.count == 1)
    assert call(model) == 4
    assert counts(model) == (7, 7)


def test_a_failing_warmup_fails_the_load_with_the_authors_exception(lab_with: MakeLab) -> None:
    lab = lab_with()
    directory = lab.write("m", COUNTING, config("IN FP32 1", "OUT FP32 1", warming('input_data_file: "d"')))
    (directory / "warmup").mkdir()
    (directory / "warmup" / "d").write_bytes(np.float32([13]).tobytes())
    with pytest.raises(ModelLoadError) as error:
        lab.server.load("m")
    text = "failed to run warmup sample 'w': Failed to process the request(s) for model 'm_0_0', message: ValueError: "
    assert f"Invalid argument: {text}" in error.value.message
    assert error.value.exception is not None
    assert error.value.exception.type_name == "ValueError"


def test_a_stub_that_dies_warming_up_fails_the_load(lab_with: MakeLab) -> None:
    lab = lab_with()
    directory = lab.write("m", COUNTING, config("IN FP32 1", "OUT FP32 1", warming('input_data_file: "d"')))
    (directory / "warmup").mkdir()
    (directory / "warmup" / "d").write_bytes(np.float32([14]).tobytes())
    with pytest.raises(ModelLoadError) as error:
        lab.server.load("m")
    assert "failed to run warmup sample 'w': Stub process 'm_0_0' is not healthy.; " in error.value.message
    assert "SIGKILL" in error.value.reason


# -- response cache


def test_a_cached_answer_is_of_this_load(lab_with: MakeLab) -> None:
    lab = lab_with(cache_config="local,size=100000")
    model = load(lab, CACHED)
    assert [call(model), call(model, 1), call(model)] == [1, 2, 1]
    assert counts(model) == (2, 3)
    load(lab, CACHED, 'parameters { key: "p" value { string_value: "new" } }')
    assert [call(model, 2), call(model)] == [1, 2]
    assert "nv_cache_num_hits 1" in lab.server.metrics()


def test_the_warmup_is_not_cached(lab_with: MakeLab) -> None:
    model = load(lab_with(cache_config="local,size=100000"), CACHED, warming(count=1))
    assert [call(model), call(model)] == [2, 2]


def test_a_cache_that_the_server_does_not_have_is_reported(lab_with: MakeLab) -> None:
    lab = lab_with()
    model = load(lab, CACHED)
    assert [call(model), call(model)] == [1, 2]
    (warning,) = warnings(lab)
    assert warning.startswith("response_cache has no effect: the server has no cache. ")


def test_options_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="cache 'redis' does not exist"):
        Lab(tmp_path, cache_config="redis,size=4")
    with pytest.raises(InvalidArgumentError, match="unknown rate limit mode 'often'"):
        Lab(tmp_path, rate_limit="often")


# -- resources


def test_resources_that_will_never_be_there_fail_the_load(lab_with: MakeLab) -> None:
    lab = lab_with(rate_limit="execution_count", rate_limit_resource={"R": 1})
    with pytest.raises(ModelLoadError) as error:
        load(lab, resources('name: "R" count: 2'))
    assert error.value.message == (
        "load failed for model 'm': version 1 is at UNAVAILABLE state: Invalid argument: Resource count for \"R\" is "
        "limited to 1 which will prevent scheduling of one or more model instances, the minimum required count is 2;\n"
    )
    assert call(load(lab, resources('name: "R" count: 1'))) == 1


def test_off_ignores_them(lab_with: MakeLab) -> None:
    lab = lab_with(rate_limit_resource={"R": 1})
    assert call(load(lab, resources('name: "R" count: 2'))) == 1


def test_resources_go_with_the_model(lab_with: MakeLab) -> None:
    lab = lab_with(rate_limit="execution_count")
    model = load(lab, resources('name: "R" count: 2'))
    assert call(model) == 1
    lab.server.unload("m")
    model = load(lab, resources('name: "R" count: 1 global: true'))  # nobody uses it for a device any more
    assert call(model) == 1


#: Answers with how much of R is in use while it executes, by files.
SHARING = executes(
    """
    open(self.claim, "w").close()
    used = sum(int(name.rpartition(".")[2]) for name in os.listdir(self.claims))
    time.sleep(0.001)
    os.unlink(self.claim)
    return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.float32([[used]]))]) for _ in requests]
    """,
    initialize="""
    self.claims = os.path.dirname(args["model_repository"]) + "/claims"
    os.makedirs(self.claims, exist_ok=True)
    (group,) = json.loads(args["model_config"])["instance_group"]
    (resource,) = group["rate_limiter"]["resources"]
    self.claim = f"{self.claims}/{args['model_instance_name']}.{resource['count']}"
    """,
    imports="import json, os, time",
)


def test_instances_never_use_more_than_there_is(lab_with: MakeLab) -> None:
    lab = lab_with(rate_limit="execution_count")
    models = []
    for amount, rest in ((1, "dynamic_batching { }"), (2, ""), (3, "sequence_batching { oldest { } }")):
        group = resources(f'name: "R" count: {amount}')
        text = config("IN FP32 1", "OUT FP32 1", "max_batch_size: 4", rest, group)
        text = text.replace("instance_group { kind: KIND_CPU count: 1 }\n", "", 1)
        models.append(lab.load(f"asks_{amount}", SHARING, text))

    def client(number: int) -> list[float]:
        used = []
        for step in range(30):
            model = models[(number + step) % 3]
            ident = 1 + number * 100 + step if model.name == "asks_3" else 0
            inputs = {"IN": np.float32([[0]])}
            (response,) = model.infer(inputs=inputs, correlation_id=ident, flags=3 if ident else 0)
            used.append(float(response.outputs["OUT"].numpy().flat[0]))
        return used

    used = [amount for amounts in in_threads(6, client) for amount in amounts]
    assert len(used) == 180
    assert max(used) == 3


# -- passive groups


def test_passive_instances_start_and_get_no_requests(lab_with: MakeLab) -> None:
    model = load(lab_with(), "instance_group { kind: KIND_CPU }", PASSIVE, PASSIVE)
    assert [call(model) for _ in range(4)] == [1, 2, 3, 4]
    assert [instance["state"] for instance in model.instances()] == ["ready"] * 3


def test_where_all_are_passive_requests_are_refused(lab_with: MakeLab) -> None:
    model = load(lab_with(), PASSIVE)
    assert model.ready()
    with pytest.raises(UnavailableError, match="all instance groups of model 'm' are passive"):
        call(model)


def test_a_version_that_serves_cannot_load_again() -> None:
    assert (ModelState.READY, ModelEvent.LOADED) not in TRANSITIONS
    assert {state for state, event in TRANSITIONS if event is ModelEvent.UNLOAD} == {ModelState.READY}


def test_a_version_whose_load_failed_can_be_aborted(tmp_path: Path) -> None:
    """A server that stops aborts what it loads, and the load may just have ended."""

    def resolve(*args: object) -> None:
        raise UnavailableError("no")

    services = SimpleNamespace(
        instances=SimpleNamespace(clock=MockClock(), log=LogBook()),
        stats=lambda: None,
        backends=SimpleNamespace(resolve=resolve),
        gpus=None,
    )
    files = SimpleNamespace(name="m", identifier="m", config=from_json({"name": "m"}), directory=tmp_path)
    version = ModelVersion(cast(Any, files), 1, cast(Any, services), lambda version, reason: None)
    with pytest.raises(UnavailableError):
        version.load()
    version.abort()
    assert version.state is ModelState.UNAVAILABLE
