"""The manifests of Kubernetes: Deployment, Service, and the HorizontalPodAutoscaler on queue time. Those of KServe: a
ServingRuntime of its own, because the cluster's may be years older, and the InferenceService that names it.
"""

from __future__ import annotations

from typing import Any

from .docker import PORTS, server_command
from .facts import Deployment
from .monitoring import METRIC, TARGET_MICROSECONDS
from .yaml_text import yaml_text

#: Where KServe's storage initializer puts what `storageUri` names, and the port that it sends requests to.
_MOUNT = "/mnt/models"
_HTTP_PORT = 8080

#: Memory beside /dev/shm that a pod requests: Triton and a stub or two. What the models take comes on top.
_MEMORY_MIB = 1024
_SHM_NOTE = (
    "Tensors pass through /dev/shm, where a container's default is 64 MB. What lies in this volume counts as memory\n"
    "of the container, so it is part of the request."
)


def _shm_volume(deployed: Deployment) -> dict[str, Any]:
    return {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": f"{deployed.shm_mib}Mi"}}


def _shm_mount() -> dict[str, Any]:
    return {"name": "shm", "mountPath": "/dev/shm"}


def _security() -> dict[str, Any]:
    return {
        "runAsNonRoot": True,
        "runAsUser": 1000,
        "runAsGroup": 1000,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }


def _resources(deployed: Deployment) -> dict[str, Any]:
    found: dict[str, Any] = {"requests": {"cpu": "1", "memory": f"{_MEMORY_MIB + deployed.shm_mib}Mi"}}
    if deployed.on_gpu:
        found["limits"] = {"nvidia.com/gpu": 1}
    return found


def _labels(deployed: Deployment) -> dict[str, str]:
    return {"app.kubernetes.io/name": deployed.name}


def _probe(path: str, period: int, failures: int) -> dict[str, Any]:
    return {
        "httpGet": {"path": path, "port": "http"},
        "periodSeconds": period,
        "timeoutSeconds": 5,
        "failureThreshold": failures,
    }


def deployment(deployed: Deployment) -> str:
    """Return the Deployment. Loading may take ten minutes; after that a server that does not answer for half a minute
    is restarted, and one that is not ready gets no requests."""
    container = {
        "name": "triton",
        "image": deployed.image,
        "imagePullPolicy": "IfNotPresent",
        "command": server_command(),
        "ports": [{"name": name, "containerPort": port} for name, port in PORTS.items()],
        "startupProbe": _probe("/v2/health/ready", period=5, failures=120),
        "readinessProbe": _probe("/v2/health/ready", period=5, failures=3),
        "livenessProbe": _probe("/v2/health/live", period=10, failures=3),
        # requests that are on their way to a pod that ends still reach it
        "lifecycle": {"preStop": {"exec": {"command": ["sleep", "5"]}}},
        "resources": _resources(deployed),
        "securityContext": _security(),
        "volumeMounts": [_shm_mount()],
    }
    scraped = {"prometheus.io/scrape": "true", "prometheus.io/port": str(PORTS["metrics"])}
    pod = {
        "metadata": {"labels": _labels(deployed), "annotations": {**scraped, "prometheus.io/path": "/metrics"}},
        # Triton ends what it runs within 30 s of the signal by itself
        "spec": {
            "terminationGracePeriodSeconds": 60,
            "containers": [container],
            "volumes": [_shm_volume(deployed)],
        },
    }
    manifest = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": deployed.name, "labels": _labels(deployed)},
        # without `replicas`: their number is the autoscaler's, and every apply would set it back
        "spec": {"selector": {"matchLabels": _labels(deployed)}, "template": pod},
    }
    return yaml_text(
        manifest, about=f"Push {deployed.image} where the cluster pulls from, and name it below.\n{_SHM_NOTE}"
    )


def service(deployed: Deployment) -> str:
    """Return the Service."""
    ports = [{"name": name, "port": port, "targetPort": name} for name, port in PORTS.items()]
    manifest = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": deployed.name, "labels": _labels(deployed)},
        "spec": {"selector": _labels(deployed), "ports": ports},
    }
    return yaml_text(manifest, about="gRPC keeps a connection on one pod: clients that shall reach all need a proxy.")


def autoscaler(deployed: Deployment) -> str:
    """Return the HorizontalPodAutoscaler; its metric is made by the adapter's rule in `monitoring/`."""
    target = {"type": "AverageValue", "averageValue": str(TARGET_MICROSECONDS)}
    manifest = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": deployed.name, "labels": _labels(deployed)},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": deployed.name},
            "minReplicas": 1,
            "maxReplicas": 4,
            "metrics": [{"type": "Pods", "pods": {"metric": {"name": METRIC}, "target": target}}],
            # a pod that starts has to load its models first
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": 300}},
        },
    }
    about = (
        f"{METRIC} is the mean time in the queue of the model that waits longest, in microseconds.\n"
        "It needs the rule in ../monitoring/prometheus-adapter.yaml: without it the autoscaler finds no metric."
    )
    return yaml_text(manifest, about=about)


def serving_runtime(deployed: Deployment) -> str:
    """Return the ServingRuntime."""
    container: dict[str, Any] = {
        "name": "kserve-container",
        "image": deployed.image if deployed.needs_image else deployed.base_image,
        "command": [*server_command(_MOUNT), f"--http-port={_HTTP_PORT}"],
        "env": [{"name": "PYTHONNOUSERSITE", "value": "1"}],
        # one port: Knative takes no more
        "ports": [{"containerPort": _HTTP_PORT, "protocol": "TCP"}],
        "readinessProbe": {
            "httpGet": {"path": "/v2/health/ready", "port": _HTTP_PORT},
            "periodSeconds": 5,
            "timeoutSeconds": 5,
            "failureThreshold": 3,
        },
        "resources": _resources(deployed),
        "securityContext": _security(),
        "volumeMounts": [_shm_mount()],
    }
    manifest = {
        "apiVersion": "serving.kserve.io/v1alpha1",
        "kind": "ServingRuntime",
        "metadata": {"name": deployed.name},
        "spec": {
            "annotations": {
                "prometheus.kserve.io/port": str(PORTS["metrics"]),
                "prometheus.kserve.io/path": "/metrics",
            },
            "supportedModelFormats": [{"name": "triton", "version": "2", "autoSelect": False}],
            "protocolVersions": ["v2"],
            "containers": [container],
            "volumes": [_shm_volume(deployed)],
        },
    }
    about = (
        f"Triton {deployed.release}; KServe's default runtime is of another release, and its /dev/shm has 64 MB."
        + (f"\nPush {deployed.image} where the cluster pulls from, and name it below." if deployed.needs_image else "")
    )
    return yaml_text(manifest, about=about)


def inference_service(deployed: Deployment) -> str:
    """Return the InferenceService. It scales on concurrent requests, which Knative counts."""
    manifest = {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {"name": deployed.name, "annotations": {"serving.kserve.io/deploymentMode": "Serverless"}},
        "spec": {
            "predictor": {
                "minReplicas": 1,
                "maxReplicas": 4,
                "scaleMetric": "concurrency",
                "scaleTarget": deployed.models[0].at_once,
                "model": {
                    "runtime": deployed.name,
                    "modelFormat": {"name": "triton", "version": "2"},
                    "protocolVersion": "v2",
                    "storageUri": f"pvc://{deployed.name}-models/models",
                },
            }
        },
    }
    about = (
        "storageUri: the directory models/, in a volume of that name or in a bucket. Mode bits: a bucket drops them."
    )
    return yaml_text(manifest, about=about)
