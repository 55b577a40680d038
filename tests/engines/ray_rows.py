"""Each row of pre-flight for Ray Serve: what a deployment makes of the models that show it."""

from __future__ import annotations

import tritonclient.grpc as grpcclient

from tests.engines.direct import post
from tests.engines.figures import Figures
from tests.engines.rows import ROWS


def prove_rows(port: int, refusal: str, figures: Figures) -> None:
    """Prove every row. `refusal`: with what the deployment of a model with sequences ended; `port`: where `stream` is
    served."""
    region = post(port, "/v2/systemsharedmemory/region/a/register", {})[0]
    seen = {
        "sequences": "refused when it is deployed" if "keeps sequences" in refusal else refusal,
        "several responses": f"infer {_infer(port)}, generate_stream {_stream(port)} of 3",
        "shared memory, gRPC": f"a region {region}, {_grpc(port)}",
    }
    expected = {
        "sequences": "refused when it is deployed",
        "several responses": "infer 501, generate_stream 3 of 3",
        "shared memory, gRPC": "a region 501, a client of gRPC UNAVAILABLE",
    }
    for row in (each for each in ROWS if each.engine == "ray"):
        figures.add_row(row, seen[row.uses], seen[row.uses] == expected[row.uses])


def _infer(port: int) -> int:
    tensor = {"name": "IN", "datatype": "FP32", "shape": [1], "data": [3]}
    return post(port, "/v2/models/stream/infer", {"inputs": [tensor]})[0]


def _stream(port: int) -> int:
    return post(port, "/v2/models/stream/generate_stream", {"IN": [3]})[1].count("data: ")


def _grpc(port: int) -> str:
    try:
        grpcclient.InferenceServerClient(f"127.0.0.1:{port}").is_server_live(client_timeout=5)
    except Exception as error:
        return f"a client of gRPC {str(error.status()).removeprefix('StatusCode.')}"  # type: ignore[attr-defined]
    return "a client of gRPC is answered"
