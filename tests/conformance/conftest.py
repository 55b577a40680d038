"""Fixtures that start both sides of a comparison, each on a repository of its own.

If a test module has `MODELS = {name: {path: text}}`, the `client` that its tests get has these models loaded; a test
that takes `client` runs once per side. If it has `OPTIONS = (flags of tritonserver, arguments of Server)`, it gets
servers of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest

from tritonlab.frontends.http.http_server import HTTPOptions, HTTPServer
from tritonlab.frontends.shared.shared_memory_manager import SharedMemoryManager

from .clients import Client, Failure, Files
from .grpc_messages import Rpc
from .grpc_served import grpc_served
from .lab_client import LabClient
from .raw_http import RawHTTP
from .real_client import RealClient
from .reference import ReferenceServer


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let cases marked `not_yet(why)` fail on our side: Triton must pass them, and ours must fail; when ours passes,
    the mark has to go."""
    for item in items:
        mark = item.get_closest_marker("not_yet")
        callspec = getattr(item, "callspec", None)
        if mark and callspec and callspec.params.get("side", "lab") == "lab":
            item.add_marker(pytest.mark.xfail(reason=mark.args[0], strict=True))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Run a test once more if the real server crashed under it. 2.51 crashes now and then, on a busy machine in
    every third run: SIGSEGV in libtriton_python.so, under TRITONBACKEND_ModelInstanceExecute, mostly with batches."""
    try:
        return (yield)
    except (Exception, pytest.fail.Exception):
        assert isinstance(item, pytest.Function)
        if not _revived(item):
            raise
    item.runtest()


def _revived(item: pytest.Function) -> bool:
    """Start a server of the test again if it crashed, with the module's models, and return whether it had."""
    clients = [found for found in item.funcargs.values() if isinstance(found, RealClient)]
    return any([client.revive() for client in dict.fromkeys(clients)])


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
def side(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """Return the server under test, with whatever models it has."""
    found: RealClient | LabClient
    own = getattr(request.module, "OPTIONS", None)
    if own is None:
        found = request.getfixturevalue(request.param)
        if isinstance(found, RealClient):
            found.revive()  # what crashed it belongs to another module
        yield found
        return
    repository = tmp_path_factory.mktemp(f"{request.param}_own")
    if request.param == "real":
        found = RealClient(request.getfixturevalue("reference_server")(repository, own[0]))
    else:
        found = LabClient(repository, **own[1])
    yield found
    found.close()
    if isinstance(found, RealClient):
        found.server.stop()


@pytest.fixture(params=["real", "lab"])
def fresh(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Client]:
    """Start a server for this test alone, for tests of the server as a whole."""
    found: RealClient | LabClient
    if request.param == "real":
        found = RealClient(request.getfixturevalue("reference_server")(tmp_path))
    else:
        found = LabClient(tmp_path)
    yield found
    found.close()


@pytest.fixture(scope="module")
def grpc_address(side: Client) -> Iterator[str]:
    """Return the address at which `side` serves gRPC, with clients' shared memory allowed."""
    with grpc_served(side) as address:
        yield address


@pytest.fixture(scope="module")
def rpc(client: Client, grpc_address: str) -> Iterator[Rpc]:
    """Return the generated gRPC stub at `side`, with the module's models loaded."""
    with grpc.insecure_channel(grpc_address) as channel:
        yield Rpc(channel)


@pytest.fixture(scope="module")
def client(side: Client, request: pytest.FixtureRequest) -> Iterator[Client]:
    """Return the client of `side`, with the module's MODELS loaded."""
    models: dict[str, Files] = request.module.MODELS
    failed = _failed(side, models)
    if failed and isinstance(side, RealClient) and side.revive():
        failed = _failed(side, models)
    assert not failed, failed
    if isinstance(side, RealClient):
        side.serving = models
    yield side
    if isinstance(side, RealClient):
        side.serving = {}
    for name in models:
        side.unload(name)


def _failed(side: Client, models: dict[str, Files]) -> dict[str, Failure]:
    return {name: failure for name, failure in side.load_all(models).items() if failure is not None}


@pytest.fixture(scope="module")
def http(client: Client, request: pytest.FixtureRequest) -> Iterator[RawHTTP]:
    """Return the HTTP endpoint of `side`, with the module's models loaded and clients' shared memory allowed; on our
    side with the module's HTTP_OPTIONS."""
    if isinstance(client, RealClient):
        yield RawHTTP("real", client.server.http)
        return
    assert isinstance(client, LabClient)
    options = getattr(request.module, "HTTP_OPTIONS", HTTPOptions())
    frontend = HTTPServer(client.server.core, SharedMemoryManager(allowed=True), options)
    yield RawHTTP("lab", f"127.0.0.1:{frontend.start('127.0.0.1', 0)}")
    frontend.stop()
