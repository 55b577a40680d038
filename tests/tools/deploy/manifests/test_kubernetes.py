from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tritonlab.tools.deploy.manifests.facts import Deployment
from tritonlab.tools.deploy.manifests.files import deploy_files, write_deploy_files
from tritonlab.tools.deploy.manifests.operator_facts import OperatorFacts
from tritonlab.tools.deploy.preflight.variables import Variable

from .deployments import deployment, on_gpu, read, with_sequences
from .manifests import kserve_errors, kubernetes_errors, schema_errors

VALIDATE = shutil.which("kubernetes-validate")
KUBECTL = shutil.which("kubectl")
CHECKOV = shutil.which(os.environ.get("TRITONLAB_CHECKOV", "checkov"))
_PLACES = ("deploy/k8s/base/", "deploy/k8s/overlays/")
Files = dict[str, str | bytes]


def files_of(deployed: Deployment) -> Files:
    return deploy_files(deployed, ["k8s"])


def manifests(files: Files) -> list[str]:
    return [path for path in files if path.startswith(_PLACES)]


@pytest.mark.parametrize("make", [deployment, on_gpu, with_sequences])
def test_the_manifests_pass_their_schemas_and_fit_together(make: Callable[[], Deployment]) -> None:
    files = files_of(make())
    base = ("deployment", "kustomization", "network-policy", "pod-disruption-budget", "service")
    overlay = ("hpa",) * (make is not with_sequences) + ("kustomization", "pod-monitor", "prometheus-rule")
    expected = [*(f"base/{name}" for name in base), *(f"overlays/prometheus/{name}" for name in overlay)]
    assert manifests(files) == [f"deploy/k8s/{name}.yaml" for name in expected]
    assert [error for path in manifests(files) for error in schema_errors(path, files[path])] == []
    assert kubernetes_errors(files, make().shm_mib) == []


def test_a_gpu_is_a_limit_where_a_model_requests_one() -> None:
    def limits(deployed: Deployment) -> object:
        pod = read(files_of(deployed)["deploy/k8s/base/deployment.yaml"])["spec"]["template"]["spec"]
        return pod["containers"][0]["resources"].get("limits")

    assert limits(on_gpu()) == {"nvidia.com/gpu": 1, "memory": "3360Mi"}
    assert limits(deployment()) == {"memory": "3360Mi"} and limits(deployment(peak_memory_bytes=None)) is None


def test_sequences_have_one_pod_and_no_autoscaler() -> None:
    """No Service sees which sequence a request belongs to."""
    files = files_of(with_sequences())
    assert not [path for path in files if "hpa" in path or "adapter" in path]
    spec = read(files["deploy/k8s/base/deployment.yaml"])["spec"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})
    assert read(files["deploy/k8s/base/service.yaml"])["spec"]["sessionAffinity"] == "ClientIP"
    generates = with_sequences().models[0]
    config = {**generates.config, "sequence_batching": {"generative_sequence": True}}  # one request is a sequence
    files = files_of(deployment(models=[generates.__class__("writes", config)]))
    assert "deploy/k8s/overlays/prometheus/hpa.yaml" in files
    assert "sessionAffinity" not in str(files["deploy/k8s/base/service.yaml"])


def test_another_version_is_another_pod() -> None:
    """So that an update is rolled out and can be undone; the selectors stay, which Kubernetes does not change."""

    def parts(version: str) -> list[Any]:
        files = deploy_files(deployment(version=version), ["k8s", "kserve"])
        assert kubernetes_errors(files, 800) == kserve_errors(files, 800) == []
        assert [error for path in manifests(files) for error in schema_errors(path, files[path])] == []
        deployed = read(files["deploy/k8s/base/deployment.yaml"])
        template = deployed["spec"]["template"]
        (image,) = read(files["deploy/k8s/base/kustomization.yaml"])["images"]
        service = read(files["deploy/kserve/inference-service.yaml"])
        labels = [each["metadata"]["labels"] for each in (deployed, template, service)]
        versions = [each["app.kubernetes.io/version"] for each in labels]
        cause = deployed["metadata"]["annotations"]["kubernetes.io/change-cause"]  # what `rollout history` shows
        assert cause == f"digits-v2:{version}"
        return [*versions, template["spec"]["containers"][0]["image"].partition(":")[2], image["newTag"]]

    assert (parts("24.10-1a2b"), parts("24.10-3c4d")) == (["24.10-1a2b"] * 5, ["24.10-3c4d"] * 5)


