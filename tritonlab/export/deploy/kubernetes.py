"""The manifests of Kubernetes: Deployment, Service, and the HorizontalPodAutoscaler on queue time."""

from __future__ import annotations

from typing import Any

from .docker import PORTS, server_command
from .facts import Deployment
from .queue_time import METRIC, TARGET_MICROSECONDS
from .yaml_text import yaml_text

#: Memory beside /dev/shm that a pod requests: Triton and a stub or two. What the models take comes on top.
_MEMORY_MIB = 1024
_SHM_NOTE = (
    "Tensors pass through /dev/shm, where a container's default is 64 MB. What lies in this volume counts as memory\n"
    "of the container, so it is part of the request."
)


def shm_volume(deployed: Deployment) -> dict[str, Any]:
    return {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": f"{deployed.shm_mib}Mi"}}


def shm_mount() -> dict[str, Any]:
    return {"name": "shm", "mountPath": "/dev/shm"}


def security() -> dict[str, Any]:
    return {
        "runAsNonRoot": True,
        "runAsUser": 1000,
        "runAsGroup": 1000,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }


def resources(deployed: Deployment) -> dict[str, Any]:
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
        "resources": resources(deployed),
        "securityContext": security(),
        "volumeMounts": [shm_mount()],
    }
    scraped = {"prometheus.io/scrape": "true", "prometheus.io/port": str(PORTS["metrics"])}
    pod = {
        "metadata": {"labels": _labels(deployed), "annotations": {**scraped, "prometheus.io/path": "/metrics"}},
        # Triton ends what it runs within 30 s of the signal by itself
        "spec": {
            "terminationGracePeriodSeconds": 60,
            "containers": [container],
            "volumes": [shm_volume(deployed)],
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
