"""Deployments to make files of, and how tests read the files."""

from __future__ import annotations

from typing import Any

import numpy as np
import yaml

from tritonlab.core.inference.infer_request import InferenceRequest
from tritonlab.core.inference.tensor import Tensor
from tritonlab.exchanges.exchange import Exchange, arrivals_of
from tritonlab.tools.deploy.manifests.facts import DeployedModel, Deployment
from tritonlab.tools.deploy.releases import find

MIB = 1 << 20
CONFIG: dict[str, Any] = {
    "max_batch_size": 8,
    "output": [{"name": "OUT", "data_type": "TYPE_FP32", "dims": [1]}],
    "instance_group": [{"kind": "KIND_CPU", "count": 2}],
}
STREAM: dict[str, Any] = {
    "max_batch_size": 0,
    "output": [{"name": "OUT", "data_type": "TYPE_FP32", "dims": [1]}],
    "instance_group": [{"kind": "KIND_CPU", "count": 1}],
    "model_transaction_policy": {"decoupled": True},
}


def recorded(model: str, *values: float) -> Exchange:
    """Return a request of a model that answers with each of `values`."""
    tensors = [Tensor.from_numpy(np.array([[value]], np.float32)) for value in values]
    request = InferenceRequest(model, {"IN": tensors[0]})
    return Exchange(request, arrivals_of({"OUT": tensor} for tensor in tensors))


def deployment(**more: Any) -> Deployment:
    """Return a model with metrics of its own and one that streams, which took 400 MiB of shared memory and 700 MiB in
    all."""
    metrics = {"parse_errors": "counter", "rows": "counter", "depth": "gauge", "row_bytes": "histogram"}
    models = [
        DeployedModel("digits.v2", CONFIG, metrics, [recorded("digits.v2", 0.5), recorded("digits.v2", 2)]),
        DeployedModel("counter", STREAM, {}, [recorded("counter", 1, 2)]),
    ]
    facts: dict[str, Any] = {"models": models, "release": find("2.51"), "peak_shm_bytes": 400 * MIB, "has_lock": True}
    facts["peak_memory_bytes"] = 700 * MIB
    return Deployment(**{**facts, **more})


def on_gpu() -> Deployment:
    group = {"kind": "KIND_GPU", "count": 1, "gpus": [0]}
    return deployment(models=[DeployedModel("digits", {**CONFIG, "instance_group": [group]})])


def with_sequences(**more: Any) -> Deployment:
    """Return a model that keeps sequences, next to one that does not."""
    batching = {"direct": {}, "max_sequence_idle_microseconds": 1_000_000}
    keeps = DeployedModel("total", {**CONFIG, "sequence_batching": batching}, {}, [recorded("total", 1)])
    return deployment(models=[keeps, DeployedModel("digits", CONFIG)], **more)


def read(text: str | bytes) -> Any:
    return yaml.safe_load(text)
