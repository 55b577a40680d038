"""The times of tokens, by the definitions of AIPerf, from streams whose times are known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.models import streams
from tests.serving import write_model
from tritonlab import Server
from tritonlab.core.inference.data_type import DataType
from tritonlab.core.inference.tensor import Tensor
from tritonlab.core.status import InvalidArgumentError, UnsupportedError
from tritonlab.exchanges.remote.remote_server import connect
from tritonlab.frontends.endpoints import EndpointOptions, Endpoints
from tritonlab.tools.measure.load_testing.token_times import TokenLog, TokenStream, TokenTimes, token_counter

MS = 1_000_000
OUTPUTS = {"TEXT": DataType.BYTES, "TOKEN": DataType.INT64}


def texts(*found: str) -> dict[str, Tensor]:
    return {"TEXT": Tensor.from_any(list(found), DataType.BYTES)}


def log_of(*requests: list[tuple[int, str]], due: int = 0) -> TokenLog:
    """Return the log of requests that were due at `due`, each with (milliseconds, text) of its responses."""
    count = token_counter("TEXT", OUTPUTS)
    assert count is not None
    log = TokenLog(count)
    for responses in requests:
        stream = TokenStream(log)
        for at, text in responses:
            stream.take(texts(text), at * MS)
        stream.end(due, (responses[-1][0] + 1) * MS)
    return log


def test_times_are_those_of_aiperf() -> None:
    found = TokenTimes.from_log(log_of([(30, "a"), (40, "b"), (60, "c"), (70, "d")]), 0, 1000 * MS)
    assert found.time_to_first_token is not None and found.time_to_first_token.p50 == 30_000
    # (70 - 30) / 3 ms, and gaps of 10, 20, 10 ms
    assert found.inter_token_latency is not None and found.inter_token_latency.p50 == pytest.approx(13_333.3, abs=1)
    assert found.inter_chunk_latency is not None
    assert (found.inter_chunk_latency.p50, found.inter_chunk_latency.max) == (10_000, 20_000)
    assert (found.output_tokens, found.output_sequence_length, found.output_token_throughput) == (4, 4, 4)
    assert found.output_token_throughput_per_user == pytest.approx(75)


def test_an_empty_first_text_is_no_token_and_one_token_has_no_latency_between() -> None:
    found = TokenTimes.from_log(log_of([(5, ""), (30, "a")]), 0, 1000 * MS)
    assert found.time_to_first_token is not None and found.time_to_first_token.p50 == 30_000
    assert (found.inter_token_latency, found.output_token_throughput_per_user) == (None, None)
    assert found.to_dict()["time_to_first_token_us"]["p50"] == 30_000


def test_only_requests_that_ended_in_the_time_count() -> None:
    found = TokenTimes.from_log(log_of([(10, "a")], [(30, "b"), (40, "c")]), 20 * MS, 100 * MS)
    assert (found.output_tokens, found.output_sequence_length) == (2, 2)
    assert TokenTimes.from_log(log_of([(10, "a")]), 20 * MS, 100 * MS).time_to_first_token is None


@pytest.mark.parametrize(
    ("output_tokens", "outputs", "tokens"),
    [
        ("TOKEN", {"TOKEN": Tensor.from_numpy(np.int64([[1, 2, 3]]))}, 3),
        ("TOKEN", {}, 0),
        ("TEXT", texts("a", "", "b"), 2),
        (lambda outputs: len(outputs["TEXT"][0].split()), texts("a b c"), 3),
    ],
)
def test_tokens_are_counted_by_an_output_or_by_a_function(output_tokens: Any, outputs: Any, tokens: int) -> None:
    count = token_counter(output_tokens, OUTPUTS)
    assert count is not None and count(outputs) == tokens


def test_an_output_that_the_model_lacks_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="one of the outputs 'TEXT', 'TOKEN'"):
        token_counter("OTHER", OUTPUTS)


CONFIG = """
model_transaction_policy { decoupled: true }
input [ { name: "IN" data_type: TYPE_INT32 dims: [1] } ]
output [ { name: "OUT" data_type: TYPE_INT32 dims: [-1] } ]
"""


def test_a_load_test_has_the_tokens_of_its_streams(tmp_path: Path) -> None:
    write_model(tmp_path, "m", streams("np.full(2, n, np.int32)", "range(int(x[0]))"), CONFIG)
    ports_of = EndpointOptions(http_port=0, grpc_port=0, metrics=False)
    options: Any = {"inputs": {"IN": np.int32([3])}, "seconds": 0.3, "warmup": 0.0, "output_tokens": "OUT"}
    with Server(tmp_path) as server, Endpoints.from_server(server, ports_of) as ports:
        result = server.model("m").load_test(**options, progress=False)
        (remote,) = connect(f"grpc://{ports.places['GRPC']}").model("m").load_test(**options, progress=False).rows
        with pytest.raises(UnsupportedError, match="HTTP has one response for each request"):
            connect(ports.places["HTTP"]).model("m").load_test(**options)
    assert remote.tokens.output_sequence_length == 6
    assert remote.tokens.output_tokens == 6 * remote.requests > 0
    assert remote.tokens.time_to_first_token.avg <= remote.latency.avg
    (row,) = result.rows
    assert row.tokens.output_sequence_length == 6
    assert row.tokens.output_tokens == 6 * row.requests
    assert row.tokens.time_to_first_token.avg <= row.latency.avg
    assert "tokens/s  TTFT p50" in result.text()
    assert result.to_csv(tmp_path / "r.csv").read_text().splitlines()[0].endswith("Inter Token Latency p99")
