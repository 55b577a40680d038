"""The files of a deployment as one table, and how they get to the disk."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path

from . import docker, kserve, kubernetes, monitoring, ray
from .facts import Deployment
from .programs import programs
from .readme import readme

#: What can be chosen, and the files of each, relative to the directory that holds `models/`.
KINDS: dict[str, dict[str, Callable[[Deployment], str]]] = {
    "docker": {"deploy/Dockerfile": docker.dockerfile, "deploy/compose.yaml": docker.compose},
    "k8s": {
        "deploy/Dockerfile": docker.dockerfile,
        "deploy/k8s/deployment.yaml": kubernetes.deployment,
        "deploy/k8s/service.yaml": kubernetes.service,
        "deploy/k8s/hpa.yaml": kubernetes.autoscaler,
        "deploy/monitoring/prometheus-adapter.yaml": monitoring.adapter_rule,
    },
    "kserve": {
        "deploy/Dockerfile": docker.dockerfile,
        "deploy/kserve/serving-runtime.yaml": kserve.serving_runtime,
        "deploy/kserve/inference-service.yaml": kserve.inference_service,
    },
    "ray": {"deploy/ray/serve.yaml": ray.serve_config},
}
_ALWAYS: dict[str, Callable[[Deployment], str]] = {
    "deploy/monitoring/alerts.yaml": monitoring.alert_rules,
    "deploy/monitoring/dashboard.json": monitoring.dashboard,
}


def deploy_files(deployed: Deployment, kinds: Collection[str] = tuple(KINDS)) -> dict[str, str | bytes]:
    """Return the files by their paths relative to the directory that holds `models/`, sorted. Equal facts give equal
    files.

    Raises ValueError for a kind that is not one of KINDS, or no model.
    """
    for kind in kinds:
        if kind not in KINDS:
            raise ValueError(f"'{kind}' is not a kind of deploy files; name some of {', '.join(KINDS)}")
    if not deployed.models:
        raise ValueError("there is no model to deploy")
    makers = dict(_ALWAYS)
    for kind in kinds:
        makers |= KINDS[kind]
    files: dict[str, str | bytes] = {path: make(deployed) for path, make in makers.items()}
    files |= programs(deployed)
    files["README.md"] = readme(deployed, [kind for kind in KINDS if kind in kinds], files)
    return dict(sorted(files.items()))


def write_deploy_files(
    directory: Path, deployed: Deployment, kinds: Collection[str] = tuple(KINDS), overwrite: bool = False
) -> list[Path]:
    """Write the files below `directory`, which holds `models/`, and return those that were new or changed.

    Raises FileExistsError, and writes nothing, if one of them is there with other contents; `overwrite` replaces it.
    """
    files = deploy_files(deployed, kinds)
    contents = {directory / name: text.encode() if isinstance(text, str) else text for name, text in files.items()}
    changed = [path for path, data in contents.items() if not (path.is_file() and path.read_bytes() == data)]
    there = [path for path in changed if path.exists()]
    if there and not overwrite:
        raise FileExistsError(f"{there[0]} exists and differs")
    for path in changed:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(contents[path])
        if path.suffix == ".sh":
            path.chmod(0o755)
    return changed
