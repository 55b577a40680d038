"""The serve.yaml with which `serve deploy` runs the repository on a Ray cluster."""

from __future__ import annotations

from typing import Any

from .facts import Deployment
from .yaml_text import yaml_text

#: Where the repository lies on every node, as in the image that the Dockerfile makes.
_REPOSITORY = "/models"


def serve_config(deployed: Deployment) -> str:
    """Return serve.yaml.

    Raises ValueError for a model that keeps sequences, which replicas of Ray Serve cannot share, or a Python-based
    backend.
    """
    if deployed.backends:
        raise ValueError(
            f"the Python-based backend '{deployed.backends[0]}' runs a model of this export, and the replicas of Ray "
            "Serve have no backend directory; deploy it with docker, k8s or kserve"
        )
    for model in deployed.models:
        if "sequence_batching" in model.config:
            raise ValueError(
                f"the model '{model.name}' keeps sequences, and Ray Serve sends the requests of one sequence to "
                "different replicas; deploy it with docker, k8s or kserve"
            )
    application = {
        "name": deployed.name,
        "route_prefix": "/",
        "import_path": "tritonlab.ray:application",
        "args": {
            "model_repository": _REPOSITORY,
            "models": [model.name for model in deployed.models],
            "num_cpus": 1,
            "num_gpus": 1 if deployed.on_gpu else 0,
            "min_replicas": 1,
            "max_replicas": 4,
            "target_ongoing_requests": max(model.at_once for model in deployed.models),
        },
    }
    document: dict[str, Any] = {
        "proxy_location": "EveryNode",
        "http_options": {"host": "127.0.0.1", "port": 8000},
        "applications": [application],
    }
    packages = " and what requirements.lock names" if deployed.has_lock else ""
    about = (
        f"serve deploy deploy/ray/serve.yaml\nEvery node has models/ at {_REPOSITORY}, and tritonlab[ray]{packages} "
        "installed.\nThe ports are open on loopback; 0.0.0.0 lets others in, and Ray asks nobody for a token.\n"
        "RAY_worker_niceness=0 in the environment of `ray start`: otherwise replicas wait for all other programs."
    )
    return yaml_text(document, about=about)
