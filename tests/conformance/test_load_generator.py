"""The same load tests of tritonlab and of Triton, over HTTP and gRPC: every column has its number, and errors have the
server's text."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.models import executes
from tests.tools.measure.load_testing.test_load_run import SEQUENCE, SEQUENCE_CONFIG
from tritonlab.core.status import TritonError, UnsupportedError
from tritonlab.exchanges.remote.remote_server import RemoteServer, connect
from tritonlab.tools.measure.load_testing.load_result import LoadResult

from .clients import Client
from .models import ADD_SUB, ADD_SUB_CONFIG, config
from .raw_http import RawHTTP
from .test_snippets import REPEAT, REPEAT_CONFIG

FAILS = executes("raise ValueError('no luck')")
MODELS = {
    "loaded": {
        "1/model.py": ADD_SUB,
        "config.pbtxt": ADD_SUB_CONFIG + "max_batch_size: 8 dynamic_batching { max_queue_delay_microseconds: 100 }",
    },
    "fails": {"1/model.py": FAILS, "config.pbtxt": config("X FP32 1", "OUT FP32 1")},
    "repeat": {"1/model.py": REPEAT, "config.pbtxt": REPEAT_CONFIG},
    "sequence": {"1/model.py": SEQUENCE, "config.pbtxt": SEQUENCE_CONFIG},
}
QUICK: dict[str, Any] = {"seconds": 0.3, "warmup": 0.05}


@pytest.fixture(params=["HTTP", "gRPC"])
def server(request: Any, client: Client, http: RawHTTP, grpc_address: str) -> Iterator[RemoteServer]:
    with connect(http.address if request.param == "HTTP" else grpc_address) as found:
        yield found


def test_every_column_of_the_csv_has_a_number(server: RemoteServer, tmp_path: Path) -> None:
    result = server.model("loaded").load_test(concurrency=[1, 3], batch=2, **QUICK)
    assert isinstance(result, LoadResult)
    assert result.place.startswith(server.protocol)
    for row in result.rows:
        assert row.requests > 0 and row.errors == {} and row.unanswered == 0
        assert row.inferences_per_s == pytest.approx(2 * row.requests_per_s)
        assert row.server is not None and row.latency is not None
        assert row.server.batch_size >= 2 and row.server.compute_infer_us > 0
    first, second = csv.DictReader(result.to_csv(tmp_path / "load.csv").read_text().splitlines())
    assert {first["Concurrency"], second["Concurrency"]} == {"1", "3"}
    assert all(float(number) >= 0 for number in [*first.values(), *second.values()])
    # the network's part is what the server's own times leave of the latency: 0 where a stray request is in one of both
    assert all(float(first[name]) > 0 for name in ("Server Compute Infer", "p99 latency"))


def test_an_open_loop_counts_from_when_requests_were_due(server: RemoteServer) -> None:
    (row,) = server.model("loaded").load_test(arrivals=[0.0, 0.0, 0.0, 0.05, 0.1]).rows
    assert (row.requests, row.failed, row.unanswered) == (5, 0, 0)
    assert row.lag is not None and row.latency is not None and row.server is not None
    assert row.server.requests == 5
    (row,) = server.model("loaded").load_test(request_rate=100, **QUICK).rows
    assert row.requests > 0 and row.errors == {}


def test_errors_have_the_text_of_the_server(server: RemoteServer) -> None:
    (row,) = server.model("fails").load_test(concurrency=2, window=0.1, warmup=0).rows
    assert row.requests == 0 and row.failed > 0 and row.latency is None
    assert all(text.startswith("Failed to process the request(s) for model") for text in row.errors)
    assert all("no luck" in text for text in row.errors)
    with pytest.raises(TritonError):
        server.model("nobody").load_test()


def test_streams_have_a_first_response(server: RemoteServer) -> None:
    model, inputs = server.model("repeat"), {"IN": np.array([7, 8, 9], np.int32)}
    if server.protocol == "HTTP":
        with pytest.raises(UnsupportedError, match="use gRPC for a decoupled model"):
            model.load_test(inputs=inputs)
        return
    (row,) = model.load_test(concurrency=2, inputs=inputs, **QUICK).rows
    assert row.requests > 0 and row.errors == {}
    assert row.responses_per_s == pytest.approx(3 * row.requests_per_s)
    assert row.first_response is not None and row.latency is not None
    assert 0 < row.first_response.p50 <= row.latency.p50


@pytest.mark.parametrize("load", [{"concurrency": 2}, {"request_rate": 60, "sequences": 2}])
def test_sequences_are_whole_and_in_order(server: RemoteServer, load: dict[str, Any]) -> None:
    (row,) = server.model("sequence").load_test(sequence_length=3, **load, **QUICK).rows
    assert row.requests > 0 and row.errors == {}
