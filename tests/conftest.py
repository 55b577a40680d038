"""These fixtures serve tests of every folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.conformance.reference import ReferenceServer, missing
from tests.serving import await_endings
from tritonlab.ipc.zygotes.zygote_keeper import ZygoteKeeper

# how long an example takes says nothing where others use the machine
settings.register_profile("patient", settings.default, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Spreads the browser's files over the run. They wait more than they compute, and left to the end, as `loadfile`
    would leave files of few tests, they keep one worker busy while the other has nothing to do."""
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    slow = [path for path in files if path.parent.name == "browser"]
    others = [path for path in files if path not in slow]
    # how much of the run is behind each; the last tenth is of quick ones
    behind = {path: number / len(others) for number, path in enumerate(others)}
    behind |= {path: 0.9 * number / len(slow) for number, path in enumerate(slow)}
    items[:] = [item for path in sorted(files, key=behind.__getitem__) for item in files[path]]


@pytest.fixture(scope="session", autouse=True)
def cache_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keeps what notebooks of tests remember out of the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session", autouse=True)
def no_standbys() -> Iterator[None]:
    """Leaves zygotes without standbys, which come half a second after them: tests count processes and descriptors."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ZygoteKeeper, "stand_by", lambda keeper, growth: None)
        yield


@pytest.fixture(scope="module", autouse=True)
def nothing_goes_on_ending() -> Iterator[None]:
    """Tells the module, and not those after it, that a model, an instance or a process of it never came to its end."""
    yield
    await_endings()


@pytest.fixture(scope="session")
def reference_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., ReferenceServer]]:
    """Starts a real tritonserver on a model repository (explicit model control), with further flags if given. All are
    stopped at the end.

    Skips the test if no tritonserver can be had.
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
