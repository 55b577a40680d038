from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.serving import lab, script
from tritonlab.ipc.link.link_reader import LinkReader
from tritonlab.testing import FakeStub

__all__ = ["lab", "script"]


@pytest.fixture
def link_reader() -> Iterator[LinkReader]:
    reader = LinkReader()
    yield reader
    reader.close()


@pytest.fixture
def stub(link_reader: LinkReader) -> Iterator[FakeStub]:
    """Yield the stub's end of `stub.link`, which the test plays."""
    stub = FakeStub(link_reader)
    yield stub
    stub.close()
