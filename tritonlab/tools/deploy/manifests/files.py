"""The files of a deployment as one table, the programs among them, and how they get to the disk."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path

from ....core.quoting import file_stem, one_line
from ....core.whole_file import write_file
from ....exchanges.literal import TooLarge
from ....exchanges.snippets import Address, NotSendable, copy_as, recorded_tests
from . import docker, kubernetes, monitoring, ray
from .facts import DeployedModel, Deployment
from .readme import readme

_ADDRESS = Address("localhost:8000", "localhost:8001", is_default=True)

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
        "deploy/kserve/serving-runtime.yaml": kubernetes.serving_runtime,
        "deploy/kserve/inference-service.yaml": kubernetes.inference_service,
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
        write_file(path, contents[path])
        if path.suffix == ".sh":
            path.chmod(0o755)
    return changed


def programs(deployed: Deployment) -> dict[str, str | bytes]:
    """Return the programs by their names; none for models without recorded requests. `client.py` and `client.sh` call
    the first model, `client_<model>.py` and `.sh` the others."""
    files: dict[str, str | bytes] = {}
    for number, model in enumerate(deployed.models):
        stem = f"client_{file_stem(model.name)}" if number else "client"
        if f"{stem}.py" in files:  # of another name with other signs
            stem += f"_{number}"
        files |= {f"{stem}{suffix}": text for suffix, text in _clients(model)}
    files |= _tests(deployed)
    return files


def _clients(model: DeployedModel) -> Iterator[tuple[str, str]]:
    """Write the first recorded request that fits into the text of a program."""
    kinds = {".py": "tritonclient gRPC" if model.is_decoupled else "tritonclient HTTP"}
    if not model.is_decoupled:  # HTTP has one response for each request
        kinds[".sh"] = "curl"
    for suffix, kind in kinds.items():
        for recorded in model.recorded:
            try:
                text = copy_as(kind, recorded, model.config, _ADDRESS).text
            except (TooLarge, NotSendable):
                continue
            yield suffix, _shell(model, text) if suffix == ".sh" else _python(model, text)
            break


def _python(model: DeployedModel, text: str) -> str:
    variable, extra = ("TRITON_GRPC", "grpc") if model.is_decoupled else ("TRITON_HTTP", "http")
    address = _ADDRESS.grpc if model.is_decoupled else _ADDRESS.http
    return (
        f'"""A request to the model: pip install tritonclient[{extra}]\n\n'
        f'The server is at ${variable}, or {address}.\n"""\n\n{text}'
    )


def _shell(model: DeployedModel, text: str) -> str:
    return (
        "#!/bin/sh\n"
        f"# A request to the model {one_line(model.name)}. The server is at $TRITON_HTTP, or {_ADDRESS.http}.\n"
        "# It ends with a status that is not 0 if the server answers with an error. curl 7.76 or newer.\n"
        f"{text}"
    )


def _tests(deployed: Deployment) -> Mapping[str, str | bytes]:
    cases = [(recorded, model.config) for model in deployed.models for recorded in model.recorded]
    if not cases:
        return {}
    tests = recorded_tests("test_models", cases, _ADDRESS)
    return {tests.name: tests.text, **tests.files}
