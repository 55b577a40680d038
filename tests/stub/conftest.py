"""The author's module as it is inside a stub, over a fake server."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

import pytest

from tests.stub.fake_bridge import FakeBridge
from tritonlab.stub import c_python_backend_utils, triton_python_backend_utils
from tritonlab.stub._pb_stub.api import bridge


@pytest.fixture
def fake_bridge() -> Iterator[FakeBridge]:
    """Yield the bridge of this process while the test runs."""
    before = bridge.current()
    fake = FakeBridge()
    bridge.install(fake)
    yield fake
    bridge.install(before)


@pytest.fixture
def pb_utils() -> Iterator[ModuleType]:
    """Yield `triton_python_backend_utils` with the names that join it after the model was imported; remove them
    afterwards.
    """
    before = dict(vars(triton_python_backend_utils))
    c_python_backend_utils.attach(triton_python_backend_utils)
    yield triton_python_backend_utils
    for name in set(vars(triton_python_backend_utils)) - set(before):
        delattr(triton_python_backend_utils, name)
