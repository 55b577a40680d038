"""The cases of other modules, sent to tritonlab over gRPC. The other modules send them to the real server, which
they reach over gRPC anyway."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from . import test_answers, test_cancellation, test_execute
from .lab_grpc_client import LabGRPCClient

for _module in (test_answers, test_execute, test_cancellation):
    globals().update({name: case for name, case in vars(_module).items() if name.startswith("test_")})

MODELS = {**test_answers.MODELS, **test_execute.MODELS, **test_cancellation.MODELS}


@pytest.fixture(scope="module", params=["lab"])
def side(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabGRPCClient]:
    client = LabGRPCClient(tmp_path_factory.mktemp("lab"))
    yield client
    client.close()
