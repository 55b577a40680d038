from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tritonlab.tools.deploy.manifests.facts import DeployedModel, Deployment
from tritonlab.tools.deploy.manifests.files import deploy_files

from .deployments import CONFIG, deployment, on_gpu, read, with_sequences
from .manifests import kserve_errors, kubernetes_errors, schema_errors
from .test_docker import instructions

RUNTIME, SERVICE = "deploy/kserve/serving-runtime.yaml", "deploy/kserve/inference-service.yaml"

IMAGE = "nvcr.io/nvidia/tritonserver:24.10-py3"


@pytest.mark.parametrize("make", [deployment, on_gpu, with_sequences])
def test_the_manifests_pass_their_schemas_and_fit_together(make: Callable[[], Deployment]) -> None:
    files = deploy_files(make(), ["kserve"])
    assert schema_errors(RUNTIME, files[RUNTIME]) == schema_errors(SERVICE, files[SERVICE]) == []
    assert kserve_errors(files, make().shm_mib) == []


def test_the_image_is_the_target_s_or_ours_where_packages_are_added() -> None:
    images = {
        has_lock: read(deploy_files(deployment(has_lock=has_lock), ["kserve"])[RUNTIME])["spec"]["containers"][0][
            "image"
        ]
        for has_lock in (False, True)
    }
    assert images == {False: IMAGE, True: "digits-v2:24.10"}


def test_a_stub_in_a_model_directory_is_copied_to_where_its_mode_can_be_set() -> None:
    """Triton sets it at each load; the image is read-only, and KServe's volume may be."""
    files = deploy_files(deployment(has_stub=True), ["docker", "k8s", "kserve"])
    assert schema_errors(RUNTIME, files[RUNTIME]) == [] and kserve_errors(files, 800) == []
    assert kubernetes_errors(files, 800) == []
    served = "exec tritonserver --model-repository=/tmp/models"
    copied = "rm -rf /tmp/models && cp -RP {0} /tmp/models && " + served
    command = instructions(str(files["deploy/Dockerfile"]))[-1]
    assert json.loads(command.removeprefix("CMD ")) == ["sh", "-c", copied.format("/models")]
    pod = read(files["deploy/k8s/base/deployment.yaml"])["spec"]["template"]["spec"]
    assert pod["containers"][0]["command"] == ["sh", "-c", copied.format("/models")]
    (container,) = read(files[RUNTIME])["spec"]["containers"]
    assert container["command"][-1] == copied.format("/mnt/models") + " --http-port=8080 --grpc-port=9000"


def predictor_of(deployed: Deployment) -> tuple[str, dict[str, Any]]:
    service = read(deploy_files(deployed, ["kserve"])[SERVICE])
    return service["metadata"]["annotations"]["serving.kserve.io/deploymentMode"], service["spec"]["predictor"]


def test_it_scales_on_what_the_first_model_executes_at_once() -> None:
    mode, predictor = predictor_of(deployment(models=[DeployedModel("digits", CONFIG)]))
    assert (mode, predictor["scaleMetric"], predictor["scaleTarget"]) == ("Serverless", "concurrency", 8 * 2)


def test_streams_have_grpc_besides_http() -> None:
    """Knative has one port, a Deployment's Service as many as the container."""
    mode, predictor = predictor_of(deployment())
    assert (mode, predictor["scaleMetric"], predictor["model"]["protocolVersion"]) == ("RawDeployment", "cpu", "v2")
    ports = read(deploy_files(deployment(), ["kserve"])[RUNTIME])["spec"]["containers"][0]["ports"]
    assert {port["name"]: port["containerPort"] for port in ports} == {"http": 8080, "grpc": 9000}
    _, predictor = predictor_of(deployment(models=deployment().models[1:]))
    assert predictor["model"]["protocolVersion"] == "grpc-v2"


def test_sequences_have_one_pod() -> None:
    mode, predictor = predictor_of(with_sequences())
    assert (mode, predictor["minReplicas"], predictor["maxReplicas"]) == ("RawDeployment", 1, 1)
    assert predictor["deploymentStrategy"] == {"type": "Recreate"} and "scaleMetric" not in predictor


@pytest.mark.parametrize(
    ("path", "text", "replacement"),
    [
        (RUNTIME, "v1alpha1", "v1beta1"),
        (RUNTIME, "supportedModelFormats", "supportedFormats"),
        (RUNTIME, "emptyDir", "emptydir"),
        (RUNTIME, "    - v2\n", "    - v3\n"),
        (SERVICE, "storageUri", "storageURI"),
        (SERVICE, "scaleMetric: cpu", "scaleMetric: queue"),
        (SERVICE, "seccompProfile", "seccomp"),
        (SERVICE, "maxReplicas: 4", 'maxReplicas: "4"'),
    ],
)
def test_the_schemas_refuse_a_mutation(path: str, text: str, replacement: str) -> None:
    before = deploy_files(deployment(), ["kserve"])[path]
    assert isinstance(before, str) and text in before
    assert schema_errors(path, before.replace(text, replacement))


@pytest.mark.parametrize(
    ("path", "text", "replacement"),
    [
        (RUNTIME, "        - name: shm\n          mountPath: /dev/shm\n", ""),
        (RUNTIME, '"800Mi"', '"64Mi"'),
        (RUNTIME, "containerPort: 8080", "containerPort: 8000"),
        (RUNTIME, "          port: 8080", "          port: 8000"),
        (RUNTIME, "--http-port=8080", "--http-port=9000"),
        (RUNTIME, "name: kserve-container", "name: triton"),
        (RUNTIME, "--grpc-port=9000", "--grpc-port=8001"),
        (RUNTIME, "    - grpc-v2\n", ""),
        (RUNTIME, "        - name: tmp\n          mountPath: /tmp\n", ""),
        (RUNTIME, "readOnlyRootFilesystem: true", "readOnlyRootFilesystem: false"),
        (RUNTIME, "          type: RuntimeDefault", "          type: Unconfined"),
        (SERVICE, "RawDeployment", "Serverless"),
        (SERVICE, "runtime: digits-v2", "runtime: kserve-tritonserver"),
        (SERVICE, 'version: "2"', 'version: "1"'),
    ],
)
def test_a_mutation_that_the_schemas_take_is_found(path: str, text: str, replacement: str) -> None:
    files = deploy_files(deployment(), ["kserve"])
    before = files[path]
    assert isinstance(before, str) and text in before
    mutant = {**files, path: before.replace(text, replacement)}
    assert schema_errors(path, mutant[path]) == [] and kserve_errors(mutant, 800)
