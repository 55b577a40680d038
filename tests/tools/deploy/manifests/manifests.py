"""What is wrong with manifests: by the schemas that are published, and between the files, which no schema sees."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema

from .deployments import read

_SCHEMAS = Path(__file__).with_name("schemas")
KUBERNETES = ("1.26", "1.37")
#: What Triton listens on unless its command says otherwise.
_DEFAULTS = {"http": 8000, "grpc": 8001, "metrics": 8002}


@cache
def _schema(name: str) -> Any:
    return json.loads((_SCHEMAS / f"{name}.json").read_text())


def _errors(document: Any, schema: Any, name: str) -> Iterator[str]:
    for error in jsonschema.Draft202012Validator(schema).iter_errors(document):
        yield f"{name}: {error.json_path}: {error.message}"


def schema_errors(path: str, text: str | bytes) -> list[str]:
    """Return what the schemas refuse. A kind or version of Kubernetes without a schema is an error."""
    document = read(text)
    if path == "deploy/compose.yaml":
        return [*_errors(document, _schema("compose"), path)]
    if path.startswith("deploy/kserve/"):
        containers = _schema(f"kubernetes-{KUBERNETES[-1]}")["$defs"]
        return [*_kind_errors(document, {**_schema("kserve"), "$defs": containers}, path)]
    return [error for version in KUBERNETES for error in _kind_errors(document, _schema(f"kubernetes-{version}"), path)]


def _kind_errors(document: Any, schemas: Any, path: str) -> Iterator[str]:
    group, _, version = document["apiVersion"].rpartition("/")
    key = "-".join(part for part in (document["kind"].lower(), group.partition(".")[0], version) if part)
    if key not in schemas["kinds"]:
        yield f"{path}: no schema for {key}"
        return
    yield from _errors(document, {**schemas["kinds"][key], "$defs": schemas["$defs"]}, path)


def shm_errors(spec: Mapping[str, Any], container: Mapping[str, Any], least_mib: int) -> Iterator[str]:
    """Yield what is wrong with /dev/shm of a container."""
    mounts = [mount["name"] for mount in container.get("volumeMounts", ()) if mount["mountPath"] == "/dev/shm"]
    volumes = {volume["name"]: volume for volume in spec.get("volumes", ())}
    if len(mounts) != 1 or mounts[0] not in volumes:
        yield "no volume is mounted at /dev/shm"
        return
    empty = volumes[mounts[0]].get("emptyDir", {})
    size = re.fullmatch(r"(\d+)Mi", empty.get("sizeLimit", ""))
    if empty.get("medium") != "Memory" or size is None or int(size[1]) < least_mib:
        yield f"/dev/shm is not {least_mib} MiB of memory: {empty}"


def port_errors(container: Mapping[str, Any]) -> Iterator[str]:
    """Yield ports and probes that do not meet what Triton listens on."""
    flags = dict(re.findall(r"--(\w+)-port=(\d+)", " ".join(container["command"])))
    listening = {name: int(flags.get(name, port)) for name, port in _DEFAULTS.items()}
    named = {port.get("name", "http"): port["containerPort"] for port in container["ports"]}
    for name, port in named.items():
        if listening.get(name) != port:
            yield f"port {name} is {port}; Triton listens on {listening.get(name)}"
    for kind in ("startupProbe", "readinessProbe", "livenessProbe"):
        if kind in container:
            probe = container[kind]["httpGet"]
            if named.get(probe["port"], probe["port"]) != listening["http"]:
                yield f"{kind} asks port {probe['port']}"
            if probe["path"] not in ("/v2/health/ready", "/v2/health/live"):
                yield f"{kind} asks {probe['path']}"


def kubernetes_errors(files: Mapping[str, str | bytes], least_mib: int) -> list[str]:
    """Return what does not fit together in `deploy/k8s`, and with the adapter's rule."""
    names = ("deployment", "service", "hpa")
    deployment, service, hpa = (read(files[f"deploy/k8s/{name}.yaml"]) for name in names)
    pod = deployment["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    found = [*shm_errors(pod["spec"], container, least_mib), *port_errors(container)]
    found += [f"no {kind}" for kind in ("startupProbe", "readinessProbe", "livenessProbe") if kind not in container]
    labels = pod["metadata"]["labels"].items()
    selectors = (service["spec"]["selector"], deployment["spec"]["selector"]["matchLabels"])
    found += [f"{selector} does not select the pod" for selector in selectors if not selector.items() <= labels]
    ports = {port["name"] for port in container["ports"]}
    offered = {port["targetPort"]: port["port"] for port in service["spec"]["ports"]}
    found += [f"the Service's {target} is not a port of the container" for target in offered if target not in ports]
    if set(offered.values()) != set(_DEFAULTS.values()):
        found.append("the Service does not have the ports of Triton")
    annotations = pod["metadata"]["annotations"]
    if annotations["prometheus.io/port"] != str(_DEFAULTS["metrics"]):
        found.append("Prometheus scrapes another port")
    reference = hpa["spec"]["scaleTargetRef"]
    if any(reference[key] != deployment[key] for key in ("apiVersion", "kind")):
        found.append("the autoscaler scales another kind")
    if reference["name"] != deployment["metadata"]["name"]:
        found.append("the autoscaler scales another Deployment")
    (rule,) = read(files["deploy/monitoring/prometheus-adapter.yaml"])["rules"]["custom"]
    if hpa["spec"]["metrics"][0]["pods"]["metric"]["name"] != rule["name"]["as"]:
        found.append("the adapter does not make the autoscaler's metric")
    return found


def kserve_errors(files: Mapping[str, str | bytes], least_mib: int) -> list[str]:
    """Return what does not fit together in `deploy/kserve`."""
    runtime, service = (read(files[f"deploy/kserve/{name}.yaml"]) for name in ("serving-runtime", "inference-service"))
    (container,) = runtime["spec"]["containers"]
    found = [*shm_errors(runtime["spec"], container, least_mib), *port_errors(container)]
    model = service["spec"]["predictor"]["model"]
    if model["runtime"] != runtime["metadata"]["name"]:
        found.append("the InferenceService names another runtime")
    formats = [{key: item[key] for key in ("name", "version")} for item in runtime["spec"]["supportedModelFormats"]]
    if model["modelFormat"] not in formats or model["protocolVersion"] not in runtime["spec"]["protocolVersions"]:
        found.append("the runtime does not have the model's format or protocol")
    if container["name"] != "kserve-container":
        found.append("KServe adds nothing to a container of another name")
    return found


def compose_errors(text: str | bytes, least_mib: int) -> list[str]:
    """Return what is wrong with the one service of a compose file."""
    (service,) = read(text)["services"].values()
    found = []
    if int(str(service.get("shm_size", "0m")).removesuffix("m")) < least_mib:
        found.append("shm_size is too small")
    if {int(port.split(":")[1]) for port in service["ports"]} != set(_DEFAULTS.values()):
        found.append("the ports are not those of Triton")
    if "http://localhost:8000/v2/health/ready" not in " ".join(service.get("healthcheck", {}).get("test", ())):
        found.append("the healthcheck does not ask whether Triton is ready")
    return found
