from __future__ import annotations

import dataclasses
import gc
import json
import operator
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tritonlab.tritonserver as tritonserver
from tests.models import executes, initializes
from tests.serving import eventually, stub_processes, write_model
from tests.tritonserver.models import ECHO, ECHO_CONFIG, one_answer
from tritonlab.tritonserver import (
    InstanceGroupKind,
    InternalError,
    InvalidArgumentError,
    LogFormat,
    Model,
    ModelBatchFlag,
    ModelControlMode,
    ModelTxnPropertyFlag,
    NotFoundError,
    Options,
    RateLimiterResource,
    RateLimitMode,
    Server,
    UnavailableError,
    UnsupportedError,
)
from tritonlab.tritonserver._c.triton_bindings import TRITONSERVER_LogLevel as LogLevel

BROKEN = initializes("raise ValueError('no')")


# -- options


@pytest.mark.rule("6.16.1")
def test_options_are_positional_and_may_be_changed() -> None:
    options = Options("/models", "me", ModelControlMode.POLL, ["a"])
    assert (options.model_repository, options.server_id, options.startup_models) == ("/models", "me", ["a"])
    options.exit_timeout = 3
    assert Server(options).options is options
    assert len(dataclasses.fields(options)) == 37
    with pytest.raises(AttributeError):
        options.exit_time = 3  # type: ignore[attr-defined]
    assert Server(model_repository="x").options == Options("x")
    assert Options() == Options() and Options().startup_models is not Options().startup_models
    with pytest.raises(TypeError):
        Server(repository="x")


WRONG: dict[str, Any] = {
    "model_repository": [1, ["a", 1], Path("x"), ("a",)],
    "server_id": [1, None],
    "model_control_mode": ["none", 0],
    "startup_models": [[1]],
    "strict_model_config": ["yes", []],
    "rate_limiter_mode": [1],
    "rate_limiter_resources": [[RateLimiterResource("a", -1, 0)], [RateLimiterResource(1, 1, 0)]],  # type: ignore[arg-type]
    "pinned_memory_pool_size": [-1, 1.5, "1"],
    "cuda_memory_pool_sizes": [{0: -1}, {"0": 1}],
    "cache_config": [{1: {}}],
    "cache_directory": [None],
    "min_supported_compute_capability": ["6", None],
    "exit_on_error": ["no"],
    "strict_readiness": ["no"],
    "exit_timeout": [-1, 2**32],
    "buffer_manager_thread_count": [-1],
    "model_load_thread_count": ["4"],
    "model_load_retry_count": [-1],
    "model_namespacing": ["no"],
    "enable_peer_access": ["no"],
    "log_file": [1],
    "log_info": ["yes"],
    "log_warn": ["yes"],
    "log_error": ["yes"],
    "log_format": [0],
    "log_verbose": [2**31],
    "log_callback": ["print", 1],
    "metrics": ["yes"],
    "gpu_metrics": ["yes"],
    "cpu_metrics": ["yes"],
    "metrics_interval": [-1],
    "backend_directory": [Path("x")],
    "repo_agent_directory": [1],
    "model_load_device_limits": [[tritonserver._api._server.ModelLoadDeviceLimit(1, 0, 0.5)]],  # type: ignore[arg-type]
    "backend_configuration": [{"python": {"a": 1}}],
    "host_policies": [{1: {}}],
    "metrics_configuration": [{"a": {1: "x"}}],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in WRONG.items() for value in values])
@pytest.mark.rule("6.16.1")
def test_an_option_of_another_type(repository: Path, name: str, value: Any) -> None:
    server = Server(**{"model_repository": str(repository), name: value})
    with pytest.raises(TypeError, match="must be"):
        server.start()


def test_every_option_has_a_wrong_type() -> None:
    assert set(WRONG) == {field.name for field in dataclasses.fields(Options)}


@pytest.mark.rule("6.16.1")
def test_repositories_that_are_not_there(tmp_path: Path) -> None:
    for none in (None, []):
        with pytest.raises(InvalidArgumentError, match=r"odel.repository must be specified"):
            Server(model_repository=none).start()
    with pytest.raises(InternalError, match=r"^failed to stat file no/such/dir$"):
        Server(model_repository="no/such/dir").start()
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(InvalidArgumentError, match="repository path is not a valid directory"):
        Server(model_repository=[str(tmp_path), str(file)]).start()


