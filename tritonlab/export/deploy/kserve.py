"""The manifests of KServe: a ServingRuntime of its own, because the cluster's may be years older, and the
InferenceService that names it."""

from __future__ import annotations

from typing import Any

from .docker import PORTS, server_command
from .facts import Deployment
from .kubernetes import resources, security, shm_mount, shm_volume
from .yaml_text import yaml_text

#: Where KServe's storage initializer puts what `storageUri` names, and the port that it sends requests to.
_MOUNT = "/mnt/models"
_HTTP_PORT = 8080


def _at_once(deployed: Deployment) -> int:
    """Return how many requests the first model executes at once: a full batch in each of its instances."""
    config = deployed.models[0].config
    batch: int = max(config.get("max_batch_size", 0), 1)
    return batch * deployed.models[0].instances


def serving_runtime(deployed: Deployment) -> str:
    """Return the ServingRuntime."""
    container: dict[str, Any] = {
        "name": "kserve-container",
        "image": deployed.image if deployed.has_lock else deployed.base_image,
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
        "resources": resources(deployed),
        "securityContext": security(),
        "volumeMounts": [shm_mount()],
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
            "volumes": [shm_volume(deployed)],
        },
    }
    about = (
        f"Triton {deployed.release}; KServe's default runtime is of another release, and its /dev/shm has 64 MB."
        + (f"\nPush {deployed.image} where the cluster pulls from, and name it below." if deployed.has_lock else "")
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
                "scaleTarget": _at_once(deployed),
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
