from __future__ import annotations

from pathlib import Path

import pytest

from tritonlab.core.config.model_config import parse_pbtxt
from tritonlab.ipc.processes.own_stub import NAME, write_own_stub
from tritonlab.tools.deploy.left_out import forget_backend_directory, starts_our_stub, warnings


def environment(path: str) -> str:
    return f'parameters {{ key: "EXECUTION_ENV_PATH" value {{ string_value: "{path}" }} }}'


FILLED_IN = 'backend: "mine" runtime: "model.py" ' + environment("/backends/mine/pb_exec_env_model.py.tar.gz")


@pytest.mark.parametrize(
    ("authored", "left"),
    [
        ('backend: "mine"', 'backend: "mine"'),
        ('backend: "mine" runtime: "model.py"', 'backend: "mine" runtime: "model.py"'),
        (f'backend: "mine" {environment("/x")}', f'backend: "mine" {environment("/x")}'),
    ],
)
def test_what_the_backends_directory_filled_in_goes(authored: str, left: str) -> None:
    config, wrote = parse_pbtxt(FILLED_IN, ""), parse_pbtxt(authored, "")
    if "EXECUTION" in authored:
        config.parameters["EXECUTION_ENV_PATH"].string_value = "/x"
    forget_backend_directory(config, wrote)
    assert config == parse_pbtxt(left, "")


def test_what_auto_complete_config_set_stays() -> None:
    text = f'backend: "python" {environment("/x")}'
    config = parse_pbtxt(text, "")
    forget_backend_directory(config, parse_pbtxt("", ""))
    assert config == parse_pbtxt(text, "")


def test_our_stub_is_left_out_and_a_compiled_one_stays(tmp_path: Path) -> None:
    files = ["1/model.py", "config.pbtxt", NAME]
    write_own_stub(tmp_path, "/usr/bin/python3.9")
    assert starts_our_stub(tmp_path, files) == [NAME]
    (sentence,) = warnings(parse_pbtxt("", ""), tmp_path, files)
    assert sentence.startswith("triton_python_backend_stub starts tritonlab's stub and was left out: ")
    (tmp_path / NAME).write_bytes(b"\x7fELF compiled")
    assert starts_our_stub(tmp_path, files) == []
    assert warnings(parse_pbtxt("", ""), tmp_path, files) == ()


@pytest.mark.parametrize(
    ("path", "sentences"),
    [
        ("$$TRITON_MODEL_DIRECTORY/env.tar.gz", ()),
        (
            "/home/me/env.tar.gz",
            (
                "EXECUTION_ENV_PATH is '/home/me/env.tar.gz', a path of this machine: put the environment into the "
                "model directory and write '$$TRITON_MODEL_DIRECTORY/env.tar.gz'",
            ),
        ),
    ],
)
def test_environments_elsewhere_are_named(tmp_path: Path, path: str, sentences: tuple[str, ...]) -> None:
    assert warnings(parse_pbtxt(environment(path), ""), tmp_path, []) == sentences