def test_options_reach_the_server(repository: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "log"
    server = Server(
        model_repository=str(repository),
        server_id="named",
        model_control_mode=ModelControlMode.EXPLICIT,
        startup_models=["echo"],
        rate_limiter_mode=RateLimitMode.EXEC_COUNT,
        rate_limiter_resources=[RateLimiterResource("R", 1, -1), RateLimiterResource("S", 2, 0)],
        cache_config={"local": {"size": 1 << 20}},
        log_file=str(log),
        log_verbose=1,
        log_format=LogFormat.ISO8601,
        metrics_configuration={"": {"summary_latencies": "true"}},
        backend_configuration={"python": {"shm-default-byte-size": "1048576"}},
        model_load_device_limits=[tritonserver._api._server.ModelLoadDeviceLimit(InstanceGroupKind.GPU, 0, 0.5)],
        host_policies={"gpu_0": {"numa-node": "0"}},
    ).start(wait_until_ready=True)
    try:
        assert server.metadata()["name"] == "named" and "version" in server.metadata()
        assert server.model("echo").ready()
        assert "successfully loaded 'echo' version 1" in log.read_text()
        assert "nv_inference_request_summary_us" in server.metrics()
        assert "nv_cache_num_hits_per_model" not in server.metrics()
        assert (server.options.log_info, server.options.log_warn, server.options.log_error) == (True, True, True)
        assert server.options.model_repository == [str(repository)]
    finally:
        server.stop()
    assert "successfully loaded" not in capfd.readouterr().err


# -- life


@pytest.mark.rule("6.16.2")
def test_a_server_that_was_not_started(options: Options) -> None:
    server = Server(options)
    for call in (
        server.live, server.ready, server.metadata, server.metrics, server.models, server.stop,
        server.poll_model_repository, lambda: server.model("echo"), lambda: server.load("echo"),
        lambda: server.unload("echo"), lambda: server.register_model_repository("x"),
        lambda: server.unregister_model_repository("x"), lambda: Model(server, "echo"), server._ptr,
    ):  # fmt: skip
        with pytest.raises(InvalidArgumentError, match=r"^Server not started$"):
            call()


@pytest.mark.rule("6.16.2")
def test_start_and_stop(options: Options) -> None:
    server = Server(options)
    assert server.start() is server
    assert server.live() and server.ready()
    with pytest.raises(InvalidArgumentError, match=r"^Server already started$"):
        server.start()
    with pytest.raises(UnsupportedError, match="there is no C API server"):
        server._ptr()
    server.stop()
    with pytest.raises(InvalidArgumentError, match=r"^Server not started$"):
        server.ready()
    server.start(wait_until_ready=True, polling_interval=0.01, timeout=10)
    assert server.ready()
    server.stop()


@pytest.mark.rule("6.16.2")
def test_a_server_that_nobody_holds_ends(options: Options) -> None:
    before = set(stub_processes())
    server = Server(options).start()
    model = server.load("echo", one_answer())
    assert not before.issuperset(stub_processes())
    del server
    gc.collect()
    assert model.ready()  # a model holds it
    request = model.create_request(inputs={"IN_INT64": [[1]]})
    del model
    assert request.model.ready()
    del request
    eventually(lambda: before.issuperset(stub_processes()))


@pytest.mark.rule("6.16.2")
def test_models_that_fail_at_the_start(tmp_path: Path) -> None:
    write_model(tmp_path, "broken", BROKEN)
    with pytest.raises(InternalError, match=r"^failed to load all models$"):
        Server(model_repository=str(tmp_path)).start()
    server = Server(model_repository=str(tmp_path), exit_on_error=False)
    with pytest.raises(UnavailableError, match=r"^Timeout before ready$"):
        server.start(wait_until_ready=True, polling_interval=0.01, timeout=0.05)
    assert server.live() and not server.ready()
    server.stop()


# -- models


@pytest.mark.rule("6.16.3")
def test_models_by_name_and_version(server: Server) -> None:
    models = server.models()
    assert set(models) >= {("echo", 1), ("never_loaded", -1)}
    echo = models["echo", 1]
    assert (echo.name, echo.version, echo.state, echo.reason) == ("echo", 1, "READY", None)
    assert str(echo) == repr(echo) == "{'name': 'echo', 'version': 1, 'state': 'READY'}"
    assert (models["echo"].version, models["echo"].state) == (-1, None)
    assert models["never_loaded", -1].state is None
    for missing in ("missing", ("echo", 2), ("missing", -1)):
        with pytest.raises(KeyError, match="Unknown Model: "):
            models[missing]
    assert set(server.models(exclude_not_ready=True)) == {("echo", 1)}


@pytest.mark.rule("6.16.3")
def test_what_a_model_says_of_itself(server: Server, echo: Model) -> None:
    metadata = echo.metadata()
    assert (metadata["name"], metadata["versions"], metadata["platform"]) == ("echo", ["1"], "python")
    assert echo.config()["backend"] == "python" and echo.config(config_version=1) == echo.config()
    assert echo.batch_properties() is ModelBatchFlag.UNKNOWN
    assert echo.transaction_properties() is ModelTxnPropertyFlag.ONE_TO_ONE
    list(echo.infer(inputs={"IN_INT64": [[1]]}))
    assert echo.statistics()["model_stats"][0]["inference_count"] >= 1
    assert server.model("echo", 1).ready() and not server.model("echo", 2).ready()
    assert not server.model("missing").ready()
    with pytest.raises(InvalidArgumentError, match="configuration version 2 not supported, supported versions are: 1"):
        echo.config(2)
    with pytest.raises(TypeError):
        echo.config("1")  # type: ignore[arg-type]
    missing = server.model("missing")
    for call in (missing.metadata, missing.config, missing.batch_properties, missing.transaction_properties):
        with pytest.raises(NotFoundError, match="Request for unknown model: 'missing' is not found"):
            call()
    with pytest.raises(InvalidArgumentError, match="requested model 'missing' is not available"):
        missing.statistics()


def test_a_model_that_batches(server: Server) -> None:
    config = {"backend": "python", "max_batch_size": 4, "input": [{"name": "A", "data_type": "TYPE_FP32", "dims": [1]}]}
    model = server.load("batching", {"config": json.dumps(config), "file:1/model.py": executes("return []").encode()})
    assert model.batch_properties() is ModelBatchFlag.FIRST_DIM
    server.unload(model, wait_until_unloaded=True, polling_interval=0.01)
    assert not model.ready()


# -- model control


def test_load_and_unload(server: Server) -> None:
    model = server.load("never_loaded")
    assert str(model) == "{'name': 'never_loaded', 'version': -1, 'state': None}" and model.ready()
    server.unload("never_loaded")
    server.unload(model, unload_dependents=True, wait_until_unloaded=True, polling_interval=0.01, timeout=10)
    assert server.models()["never_loaded", 1].state == "UNAVAILABLE"
    server.unload("missing", wait_until_unloaded=True)


def test_a_failed_load_is_recognised_by_its_code(server: Server) -> None:
    with pytest.raises(InternalError, match="failed to load 'missing', failed to poll from model repository") as caught:
        server.load("missing")
    assert not isinstance(caught.value, InvalidArgumentError)
    with pytest.raises(InvalidArgumentError, match="load failed for model 'broken': version 1") as refused:
        server.load("broken", {"config": "{}", "file:1/model.py": BROKEN.encode()})
    assert not isinstance(refused.value, InternalError)


@pytest.mark.parametrize(
    ("parameters", "error", "reason"),
    [
        ({"foo": 1}, InternalError, "Unrecognized load parameter 'foo' with type 'INT'"),
        ({"config": b"{}"}, InternalError, "Unrecognized load parameter 'config' with type 'BYTES'"),
        ({"config": None}, TypeError, ""),
        ({"config": 1.5}, TypeError, ""),
        ({1: "x"}, TypeError, ""),
        ({"file:1/model.py": b""}, InternalError, "Load parameter 'config' must be specified for model file override"),
    ],
)
@pytest.mark.rule("6.16.3")
def test_load_parameters(server: Server, parameters: Any, error: type[Exception], reason: str) -> None:
    with pytest.raises(error) as caught:
        server.load("echo", parameters)
    assert getattr(caught.value, "reason", "") == reason


def test_only_what_the_mode_allows(repository: Path) -> None:
    server = Server(model_repository=str(repository)).start()
    try:
        with pytest.raises(UnavailableError):
            server.load("echo")
        with pytest.raises(UnavailableError):
            server.poll_model_repository()
        with pytest.raises(UnsupportedError):
            server.register_model_repository(str(repository))
        assert server.models().keys() == {("echo", 1), ("never_loaded", 1)}
    finally:
        server.stop()


def test_polling(tmp_path: Path) -> None:
    server = Server(model_repository=str(tmp_path), model_control_mode=ModelControlMode.POLL).start()
    write_model(tmp_path, "late", ECHO, ECHO_CONFIG)
    server.poll_model_repository()
    eventually(lambda: server.model("late").ready())
    server.stop()


def test_repositories(server: Server, tmp_path: Path) -> None:
    write_model(tmp_path, "folder", ECHO, ECHO_CONFIG)
    server.register_model_repository(str(tmp_path), {"folder": "by_another_name"})
    assert ("by_another_name", -1) in server.models() and "folder" not in {name for name, _ in server.models()}
    with pytest.raises(tritonserver.AlreadyExistsError):
        server.register_model_repository(str(tmp_path))
    server.unregister_model_repository(str(tmp_path))
    with pytest.raises(InvalidArgumentError, match="failed to unregister"):
        server.unregister_model_repository(str(tmp_path))
    for call in (server.register_model_repository, server.unregister_model_repository):
        with pytest.raises(TypeError):
            call(tmp_path)
    with pytest.raises(TypeError):
        server.register_model_repository(str(tmp_path), {"folder": 1})  # type: ignore[dict-item]


def test_metrics(server: Server, repository: Path) -> None:
    assert 'nv_inference_request_success{model="echo"' in server.metrics(tritonserver.MetricFormat.PROMETHEUS)
    with pytest.raises(TypeError):
        server.metrics("json")  # type: ignore[arg-type]
    silent = Server(Options(str(repository), model_control_mode=ModelControlMode.EXPLICIT, metrics=False)).start()
    assert silent.metrics() == ""
    silent.stop()


def test_memory_of_two_servers_is_apart(options: Options, server: Server) -> None:
    other = Server(options).start()
    assert ("echo", -1) in other.models() and ("echo", 1) in server.models()
    other.load("echo", one_answer())
    (response,) = other.model("echo").infer(inputs={"IN_INT64": [[1]]})
    other.stop()
    assert np.from_dlpack(response.outputs["OUT_INT64"]).tolist() == [[1]]
    assert server.model("echo").ready()


# -- the log for a program


def test_records_go_to_the_callback_with_the_levels_that_are_logged(
    repository: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    records: list[tuple[Any, ...]] = []
    log = tmp_path / "log"
    server = Server(
        model_repository=str(repository),
        startup_models=["echo"],
        model_control_mode=ModelControlMode.EXPLICIT,
        log_info=True,
        log_file=str(log),
        log_callback=lambda *record: records.append(record),
    ).start(wait_until_ready=True)
    server.stop()
    loaded = next(record for record in records if "successfully loaded 'echo' version 1" in record[4])
    level, file, line, moment, _ = loaded
    assert (level, file, line) == (LogLevel.INFO, "tritonlab", 0)
    assert abs(moment / 1000 - time.time()) < 3600
    assert log.read_text() == "" and "successfully loaded" not in capfd.readouterr().err


def test_a_callback_that_fails_loses_no_record(repository: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def fail(*record: object) -> None:
        raise ValueError("full")

    server = Server(
        model_repository=str(repository),
        startup_models=["echo"],
        model_control_mode=ModelControlMode.EXPLICIT,
        log_info=True,
        log_callback=fail,
    ).start(wait_until_ready=True)
    server.stop()
    written = capfd.readouterr().err
    assert "successfully loaded 'echo' version 1" in written and "ValueError: full" in written


def test_an_error_has_no_integer_as_its_code() -> None:
    """Dynamo takes exceptions with such a code and a message for its own."""
    error = InvalidArgumentError("x")
    with pytest.raises(TypeError):
        operator.index(error.code)  # type: ignore[call-overload]
    assert int(error.code) == 3
