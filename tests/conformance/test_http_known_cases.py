"""The cases of other modules, sent to tritonlab over HTTP. The other modules send them to the real server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from . import test_answers, test_execute, test_judge
from .lab_http_client import LabHTTPClient

#: It tests codes that share one status; `test_http_infer.py` tests the statuses.
_LEFT_OUT = "test_a_responses_error_goes_out_with_its_own_code_and_text"

for _module in (test_answers, test_execute, test_judge):
    globals().update({name: case for name, case in vars(_module).items() if name.startswith("test_")})
del globals()[_LEFT_OUT]

MODELS = {**test_answers.MODELS, **test_execute.MODELS, **test_judge.MODELS}


@pytest.fixture(scope="module", params=["lab"])
def side(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabHTTPClient]:
    client = LabHTTPClient(tmp_path_factory.mktemp("lab"))
    yield client
    client.close()
