"""`connect` to tritonlab and to Triton: what is sent, and what comes back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tritonlab.core.inference.infer_request import InferenceRequest
from tritonlab.core.inference.tensor import Tensor
from tritonlab.core.status import InvalidArgumentError, NotFoundError, UnavailableError, UnsupportedError
from tritonlab.exchanges.comparison import compare
from tritonlab.exchanges.remote.remote_server import RemoteServer, connect

from .clients import Client
from .raw_http import RawHTTP
from .test_snippets import MODELS as SNIPPET_MODELS
from .test_snippets import TYPES, VALUES

MODELS = SNIPPET_MODELS


@pytest.fixture(params=["HTTP", "gRPC"])
def server(request: Any, client: Client, http: RawHTTP, grpc_address: str) -> Iterator[RemoteServer]:
    with connect(http.address if request.param == "HTTP" else grpc_address) as found:
        assert found.protocol == request.param  # detected, not set
        yield found


def request_for(model: str = "echo", **inputs: Any) -> InferenceRequest:
    return InferenceRequest(model, {name: Tensor.from_numpy(value) for name, value in inputs.items()})


def test_values_of_every_datatype_go_and_come(server: RemoteServer) -> None:
    inputs = {f"IN_{name}": VALUES[name] for name in TYPES}
    outcome = server.model("echo").send(request_for(**inputs))
    assert outcome.error is None
    for name, value in VALUES.items():
        expected = [v.encode() for v in value] if name == "STRING" else value.tolist()
        assert outcome.outputs[f"OUT_{name}"].numpy().tolist() == expected
    again = server.model("echo").send(request_for(**inputs))
    assert compare(outcome, again).same
    assert outcome.split is not None
    assert 0 < outcome.split.compute_infer < outcome.total_ns


def test_a_model_is_a_call(server: RemoteServer) -> None:
    echo = server.model("echo")
    assert echo(IN_FP32=[1, 2])["OUT_FP32"].tolist() == [1, 2]
    assert [tensor["name"] for tensor in echo.metadata()["inputs"]] == [f"IN_{name}" for name in TYPES]
    assert "binary_tensor_data" in server.metadata()["extensions"]
    with pytest.raises(InvalidArgumentError, match="unexpected inference input 'NOPE' for model 'echo'"):
        echo(NOPE=[1])
    with pytest.raises(NotFoundError if server.protocol == "gRPC" else (NotFoundError, InvalidArgumentError)):
        server.model("nobody").metadata()


def test_streams_come_over_grpc(server: RemoteServer) -> None:
    outcome = server.model("repeat").send(request_for("repeat", IN=np.array([4, 2], np.int32)))
    if server.protocol == "HTTP":
        assert isinstance(outcome.error, UnsupportedError)
        return
    assert outcome.error is None
    assert [a.response.outputs["OUT"].numpy().tolist() for a in outcome.arrivals[:-1]] == [[4], [2]]
    assert outcome.arrivals[-1].response.final and outcome.arrivals[-1].response.empty


def test_nobody_there() -> None:
    with pytest.raises(UnavailableError, match=r"no server answers at 127\.0\.0\.1:1, over HTTP nor over gRPC"):
        connect("127.0.0.1:1")
    with pytest.raises(ValueError, match="'ftp' is neither http nor grpc"):
        connect("ftp://127.0.0.1:1")
