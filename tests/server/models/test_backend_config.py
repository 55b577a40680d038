from __future__ import annotations

import pytest

from tests.conformance.rules import rule
from tests.serving import Lab
from tritonlab.core.status import InvalidArgumentError, ModelLoadError
from tritonlab.ipc.processes.stub_launcher import ShmSettings
from tritonlab.server.api.server import Server
from tritonlab.server.models.backend_config import check_stub_name, settings_of, shm_settings

#: setting, text for it
REFUSED = {
    "default below": ("shm-default-byte-size", "1048575", "shm-default-byte-size can't be smaller than 4 MiBs"),
    "growth of nothing": ("shm-growth-byte-size", "0", "shm-growth-byte-size can't be smaller than or equal to zero."),
    "no timeout": ("stub-timeout-seconds", "0", "stub-timeout-seconds can't be smaller than or equal to zero."),
    "no threads": ("thread-pool-size", "0", "thread-pool-size can't be less than 1."),
    "no prefix": ("shm-region-prefix-name", "", "shm-region-prefix-name must at least contain one character."),
    "prefix with a blank command": (
        "shm-region-prefix-name",
        "a$(b)",
        "Invalid shared memory region name: contains invalid characters",
    ),
    "no number": ("thread-pool-size", "many", "thread-pool-size must be a whole number, got 'many'"),
}


@rule("2.9")
@pytest.mark.parametrize("case", REFUSED)
def test_a_wrong_setting_is_refused_when_the_server_is_made(case: str) -> None:
    key, value, text = REFUSED[case]
    with pytest.raises(InvalidArgumentError) as caught:
        Server(backend_config={key: value}, warm=0)
    assert caught.value.message == text


@rule("2.9")
def test_the_settings_that_matter_here_arrive() -> None:
    assert shm_settings({}) == ShmSettings(1 << 20, 1 << 20, None)
    found = shm_settings(
        {
            "shm-default-byte-size": "2097152",
            "shm-growth-byte-size": "1",
            "shm-limit-byte-size": "4194304",
            "shm-region-prefix-name": "mine",
            "stub-timeout-seconds": "1",
            "thread-pool-size": "1",
            "shm_message_queue_size": "10",
            "default-max-batch-size": "4",
        }
    )
    assert found == ShmSettings(2 << 20, 1, 4 << 20)
    sizes = {"shm-growth-byte-size": "3", "python": {"shm-growth-byte-size": "2"}, "onnxruntime": {"x": "1"}}
    assert shm_settings(sizes) == ShmSettings(1 << 20, 2, None)


def test_a_backend_sees_its_own_settings_before_those_of_all() -> None:
    settings = {"x": "1", "y": "2", "onnxruntime": {"y": "3"}, "pytorch": {"z": "4"}}
    assert settings_of(settings, "onnxruntime") == {"x": "1", "y": "3"}
    assert settings_of(settings, "identity") == {"x": "1", "y": "2"}
    with pytest.raises(InvalidArgumentError, match="the backend setting x is 8, expected a text"):
        settings_of({"onnxruntime": {"x": 8}}, "onnxruntime")  # type: ignore[dict-item]


@rule("2.9.2")
@pytest.mark.parametrize("character", ";|&$`<>()[]{}\\\"'*?~#!")
def test_a_name_may_not_hold_what_a_shell_would_read(character: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        check_stub_name(f"model{character}test")
    assert caught.value.message == "Invalid stub name: contains invalid characters"


@rule("2.9.2")
def test_such_a_model_or_instance_is_not_loaded(lab: Lab) -> None:
    for name, more in (("m;x", ""), ("m", 'instance_group { name: "a$(b)" kind: KIND_CPU }')):
        lab.write(name, "class TritonPythonModel:\n    pass\n", f'backend: "python"\n{more}')
        with pytest.raises(ModelLoadError) as caught:
            lab.server.load(name)
        assert caught.value.message == (
            f"load failed for model '{name}': version 1 is at UNAVAILABLE state: "
            "Invalid argument: Invalid stub name: contains invalid characters;\n"
        )
        lab.server.unload(name)


@rule("2.9.2")
def test_other_names_pass() -> None:
    for name in ("TestModel123", "model-with-hyphens", "model_with_underscores", "m.python", "modèle", "a b", "a@b"):
        check_stub_name(name)
