"""Each row of pre-flight for KServe, on what it runs: a real Triton, called over HTTP as by its ingress. A cluster
is not here: two Tritons that are called in turn stand for the pods of a service. KServe's own client calls one of
them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import yaml

from tests.conformance.reference import ReferenceServer
from tests.engines.direct import direct_server, post
from tests.engines.environment import ROOT, environment, python_of
from tests.engines.figures import Figures
from tests.engines.models import DOUBLE, DOUBLE_CONFIG
from tests.engines.rows import ROWS, write_models
from tests.serving import write_model
from tests.tools.deploy.manifests.deployments import deployment
from tritonlab.tools.deploy.manifests.files import render

#: Those of the models that a row is about, and one for KServe's client.
SERVED = ("stream", "total", "double")

EXPECTED = {
    "sequences": "200 [1.0], 200 [3.0], 200 [6.0] by one; 200 [1.0], 400, 200 [4.0] by two in turn",
    "several responses": "infer 501, generate_stream 3 of 3",
    "shared memory, gRPC": "a region of another machine 500, ports of the runtime [8080]",
}


def run(scratch: Path, figures: Figures) -> None:
    """Prove every row; `scratch` is an empty directory."""
    repository = scratch / "rows" / "models"
    write_models(repository)
    write_model(repository, "double", DOUBLE, DOUBLE_CONFIG)
    arguments = [f"--load-model={name}" for name in SERVED]
    (scratch / "other").mkdir()
    with (
        ReferenceServer(repository, scratch, arguments) as one,
        ReferenceServer(repository, scratch / "other", arguments) as other,
    ):
        pods = [int(each.http.rpartition(":")[2]) for each in (one, other)]
        region = {"key": "/of_another_machine", "offset": 0, "byte_size": 64}
        status = post(pods[0], "/v2/systemsharedmemory/region/a/register", region)[0]
        ports = [each["containerPort"] for each in _container()["ports"]]
        seen = {
            "sequences": f"{_sequence(pods[:1])} by one; {_sequence(pods)} by two in turn",
            "several responses": f"infer {_infer(pods[0])}, generate_stream {_stream(pods[0])} of 3",
            "shared memory, gRPC": f"a region of another machine {status}, ports of the runtime {ports}",
        }
        client(one, repository, figures)
    for row in (each for each in ROWS if each.engine == "kserve"):
        figures.add_row(row, seen[row.uses], seen[row.uses] == EXPECTED[row.uses])


def _container() -> dict[str, list[dict[str, int]]]:
    """Return the container of the ServingRuntime that an export writes."""
    runtime = yaml.safe_load(render("deploy/kserve/serving-runtime.yaml", deployment()))
    found: dict[str, list[dict[str, int]]] = runtime["spec"]["containers"][0]
    return found


def _sequence(pods: list[int]) -> str:
    """Return the answers to a sequence of three, whose requests reach the pods in turn."""
    found = []
    for step in (1, 2, 3):
        parameters = {"sequence_id": 5, "sequence_start": step == 1, "sequence_end": step == 3}
        tensor = {"name": "IN", "datatype": "FP32", "shape": [1], "data": [step]}
        document = {"parameters": parameters, "inputs": [tensor]}
        status, text = post(pods[(step - 1) % len(pods)], "/v2/models/total/infer", document)
        found.append(f"{status} {json.loads(text)['outputs'][0]['data']}" if status == 200 else str(status))
    return ", ".join(found)


def _infer(port: int) -> int:
    tensor = {"name": "IN", "datatype": "FP32", "shape": [1], "data": [3]}
    return post(port, "/v2/models/stream/infer", {"inputs": [tensor]})[0]


def _stream(port: int) -> int:
    return post(port, "/v2/models/stream/generate_stream", {"IN": [3]})[1].count("data: ")


def client(triton: ReferenceServer, repository: Path, figures: Figures) -> None:
    """Prove that KServe's own client gets from a server of ours what it gets from Triton."""
    with direct_server(repository) as ours:
        addresses = (triton.http, triton.grpc, ours.http, ours.grpc)
        done = subprocess.run(
            [python_of("kserve"), "-m", "tests.engines.kserve_client", *addresses],
            cwd=ROOT, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True,
        )  # fmt: skip
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("FOUND "))
    for name, (by_triton, by_us) in json.loads(line.removeprefix("FOUND ")).items():
        figures.add(f"KServe's client, {name}", str(by_us)[:160], by_triton == by_us, "as from Triton")
