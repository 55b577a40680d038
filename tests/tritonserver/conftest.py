from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import tritonlab.tritonserver as tritonserver
from tests.serving import write_model
from tests.tritonserver.models import ECHO, ECHO_CONFIG, one_answer


@pytest.fixture(scope="session")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("tritonserver")
    write_model(found, "echo", ECHO, ECHO_CONFIG)
    write_model(found, "never_loaded", ECHO, ECHO_CONFIG)
    return found


@pytest.fixture
def options(repository: Path) -> tritonserver.Options:
    """Return options as programs set them: all by name, models on demand."""
    return tritonserver.Options(
        server_id="under test",
        model_repository=str(repository),
        model_control_mode=tritonserver.ModelControlMode.EXPLICIT,
        exit_timeout=5,
    )


@pytest.fixture(scope="module")
def server(repository: Path) -> Iterator[tritonserver.Server]:
    """Start one server for all tests of a module, with `echo` loaded."""
    found = tritonserver.Server(
        model_repository=str(repository), model_control_mode=tritonserver.ModelControlMode.EXPLICIT, exit_timeout=5
    ).start(wait_until_ready=True)
    found.load("echo", one_answer())
    yield found
    found.stop()


@pytest.fixture
def echo(server: tritonserver.Server) -> tritonserver.Model:
    return server.model("echo")
