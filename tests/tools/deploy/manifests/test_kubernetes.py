from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tritonlab.tools.deploy.manifests.facts import Deployment
from tritonlab.tools.deploy.manifests.files import deploy_files, write_deploy_files

from .deployments import deployment, on_gpu, read
from .manifests import kubernetes_errors, schema_errors

VALIDATE = shutil.which("kubernetes-validate")
Files = dict[str, str | bytes]


def files_of(deployed: Deployment) -> Files:
    return deploy_files(deployed, ["k8s"])


def manifests(files: Files) -> list[str]:
    return [path for path in files if path.startswith("deploy/k8s/")]


@pytest.mark.parametrize("make", [deployment, on_gpu])
def test_the_manifests_pass_their_schemas_and_fit_together(make: Callable[[], Deployment]) -> None:
    files = files_of(make())
    assert manifests(files) == [f"deploy/k8s/{name}.yaml" for name in ("deployment", "hpa", "service")]
    assert [error for path in manifests(files) for error in schema_errors(path, files[path])] == []
    assert kubernetes_errors(files, make().shm_mib) == []


def test_a_gpu_is_a_limit_where_a_model_requests_one() -> None:
    def limits(deployed: Deployment) -> object:
        pod = read(files_of(deployed)["deploy/k8s/deployment.yaml"])["spec"]["template"]["spec"]
        return pod["containers"][0]["resources"].get("limits")

    assert limits(on_gpu()) == {"nvidia.com/gpu": 1} and limits(deployment()) is None


def mutant(path: str, text: str, replacement: str) -> Files:
    files = files_of(deployment())
    before = files[path]
    assert isinstance(before, str) and text in before
    return {**files, path: before.replace(text, replacement)}


@pytest.mark.parametrize(
    ("name", "text", "replacement"),
    [
        ("hpa", "apiVersion: autoscaling/v2\n", "apiVersion: autoscaling/v2beta2\n"),
        ("hpa", "averageValue", "averageValues"),
        ("deployment", "emptyDir", "emptydir"),
        ("deployment", "sizeLimit", "shmSize"),
        ("deployment", "containerPort: 8000", 'containerPort: "8000"'),
        ("deployment", "startupProbe", "startUpProbe"),
        ("service", "targetPort", "target_port"),
    ],
)
def test_the_schemas_refuse_a_mutation(name: str, text: str, replacement: str) -> None:
    path = f"deploy/k8s/{name}.yaml"
    errors = schema_errors(path, mutant(path, text, replacement)[path])
    assert len(errors) >= 2, errors  # one of each version of Kubernetes


_SHM_MOUNT = "          volumeMounts:\n            - name: shm\n              mountPath: /dev/shm\n"


@pytest.mark.parametrize(
    ("path", "text", "replacement"),
    [
        ("k8s/deployment.yaml", _SHM_MOUNT, ""),
        ("k8s/deployment.yaml", "mountPath: /dev/shm", "mountPath: /shm"),
        ("k8s/deployment.yaml", "      volumes:\n        - name: shm", "      volumes:\n        - name: memory"),
        ("k8s/deployment.yaml", "            medium: Memory\n", ""),
        ("k8s/deployment.yaml", '"800Mi"', '"64Mi"'),
        ("k8s/deployment.yaml", "containerPort: 8000", "containerPort: 8080"),
        ("k8s/deployment.yaml", "port: http", "port: 8080"),
        ("k8s/deployment.yaml", "port: http", "port: metrics"),
        ("k8s/deployment.yaml", "/v2/health/live", "/health"),
        ("k8s/deployment.yaml", 'io/port: "8002"', 'io/port: "8000"'),
        ("k8s/service.yaml", "targetPort: grpc", "targetPort: gprc"),
        ("k8s/service.yaml", "port: 8001", "port: 80"),
        ("k8s/service.yaml", "  selector:\n    app.kubernetes.io/name: digits-v2", "  selector:\n    app: digits-v2"),
        ("k8s/hpa.yaml", "kind: Deployment\n    name: digits-v2", "kind: Deployment\n    name: digits"),
        ("monitoring/prometheus-adapter.yaml", "as: triton_queue_time_us", "as: queue_time"),
    ],
)
def test_a_mutation_that_the_schemas_take_is_found(path: str, text: str, replacement: str) -> None:
    files = mutant(f"deploy/{path}", text, replacement)
    assert [error for path in manifests(files) for error in schema_errors(path, files[path])] == []
    assert kubernetes_errors(files, 800)


@pytest.mark.skipif(
    VALIDATE is None,
    reason="kubernetes-validate is not installed; the schemas in this folder are cut from it",
)
@pytest.mark.parametrize("version", ["1.26", "1.37"])
def test_kubernetes_validate_takes_the_manifests_without_a_warning(version: str, tmp_path: Path) -> None:
    files = files_of(deployment())
    write_deploy_files(tmp_path, deployment(), ["k8s"])
    command = [str(VALIDATE), "--strict", "--quiet", "-k", version, *manifests(files)]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
    assert (result.returncode, result.stdout) == (0, "")