def test_variables_are_references_and_never_values() -> None:
    variables = [Variable("RATE", "0.5"), Variable("TABLE", is_required=True), Variable("API_TOKEN")]
    files = deploy_files(deployment(operator=OperatorFacts(variables=variables)), ["docker", "k8s", "kserve"])
    paths = ("deploy/k8s/base/deployment.yaml", "deploy/kserve/serving-runtime.yaml", "deploy/compose.yaml")
    assert [error for path in paths for error in schema_errors(path, files[path])] == []
    pod = read(files[paths[0]])["spec"]["template"]["spec"]["containers"][0]["env"]
    runtime = read(files[paths[1]])["spec"]["containers"][0]["env"]
    settings, secrets = {"name": "digits-v2-settings"}, {"name": "digits-v2-secrets"}
    references = [
        {"configMapKeyRef": {**settings, "key": "RATE", "optional": True}},
        {"configMapKeyRef": {**settings, "key": "TABLE"}},
        {"secretKeyRef": {**secrets, "key": "API_TOKEN", "optional": True}},
    ]
    for env in (pod, runtime):
        assert [each["valueFrom"] for each in env[-3:]] == references
        assert [each["name"] for each in env[-4:]] == ["HOME", "RATE", "TABLE", "API_TOKEN"]
    environment = read(files[paths[2]])["services"]["triton"]["environment"]
    assert environment == {"HOME": "/tmp", "RATE": None, "TABLE": "${TABLE:?is required}", "API_TOKEN": None}


def test_two_pods_that_may_share_a_sequence_are_seen() -> None:
    files = files_of(with_sequences())
    for text, other in (("replicas: 1", "replicas: 2"), ("type: Recreate", "type: RollingUpdate")):
        path = "deploy/k8s/base/deployment.yaml"
        changed = {**files, path: str(files[path]).replace(text, other)}
        assert kubernetes_errors(changed, 800) == ["two pods may share a sequence"]


def mutant(path: str, text: str, replacement: str) -> Files:
    files = files_of(deployment())
    before = files[path]
    assert isinstance(before, str) and text in before
    return {**files, path: before.replace(text, replacement)}


@pytest.mark.parametrize(
    ("name", "text", "replacement"),
    [
        ("overlays/prometheus/hpa", "apiVersion: autoscaling/v2\n", "apiVersion: autoscaling/v2beta2\n"),
        ("overlays/prometheus/hpa", "averageValue", "averageValues"),
        ("overlays/prometheus/pod-monitor", 'interval: "15s"', "interval: fifteen"),
        ("overlays/prometheus/pod-monitor", "podMetricsEndpoints", "endpoints"),
        ("overlays/prometheus/prometheus-rule", 'for: "5m"', 'during: "5m"'),
        ("overlays/prometheus/prometheus-rule", "  groups:", "groups:"),
        ("overlays/prometheus/kustomization", "resources:", "bases:"),
        ("base/kustomization", "newTag", "tag"),
        ("base/network-policy", "podSelector: {}", "podSelector: []"),
        ("base/network-policy", "policyTypes", "types"),
        ("base/pod-disruption-budget", "maxUnavailable", "maxUnavailables"),
        ("base/deployment", "emptyDir", "emptydir"),
        ("base/deployment", "sizeLimit", "shmSize"),
        ("base/deployment", "seccompProfile", "seccomp"),
        ("base/deployment", "containerPort: 8000", 'containerPort: "8000"'),
        ("base/deployment", "startupProbe", "startUpProbe"),
        ("base/service", "targetPort", "target_port"),
    ],
)
def test_the_schemas_refuse_a_mutation(name: str, text: str, replacement: str) -> None:
    path = f"deploy/k8s/{name}.yaml"
    errors = schema_errors(path, mutant(path, text, replacement)[path])
    has_versions = not name.endswith(("kustomization", "pod-monitor", "prometheus-rule"))
    assert len(errors) >= 1 + has_versions, errors  # one of each version of Kubernetes


_SHM_MOUNT = "            - name: shm\n              mountPath: /dev/shm\n"
_TMP_MOUNT = "            - name: tmp\n              mountPath: /tmp\n"
_LABEL = "app.kubernetes.io/name: digits-v2"


