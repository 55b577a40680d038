"""The files of a deployment, each rendered from the template of its name, and the writing of them."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from ....core.quoting import go_template_text, json_text, markdown_code, one_line, yaml_scalar
from ....core.whole_file import write_file
from ....server.api.openapi import openapi_document
from ....server.models.backends import DEFAULT_DIRECTORY
from .facts import LEAST_SHM_MIB, Deployment
from .operator_facts import example_command, tensors_in
from .programs import programs

if TYPE_CHECKING:
    from jinja2 import Environment

#: The kinds to choose from, and the files of each, relative to the directory that holds `models/`.
KINDS: dict[str, tuple[str, ...]] = {
    "docker": ("deploy/Dockerfile", "deploy/compose.yaml"),
    "k8s": (
        "deploy/Dockerfile",
        "deploy/k8s/checkov.yaml",
        "deploy/k8s/base/kustomization.yaml",
        "deploy/k8s/base/deployment.yaml",
        "deploy/k8s/base/service.yaml",
        "deploy/k8s/base/network-policy.yaml",
        "deploy/k8s/base/pod-disruption-budget.yaml",
        "deploy/k8s/overlays/prometheus/kustomization.yaml",
        "deploy/k8s/overlays/prometheus/hpa.yaml",
        "deploy/k8s/overlays/prometheus/pod-monitor.yaml",
        "deploy/k8s/overlays/prometheus/prometheus-rule.yaml",
        "deploy/monitoring/prometheus-adapter.yaml",
    ),
    "kserve": (
        "deploy/Dockerfile",
        "deploy/kserve/serving-runtime.yaml",
        "deploy/kserve/inference-service.yaml",
    ),
    "ray": ("deploy/ray/serve.yaml",),
}
#: The files that scale pods, which is refused for sequences: a pod more or less would tear them apart.
_SCALING = {"deploy/k8s/overlays/prometheus/hpa.yaml", "deploy/monitoring/prometheus-adapter.yaml"}
_ALWAYS = ("deploy/monitoring/alerts.yaml", "deploy/monitoring/dashboard.json")
#: The queue time, in microseconds, above which pods are added. It is a choice, to be changed in `hpa.yaml`.
TARGET_MICROSECONDS = 50_000
#: The name of the queue time as a metric of Kubernetes.
METRIC = "triton_queue_time_us"
#: Parts of the names of counters for failures.
_FAILURES = re.compile(r"error|fail|drop|reject|invalid|timeout|timed_out", re.IGNORECASE)


def deploy_files(deployed: Deployment, kinds: Collection[str] = tuple(KINDS)) -> dict[str, str | bytes]:
    """Return the files by their paths relative to the directory that holds `models/`, sorted. Equal facts give equal
    files.

    Raises ValueError for a kind that is not one of KINDS, no model, or models that a kind cannot serve.
    """
    for kind in kinds:
        if kind not in KINDS:
            raise ValueError(f"'{kind}' is not a kind of deploy files; name some of {', '.join(KINDS)}")
    if not deployed.models:
        raise ValueError("there is no model to deploy")
    if "ray" in kinds:
        _check_ray(deployed)
    found = {**programs(deployed), **_openapi(deployed)}
    paths = {*_ALWAYS, *(path for kind in kinds for path in KINDS[kind]), "README.md"}
    paths -= _SCALING if deployed.keeps_sequences else set()
    files = found | {path: render(path, deployed, kinds, programs=found) for path in paths}
    return dict(sorted(files.items()))


def _openapi(deployed: Deployment) -> dict[str, str | bytes]:
    """Return the file with the OpenAPI document of the models; none if no config has inputs and outputs."""
    configs = [model.config for model in deployed.models if model.config.get("input") and model.config.get("output")]
    if not configs:
        return {}
    document = openapi_document(configs, title=deployed.name, url="http://localhost:8000")
    document["info"]["version"] = deployed.version or document["info"]["version"]
    return {"openapi.json": json.dumps(document, indent=1, ensure_ascii=False) + "\n"}


def render(path: str, deployed: Deployment, kinds: Collection[str] = (), *, programs: Collection[str] = ()) -> str:
    """Return the text of one file. The README covers only `kinds` and `programs`."""
    template = _templates().get_template(f"{path.removeprefix('deploy/')}.j2")
    return template.render(deployed=deployed, kinds=kinds, programs=programs)


@functools.cache
def _templates() -> Environment:
    """Return the templates. In them, names and texts of a model pass through the filter of the file's language."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # imported for deploy files only: 47 ms

    found = Environment(
        loader=FileSystemLoader(Path(__file__).with_name("templates")),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    found.filters |= {
        "code": markdown_code,
        "example": example_command,
        "go": go_template_text,
        "json": functools.partial(json.dumps, ensure_ascii=False),
        "line": one_line,
        "yaml": yaml_scalar,
    }
    found.tests["of_failures"] = _FAILURES.search
    found.globals |= {
        "BACKENDS": DEFAULT_DIRECTORY,
        "LEAST_SHM_MIB": LEAST_SHM_MIB,
        "METRIC": METRIC,
        "TARGET_MICROSECONDS": TARGET_MICROSECONDS,
        "of_models": of_models,
        "tensors_in": tensors_in,
    }
    return found


def of_models(names: Iterable[str]) -> str:
    """Return the selector of models by their names, for a Prometheus expression."""
    pattern = "|".join("".join(map(_of_pattern, name)) for name in names)
    return f"{{model=~{json_text(pattern)}}}"


def _of_pattern(character: str) -> str:
    """Return the pattern of one character. Grafana replaces `$name` in an expression, even after a backslash."""
    if character == "$" or not character.isprintable():
        return f"\\x{{{ord(character):x}}}"
    return f"\\{character}" if character in ".+*?()[]{}|^\\" else character


def _check_ray(deployed: Deployment) -> None:
    """Raise ValueError for a model that keeps sequences, as Ray Serve replicas cannot share them, and for a
    Python-based backend."""
    if deployed.backends:
        raise ValueError(
            f"the Python-based backend '{deployed.backends[0]}' runs a model of this export, and the replicas of Ray "
            "Serve have no backend directory; deploy it with docker, k8s or kserve"
        )
    for model in deployed.models:
        if model.keeps_sequences:
            raise ValueError(
                f"the model '{model.name}' keeps sequences, and Ray Serve sends the requests of one sequence to "
                "different replicas; deploy it with docker, k8s or kserve"
            )


def write_deploy_files(directory: Path, deployed: Deployment, kinds: Collection[str] = tuple(KINDS)) -> None:
    """Write the files below `directory`, replacing files of the same names."""
    for name, content in deploy_files(deployed, kinds).items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, content.encode() if isinstance(content, str) else content)
        if path.suffix == ".sh":
            path.chmod(0o755)
