"""KServe's own client against two servers, run by its own Python: `python -m tests.engines.kserve_client HTTP GRPC HTTP
GRPC`. Prints one line of JSON: what each of the two answered, by name."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import numpy as np
from kserve import InferenceGRPCClient, InferenceRESTClient, InferInput, InferRequest, RESTConfig

VALUES = np.array([[1, 2]], np.float32)


async def answers(http: str, grpc: str) -> dict[str, Any]:
    """Return what a server answers to each kind of request."""
    rest = InferenceRESTClient(RESTConfig(protocol="v2"))
    remote = InferenceGRPCClient(grpc)
    found: dict[str, Any] = {}
    for name, binary in (("REST, JSON", False), ("REST, binary", True)):
        found[name] = await _outputs(rest.infer(f"http://{http}", _request(binary), model_name="double"))
    found["REST, a model's readiness"] = await rest.is_model_ready(f"http://{http}", "double")
    unknown = rest.infer(f"http://{http}", _request(False), model_name="nothing")
    found["REST, an unknown model"] = await _outputs(unknown)
    found["gRPC"] = await _outputs(remote.infer(_request(True)))
    found["gRPC, readiness"] = [await remote.is_server_ready(), await remote.is_model_ready("double")]
    return found


def _request(binary: bool) -> InferRequest:
    tensor = InferInput("IN", list(VALUES.shape), "FP32")
    tensor.set_data_from_numpy(VALUES, binary_data=binary)
    return InferRequest("double", [tensor], request_id="abc")


async def _outputs(answer: Any) -> Any:
    """Return the outputs, or the error."""
    try:
        found = await answer
    except Exception as error:
        return f"{type(error).__name__} {getattr(getattr(error, 'response', None), 'status_code', '')}"
    return {each.name: each.as_numpy().tolist() for each in found.outputs}


async def main(addresses: list[str]) -> None:
    by_triton, by_us = await answers(*addresses[:2]), await answers(*addresses[2:])
    print("FOUND " + json.dumps({name: [by_triton[name], by_us[name]] for name in by_us}), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