@pytest.mark.parametrize(
    ("path", "text", "replacement"),
    [
        ("k8s/base/deployment.yaml", _SHM_MOUNT, ""),
        ("k8s/base/deployment.yaml", "mountPath: /dev/shm", "mountPath: /shm"),
        (
            "k8s/base/deployment.yaml",
            "        - name: shm\n          emptyDir",
            "        - name: memory\n          emptyDir",
        ),
        ("k8s/base/deployment.yaml", "            medium: Memory\n", ""),
        ("k8s/base/deployment.yaml", '"800Mi"', '"64Mi"'),
        ("k8s/base/deployment.yaml", "containerPort: 8000", "containerPort: 8080"),
        ("k8s/base/deployment.yaml", "port: http", "port: 8080"),
        ("k8s/base/deployment.yaml", "port: http", "port: metrics"),
        ("k8s/base/deployment.yaml", "/v2/health/live", "/health"),
        ("k8s/base/deployment.yaml", 'io/port: "8002"', 'io/port: "8000"'),
        ("k8s/base/service.yaml", "targetPort: grpc", "targetPort: gprc"),
        ("k8s/base/service.yaml", "port: 8001", "port: 80"),
        (
            "k8s/base/service.yaml",
            "  selector:\n    app.kubernetes.io/name: digits-v2",
            "  selector:\n    app: digits-v2",
        ),
        (
            "k8s/overlays/prometheus/hpa.yaml",
            "kind: Deployment\n    name: digits-v2",
            "kind: Deployment\n    name: digits",
        ),
        ("monitoring/prometheus-adapter.yaml", "as: triton_queue_time_us", "as: queue_time"),
        ("monitoring/alerts.yaml", "critical", "warning"),
        ("k8s/base/deployment.yaml", _TMP_MOUNT, ""),
        ("k8s/base/deployment.yaml", "readOnlyRootFilesystem: true", "readOnlyRootFilesystem: false"),
        ("k8s/base/deployment.yaml", "runAsNonRoot: true", "runAsNonRoot: false"),
        ("k8s/base/deployment.yaml", "type: RuntimeDefault", "type: Unconfined"),
        ("k8s/base/deployment.yaml", "                - ALL", "                - NET_RAW"),
        ("k8s/base/deployment.yaml", "allowPrivilegeEscalation: false", "allowPrivilegeEscalation: true"),
        ("k8s/base/network-policy.yaml", f"    matchLabels:\n      {_LABEL}", "    matchLabels:\n      app: digits"),
        ("k8s/base/network-policy.yaml", "port: grpc", "port: rpc"),
        ("k8s/base/pod-disruption-budget.yaml", f"matchLabels:\n      {_LABEL}", "matchLabels:\n      app: digits"),
        ("k8s/base/kustomization.yaml", 'newTag: "24.10"', 'newTag: "24.11"'),
        ("k8s/base/kustomization.yaml", "  - network-policy.yaml\n", ""),
        ("k8s/overlays/prometheus/kustomization.yaml", "  - hpa.yaml\n", "  - autoscaler.yaml\n"),
        ("k8s/overlays/prometheus/pod-monitor.yaml", "port: metrics", "port: http"),
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
    own = [path for path in manifests(files) if not path.endswith(_FOREIGN)]
    command = [str(VALIDATE), "--strict", "--quiet", "-k", version, *own]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
    assert (result.returncode, result.stdout) == (0, "")


_FOREIGN = ("/kustomization.yaml", "/pod-monitor.yaml", "/prometheus-rule.yaml")


@pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed")
@pytest.mark.parametrize("make", [deployment, with_sequences])
def test_kubectl_builds_what_the_files_say(make: Callable[[], Deployment], tmp_path: Path) -> None:
    """An operator's registry and namespace are two lines of the base."""
    write_deploy_files(tmp_path, make(), ["k8s"])
    base = tmp_path / "deploy/k8s/base/kustomization.yaml"
    text = base.read_text()
    name = make().name
    base.write_text(text.replace(f"newName: {name}", f"newName: registry.example.com/{name}") + "namespace: live\n")
    for place, added in (("base", 0), ("overlays/prometheus", 2 + (make is deployment))):
        command = [str(KUBECTL), "kustomize", f"deploy/k8s/{place}"]
        result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
        built = list(yaml.safe_load_all(result.stdout))
        assert len(built) == 4 + added, result.stderr
        (deployed,) = [each for each in built if each["kind"] == "Deployment"]
        (container,) = deployed["spec"]["template"]["spec"]["containers"]
        assert container["image"] == f"registry.example.com/{make().image}"
        assert deployed["metadata"]["namespace"] == "live"


@pytest.mark.timeout(400)  # a run takes 20 s of a processor, and there are two
@pytest.mark.skipif(
    CHECKOV is None,
    reason="checkov is not installed (it wants an environment of its own: TRITONLAB_CHECKOV names its program)",
)
@pytest.mark.parametrize("make", [deployment, with_sequences])
def test_checkov_finds_nothing_without_a_reason(make: Callable[[], Deployment], tmp_path: Path) -> None:
    write_deploy_files(tmp_path, make(), ["k8s", "kserve"])
    config = tmp_path / "deploy/k8s/checkov.yaml"

    def failed(*more: str) -> set[str]:
        frameworks = ["--framework", "kubernetes", "dockerfile"]
        command = [str(CHECKOV), "-d", "deploy", *frameworks, "--skip-download", "-o", "json", *more]
        result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False)
        found = json.loads(result.stdout)
        return {each["check_id"] for one in found for each in one["results"]["failed_checks"]}

    assert failed("--config-file", str(config)) == set()
    reasons = config.read_text()
    assert failed() == set(re.findall(r"(?<=# ).*\n  - (\S+)", reasons))  # each is needed, and has a comment above


@pytest.mark.skipif(CHECKOV is None, reason="checkov is not installed")
def test_checkov_sees_a_mutation(tmp_path: Path) -> None:
    write_deploy_files(tmp_path, deployment(), ["k8s"])
    path = tmp_path / "deploy/k8s/base/deployment.yaml"
    path.write_text(path.read_text().replace("readOnlyRootFilesystem: true", "readOnlyRootFilesystem: false"))
    command = [str(CHECKOV), "-f", str(path), "--framework", "kubernetes", "--skip-download", "--compact", "--quiet"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert "CKV_K8S_22" in result.stdout
