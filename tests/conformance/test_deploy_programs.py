"""The deploy files against both servers: their programs run, and their expressions select metrics that are there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from tests.models import streams
from tests.serving import NO_PLUGINS
from tests.tools.deploy.manifests.promql import Prometheus, read_metrics
from tritonlab.core.inference.infer_request import InferenceRequest
from tritonlab.core.inference.tensor import Tensor
from tritonlab.exchanges.exchange import Exchange, arrivals_of
from tritonlab.tools.deploy.manifests.facts import DeployedModel, Deployment
from tritonlab.tools.deploy.manifests.files import deploy_files, write_deploy_files
from tritonlab.tools.deploy.releases import find

from .clients import Client
from .raw_http import RawHTTP

DOUBLE = """
import triton_python_backend_utils as pb_utils
class TritonPythonModel:
    def initialize(self, args):
        kinds = {"rows": pb_utils.MetricFamily.COUNTER, "depth": pb_utils.MetricFamily.GAUGE,
                 "row_bytes": pb_utils.MetricFamily.HISTOGRAM}
        self.families = [pb_utils.MetricFamily(name=f"deploy_{n}", description=n, kind=k) for n, k in kinds.items()]
        self.metrics = [f.Metric(labels={}, **({"buckets": [8.0, 64.0]} if f is self.families[2] else {}))
                        for f in self.families]
    def execute(self, requests):
        self.metrics[0].increment(len(requests))
        self.metrics[2].observe(8)
        inputs = [pb_utils.get_input_tensor_by_name(request, "IN").as_numpy() for request in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", 2 * value)]) for value in inputs]
"""
COUNT = streams("np.array([n])", over="x")
_TENSORS = 'input { name: "IN" data_type: TYPE_FP32 dims: [-1] } output { name: "OUT" data_type: TYPE_FP32 dims: [-1] }'
MODELS = {
    "deployed": {"config.pbtxt": f'backend: "python" {_TENSORS}', "1/model.py": DOUBLE},
    "deployed_stream": {
        "config.pbtxt": f'backend: "python" model_transaction_policy {{ decoupled: true }} {_TENSORS}',
        "1/model.py": COUNT,
    },
}
# an ensemble has series of its own from its load
_STEP = """step {{ model_name: "deployed" model_version: -1
    input_map {{ key: "IN" value: "{0}" }} output_map {{ key: "OUT" value: "{1}" }} }}"""
_STEPS = _STEP.format("IN", "T") + _STEP.format("T", "OUT")
MODELS["deployed_twice"] = {
    "config.pbtxt": f'platform: "ensemble" {_TENSORS} ensemble_scheduling {{ {_STEPS} }}',
    "1/.keep": "",
}
METRICS = {"deploy_rows": "counter", "deploy_depth": "gauge", "deploy_row_bytes": "histogram"}


def recorded(model: str, request: list[float], *answers: list[float]) -> Exchange:
    tensors = [Tensor.from_numpy(np.array(answer, np.float32)) for answer in answers]
    sent = InferenceRequest(model, {"IN": Tensor.from_numpy(np.array(request, np.float32))})
    return Exchange(sent, arrivals_of({"OUT": tensor} for tensor in tensors))


def config(client: Client, model: str) -> Mapping[str, Any]:
    found = client.config(model)
    assert isinstance(found, dict)
    return found


def deployment(client: Client, doubled: float = 3) -> Deployment:
    streamed = recorded("deployed_stream", [4, 2], [4], [2])
    models = [
        DeployedModel(
            "deployed",
            config(client, "deployed"),
            METRICS,
            [recorded("deployed", [1.5, 0.25], [doubled, 0.5]), recorded("deployed", [7], [14])],
        ),
        DeployedModel("deployed_stream", config(client, "deployed_stream"), {}, [streamed]),
        DeployedModel("deployed_twice", config(client, "deployed_twice")),
    ]
    return Deployment(models, find("2.51"))


def run(folder: Path, address: str, grpc_address: str, *command: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **NO_PLUGINS, "TRITON_HTTP": address, "TRITON_GRPC": grpc_address}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=100, check=False
    )


def test_the_clients_print_the_answers(client: Client, http: RawHTTP, grpc_address: str, tmp_path: Path) -> None:
    write_deploy_files(tmp_path, deployment(client))
    printed = run(tmp_path, http.address, grpc_address, sys.executable, "client.py")
    assert printed.stdout == "OUT\n[3.  0.5]\n", printed.stderr
    printed = run(tmp_path, http.address, grpc_address, "sh", "client.sh")
    assert json.loads(printed.stdout)["outputs"][0]["data"] == [3.0, 0.5], printed.stderr
    printed = run(tmp_path, http.address, grpc_address, sys.executable, "client_deployed_stream.py")
    assert printed.stdout == "OUT\n[4.]\nOUT\n[2.]\n", printed.stderr


def test_the_tests_hold_the_server_to_what_was_recorded(
    client: Client, http: RawHTTP, grpc_address: str, tmp_path: Path
) -> None:
    write_deploy_files(tmp_path, deployment(client, doubled=3.1))
    here = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), "test_models.py"]
    found = run(tmp_path, http.address, grpc_address, sys.executable, *here)
    assert "FAILED test_models.py::test_deployed_0 " in found.stdout, found.stdout
    assert "1 failed, 2 passed" in found.stdout, found.stdout


def test_every_metric_of_rules_and_dashboard_is_reported(client: Client) -> None:
    """Also those of a model that had no request: `absent` would fire else."""
    files = deploy_files(deployment(client))
    (group,) = yaml.safe_load(files["deploy/monitoring/alerts.yaml"])["groups"]
    panels = json.loads(files["deploy/monitoring/dashboard.json"])["panels"]
    (rule,) = yaml.safe_load(files["deploy/monitoring/prometheus-adapter.yaml"])["rules"]["custom"]
    adapted = rule["metricsQuery"].replace("<<.GroupBy>>", "pod").replace("<<.LabelMatchers>>", 'pod="p"')
    scraped = read_metrics(client.metrics(), pod="p")
    data = Prometheus(scraped, scraped)
    firing = [rule["alert"] for rule in group["rules"] if data.evaluate(rule["expr"])]
    drawn = [data.evaluate(target["expr"].replace("$__rate_interval", "1m")) for p in panels for target in p["targets"]]
    assert firing == [] and all(drawn)
    assert data.evaluate(adapted) == {frozenset({("pod", "p")}): 0.0}
    assert data.metrics <= set(scraped)
