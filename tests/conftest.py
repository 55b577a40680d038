"""What tests of every folder may ask for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.conformance.reference import ReferenceServer, missing


@pytest.fixture(scope="session", autouse=True)
def cache_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What notebooks of tests remember does not land in the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def reference_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., ReferenceServer]]:
    """Starts a real tritonserver on a model repository (explicit model control), with more flags if need be; all are
    stopped at the end.

    Skips where none can be had.
    """
    if (why := missing()) is not None:
        pytest.skip(why)
    started: list[ReferenceServer] = []

    def start(repository: Path, arguments: Sequence[str] = ()) -> ReferenceServer:
        started.append(ReferenceServer(repository, tmp_path_factory.mktemp("tritonserver"), arguments))
        return started[-1]

    yield start
    with ThreadPoolExecutor(max(len(started), 1)) as pool:
        list(pool.map(ReferenceServer.stop, started))  # each waits for its models
