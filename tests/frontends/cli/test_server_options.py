from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tritonlab.core.observe.trace_settings import TraceSetting
from tritonlab.core.status import InvalidArgumentError
from tritonlab.frontends.cli.flag_values import CommandLineError
from tritonlab.frontends.cli.server_options import EndpointOptions, read_endpoint_options, read_options
from tritonlab.frontends.shared.access import AccessRules

PLAIN = AccessRules()


def server(*arguments: str) -> dict[str, Any]:
    return read_options(arguments).server


def test_tritons_defaults_hold_but_for_the_address() -> None:
    options = read_options(["--model-repository=/models"])
    assert options.endpoints == EndpointOptions()
    assert (options.endpoints.http_address, options.endpoints.grpc_address) == ("127.0.0.1", "127.0.0.1")
    assert (options.endpoints.http_port, options.endpoints.grpc_port, options.endpoints.metrics_port) == (
        8000,
        8001,
        8002,
    )
    assert (options.exit_on_error, options.exit_timeout, options.help) == (True, 30, False)
    assert options.server["repositories"] == ["/models"]
    assert options.server["model_control_mode"] == "none" and options.server["repository_poll_secs"] == 15


def test_start_up_models_belong_to_the_explicit_mode() -> None:
    with pytest.raises(CommandLineError, match=r"Use of '--load-model' requires setting '--model-control-mode=explici"):
        server("--load-model=a")
    assert server("--load-model=a", "--load-model=b", "--model-control-mode=explicit")["startup_models"] == ["a", "b"]


def test_settings_of_each_backend_and_of_all_are_passed_on() -> None:
    flags = [
        "--backend-config=python,shm-growth-byte-size=2",
        "--backend-config=onnxruntime,x=1",
        "--backend-config=onnxruntime,z=0",
        "--backend-config=y=2",
    ]
    assert server(*flags)["backend_config"] == {
        "y": "2",
        "python": {"shm-growth-byte-size": "2"},
        "onnxruntime": {"x": "1", "z": "0"},
    }


def test_both_flags_switch_the_completion_of_configs_off() -> None:
    assert server()["strict_model_config"] is False
    assert server("--disable-auto-complete-config")["strict_model_config"] is True
    assert server("--strict-model-config=true")["strict_model_config"] is True


def test_how_models_are_read_and_loaded() -> None:
    assert server()["model_config_name"] == ""
    assert server("--model-config-name=h100")["model_config_name"] == "h100"
    assert server()["model_namespacing"] is False
    assert (server()["simulated_gpus"], server("--simulated-gpus=2")["simulated_gpus"]) == (0, 2)
    assert server("--model-namespacing=true")["model_namespacing"] is True
    assert server()["model_load_retry_count"] == 0
    assert server("--model-load-retry-count=3")["model_load_retry_count"] == 3


def test_the_cache_under_its_old_name_too() -> None:
    assert server()["cache_config"] == ""
    assert server("--cache-config=local,size=1048576")["cache_config"] == "local,size=1048576"
    assert server("--response-cache-byte-size=1048576")["cache_config"] == "local,size=1048576"


def test_resources_for_every_device_or_for_one() -> None:
    flags = ["--rate-limit-resource=A:4", "--rate-limit-resource=B:1:0", "--rate-limit-resource=B:2:1"]
    assert server(*flags)["rate_limit_resource"] == {"A": 4, "B": {0: 1, 1: 2}}


def test_trace_settings() -> None:
    flags = ["--trace-config=triton,file=/t", "--trace-config=triton,log-frequency=5", "--trace-config=rate=2"]
    flags += ["--trace-config=level=TIMESTAMPS", "--trace-config=level=tensors", "--trace-config=count=3"]
    assert server(*flags)["trace_setting"] == TraceSetting(("TIMESTAMPS", "TENSORS"), 2, 3, 5, "/t")
    for level in ("MIN", "max"):
        for flag in (f"--trace-config=level={level}", f"--trace-level={level}"):
            assert server(flag, "--trace-file=/t")["trace_setting"].level == ("TIMESTAMPS",)
    assert server("--trace-config=level=TENSORS", "--trace-config=level=OFF")["trace_setting"] == TraceSetting()


def test_trace_settings_under_their_old_names() -> None:
    flags = ["--trace-file=/t", "--trace-rate=2", "--trace-level=TENSORS", "--trace-count=3", "--trace-log-frequency=4"]
    assert server(*flags)["trace_setting"] == TraceSetting(("TENSORS",), 2, 3, 4, "/t")


def test_trace_settings_of_opentelemetry() -> None:
    flags = ["--trace-config=mode=opentelemetry", "--trace-config=opentelemetry,url=localhost:4318/v1/traces"]
    setting = server(*flags, "--trace-config=triton,file=/t")["trace_setting"]
    assert (setting.mode, setting.options) == ("opentelemetry", (("url", "localhost:4318/v1/traces"),))


def test_log_and_metrics_settings() -> None:
    found = server("--log-verbose=2", "--log-info=0", "--log-format=ISO8601", "--metrics-config=summary_latencies=true")
    assert (found["log_setting"].log_verbose_level, found["log_setting"].log_info) == (2, False)
    assert found["log_setting"].log_format == "ISO8601"
    assert found["metrics_config"].summary_latencies
    with pytest.raises(InvalidArgumentError, match="summary_quantiles"):
        server("--metrics-config=summary_quantiles=half")


