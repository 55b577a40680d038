"""The Dockerfile, and the compose file that runs its image on one machine."""

from __future__ import annotations

from typing import Any

from ....server.models.backends import DEFAULT_DIRECTORY
from .facts import Deployment
from .yaml_text import yaml_text

#: The ports of HTTP, gRPC and metrics, by the names that Services give them.
PORTS = {"http": 8000, "grpc": 8001, "metrics": 8002}
#: Python is in every image that has the Python backend; curl need not be.
_ASK_READY = (
    "import urllib.request as r; r.urlopen('http://localhost:8000/v2/health/ready', timeout=5)"  # 4xx and 5xx raise
)


def server_command(repository: str = "/models") -> list[str]:
    return ["tritonserver", f"--model-repository={repository}"]


def dockerfile(deployed: Deployment) -> str:
    """Return the Dockerfile; it is built in the directory that holds `models/`."""
    install = (
        "# images with Python 3.12 refuse pip beside the system's packages unless this is set; older pip ignores it\n"
        "ENV PIP_BREAK_SYSTEM_PACKAGES=1\n"
        "COPY requirements.lock /opt/requirements.lock\n"
        "RUN python3 -m pip install --no-cache-dir -r /opt/requirements.lock\n"
    )
    command = ", ".join(f'"{word}"' for word in server_command())
    return (
        f"# docker build -t {deployed.image} -f deploy/Dockerfile .    (in the directory of models/)\n"
        f"FROM {deployed.base_image}\n"
        "# packages in the home of a user are not part of what was tested\n"
        "ENV PYTHONNOUSERSITE=1\n" + (install if deployed.has_lock else "")
        + (f"COPY --chown=1000:1000 backends {DEFAULT_DIRECTORY}\n" if deployed.backends else "")
        + "COPY --chown=1000:1000 models /models\n"
        "USER 1000:1000\n"
        f"EXPOSE {' '.join(str(port) for port in PORTS.values())}\n"
        f"CMD [{command}]\n"
    )


def compose(deployed: Deployment) -> str:
    """Return the compose file."""
    service: dict[str, Any] = {
        "build": {"context": "..", "dockerfile": "deploy/Dockerfile"},
        "image": deployed.image,
        "ports": [f"{port}:{port}" for port in PORTS.values()],
        "shm_size": f"{deployed.shm_mib}m",
        "restart": "unless-stopped",
        "healthcheck": {
            "test": ["CMD", "python3", "-c", _ASK_READY],
            "interval": "10s",
            "timeout": "6s",
            "retries": 3,
            "start_period": "300s",
        },
    }
    if deployed.on_gpu:
        gpu = {"driver": "nvidia", "count": 1, "capabilities": ["gpu"]}
        service["deploy"] = {"resources": {"reservations": {"devices": [gpu]}}}
    about = (
        "docker compose -f deploy/compose.yaml up --build\n"
        "shm_size: tensors pass through /dev/shm, where Docker's default is 64 MB."
    )
    return yaml_text({"services": {"triton": service}}, about=about)
