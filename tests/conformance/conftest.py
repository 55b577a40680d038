"""Both sides of a comparison, each on a repository of its own.

A test module that says `MODELS = {name: {path: text}}` finds them placed and loaded in the `client` it gets; a test
that takes `client` runs once per side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .clients import Client, Files
from .lab_client import LabClient
from .real_client import RealClient
from .reference import ReferenceServer


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A case marked `not_yet(why)` is asked of the peer, and ours must fail it: then the mark goes."""
    for item in items:
        mark = item.get_closest_marker("not_yet")
        callspec = getattr(item, "callspec", None)
        if mark and callspec and callspec.params.get("side", "lab") == "lab":
            item.add_marker(pytest.mark.xfail(reason=mark.args[0], strict=True))


@pytest.fixture(scope="session")
def real(
    reference_server: Callable[[Path], ReferenceServer], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RealClient]:
    client = RealClient(reference_server(tmp_path_factory.mktemp("real")))
    yield client
    client.close()


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabClient]:
    client = LabClient(tmp_path_factory.mktemp("lab"))
    yield client
    client.close()


@pytest.fixture(scope="module", params=["real", "lab"])
def side(request: pytest.FixtureRequest) -> Client:
    """The server that is asked, whatever its models."""
    found: RealClient | LabClient = request.getfixturevalue(request.param)
    if isinstance(found, RealClient):
        found.revive()  # what crashed it belongs to another module
    return found


@pytest.fixture(params=["real", "lab"])
def fresh(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Client]:
    """A server nobody asked before, for what concerns the server as a whole."""
    found: RealClient | LabClient
    if request.param == "real":
        found = RealClient(request.getfixturevalue("reference_server")(tmp_path))
    else:
        found = LabClient(tmp_path)
    yield found
    found.close()


@pytest.fixture(scope="module")
def client(side: Client, request: pytest.FixtureRequest) -> Iterator[Client]:
    """`side` with the module's MODELS loaded."""
    models: dict[str, Files] = request.module.MODELS
    failed = {name: failure for name, failure in side.load_all(models).items() if failure is not None}
    assert not failed, failed
    yield side
    for name in models:
        side.unload(name)
