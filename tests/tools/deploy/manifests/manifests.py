"""What is wrong with manifests: by the schemas that are published, and between the files, which no schema sees."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema

from .deployments import read

_SCHEMAS = Path(__file__).with_name("schemas")
KUBERNETES = ("1.26", "1.37")
#: The fields of kustomize's files that we write.
_KUSTOMIZATION = {
    "type": "object",
    "additionalProperties": False,
    "required": ["apiVersion", "kind", "resources"],
    "properties": {
        "apiVersion": {"const": "kustomize.config.k8s.io/v1beta1"},
        "kind": {"const": "Kustomization"},
        "resources": {"type": "array", "items": {"type": "string"}},
        "images": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["name"],
                "properties": {key: {"type": "string"} for key in ("name", "newName", "newTag", "digest")},
            },
        },
    },
}
_BASE, _OVERLAY = "deploy/k8s/base", "deploy/k8s/overlays/prometheus"
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
    if path.endswith("/kustomization.yaml"):
        return [*_errors(document, _KUSTOMIZATION, path)]
    if path.endswith(("/pod-monitor.yaml", "/prometheus-rule.yaml")):
        return [*_kind_errors(document, {"$defs": {}, **_schema("prometheus-operator")}, path)]
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


def security_errors(spec: Mapping[str, Any], container: Mapping[str, Any], pod: Mapping[str, Any]) -> Iterator[str]:
    """Yield what the Pod Security Standard `restricted` refuses, and what a read-only root needs. `pod`: the security
    context of the pod."""
    own = container.get("securityContext", {})
    both = {**pod, **own}
    if both.get("runAsNonRoot") is not True or both.get("runAsUser") == 0:
        yield "it may run as root"
    if own.get("allowPrivilegeEscalation") is not False or own.get("capabilities") != {"drop": ["ALL"]}:
        yield "it may gain privileges"
    if both.get("seccompProfile", {}).get("type") not in ("RuntimeDefault", "Localhost"):
        yield "it has no seccomp profile"
    if own.get("readOnlyRootFilesystem") is not True:
        yield "its root can be written to"
    mounts = {mount["mountPath"]: mount["name"] for mount in container.get("volumeMounts", ())}
    if {"name": mounts.get("/tmp"), "emptyDir": {}} not in spec.get("volumes", ()):
        yield "Triton does not start without a writable /tmp"
    if spec.get("hostNetwork") or spec.get("hostPID") or any("hostPath" in each for each in spec.get("volumes", ())):
        yield "it sees the node"


def kubernetes_errors(files: Mapping[str, str | bytes], least_mib: int) -> list[str]:
    """Return what does not fit together in `deploy/k8s`, and with the adapter's rule."""
    names = ("deployment", "service", "network-policy", "pod-disruption-budget", "kustomization")
    deployment, service, policy, budget, base = (read(files[f"{_BASE}/{name}.yaml"]) for name in names)
    pod = deployment["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    found = [*shm_errors(pod["spec"], container, least_mib), *port_errors(container)]
    found += security_errors(pod["spec"], container, pod["spec"].get("securityContext", {}))
    found += [f"no {kind}" for kind in ("startupProbe", "readinessProbe", "livenessProbe") if kind not in container]
    labels = pod["metadata"]["labels"].items()
    monitor, rules = (read(files[f"{_OVERLAY}/{name}.yaml"])["spec"] for name in ("pod-monitor", "prometheus-rule"))
    selectors = [service["spec"]["selector"], deployment["spec"]["selector"]["matchLabels"]]
    selectors += [each["matchLabels"] for each in (policy["spec"]["podSelector"], budget["spec"]["selector"])]
    selectors.append(monitor["selector"]["matchLabels"])
    found += [f"{selector} does not select the pod" for selector in selectors if not selector.items() <= labels]
    ports = {port["name"] for port in container["ports"]}
    offered = {port["targetPort"]: port["port"] for port in service["spec"]["ports"]}
    found += [f"the Service's {target} is not a port of the container" for target in offered if target not in ports]
    if set(offered.values()) != set(_DEFAULTS.values()):
        found.append("the Service does not have the ports of Triton")
    if {port["port"] for rule in policy["spec"]["ingress"] for port in rule["ports"]} != ports:
        found.append("the network policy has other ports")
    if [each["port"] for each in monitor["podMetricsEndpoints"]] != ["metrics"]:
        found.append("Prometheus scrapes another port")
    if rules["groups"] != read(files["deploy/monitoring/alerts.yaml"])["groups"]:
        found.append("the Prometheus Operator has other rules")
    found += [f"{path} is not there" for path in _absent(files)]
    image, _, tag = container["image"].partition(":")
    if [(each["name"], each["newTag"]) for each in base["images"]] != [(image, tag)]:
        found.append("kustomize replaces another image")
    annotations = pod["metadata"]["annotations"]
    if annotations["prometheus.io/port"] != str(_DEFAULTS["metrics"]):
        found.append("Prometheus scrapes another port")
    return [*found, *_scaling_errors(files, deployment)]


def _absent(files: Mapping[str, str | bytes]) -> Iterator[str]:
    """Yield the resources of kustomize's files that are not there, and the files that none of them names."""
    named = set()
    for place in (_BASE, _OVERLAY):
        for resource in read(files[f"{place}/kustomization.yaml"])["resources"]:
            named.add(posixpath.normpath(f"{place}/{resource}"))
    there = {path for path in files if path.startswith(("deploy/k8s/base/", "deploy/k8s/overlays/"))}
    yield from named ^ {path for path in there if not path.endswith("/kustomization.yaml")} ^ {_BASE}


def _scaling_errors(files: Mapping[str, str | bytes], deployment: Any) -> Iterator[str]:
    if f"{_OVERLAY}/hpa.yaml" not in files:
        if deployment["spec"].get("replicas") != 1 or deployment["spec"]["strategy"] != {"type": "Recreate"}:
            yield "two pods may share a sequence"
        return
    hpa = read(files[f"{_OVERLAY}/hpa.yaml"])
    if "replicas" in deployment["spec"]:
        yield "every apply sets back what the autoscaler has done"
    reference = hpa["spec"]["scaleTargetRef"]
    if any(reference[key] != deployment[key] for key in ("apiVersion", "kind")):
        yield "the autoscaler scales another kind"
    if reference["name"] != deployment["metadata"]["name"]:
        yield "the autoscaler scales another Deployment"
    (rule,) = read(files["deploy/monitoring/prometheus-adapter.yaml"])["rules"]["custom"]
    if hpa["spec"]["metrics"][0]["pods"]["metric"]["name"] != rule["name"]["as"]:
        yield "the adapter does not make the autoscaler's metric"


def kserve_errors(files: Mapping[str, str | bytes], least_mib: int) -> list[str]:
    """Return what does not fit together in `deploy/kserve`."""
    runtime, service = (read(files[f"deploy/kserve/{name}.yaml"]) for name in ("serving-runtime", "inference-service"))
    (container,) = runtime["spec"]["containers"]
    found = [*shm_errors(runtime["spec"], container, least_mib), *port_errors(container)]
    predictor = service["spec"]["predictor"]
    found += security_errors(runtime["spec"], container, predictor.get("securityContext", {}))
    is_raw = service["metadata"]["annotations"]["serving.kserve.io/deploymentMode"] == "RawDeployment"
    if (len(container["ports"]) > 1) is not is_raw:
        found.append("Knative has one port, a Deployment both")
    if ("grpc-v2" in runtime["spec"]["protocolVersions"]) is not is_raw:
        found.append("the runtime has another protocol")
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
    if any(not port.startswith("127.0.0.1:") for port in service["ports"]):
        found.append("others than this machine reach the ports")
    if not service.get("read_only") or "/tmp" not in service.get("volumes", ()):
        found.append("the root can be written to, or /tmp cannot")
    if service.get("cap_drop") != ["ALL"] or "no-new-privileges:true" not in service.get("security_opt", ()):
        found.append("it may gain privileges")
    if int(service.get("stop_grace_period", "10s").removesuffix("s")) <= 30:
        found.append("Triton is killed before it has ended its requests")
    if {int(port.split(":")[-1]) for port in service["ports"]} != set(_DEFAULTS.values()):
        found.append("the ports are not those of Triton")
    if "http://localhost:8000/v2/health/ready" not in " ".join(service.get("healthcheck", {}).get("test", ())):
        found.append("the healthcheck does not ask whether Triton is ready")
    return found
