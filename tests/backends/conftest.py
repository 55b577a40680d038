"""A server for the models of one test module."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tritonlab import Server


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call() -> None:
    """Keep what has imported torch for one test for the next: where variables differ, another process is started."""
    os.environ.pop("PYTEST_CURRENT_TEST", None)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("project") / "models"


@pytest.fixture(scope="module")
def server(repository: Path) -> Iterator[Server]:
    repository.mkdir()
    with Server(repository, model_control_mode="explicit") as server:
        yield server