def endpoints(*arguments: str, access: AccessRules = PLAIN) -> EndpointOptions:
    return read_endpoint_options(arguments, access)


def test_endpoints_alone() -> None:
    options = endpoints("--http-port", "0", "--allow-grpc=false", "--allowed-origin=https://lab.example")
    assert (options.http_port, options.grpc) == (0, False)
    assert options.access == AccessRules(origins=("https://lab.example",))
    with pytest.raises(CommandLineError, match="unrecognized option '--model-repository=x'"):
        endpoints("--model-repository=x")


def test_the_size_of_messages() -> None:
    assert endpoints().max_message_size is None
    assert endpoints("--max-message-size=1000").max_message_size == 1000
    assert endpoints().max_unread_size is None
    assert endpoints("--max-unread-size=1000").max_unread_size == 1000


def test_what_is_restricted_reaches_its_frontend() -> None:
    flags = ["--http-restricted-api=health,trace:k=v", "--grpc-restricted-protocol=inference:a=b"]
    options = endpoints(*flags, "--http-header-forward-pattern=^x-", "--grpc-keepalive-time=7")
    assert options.http_options.restricted_api == {"health": ("k", "v"), "trace": ("k", "v")}
    assert options.http_options.header_forward_pattern == "^x-"
    assert options.grpc_options.restricted == {"inference": ("a", "b")}
    assert options.grpc_options.keepalive_time_ms == 7
    assert not options.http_options.reuse_port and not options.grpc_options.reuse_port
    options = endpoints("--reuse-http-port=true", "--reuse-grpc-port=true")
    assert options.http_options.reuse_port and options.grpc_options.reuse_port
    with pytest.raises(CommandLineError, match="is not a regular expression"):
        endpoints("--http-header-forward-pattern=(")


def test_absent_access_rules_stay() -> None:
    notebook = AccessRules(token="made", model_control=False, settings=False)
    assert endpoints(access=notebook).access == notebook
    assert endpoints("--allow-model-control=true", access=notebook).access == replace(notebook, model_control=True)
    assert endpoints("--allow-settings=1", access=notebook).access == replace(notebook, settings=True)
    assert endpoints("--no-token", access=notebook).access == replace(notebook, token="")
    found = read_options(["--model-repository=x", "--allow-model-control=0", "--allow-settings=off"]).endpoints.access
    assert found == AccessRules(model_control=False, settings=False)


def test_a_token_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.touch(0o600)
    path.write_text("s3cret\n")
    assert read_options(["--model-repository=x", f"--token-file={path}"]).endpoints.access.token == "s3cret"
    path.write_text("\n")
    with pytest.raises(CommandLineError, match=f"^--token-file: there is no token in '{path}'$"):
        endpoints(f"--token-file={path}")
    with pytest.raises(CommandLineError, match=r"^--token-file: .*No such file"):
        endpoints("--token-file=nowhere")
    path.write_text("two words")
    with pytest.raises(InvalidArgumentError, match="a token must consist of") as refusal:
        endpoints(f"--token-file={path}")
    assert "two words" not in str(refusal.value)


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620, 0o601, 0o777])
def test_a_token_file_that_others_may_read_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "the token"
    path.write_text("s3cret\n")
    path.chmod(mode)
    with pytest.raises(CommandLineError) as refusal:
        endpoints(f"--token-file={path}")
    wanted = f"--token-file: '{path}' has mode {mode:04o}, so others may read or change it; chmod 600 '{path}'"
    assert str(refusal.value) == wanted
    subprocess.run(str(refusal.value).rpartition("; ")[2], shell=True, check=True)
    assert endpoints(f"--token-file={path}").access.token == "s3cret"
    link = tmp_path / "link"
    link.symlink_to(path)
    path.chmod(mode)
    with pytest.raises(CommandLineError, match=f"mode {mode:04o}"):
        endpoints(f"--token-file={link}")


def test_a_token_may_come_through_a_pipe_or_from_another_user_s_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As ssh has it: the mode of a file that root has put there, a mounted secret for instance, is root's affair."""
    reading, writing = os.pipe()
    os.write(writing, b"s3cret\n")
    os.close(writing)
    try:
        assert endpoints(f"--token-file=/dev/fd/{reading}").access.token == "s3cret"
    finally:
        os.close(reading)
    path = tmp_path / "token"
    path.write_text("s3cret")
    path.chmod(0o440)
    monkeypatch.setattr(os, "geteuid", lambda: path.stat().st_uid + 1)
    assert endpoints(f"--token-file={path}").access.token == "s3cret"


def test_no_token_is_a_notebook_s_word() -> None:
    with pytest.raises(CommandLineError, match="unrecognized option '--no-token'"):
        read_options(["--model-repository=x", "--no-token"])


def test_what_answers_for_models_of_other_backends() -> None:
    choices = ["--backend-choice=mlp=stand-in:echo", "--backend-choice", "tensorrt=borrow:host:8001"]
    found = read_options(["--model-repository=/models", *choices]).server["backends"]
    assert found == {"mlp": "stand-in:echo", "tensorrt": "borrow:host:8001"}
